#include "cli/cluster_run.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/proxmox_access.hpp"
#include "cli/slow_answers.hpp"
#include "cli/terminal/live_screen.hpp"
#include "report/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ostream>

namespace rocca::cli {

namespace {

std::string absolute(const std::string& folder, const std::string& path) {
  return path.starts_with('/') ? path : folder + "/" + path;
}

/// `anna@laptop, process 4711`: who holds a lock, for whoever finds it held.
std::string who_am_i(const Context& context) {
  std::array<char, 256> machine{};
  if (gethostname(machine.data(), machine.size() - 1) != 0) machine[0] = '\0';
  const std::string user = context.variable("USER").value_or("somebody");
  return fmt::format("{}@{}, process {}", user, machine.data(), getpid());
}

engine::EffectPolicy policy_of(const spec::Spec& spec, const Invocation& invocation) {
  engine::EffectPolicy policy;
  policy.protect = *spec.protect;
  policy.allowed.clear();
  for (const auto& effect : spec.allow)
    if (const auto known = engine::parse_effect(spec::to_string(*effect)))
      policy.allowed.insert(*known);
  if (find_flag(invocation.command(), "allow") != nullptr)
    for (const std::string& word : invocation.all("allow"))
      if (const auto known = engine::parse_effect(word)) policy.allowed.insert(*known);
  return policy;
}

session::Purpose purpose_of(const std::string& doing) {
  if (doing == "down") return session::Purpose::Destroy;
  return doing == "history" ? session::Purpose::History : session::Purpose::Apply;
}

resources::RunOptions options_of(const Context& context, const Invocation& invocation,
                                 const spec::Spec& spec, const std::string& doing) {
  resources::RunOptions options;
  options.policy = policy_of(spec, invocation);
  options.who = who_am_i(context);
  options.doing = doing;
  const auto knows = [&](const char* flag) {
    return find_flag(invocation.command(), flag) != nullptr;
  };
  if (knows("parallelism")) {
    const auto wanted = invocation.number("parallelism").value_or(64);
    if (wanted < 1 || wanted > 1000)
      throw Error(Fault::Usage, "--parallelism must be between 1 and 1000");
    options.parallelism = static_cast<unsigned>(wanted);
  }
  if (knows("target")) options.targets = invocation.all("target");
  options.locked = knows("locked") && invocation.is_set("locked");
  options.force_lock = knows("take-over") && invocation.is_set("take-over");
  return options;
}

/// The first word about a far side that does not answer comes within seconds.
std::unique_ptr<net::Transport> speaking(Context& context) {
  SlowAnswers::Options options;
  options.say = [&context](const std::string& line) {
    context.err << visible(line) << "\n" << std::flush;
  };
  options.is_quiet = [] { return LiveScreen::is_shown(); };
  return std::make_unique<SlowAnswers>(context.transport(), std::move(options));
}

}  // namespace

Flag allow_flag() {
  return {.name = "allow",
          .kind = FlagKind::Choice,
          .value = "CLASS",
          .choices = {"live", "service", "reboot", "power-cycle", "replace", "data-loss"},
          .help = "allow changes of this class too",
          .repeats = true};
}

Flag events_flag() {
  return {.name = "events",
          .kind = FlagKind::Text,
          .value = "FILE",
          .help = "write every event there as a line of JSON"};
}

Flag parallelism_flag() {
  return {.name = "parallelism",
          .kind = FlagKind::Number,
          .value = "N",
          .fallback = "64",
          .help = "calls in flight at once, at the most"};
}

Flag take_over_flag() {
  return {.name = "take-over", .help = "take the state's lock although somebody seems to hold it"};
}

std::vector<Flag> run_flags() {
  return {{.name = "target",
           .kind = FlagKind::Text,
           .value = "THING",
           .help = "only this node or thing, and all it needs",
           .repeats = true},
          parallelism_flag(),
          {.name = "locked", .help = "refuse if rocca.lock would change"},
          take_over_flag()};
}

ClusterRun::ClusterRun(Context& context, const Invocation& invocation, const std::string& doing,
                       std::stop_token stop)
    : ClusterRun(context, invocation, doing, std::move(stop), invocation.argument("CLUSTER")) {}

ClusterRun::ClusterRun(Context& context, const Invocation& invocation, const std::string& doing,
                       std::stop_token stop, const std::optional<std::string>& cluster) {
  spec::Spec spec = load_cluster(context, cluster);
  transport_ = speaking(context);
  resources::RunOptions options = options_of(context, invocation, spec, doing);
  options.called = cluster.value_or("");
  const unsigned calls = options.parallelism + 1;
  runner_ = context.runner ? context.runner(calls) : engine::pool_runner(calls, context.clock);
  const session::Purpose purpose = purpose_of(doing);
  const bool asks_proxmox = spec.proxmox && purpose != session::Purpose::History;
  session_ = std::make_unique<session::Session>(
      session::Inputs{
          .spec = std::move(spec),
          .transport = *transport_,
          .files = context.files,
          .clock = context.clock,
          .entropy = context.entropy,
          .runner = *runner_,
          .purpose = purpose,
          .options = std::move(options),
          .keys = keys_of(context, stop),
          .environment = context.environment,
          .run_program = program_runner(context, stop),
          .proxmox_token = asks_proxmox ? find_token(context, invocation) : std::nullopt,
          .without_state =
              purpose == session::Purpose::Destroy && invocation.is_set("without-state"),
          .report = report_to(context)},
      stop);
}

ClusterRun::~ClusterRun() = default;

bool is_mistake(Fault fault) {
  return fault == Fault::Usage || fault == Fault::NotFound || fault == Fault::Denied ||
         fault == Fault::Bug || fault == Fault::Interrupted;
}

Error unread_error(const engine::Plan& plan) {
  std::vector<std::string> names;
  const Error* worst = nullptr;
  for (const auto& [address, error] : plan.errors) {
    names.push_back(address);
    if (worst == nullptr || (is_mistake(error.fault()) && !is_mistake(worst->fault())))
      worst = &error;
  }
  if (names.size() == 1) return *worst;
  Error error(worst->fault(),
              fmt::format("{} could not be read: {} ({})", plural(names.size(), "thing"),
                          enumerate(names), worst->message()));
  if (!worst->hint().empty()) error.hint(worst->hint());
  return error;
}

int show_run(Context& context, const Invocation& invocation, const engine::Plan& plan,
             const std::string& cluster,
             const std::function<engine::Report(const engine::EventSink&)>& act) {
  const auto file = invocation.find("events");
  if (file) context.files.write_private(absolute(context.folder, *file), "", 0600);
  LiveScreen screen{context, plan};
  const engine::Report report = act([&](const engine::Event& event) {
    if (file) context.files.append(absolute(context.folder, *file), report::event_line(event));
    screen.take(event);
  });
  screen.finish();
  if (invocation.get("output") == "text") {
    const std::string verb = invocation.command().name == "down" ? "down" : "up";
    context.err << report::render(
        report, fmt::format("rocca {}{}{}", verb, cluster.empty() ? "" : " ", cluster),
        {.colour = context.terminal.colour_err, .width = context.terminal.width});
  } else {
    print(context, invocation, report::to_value(report), "");
  }
  if (report.error) throw *report.error;
  return report::exit_code(report);
}

}  // namespace rocca::cli
