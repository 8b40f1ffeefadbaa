#include "machine/kubernetes_upgrade.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <deque>
#include <set>

namespace rocca::resources {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<Version> all_versions() {
  std::vector<Version> all;
  for (const unsigned major : {1u, 2u})
    for (unsigned minor = 27; minor <= 36; ++minor)
      for (const unsigned patch : {0u, 1u, 7u}) all.emplace_back(major, minor, patch);
  all.emplace_back(1, 34, 0, "rc.1");
  return all;
}

TEST(Versions, StepOneMinorUpOrLess) {
  for (const Version& from : all_versions())
    for (const Version& to : all_versions()) {
      const bool same_minor = from.major() == to.major() && from.minor() == to.minor();
      const bool next_minor = from.major() == to.major() && from.minor() + 1 == to.minor();
      const engine::Verdict verdict = may_step(from, to);
      EXPECT_EQ(verdict.allowed, !(to < from) && (same_minor || next_minor))
          << to_string(from) << " to " << to_string(to);
      EXPECT_EQ(verdict.reason.empty(), verdict.allowed);
    }
}

TEST(Versions, RunBesideApiServersAsTheSkewPolicySays) {
  for (const Version& one : all_versions())
    for (const Version& api : all_versions())
      for (const Component component : talos::components) {
        const int older = static_cast<int>(api.minor()) - static_cast<int>(one.minor());
        bool allowed = false;
        switch (component) {
          case Component::ApiServer:
            allowed = older >= -1 && older <= 1;
            break;
          case Component::ControllerManager:
          case Component::Scheduler:
            allowed = older == 0 || older == 1;
            break;
          case Component::Proxy:
          case Component::Kubelet:
            allowed = older >= 0 && older <= 3;
            break;
        }
        allowed = allowed && one.major() == api.major();
        EXPECT_EQ(may_run_beside(component, one, api).allowed, allowed)
            << to_string(component) << ' ' << to_string(one) << " beside " << to_string(api);
      }
}

KubernetesImages images(const std::string& version, bool worker = false) {
  KubernetesImages out;
  for (const Component component : talos::components)
    if (!worker || component == Component::Kubelet)
      out.of(component) = fmt::format("registry.home/{}:{}", to_string(component), version);
  return out;
}

TEST(Versions, OfANodeAreRefusedWithTheWayOut) {
  const auto down = refuse_step("cp-1", images("v1.34.1"), images("v1.33.1"));
  ASSERT_TRUE(down);
  EXPECT_THAT(down->why, AllOf(HasSubstr("kube-apiserver of cp-1"), HasSubstr("downgrade")));
  EXPECT_THAT(down->hint, HasSubstr("kubernetes.version to v1.34.1"));
  const auto jump = refuse_step("w-1", images("v1.32.1", true), images("v1.34.1", true));
  ASSERT_TRUE(jump);
  EXPECT_THAT(jump->why, AllOf(HasSubstr("kubelet of w-1"), HasSubstr("skips v1.33")));
  EXPECT_THAT(jump->hint, AllOf(HasSubstr("a release of v1.33"), HasSubstr("v1.34")));
  EXPECT_THAT(refuse_step("w-1", images("v1.30.1", true), images("v1.34.1", true))->why,
              HasSubstr("skips v1.31 to v1.33"));
  EXPECT_FALSE(refuse_step("cp-1", images("v1.33.1"), images("v1.34.0")));
  EXPECT_FALSE(refuse_step("cp-1", images("v1.33.1"), images("v1.33.4")));
  EXPECT_TRUE(refuse_step("cp-1", images("v1.33.4"), images("v1.33.1")));
  // A half-done upgrade goes on, and the next one waits for its end.
  KubernetesImages half = images("v1.32.1");
  half.of(Component::ApiServer) = images("v1.33.1").of(Component::ApiServer);
  EXPECT_FALSE(refuse_step("cp-1", half, images("v1.33.1")));
  EXPECT_TRUE(refuse_step("cp-1", half, images("v1.34.1")));
  EXPECT_TRUE(refuse_step("cp-1", half, images("v1.32.1")));
  // Another registry is no upgrade; a tag without a version may be anything.
  KubernetesImages moved = images("v1.33.1");
  moved.of(Component::Kubelet) = "elsewhere/kubelet:v1.33.1-fat";
  EXPECT_FALSE(refuse_step("cp-1", images("v1.33.1"), moved));
  moved.of(Component::Kubelet) = "elsewhere/kubelet:latest";
  EXPECT_THAT(refuse_step("cp-1", images("v1.33.1"), moved)->why, HasSubstr("names no version"));
}

TEST(Versions, OfPatchesMustFitTheSpecs) {
  const Version kubernetes{1, 34, 1};
  EXPECT_FALSE(refuse_images("cp-1", images("v1.34.1"), kubernetes));
  for (const Component component : talos::components)
    for (const Version& version : all_versions()) {
      KubernetesImages patched = images("v1.34.1");
      patched.of(component) = "a/b:v" + to_string(version);
      const bool fits =
          component == Component::ApiServer
              ? version == kubernetes
              : version <= kubernetes && may_run_beside(component, version, kubernetes).allowed;
      const auto refusal = refuse_images("cp-1", patched, kubernetes);
      EXPECT_EQ(!refusal, fits) << to_string(component) << ' ' << to_string(version);
      if (refusal) {
        EXPECT_THAT(refusal->hint, HasSubstr(talos::image_path(component)));
      }
    }
}

/// Every state that an upgrade of this cluster can be in, whatever happens to be done next: a bit
/// for each component of each node, and whether each API server has come back.
class Rollout {
 public:
  Rollout(unsigned planes, unsigned workers) : planes_(planes), workers_(workers) {}

  struct State {
    std::vector<KubernetesImages> live;          // control planes first
    std::vector<std::optional<Version>> serves;  // of control planes
    std::string key() const {
      std::string text;
      for (const KubernetesImages& each : live)
        for (const std::string& image : each.images) text += image + ' ';
      for (const auto& each : serves) text += each ? to_string(*each) + ' ' : "- ";
      return text;
    }
  };

  void walk() {
    const KubernetesImages plane = images("v1.32.1"), worker = images("v1.32.1", true);
    State first;
    first.live.assign(planes_, plane);
    first.live.insert(first.live.end(), workers_, worker);
    first.serves.assign(planes_, Version(1, 32, 1));
    std::set<std::string> seen{first.key()};
    std::deque<State> open{first};
    while (!open.empty()) {
      const State state = std::move(open.front());
      open.pop_front();
      check(state);
      bool moved = false;
      for (State& next : moves(state)) {
        moved = true;
        if (seen.insert(next.key()).second) open.push_back(std::move(next));
      }
      if (!moved) ends_.insert(state.key());
    }
    states_ = seen.size();
    State last;
    last.live.assign(planes_, images("v1.33.2"));
    last.live.insert(last.live.end(), workers_, images("v1.33.2", true));
    last.serves.assign(planes_, Version(1, 33, 2));
    EXPECT_THAT(ends_, testing::ElementsAre(last.key())) << "an upgrade must not get stuck";
  }
  std::size_t states() const { return states_; }

 private:
  KubernetesImages wanted(std::size_t node) const { return images("v1.33.2", node >= planes_); }

  std::vector<Plane> planes(const State& state) const {
    std::vector<Plane> all;
    for (unsigned i = 0; i < planes_; ++i)
      all.push_back({fmt::format("cp-{}", i + 1), state.live[i], wanted(i), state.serves[i]});
    return all;
  }

  std::vector<State> moves(const State& state) const {
    std::vector<State> out;
    for (std::size_t node = 0; node < state.live.size(); ++node)
      for (const Component component : talos::components) {
        const KubernetesImages want = wanted(node);
        if (state.live[node].of(component) == want.of(component)) continue;
        if (!wait_before(component, node >= planes_, state.live[node], want, planes(state)).empty())
          continue;
        State next = state;
        next.live[node].of(component) = want.of(component);
        out.push_back(next);
        if (component != Component::ApiServer) continue;
        next.serves[node].reset();  // it may be seen while it is away
        out.push_back(std::move(next));
      }
    // A new API server comes up whenever it likes.
    for (unsigned i = 0; i < planes_; ++i) {
      const auto declared = talos::image_version(state.live[i].of(Component::ApiServer));
      if (state.serves[i] == declared) continue;
      State next = state;
      next.serves[i] = declared;
      out.push_back(std::move(next));
    }
    return out;
  }

  void check(const State& state) const {
    for (const auto& api : state.serves) {
      if (!api) continue;
      for (std::size_t node = 0; node < state.live.size(); ++node)
        for (const Component component : talos::components) {
          if (component == Component::ApiServer) continue;
          const auto version = talos::image_version(state.live[node].of(component));
          if (!version) continue;
          EXPECT_LE(*version, *api) << to_string(component) << " of node " << node;
          EXPECT_TRUE(may_run_beside(component, *version, *api).allowed);
        }
    }
    // One component after the other, on all control planes.
    for (std::size_t i = 0; i + 1 < talos::components.size(); ++i)
      for (unsigned a = 0; a < planes_; ++a)
        for (unsigned b = 0; b < planes_; ++b)
          if (state.live[a].images[i] != wanted(a).images[i]) {
            EXPECT_NE(state.live[b].images[i + 1], wanted(b).images[i + 1]);
          }
    for (unsigned a = 0; a < planes_; ++a)
      for (std::size_t worker = planes_; worker < state.live.size(); ++worker)
        if (state.live[a].of(Component::Kubelet) != wanted(a).of(Component::Kubelet)) {
          EXPECT_NE(state.live[worker].of(Component::Kubelet),
                    wanted(worker).of(Component::Kubelet));
        }
  }

  unsigned planes_, workers_;
  std::size_t states_ = 0;
  std::set<std::string> ends_;
};

TEST(Upgrade, NeverBreaksTheSkewPolicyAndNeverGetsStuck) {
  for (unsigned planes = 1; planes <= 3; ++planes)
    for (unsigned workers = 0; workers <= 2; ++workers) {
      Rollout rollout{planes, workers};
      rollout.walk();
      EXPECT_GT(rollout.states(), 5 * planes + workers);
    }
}

TEST(Upgrade, HoldsNothingBackThatIsNoUpgrade) {
  const KubernetesImages live = images("v1.33.1");
  KubernetesImages moved = live;
  moved.of(Component::Kubelet) = "elsewhere/kubelet:v1.33.1";
  // Its own API server may be down because of the image that is to be put right.
  const std::vector<Plane> planes{{"cp-1", live, moved, std::nullopt}};
  EXPECT_EQ(wait_before(Component::Kubelet, false, live, moved, planes), "");
  moved.of(Component::Kubelet) = "elsewhere/kubelet:v1.33.2";
  EXPECT_THAT(wait_before(Component::Kubelet, false, live, moved, planes),
              HasSubstr("API server of cp-1 to answer"));
}

}  // namespace
}  // namespace rocca::resources
