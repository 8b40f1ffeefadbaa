#pragma once

#include "engine/events.hpp"
#include "engine/execute.hpp"
#include "engine/plan.hpp"
#include "report/style.hpp"
#include "text/value.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rocca::report {

/// One line of the table: a node, or a thing that belongs to no node.
struct Row {
  enum class State { Waiting, Running, Done, Failed, Skipped };
  std::string name;  // "cp-1", "image local@pve1", "bootstrap"
  State state = State::Waiting;
  std::string stage;        // "creating its VM", "configuring", "joining"
  std::string waiting_for;  // in the far side's words, or the error
  std::optional<Duration> elapsed;
  std::optional<Duration> remaining;  // by estimates
};

/// What the steps of a run are at, gathered from its events. Pure: no clock, no terminal.
class Board {
 public:
  explicit Board(const engine::Plan& plan);
  void take(const engine::Event& event);
  std::vector<Row> rows(Instant now) const;
  std::size_t steps() const noexcept { return steps_.size(); }
  std::size_t over() const;
  bool stopping() const noexcept { return stopping_; }

 private:
  struct Step {
    std::string address;
    engine::Action action = engine::Action::None;
    Row::State state = Row::State::Waiting;
    std::string act;
    std::string waiting_for;
    std::optional<Instant> began;
    std::optional<Instant> ended;
    std::optional<Duration> estimate;
    std::vector<std::string> needs;
  };
  std::optional<Duration> expected(const Step& step) const;
  Row row_of(const std::string& name, const std::vector<const Step*>& steps, Instant now) const;

  std::vector<Step> steps_;                                    // in the plan's order
  std::map<std::pair<std::string, bool>, std::size_t> index_;  // by address and whether it goes
  std::map<std::string, Duration> took_;  // by "kind/action": the last of this run
  bool stopping_ = false;
};

/// The live table: one line per row and a line of totals, no wider than the style says, no higher
/// than `height` (rows that are done give way first). Newline at each line's end.
std::string render_table(const Board& board, Instant now, const Style& style, std::size_t height);

/// One line per transition for logs and pipes: `03:04:05 vm/cp-1: creating`; nothing for events
/// that are none.
std::optional<std::string> plain_line(const engine::Event& event);

/// One NDJSON line (with its newline) for `--events`.
std::string event_line(const engine::Event& event);

/// The exit code of a run: 0 done, 130 interrupted, 4 where a right is missing, 3 where all that
/// failed was refused by a guard, otherwise 1.
int exit_code(const engine::Report& report);

/// What became of the plan: failures with their causes once each, what was skipped, and how to go
/// on.
/// `again` is the command that goes on where this run ended.
std::string render(const engine::Report& report, const std::string& again, const Style& style);
text::Value to_value(const engine::Report& report);

}  // namespace rocca::report
