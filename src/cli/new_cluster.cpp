#include "cli/new_cluster.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/context.hpp"
#include "secrets/age/age.hpp"
#include "secrets/bundle.hpp"
#include "secrets/sops/config.hpp"
#include "spec/load.hpp"
#include "spec/locate.hpp"
#include "text/edit.hpp"

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

}  // namespace

AgeKey age_key(Context& context) {
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
  context.files.write_private(path, age::key_file(identity, context.clock.now()).reveal(), 0600);
  context.keys.reset();  // identities that were found before lack the new one
  return {identity.recipient()->text(), path};
}

void tell_about(const AgeKey& key, Context& context) {
  if (!key.made_at.empty())
    context.err << fmt::format(
        "made the age key {}: keep a copy of it, without it no secret can be read again\n",
        visible(key.made_at));
}

namespace {

/// The cluster's own PKI, as the text of an encrypted file.
std::string make_secrets(Context& context, const std::string& spec_text, const std::string& path,
                         const secrets::sops::Recipe& recipe,
                         const std::map<std::string, Secret>& known,
                         std::optional<secrets::Bundle> bundle) {
  const spec::Loaded loaded =
      spec::load_text(context.files, spec_text, "cluster.yaml", folder_of(path));
  secrets::BundleOptions options;
  options.talos = *loaded.spec.talos.version;
  if (!bundle) bundle = secrets::generate_bundle(options, context.clock.now(), context.entropy);
  text::Value root = text::Value::map();
  root.set(session::bundle_key, secrets::to_value(*bundle));
  for (const auto& [name, secret] : known)
    text::set_in(root, split(name, '.'), text::Value::string(std::string(secret.reveal())));
  std::vector<text::Value> documents;
  documents.push_back(std::move(root));
  const secrets::sops::Plain plain{secrets::sops::Format::Yaml, std::move(documents)};
  return secrets::sops::encrypt(plain, recipe, context.clock, context.entropy);
}

/// A repository's rule may name only keys of others: then the new file is closed to us.
void warn_of_foreign_keys(Context& context, const spec::NewFile& secrets,
                          const std::string& shown) {
  const auto file = secrets::sops::File::parse(secrets.content, secrets::sops::Format::Yaml, shown);
  try {
    keys_of(context)->data_key(file);
  } catch (const Error& error) {
    if (error.fault() != Fault::Denied) throw;
    context.err << fmt::format("warning: {}\n{}", visible(error.message(), 4),
                               "hint: its readers are those of .sops.yaml; add yours there and run "
                               "`rocca secrets updatekeys` on a machine that can read it\n");
  }
}

const std::string& content_of(const spec::Scaffold& made, std::string_view ending) {
  const auto found =
      std::find_if(made.files.begin(), made.files.end(),
                   [&](const spec::NewFile& file) { return file.path.ends_with(ending); });
  if (found == made.files.end())
    throw Error(Fault::Bug, fmt::format("a scaffold without {}", ending));
  return found->content;
}

}  // namespace

std::string repository(Context& context) {
  return repository(context, context.folder);
}

std::string repository(Context& context, const std::string& around) {
  for (std::string folder = around;; folder = folder_of(folder)) {
    for (const char* mark : {"/.sops.yaml", "/clusters", "/.git"})
      if (is_there(context, folder + mark)) return folder;
    if (folder == "/") return around;
  }
}

void write_cluster(Context& context, const std::string& root,
                   const std::function<spec::Scaffold(const std::string& recipient)>& make,
                   const std::map<std::string, Secret>& known,
                   std::optional<secrets::Bundle> bundle) {
  spec::Scaffold made = make("");
  const std::string secrets_path = made.folder + "/secrets.sops.yaml";
  const auto refuse_if_there = [&](const std::string& path) {
    if (is_there(context, path))
      throw Error(Fault::Conflict, fmt::format("{} is already there", path))
          .hint("nothing was changed; choose another name, or move it away first");
  };
  for (const spec::NewFile& file : made.files)
    if (!file.shared) refuse_if_there(file.path);
  refuse_if_there(secrets_path);
  const std::string config_path = root + "/.sops.yaml";
  const auto existing = context.files.find(config_path);
  const AgeKey key = existing ? AgeKey{} : age_key(context);
  if (!existing) made = make(key.recipient);
  const auto rule = secrets::sops::Config::parse(
                        existing ? *existing : content_of(made, "/.sops.yaml"), config_path)
                        .find_rule(secrets_path);
  if (!rule)
    throw Error(Fault::Usage,
                fmt::format("{} has no creation rule for {}", config_path, secrets_path))
        .hint("add one with the age recipients that are to read it");
  made.files.push_back(
      {secrets_path,
       make_secrets(context, content_of(made, std::string{"/"} + spec::spec_file_name),
                    secrets_path, *rule, known, std::move(bundle)),
       0644, false});

  const auto shown = [&](const std::string& path) {
    return path.starts_with(context.folder + "/") ? path.substr(context.folder.size() + 1) : path;
  };
  for (const spec::NewFile& file : made.files) {
    if (file.shared && is_there(context, file.path)) continue;
    context.files.make_folder(folder_of(file.path), 0755);
    context.files.write(file.path, file.content, file.mode);
    context.out << visible(shown(file.path)) << "\n";
  }
  tell_about(key, context);
  if (existing) warn_of_foreign_keys(context, made.files.back(), shown(secrets_path));
  for (const std::string& note : made.notes) context.err << visible(note, 2) << "\n";
  for (const std::string& reference : made.references)
    if (!known.contains(reference))
      context.err << fmt::format("still wanted: rocca secrets set {} {}\n",
                                 visible(shown(secrets_path)), visible(reference));
}

}  // namespace rocca::cli
