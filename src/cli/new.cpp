#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "secrets/age.hpp"
#include "spec/locate.hpp"
#include "spec/scaffold.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace rocca::cli {

namespace {

namespace age = secrets::age;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

bool is_there(Context& context, const std::string& path) {
  return context.files.status(path).has_value();
}

/// The repository around the working directory: where .sops.yaml, clusters/ or .git is; else the
/// directory itself.
std::string repository(Context& context) {
  for (std::string folder = context.folder;; folder = folder_of(folder)) {
    for (const char* mark : {"/.sops.yaml", "/clusters", "/.git"})
      if (is_there(context, folder + mark)) return folder;
    if (folder == "/") return context.folder;
  }
}

/// Where SOPS itself looks for age keys.
std::string key_path(const Context& context) {
  if (const auto named = context.variable("SOPS_AGE_KEY_FILE")) return *named;
  const auto config = context.variable("XDG_CONFIG_HOME");
  const auto home = context.variable("HOME");
  if (!config && !home)
    throw Error(Fault::Usage,
                "there is no place for an age key: neither HOME nor SOPS_AGE_KEY_FILE is set");
  return (config ? *config : *home + "/.config") + "/sops/age/keys.txt";
}

struct Key {
  std::string recipient;
  std::string made_at;  // the file, if it was made now
};

Key age_key(Context& context) {
  const std::string path = key_path(context);
  if (is_there(context, path)) {
    Diagnostics problems;
    // Only the public half is wanted, so nobody is asked for a passphrase.
    const auto identities = age::load_identities(context.files, path, {}, problems);
    context.err << problems.render();
    for (const age::Identity& identity : identities)
      if (const auto recipient = identity.recipient()) return {recipient->text(), ""};
    throw Error(Fault::Usage, fmt::format("{} holds no age key whose recipient is known", path));
  }
  const age::Identity identity = age::Identity::generate(context.entropy);
  context.files.make_folder(folder_of(path), 0700);
  context.files.write(path, age::key_file(identity, context.clock.now()).reveal(), 0600);
  return {identity.recipient()->text(), path};
}

}  // namespace

int run_new(Context& context, const Invocation& invocation) {
  const std::string name = invocation.argument("NAME").value();
  const std::string root = repository(context);
  const auto from = invocation.find("from");
  // Everything that can be refused is refused before the first file is made, a key included.
  const auto make = [&](const std::string& recipient) {
    if (!from) return spec::scaffold(root, name, recipient);
    return spec::scaffold_from(context.files, root, name, cluster_file(context, from),
                               spec::find_specs(context.files, root + "/clusters"), recipient);
  };
  spec::Scaffold made = make("");
  for (const spec::NewFile& file : made.files)
    if (!file.shared && is_there(context, file.path))
      throw Error(Fault::Conflict, fmt::format("{} is already there", file.path))
          .hint("nothing was changed; choose another name, or move it away first");
  const bool keyed = is_there(context, root + "/.sops.yaml");
  const Key key = keyed ? Key{} : age_key(context);
  if (!keyed) made = make(key.recipient);

  const auto shown = [&](const std::string& path) {
    return path.starts_with(context.folder + "/") ? path.substr(context.folder.size() + 1) : path;
  };
  for (const spec::NewFile& file : made.files) {
    if (file.shared && is_there(context, file.path)) continue;
    context.files.make_folder(folder_of(file.path), 0755);
    context.files.write(file.path, file.content, file.mode);
    context.out << shown(file.path) << "\n";
  }
  if (!key.made_at.empty())
    context.err << fmt::format(
        "made the age key {}: keep a copy of it, without it no secret can be read again\n",
        key.made_at);
  for (const std::string& note : made.notes) context.err << note << "\n";
  context.err << fmt::format("next: edit {}, then `rocca validate {}`\n",
                             shown(made.folder + "/cluster.yaml"), name);
  return 0;
}

}  // namespace rocca::cli
