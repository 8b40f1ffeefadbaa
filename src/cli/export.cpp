#include "base/error.hpp"
#include "cli/access_files.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/rendering.hpp"
#include "text/emit.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

namespace {

/// Files in clear, for their owner alone, in a folder that was empty.
class Export {
 public:
  Export(Context& context, std::string folder) : context_(context), folder_(std::move(folder)) {
    const std::string path = absolute(folder_);
    if (context_.files.status(path) && !context_.files.list(path).empty())
      throw Error(Fault::Conflict, fmt::format("{} is not empty", folder_))
          .hint("name a folder that is not there yet: nothing is overwritten");
    context_.files.make_folder(path, 0700);
  }

  void make_folder(const std::string& name) {
    context_.files.make_folder(absolute(folder_ + "/" + name), 0700);
  }

  void write(const std::string& name, const Secret& text) {
    context_.files.write(absolute(folder_ + "/" + name), text.reveal(), 0600);
    context_.out << folder_ << "/" << name << "\n";
  }

 private:
  std::string absolute(const std::string& path) const {
    return path.starts_with('/') ? path : context_.folder + "/" + path;
  }

  Context& context_;
  std::string folder_;
};

}  // namespace

int run_export(Context& context, const Invocation& invocation) {
  const spec::Spec spec = load_cluster(context, invocation.argument("CLUSTER"));
  Keys keys{context};
  const secrets::Bundle bundle = get_bundle(context, keys, spec);
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

  Export files{context, invocation.find("out").value_or(*spec.name + "-export")};
  files.write("secrets.yaml", secrets);
  files.write("talosconfig", talosconfig);
  files.write("kubeconfig", kubeconfig);
  files.make_folder("nodes");
  for (const RenderedNode& one : *configs)
    files.write("nodes/" + one.first->name + ".yaml", one.second.text);
  context.err << "all in clear, for you alone: keep them out of Git\n";
  return 0;
}

}  // namespace rocca::cli
