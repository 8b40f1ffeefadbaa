// As much of `kustomize build` as repositories for Flux need: resources, folders, namespace, and
// the kustomization.yaml that Flux makes up where there is none.
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/flux/flux.hpp"
#include "lab/kube/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::lab::flux {

using kube::set_at;
using kube::str;
using kube::text_at;
using text::Value;

namespace {

constexpr const char* root = "/tmp/kustomization-1";

struct Broken {
  std::string text;
};

/// `a/./b/../c` is `a/c`; "" is the top.
std::string clean(const std::string& path) {
  std::vector<std::string> parts;
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty())
      parts.pop_back();
    else
      parts.push_back(part);
  }
  return join(parts, "/");
}

bool is_yaml(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml");
}

class Builder {
 public:
  explicit Builder(const std::map<std::string, std::string>& files) : files_(files) {}

  std::vector<Value> folder(const std::string& path) {
    const std::string inside = path.empty() ? "" : path + "/";
    for (const char* name : {"kustomization.yaml", "kustomization.yml", "Kustomization"})
      if (const auto found = files_.find(inside + name); found != files_.end())
        return kustomization(path, found->first, found->second);
    std::vector<Value> all;
    std::set<std::string> folders;
    for (const auto& [name, text] : files_) {
      if (!name.starts_with(inside)) continue;
      const std::string rest = name.substr(inside.size());
      const std::size_t slash = rest.find('/');
      if (slash != std::string::npos) {
        folders.insert(rest.substr(0, slash));
      } else if (is_yaml(rest)) {
        add(all, file(name, text), "./" + rest, path);
      }
    }
    for (const std::string& each : folders) add(all, folder(inside + each), "./" + each, path);
    return all;
  }

 private:
  bool is_folder(const std::string& path) const {
    const auto below = files_.lower_bound(path + "/");
    return path.empty() || (below != files_.end() && below->first.starts_with(path + "/"));
  }

  std::vector<Value> kustomization(const std::string& path, const std::string& name,
                                   const std::string& text) {
    const Value wanted = parse(name, text).empty() ? Value::map() : parse(name, text).front();
    static const std::set<std::string> known{"apiVersion",   "kind",      "metadata",
                                             "resources",    "namespace", "components",
                                             "commonLabels", "labels"};
    for (const text::Entry& entry : wanted.entries())
      if (!known.contains(entry.key))
        throw Broken{
            fmt::format("the lab's kustomize does not know `{}` ({}/{})", entry.key, root, name)};
    std::vector<Value> all;
    for (const char* list : {"resources", "components"})
      if (const Value* resources = wanted.find(list); resources != nullptr && resources->is_list())
        for (const Value& each : resources->items()) {
          const std::string at = clean(path + "/" + each.text());
          if (const auto found = files_.find(at); found != files_.end())
            add(all, file(at, found->second), each.text(), path);
          else if (is_folder(at))
            add(all, folder(at), each.text(), path);
          else
            throw Broken{fmt::format(
                "accumulating resources: accumulation err='accumulating resources from '{0}': open "
                "{1}/{2}: no such file or directory': must build at directory: not a valid "
                "directory: evalsymlink failure on '{1}/{2}' : lstat {1}/{2}: no such file or "
                "directory",
                each.text(), root, at)};
        }
    const std::string space = text_at(wanted, {"namespace"});
    for (Value& object : all) {
      if (!space.empty() && text_at(object, {"kind"}) != "Namespace")
        set_at(object, {"metadata", "namespace"}, str(space));
      if (const Value* labels = wanted.find("commonLabels"))
        for (const text::Entry& label : labels->entries())
          set_at(object, {"metadata", "labels", label.key}, label.value);
      if (const Value* sets = wanted.find("labels"))
        for (const Value& one : sets->items())
          if (const Value* pairs = one.find("pairs"))
            for (const text::Entry& label : pairs->entries())
              set_at(object, {"metadata", "labels", label.key}, label.value);
    }
    return all;
  }

  static std::vector<Value> parse(const std::string& name, const std::string& text) {
    try {
      return text::parse_yaml_stream(text, fmt::format("{}/{}", root, name));
    } catch (const Error& error) {
      throw Broken{
          fmt::format("accumulating resources: accumulation err='accumulating resources "
                      "from '{}': MalformedYAMLError: yaml: {}'",
                      name.substr(name.rfind('/') + 1), error.message())};
    }
  }

  static std::vector<Value> file(const std::string& name, const std::string& text) {
    std::vector<Value> all;
    for (Value& document : parse(name, text)) {
      if (!document.is_map() || document.size() == 0) continue;
      if (text_at(document, {"kind"}) == "List") {
        if (const Value* items = document.find("items"))
          for (const Value& item : items->items()) all.push_back(item);
        continue;
      }
      if (text_at(document, {"kind"}).empty() || text_at(document, {"metadata", "name"}).empty())
        throw Broken{
            fmt::format("accumulating resources: accumulation err='accumulating resources "
                        "from './{}': missing metadata.name in object",
                        name.substr(name.rfind('/') + 1))};
      all.push_back(std::move(document));
    }
    return all;
  }

  void add(std::vector<Value>& all, std::vector<Value> more, const std::string& from,
           const std::string& path) const {
    for (Value& object : more) {
      const std::string api_version = text_at(object, {"apiVersion"});
      const std::size_t slash = api_version.find('/');
      const std::string group =
          slash == std::string::npos ? "[noGrp]" : api_version.substr(0, slash);
      const std::string version =
          slash == std::string::npos ? api_version : api_version.substr(slash + 1);
      const auto id = [](const Value& of) {
        return std::tuple{text_at(of, {"apiVersion"}), text_at(of, {"kind"}),
                          text_at(of, {"metadata", "namespace"}),
                          text_at(of, {"metadata", "name"})};
      };
      const bool twice = std::any_of(all.begin(), all.end(),
                                     [&](const Value& old) { return id(old) == id(object); });
      if (twice) {
        std::string space = text_at(object, {"metadata", "namespace"});
        if (space.empty()) space = "default";
        throw Broken{fmt::format(
            "accumulating resources: accumulation err='merging resources from '{}': may not add "
            "resource with an already registered id: {}.{}.{}/{}.{}': must build at directory: "
            "'{}/{}': file is not directory",
            from, text_at(object, {"kind"}), version, group, text_at(object, {"metadata", "name"}),
            space, root, clean(path + "/" + from))};
      }
      all.push_back(std::move(object));
    }
  }

  const std::map<std::string, std::string>& files_;
};

}  // namespace

BuildResult kustomize_build(const std::map<std::string, std::string>& files,
                            const std::string& path) {
  try {
    return {Builder{files}.folder(clean(path)), ""};
  } catch (const Broken& broken) {
    return {{}, "kustomize build failed: " + broken.text};
  }
}

int apply_rank(const std::string& kind) {
  static const std::vector<std::string> order{"CustomResourceDefinition",
                                              "Namespace",
                                              "ClusterRole",
                                              "ClusterClass",
                                              "RuntimeClass",
                                              "PriorityClass",
                                              "StorageClass",
                                              "VolumeSnapshotClass",
                                              "IngressClass",
                                              "GatewayClass",
                                              "ClusterRoleBinding",
                                              "ResourceQuota",
                                              "ServiceAccount",
                                              "Role",
                                              "RoleBinding",
                                              "ConfigMap",
                                              "Secret",
                                              "Service",
                                              "LimitRange",
                                              "Deployment",
                                              "StatefulSet",
                                              "CronJob",
                                              "PodDisruptionBudget"};
  if (kind == "MutatingWebhookConfiguration") return 1000;
  if (kind == "ValidatingWebhookConfiguration") return 1001;
  const auto found = std::find(order.begin(), order.end(), kind);
  return found == order.end() ? 100 : static_cast<int>(found - order.begin());
}

}  // namespace rocca::lab::flux
