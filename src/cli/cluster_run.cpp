#include "cli/cluster_run.hpp"

#include "backends/make_store.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/proxmox_access.hpp"
#include "cli/slow_answers.hpp"
#include "cli/terminal/live_screen.hpp"
#include "kubernetes/external_inputs.hpp"
#include "report/progress.hpp"
#include "sources/resolver.hpp"
#include "spec/lock.hpp"
#include "state/null_store.hpp"
#include "talosconfig/patch_check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
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

/// Stores and editors end a single line with a break that is none of it; several lines stay.
Secret patch_secret(const Secret& secret) {
  std::string text{secret.reveal()};
  const std::size_t end = text.find_last_not_of("\r\n");
  const std::size_t line = text.find('\n');
  if (end != std::string::npos && line > end) text.resize(end + 1);
  return Secret::take(std::move(text));
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

talos::Surroundings surroundings(Context& context, const spec::Spec& spec, secrets::Bundle bundle,
                                 net::Transport& transport, std::stop_token stop) {
  talos::Surroundings around;
  around.bundle = std::move(bundle);
  sources::Resolver resolver{spec, secret_doors(context, transport, stop), stop};
  if (spec.tailscale)
    around.tailscale_key = resolver.get_line(*spec.tailscale->auth_key, "tailscale.authKey");
  for (const spec::Node& node : spec.nodes)
    for (const auto& patch : node.patches)
      for (const auto& secret : patch->secrets) {
        const std::string key = talos::secret_key(*secret);
        if (around.patch_secrets.contains(key)) continue;
        around.patch_secrets.emplace(
            key, patch_secret(resolver.get(
                     *secret, "the patch at " + to_string(spec.position(secret.where)))));
      }
  Diagnostics problems;
  if (!around.patch_secrets.empty()) talos::check_patches(spec, around.patch_secrets, problems);
  if (problems.has_errors()) {
    context.err << problems.render();
    problems.throw_if_errors("a patch with its secrets");
  }
  return around;
}

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
                       std::stop_token stop, const std::optional<std::string>& cluster)
    : context_(context),
      invocation_(invocation),
      stop_(std::move(stop)),
      spec_(load_cluster(context, cluster)),
      transport_(speaking(context)) {
  options_.policy = policy_of(spec_, invocation);
  options_.who = who_am_i(context);
  options_.doing = doing;
  const auto knows = [&](const char* flag) {
    return find_flag(invocation.command(), flag) != nullptr;
  };
  if (knows("parallelism")) {
    const auto wanted = invocation.number("parallelism").value_or(64);
    if (wanted < 1 || wanted > 1000)
      throw Error(Fault::Usage, "--parallelism must be between 1 and 1000");
    options_.parallelism = static_cast<unsigned>(wanted);
  }
  if (knows("target")) options_.targets = invocation.all("target");
  options_.locked = knows("locked") && invocation.is_set("locked");
  options_.force_lock = knows("take-over") && invocation.is_set("take-over");
  options_.outside = outside();
  const unsigned calls = options_.parallelism + 1;
  runner_ = context.runner ? context.runner(calls) : engine::pool_runner(calls, context.clock);
  cluster_ = open();
  begin();
}

ClusterRun::~ClusterRun() = default;

resources::Cluster ClusterRun::open() {
  spec::Lock lock = spec::find_lock(context_.files, spec_.folder).value_or(spec::Lock{});
  lock.cluster = *spec_.name;
  Keys keys{context_, stop_};
  // Who razes a cluster renders no configuration: a source of secrets that is gone must not keep
  // it.
  talos::Surroundings around;
  around.bundle = get_bundle(context_, keys, spec_);
  // What was done is told by the state alone.
  const bool remembers_only = options_.doing == "history";
  if (options_.doing != "down" && !remembers_only)
    around = surroundings(context_, spec_, std::move(around.bundle), *transport_, stop_);
  std::optional<proxmox::Access> proxmox;
  if (spec_.proxmox && !remembers_only)
    proxmox = spec_access(context_, invocation_, spec_, *transport_, stop_);
  if (options_.doing != "down") {
    store_ = open_store(context_, spec_, *transport_, stop_);
  } else if (invocation_.is_set("without-state")) {
    store_ = state::forgetful_store();
  } else {
    try {
      store_ = open_store(context_, spec_, *transport_, stop_);
    } catch (const Error& error) {
      resources::throw_without_state(error);
    }
  }
  return resources::make_cluster(spec_, std::move(lock), std::move(around), std::move(proxmox),
                                 context_.files, context_.clock, context_.entropy);
}

std::shared_ptr<resources::Outside> ClusterRun::outside() {
  // Looked up in steps, which run side by side; a place is opened once for all of them.
  struct Shared {
    std::mutex mutex;
    sources::Resolver resolver;
    std::map<std::string, Secret> made;  // by their keys; what was opened before has them not
  };
  const std::shared_ptr<Shared> shared{new Shared{
      {}, sources::Resolver{spec_, secret_doors(context_, *transport_, stop_), stop_}, {}}};
  auto made = std::make_shared<resources::Outside>();
  made->secret = [shared](const spec::SecretRef& reference, const std::string& who) {
    const std::lock_guard lock{shared->mutex};
    return shared->resolver.get(reference, who);
  };
  made->search = [shared](const spec::SecretRef& reference) {
    const std::lock_guard lock{shared->mutex};
    if (const auto own = shared->made.find(reference.path); own != shared->made.end())
      return std::optional{own->second};
    return shared->resolver.find(reference);
  };
  made->keep = [this, shared](const spec::SecretRef& reference, const Secret& secret) {
    const std::lock_guard lock{shared->mutex};
    Keys keys{context_, stop_};
    keep_secret(context_, keys, spec_, reference.path, secret);
    shared->made.insert_or_assign(reference.path, secret);
  };
  made->management = [this] {
    return backends::kubernetes_access(
        context_.files, [this](const std::string& name) { return context_.variable(name); });
  };
  return made;
}

std::unique_ptr<state::Store> open_store(Context& context, const spec::Spec& spec,
                                         net::Transport& transport, std::stop_token stop) {
  const backends::Surroundings around{
      .transport = transport,
      .files = context.files,
      .clock = context.clock,
      .entropy = context.entropy,
      .secret =
          [&context, &spec, &transport, stop](const spec::SecretRef& reference) {
            sources::Resolver resolver{spec, secret_doors(context, transport, stop), stop};
            return resolver.get(reference, "state");
          },
      .identities =
          [&context, stop] {
            return Keys{context, stop}.identities();
          },
      .variable = [&context](const std::string& name) { return context.variable(name); }};
  return backends::make_store(spec, spec.folder, around);
}

void ClusterRun::narrow(std::vector<std::string> targets, const std::vector<std::string>& allowed) {
  options_.targets = std::move(targets);
  options_.policy.allowed.clear();
  for (const std::string& word : allowed)
    if (const auto effect = engine::parse_effect(word)) options_.policy.allowed.insert(*effect);
  begin();
}

void ClusterRun::prepare_down(bool purge_images, bool reset_existing) {
  options_.purge_images = purge_images;
  options_.reset_existing = reset_existing;
  begin();
}

void ClusterRun::begin() {
  run_ =
      std::make_unique<resources::Run>(*cluster_,
                                       resources::Doors{*transport_, context_.files, context_.clock,
                                                        context_.entropy, *runner_, *store_},
                                       options_, stop_);
}

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
        report, fmt::format("rocca {} {}", verb, cluster),
        {.colour = context.terminal.colour_err, .width = context.terminal.width});
  } else {
    print(context, invocation, report::to_value(report), "");
  }
  if (report.error) throw *report.error;
  if (report.interrupted) return exit_code(Fault::Interrupted);
  return report.ok() ? 0 : 1;
}

}  // namespace rocca::cli
