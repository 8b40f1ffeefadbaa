#include "cli/cluster_secrets.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "spec/load.hpp"
#include "talosconfig/patch_check.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace rocca::cli {

const text::Value* find_bundle(const text::Value& secrets) {
  if (const text::Value* bundle = secrets.find(bundle_key); bundle != nullptr && bundle->is_map())
    return bundle;
  return secrets.find("certs") != nullptr && secrets.find("trustdinfo") != nullptr ? &secrets
                                                                                   : nullptr;
}

spec::Spec load_cluster(Context& context, const std::optional<std::string>& cluster) {
  const std::string file = cluster_file(context, cluster);
  spec::Loaded loaded = spec::load(context.files, file);
  if (!loaded.diagnostics.has_errors()) talos::check_patches(loaded.spec, loaded.diagnostics);
  if (loaded.diagnostics.has_errors()) {
    context.err << loaded.diagnostics.render();
    loaded.diagnostics.throw_if_errors(file);
  }
  return std::move(loaded.spec);
}

std::vector<std::string> secret_files(const spec::Spec& spec) {
  std::vector<std::string> paths;
  for (const auto& file : spec.secret_files)
    paths.push_back(file->starts_with('/') ? *file : spec.folder + "/" + *file);
  return paths;
}

secrets::Bundle get_bundle(Context& context, Keys& keys, const spec::Spec& spec) {
  std::string message = "the cluster has no Talos secrets bundle. Looked for:";
  for (const std::string& path : secret_files(spec)) {
    const auto plain = open_secrets(context, keys, path);
    if (plain && !plain->documents().empty()) {
      if (const text::Value* found = find_bundle(plain->documents().front())) {
        Diagnostics problems;
        auto bundle = secrets::read_bundle(*found, path, problems);
        context.err << problems.render();
        problems.throw_if_errors(path);
        if (bundle) return std::move(*bundle);
      }
    }
    message += plain ? fmt::format("\n  {} in {}", bundle_key, path)
                     : fmt::format("\n  {} (no such file)", path);
  }
  throw Error(Fault::NotFound, std::move(message))
      .hint(
          "`rocca secrets init` makes one; with --from it takes over that of a cluster that runs");
}

void keep_secret(Context& context, Keys& keys, const spec::Spec& spec, const std::string& key,
                 const Secret& secret) {
  namespace sops = secrets::sops;
  for (const std::string& path : secret_files(spec)) {
    const auto before = context.files.find(path);
    if (!before) continue;
    const sops::File file = sops::File::parse(*before, sops::format_of(path), path);
    text::Value value = text::Value::string(std::string{secret.reveal()});
    const std::string after =
        file.set(split(key, '.'), value, keys.data_key(file), context.clock, context.entropy);
    value.wipe();
    if (context.files.find(path) != before)
      throw Error(Fault::Conflict, fmt::format("somebody else changed {} meanwhile", path))
          .hint("nothing was written; do it again on what is there now");
    const auto status = context.files.status(path);
    context.files.write_private(path, after, status ? status->mode : 0600);
    return;
  }
  throw Error(Fault::NotFound,
              fmt::format("there is no secrets file that {} could be kept in", key))
      .hint("`rocca secrets init` makes one");
}

namespace {

// The bundle has neither of these keys, and every document of a machine config has one of them.
bool is_machine_config(const text::Value& document) {
  return document.is_map() &&
         (document.find("machine") != nullptr || document.find("kind") != nullptr);
}

}  // namespace

secrets::Bundle bundle_of_file(Context& context, const std::string& path) {
  const Secret content = Secret::take(
      context.files.get(path.starts_with('/') ? path : fmt::format("{}/{}", context.folder, path)));
  Diagnostics problems;
  std::optional<secrets::Bundle> bundle;
  if (secrets::sops::is_encrypted(content.reveal(), secrets::sops::Format::Yaml)) {
    Keys keys{context};
    const auto file =
        secrets::sops::File::parse(content.reveal(), secrets::sops::Format::Yaml, path);
    const auto plain = file.decrypt(keys.data_key(file));
    const text::Value* found =
        plain.documents().empty() ? nullptr : find_bundle(plain.documents().front());
    if (found != nullptr) bundle = secrets::read_bundle(*found, path, problems);
  } else {
    auto documents = text::parse_yaml_stream(content.reveal(), path);
    const bool config = std::any_of(documents.begin(), documents.end(), is_machine_config);
    for (text::Value& document : documents) document.wipe();
    bundle = config ? secrets::read_bundle_from_config(content.reveal(), path, problems)
                    : secrets::read_bundle(content.reveal(), path, problems);
  }
  context.err << problems.render();
  problems.throw_if_errors(path);
  if (!bundle)
    throw Error(Fault::Usage, path + " holds no secrets of a Talos cluster")
        .hint("what `talosctl gen secrets` writes, or the machine config of a control plane");
  return std::move(*bundle);
}

}  // namespace rocca::cli
