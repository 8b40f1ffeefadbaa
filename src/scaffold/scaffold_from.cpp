#include "base/error.hpp"
#include "base/strings.hpp"
#include "scaffold/scaffold_parts.hpp"
#include "spec/load.hpp"
#include "spec/locate.hpp"
#include "spec/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace rocca::spec {

namespace {

constexpr const char* schema_line = "# yaml-language-server: $schema=";

/// The identity of Infisical is a secret of two values: `{ secret: infisical }` stands for
/// infisical.clientId and infisical.clientSecret.
bool is_identity(const Tree& tree, const Member& member) {
  return member.key == "auth" && member.value->members.size() == 1 &&
         member.value->members.front().key == "secret" &&
         std::any_of(tree.members.begin(), tree.members.end(), [](const Member& each) {
           return each.key == "project" || each.key == "environment";
         });
}

void collect_references(const Tree& tree, std::set<std::string>& out) {
  for (const Member& member : tree.members) {
    if (is_identity(tree, member)) {
      for (const char* part : {"clientId", "clientSecret"})
        out.insert(fmt::format("{}.{}", member.value->members.front().value->text, part));
      continue;
    }
    if (member.key == "secret" && member.value->is_scalar() && tree.members.size() == 1)
      out.insert(member.value->text);
    collect_references(*member.value, out);
  }
  for (const TreePtr& item : tree.items) collect_references(*item, out);
}

/// The folder of the new cluster: for one of this repository where the old one's name stands in the
/// path, else beside it; for any other where `new` without --from puts it.
std::string new_folder(const std::string& root, const std::string& old_folder,
                       const std::string& old_name, const std::string& name) {
  const std::string clusters = below(root, "clusters");
  if (old_folder.starts_with(clusters + "/")) {
    auto parts = split(old_folder.substr(clusters.size() + 1), '/');
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      if (*part == old_name) {
        *part = name;
        return below(clusters, join(parts, "/"));
      }
    return below(folder_of(old_folder), name);
  }
  return below(clusters, name);
}

/// The files that a spec names, and where the new cluster finds them.
class Companions {
  using Changes = std::map<std::size_t, std::pair<std::size_t, std::string>>;  // where, up to, what

 public:
  Companions(Files& files, const Spec& spec, std::string folder, const RealPath& real)
      : files_(files), real_(real), old_(spec.folder), new_(std::move(folder)) {
    for (std::size_t i = 1; i < spec.files.size(); ++i) add(spec.files[i], true);
    const auto named = [&](const std::string& path) {
      const std::string full = path_below(old_, path);
      if (files_.status(full)) add(full, false);
    };
    if (spec.proxmox && spec.proxmox->ca_file) named(**spec.proxmox->ca_file);
    if (spec.talos.image.schematic) named(**spec.talos.image.schematic);
    for (const Node& node : spec.nodes)
      if (node.image && node.image->schematic) named(**node.image->schematic);
    for (const auto& item : spec.addons.manifests) named(*item);
    for (const auto& item : spec.kubernetes.cni.manifests) named(*item);
    for (const auto& item : spec.secret_files)
      if (const std::string full = path_below(old_, *item); !inside(full)) add(full, false);
  }

  /// A text of the other cluster with its paths made right for the new place.
  std::string text(const std::string& path, const std::string& moved_to, std::string text) const {
    Findings findings;
    findings.add_file(path, text);
    const TreePtr tree = parse_into(text, 0, "yaml-syntax", findings);
    Changes changes;
    if (tree) find_paths(*tree, folder_of(path), folder_of(moved_to), text, changes);
    for (auto change = changes.rbegin(); change != changes.rend(); ++change)
      text.replace(change->first, change->second.first - change->first, change->second.second);
    return text;
  }

  void copy(std::vector<NewFile>& out) const {
    for (const auto& [path, companion] : known_) {
      if (!companion.copied) continue;
      const auto status = files_.status(path);
      std::string content = files_.get(path);
      if (companion.yaml) content = text(path, companion.path, std::move(content));
      out.push_back({companion.path, std::move(content), status ? status->mode : 0644, false});
    }
  }

  void note(const std::string& root, std::vector<std::string>& notes) const {
    const std::string top = real_(root);
    for (const auto& [path, companion] : known_)
      if (!companion.copied && !top.empty() && !companion.path.starts_with(top + "/"))
        notes.push_back(fmt::format("{} is outside of this repository, and both clusters use it",
                                    companion.path));
  }

 private:
  struct Companion {
    std::string path;  // as the new cluster finds it
    bool copied = false;
    bool yaml = false;  // may name further files
  };

  bool inside(const std::string& path) const {
    return old_.empty() ? !path.starts_with('/') && !path.starts_with("..")
                        : path.starts_with(old_ + "/");
  }

  // A link that leads out of the folder stays one file for both clusters: what is behind it was not
  // put here to be copied.
  void add(const std::string& path, bool yaml) {
    const std::string target = real_(path);
    const bool own = inside(path) && (old_.empty() || target.starts_with(real_(old_) + "/"));
    if (own)
      known_[path] = {below(new_, old_.empty() ? path : path.substr(old_.size() + 1)), true, yaml};
    else
      known_[path] = {inside(path) ? target : path, false, yaml};
  }

  void find_paths(const Tree& tree, const std::string& old_place, const std::string& new_place,
                  const std::string& text, Changes& changes) const {
    for (const Member& member : tree.members)
      find_paths(*member.value, old_place, new_place, text, changes);
    for (const TreePtr& item : tree.items) find_paths(*item, old_place, new_place, text, changes);
    if (tree.kind != text::Kind::String || tree.text.starts_with('/')) return;
    const auto found = known_.find(path_below(old_place, tree.text));
    if (found == known_.end()) return;
    const std::string relative =
        std::filesystem::path(found->second.path).lexically_relative(new_place).string();
    if (relative.empty() || relative == path_below("", tree.text)) return;
    const bool quoted = text[tree.begin] == '"' || text[tree.begin] == '\'';
    changes[tree.begin] = {tree.end, quoted ? "\"" + relative + "\"" : relative};
  }

  Files& files_;
  const RealPath& real_;
  std::string old_;
  std::string new_;
  std::map<std::string, Companion> known_;
};

std::string with_schema(const std::string& text, const std::string& path) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines)
    if (line.starts_with(schema_line) && line.find("://") == std::string::npos)
      line = schema_line + path;
  return join(lines, "\n");
}

}  // namespace

Scaffold scaffold_from(Files& files, const std::string& root, const std::string& name,
                       const std::string& source, const std::vector<std::string>& others,
                       const std::string& recipient, const RealPath& real) {
  require_name(name);
  const std::string from = path_below("", source);
  const Loaded loaded = load(files, from);
  loaded.diagnostics.throw_if_errors(from);
  if (*loaded.spec.name == name)
    throw Error(Fault::Usage, fmt::format("{} is the cluster to copy from", name))
        .hint("choose another name");
  Scaffold made;
  made.folder = new_folder(root, folder_of(from), *loaded.spec.name, name);
  std::vector<std::string> rest;
  for (const std::string& other : others)
    if (other != from) rest.push_back(other);
  const Companions companions(files, loaded.spec, made.folder, real);
  const std::string path = below(made.folder, spec_file_name);
  // First the paths: they are found at their places in the old text.
  std::string spec = companions.text(from, path, files.get(from));
  spec = copied_spec(files, name, from, std::move(spec), loaded.spec, rest, made.notes);
  made.files.push_back({path, with_schema(spec, schema_path(root, made.folder)), 0644, false});
  companions.copy(made.files);
  companions.note(root, made.notes);
  for (const auto& item : loaded.spec.secret_files)
    if (*item != "secrets.sops.yaml" && !item->starts_with("../") && !item->starts_with('/'))
      made.notes.push_back(
          fmt::format("{} holds secrets and was not copied: make one for {}", *item, name));
  add_common(made, root, recipient);
  std::set<std::string> references;
  collect_references(*loaded.spec.resolved, references);
  made.references.assign(references.begin(), references.end());
  return made;
}

}  // namespace rocca::spec
