#include "engine/execute.hpp"

#include "base/faults.hpp"
#include "base/units.hpp"
#include "engine/journal.hpp"
#include "engine/records.hpp"
#include "engine/schedule.hpp"
#include "engine/step.hpp"
#include "engine/unfinished.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace rocca::engine {

namespace {

using namespace std::chrono_literals;

constexpr Duration least_wait = 10ms;  // a kind that says "ask at once" must not stop time
constexpr Duration most_backoff = 15s;
constexpr unsigned most_lost = 5;
constexpr Duration remind_every = 30s;   // of a wait that goes on
constexpr Duration explain_after = 90s;  // the likely cause is looked for
constexpr Duration least_pause = 1s;     // between waits that end and begin again
constexpr Duration after_news = 50ms;    // what a watch reports may be followed by more
constexpr Duration without_watch = 1s;   // how often it is asked after a stop
// No address looks like this.
constexpr const char* watch_call = "watch ";

class Execution {
 public:
  Execution(const Plan& plan, const Desired& desired, const graph::Graph& graph,
            state::State& state, state::Store& store, Worlds& worlds, Runner& runner,
            const EventSink& events, const ExecuteOptions& options, std::stop_token stop)
      : plan_(plan),
        desired_(desired),
        graph_(plan.targets.empty() ? graph : graph.closure(plan.targets)),
        state_(state),
        worlds_(worlds),
        runner_(runner),
        events_(events),
        options_(options),
        stop_(std::move(stop)),
        journal_(state, store, runner, options.keep_lock, options.keep_lock_every),
        schedule_(graph_, options.parallelism, costs(), share_of(runner)) {
    for (const Planned& planned : plan.steps) add_planned(planned);
    for (const auto& [address, text] : plan.failed) add_unread(address, text);
  }

  Report run() {
    const Tick began = runner_.now();
    const std::stop_callback wake{stop_, [this] { runner_.nudge(); }};
    if (!plan_.found.empty()) journal_.add(plan_.found);
    try {
      while (turn()) {
      }
    } catch (...) {
      drain();  // calls in flight point into what is about to go
      throw;
    }
    sweep();
    report_.error = journal_.error();
    report_.took = runner_.now() - began;
    return std::move(report_);
  }

 private:
  using Stage = Step::Stage;
  using End = StepResult::End;

  // ---- what there is to do

  std::map<std::string, Duration> costs() const {
    std::map<std::string, Duration> costs;
    for (const std::string& address : graph_.nodes()) costs[address] = Duration::zero();
    for (const Planned& step : plan_.steps) {
      const auto wanted = desired_.wanted.find(step.address);
      const Duration least =
          wanted == desired_.wanted.end() ? Duration{1s} : wanted->second->takes();
      costs[step.address] = std::max(step.estimate.value_or(least), least);
    }
    return costs;
  }

  Step& add(const std::string& address) {
    Step& step = steps_[address];
    const auto leftover = desired_.leftover.find(address);
    step.address = address;
    step.leftover = leftover != desired_.leftover.end();
    const Resources& among = step.leftover ? desired_.leftover : desired_.wanted;
    const auto found = among.find(address);
    if (found == among.end())
      throw Error(Fault::Bug, address + " is planned and neither wanted nor left over");
    step.resource = found->second.get();
    const auto item = state_.items.find(address);
    if (item != state_.items.end()) {
      ask_after(step, item->second.receipt);
      if (item->second.settled) step.known = item->second.facts;
    }
    schedule_.set_lanes(address, step.resource->lanes(nullptr));
    return step;
  }

  void add_planned(const Planned& planned) {
    Step& step = add(planned.address);
    step.planned = true;
    step.action = planned.change.action;
    step.perhaps = planned.change.perhaps;
    step.bound = std::max({planned.change.effect, planned.change.perhaps, Effect::Live});
    step.estimate = planned.estimate;
    step.patience = step.resource->patience(planned.change);
    step.change = planned.change;
    if (!planned.change.refusal.empty()) {
      step.refused = Error(Fault::Refused, planned.change.refusal);
      if (!planned.change.hint.empty()) step.refused->hint(planned.change.hint);
    }
  }

  void add_unread(const std::string& address, const std::string& text) {
    if (!graph_.contains(address)) return;
    Step& step = add(address);
    step.planned = true;
    step.unread = true;
    step.patience = step.resource->patience(step.change);
    const auto error = plan_.errors.find(address);
    step.refused = error != plan_.errors.end() ? error->second : Error(Fault::Unreachable, text);
  }

  static void ask_after(Step& step, const std::string& receipt) {
    if (receipt.empty()) return;
    if (receipt == unknown_receipt) {
      step.stage = Stage::Unknown;
      return;
    }
    step.stage = Stage::OldReceipt;
    step.receipt = {receipt == bare_receipt ? "" : receipt};
  }

  std::optional<Effect> changed_below(const std::string& address) const {
    std::optional<Effect> costliest;
    for (const std::string& needed : graph_.needed_by(address)) {
      const auto changed = changed_.find(needed);
      if (changed != changed_.end())
        costliest = std::max(costliest.value_or(Effect::Live), changed->second);
    }
    return costliest;
  }

  /// Something that was not to change, behind something that did: looked at again, because what
  /// changed may have taken it along (a replaced VM its configuration, a power cycle its health).
  Step* follow_up(const std::string& address) {
    const std::optional<Effect> bound = changed_below(address);
    if (!bound || desired_.leftover.contains(address) || !desired_.wanted.contains(address))
      return nullptr;
    Step& step = add(address);
    step.bound = *bound;
    step.patience = step.resource->patience(step.change);
    return &step;
  }

  // ---- the loop

  bool turn() {
    if (stop_.stop_requested()) stop();
    if (!abandoned())
      while (const auto address = schedule_.next(runner_.now())) dispatch(*address);
    for (const Schedule::Queued& queued : schedule_.take_queued()) say_turn(queued);
    journal_.pump();
    if (over()) {
      if (watches_.empty()) return false;
      listening_.request_stop();
    }
    const std::optional<Tick> wake = next_wake();
    if (calls_ == 0 && !journal_.under_way() && !wake && watches_.empty() &&
        !schedule_.waits_for_other_runs())
      throw Error(Fault::Bug, "steps are left, and nothing will ever let them go on");
    for (const std::string& call : runner_.wait_until(wake)) {
      if (journal_.ended(call)) {
        if (journal_.error()) give_up();
        continue;
      }
      if (watch_ended(call)) continue;
      --calls_;
      call_ended(steps_.at(call));
    }
    return true;
  }

  void drain() noexcept {
    leave_.request_stop();
    listening_.request_stop();
    journal_.forget();
    try {
      while (calls_ > 0 || journal_.under_way() || !watches_.empty())
        for (const std::string& call : runner_.wait_until({}))
          if (!journal_.ended(call) && watches_.erase(call) == 0) --calls_;
    } catch (const Error&) {
      // ignored: only a simulation that has come to rest throws here; its calls never end.
    }
  }

  bool abandoned() const { return journal_.lock_lost(); }

  bool over() const {
    if (calls_ > 0 || !journal_.idle()) return false;
    return abandoned() || schedule_.done();
  }

  std::optional<Tick> next_wake() const {
    std::optional<Tick> wake = journal_.next_wake();
    const std::optional<Tick> step = abandoned() ? std::nullopt : schedule_.next_wake();
    if (step && (!wake || *step < *wake)) wake = step;
    return wake;
  }

  void stop() {
    if (report_.interrupted) return;
    report_.interrupted = true;
    stopped_ = runner_.now();
    schedule_.close();
    listening_.request_stop();  // what only waits is left at once
    emit(Event::Kind::Stopping, nullptr, "steps that are under way end; nothing else begins");
  }

  /// Without a state nothing may begin that could not be remembered; without its lock somebody else
  /// may be at work already, so also what is under way is left to itself.
  void give_up() {
    schedule_.close();
    if (!abandoned()) return;
    leave_.request_stop();
    listening_.request_stop();
  }

  void dispatch(const std::string& address) {
    const auto found = steps_.find(address);
    Step* step = found != steps_.end() ? &found->second : follow_up(address);
    if (step == nullptr) {
      schedule_.settle(address, Schedule::Outcome::Settled);
      return;
    }
    const bool first = !std::exchange(step->begun, true);
    if (step->unread && step->refused) {
      // What it needs has changed, so there may be something to read now (a VM that was off).
      if (const auto bound = changed_below(address)) {
        step->bound = *bound;
        step->refused.reset();
      }
    }
    if (first && step->planned && !(step->unread && step->refused))
      emit(Event::Kind::Started, step);
    if (step->refused) {
      fail(*step, *step->refused);
      return;
    }
    const Tick now = runner_.now();
    if (step->stage == Stage::Act) {
      schedule_.act_begun(address);
      if (!step->first_act) step->first_act = now;
      step->patience = step->resource->patience(step->change);
      set_deadline(*step, now);
      step->cost = std::max(step->cost, step->change.effect);
      ++step->acts;
      if (step->change.waits) ++step->waits;
    }
    if (!step->deadline) {
      step->deadline = now + step->patience;
      // What an earlier run began is waited for once, not once more by this run's own wait.
      if (step->stage == Stage::OldReceipt) step->waits_until = step->deadline;
    }
    begin_call(*step);
  }

  /// Waits in a row share one deadline; every other operation has its own.
  static void set_deadline(Step& step, Tick now) {
    const Tick own = now + step.patience;
    if (step.change.waits) {
      step.waits_until = std::min(step.waits_until.value_or(own), own);
      step.deadline = step.waits_until;
    } else if (step.refusals == 0) {
      if (!step.exhausted) step.waits_until.reset();
      step.deadline = own;
    }
  }

  void say_turn(const Schedule::Queued& queued) {
    const auto found = steps_.find(queued.address);
    if (found != steps_.end() && found->second.stage == Stage::Act)
      say_wait(found->second, "its turn: " + queued.turn);
  }

  void begin_call(Step& step) {
    ++calls_;
    step.error.reset();
    step.unfinished = false;
    runner_.start(step.address, [this, &step] {
      try {
        worlds_.with(step.address, leave_.get_token(),
                     [&step](World& world) { perform(step, world); });
        if (step.stage == Stage::Read)
          step.change = change_of(*step.resource, step.leftover, step.live);
      } catch (const Unfinished&) {
        step.unfinished = true;
      } catch (const Error& error) {
        step.error = error;
      } catch (const std::exception& error) {
        step.error = Error(Fault::Bug, error.what());
      }
    });
  }

  static void perform(Step& step, World& world) {
    switch (step.stage) {
      case Stage::OldReceipt:
      case Stage::Probe:
        step.progress = step.resource->probe(world, step.receipt);
        break;
      case Stage::Unknown:
        step.progress = step.resource->probe_unknown(world);
        break;
      case Stage::Read:
        step.live = step.resource->read(world);
        break;
      case Stage::Act:
        if (step.change.action == Action::Destroy || step.change.action == Action::Replace) {
          step.receipt = step.resource->destroy(world, *step.live);
        } else {
          step.receipt = step.resource->apply(world, step.change, step.live);
        }
        break;
      case Stage::Explain:
        step.explanation = step.resource->explain(world);
        break;
    }
  }

  void call_ended(Step& step) {
    if (abandoned()) return;
    if (step.stage == Stage::Explain) {
      explained(step);
      return;
    }
    if (step.error) {
      failed(step);
      return;
    }
    if (step.unfinished) {
      schedule_.again(step.address, runner_.now());
      return;
    }
    step.attempts = 0;
    switch (step.stage) {
      case Stage::Read:
        was_read(step);
        break;
      case Stage::Act:
        acted(step);
        break;
      case Stage::OldReceipt:
      case Stage::Unknown:
      case Stage::Probe:
        answered(step);
        break;
      case Stage::Explain:
        break;
    }
  }

  // ---- what a call brought

  void was_read(Step& step) {
    if (step.change.none()) {
      settle(step);
      return;
    }
    if (schedule_.closed()) {
      schedule_.act_over(step.address);
      schedule_.again(step.address, runner_.now());  // never offered: the next run goes on here
      return;
    }
    if (const auto refusal = refuse(step, options_.policy)) {
      fail(step, *refusal);
      return;
    }
    if (step.action == Action::None) step.action = step.change.action;
    Tick when = runner_.now();
    if (step.change.waits) {
      const bool again = step.completed && step.completed->waits;
      if (again && step.waits_until && when >= *step.waits_until) {
        time_out(step, step.waiting_for.empty() ? step.change.reason : step.waiting_for, "");
        return;
      }
      // Its wait was over, and it is not as desired after all: a state that comes and goes.
      step.repeats = again ? step.repeats + 1 : 0;
      if (again)
        when += std::min<Duration>(least_pause * (1u << std::min(step.repeats, 4u)), most_backoff);
    }
    step.stage = Stage::Act;
    schedule_.set_lanes(step.address, step.resource->lanes(&step.change));
    // What a replacement noted of the old one must be gone before the new one exists.
    const bool after_replace = step.action == Action::Replace &&
                               step.change.action == Action::Create &&
                               !step.resource->announced_notes(step.change).empty();
    if (!after_replace && !step.resource->announces(step.change)) {
      schedule_.again(step.address, when);
      return;
    }
    schedule_.hold(step.address);
    journal_.add(announcement_of(step, runner_.clock()), [this, &step](const Error* error) {
      if (error != nullptr) {
        fail(step, *error);
      } else {
        schedule_.again(step.address, runner_.now());
      }
    });
  }

  void acted(Step& step) {
    step.refusals = 0;
    const bool only_waits = step.change.waits || step.receipt.act.starts_with("wait");
    // It follows the same operation of an earlier run, which was waited for long enough.
    if (only_waits && step.exhausted) step.deadline = step.waits_until;
    if (!only_waits) step.exhausted = false;
    step.made = step.made || step.change.action == Action::Create;
    const std::string& token = step.receipt.token;
    journal_.add({begun(step, token.empty() ? bare_receipt : token, runner_.clock())});
    emit(Event::Kind::Acted, &step,
         step.receipt.act.empty() ? to_string(step.change.action) : step.receipt.act);
    step.stage = Stage::Probe;
    if (!step.change.waits) step.waiting_for.clear();
    if (!step.receipt.waiting_for.empty()) say_wait(step, step.receipt.waiting_for);
    schedule_.again(step.address, runner_.now() + std::min(step.receipt.ask_after, left(step)));
  }

  void answered(Step& step) {
    if (const auto* not_yet = std::get_if<NotYet>(&step.progress)) {
      join_lanes(step, not_yet->with);
      if (wait(step, not_yet->waiting_for, not_yet->ask_again) && not_yet->watch)
        begin_watch(step, not_yet->watch);
      return;
    }
    if (step.stage == Stage::Probe) step.completed = step.change;
    look(step, runner_.now());
  }

  /// What its next asking takes part in beside its kind's own lanes.
  static std::vector<Lane> joined(const Step& step) {
    const auto* not_yet = std::get_if<NotYet>(&step.progress);
    return step.joined && not_yet != nullptr ? not_yet->with : std::vector<Lane>{};
  }

  void join_lanes(Step& step, const std::vector<Lane>& more) {
    if (more.empty() && !step.joined) return;
    step.joined = !more.empty();
    std::vector<Lane> lanes = step.resource->lanes(step.acts > 0 ? &step.change : nullptr);
    lanes.insert(lanes.end(), more.begin(), more.end());
    schedule_.set_lanes(step.address, std::move(lanes));
  }

  /// Back to reading: everything is decided anew from there.
  void look(Step& step, Tick when) {
    step.stage = Stage::Read;
    step.deadline.reset();
    // After a stop the act that has just ended is still looked at, so that it can settle.
    if (!schedule_.closed()) schedule_.act_over(step.address);
    schedule_.set_lanes(step.address, step.resource->lanes(nullptr));
    schedule_.again(step.address, when);
  }

  Duration left(const Step& step) const {
    return std::max(least_wait, step.deadline.value_or(runner_.now()) - runner_.now());
  }
  bool out_of_patience(const Step& step) const {
    return step.deadline && runner_.now() >= *step.deadline;
  }

  void say_wait(Step& step, const std::string& what) {
    if (what == step.waiting_for) return;
    const bool begins = step.waiting_for.empty();
    step.waiting_for = what;
    step.reminded = runner_.now();
    if (begins || !step.waiting_since) {
      step.waiting_since = runner_.now();
      step.asked_why = false;
    }
    emit(Event::Kind::Waiting, &step, what);
  }

  /// A long wait is reported again with its reason, so that a log never falls silent.
  void remind(Step& step) {
    const Tick now = runner_.now();
    if (!step.reminded || now - *step.reminded < remind_every) return;
    step.reminded = now;
    Event event = make(Event::Kind::StillWaiting, &step, step.waiting_for);
    if (step.waiting_since) event.took = now - *step.waiting_since;
    if (step.deadline) event.limit = event.took.value_or(Duration{}) + (*step.deadline - now);
    send(event);
  }

  /// False: it does not wait any longer.
  bool wait(Step& step, const std::string& what, Duration how_long) {
    say_wait(step, what);
    if (may_be_left(step)) {
      leave(step);
      return false;
    }
    remind(step);
    if (out_of_patience(step) && step.stage == Stage::OldReceipt) {
      emit(Event::Kind::Noted, &step, "an operation of an earlier run has not ended: " + what);
      step.exhausted = true;
      look(step, runner_.now());
      return false;
    }
    if (out_of_patience(step)) {
      time_out(step, what, "");
      return false;
    }
    if (ask_why(step)) return false;
    schedule_.again(step.address,
                    runner_.now() + std::min(std::max(how_long, least_wait), left(step)));
    return true;
  }

  /// Listens beside the wait, which it may end.
  void begin_watch(const Step& step, const std::function<void(World&)>& watch) {
    if (listening_.stop_requested()) {
      schedule_.sooner(step.address, runner_.now() + without_watch);
      return;
    }
    const std::string call = watch_call + step.address;
    if (!watches_.emplace(call, step.address).second) return;  // an earlier one still listens
    runner_.start(
        call,
        [this, address = step.address, watch] {
          try {
            worlds_.with(address, listening_.get_token(), watch);
          } catch (const std::exception&) {
            // ignored: the watch only shortens a wait; the next read reports what is wrong.
          }
        },
        Runner::Work::Watch);
  }

  bool watch_ended(const std::string& call) {
    const auto watch = watches_.find(call);
    if (watch == watches_.end()) return false;
    schedule_.sooner(watch->second, runner_.now() + after_news);
    watches_.erase(watch);
    return true;
  }

  /// After a stop nobody waits for a node to boot: the receipt is kept, the next run goes on there.
  bool may_be_left(const Step& step) const {
    if (!stopped_) return false;
    return step.receipt.act == "wait" || runner_.now() >= *stopped_ + options_.settle_within;
  }
  void leave(Step& step) {
    schedule_.act_over(step.address);
    schedule_.again(step.address, runner_.now());  // never offered: the next run goes on here
  }

  void time_out(Step& step, const std::string& what, const std::string& hint) {
    Error error(Fault::Timeout,
                fmt::format("still waiting after {}: {}", to_rough_string(step.patience), what));
    if (!hint.empty()) error.hint(hint);
    fail_explained(step, std::move(error));
  }

  // ---- why it takes so long

  /// Once in a long wait the likely cause is looked for, while the wait goes on.
  bool ask_why(Step& step) {
    if (step.asked_why || schedule_.closed() || !step.resource->explains()) return false;
    if (!step.waiting_since || runner_.now() - *step.waiting_since < explain_after) return false;
    step.asked_why = true;
    explain(step);
    return true;
  }

  void explain(Step& step) {
    step.explanation.reset();
    step.explained_at = std::exchange(step.stage, Stage::Explain);
    std::vector<Lane> lanes = step.resource->explain_lanes();
    const std::vector<Lane> with = joined(step);
    lanes.insert(lanes.end(), with.begin(), with.end());
    join_lanes(step, lanes);
    schedule_.again(step.address, runner_.now());
  }

  void explained(Step& step) {
    // An explanation that could not be found changes nothing.
    const std::optional<Explanation> why = step.error ? std::nullopt : step.explanation;
    step.error.reset();
    step.stage = step.explained_at;
    join_lanes(step, joined(step));
    if (step.failure) {
      Error error = *std::exchange(step.failure, std::nullopt);
      if (why && !why->full.empty()) error.hint(why->full);
      fail(step, std::move(error));
      return;
    }
    if (why && !why->likely.empty())
      emit(Event::Kind::Noted, &step, "likely cause: " + why->likely);
    schedule_.again(step.address, runner_.now());
  }

  /// A timeout is explained before it is reported.
  void fail_explained(Step& step, Error error) {
    if (schedule_.closed() || !error.hint().empty() || !step.resource->explains()) {
      fail(step, std::move(error));
      return;
    }
    step.failure = std::move(error);
    explain(step);
  }

  void failed(Step& step) {
    Error error = *step.error;
    const Fault fault = error.fault();
    const bool acting = step.stage == Stage::Act;
    if (acting && fault == Fault::Lost) {
      lose(step, error);
      return;
    }
    if (may_retry(fault) && !out_of_patience(step) && !step.exhausted) {
      unsigned& tries = acting ? step.refusals : step.attempts;
      const Duration backoff = std::min<Duration>(1s * (1u << std::min(tries, 4u)), most_backoff);
      ++tries;
      if (!acting) {
        wait(step, error.message(), backoff);
        return;
      }
      // Nothing was done. What has to be done may be another thing by then.
      if (--step.acts == 0) step.first_act.reset();
      if (step.change.waits) --step.waits;
      say_wait(step, error.message());
      remind(step);
      const std::optional<Tick> deadline = step.deadline;
      if (step.acts == 0 && !schedule_.closed()) schedule_.act_undone(step.address);
      look(step, runner_.now() + std::min(backoff, left(step)));
      step.deadline = deadline;
      return;
    }
    if (step.stage == Stage::OldReceipt && fault != Fault::Interrupted) {
      // How an act of another run ended is no verdict on this one: what is there, is.
      emit(Event::Kind::Noted, &step,
           "an operation of an earlier run ended with: " + error.message());
      step.exhausted = out_of_patience(step);
      look(step, runner_.now());
      return;
    }
    if (may_retry(fault)) {
      time_out(step, error.message(), error.hint());
    } else if (fault == Fault::Timeout) {
      fail_explained(step, std::move(error));
    } else {
      fail(step, std::move(error));
    }
  }

  /// The far side may have acted. Never a blind repeat: the kind says when to look, then the world
  /// is read.
  void lose(Step& step, const Error& error) {
    if (++step.lost > most_lost) {
      fail(step, error);
      return;
    }
    journal_.add({begun(step, unknown_receipt, runner_.clock())});
    emit(Event::Kind::Noted, &step, "the answer was lost, looking: " + error.message());
    step.stage = Stage::Unknown;
    schedule_.again(step.address, runner_.now());
  }

  // ---- how a step ends

  void settle(Step& step) {
    schedule_.act_over(step.address);
    std::vector<state::Record> records = records_of(step, state_, took(step), runner_.clock());
    if (records.empty()) {
      settled(step);
      return;
    }
    schedule_.hold(step.address);
    journal_.add(std::move(records), [this, &step](const Error* error) {
      if (error != nullptr) {
        fail(step, *error);
      } else {
        settled(step);
      }
    });
  }

  Duration took(const Step& step) const {
    return step.first_act ? runner_.now() - *step.first_act : Duration::zero();
  }

  void settled(Step& step) {
    step.ended = true;
    const bool did = step.acts > 0;
    // An act of an earlier run may have ended in this one, and left it elsewhere than it was.
    const bool moved = step.live && step.known && *step.known != step.live->facts;
    // What it was planned to cost at most, others may cost that go by it.
    if (did || moved) changed_[step.address] = std::max(step.cost, step.perhaps);
    // Nobody that needs it has begun yet.
    worlds_.learn(step.address, step.live ? std::optional{step.live->facts} : std::nullopt);
    if (step.planned || did)
      report_.steps[step.address] = {
          did ? End::Done : End::Unchanged, step.action, {}, {}, took(step)};
    if (step.planned || did) emit(Event::Kind::Settled, &step);
    schedule_.settle(step.address, Schedule::Outcome::Settled);
  }

  void fail(Step& step, Error error) {
    step.ended = true;
    // What could not be read says so already.
    if (!step.unread || step.acts > 0 || error.trail().empty()) error.during(describe(step));
    StepResult& result = report_.steps[step.address];
    result = {End::Failed, step.action, error, {}, took(step)};
    Event event = make(Event::Kind::Failed, &step, error.message());
    event.error = error;
    send(event);
    // Where nothing was done, what was found as it should be still is.
    std::function<bool(const std::string&)> stands;
    if (step.unread && step.acts == 0)
      stands = [this](const std::string& address) { return !steps_.contains(address); };
    for (const std::string& skipped :
         schedule_.settle(step.address, Schedule::Outcome::Failed, stands)) {
      const auto found = steps_.find(skipped);
      if (found == steps_.end()) continue;
      found->second.ended = true;
      report_.steps[skipped] = {End::Skipped, found->second.action, {}, step.address, {}};
      emit(Event::Kind::Skipped, &found->second, step.address);
    }
  }

  /// What a stop left where it was.
  void sweep() {
    for (auto& [address, step] : steps_) {
      if (step.ended) continue;
      StepResult& result = report_.steps[address];
      result.action = step.action;
      if (step.acts == 0) {
        if (!step.planned) report_.steps.erase(address);
        continue;
      }
      result.end = End::Failed;
      result.took = took(step);
      result.error = Error(Fault::Interrupted, "stopped before it was complete");
      result.error->hint("the next run goes on from here");
    }
  }

  // ---- telling

  Event make(Event::Kind kind, const Step* step, std::string text) const {
    Event event;
    event.kind = kind;
    event.at = runner_.clock();
    event.text = std::move(text);
    if (step == nullptr) return event;
    event.address = step->address;
    event.action = step->action;
    if (kind == Event::Kind::Started) event.estimate = step->estimate;
    if (step->first_act && (kind == Event::Kind::Settled || kind == Event::Kind::Failed))
      event.took = took(*step);
    return event;
  }
  void send(const Event& event) const {
    if (events_) events_(event);
  }
  void emit(Event::Kind kind, const Step* step, std::string text = {}) const {
    send(make(kind, step, std::move(text)));
  }

  const Plan& plan_;
  const Desired& desired_;
  const graph::Graph graph_;
  state::State& state_;
  Worlds& worlds_;
  Runner& runner_;
  const EventSink& events_;
  const ExecuteOptions& options_;
  std::stop_token stop_;
  std::stop_source leave_;      // tells calls in flight to give up
  std::stop_source listening_;  // tells watches to end
  Journal journal_;
  Schedule schedule_;
  std::map<std::string, Step> steps_;  // never erased: calls point into it
  std::map<std::string, Effect> changed_;
  std::size_t calls_ = 0;                       // without watches
  std::map<std::string, std::string> watches_;  // under way: call, address
  std::optional<Tick> stopped_;
  Report report_;
};

}  // namespace

bool Report::ok() const {
  if (interrupted || error) return false;
  return std::all_of(steps.begin(), steps.end(), [](const auto& entry) {
    return entry.second.end == StepResult::End::Done ||
           entry.second.end == StepResult::End::Unchanged;
  });
}

std::vector<std::string> Report::changed() const {
  std::vector<std::string> names;
  for (const auto& [address, result] : steps)
    if (result.end == StepResult::End::Done) names.push_back(address);
  return names;
}

Report execute(const Plan& plan, const Desired& desired, const graph::Graph& graph,
               state::State& state, state::Store& store, Worlds& worlds, Runner& runner,
               const EventSink& events, const ExecuteOptions& options, std::stop_token stop) {
  return Execution{plan,   desired, graph,  state,   store,
                   worlds, runner,  events, options, std::move(stop)}
      .run();
}

}  // namespace rocca::engine
