#include "base/strings.hpp"
#include "spec/read.hpp"
#include "spec/scalars.hpp"
#include "spec/validation/validate.hpp"
#include "spec/validation/versions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::spec {

namespace {

constexpr std::string_view official = "siderolabs/";

std::string short_name(const std::string& name) {
  return name.starts_with(official) ? name.substr(official.size()) : name;
}

void check_extensions(const Look& look, const ImageLook& one, const TalosLine* line) {
  const Talos& talos = look.spec.talos;
  const Lock* lock = look.lock;
  const bool listed = lock != nullptr && !lock->extensions.empty() &&
                      lock->extensions_of == to_string(*talos.version);
  std::vector<std::string> seen;
  for (const auto& extension : one.image.extensions) {
    if (std::find(seen.begin(), seen.end(), *extension) != seen.end())
      look.findings.add("duplicate-item", extension.where,
                        fmt::format("{} stands twice in {}", *extension, one.extensions));
    seen.push_back(*extension);
    const std::string name = short_name(*extension);
    if (const WrongExtension* wrong = find_wrong_extension(name)) {
      look.findings.add("extension-name", extension.where,
                        fmt::format("there is no extension {}", name),
                        fmt::format("use {}", wrong->right));
      continue;
    }
    if (listed) {
      if (std::find(lock->extensions.begin(), lock->extensions.end(), *extension) ==
          lock->extensions.end())
        look.findings.add(
            "extension-not-listed", extension.where,
            fmt::format("the factory has no {} for Talos {}{}", *extension,
                        to_string(*talos.version), did_you_mean(*extension, lock->extensions)));
      continue;
    }
    const KnownExtension* known = extension->starts_with(official) ? find_extension(name) : nullptr;
    if (known == nullptr) {
      look.findings.add("extension-unknown", extension.where,
                        fmt::format("rocca does not know the extension {}{}", name,
                                    did_you_mean(name, extension_names())),
                        "the factory's list decides at plan");
    } else if (line != nullptr && (line->minor < known->first || line->minor > known->last)) {
      look.findings.add("extension-version", extension.where,
                        fmt::format("Talos 1.{} has no extension {}", line->minor, name),
                        line->minor < known->first
                            ? fmt::format("it came with Talos 1.{}", known->first)
                            : fmt::format("Talos 1.{} was the last to have it", known->last));
    }
  }
}

/// Every node loads every module, so that each image must have what it comes with.
void check_module_extension(const Look& look, const KernelModule& module, const KnownModule& known,
                            const std::vector<ImageLook>& images) {
  // The NVIDIA modules come in several builds (open or not, lts or production); any of them will
  // do.
  const bool nvidia = known.name.starts_with("nvidia");
  for (const ImageLook& one : images) {
    if (one.image.schematic || one.node == nullptr) continue;
    const bool there = std::any_of(one.image.extensions.begin(), one.image.extensions.end(),
                                   [&](const auto& extension) {
                                     const std::string have = short_name(*extension);
                                     return nvidia ? have.starts_with("nvidia-open-gpu") ||
                                                         have.starts_with("nonfree-kmod-nvidia")
                                                   : have == known.extension;
                                   });
    if (there) continue;
    look.findings.add(
        "module-extension", module.name.where,
        fmt::format("the kernel module {} comes with the extension {}", known.name,
                    known.extension),
        one.node->image
            ? fmt::format("add {} to {}; or load it by a patch on those nodes that have it",
                          known.extension, one.extensions)
            : fmt::format("add {} to {}", known.extension, one.extensions));
    return;
  }
}

void check_modules(const Look& look, const TalosLine* line, const std::vector<ImageLook>& images) {
  const Talos& talos = look.spec.talos;
  std::vector<std::string> seen;
  for (const KernelModule& module : talos.modules) {
    const std::string& name = *module.name;
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      look.findings.add("duplicate-item", module.name.where,
                        fmt::format("{} stands twice in talos.modules", name));
    seen.push_back(name);
    const KnownModule* known = find_module(name);
    if (known == nullptr) {
      look.findings.add(
          "module-unknown", module.name.where,
          fmt::format("rocca does not know the kernel module {}{}", name,
                      did_you_mean(name, module_names())),
          "if Talos does not have it, it says so in its log and tries again for ever");
      continue;
    }
    if (line != nullptr && (line->minor < known->first || line->minor > known->last)) {
      look.findings.add("module-version", module.name.where,
                        fmt::format("Talos 1.{} has no kernel module {}", line->minor, name),
                        line->minor < known->first
                            ? fmt::format("it came with Talos 1.{}", known->first)
                            : fmt::format("Talos 1.{} was the last to have it", known->last));
      continue;
    }
    if (!known->extension.empty()) check_module_extension(look, module, *known, images);
  }
}

void check_schematic(const Look& look, const ImageLook& one) {
  const auto& [extensions, schematic, kernel_args] = one.image;
  if (!schematic) return;
  if (!extensions.empty() || !kernel_args.empty())
    look.findings.add("schematic-conflict", schematic->where,
                      "the schematic already says which extensions and kernel arguments there are",
                      "keep the schematic, or extensions and kernelArgs");
  if (is_sha256_hex(**schematic) || look.files == nullptr) return;
  const std::string path = path_below(look.spec.folder, **schematic);
  if (!look.files->status(path))
    look.findings.add("file-not-found", schematic->where, fmt::format("there is no file {}", path),
                      "a schematic is a file, or an id of 64 hex digits");
}

}  // namespace

bool ImageLook::has(std::string_view extension) const {
  const std::string full = full_extension_name(extension);
  return std::any_of(image.extensions.begin(), image.extensions.end(),
                     [&](const auto& one) { return *one == full; });
}

std::string extensions_path(const Node& node) {
  if (!node.image) return "talos.extensions";
  return node.pool.empty() ? fmt::format("nodes.{}.talos.extensions", node.name)
                           : fmt::format("pools.{}.talos.extensions", node.pool);
}

std::vector<ImageLook> images_of(const Spec& spec) {
  std::vector<ImageLook> images;
  const auto heir = std::find_if(spec.nodes.begin(), spec.nodes.end(),
                                 [](const Node& node) { return !node.image; });
  images.push_back(
      {spec.talos.image, heir == spec.nodes.end() ? nullptr : &*heir, "talos.extensions"});
  std::set<const Image*> seen;
  for (const Node& node : spec.nodes)
    if (node.image && seen.insert(node.image.get()).second)
      images.push_back({*node.image, &node, extensions_path(node)});
  return images;
}

void validate_versions(const Look& look) {
  const Spec& spec = look.spec;
  const Talos& talos = spec.talos;
  const TalosLine* line = find_talos_line(*talos.version);
  if (talos.version.written()) {
    const auto lines = talos_lines();
    if (line == nullptr)
      look.findings.add(
          "talos-unsupported", talos.version.where,
          fmt::format("rocca does not know Talos {}", to_string(*talos.version)),
          fmt::format("it renders 1.{} to 1.{}", lines.front().minor, lines.back().minor));
    else if (!talos.version->pre().empty())
      look.findings.add("talos-prerelease", talos.version.where,
                        fmt::format("{} is a pre-release", to_string(*talos.version)));
  }
  const auto& kubernetes = spec.kubernetes.version;
  if (line != nullptr && kubernetes.written()) {
    // Talos's own upper bound is 1.N.99, not included.
    const bool new_one =
        kubernetes->minor() > line->last_kubernetes ||
        (kubernetes->minor() == line->last_kubernetes && kubernetes->patch() >= 99);
    const bool fits =
        kubernetes->major() == 1 && kubernetes->minor() >= line->first_kubernetes && !new_one;
    if (!fits)
      look.findings.add("kubernetes-unsupported", kubernetes.where,
                        fmt::format("Kubernetes {} is too {} for Talos {}", to_string(*kubernetes),
                                    kubernetes->minor() < line->first_kubernetes ? "old" : "new",
                                    to_string(*talos.version)),
                        fmt::format("Talos 1.{} runs Kubernetes 1.{} to 1.{}", line->minor,
                                    line->first_kubernetes, line->last_kubernetes));
  }
  const std::vector<ImageLook> images = images_of(spec);
  for (const ImageLook& one : images) {
    check_schematic(look, one);
    check_extensions(look, one, line);
  }
  check_modules(look, line, images);
}

namespace {

TreePtr at(const Tree& tree, std::initializer_list<const char*> path, const Member** last) {
  const Tree* here = &tree;
  TreePtr value;
  for (const char* key : path) {
    const Member* member = here->find_member(key);
    if (member == nullptr) return nullptr;
    if (last != nullptr) *last = member;
    value = member->value;
    here = value.get();
  }
  return value;
}

void check_document(const Look& look, const Tree& document, const TalosLine* line,
                    const Where& fallback) {
  const auto place = [&](const Where& where) -> const Where& {
    return where.written() ? where : fallback;
  };
  const TreePtr kind = document.find("kind");
  if (kind && kind->is_scalar()) {
    const auto first = first_minor_of_kind(kind->text);
    if (!first)
      look.findings.add("patch-kind", place(kind->where),
                        fmt::format("no Talos has a document of the kind {}{}", kind->text,
                                    did_you_mean(kind->text, document_kinds())));
    else if (line != nullptr && line->minor < *first)
      look.findings.add(
          "patch-kind", place(kind->where),
          fmt::format("Talos 1.{} does not know the document kind {}", line->minor, kind->text),
          fmt::format("it came with Talos 1.{}", *first));
    return;
  }
  const Member* last = nullptr;
  if (at(document, {"machine", "install", "extensions"}, &last))
    look.findings.add("patch-extensions", place(last->where),
                      "extensions in a patch are not part of the image that rocca orders",
                      "name them in talos.extensions");
  if (at(document, {"machine", "install", "extraKernelArgs"}, &last))
    look.findings.add(
        "patch-kernel-args", place(last->where),
        "kernel arguments in a patch are lost or ignored, depending on boot loader and upgrade",
        "use talos.kernelArgs");
  const std::initializer_list<std::initializer_list<const char*>> owned = {
      {"machine", "type"},
      {"machine", "token"},
      {"machine", "ca"},
      {"cluster", "id"},
      {"cluster", "secret"},
      {"cluster", "token"},
      {"cluster", "ca"},
      {"cluster", "aggregatorCA"},
      {"cluster", "serviceAccount"},
      {"cluster", "etcd", "ca"},
      {"cluster", "secretboxEncryptionSecret"},
      {"cluster", "clusterName"}};
  for (const auto& path : owned)
    if (at(document, path, &last)) {
      if (last->key != "type" && last->key != "clusterName") look.findings.mask(*last->value);
      look.findings.add("patch-owned", place(last->where),
                        fmt::format("{} is set by rocca and is not for patches", last->key),
                        "take it out of the patch");
    }
  if (!look.spec.addons.longhorn.value) return;
  const TreePtr mounts = at(document, {"machine", "kubelet", "extraMounts"}, &last);
  if (!mounts || !mounts->is_list()) return;
  for (const TreePtr& mount : mounts->items) {
    const TreePtr destination = mount->find("destination");
    if (!destination || destination->text != *look.spec.addons.longhorn_path) continue;
    const TreePtr options = mount->find("options");
    const bool shared = options && options->is_list() &&
                        std::any_of(options->items.begin(), options->items.end(),
                                    [](const TreePtr& item) { return item->text == "rshared"; });
    if (!shared)
      look.findings.add(
          "longhorn-mount", place(mount->where),
          fmt::format("the mount of {} is not shared: volumes would not be seen by pods",
                      destination->text),
          "options: [bind, rshared, rw]; or leave the mount out, rocca adds it");
  }
}

bool is_same(const Texts& one, const Texts& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const auto& a, const auto& b) { return *a == *b; });
}

bool is_same(const Image& one, const Image& other) {
  const auto id = [](const Image& image) { return image.schematic ? **image.schematic : ""; };
  return is_same(one.extensions, other.extensions) && id(one) == id(other) &&
         is_same(one.kernel_args, other.kernel_args);
}

/// Where a patch names the installer, if it does.
const Where* find_installer(const Patch& patch) {
  for (const TreePtr& document : patch.trees) {
    const Member* last = nullptr;
    if (at(*document, {"machine", "install", "image"}, &last)) return &last->where;
    if (const TreePtr path = document->find("path"); path && path->text == "/machine/install/image")
      return &path->where;
  }
  return nullptr;
}

/// The last patch that names one counts; nodes that it counts for need one image.
void check_installers(const Look& look) {
  std::map<const Patch*, const Node*> first;
  std::set<const Patch*> told;
  for (const Node& node : look.spec.nodes) {
    const auto last = std::find_if(node.patches.rbegin(), node.patches.rend(),
                                   [](const auto& one) { return find_installer(*one) != nullptr; });
    if (last == node.patches.rend()) continue;
    const Patch* patch = last->get();
    const Node& other = *first.emplace(patch, &node).first->second;
    if (is_same(look.spec.image_of(other), look.spec.image_of(node)) || !told.insert(patch).second)
      continue;
    const Where& where = *find_installer(*patch);
    look.findings.add(
        "patch-installer", where.written() ? where : patch->where,
        fmt::format("this would be the installer of {} and of {}, which have different images",
                    other.name, node.name),
        "leave it out, and rocca names each node's own; or say it in the patches of the pool or "
        "node as well");
  }
}

}  // namespace

void validate_patches(const Look& look) {
  check_installers(look);
  const TalosLine* line = find_talos_line(*look.spec.talos.version);
  std::vector<const Patch*> seen;
  for (const Node& node : look.spec.nodes)
    for (const auto& patch : node.patches) {
      if (std::find(seen.begin(), seen.end(), patch.get()) != seen.end()) continue;
      seen.push_back(patch.get());
      if (patch->form == Patch::Form::Json) {
        if (line != nullptr && line->minor >= 12)
          look.findings.add(
              "json-patch-version", patch->where,
              fmt::format("Talos 1.{} takes no JSON patch: its config has several documents",
                          line->minor),
              "write it as a merge patch");
        continue;
      }
      for (const TreePtr& document : patch->trees)
        check_document(look, *document, line, patch->where);
    }
}

}  // namespace rocca::spec
