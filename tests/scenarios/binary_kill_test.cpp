// The kill sweep's sample through the real binary: SIGKILL meets it at requests, carried out or
// not, and at writes.

#include "scenarios/binary_site.hpp"

namespace rocca::scenarios {
namespace {

using testing::HasSubstr;

/// Spread over a run: a request that was carried out, one that was not, a write; with
/// ROCCA_SWEEP_EVERY, as for the sweep in one process, twice as many.
std::vector<Edge> sample(const Counted& whole) {
  const auto part_of = [](std::uint64_t all, std::uint64_t part, std::uint64_t parts) {
    return std::max<std::uint64_t>(1, all * part / parts);
  };
  std::vector<Edge> edges{{Edge::Kind::AfterRequest, part_of(whole.requests, 1, 6)},
                          {Edge::Kind::BeforeRequest, part_of(whole.requests, 4, 6)},
                          {Edge::Kind::Write, part_of(whole.writes, 3, 4)}};
  if (std::getenv("ROCCA_SWEEP_EVERY") != nullptr) {
    edges.push_back({Edge::Kind::AfterRequest, part_of(whole.requests, 5, 6)});
    edges.push_back({Edge::Kind::BeforeRequest, part_of(whole.requests, 2, 6)});
    edges.push_back({Edge::Kind::Write, part_of(whole.writes, 1, 4)});
  }
  return edges;
}

std::string to_string(const Edge& edge) {
  static constexpr std::array names = {"nowhere", "before request", "after request", "after write"};
  return fmt::format("{} {} {}", names[static_cast<std::size_t>(edge.kind)], edge.number,
                     edge.what);
}

class BinaryKill : public BinaryLife {};

TEST_F(BinaryKill, UpAndDownConvergeWhereverTheProcessIsKilled) {
  std::vector<Edge> ups, downs;
  std::string raised, razed;
  {
    const Workplace place;
    const auto site = begin(place);
    const Counted whole_up = site->run(up);
    ASSERT_EQ(whole_up.code, 0) << whole_up.said;
    raised = site->end_state();
    EXPECT_THAT(raised, HasSubstr("\n1 bootstraps\n"));
    const Counted whole_down = site->run(down);
    ASSERT_EQ(whole_down.code, 0) << whole_down.said;
    razed = site->end_state();
    EXPECT_EQ(razed, "1 bootstraps\n");
    ups = sample(whole_up);
    downs = sample(whole_down);
    fmt::print("undisturbed: up {} requests and {} writes, down {} and {}\n", whole_up.requests,
               whole_up.writes, whole_down.requests, whole_down.writes);
  }
  unsigned ups_killed = 0, downs_killed = 0;
  for (std::size_t i = 0; i < ups.size(); ++i) {
    SCOPED_TRACE(
        fmt::format("up killed {}, down killed {}", to_string(ups[i]), to_string(downs[i])));
    const Workplace place;
    const auto site = begin(place);
    ups_killed += site->run(up, ups[i]).code == 128 + SIGKILL;
    const Counted again = site->run(up);
    EXPECT_EQ(again.code, 0) << again.said;
    EXPECT_EQ(site->end_state(), raised);
    const Counted second = site->run({"plan", "blue"});
    EXPECT_EQ(second.code, 0) << second.said;
    downs_killed += site->run(down, downs[i]).code == 128 + SIGKILL;
    const Counted gone = site->run(down);
    EXPECT_EQ(gone.code, 0) << gone.said;
    EXPECT_EQ(site->end_state(), razed);
  }
  fmt::print("{} of {} `up` and {} of {} `down` were killed\n", ups_killed, ups.size(),
             downs_killed, downs.size());
  // A busy machine may need fewer requests, and be over before a late one; most are not.
  EXPECT_GE(ups_killed, 1u);
  EXPECT_GE(downs_killed, 1u);
  EXPECT_GT(ups_killed + downs_killed, ups.size());
}

// `down` is killed once a VM is gone and the state still there; `up` then needs no manual step.
TEST_F(BinaryKill, UpConvergesAfterADownThatWasKilled) {
  const Workplace place;
  const auto site = begin(place);
  const Counted first = site->run(up);
  ASSERT_EQ(first.code, 0) << first.said;
  const Counted killed =
      site->run(down, {Edge::Kind::AfterRequest, 2, "DELETE /nodes/pve/qemu/ID"});
  ASSERT_EQ(killed.code, 128 + SIGKILL) << killed.said;
  const Counted shown = site->run({"plan", "blue"});
  EXPECT_EQ(shown.code, 2) << shown.said;
  EXPECT_THAT(shown.said, HasSubstr("The teardown of blue"));
  const Counted status = site->run({"status", "blue"});
  EXPECT_THAT(status.said, HasSubstr("teardown"));
  const Counted again = site->run(up);
  EXPECT_EQ(again.code, 0) << again.said;
  const Counted second = site->run({"plan", "blue"});
  EXPECT_EQ(second.code, 0) << second.said;
  const Counted gone = site->run(down);
  EXPECT_EQ(gone.code, 0) << gone.said;
}

// A second configuration in maintenance mode wedges a node, and a second bootstrap restarts etcd:
// whether the first arrived is looked at, never tried.
TEST_F(BinaryKill, UpGoesOnWhereItWasKilledAtANodesRequest) {
  std::string raised;
  {
    const Workplace place;
    const auto site = begin(place);
    Counted whole = site->run(up);
    ASSERT_EQ(whole.code, 0) << whole.said;
    EXPECT_EQ(whole.calls["ApplyConfiguration"], 5u);
    EXPECT_EQ(whole.calls["Bootstrap"], 1u);
    raised = site->end_state();
    EXPECT_THAT(raised, HasSubstr("\n1 bootstraps\n"));
  }
  // One life, killed four times: each run begins where the one before it ended.
  const Workplace place;
  const auto site = begin(place);
  std::map<std::string, std::uint64_t> calls;
  const auto count = [&](const Counted& run) {
    for (const auto& [method, times] : run.calls) calls[method] += times;
  };
  const Edge edges[] = {{Edge::Kind::BeforeRequest, 1, "ApplyConfiguration"},
                        {Edge::Kind::AfterRequest, 1, "ApplyConfiguration"},
                        {Edge::Kind::BeforeRequest, 1, "Bootstrap"},
                        {Edge::Kind::AfterRequest, 1, "Bootstrap"}};
  for (const Edge& edge : edges) {
    SCOPED_TRACE(to_string(edge));
    const Counted killed = site->run(up, edge);
    ASSERT_EQ(killed.code, 128 + SIGKILL) << killed.said;
    count(killed);
  }
  const Counted last = site->run(up);
  EXPECT_EQ(last.code, 0) << last.said;
  count(last);
  EXPECT_FALSE(last.calls.contains("Bootstrap")) << "etcd itself says that it was bootstrapped";
  // Only those that did not arrive were sent again.
  EXPECT_EQ(calls["ApplyConfiguration"], 6u);
  EXPECT_EQ(calls["Bootstrap"], 2u);
  EXPECT_EQ(site->end_state(), raised);
  const Counted second = site->run({"plan", "blue"});
  EXPECT_EQ(second.code, 0) << second.said;
}

}  // namespace
}  // namespace rocca::scenarios
