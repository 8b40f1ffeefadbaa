#include "session/secret_files.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace rocca::session {

namespace sops = secrets::sops;

namespace {

void show(const ReportProblems& report, const Diagnostics& problems) {
  if (report) report(problems);
}

// The bundle has neither of these keys, and every document of a machine config has one of them.
bool is_machine_config(const text::Value& document) {
  return document.is_map() &&
         (document.find("machine") != nullptr || document.find("kind") != nullptr);
}

}  // namespace

std::vector<std::string> secret_files(const spec::Spec& spec) {
  std::vector<std::string> paths;
  for (const auto& file : spec.secret_files)
    paths.push_back(file->starts_with('/') || spec.folder.empty() ? *file
                                                                  : spec.folder + "/" + *file);
  return paths;
}

SecretTree open_secrets(Files& files, Keys& keys, const std::string& path) {
  const auto text = files.find(path);
  if (!text) return nullptr;
  const sops::Format format = sops::format_of(path);
  if (!sops::is_encrypted(*text, format)) {
    sops::Plain::parse(*text, format, path);  // what cannot be read at all is another problem
    throw Error(Fault::Refused, fmt::format("{} is not encrypted", path))
        .hint(fmt::format("rocca secrets encrypt {}", path));
  }
  const sops::File file = sops::File::parse(*text, format, path);
  const auto plain = std::make_shared<sops::Plain>(file.decrypt(keys.data_key(file)));
  if (plain->documents().empty()) plain->documents().push_back(text::Value::map());
  return {plain, &plain->documents().front()};
}

const text::Value* find_bundle(const text::Value& secrets) {
  if (const text::Value* bundle = secrets.find(bundle_key); bundle != nullptr && bundle->is_map())
    return bundle;
  return secrets.find("certs") != nullptr && secrets.find("trustdinfo") != nullptr ? &secrets
                                                                                   : nullptr;
}

secrets::Bundle get_bundle(const spec::Spec& spec,
                           const std::function<SecretTree(const std::string& path)>& open,
                           const ReportProblems& report) {
  std::string message = "the cluster has no Talos secrets bundle. Looked for:";
  for (const std::string& path : secret_files(spec)) {
    const SecretTree tree = open(path);
    if (tree != nullptr) {
      if (const text::Value* found = find_bundle(*tree)) {
        Diagnostics problems;
        auto bundle = secrets::read_bundle(*found, path, problems);
        show(report, problems);
        problems.throw_if_errors(path);
        if (bundle) return std::move(*bundle);
      }
    }
    message += tree != nullptr ? fmt::format("\n  {} in {}", bundle_key, path)
                               : fmt::format("\n  {} (no such file)", path);
  }
  throw Error(Fault::NotFound, std::move(message))
      .hint(
          "`rocca secrets init` makes one; with --from it takes over that of a cluster that runs");
}

secrets::Bundle get_bundle(Files& files, Keys& keys, const spec::Spec& spec,
                           const ReportProblems& report) {
  return get_bundle(
      spec, [&](const std::string& path) { return open_secrets(files, keys, path); }, report);
}

secrets::Bundle bundle_of_file(Files& files, Keys& keys, const std::string& path,
                               const std::string& shown_path, const ReportProblems& report) {
  const Secret content = Secret::take(files.get(path));
  Diagnostics problems;
  std::optional<secrets::Bundle> bundle;
  if (sops::is_encrypted(content.reveal(), sops::Format::Yaml)) {
    const auto file = sops::File::parse(content.reveal(), sops::Format::Yaml, shown_path);
    const auto plain = file.decrypt(keys.data_key(file));
    const text::Value* found =
        plain.documents().empty() ? nullptr : find_bundle(plain.documents().front());
    if (found != nullptr) bundle = secrets::read_bundle(*found, shown_path, problems);
  } else {
    auto documents = text::parse_yaml_stream(content.reveal(), shown_path);
    const bool config = std::any_of(documents.begin(), documents.end(), is_machine_config);
    for (text::Value& document : documents) document.wipe();
    bundle = config ? secrets::read_bundle_from_config(content.reveal(), shown_path, problems)
                    : secrets::read_bundle(content.reveal(), shown_path, problems);
  }
  show(report, problems);
  problems.throw_if_errors(shown_path);
  if (!bundle)
    throw Error(Fault::Usage, shown_path + " holds no secrets of a Talos cluster")
        .hint("what `talosctl gen secrets` writes, or the machine config of a control plane");
  return std::move(*bundle);
}

void store_secret(Files& files, Keys& keys, const Clock& clock, Entropy& entropy,
                  const spec::Spec& spec, const std::string& key, const Secret& secret) {
  for (const std::string& path : secret_files(spec)) {
    const auto before = files.find(path);
    if (!before) continue;
    const sops::File file = sops::File::parse(*before, sops::format_of(path), path);
    text::Value value = text::Value::string(std::string{secret.reveal()});
    const std::string after = file.set(split(key, '.'), value, keys.data_key(file), clock, entropy);
    value.wipe();
    if (files.find(path) != before)
      throw Error(Fault::Conflict, fmt::format("another process changed {} meanwhile", path))
          .hint("nothing was written; do it again on what is there now");
    const auto status = files.status(path);
    files.write_private(path, after, status ? status->mode : 0600);
    return;
  }
  throw Error(Fault::NotFound, fmt::format("no secrets file exists that could hold {}", key))
      .hint("`rocca secrets init` makes one");
}

}  // namespace rocca::session
