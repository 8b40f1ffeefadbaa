#include "backends/backends_test_support.hpp"
#include "backends/kubernetes_store.hpp"
#include "backends/s3_store.hpp"
#include "base/encoding.hpp"
#include "base/entropy.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "state/store_test_support.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace rocca::backends {

namespace {

using namespace std::chrono_literals;
using state::Holder;
using state::Record;
using state::State;
using state::test::error_of;
using state::test::fresh;
using state::test::note;
using state::test::run;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class S3Store : public testing::Test {
 protected:
  std::unique_ptr<state::Store> open() {
    return s3_store(far, clock,
                    {"http://nas.home:9000", "us-east-1", "state", "key", Secret{"secret"}, {}},
                    "blue.json");
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const auto& [key, body] : far.objects) all.push_back(key);
    return all;
  }
  test::MemoryS3 far;
  VirtualClock clock;
};

TEST_F(S3Store, KeepsAStateAJournalAndALock) {
  const auto store = open();
  auto lock = store->lock(run("a"));
  store->load();
  store->replace(fresh());
  store->append(std::vector{note("k", "1")});
  store->append(std::vector{note("k", "2")});
  EXPECT_THAT(keys(), ElementsAre("blue.json", "blue.json.journal/0000000000000001-000001",
                                  "blue.json.journal/0000000000000001-000002", "blue.json.lock"));
  EXPECT_THAT(far.objects.at("blue.json.lock"), HasSubstr("a@machine"));
  store->replace(*store->load());
  EXPECT_THAT(keys(), ElementsAre("blue.json", "blue.json.lock"));
  lock.reset();
  EXPECT_EQ(far.objects.at("blue.json.lock"), "{}\n");
}

TEST_F(S3Store, RefusesAServerThatIgnoresConditions) {
  far.ignores_conditions = true;
  const auto store = open();
  const Error error = error_of([&] { store->lock(run("a")); });
  EXPECT_EQ(error.fault(), Fault::Usage);
  EXPECT_THAT(error.message(), HasSubstr("ignores conditions"));
}

TEST_F(S3Store, PiecesOfAnOlderStateThatStayedBehindAreNotAppliedAndGoWithTheNext) {
  const auto store = open();
  const auto lock = store->lock(run("a"));
  store->replace(fresh());
  store->append(std::vector{note("k", "old")});
  const std::string piece = far.objects.at("blue.json.journal/0000000000000001-000001");
  store->replace(fresh());
  far.objects["blue.json.journal/0000000000000001-000001"] = piece;
  EXPECT_TRUE(open()->load()->notes.empty());
  store->append(std::vector{note("k", "new")});
  EXPECT_EQ(open()->load()->notes.at("k"), "new");
  store->replace(fresh());
  EXPECT_THAT(keys(), ElementsAre("blue.json", "blue.json.lock"));
}

TEST_F(S3Store, AnAppendIsTwoRequests) {
  const auto store = open();
  const auto lock = store->lock(run("a"));
  store->replace(fresh());
  far.seen.clear();
  store->append(std::vector{note("a", "1"), note("b", "2")});
  EXPECT_THAT(far.seen, ElementsAre("HEAD /state/blue.json",
                                    "PUT /state/blue.json.journal/0000000000000001-000001"));
}

TEST_F(S3Store, AJournalOfManySmallPiecesIsFolded) {
  const auto store = open();
  const auto lock = store->lock(run("a"));
  store->replace(fresh());
  std::size_t most = 0;
  for (int i = 0; i < 450; ++i) {
    store->append(std::vector{note("k", std::to_string(i))});
    most = std::max(most, far.objects.size());
  }
  EXPECT_LE(most, 202u);
  EXPECT_GT(most, 100u) << "folded too often";
  EXPECT_EQ(open()->load()->notes.at("k"), "449");
  EXPECT_EQ(open()->load()->serial, 451u);
}

TEST_F(S3Store, SaysWhichBucketIsMissing) {
  const auto store = s3_store(
      far, clock, {"http://nas.home:9000", "us-east-1", "other", "key", Secret{"secret"}, {}}, "b");
  const Error error = error_of([&] { store->load(); });
  EXPECT_EQ(error.fault(), Fault::NotFound);
  EXPECT_THAT(error.message(), HasSubstr("NoSuchBucket"));
}

class KubernetesStore : public testing::Test {
 protected:
  std::unique_ptr<state::Store> open() {
    kube::Access access;
    access.server = "https://10.0.0.20:6443";
    return kubernetes_store(far, files, clock, access, "rocca", "blue");
  }
  const text::Value& secret() {
    return far.objects.at("/api/v1/namespaces/rocca/secrets/blue-rocca-state");
  }
  const text::Value& lease() {
    return far.objects.at("/apis/coordination.k8s.io/v1/namespaces/rocca/leases/blue-rocca-state");
  }
  test::MemoryKube far;
  MemoryFiles files;
  VirtualClock clock;
};

TEST_F(KubernetesStore, KeepsASecretAndALease) {
  const auto store = open();
  auto lock = store->lock(run("a"));
  store->load();
  store->replace(fresh());
  store->append(std::vector{note("k", "1")});
  EXPECT_EQ(secret().find("type")->text(), "rocca.dev/state");
  EXPECT_EQ(secret().find("data")->size(), 2u);
  EXPECT_TRUE(secret().find({"data", "journal.0000000000000001.000001"}));
  EXPECT_EQ(secret().find({"metadata", "labels", "rocca.dev/cluster"})->text(), "blue");
  EXPECT_EQ(lease().find({"spec", "holderIdentity"})->text(), "a");
  EXPECT_EQ(lease().find({"spec", "leaseDurationSeconds"})->as_int(), 60);
  EXPECT_EQ(lease().find({"metadata", "annotations", "rocca.dev/holder"})->text(), "a@machine");
  lock.reset();
  EXPECT_EQ(lease().find({"spec", "holderIdentity"})->text(), "");
  const auto next = open()->lock(run("b"));
  EXPECT_EQ(lease().find({"spec", "leaseTransitions"})->as_int(), 1);
}

TEST_F(KubernetesStore, ALeaseOfSomebodyElseIsRespected) {
  // As leader election of another program writes it.
  const auto mine = open()->lock(run("a"));
  text::Value& spec =
      *far.objects.at("/apis/coordination.k8s.io/v1/namespaces/rocca/leases/blue-rocca-state")
           .find("spec");
  spec.set("holderIdentity", text::Value::string("controller-7f"));
  const Error error = error_of([&] { open()->lock(run("b")); });
  EXPECT_EQ(error.fault(), Fault::Locked);
}

TEST_F(KubernetesStore, AnAppendIsOneSmallPatch) {
  const auto store = open();
  const auto lock = store->lock(run("a"));
  store->replace(fresh());
  far.seen.clear();
  store->append(std::vector{note("a", "1"), note("b", "2")});
  EXPECT_THAT(far.seen, ElementsAre("PATCH /api/v1/namespaces/rocca/secrets/blue-rocca-state"
                                    "?fieldManager=rocca"));
}

TEST_F(KubernetesStore, AStateThatDoesNotFitIsRefusedByName) {
  const auto store = open();
  const auto lock = store->lock(run("a"));
  State huge = fresh();
  SeededEntropy entropy{1};
  huge.notes["noise"] = to_base64(entropy.bytes(1'500'000));
  const Error error = error_of([&] { store->replace(huge); });
  EXPECT_EQ(error.fault(), Fault::Rejected);
  EXPECT_THAT(error.message(), HasSubstr("does not fit into a Secret"));
}

}  // namespace

}  // namespace rocca::backends
