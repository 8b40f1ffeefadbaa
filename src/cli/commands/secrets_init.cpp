#include "base/error.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/new_cluster.hpp"
#include "scaffold/scaffold.hpp"
#include "secrets/sops/config.hpp"
#include "spec/gitignore.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

namespace {

namespace sops = secrets::sops;

std::string shown(const Context& context, const std::string& path) {
  return path.starts_with(context.folder + "/") ? path.substr(context.folder.size() + 1) : path;
}

/// Throws if one of the cluster's files holds a bundle.
void require_none(Context& context, const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const session::SecretTree tree = session::open_secrets(context.files, *keys_of(context), path);
    if (tree != nullptr && session::find_bundle(*tree) != nullptr)
      throw Error(Fault::Conflict,
                  fmt::format("{} holds the cluster's Talos secrets already", shown(context, path)))
          .hint("nothing was changed; `rocca secrets show` lists them");
  }
}

/// As the .sops.yaml above says; where there is none, one is made for the user's own key.
sops::Recipe recipe_for(Context& context, const std::string& path, const std::string& folder) {
  auto config = sops::Config::find(context.files, folder);
  if (!config) {
    const AgeKey key = age_key(context);
    const std::string config_path = repository(context, folder) + "/.sops.yaml";
    const std::string text = spec::sops_config(key.recipient);
    context.files.write(config_path, text, 0644);
    context.out << visible(shown(context, config_path)) << "\n";
    tell_about(key, context);
    config = sops::Config::parse(text, config_path);
  }
  auto rule = config->find_rule(path);
  if (!rule)
    throw Error(Fault::Usage, fmt::format("{} has no creation rule for {}", config->name(), path))
        .hint("add one with the age recipients that are to read it");
  return std::move(*rule);
}

}  // namespace

static int run_secrets_init(Context& context, const Invocation& invocation) {
  const spec::Spec spec = load_cluster(context, invocation.argument("CLUSTER"));
  const std::vector<std::string> files = session::secret_files(spec);
  if (files.empty())
    throw Error(Fault::Usage, "the spec keeps its secrets in no file")
        .hint("name one: `secrets: { files: [secrets.sops.yaml] }`");
  require_none(context, files);
  const auto from = invocation.find("from");
  secrets::BundleOptions options;
  options.talos = *spec.talos.version;
  const secrets::Bundle bundle =
      from ? bundle_of_file(context, *from)
           : secrets::generate_bundle(options, context.clock.now(), context.entropy);
  text::Value value = secrets::to_value(bundle);
  const std::string& path = files.front();
  std::string sealed;
  unsigned mode = 0644;
  if (const auto there = context.files.find(path)) {
    const sops::File file = sops::File::parse(*there, sops::format_of(path), path);
    sealed = file.set({session::bundle_key}, value, keys_of(context)->data_key(file), context.clock,
                      context.entropy);
    mode = context.files.status(path)->mode;
  } else {
    std::vector<text::Value> documents(1, text::Value::map());
    documents.front().set(session::bundle_key, value);
    const sops::Plain plain{sops::format_of(path), std::move(documents)};
    sealed = sops::encrypt(plain, recipe_for(context, path, spec.folder), context.clock,
                           context.entropy);
  }
  value.wipe();
  if (spec::keep_out_of_git(context.files, spec.folder))
    context.out << visible(shown(context, spec.folder + "/.gitignore")) << "\n";
  context.files.write_private(path, sealed, mode);
  context.out << visible(shown(context, path)) << "\n";
  return 0;
}

Command secrets_init_command() {
  return {.name = "secrets init",
          .group = "Secrets",
          .summary = "create a cluster's Talos secrets",
          .description =
              "Creates the Talos secrets (CAs, tokens, keys) of a cluster whose spec was written "
              "by hand, in its secrets.sops.yaml, encrypted as .sops.yaml says. With --from, "
              "imports those of a running cluster. Existing secrets are never replaced, because "
              "the machines would become unreachable.",
          .arguments = {cluster_argument()},
          .flags = {{.name = "from",
                     .kind = FlagKind::Text,
                     .value = "FILE",
                     .help = "the secrets.yaml of `talosctl gen secrets`, or the machine config of "
                             "a control plane"}},
          .examples = {{"rocca secrets init blue", "create new ones"},
                       {"rocca secrets init blue --from controlplane.yaml",
                        "import those of a running cluster"}},
          .run = run_secrets_init};
}

}  // namespace rocca::cli
