#include "platform/teardown.hpp"

#include "engine/guards.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <functional>

namespace rocca::resources {
namespace {

using testing::HasSubstr;

constexpr std::array all_data = {EtcdData::Present, EtcdData::Waiting, EtcdData::Empty,
                                 EtcdData::Gone, EtcdData::Silent};

using Planes = std::vector<ControlPlaneFacts>;

/// Every combination of facts about up to three control planes, with every past.
void for_each_case(const std::function<void(const Planes&, const ClusterPast&)>& then) {
  std::vector<ControlPlaneFacts> kinds;
  for (const EtcdData data : all_data)
    for (const bool announced : {false, true})
      for (const bool stays : {false, true}) kinds.push_back({"", data, announced, stays});
  const std::function<void(Planes&, std::size_t)> add = [&](Planes& planes, std::size_t size) {
    if (planes.size() == size) {
      for (unsigned bits = 0; bits < 8; ++bits)
        then(planes, {(bits & 1u) != 0, (bits & 2u) != 0, (bits & 4u) != 0});
      return;
    }
    for (const ControlPlaneFacts& kind : kinds) {
      planes.push_back(kind);
      planes.back().node = fmt::format("cp-{}", planes.size());
      add(planes, size);
      planes.pop_back();
    }
  };
  for (std::size_t size = 0; size <= 3; ++size) {
    Planes planes;
    add(planes, size);
  }
}

std::string text_of(const Planes& planes, const ClusterPast& past) {
  std::string text = fmt::format("bootstrapped {} teardown {} etcd answers {}:", past.bootstrapped,
                                 past.teardown, past.etcd_answers);
  for (const ControlPlaneFacts& plane : planes)
    text += fmt::format(" [{}{}{}]", static_cast<int>(plane.data),
                        plane.announced ? " announced" : "", plane.stays ? " stays" : "");
  return text;
}

bool without_data(const ControlPlaneFacts& plane) {
  return plane.data == EtcdData::Gone || plane.data == EtcdData::Empty;
}

// The promises of the rule, each by itself, over every case there is.
TEST(Decide, HoldsItsPromisesInEveryCase) {
  std::size_t cases = 0;
  for_each_case([&](const Planes& planes, const ClusterPast& past) {
    ++cases;
    const Course course = decide(planes, past);
    std::size_t taken = 0, lives_on = 0, unseen = 0, with_data = 0;
    for (const ControlPlaneFacts& plane : planes) {
      taken += plane.announced && !plane.stays && without_data(plane);
      lives_on += plane.stays && !without_data(plane);
      unseen += plane.announced && !plane.stays && plane.data == EtcdData::Silent;
      with_data += !without_data(plane);
    }
    const bool quorum = planes.empty() || with_data > planes.size() / 2;
    const bool wrong =
        // Without a teardown nothing is ever destroyed, and with one it is always mentioned.
        (!past.teardown && course != Course::Proceed && course != Course::Lost) ||
        (past.teardown && course == Course::Proceed) ||
        // Only what the teardown itself announced and destroyed makes `up` destroy the rest.
        ((course == Course::Recreate) != (past.teardown && taken > 0 && lives_on == 0)) ||
        // What cannot be seen is neither kept nor destroyed.
        (course == Course::Undecided && (unseen == 0 || taken > 0)) ||
        (course == Course::Keep && lives_on == 0 && (taken > 0 || unseen > 0)) ||
        // Nothing is refused as lost that etcd itself, or a first bootstrap, disproves.
        (course == Course::Lost && (past.etcd_answers || !past.bootstrapped)) ||
        // Lost quorum is never overlooked.
        (past.bootstrapped && !past.etcd_answers && !quorum &&
         (course == Course::Proceed || course == Course::Keep));
    if (wrong) ADD_FAILURE() << course_name(course) << " for " << text_of(planes, past);
  });
  EXPECT_EQ(cases, (1u + 20u + 400u + 8000u) * 8u);
}

// The same control plane with data instead of without never makes it worse.
TEST(Decide, MoreDataIsNeverRefusedWhereLessIsNot) {
  for_each_case([](const Planes& planes, const ClusterPast& past) {
    if (past.teardown || decide(planes, past) == Course::Lost) return;
    for (std::size_t i = 0; i < planes.size(); ++i) {
      if (!without_data(planes[i])) continue;
      Planes better = planes;
      better[i].data = EtcdData::Present;
      if (decide(better, past) == Course::Lost) ADD_FAILURE() << text_of(planes, past);
    }
  });
}

struct Row {
  const char* name;
  std::vector<EtcdData> data;
  std::vector<bool> announced;
  bool teardown;
  Course course;
};

class DecideTable : public testing::TestWithParam<Row> {};

TEST_P(DecideTable, SaysWhatUpDoes) {
  Planes planes;
  for (std::size_t i = 0; i < GetParam().data.size(); ++i)
    planes.push_back({fmt::format("cp-{}", i + 1), GetParam().data[i],
                      !GetParam().announced.empty() && GetParam().announced[i], false});
  EXPECT_EQ(decide(planes, {true, GetParam().teardown, false}), GetParam().course);
}

using D = EtcdData;
INSTANTIATE_TEST_SUITE_P(
    Cases, DecideTable,
    testing::Values(
        Row{"down_killed_before_its_first_act",
            {D::Present, D::Present, D::Present},
            {},
            true,
            Course::Keep},
        Row{"down_killed_after_a_shutdown",
            {D::Present, D::Present, D::Present},
            {true, true, false},
            true,
            Course::Keep},
        Row{"down_killed_after_one_was_destroyed",
            {D::Gone, D::Present, D::Present},
            {true, true, true},
            true,
            Course::Recreate},
        Row{"down_killed_after_all_were_destroyed",
            {D::Gone, D::Gone, D::Gone},
            {true, true, true},
            true,
            Course::Recreate},
        Row{"somebody_else_destroyed_one_of_three",
            {D::Gone, D::Present, D::Present},
            {},
            true,
            Course::Keep},
        Row{"somebody_else_destroyed_two_of_three",
            {D::Gone, D::Gone, D::Present},
            {},
            true,
            Course::Lost},
        Row{"a_host_is_off_that_had_one",
            {D::Silent, D::Present, D::Present},
            {true, true, false},
            true,
            Course::Undecided},
        Row{"one_is_destroyed_and_a_host_is_off",
            {D::Silent, D::Gone, D::Present},
            {true, true, false},
            true,
            Course::Recreate},
        Row{"two_of_three_are_gone", {D::Gone, D::Gone, D::Present}, {}, false, Course::Lost},
        Row{"two_of_three_were_reset", {D::Present, D::Empty, D::Empty}, {}, false, Course::Lost},
        Row{"one_of_three_is_gone", {D::Present, D::Gone, D::Present}, {}, false, Course::Proceed},
        Row{"the_only_one_is_gone", {D::Gone}, {}, false, Course::Lost},
        Row{"the_only_one_is_off", {D::Silent}, {}, false, Course::Proceed},
        Row{"all_start_after_an_outage",
            {D::Present, D::Waiting, D::Waiting},
            {},
            false,
            Course::Proceed},
        Row{"all_wait_for_a_bootstrap",
            {D::Waiting, D::Waiting, D::Waiting},
            {},
            false,
            Course::Lost}),
    [](const auto& test) { return test.param.name; });

TEST(Decide, ALossNamesWhoIsGone) {
  EXPECT_THAT(explain_loss({{"cp-1", D::Present}, {"cp-2", D::Gone}, {"cp-3", D::Gone}}),
              HasSubstr("cp-2 and cp-3 are gone; 2 of 3 control planes are needed"));
  EXPECT_THAT(explain_loss({{"cp-1", D::Gone}}), HasSubstr("no control plane has its data"));
}

}  // namespace
}  // namespace rocca::resources
