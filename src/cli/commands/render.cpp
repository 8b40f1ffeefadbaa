#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/access_files.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/rendering.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "factory/node_image.hpp"
#include "net/transport.hpp"
#include "secrets/bundle.hpp"
#include "session/session.hpp"
#include "spec/lock.hpp"
#include "talosconfig/input.hpp"
#include "talosconfig/validate.hpp"

#include <fmt/format.h>

#include <ostream>
#include <set>

namespace rocca::cli {

namespace {

std::string absolute(const std::string& folder, const std::string& path) {
  return path.starts_with('/') ? path : folder + "/" + path;
}

secrets::Bundle find_secrets(Context& context, const Invocation& invocation,
                             const spec::Spec& spec) {
  const auto given = invocation.find("secrets");
  return given ? bundle_of_file(context, *given) : get_bundle(context, spec);
}

std::vector<const spec::Node*> chosen_nodes(const Invocation& invocation, const spec::Spec& spec) {
  std::vector<const spec::Node*> nodes;
  for (const std::string& name : invocation.all("node")) {
    const spec::Node* node = spec.find_node(name);
    if (node == nullptr) {
      std::vector<std::string> known;
      for (const spec::Node& other : spec.nodes) known.push_back(other.name);
      throw Error(Fault::NotFound,
                  fmt::format("the cluster has no node '{}'{}", name, did_you_mean(name, known)));
    }
    nodes.push_back(node);
  }
  if (nodes.empty())
    for (const spec::Node& node : spec.nodes) nodes.push_back(&node);
  return nodes;
}

/// A patch may have made it wrong: said before a node says it.
bool check(Context& context, const spec::Spec& spec, const spec::Node& node,
           const talos::MachineConfig& config) {
  const auto mode = talos::image_platform(spec, node) == "metal" ? talos::ConfigMode::Metal
                                                                 : talos::ConfigMode::Cloud;
  const auto problems =
      talos::validate_config(config.text.reveal(), node.name + ".yaml",
                             static_cast<unsigned>(spec.talos.version->minor()), mode);
  bool good = true;
  for (const talos::ConfigProblem& problem : problems) {
    context.err << (problem.warning ? "warning: " : "error: ")
                << visible(talos::to_string(problem, node.name + ".yaml"), 4) << "\n";
    good = good && problem.warning;
  }
  return good;
}

}  // namespace

std::optional<std::vector<RenderedNode>> render_nodes(Context& context, const spec::Spec& spec,
                                                      const std::vector<const spec::Node*>& nodes,
                                                      secrets::Bundle bundle,
                                                      const std::string& first_address) {
  const auto transport = context.transport();
  talos::Surroundings around = session::config_context(
      spec, std::move(bundle), *secrets_of(context, spec, *transport), report_to(context));
  around.first_address = first_address;
  std::vector<RenderedNode> configs;
  bool good = true;
  for (const spec::Node* node : nodes) {
    talos::Surroundings own = around;
    own.schematic = factory::node_image(context.files, spec, *node).id;
    if (const auto marks = talos::mark_unknown(own, spec, *node); !marks.empty())
      context.err << fmt::format(
          "note: {} is asked for what the spec leaves open when it is met; until then {} {}\n",
          node->name, enumerate(marks), marks.size() == 1 ? "is a mark" : "are marks");
    talos::MachineConfig config = within("rendering " + node->name, [&] {
      return talos::render_config(talos::config_input(spec, *node, own));
    });
    good = check(context, spec, *node, config) && good;
    configs.emplace_back(node, std::move(config));
  }
  if (!good) return std::nullopt;
  return configs;
}

static int run_render(Context& context, const Invocation& invocation) {
  const spec::Spec spec = load_cluster(context, invocation.argument("CLUSTER"));
  const auto nodes = chosen_nodes(invocation, spec);
  const auto configs = render_nodes(context, spec, nodes, find_secrets(context, invocation, spec),
                                    first_address_of(spec, addresses_of(context, spec)));
  if (!configs) return 1;
  const bool in_clear = invocation.is_set("show-secrets");
  const auto out = invocation.find("out");
  if (out) context.files.make_folder(absolute(context.folder, *out), 0700);
  for (const auto& [node, config] : *configs) {
    const std::string_view text = in_clear ? config.text.reveal() : std::string_view{config.masked};
    if (out) {
      const std::string path = *out + "/" + node->name + ".yaml";
      context.files.write_private(absolute(context.folder, path), text, 0600);
      context.out << visible(path) << "\n";
      continue;
    }
    if (configs->size() > 1) context.out << "# " << node->name << "\n---\n";
    context.data() << text;
  }
  return 0;
}

Command render_command() {
  return {.name = "render",
          .group = "Create a cluster",
          .summary = "print the Talos machine configs",
          .description =
              "Renders the machine configuration of every node for its Talos version, with the "
              "patches of the spec merged, and validates it. Keys and tokens are shown as *** "
              "unless --show-secrets is given; files are readable by their owner only. The "
              "cluster's secrets come from its SOPS file (under `talos`), or from a file written "
              "by `talosctl gen secrets`.",
          .arguments = {cluster_argument()},
          .flags = {{.name = "node",
                     .kind = FlagKind::Text,
                     .value = "NAME",
                     .help = "only this node",
                     .repeats = true},
                    {.name = "out",
                     .kind = FlagKind::Text,
                     .value = "FOLDER",
                     .help = "write NAME.yaml files there instead of printing"},
                    {.name = "secrets",
                     .kind = FlagKind::Text,
                     .value = "FILE",
                     .help = "read the secrets from a secrets.yaml, or from the machine config of "
                             "a control plane"},
                    {.name = "show-secrets", .help = "print keys and tokens in clear text"}},
          .examples = {{"rocca render blue --node cp-1", "one node, secrets masked"},
                       {"rocca render blue --out configs --show-secrets",
                        "files that talosctl can apply"}},
          .run = run_render};
}

}  // namespace rocca::cli
