#include "cli/terminal/live_screen.hpp"

#include "base/error.hpp"
#include "cli/bench_test_support.hpp"
#include "support/golden.hpp"
#include "support/screen.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::cli {
namespace {

using engine::Action;
using engine::Event;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

constexpr Instant start{seconds{1'763'500'000}};

engine::Plan first_cluster() {
  engine::Plan plan;
  plan.cluster = "blue";
  const auto add = [&](const std::string& address, std::vector<std::string> needs, int estimate) {
    engine::Planned step;
    step.address = address;
    step.change.action = Action::Create;
    step.needs = std::move(needs);
    if (estimate > 0) step.estimate = seconds{estimate};
    plan.steps.push_back(std::move(step));
  };
  const std::string image = "image/local@pve1/talos-1.11.5.qcow2";
  add(image, {}, 20);
  for (const std::string node : {"cp-1", "cp-2", "cp-3", "worker-1", "worker-2"}) {
    add("vm/" + node, {image}, 40);
    add("machine/" + node, {"vm/" + node}, 90);
    add("member/" + node, {"machine/" + node, "bootstrap/blue"}, 30);
  }
  add("bootstrap/blue", {"machine/cp-1", "machine/cp-2", "machine/cp-3"}, 60);
  return plan;
}

/// What was heard of a bring-up until its 70th second; one worker is refused by its host.
std::vector<Event> heard() {
  std::vector<Event> all;
  using Kind = Event::Kind;
  const auto add = [&](Kind kind, const std::string& address, const std::string& text, int at) {
    Event event;
    event.kind = kind;
    event.address = address;
    event.text = text;
    event.at = start + seconds{at};
    event.action = Action::Create;
    if (kind == Kind::Failed) event.error = Error(Fault::Rejected, text);
    all.push_back(std::move(event));
  };
  const std::string image = "image/local@pve1/talos-1.11.5.qcow2";
  add(Kind::Started, image, "", 0);
  add(Kind::Waiting, image, "Proxmox task imgdownload on pve1", 2);
  add(Kind::Settled, image, "", 21);
  int at = 21;
  for (const std::string node : {"cp-1", "cp-2", "worker-1", "worker-2"}) {
    add(Kind::Started, "vm/" + node, "", at);
    add(Kind::Acted, "vm/" + node, "create", at + 1);
    add(Kind::Waiting, "vm/" + node, "Proxmox task qmcreate on pve1", at + 2);
    at += 2;
  }
  add(Kind::Failed, "vm/worker-1", "storage 'local-lvm' is full: 3 GiB are free, 20 GiB are needed",
      44);
  add(Kind::Skipped, "machine/worker-1", "vm/worker-1", 44);
  add(Kind::Skipped, "member/worker-1", "vm/worker-1", 44);
  add(Kind::Settled, "vm/cp-1", "", 46);
  add(Kind::Started, "machine/cp-1", "", 46);
  add(Kind::Acted, "machine/cp-1", "apply", 52);
  add(Kind::Waiting, "machine/cp-1",
      "the Talos API to answer (10.0.0.11:50000: connection refused)", 53);
  add(Kind::Acted, "vm/cp-2", "resize", 55);
  add(Kind::Waiting, "vm/cp-2", "Proxmox task resize on pve1", 56);
  return all;
}

class LiveScreenAt : public testing::TestWithParam<unsigned> {};

TEST_P(LiveScreenAt, RedrawsOneTableInPlace) {
  Bench bench;
  bench.clock.advance_to(start + seconds{70});
  bench.context.terminal = {.err = true, .width = GetParam(), .colour_err = true};
  {
    LiveScreen screen{bench.context, first_cluster()};
    for (const Event& event : heard()) screen.take(event);
    screen.finish();
  }
  // However many pictures were drawn on the way, the terminal shows one, and no line was too long.
  test::Screen terminal{GetParam()};
  terminal.write(bench.err.str());
  EXPECT_EQ(terminal.wrapped(), 0u);
  EXPECT_EQ(bench.out.str(), "");
  test::expect_golden(fmt::format("report/screen_{}.txt", GetParam()), terminal.text());
}
INSTANTIATE_TEST_SUITE_P(Columns, LiveScreenAt, testing::Values(80u, 120u),
                         [](const auto& one) { return std::to_string(one.param); });

TEST(LiveScreen, IsOneLinePerTransitionWithoutATerminal) {
  Bench bench;
  bench.clock.advance_to(start);
  {
    LiveScreen screen{bench.context, first_cluster()};
    for (const Event& event : heard()) screen.take(event);
  }
  EXPECT_THAT(bench.err.str(), Not(HasSubstr("\x1b")));
  test::expect_golden("report/screen_plain.txt", bench.err.str());
}

}  // namespace
}  // namespace rocca::cli
