#include "talosconfig/patch_check.hpp"

#include "base/error.hpp"
#include "talosconfig/delete.hpp"
#include "talosconfig/input.hpp"
#include "talosconfig/secrecy.hpp"
#include "talosconfig/validate.hpp"
#include "text/yaml.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

namespace rocca::talos {

namespace {

using Config = std::vector<ConfigDocument>;

/// What a path like `machine.sysctls.net.core.somaxconn` or `machine.disks[0].device` names in a
/// patch, as far as it goes. Keys hold dots, so the longest one that fits is taken.
struct Found {
  spec::Where where;
  std::size_t depth = 0;
};

void walk(const spec::Tree& tree, std::string_view path, Found& found) {
  if (path.starts_with('.')) path.remove_prefix(1);
  if (path.empty()) return;
  if (tree.is_list() && path.front() == '[') {
    const std::size_t close = path.find(']');
    std::size_t index = 0;
    for (std::size_t i = 1; i < close && i < path.size(); ++i) {
      if (path[i] < '0' || path[i] > '9') return;
      index = index * 10 + static_cast<std::size_t>(path[i] - '0');
    }
    // The index counts in the merged list, to which a patch's items are added at the end.
    if (close == std::string_view::npos || tree.items.empty()) return;
    const spec::Tree& item = *tree.items[std::min(index, tree.items.size() - 1)];
    found = {item.where, found.depth + 1};
    return walk(item, path.substr(close + 1), found);
  }
  const spec::Member* best = nullptr;
  for (const spec::Member& member : tree.members) {
    const std::size_t size = member.key.size();
    if (!path.starts_with(member.key)) continue;
    if (path.size() > size && path[size] != '.' && path[size] != '[') continue;
    if (best == nullptr || size > best->key.size()) best = &member;
  }
  if (best == nullptr) return;
  found = {best->where, found.depth + 1};
  walk(*best->value, path.substr(best->key.size()), found);
}

Found find_in(const spec::Patch& patch, std::string_view path) {
  // "HostnameConfig: auto" is the key `auto` of a document of that kind.
  std::string_view kind;
  if (const std::size_t colon = path.find(": "); colon != std::string_view::npos) {
    kind = path.substr(0, colon);
    path.remove_prefix(colon + 2);
  }
  Found best;
  for (const spec::TreePtr& tree : patch.trees) {
    const spec::TreePtr said = tree->find("kind");
    if ((said ? std::string_view{said->text} : std::string_view{}) != kind) continue;
    Found found{tree->where, 0};
    walk(*tree, path, found);
    if (!best.where.written() || found.depth > best.depth) best = found;
  }
  return best;
}

/// Is a problem at that path about this value? Checks name a document with its name
/// ("WireguardConfig/wg0: privateKey"), and some a list instead of its item.
bool is_about(const FoundValue& value, std::string path) {
  const std::size_t colon = path.find(": ");
  const std::size_t slash = path.find('/');
  if (colon != std::string::npos && slash < colon) path.erase(slash, colon - slash);
  return value.path == path ||
         (value.path.ends_with(']') && value.path.substr(0, value.path.rfind('[')) == path);
}

class Checker {
 public:
  Checker(const spec::Spec& spec, Diagnostics& diagnostics,
          const std::map<std::string, Secret>* secrets)
      : spec_(spec),
        diagnostics_(diagnostics),
        secrets_(secrets),
        minor_(static_cast<unsigned>(spec.talos.version->minor())) {}

  void check(const spec::Node& node) {
    if (node.patches.empty()) return;
    const bool with_secrets =
        std::any_of(node.patches.begin(), node.patches.end(),
                    [](const auto& patch) { return !patch->secrets.empty(); });
    if (secrets_ != nullptr && !with_secrets) return;  // nothing new comes to light
    std::vector<const void*> group{nullptr};
    if (node.control_plane()) group.push_back(&spec_);
    for (const auto& patch : node.patches) group.push_back(patch.get());
    if (!seen_.insert(std::move(group)).second) return;
    ConfigInput input = input_of(node);
    const std::vector<ConfigPatch> patches = std::move(input.patches);
    input.patches.clear();
    ConfigProblems ignored;
    Config config = decode_config(
        text::parse_yaml_stream(render_config(input).text.reveal(), "rendered"), minor_, ignored);
    const auto mode =
        image_platform(spec_, node) == "metal" ? ConfigMode::Metal : ConfigMode::Cloud;
    const ConfigProblems before = validate_documents(config, minor_, mode);
    bool whole = true;
    for (std::size_t i = 0; i < patches.size(); ++i)
      whole = apply(config, patches[i], *node.patches[i]) && whole;
    if (!whole) return;  // what follows from it is not worth saying
    const std::vector<FoundValue> stand_ins = values_equal_to(config, minor_, secret_stand_in);
    for (const FoundValue& one : stand_ins)
      if (one.open)
        blame(node,
              {.code = "secret-place",
               .path = one.path,
               .message = "no secret can stand here: plans, Talos and Kubernetes show this value",
               .place = {}});
    for (const ConfigProblem& problem : validate_documents(config, minor_, mode)) {
      const bool known = std::any_of(before.begin(), before.end(), [&](const ConfigProblem& other) {
        return other.code == problem.code && other.path == problem.path;
      });
      // Whether a secret is what Talos wants there shows when it is looked up.
      const bool unknown =
          std::any_of(stand_ins.begin(), stand_ins.end(),
                      [&](const FoundValue& one) { return is_about(one, problem.path); });
      if (!known && !unknown) blame(node, problem);
    }
  }

 private:
  /// As the node will have it, but for what only a cluster that runs can know.
  ConfigInput input_of(const spec::Node& node) const {
    Surroundings around;
    around.schematic = std::string(64, '0');
    around.install_disk = "disk";
    around.first_address = "192.0.2.1";
    around.tailscale_key = Secret::take("key");
    if (secrets_ != nullptr) {
      around.patch_secrets = *secrets_;
      return config_input(spec_, node, around);
    }
    // What a node is given is text, and Talos reads some of its texts as base64.
    for (const auto& patch : node.patches)
      for (const auto& secret : patch->secrets)
        around.patch_secrets.emplace(secret_key(*secret), Secret{std::string{secret_stand_in}});
    return config_input(spec_, node, around);
  }

  bool apply(Config& config, ConfigPatch patch, const spec::Patch& source) {
    patch.name = "patch";  // its place is told better than by a message that has only the text
    try {
      config = patched(std::move(config), patch, minor_);
      return true;
    } catch (const Error& error) {
      ConfigProblems problems;
      if (patch.form == ConfigPatch::Form::Merge) collect(patch, problems);
      for (const ConfigProblem& problem : problems)
        tell(source, find_in(source, problem.path).where, problem);
      if (problems.empty()) tell(error, source);
      return false;
    }
  }

  /// All that is wrong with the documents themselves; what they delete is another matter.
  void collect(const ConfigPatch& patch, ConfigProblems& problems) const {
    try {
      for (text::Value document : patch.documents) {
        const bool deletes = !take_deletions(document, patch.name).empty();
        if (!deletes || document.size() > 0) decode_document(document, minor_, problems);
      }
    } catch (const Error& error) {
      if (error.fault() != Fault::Usage) throw;
      problems.clear();  // a deletion that cannot be read; the caller reports it
    }
  }

  /// What was said of the patch as a whole, or of one operation of a JSON patch.
  void tell(const Error& error, const spec::Patch& source) {
    std::string message = error.message();
    if (message.starts_with("patch:")) {
      std::size_t end = std::string_view{"patch:"}.size();
      while (end < message.size() &&
             (message[end] == ':' || (message[end] >= '0' && message[end] <= '9')))
        ++end;
      message.erase(0, std::min(message.size(), end + 1));
    }
    spec::Where where = source.where;
    constexpr std::string_view operation = "operation ";
    if (message.starts_with(operation) && !source.trees.empty()) {
      const auto number = static_cast<std::size_t>(std::atoi(message.c_str() + operation.size()));
      const auto& items = source.trees.front()->items;
      if (number >= 1 && number <= items.size()) where = items[number - 1]->where;
    }
    tell(source, where, {"", "", std::move(message), {}, false});
  }

  void blame(const spec::Node& node, const ConfigProblem& problem) {
    const spec::Patch* guilty = node.patches.back().get();
    Found best{guilty->where, 0};
    for (const auto& patch : node.patches)
      if (const Found found = find_in(*patch, problem.path); found.depth > best.depth) {
        guilty = patch.get();
        best = found;
      }
    tell(*guilty, best.where, problem);
  }

  void tell(const spec::Patch& patch, const spec::Where& where, const ConfigProblem& problem) {
    const spec::Where& at = where.written() ? where : patch.where;
    const Position position = spec_.position(at);
    std::string message =
        problem.path.empty() ? problem.message : problem.path + ": " + problem.message;
    if (repeats_secret(message)) message = "what a secret in it holds is not what belongs here";
    if (!told_.emplace(position.file, position.line, position.column, message).second) return;
    Problem& added = problem.warning ? diagnostics_.warning(position, std::move(message))
                                     : diagnostics_.error(position, std::move(message));
    const bool open = problem.code == "secret-place";
    added.code = problem.warning ? "patch-warning" : open ? "secret-place" : "patch-refused";
    added.length = std::max<std::size_t>(at.length, 1);
    added.hint = open              ? "write the value itself"
                 : problem.warning ? "Talos would warn of it"
                 : problem.ours    ? "Talos would take it, and be wrong"
                                   : "Talos would refuse it";
  }

  bool repeats_secret(const std::string& message) const {
    if (secrets_ == nullptr) return false;
    std::vector<Secret> all;
    for (const auto& [key, secret] : *secrets_) all.push_back(secret);
    return holds_secret(message, all);
  }

  const spec::Spec& spec_;
  Diagnostics& diagnostics_;
  const std::map<std::string, Secret>* secrets_;  // nullptr: they are not looked up
  unsigned minor_;
  std::set<std::vector<const void*>> seen_;  // role and patches: a thousand nodes are a few groups
  std::set<std::tuple<std::string, std::size_t, std::size_t, std::string>> told_;
};

}  // namespace

void check_patches(const spec::Spec& spec, Diagnostics& diagnostics) {
  Checker checker{spec, diagnostics, nullptr};
  for (const spec::Node& node : spec.nodes) checker.check(node);
}

void check_patches(const spec::Spec& spec, const std::map<std::string, Secret>& secrets,
                   Diagnostics& diagnostics) {
  Checker checker{spec, diagnostics, &secrets};
  for (const spec::Node& node : spec.nodes) checker.check(node);
}

}  // namespace rocca::talos
