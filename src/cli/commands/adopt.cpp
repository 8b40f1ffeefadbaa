#include "adopt/describe.hpp"
#include "adopt/proof.hpp"
#include "adopt/staged_files.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/cluster_run.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/new_cluster.hpp"
#include "cli/proxmox_access.hpp"
#include "scaffold/scaffold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <sstream>

namespace rocca::cli {

namespace {

std::string absolute(const Context& context, const std::string& path) {
  return path.starts_with('/') ? path : context.folder + "/" + path;
}

Secret read_state(Context& context, const std::string& file) {
  if (file != "-") return Secret::take(context.files.get(absolute(context, file)));
  return Secret::take(std::string{std::istreambuf_iterator<char>(context.in), {}});
}

/// Whoever comes from bpg's provider has these set.
std::optional<std::string> other_variable(const Context& context, const char* name) {
  auto text = context.variable(name);
  while (text && text->ends_with('/')) text->pop_back();
  return text;
}

proxmox::Access access_of(Context& context, const Invocation& invocation) {
  proxmox::Access access;
  access.endpoints = invocation.all("endpoint");
  if (access.endpoints.empty())
    if (const auto known = other_variable(context, "PROXMOX_VE_ENDPOINT"))
      access.endpoints = {*known};
  if (access.endpoints.empty())
    access.endpoints = {ask_line(context, "Where is the Proxmox (such as https://pve.home:8006)?",
                                 "--endpoint https://HOST:8006")};
  const auto theirs = other_variable(context, "PROXMOX_VE_API_TOKEN");
  if (auto token = find_token(context, invocation))
    access.token = std::move(*token);
  else
    access.token = theirs ? Secret{*theirs} : get_token(context, invocation);
  access.tls = trust_of(context, invocation);
  return access;
}

/// Where images of nodes to come are downloaded to.
std::string image_storage(const Invocation& invocation, proxmox::Client& client,
                          const std::string& host) {
  if (const auto given = invocation.find("images")) return *given;
  for (const proxmox::StorageInfo& storage : client.storages(host))
    if (storage.enabled && storage.active && storage.holds("import")) return storage.name;
  return "local";
}

/// The files of the cluster as they would be, in memory.
class TakeOver {
 public:
  TakeOver(Context& context, const Invocation& invocation, adopt::Description described,
           secrets::Bundle bundle, Secret token)
      : context_(context),
        invocation_(invocation),
        staged_(context.files),
        described_(std::move(described)),
        bundle_(std::move(bundle)),
        token_(std::move(token)),
        keys_(keys_of(context)) {}

  void write(const std::string& root, const std::string& folder) {
    folder_ = folder;
    Context quiet = inner(said_);
    std::map<std::string, Secret> known = described_.secrets;
    known.emplace("proxmox.token", token_);
    write_cluster(
        quiet, root,
        [&](const std::string& recipient) {
          spec::Scaffold made = spec::scaffold(root, described_.name, recipient);
          for (spec::NewFile& file : made.files) {
            if (file.path == made.folder + "/cluster.yaml") file.content = described_.spec;
            if (file.path.starts_with(made.folder + "/"))
              file.path = folder_ + file.path.substr(made.folder.size());
          }
          made.folder = folder_;
          made.notes.clear();
          made.files.push_back({folder_ + "/rocca.lock", spec::to_text(described_.lock), 0644});
          return made;
        },
        known, bundle_);
    if (!quiet.keys) keys_.reset();  // an age key was made, and only the staged files have it
  }

  /// Nothing is there that would have to be changed: what these files say is what runs.
  void prove(std::stop_token stop) {
    Context loud = inner(context_.err);
    adopt::FirstPlan first = first_plan(loud, stop);
    if (!first.leave.empty() && first.differs.empty()) {
      leave_ = first.leave;
      note(leave_);
      first = first_plan(loud, stop);
    }
    refuse(first);
    {
      // Writes the state and the access files, and does nothing else: the plan is empty.
      ClusterRun cluster{loud, invocation_, "adopt", stop, folder_ + "/cluster.yaml"};
      refuse(adopt::judge(cluster.run().plan()));
      const engine::Report report = cluster.run().up([](const engine::Event&) {});
      if (report.error) throw *report.error;
      for (const auto& [address, step] : report.steps)
        if (step.error) throw *step.error;
    }
    ClusterRun cluster{loud, invocation_, "adopt", stop, folder_ + "/cluster.yaml"};
    const engine::Plan& plan = cluster.run().plan();
    refuse(adopt::judge(plan));
    if (!plan.empty()) throw Error(Fault::Bug, "the plan of the files just written is not empty");
  }

  void commit() {
    for (const std::string& path : staged_.commit(folder_, folder_ + "/configs"))
      context_.out << visible(path.starts_with(context_.folder + "/")
                                  ? path.substr(context_.folder.size() + 1)
                                  : path)
                   << "\n";
    context_.err << said_.str() << adopt::render(described_.left, leave_);
  }

  /// What must be said although nothing was taken over.
  std::string list() const { return adopt::render(described_.left, leave_); }

 private:
  Context inner(std::ostream& err) {
    Context made{staged_,
                 context_.clock,
                 context_.entropy,
                 context_.transport,
                 context_.environment,
                 context_.folder,
                 context_.in,
                 nowhere_,
                 err,
                 context_.terminal,
                 context_.catalog,
                 context_.ask_secret,
                 {}};
    made.keys = keys_;
    return made;
  }

  adopt::FirstPlan first_plan(Context& context, std::stop_token stop) {
    ClusterRun cluster{context, invocation_, "adopt", std::move(stop), folder_ + "/cluster.yaml"};
    return adopt::judge(cluster.run().plan());
  }

  void note(const std::vector<adopt::FirstPlan::Value>& leave) {
    state::State state;
    state.cluster = described_.name;
    state.cluster_id = bundle_.cluster_id;
    adopt::remember(staged_, context_.clock, context_.entropy, folder_ + "/.rocca", state, leave);
  }

  static void refuse(const adopt::FirstPlan& first) {
    if (first.empty()) return;
    std::string message = "the first plan would not be empty:";
    for (const std::string& line : first.differs) message += "\n  " + line;
    for (const adopt::FirstPlan::Value& value : first.leave)
      message += fmt::format("\n  {} {}: '{}' -> '{}'", value.address, value.field, value.found,
                             value.declared);
    throw Error(Fault::Refused, std::move(message))
        .hint("nothing was written and nothing was touched; what differs must be mended first");
  }

  Context& context_;
  const Invocation& invocation_;
  adopt::StagedFiles staged_;
  adopt::Description described_;
  secrets::Bundle bundle_;
  Secret token_;
  std::shared_ptr<session::Keys> keys_;  // one lookup for all runs of this command
  std::string folder_;
  std::vector<adopt::FirstPlan::Value> leave_;
  std::ostringstream nowhere_, said_;
};

}  // namespace

static int run_adopt(Context& context, const Invocation& invocation) {
  const std::string file = invocation.argument("STATE").value();
  std::optional<secrets::Bundle> bundle;
  if (const auto given = invocation.find("secrets")) bundle = bundle_of_file(context, *given);
  std::optional<adopt::Remembered> remembered;
  {
    const Secret text = read_state(context, file);
    Diagnostics problems;
    remembered = adopt::read_tfstate(
        text.reveal(), file == "-" ? "stdin" : file,
        {.module = invocation.find("module").value_or(""), .has_bundle = bundle.has_value()},
        problems);
    context.err << problems.render();
    problems.throw_if_errors(file == "-" ? "stdin" : file);
  }
  if (!bundle) bundle = std::move(remembered->bundle);

  const std::stop_token stop = context.stop();
  const auto transport = context.transport();
  proxmox::Access access = access_of(context, invocation);
  adopt::Wording wording;
  wording.site.endpoints = access.endpoints;
  wording.site.fingerprint = pin_of(context, invocation, *transport, access);
  wording.site.insecure = invocation.is_set("insecure") && wording.site.fingerprint.empty();
  if (const auto authority = invocation.find("ca-file"))
    wording.site.ca_file = absolute(context, *authority);
  const resources::Credentials credentials =
      resources::mint_credentials(*bundle, context.clock.now(), context.entropy);
  adopt::Found found =
      adopt::look({*transport, access, bundle->os.crt, credentials.talos, stop}, *remembered);
  for (adopt::Left& left : remembered->left) found.left.push_back(std::move(left));

  wording.name = adopt::cluster_name(found);
  if (!is_dns_label(wording.name))
    throw Error(Fault::Refused,
                fmt::format("the nodes call their cluster '{}', and no spec can", wording.name))
        .hint("a cluster's name is 1 to 63 of a-z, 0-9 and -; change cluster.clusterName first");
  const std::string root = repository(context);
  const auto out = invocation.find("out");
  const std::string folder =
      out ? absolute(context, *out) : fmt::format("{}/clusters/{}", root, wording.name);
  if (context.files.status(folder))
    throw Error(Fault::Conflict, fmt::format("{} is already there", folder))
        .hint("nothing was changed; --out names another place");
  wording.folder = folder;
  proxmox::Client client{*transport, access, stop};
  wording.site.images = image_storage(invocation, client, found.nodes.front().row.node);

  adopt::Description described;
  try {
    described = adopt::describe(context.files, found, *bundle, wording);
  } catch (const Error&) {
    context.err << adopt::render(found.left, {});  // what is missing may be among these
    throw;
  }
  const std::size_t nodes = described.lock.nodes.size();
  TakeOver take_over{context, invocation, std::move(described), std::move(*bundle), access.token};
  try {
    take_over.write(root, folder);
    take_over.prove(stop);
  } catch (const Error&) {
    context.err << take_over.list();
    throw;
  }
  take_over.commit();
  context.err << fmt::format(
      "took over {} of cluster {}: its first plan is empty. The other tool must not touch them any "
      "more: `terraform state rm` takes them out of its hands\nnext: rocca plan {}\n",
      plural(nodes, "node"), visible(wording.name), visible(out ? *out : wording.name));
  return 0;
}

Command adopt_command() {
  return {
      .name = "adopt",
      .group = "Create a cluster",
      .summary = "take over a cluster created by Terraform or OpenTofu",
      .description =
          "Reads a state of Terraform or OpenTofu (bpg/proxmox or Telmate/proxmox, and "
          "siderolabs/talos), finds its VMs on Proxmox and reads what the nodes run. Writes "
          "cluster.yaml, secrets.sops.yaml, rocca.lock and a state, but only if the first plan "
          "with them is empty. Changes no machine; names what cannot be taken over.",
      .arguments = {{.name = "STATE",
                     .help =
                         "a terraform.tfstate; `-` reads the output of `state pull` from stdin"}},
      .flags = joined(
          {{.name = "secrets",
            .kind = FlagKind::Text,
            .value = "FILE",
            .help = "the Talos secrets if the state has none: the machine config of a control "
                    "plane, or talosctl's secrets.yaml"},
           {.name = "module",
            .kind = FlagKind::Text,
            .value = "ADDRESS",
            .help = "only this module of the state, for one of several clusters: module.blue"},
           {.name = "out",
            .kind = FlagKind::Text,
            .value = "FOLDER",
            .help = "where to write; default: clusters/NAME"},
           {.name = "images",
            .kind = FlagKind::Text,
            .value = "STORAGE",
            .help = "storage for the images of new nodes"}},
          access_flags()),
      .examples = {{"rocca adopt terraform.tfstate --endpoint https://pve.home:8006",
                    "a state in a file"},
                   {"tofu state pull | rocca adopt - --secrets controlplane.yaml",
                    "from any backend"}},
      .run = run_adopt};
}

}  // namespace rocca::cli
