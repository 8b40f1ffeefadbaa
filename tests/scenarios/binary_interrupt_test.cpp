// Ctrl-C through the real binary. The request at which it comes is held until the process has
// noticed, so that what follows is no race.

#include "scenarios/binary_site.hpp"

namespace rocca::scenarios {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

class BinaryInterrupt : public BinaryLife {};

const std::string create = "POST /nodes/pve/qemu";
const std::string shutdown = "POST /nodes/pve/qemu/ID/status/shutdown";
const std::string destroy = "DELETE /nodes/pve/qemu/ID";

/// One call at a time: whatever comes behind the signal was begun behind it.
std::vector<std::string> one_by_one(std::vector<std::string> words) {
  words.insert(words.end(), {"--parallelism", "1"});
  return words;
}

Edge once(const std::string& what) {
  return {Edge::Kind::AfterRequest, 1, what, Edge::Signal::Interrupt};
}
Edge twice(const std::string& what) {
  return {Edge::Kind::AfterRequest, 1, what, Edge::Signal::InterruptTwice};
}

TEST_F(BinaryInterrupt, TheFirstSettlesTheSecondLeavesAtOnceAndTheNextRunGoesOn) {
  const Workplace place;
  const auto site = begin(place);
  std::map<std::string, std::uint64_t> calls;
  const auto run = [&](const std::vector<std::string>& words, const Edge& edge = {}) {
    const Counted counted = site->run(words, edge);
    for (const auto& [what, times] : counted.calls) calls[what] += times;
    return counted;
  };

  // The first one, while a VM is being made: that is waited for, and nothing else is begun, neither
  // another VM nor what comes next with this one.
  const Counted settled = run(one_by_one(up), once(create));
  EXPECT_TRUE(settled.left_by_itself);
  EXPECT_EQ(settled.code, 130) << settled.said;
  EXPECT_EQ(settled.calls.at(create), 1u);
  EXPECT_THAT(settled.calls, Not(Contains(Key(HasSubstr("/resize")))));
  EXPECT_THAT(settled.calls, Not(Contains(Key(HasSubstr("/status/start")))));
  EXPECT_THAT(settled.said, HasSubstr("\nStopped after "));
  EXPECT_THAT(settled.said, HasSubstr("`rocca up blue` goes on from here.\n"));
  EXPECT_THAT(site->locks(), ElementsAre("")) << "one VM, and nobody is at it any more";

  // Twice, while another one is being made: nobody waits for the answer, which has not come yet.
  const Counted left = run(one_by_one(up), twice(create));
  EXPECT_TRUE(left.left_by_itself);
  EXPECT_EQ(left.code, 130) << left.said;
  EXPECT_EQ(left.calls.at(create), 1u);
  EXPECT_THAT(left.said, Not(HasSubstr("goes on from here"))) << "it left at once";

  // The next one goes on: nothing is made twice.
  const Counted whole = run(up);
  EXPECT_EQ(whole.code, 0) << whole.said;
  EXPECT_EQ(calls[create], 5u);
  EXPECT_EQ(calls["ApplyConfiguration"], 5u);
  EXPECT_EQ(calls["Bootstrap"], 1u);
  EXPECT_EQ(site->locks().size(), 5u);
  const Counted second = run({"plan", "blue"});
  EXPECT_EQ(second.code, 0) << second.said;

  // And the same on the way down, where all VMs are asked to shut down at once.
  const Counted asked = run(down, once(shutdown));
  EXPECT_TRUE(asked.left_by_itself);
  EXPECT_EQ(asked.code, 130) << asked.said;
  EXPECT_THAT(asked.calls, Not(Contains(Key(destroy))));
  EXPECT_THAT(asked.said, HasSubstr("`rocca down blue` goes on from here.\n"));
  EXPECT_EQ(site->locks().size(), 5u);
  const Counted dropped = run(down, twice(destroy));
  EXPECT_TRUE(dropped.left_by_itself);
  EXPECT_EQ(dropped.code, 130) << dropped.said;
  EXPECT_THAT(dropped.said, Not(HasSubstr("goes on from here")));
  const Counted gone = run(down);
  EXPECT_EQ(gone.code, 0) << gone.said;
  EXPECT_EQ(site->end_state(), "1 bootstraps\n");
}

}  // namespace
}  // namespace rocca::scenarios
