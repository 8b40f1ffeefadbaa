#include "report/progress.hpp"

#include "base/strings.hpp"
#include "report/test_plans.hpp"
#include "support/golden.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::report {
namespace {

using engine::Action;
using engine::Event;
using std::chrono::seconds;
using testing::Each;
using testing::HasSubstr;
using testing::Le;

constexpr Instant start{seconds{1'763'500'000}};

Event event(Event::Kind kind, const std::string& address, const std::string& text, int at) {
  Event out;
  out.kind = kind;
  out.at = start + seconds{at};
  out.address = address;
  out.text = text;
  out.action = Action::Create;
  return out;
}

engine::Plan first_cluster() {
  engine::Plan plan;
  plan.cluster = "blue";
  const std::string image = "image/local@pve1/talos-1.11.5.qcow2";
  plan.steps.push_back(test::planned(image, Action::Create, "absent"));
  for (const std::string node : {"cp-1", "cp-2", "cp-3", "worker-1", "worker-2"}) {
    plan.steps.push_back(test::planned("vm/" + node, Action::Create, "absent", {image}));
    plan.steps.back().estimate = seconds{40};
    plan.steps.push_back(
        test::planned("machine/" + node, Action::Create, "absent", {"vm/" + node}));
    plan.steps.back().estimate = seconds{90};
  }
  plan.steps.push_back(
      test::planned("bootstrap/blue", Action::Create, "no etcd yet", {"machine/cp-1"}));
  return plan;
}

/// In the middle of raising it: everything a row can show.
Board midway() {
  Board board{first_cluster()};
  using Kind = Event::Kind;
  const std::string image = "image/local@pve1/talos-1.11.5.qcow2";
  board.take(event(Kind::Started, image, "", 0));
  board.take(event(Kind::Settled, image, "", 21));
  for (const std::string node : {"cp-1", "cp-2", "worker-1", "worker-2"})
    board.take(event(Kind::Started, "vm/" + node, "", 21));
  board.take(event(Kind::Settled, "vm/cp-1", "", 40));
  board.take(event(Kind::Started, "machine/cp-1", "", 40));
  board.take(event(Kind::Acted, "machine/cp-1", "apply", 41));
  board.take(event(Kind::Waiting, "machine/cp-1",
                   "the node to come back: stage installing, writing the disk image", 42));
  board.take(event(Kind::Acted, "vm/cp-2", "resize", 42));
  board.take(event(Kind::Waiting, "vm/cp-2", "Proxmox task resize on pve1", 43));
  Event failed = event(Kind::Failed, "vm/worker-1", "", 50);
  failed.error = Error(Fault::Rejected, "storage local-lvm is full");
  board.take(failed);
  board.take(event(Kind::Skipped, "machine/worker-1", "vm/worker-1", 50));
  return board;
}

// What an interrupted teardown left: the same VM is destroyed first, and created after that.
TEST(Board, CountsADestroyAndACreateOfTheSameVmAsTwoSteps) {
  engine::Plan plan;
  plan.steps.push_back(test::planned("vm/cp-1", Action::Destroy, "remains"));
  plan.steps.push_back(test::planned("vm/cp-1", Action::Create, "absent"));
  Board board{plan};
  Event gone = event(Event::Kind::Started, "vm/cp-1", "", 0);
  gone.action = Action::Destroy;
  board.take(gone);
  gone.kind = Event::Kind::Settled;
  board.take(gone);
  EXPECT_EQ(board.over(), 1u);
  board.take(event(Event::Kind::Started, "vm/cp-1", "", 5));
  board.take(event(Event::Kind::Settled, "vm/cp-1", "", 9));
  EXPECT_EQ(board.over(), 2u);
}

TEST(LiveTable, At80Columns) {
  rocca::test::expect_golden("report/table_80.txt",
                             render_table(midway(), start + seconds{60}, {.width = 80}, 24));
}

TEST(LiveTable, At120Columns) {
  rocca::test::expect_golden("report/table_120.txt",
                             render_table(midway(), start + seconds{60}, {.width = 120}, 24));
}

TEST(LiveTable, AFirstRunLearnsFromItsOwnSteps) {
  engine::Plan plan = first_cluster();
  for (engine::Planned& step : plan.steps) step.estimate.reset();
  Board board{plan};
  using Kind = Event::Kind;
  for (const std::string node : {"cp-1", "cp-2"}) {
    board.take(event(Kind::Started, "vm/" + node, "", 0));
    board.take(event(Kind::Started, "machine/" + node, "", node == "cp-1" ? 30 : 50));
  }
  const auto left = [&](const char* name, int at) {
    for (const Row& row : board.rows(start + seconds{at}))
      if (row.name == name) return row.remaining;
    return std::optional<Duration>{};
  };
  EXPECT_EQ(left("cp-3", 60), std::nullopt);
  board.take(event(Kind::Settled, "vm/cp-1", "", 30));
  EXPECT_EQ(left("cp-3", 60), std::nullopt);  // how long a machine takes, nobody knows yet
  board.take(event(Kind::Settled, "machine/cp-1", "", 70));
  EXPECT_EQ(left("cp-3", 70), seconds{30 + 40});
  board.take(event(Kind::Settled, "vm/cp-2", "", 50));
  EXPECT_EQ(left("cp-2", 70), seconds{40 - 20});
}

TEST(LiveTable, IsNeverWiderOrHigherThanTheTerminal) {
  for (const std::size_t width : {40UL, 80UL, 200UL})
    for (const std::size_t height : {4UL, 6UL, 50UL}) {
      const std::string text =
          render_table(midway(), start + seconds{60}, {.colour = true, .width = width}, height);
      std::vector<std::string> lines = split(text, '\n');
      lines.pop_back();
      EXPECT_LE(lines.size(), height);
      std::vector<std::size_t> widths;
      for (const std::string& line : lines) widths.push_back(columns(line));
      EXPECT_THAT(widths, Each(Le(width)));
    }
}

TEST(LiveTable, AFailureStaysInSightWhenThereIsNoRoom) {
  const std::string text = render_table(midway(), start + seconds{60}, {.width = 80}, 4);
  EXPECT_THAT(text, HasSubstr("✗ worker-1"));
}

TEST(PlainLines, SayWhatHappens) {
  std::string all;
  using Kind = Event::Kind;
  Event failed = event(Kind::Failed, "vm/worker-1", "", 50);
  failed.error = Error(Fault::Rejected, "storage local-lvm is full");
  Event explained = event(Kind::Failed, "machine/cp-1", "", 50);
  explained.error = Error(Fault::Timeout, "still waiting after 10m: the Talos API to answer")
                        .hint("Proxmox says: running\nlikely cause:\n  1. a wrong VLAN");
  Event still = event(Kind::StillWaiting, "vm/cp-1", "Proxmox task resize on pve1", 34);
  still.took = seconds{90};
  still.limit = seconds{900};
  Event settled = event(Kind::Settled, "vm/cp-1", "", 40);
  settled.took = seconds{19};
  for (const Event& one :
       {event(Kind::Started, "vm/cp-1", "", 21), event(Kind::Acted, "vm/cp-1", "resize", 30),
        event(Kind::Waiting, "vm/cp-1", "Proxmox task resize on pve1", 31), still,
        event(Kind::Noted, "vm/cp-1", "likely cause: the storage is slow", 35), settled, failed,
        explained, event(Kind::Skipped, "machine/worker-1", "vm/worker-1", 50),
        event(Kind::Stopping, "", "", 51)})
    all += plain_line(one).value_or("(nothing)") + "\n";
  rocca::test::expect_golden("report/plain.txt", all);
}

TEST(EventLines, AreOneJsonObjectEach) {
  Event failed = event(Event::Kind::Failed, "vm/worker-1", "", 50);
  failed.error = Error(Fault::Rejected, "full\nup").hint("make room");
  const std::string line = event_line(failed);
  ASSERT_TRUE(line.ends_with('\n'));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const text::Value value = text::parse_json(line, "line");
  EXPECT_EQ(value.find("error")->text(), "full\nup");
  EXPECT_EQ(value.find("hint")->text(), "make room");
}

TEST(ExitCode, IsThatOfWhatFailed) {
  using End = engine::StepResult::End;
  const struct {
    std::vector<Fault> faults;
    int code;
  } cases[] = {{{}, 0},
               {{Fault::Rejected}, 1},
               {{Fault::Denied}, 4},
               {{Fault::Timeout, Fault::Denied}, 4},
               {{Fault::Refused}, 3},
               {{Fault::Refused, Fault::Timeout}, 1}};
  for (const auto& each : cases) {
    engine::Report report;
    report.steps["vm/ok"] = {.end = End::Done, .action = Action::Create};
    for (std::size_t i = 0; i < each.faults.size(); ++i) {
      engine::StepResult failed{.end = End::Failed, .action = Action::Create};
      failed.error = Error(each.faults[i], "no");
      report.steps["vm/" + std::to_string(i)] = failed;
    }
    EXPECT_EQ(exit_code(report), each.code) << testing::PrintToString(each.faults.size());
  }
  engine::Report stopped;
  stopped.interrupted = true;
  EXPECT_EQ(exit_code(stopped), 130);
}

TEST(ReportText, NamesEachCauseOnce) {
  using End = engine::StepResult::End;
  engine::Report report;
  report.took = seconds{75};
  report.steps["vm/cp-1"] = {.end = End::Done, .action = Action::Create};
  engine::StepResult failed{.end = End::Failed, .action = Action::Create};
  failed.error = Error(Fault::Rejected, "storage local-lvm is full").hint("make room on it");
  failed.error->during("creating vm/worker-1 (cluster.yaml:31:5)");
  report.steps["vm/worker-1"] = failed;
  report.steps["machine/worker-1"] = {.end = End::Skipped, .cause = "vm/worker-1"};
  report.steps["member/worker-1"] = {.end = End::Skipped, .cause = "vm/worker-1"};
  rocca::test::expect_golden("report/failed.txt", render(report, "rocca up blue", {.width = 80}));
}

}  // namespace
}  // namespace rocca::report
