#include "base/error.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/new_cluster.hpp"
#include "scaffold/gitops.hpp"
#include "spec/locate.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <ostream>
#include <system_error>

namespace rocca::cli {

namespace {

std::string real_path(const std::string& path) {
  std::error_code ignored;
  const auto real = std::filesystem::weakly_canonical(path, ignored);
  return ignored ? path : real.string();
}

/// A repository for Flux, in a folder of this name.
int make_gitops(Context& context, const Invocation& invocation, const std::string& name) {
  for (const char* other : {"from", "secrets"})
    if (invocation.find(other))
      throw Error(Fault::Usage,
                  fmt::format("--gitops makes no cluster: --{} says nothing of it", other));
  const std::string folder = context.folder + "/" + name;
  const std::vector<spec::NewFile> files = spec::gitops_files(folder);
  for (const spec::NewFile& file : files)
    if (context.files.status(file.path))
      throw Error(Fault::Conflict, fmt::format("{} is already there", file.path))
          .hint("nothing was changed; choose another name, or move it away first");
  for (const spec::NewFile& file : files) {
    context.files.make_folder(file.path.substr(0, file.path.rfind('/')), 0755);
    context.files.write(file.path, file.content, file.mode);
    context.out << visible(file.path.substr(context.folder.size() + 1)) << "\n";
  }
  // Whoever may write to what Flux reads owns the cluster; that should not be who makes it.
  const std::string around = repository(context);
  for (const char* mark : {"/clusters", "/.git"})
    if (context.files.status(around + mark)) {
      context.err << fmt::format(
          "{} lies in {}: make it a repository of its own elsewhere, Flux never gets the one that "
          "holds cluster.yaml\n",
          visible(name), visible(around));
      break;
    }
  context.err << fmt::format(
      "next: change what `grep -rn CHANGE {0}` finds, push {0} as a repository, and name it in the "
      "spec: handover: {{ flux: {{ url: …, path: flux }} }}\n",
      visible(name));
  return 0;
}

}  // namespace

static int run_new(Context& context, const Invocation& invocation) {
  const std::string name = invocation.argument("NAME").value();
  if (invocation.is_set("gitops")) return make_gitops(context, invocation, name);
  const std::string root = repository(context);
  const auto from = invocation.find("from");
  std::optional<secrets::Bundle> bundle;
  if (const auto file = invocation.find("secrets")) bundle = bundle_of_file(context, *file);
  std::string folder;
  const auto make = [&](const std::string& recipient) {
    spec::Scaffold made =
        from ? spec::scaffold_from(context.files, root, name, cluster_file(context, from),
                                   spec::find_specs(context.files, root + "/clusters"), recipient,
                                   real_path)
             : spec::scaffold(root, name, recipient);
    folder = made.folder;
    return made;
  };
  write_cluster(context, root, make, {}, std::move(bundle));
  if (folder.starts_with(context.folder + "/")) folder.erase(0, context.folder.size() + 1);
  context.err << fmt::format("next: edit {}/{}, then `rocca validate {}`\n", visible(folder),
                             spec::spec_file_name,
                             visible(folder.ends_with("clusters/" + name) ? name : folder));
  return 0;
}

Command new_command() {
  return {.name = "new",
          .group = "Create a cluster",
          .summary = "create the files of a new cluster",
          .description =
              "Creates clusters/NAME with a commented cluster.yaml, .gitignore and .envrc, and for "
              "the whole repository .sops.yaml and the JSON Schema that editors use; an age key if "
              "none exists; and secrets.sops.yaml with the cluster's own PKI. With --from, the new "
              "cluster is a copy of another one with its own names, addresses, VM ids and secrets. "
              "With --gitops, creates the files of a repository for Flux in the folder NAME "
              "instead. Existing files are never overwritten.",
          .arguments = {{.name = "NAME", .help = "the cluster's name: a DNS label"}},
          .flags = {{.name = "from",
                     .kind = FlagKind::Text,
                     .value = "CLUSTER",
                     .help = "the cluster to copy: a name, a folder or a file"},
                    {.name = "secrets",
                     .kind = FlagKind::Text,
                     .value = "FILE",
                     .help = "import the Talos secrets from talosctl's secrets.yaml or from the "
                             "machine config of a control plane"},
                    {.name = "gitops",
                     .help = "create a repository for Flux instead: MetalLB, cert-manager, "
                             "Longhorn, External Secrets, Traefik and a small site"}},
          .examples = {{"rocca new blue", "a first cluster"},
                       {"rocca new green --from blue", "a second one beside it"},
                       {"rocca new fleet --gitops", "a repository for Flux"}},
          .run = run_new};
}

}  // namespace rocca::cli
