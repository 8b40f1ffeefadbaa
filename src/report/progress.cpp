#include "report/progress.hpp"

#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/visible.hpp"
#include "text/json.hpp"
#include "text/valid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::report {

namespace {

using engine::Action;
using engine::Event;

/// What a kind's step is called while it runs, in a user's words.
struct Words {
  const char* kind;
  const char* making;
  const char* changing;
  const char* taking_away;
};
constexpr std::array words = {
    Words{"schematic", "registering", "registering", "forgetting"},
    Words{"image", "fetching", "fetching", "deleting"},
    Words{"vm", "creating", "changing", "destroying"},
    Words{"machine", "configuring", "reconfiguring", "resetting"},
    Words{"bootstrap", "starting etcd", "starting etcd", "leaving"},
    Words{"member", "joining", "recovering", "leaving"},
    Words{"vip", "taking over", "taking over", "leaving"},
    Words{"access", "writing", "writing", "removing"},
};

std::string stage_of(const std::string& address, Action action) {
  const std::string kind = engine::kind_of(address);
  for (const Words& word : words) {
    if (kind != word.kind) continue;
    switch (action) {
      case Action::Update:
        return word.changing;
      case Action::Destroy:
        return word.taking_away;
      case Action::Replace:
        return "replacing";
      case Action::None:
      case Action::Create:
        return word.making;
    }
  }
  return std::string(engine::to_string(action)) + " " + kind;
}

/// Things of one node share a row; the rest have their own.
std::string row_name(const std::string& address) {
  const std::string kind = engine::kind_of(address);
  const std::string name = address.size() > kind.size() ? address.substr(kind.size() + 1) : "";
  if (kind == "vm" || kind == "machine" || kind == "member") return name;
  if (kind == "image") return "image " + name.substr(0, name.find('/'));
  return kind;
}

const char* sign_of(Row::State state) {
  switch (state) {
    case Row::State::Waiting:
      return "·";
    case Row::State::Running:
      return "▸";
    case Row::State::Done:
      return "✓";
    case Row::State::Failed:
      return "✗";
    case Row::State::Skipped:
      return "−";
  }
  return " ";
}

Ink ink_of(Row::State state) {
  switch (state) {
    case Row::State::Running:
      return Ink::Cyan;
    case Row::State::Done:
      return Ink::Green;
    case Row::State::Failed:
      return Ink::Red;
    case Row::State::Waiting:
    case Row::State::Skipped:
      break;
  }
  return Ink::Dim;
}

/// Steps that take about as long.
std::string like(const std::string& address, Action action) {
  return engine::kind_of(address) + "/" + engine::to_string(action);
}

/// Whole seconds: a table that counts must not jump between units of a tenth.
std::string counted(Duration duration) {
  const auto total = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (total >= 3600) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
  if (total >= 60) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}s", total);
}

std::string time_of_day(Instant at) {
  const std::string whole = to_string(at);  // 2026-11-16T03:04:05.123Z
  return whole.substr(11, 8);
}

}  // namespace

Board::Board(const engine::Plan& plan) {
  for (const engine::Planned& planned : plan.steps) {
    Step step;
    step.address = planned.address;
    step.action = planned.change.action;
    step.estimate = planned.estimate;
    step.needs = planned.needs;
    // What an interrupted teardown left is destroyed first, and created after that.
    index_[{planned.address, planned.change.action == Action::Destroy}] = steps_.size();
    steps_.push_back(std::move(step));
  }
}

void Board::take(const Event& event) {
  if (event.kind == Event::Kind::Stopping) stopping_ = true;
  const bool destroys = event.action == Action::Destroy;
  auto found = index_.find({event.address, destroys});
  if (found == index_.end()) found = index_.find({event.address, !destroys});
  if (found == index_.end()) return;
  Step& step = steps_[found->second];
  switch (event.kind) {
    case Event::Kind::Started:
      step.state = Row::State::Running;
      step.began = event.at;
      break;
    case Event::Kind::Acted:
      step.act = event.text;
      step.waiting_for.clear();
      break;
    case Event::Kind::Waiting:
    case Event::Kind::StillWaiting:
      step.waiting_for = event.text;
      break;
    case Event::Kind::Settled:
      step.state = Row::State::Done;
      step.ended = event.at;
      step.waiting_for.clear();
      if (step.began) took_[like(step.address, step.action)] = event.at - *step.began;
      break;
    case Event::Kind::Failed:
      step.state = Row::State::Failed;
      step.ended = event.at;
      step.waiting_for = event.error ? event.error->message() : event.text;
      break;
    case Event::Kind::Skipped:
      step.state = Row::State::Skipped;
      step.waiting_for = event.text + " failed";
      break;
    case Event::Kind::Stopping:
    case Event::Kind::Noted:
      break;
  }
}

std::size_t Board::over() const {
  return static_cast<std::size_t>(std::count_if(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.state != Row::State::Waiting && step.state != Row::State::Running;
  }));
}

/// By earlier runs; in a first run by one of its kind that is over already.
std::optional<Duration> Board::expected(const Step& step) const {
  if (step.estimate) return step.estimate;
  const auto found = took_.find(like(step.address, step.action));
  if (found == took_.end()) return std::nullopt;
  return found->second;
}

Row Board::row_of(const std::string& name, const std::vector<const Step*>& steps,
                  Instant now) const {
  Row row;
  row.name = name;
  const auto at = [&](Row::State state) {
    return std::find_if(steps.begin(), steps.end(),
                        [&](const Step* step) { return step->state == state; });
  };
  std::optional<Instant> began;
  std::optional<Instant> ended;
  for (const Step* step : steps) {
    if (step->began && (!began || *step->began < *began)) began = step->began;
    if (step->ended && (!ended || *step->ended > *ended)) ended = step->ended;
  }
  // A failure is said first, then what runs, then what is still to come.
  for (const Row::State state : {Row::State::Failed, Row::State::Running, Row::State::Skipped,
                                 Row::State::Waiting, Row::State::Done}) {
    const auto found = at(state);
    if (found == steps.end()) continue;
    const Step& step = **found;
    row.state = state;
    row.stage = state == Row::State::Done ? "done" : stage_of(step.address, step.action);
    if (state == Row::State::Running && !step.act.empty() && step.act != "create" &&
        step.act != "update" && step.act != "wait")
      row.stage += " (" + step.act + ")";
    row.waiting_for = step.waiting_for;
    if (state == Row::State::Waiting) {
      std::vector<std::string> open;
      for (const std::string& need : step.needs) {
        auto other = index_.find({need, false});
        if (other == index_.end()) other = index_.find({need, true});
        if (other != index_.end() && steps_[other->second].state != Row::State::Done)
          open.push_back(need);
      }
      if (open.size() > 2)
        row.waiting_for = fmt::format("{} and {} more", open.front(), open.size() - 1);
      else
        row.waiting_for = enumerate(open);
    }
    break;
  }
  const bool moving = row.state == Row::State::Running || row.state == Row::State::Waiting;
  if (began) row.elapsed = (moving || !ended ? now : *ended) - *began;
  if (moving) {
    Duration left{};
    bool known = true;
    for (const Step* step : steps) {
      if (step->state != Row::State::Waiting && step->state != Row::State::Running) continue;
      const std::optional<Duration> whole = expected(*step);
      if (!whole) {
        known = false;
        break;
      }
      const Duration gone = step->began ? now - *step->began : Duration{};
      left += std::max(*whole - gone, Duration{});
    }
    if (known && left > Duration{}) row.remaining = left;
  }
  return row;
}

std::vector<Row> Board::rows(Instant now) const {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Step*>> groups;
  for (const Step& step : steps_) {
    const std::string name = row_name(step.address);
    auto& group = groups[name];
    if (group.empty()) order.push_back(name);
    group.push_back(&step);
  }
  std::vector<Row> out;
  out.reserve(order.size());
  for (const std::string& name : order) out.push_back(row_of(name, groups[name], now));
  return out;
}

std::string render_table(const Board& board, Instant now, const Style& style, std::size_t height) {
  std::vector<Row> rows = board.rows(now);
  const std::size_t room = std::max<std::size_t>(height, 4) - 1;
  std::size_t hidden = 0;
  if (rows.size() > room) {
    // What is over says the least; then what has not begun, from the end.
    const auto hide = [&](Row::State state) {
      for (std::size_t at = rows.size(); at > 0 && rows.size() > room - 1; --at) {
        if (rows[at - 1].state != state) continue;
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(at - 1));
        ++hidden;
      }
    };
    for (const Row::State state : {Row::State::Done, Row::State::Waiting, Row::State::Skipped,
                                   Row::State::Running, Row::State::Failed})
      hide(state);
  }
  std::size_t name_width = 4;
  std::size_t stage_width = 8;
  for (const Row& row : rows) {
    name_width = std::max(name_width, columns(row.name));
    stage_width = std::max(stage_width, columns(row.stage));
  }
  name_width = std::min(name_width, style.width / 4);
  stage_width = std::min(stage_width, style.width / 3);
  std::string out;
  // A first run knows no durations at first: the room goes to what is waited for.
  const bool estimates = std::any_of(rows.begin(), rows.end(),
                                     [](const Row& row) { return row.remaining.has_value(); });
  for (const Row& row : rows) {
    const std::string elapsed = row.elapsed ? counted(*row.elapsed) : "";
    const std::string eta = row.remaining ? "~" + counted(*row.remaining) : "";
    const std::size_t eta_width = estimates ? 9 : 0;
    const std::size_t used = 2 + name_width + 2 + stage_width + 2 + 6 + 2 + eta_width;
    const std::size_t left = style.width > used + 8 ? style.width - used : 8;
    std::string line =
        fmt::format("{} {}  {}  {}  {}", sign_of(row.state), fit(row.name, name_width),
                    fit(row.stage, stage_width), pad(elapsed, 6), pad(eta, eta_width));
    line += fit(row.waiting_for, left);
    while (line.ends_with(' ')) line.pop_back();
    if (columns(line) > style.width) line = fit(line, style.width);
    out += ink(style, ink_of(row.state), line) + "\n";
  }
  if (hidden > 0) out += ink(style, Ink::Dim, fmt::format("  … and {} more", hidden)) + "\n";
  std::string total = fmt::format("{} of {} steps", board.over(), board.steps());
  if (board.stopping())
    total += "; stopping: what was begun is settled, Ctrl-C once more leaves at once";
  out += ink(style, Ink::Bold, total.size() > style.width ? fit(total, style.width) : total) + "\n";
  return out;
}

std::optional<std::string> plain_line(const Event& event) {
  const std::string address = visible(event.address);
  const std::string text = visible(event.text);
  const std::string head = time_of_day(event.at) + " ";
  switch (event.kind) {
    case Event::Kind::Started:
      return head + address + ": " + visible(stage_of(event.address, event.action));
    case Event::Kind::Acted:
      return head + address + ": " + text;
    case Event::Kind::Waiting:
      return head + address + ": waiting for " + text;
    case Event::Kind::StillWaiting:
      return head + address + ": still waiting" +
             (event.took ? " after " + counted(*event.took) : "") +
             (event.limit ? " (at most " + counted(*event.limit) + ")" : "") + " for " + text;
    case Event::Kind::Settled:
      return head + address + ": done" +
             (event.took ? " after " + to_rough_string(*event.took) : "");
    case Event::Kind::Failed:
      return head + address +
             ": failed: " + (event.error ? visible(event.error->message()) : text) +
             (event.error && !event.error->hint().empty()
                  ? "\n         " + visible(event.error->hint(), 9)
                  : "");
    case Event::Kind::Skipped:
      return head + address + ": skipped, because " + text + " failed";
    case Event::Kind::Stopping:
      return head + "stopping: what was begun is settled";
    case Event::Kind::Noted:
      return head + (address.empty() ? "" : address + ": ") + text;
  }
  return std::nullopt;
}

std::string event_line(const Event& event) {
  using text::Value;
  Value out = Value::map();
  out.set("at", Value::string(to_string(event.at)));
  out.set("event", Value::string(engine::to_string(event.kind)));
  if (!event.address.empty()) out.set("address", Value::string(event.address));
  if (event.action != Action::None)
    out.set("action", Value::string(engine::to_string(event.action)));
  if (!event.text.empty()) out.set("text", Value::string(event.text));
  if (event.error) {
    out.set("fault", Value::string(to_string(event.error->fault())));
    out.set("error", Value::string(event.error->message()));
    if (!event.error->hint().empty()) out.set("hint", Value::string(event.error->hint()));
  }
  const auto seconds = [](Duration duration) {
    return Value::floating(std::chrono::duration<double>(duration).count());
  };
  if (event.took) out.set("tookSeconds", seconds(*event.took));
  if (event.estimate) out.set("estimateSeconds", seconds(*event.estimate));
  if (event.limit) out.set("limitSeconds", seconds(*event.limit));
  return text::emit_json(text::with_valid_text(std::move(out))) + "\n";
}

int exit_code(const engine::Report& report) {
  if (report.interrupted) return rocca::exit_code(Fault::Interrupted);
  if (report.error) return rocca::exit_code(report.error->fault());
  bool failed = false, refused = true;
  for (const auto& [address, step] : report.steps) {
    if (!step.error) continue;
    if (step.error->fault() == Fault::Denied) return rocca::exit_code(Fault::Denied);
    failed = true;
    refused = refused && step.error->fault() == Fault::Refused;
  }
  if (failed && refused) return rocca::exit_code(Fault::Refused);
  return report.ok() ? 0 : 1;
}

std::string render(const engine::Report& report, const std::string& again, const Style& style) {
  using End = engine::StepResult::End;
  std::string out;
  std::map<std::string, std::vector<std::string>> skipped;  // by cause
  std::vector<std::string> left;
  std::size_t done = 0;
  std::size_t failed = 0;
  for (const auto& [address, step] : report.steps) {
    switch (step.end) {
      case End::Done:
      case End::Unchanged:  // by the time its turn came it was as wanted
        ++done;
        break;
      case End::Failed:
        ++failed;
        if (step.error) out += ink(style, Ink::Red, step.error->render());
        break;
      case End::Skipped:
        skipped[step.cause].push_back(address);
        break;
      case End::NotBegun:
        left.push_back(address);
        break;
    }
  }
  for (const auto& [cause, addresses] : skipped)
    out += wrap(fmt::format("skipped because of {}: {}", cause, enumerate(addresses)), style.width,
                2) +
           "\n";
  const std::string took = to_rough_string(report.took);
  if (report.interrupted) {
    out += fmt::format("Stopped after {}: {} done, {} not begun. `{}` goes on from here.\n", took,
                       plural(done, "step"), left.size(), again);
  } else if (failed > 0) {
    out += fmt::format(
        "{} done, {} failed, {} skipped after {}. Once the cause is gone, `{}` goes on from "
        "here.\n",
        plural(done, "step"), failed, report.steps.size() - done - failed - left.size(), took,
        again);
  } else {
    out +=
        ink(style, Ink::Green, fmt::format("Done: {} in {}.", plural(done, "step"), took)) + "\n";
  }
  return out;
}

text::Value to_value(const engine::Report& report) {
  using text::Value;
  using End = engine::StepResult::End;
  const auto word = [](End end) {
    switch (end) {
      case End::Done:
        return "done";
      case End::Unchanged:
        return "unchanged";
      case End::Failed:
        return "failed";
      case End::Skipped:
        return "skipped";
      case End::NotBegun:
        return "not begun";
    }
    return "?";
  };
  Value out = Value::map();
  out.set("ok", Value::boolean(report.ok()));
  out.set("interrupted", Value::boolean(report.interrupted));
  out.set("tookSeconds", Value::floating(std::chrono::duration<double>(report.took).count()));
  Value steps = Value::map();
  for (const auto& [address, step] : report.steps) {
    Value one = Value::map();
    one.set("end", Value::string(word(step.end)));
    one.set("action", Value::string(engine::to_string(step.action)));
    if (step.error) {
      one.set("error", Value::string(step.error->message()));
      if (!step.error->hint().empty()) one.set("hint", Value::string(step.error->hint()));
    }
    if (!step.cause.empty()) one.set("cause", Value::string(step.cause));
    one.set("tookSeconds", Value::floating(std::chrono::duration<double>(step.took).count()));
    steps.set(address, std::move(one));
  }
  out.set("steps", std::move(steps));
  return out;
}

}  // namespace rocca::report
