#include "cli/commands/access_files.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "net/transport.hpp"
#include "session/session.hpp"
#include "spec/gitignore.hpp"
#include "talosconfig/input.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

namespace {

/// Where kube-apiserver is reached: the VIP, the host, or the first control plane.
std::string server_of(const spec::Spec& spec, const Addresses& addresses) {
  std::string first;
  for (const spec::Node* node : spec.control_planes())
    if (const auto found = addresses.find(node->name);
        first.empty() && found != addresses.end() && IpAddress::parse(found->second))
      first = found->second;
  if (!spec.kubernetes.endpoint && first.empty())
    throw Error(Fault::Usage, "nobody knows yet where the cluster's API will be")
        .hint(
            "its control planes get their addresses by DHCP: `rocca up` finds them; or name "
            "kubernetes.endpoint");
  return talos::endpoint_of(spec, first);
}

void hand_out(Context& context, const Invocation& invocation, const spec::Spec& spec,
              const Secret& text, const std::string& name) {
  std::string path = invocation.find("file").value_or("");
  if (path.empty() && invocation.is_set("save")) {
    spec::keep_out_of_git(context.files, spec.folder);
    refuse_link(context.files, spec.folder + "/configs");
    context.files.make_folder(spec.folder + "/configs", 0700);
    path = spec.folder + "/configs/" + name;
  }
  if (path.empty()) {
    context.data() << text.reveal();
    return;
  }
  context.files.write_private(path, text.reveal(), 0600);
  context.err << "wrote " << visible(path) << "\n";
}

}  // namespace

Addresses addresses_of(Context& context, const spec::Spec& spec) {
  Addresses all;
  bool open = false;
  for (const spec::Node& node : spec.nodes) {
    if (node.address) all[node.name] = to_string(**node.address);
    open = open || !node.address;
  }
  if (!open) return all;
  const auto transport = context.transport();
  const auto state = session::open_store(spec, {.transport = *transport,
                                                .files = context.files,
                                                .clock = context.clock,
                                                .entropy = context.entropy,
                                                .secrets = secrets_of(context, spec, *transport),
                                                .environment = context.environment})
                         ->load();
  if (!state) return all;
  for (const spec::Node& node : spec.nodes) {
    const auto item = state->items.find("machine/" + node.name);
    if (node.address || item == state->items.end()) continue;
    const auto address = item->second.facts.find("address");
    if (address != item->second.facts.end()) all[node.name] = address->second;
  }
  return all;
}

std::string first_address_of(const spec::Spec& spec, const Addresses& addresses) {
  const auto planes = spec.control_planes();
  if (planes.empty() || planes.front()->address) return "";
  const auto found = addresses.find(planes.front()->name);
  return found == addresses.end() ? "" : found->second;
}

secrets::KubeconfigOptions kubeconfig_options(const spec::Spec& spec, const Addresses& addresses) {
  secrets::KubeconfigOptions options;
  options.cluster = *spec.name;
  options.server = server_of(spec, addresses);
  return options;
}

secrets::TalosconfigOptions talosconfig_options(const spec::Spec& spec,
                                                const Addresses& addresses) {
  secrets::TalosconfigOptions options;
  options.context = *spec.name;
  for (const spec::Node& node : spec.nodes) {
    const auto found = addresses.find(node.name);
    if (found == addresses.end()) continue;
    options.nodes.push_back(found->second);
    if (node.control_plane()) options.endpoints.push_back(found->second);
  }
  if (options.endpoints.empty())
    throw Error(Fault::Usage, "nobody knows yet where a control plane is")
        .hint("with DHCP `rocca up` finds their addresses when the machines run");
  return options;
}

static int run_kubeconfig(Context& context, const Invocation& invocation) {
  const spec::Spec spec = load_cluster(context, invocation.argument("CLUSTER"));
  secrets::KubeconfigOptions options = kubeconfig_options(spec, addresses_of(context, spec));
  if (const auto lifetime = invocation.duration("lifetime")) options.lifetime = *lifetime;
  const secrets::Bundle bundle = get_bundle(context, spec);
  hand_out(context, invocation, spec,
           secrets::mint_kubeconfig(bundle, options, context.clock.now(), context.entropy),
           "kubeconfig");
  return 0;
}

static std::vector<Flag> access_file_flags(const std::string& name) {
  return {{.name = "file",
           .kind = FlagKind::Text,
           .value = "FILE",
           .help = "write it to this file instead of printing it"},
          {.name = "save", .help = "write it to configs/" + name + " beside the spec"},
          {.name = "lifetime",
           .kind = FlagKind::Duration,
           .value = "DURATION",
           .help = "how long it is valid; default: one year"}};
}

Command kubeconfig_command() {
  return {.name = "kubeconfig",
          .group = "Access",
          .summary = "create an admin kubeconfig",
          .description =
              "Created offline from the cluster's secrets; the cluster need not be running. "
              "Printed, or written to a file that only its owner can read.",
          .arguments = {cluster_argument()},
          .flags = access_file_flags("kubeconfig"),
          .examples = {{"rocca kubeconfig blue --save", "the file that .envrc points to"},
                       {"rocca kubeconfig --lifetime 8h > admin.yaml", "for today"}},
          .run = run_kubeconfig};
}

static int run_talosconfig(Context& context, const Invocation& invocation) {
  const spec::Spec spec = load_cluster(context, invocation.argument("CLUSTER"));
  secrets::TalosconfigOptions options = talosconfig_options(spec, addresses_of(context, spec));
  if (const auto lifetime = invocation.duration("lifetime")) options.lifetime = *lifetime;
  const secrets::Bundle bundle = get_bundle(context, spec);
  hand_out(context, invocation, spec,
           secrets::mint_talosconfig(bundle, options, context.clock.now(), context.entropy),
           "talosconfig");
  return 0;
}

Command talosconfig_command() {
  return {.name = "talosconfig",
          .group = "Access",
          .summary = "create an admin talosconfig",
          .description =
              "Created offline from the cluster's secrets; the cluster need not be running. "
              "Printed, or written to a file that only its owner can read.",
          .arguments = {cluster_argument()},
          .flags = access_file_flags("talosconfig"),
          .examples = {{"rocca talosconfig blue --save", "the file that .envrc points to"}},
          .run = run_talosconfig};
}

}  // namespace rocca::cli
