#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/proxmox_access.hpp"
#include "doctor/checkup.hpp"
#include "doctor/helpers.hpp"
#include "doctor/probe.hpp"
#include "doctor/requirements.hpp"
#include "doctor/trace.hpp"
#include "factory/schematic.hpp"
#include "net/transport.hpp"
#include "spec/load.hpp"
#include "spec/lock.hpp"
#include "text/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <ostream>

namespace rocca::cli {

namespace {

constexpr const char* usual_factory = "https://factory.talos.dev";

struct Question {
  proxmox::Access access;
  doctor::Wish wish;
  std::string factory = usual_factory;
  Version talos{1, 11, 5};
  std::optional<spec::Spec> spec{};
};

Question from_flags(Context& context, const Invocation& invocation) {
  if (const auto cluster = invocation.argument("CLUSTER"))
    throw Error(Fault::Usage,
                fmt::format("with --endpoint no spec is read, and {} names one", *cluster))
        .hint(fmt::format("`rocca doctor {}` asks the Proxmox that the spec names", *cluster));
  Question question;
  question.access.endpoints = invocation.all("endpoint");
  question.access.tls = trust_of(context, invocation);
  question.access.token = get_token(context, invocation);
  auto& scope = question.wish.scope;
  scope.hosts = invocation.all("host");
  scope.image_storage = invocation.find("images").value_or("");
  scope.disk_storages = invocation.all("disks");
  for (const std::string& bridge : invocation.all("bridge"))
    scope.links.push_back({bridge, std::nullopt, "localnetwork"});
  scope.pool = invocation.find("pool").value_or("");
  return question;
}

Question from_spec(Context& context, const Invocation& invocation, net::Transport& transport) {
  const std::string file = cluster_file(context, invocation.argument("CLUSTER"));
  const spec::Loaded loaded = spec::load(context.files, file);
  if (loaded.diagnostics.has_errors()) {
    context.err << loaded.diagnostics.render();
    loaded.diagnostics.throw_if_errors(file);
  }
  const spec::Spec& spec = loaded.spec;
  Question question;
  question.access = spec_access(context, invocation, spec, *secrets_of(context, spec, transport));
  // Without its secrets a spec can still be looked at; only our own VMs are not known then.
  std::optional<std::string> cluster_id;
  std::string unknown;
  try {
    cluster_id = get_bundle(context, spec).cluster_id;
  } catch (const Error& error) {
    if (error.fault() == Fault::Interrupted) throw;
    unknown = error.message();
  }
  const spec::Lock lock = spec::find_lock(context.files, spec.folder).value_or(spec::Lock{});
  question.wish = doctor::wish_of(context.files, spec, lock, cluster_id);
  question.wish.identities_unknown = unknown;
  question.factory = *spec.talos.factory;
  question.talos = *spec.talos.version;
  question.spec = spec;
  return question;
}

/// What runs in the cluster and asks Proxmox by itself.
void look_at_helpers(Context& context, const Question& question, net::Transport& wire,
                     doctor::Checkup& checkup) {
  if (!question.spec || !checkup.version) return;
  const auto secrets = secrets_of(context, *question.spec, wire, context.stop());
  for (doctor::Helper& helper : doctor::helpers_of(*question.spec, checkup.version->version)) {
    try {
      helper.token = secrets->find(helper.rights.token);
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted) throw;
      helper.trouble = error.message();
    }
    for (doctor::Finding& finding :
         doctor::examine_helper(wire, question.access, helper, context.stop()))
      checkup.findings.push_back(std::move(finding));
  }
}

/// Real time, until the user wants to stop: that is told once, and what is settled then may pause
/// again.
class RealPause {
 public:
  explicit RealPause(std::stop_token stop) : stop_(std::move(stop)) {}

  void operator()(Duration duration) {
    std::unique_lock lock{mutex_};
    std::condition_variable_any never;
    if (told_) {
      never.wait_for(lock, duration, [] { return false; });
      return;
    }
    never.wait_for(lock, stop_, duration, [] { return false; });
    if (!stop_.stop_requested()) return;
    told_ = true;
    throw Error(Fault::Interrupted, "interrupted")
        .hint("the steps above say what was made and what was taken away again");
  }

 private:
  std::stop_token stop_;
  std::mutex mutex_;
  bool told_ = false;
};

std::string need_one(const std::vector<std::string>& given, const char* what, const char* flag) {
  if (!given.empty() && !given.front().empty()) return given.front();
  throw Error(Fault::Usage, fmt::format("a probe needs {}", what))
      .hint(fmt::format("name one with {}", flag));
}

doctor::ProbePlan plan_probe(const Question& question, const Invocation& invocation,
                             proxmox::Client& client) {
  const proxmox::Scope& scope = question.wish.scope;
  doctor::ProbePlan plan;
  plan.image_storage = need_one({scope.image_storage}, "a storage for images", "--images");
  plan.disk_storage = need_one(scope.disk_storages, "a storage for disks", "--disks");
  std::vector<std::string> bridges;
  for (const auto& link : scope.links) bridges.push_back(link.bridge);
  plan.bridge = need_one(bridges, "a bridge", "--bridge");
  plan.pool = scope.pool;
  std::vector<std::string> hosts = scope.hosts;
  if (hosts.empty())
    for (const proxmox::NodeInfo& node : client.nodes())
      if (node.online) hosts.push_back(node.name);
  plan.host = need_one(hosts, "a host that is up", "--host");
  // The smallest image with a guest agent in it; this schematic is known to the public factory.
  factory::Schematic schematic;
  schematic.extensions = {factory::extension_name("qemu-guest-agent")};
  plan.image_url =
      invocation.find("image-url")
          .value_or(fmt::format("{}/image/{}/v{}/nocloud-amd64.qcow2", question.factory,
                                schematic.id(), to_string(question.talos)));
  return plan;
}

}  // namespace

static int run_doctor(Context& context, const Invocation& invocation) {
  const auto transport = context.transport();
  const Question question = invocation.all("endpoint").empty()
                                ? from_spec(context, invocation, *transport)
                                : from_flags(context, invocation);
  const bool text = invocation.get("output") == "text";
  const bool wants_probe = invocation.is_set("probe");

  std::optional<doctor::Tracing> tracing;
  if (const auto file = invocation.find("trace")) {
    const std::string_view token = question.access.token.reveal();
    context.files.write_private(*file, "", 0600);
    tracing.emplace(
        *transport, context.clock, std::string(token.substr(0, token.find('='))),
        [&context, path = *file](std::string_view line) { context.files.append(path, line); });
  }
  net::Transport& wire = tracing ? static_cast<net::Transport&>(*tracing) : *transport;

  doctor::Checkup checkup = doctor::examine(wire, context.clock, question.access, question.wish);
  look_at_helpers(context, question, wire, checkup);
  text::Value data = doctor::to_value(checkup);
  if (text || !wants_probe)
    print(context, invocation, data, doctor::render_text(checkup, context.terminal.colour_out));
  if (!wants_probe) return checkup.exit_code();
  if (!checkup.healthy()) {
    if (!text) print(context, invocation, data, "");
    context.err << "no probe is made before this is mended\n";
    return checkup.exit_code();
  }

  // Without a stop token: what was made must be taken away again after a stop, too.
  proxmox::Client client{wire, question.access};
  const doctor::ProbePlan plan = plan_probe(question, invocation, client);
  context.out.flush();
  confirm(context,
          fmt::format("Make a VM on {} from {} and destroy it again?", plan.host, plan.image_url),
          invocation.is_set("yes"));
  RealPause pause{context.stop()};
  const doctor::Probe probe = doctor::probe(client, context.clock, context.entropy, plan,
                                            std::ref(pause), [&](const doctor::ProbeStep& step) {
                                              (text ? context.out : context.err)
                                                  << doctor::render_text(step) << std::flush;
                                            });
  data.set("probe", doctor::to_value(probe));
  print(context, invocation, data, "\n" + doctor::verdict(probe) + "\n");
  return probe.ok() ? 0 : 1;
}

Command doctor_command() {
  return {
      .name = "doctor",
      .group = "Create a cluster",
      .summary = "check that Proxmox is ready",
      .description =
          "Checks, with the cluster's own API token, everything that a cluster needs: reachability "
          "and TLS, clocks, version, quorum, each privilege on each path, storages, bridges, VM "
          "ids and MACs. Changes nothing unless --probe is given. Prints the commands that fix "
          "each problem. Exit code 4: a right is missing; 1: another problem.\n\nThe token is read "
          "from ROCCA_PROXMOX_TOKEN, from a file, or from the secrets of the spec, never from the "
          "command line.",
      .arguments = {cluster_argument()},
      .flags = joined(
          access_flags(),
          {{.name = "host",
            .kind = FlagKind::Text,
            .value = "NAME",
            .help = "host to use, with --endpoint; default: all",
            .repeats = true},
           {.name = "images",
            .kind = FlagKind::Text,
            .value = "STORAGE",
            .help = "storage for images, with --endpoint"},
           {.name = "disks",
            .kind = FlagKind::Text,
            .value = "STORAGE",
            .help = "storage for disks, with --endpoint",
            .repeats = true},
           {.name = "bridge",
            .kind = FlagKind::Text,
            .value = "NAME",
            .help = "bridge for NICs, with --endpoint",
            .repeats = true},
           {.name = "pool",
            .kind = FlagKind::Text,
            .value = "NAME",
            .help = "pool for VMs, with --endpoint"},
           {.name = "probe",
            .help = "also create one marked VM, boot it and destroy it again, and time each step"},
           {.name = "image-url",
            .kind = FlagKind::Text,
            .value = "URL",
            .help = "disk image for the probe (.qcow2 or .raw); default: Talos"},
           {.name = "trace",
            .kind = FlagKind::Text,
            .value = "FILE",
            .help = "record requests and answers, without token and user names"},
           {.name = "yes", .help = "do not ask before the probe"},
           output_flag()}),
      .examples = {{"rocca doctor blue", "is Proxmox ready for the cluster blue"},
                   {"rocca doctor --endpoint https://pve.home:8006 --images local --disks "
                    "local-lvm --bridge vmbr0",
                    "before there is a spec"},
                   {"rocca doctor blue --probe --trace probe.jsonl", "can a VM really be created"}},
      .run = run_doctor};
}

}  // namespace rocca::cli
