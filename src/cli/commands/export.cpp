#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/access_files.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/rendering.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/terminal/private_folder.hpp"
#include "text/emit.hpp"

#include <ostream>

namespace rocca::cli {

static int run_export(Context& context, const Invocation& invocation) {
  const spec::Spec spec = load_cluster(context, invocation.argument("CLUSTER"));
  const secrets::Bundle bundle = get_bundle(context, spec);
  std::vector<const spec::Node*> nodes;
  for (const spec::Node& node : spec.nodes) nodes.push_back(&node);
  const Addresses addresses = addresses_of(context, spec);
  const auto configs =
      render_nodes(context, spec, nodes, bundle, first_address_of(spec, addresses));
  if (!configs) return 1;
  // Everything is there before the first file is written.
  const Instant now = context.clock.now();
  const Secret kubeconfig =
      secrets::mint_kubeconfig(bundle, kubeconfig_options(spec, addresses), now, context.entropy);
  const Secret talosconfig =
      secrets::mint_talosconfig(bundle, talosconfig_options(spec, addresses), now, context.entropy);
  text::Value tree = secrets::to_value(bundle);
  const Secret secrets{text::emit_yaml(tree)};
  tree.wipe();

  std::vector<std::pair<std::string, Secret>> contents{
      {"secrets.yaml", secrets}, {"talosconfig", talosconfig}, {"kubeconfig", kubeconfig}};
  for (const RenderedNode& one : *configs)
    contents.emplace_back("nodes/" + one.first->name + ".yaml", one.second.text);
  const std::string folder = invocation.find("out").value_or(*spec.name + "-export");
  write_private_folder(context.files,
                       folder.starts_with('/') ? folder : context.folder + "/" + folder, contents);
  for (const auto& [name, text] : contents) context.out << visible(folder + "/" + name) << "\n";
  context.err << "all in clear, for you alone: keep them out of Git\n";
  return 0;
}

Command export_command() {
  return {.name = "export",
          .group = "Access",
          .summary = "write what talosctl and kubectl need, in clear text",
          .description =
              "secrets.yaml as `talosctl gen secrets` writes it, talosconfig, kubeconfig, and the "
              "machine configuration of every node, in clear text, in a new folder that only its "
              "owner can read. With these files the cluster can be operated without rocca.",
          .arguments = {cluster_argument()},
          .flags = {{.name = "out",
                     .kind = FlagKind::Text,
                     .value = "FOLDER",
                     .help = "where to write; default: NAME-export"}},
          .examples = {{"rocca export blue --out /media/stick/blue", "an offline copy"},
                       {"talosctl --talosconfig blue-export/talosconfig health", "without rocca"}},
          .run = run_export};
}

}  // namespace rocca::cli
