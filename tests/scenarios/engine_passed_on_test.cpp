// A look at many nodes goes through few doors: control planes pass the questions on to workers that
// were settled before. What comes of it is the same as if each had been asked by itself. Where
// there are many workers they wait for the first control plane; few are looked at at once here, so
// that the other two have answered when worker-5's turn comes.

#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// Tells whom of the nodes rocca itself has asked, and may keep control planes from passing on.
class Ear final : public net::Transport {
 public:
  enum class Passing { Works, Refused, Cut, OfAnother };

  explicit Ear(net::Transport& inner) : inner_(inner) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    const bool talos = request.url.find(":50000/") != std::string::npos;
    if (!talos) return inner_.exchange(request, sink, std::move(stop));
    const auto named = request.headers.find("node");
    const std::string host = request.url.substr(8, request.url.find(":50000/") - 8);
    if (!named) {
      ++asked[host];
      if (host == silent) throw Error(Fault::Unreachable, "no route to host");
      return inner_.exchange(request, sink, std::move(stop));
    }
    ++passed_on[std::string(*named)];
    ++by[host];
    if (passing == Passing::Cut) throw Error(Fault::Lost, "the connection was reset");
    if (passing == Passing::Refused) {
      net::Response refusal;
      refusal.status = 200;
      refusal.version = net::HttpVersion::Http2;
      refusal.headers = {{"content-type", "application/grpc"},
                         {"grpc-status", "14"},
                         {"grpc-message", "connection error: no route to host"}};
      sink.begin(refusal);
      return refusal;
    }
    net::Request other = request;
    if (passing == Passing::OfAnother) {
      // Behind a translation of addresses the control planes may know somebody else by this one.
      other.headers = {};
      for (const auto& [name, value] : request.headers)
        other.headers.add(name, name == "node" ? "10.0.1.25" : value);
    }
    return inner_.exchange(other, sink, std::move(stop));
  }

  void forget() { asked.clear(), passed_on.clear(), by.clear(); }

  Passing passing = Passing::Works;
  std::string silent;  // to us
  std::map<std::string, int> asked, passed_on, by;

 private:
  net::Transport& inner_;
};

/// How many questions for VMs' configurations were under way at one time.
class Crowd final : public net::Transport {
 public:
  explicit Crowd(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (!request.url.ends_with("/pending")) return inner_.exchange(request, sink, std::move(stop));
    most = std::max(most, ++now_);
    net::Response response = inner_.exchange(request, sink, std::move(stop));
    --now_;
    return response;
  }
  int most = 0;

 private:
  net::Transport& inner_;
  int now_ = 0;
};

TEST(EnginePlan, VmsAreAskedAtOnceAndAHostForThreeAtATime) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 5)));
  ASSERT_TRUE(rig.up().ok());
  for (const bool remembered : {true, false}) {
    if (!remembered) rig.lose_state();
    Crowd crowd{rig.counting};
    rig.transport = &crowd;
    EXPECT_THAT(differences(rig.plan()), IsEmpty());
    EXPECT_EQ(crowd.most, 3);
    crowd.most = 0;
    EXPECT_THAT(rig.run()->plan_down().steps, Not(IsEmpty()));
    EXPECT_EQ(crowd.most, 3);
    rig.transport = nullptr;
  }
}

engine::Plan few_at_once(ClusterRig& rig) {
  resources::RunOptions options;
  options.parallelism = 3;
  return rig.plan(options);
}

class PassedOn : public testing::Test {
 protected:
  PassedOn() {
    rig.write_spec(static_spec(pools(3, 5)));
    const engine::Report report = rig.up();
    EXPECT_TRUE(report.ok()) << problems(report);
    rig.transport = &ear;
  }

  ClusterRig rig;
  Ear ear{rig.counting};
};

TEST_F(PassedOn, WorkersThatSettledAreAskedThroughControlPlanesInTurn) {
  EXPECT_THAT(differences(few_at_once(rig)), IsEmpty());
  EXPECT_EQ(ear.asked.count("10.0.1.24") + ear.asked.count("10.0.1.25"), 0u);
  EXPECT_GT(ear.passed_on["10.0.1.24"], 0);
  EXPECT_GT(ear.passed_on["10.0.1.25"], 0);
  EXPECT_EQ(ear.by.size(), 3u) << "by every control plane";
  EXPECT_EQ(ear.passed_on.count("10.0.1.11"), 0u) << "control planes speak for themselves";
}

TEST_F(PassedOn, ManyWorkersWaitForTheFirstControlPlane) {
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  for (const char* worker : {"10.0.1.21", "10.0.1.22", "10.0.1.23", "10.0.1.24", "10.0.1.25"})
    EXPECT_EQ(ear.asked.count(worker), 0u) << worker;
  // One that does not answer keeps nobody from being looked at.
  ear.forget();
  ear.silent = "10.0.1.11";
  const engine::Plan plan = rig.plan();
  EXPECT_THAT(differences(plan), Not(Contains(HasSubstr("worker"))));
  EXPECT_GT(ear.asked["10.0.1.11"], 0);
}

TEST_F(PassedOn, WhatDiffersIsSeenThroughThemToo) {
  rig.write_spec(
      static_spec(replace_all(pools(3, 5), "cores: 4 }", "cores: 4 }, labels: { zone: attic }")));
  EXPECT_THAT(differences(few_at_once(rig)), SizeIs(5));
  EXPECT_EQ(ear.asked.count("10.0.1.24"), 0u);
}

TEST_F(PassedOn, WhereNobodyPassesOnEachIsAskedItself) {
  for (const auto how : {Ear::Passing::Refused, Ear::Passing::Cut, Ear::Passing::OfAnother}) {
    SCOPED_TRACE(static_cast<int>(how));
    ear.forget();
    ear.passing = how;
    EXPECT_THAT(differences(few_at_once(rig)), IsEmpty());
    EXPECT_GT(ear.asked["10.0.1.24"], 0);
    EXPECT_FALSE(ear.passed_on.empty()) << "it was tried";
  }
}

TEST(PassedOnByOne, AControlPlaneThatFailedAtItIsAskedNoMore) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 5)));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  Ear ear{rig.counting};
  ear.passing = Ear::Passing::Cut;
  rig.transport = &ear;
  EXPECT_THAT(differences(few_at_once(rig)), IsEmpty());
  int tries = 0;
  for (const auto& [node, times] : ear.passed_on) tries += times;
  EXPECT_GT(tries, 0);
  EXPECT_LE(tries, 4) << "at most those that were on their way";
}

TEST_F(PassedOn, AWorkerThatNobodyReachesDoesNotAnswer) {
  ear.silent = "10.0.1.25";
  EXPECT_THAT(differences(few_at_once(rig)), IsEmpty()) << "its control planes still reach it";
  ear.passing = Ear::Passing::Refused;
  EXPECT_THAT(differences(few_at_once(rig)),
              Contains(HasSubstr("machine/worker-5: it does not answer")));
}

TEST_F(PassedOn, ActsAreSentToTheNodeItself) {
  rig.write_spec(
      static_spec(replace_all(pools(3, 5), "cores: 4 }", "cores: 4 }, labels: { zone: attic }")));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_GT(ear.asked["10.0.1.24"], 0);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
