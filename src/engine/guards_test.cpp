#include "engine/guards.hpp"

#include <gmock/gmock.h>

namespace rocca::engine {
namespace {

using testing::HasSubstr;

const Identity expected{"blue", "cp-1", derive_uuid("cluster-id", "cp-1")};

Shown vm(std::optional<Uuid> uuid, std::string family, std::string sku,
         std::string where = "VM 104") {
  return {std::move(where), uuid, std::move(family), std::move(sku)};
}

TEST(Identity, IsDerivedAndNeverShared) {
  EXPECT_EQ(derive_uuid("a", "b"), derive_uuid("a", "b"));
  EXPECT_NE(derive_uuid("a", "b"), derive_uuid("a", "c"));
  EXPECT_NE(derive_uuid("a", "b"), derive_uuid("c", "b"));
  EXPECT_EQ(derive_uuid("a", "b").version(), 5u);
}

// Every combination of a right, a wrong and an absent UUID with a right and a wrong mark.
TEST(Identity, OnlyUuidAndMarkTogetherProve) {
  const Uuid other = derive_uuid("cluster-id", "cp-2");
  for (const auto& uuid :
       {std::optional{expected.uuid}, std::optional{other}, std::optional<Uuid>{}})
    for (const std::string family : {"rocca", "", "other"})
      for (const std::string sku : {"blue/cp-1", "blue/cp-2", "green/cp-1", ""}) {
        const bool by_uuid = uuid == expected.uuid;
        const bool by_mark = family == "rocca" && sku == "blue/cp-1";
        const Proof proof = prove(vm(uuid, family, sku), expected);
        EXPECT_EQ(proof.ownership == Ownership::Ours, by_uuid && by_mark);
        EXPECT_EQ(proof.ownership == Ownership::Contradicts, by_uuid != by_mark);
        EXPECT_THAT(proof.reason, HasSubstr("VM 104"));
      }
}

// A VM that was taken over carries no mark. Every combination of UUID, id, family and mark: it is
// ours only by the UUID and the id together, and never against a mark.
TEST(Identity, AnAdoptedVmIsProvedByItsUuidAndItsId) {
  const Uuid its = *Uuid::parse("1cb0a0e6-6d38-4c83-8d21-8a0d7b5b1c11");
  const Identity adopted{"blue", "cp-1", its, 104};
  unsigned ours = 0;
  for (const auto& uuid : {std::optional{its}, std::optional{expected.uuid}, std::optional<Uuid>{}})
    for (const std::uint64_t vmid : {104u, 105u, 0u})
      for (const std::string family : {"rocca", "", "other"})
        for (const std::string sku : {"blue/cp-1", "blue/cp-2", "green/cp-1", ""}) {
          Shown shown = vm(uuid, family, sku);
          shown.vmid = vmid;
          const bool by_uuid = uuid == its;
          const bool by_mark = family == "rocca" && sku == "blue/cp-1";
          const bool against = family == "rocca" && sku != "blue/cp-1";
          const Proof proof = prove(shown, adopted);
          const bool is_ours = by_uuid && vmid == 104 && !against;
          ours += is_ours;
          EXPECT_EQ(proof.ownership == Ownership::Ours, is_ours);
          EXPECT_EQ(proof.ownership == Ownership::Foreign, !by_uuid && !by_mark)
              << "an id, a name or a tag alone says nothing";
          EXPECT_THAT(proof.reason, HasSubstr("VM 104"));
        }
  EXPECT_EQ(ours, 9u);
  Shown copy = vm(its, "", "", "VM 204 on bear");
  copy.vmid = 204;
  EXPECT_THAT(prove(copy, adopted).reason, HasSubstr("taken over as VM 104"));
}

std::vector<Member> members(std::size_t count, unsigned healthy_bits) {
  std::vector<Member> all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back({"cp-" + std::to_string(i), true, ((healthy_bits >> i) & 1U) != 0});
  return all;
}

// All clusters of one to five members, every pattern of health, every target: whatever is allowed
// keeps quorum.
TEST(Quorum, NothingAllowedEverLosesIt) {
  for (std::size_t count = 1; count <= 5; ++count)
    for (unsigned bits = 0; bits < (1U << count); ++bits)
      for (std::size_t target = 0; target < count; ++target) {
        const auto all = members(count, bits);
        const std::string node = all[target].node;
        std::size_t healthy_others = 0;
        for (std::size_t i = 0; i < count; ++i) healthy_others += i != target && all[i].healthy;
        const Verdict disturb = may_disturb(all, node, {});
        if (count > 1) {
          EXPECT_EQ(disturb.allowed, healthy_others == count - 1 && count >= 3)
              << count << " " << bits << " " << target;
          if (disturb.allowed) {
            EXPECT_GE(healthy_others, quorum_of(count));
          }
        } else {
          EXPECT_TRUE(disturb.allowed);
        }
        EXPECT_EQ(disturb.reason.empty(), disturb.allowed);
        const Verdict remove = may_remove(all, node);
        if (remove.allowed) {
          EXPECT_GE(healthy_others, quorum_of(count - 1));
          EXPECT_GE(healthy_others + (all[target].healthy ? 1 : 0), quorum_of(count));
        } else {
          const bool could = count > 1 && healthy_others >= quorum_of(count - 1) &&
                             healthy_others + (all[target].healthy ? 1 : 0) >= quorum_of(count);
          EXPECT_FALSE(could);
        }
      }
}

TEST(Quorum, OneAtATime) {
  const auto all = members(3, 0b111);
  EXPECT_TRUE(may_disturb(all, "cp-0", {}).allowed);
  const Verdict second = may_disturb(all, "cp-1", {"cp-0"});
  EXPECT_FALSE(second.allowed);
  EXPECT_THAT(second.reason, HasSubstr("one at a time"));
  EXPECT_TRUE(may_disturb(all, "cp-0", {"cp-0"}).allowed) << "it is its own turn";
  EXPECT_TRUE(may_disturb(all, "worker-1", {"cp-0"}).allowed)
      << "a worker disturbs nobody's quorum";
  EXPECT_TRUE(may_disturb(all, "cp-1", {"worker-1"}).allowed);
}

TEST(Quorum, SaysWhyTwoAreWorseThanOne) {
  EXPECT_THAT(may_disturb(members(2, 0b11), "cp-0", {}).reason,
              HasSubstr("Two control planes are worse than one"));
}

TEST(Quorum, ALearnerMayGo) {
  auto all = members(3, 0b111);
  all.push_back({"cp-new", false, false});
  EXPECT_TRUE(may_remove(all, "cp-new").allowed);
  EXPECT_FALSE(may_disturb(all, "cp-0", {}).allowed) << "somebody is not healthy";
}

// Every class against every set of allowed classes, with and without protection.
TEST(Effects, OnlyWhatWasAllowedRuns) {
  const std::vector<Effect> classes = {Effect::Live,       Effect::Service, Effect::Reboot,
                                       Effect::PowerCycle, Effect::Replace, Effect::DataLoss};
  for (unsigned bits = 0; bits < (1U << classes.size()); ++bits)
    for (const bool protect : {false, true}) {
      EffectPolicy policy;
      policy.allowed.clear();
      policy.protect = protect;
      for (std::size_t i = 0; i < classes.size(); ++i)
        if (((bits >> i) & 1U) != 0) policy.allowed.insert(classes[i]);
      for (std::size_t i = 0; i < classes.size(); ++i) {
        const bool guarded =
            protect && (classes[i] == Effect::Replace || classes[i] == Effect::DataLoss);
        const Verdict verdict = may_run(classes[i], policy);
        EXPECT_EQ(verdict.allowed, ((bits >> i) & 1U) != 0 && !guarded);
        if (!verdict.allowed && !guarded) {
          EXPECT_THAT(verdict.reason, HasSubstr(std::string("--allow ") + to_string(classes[i])));
        }
      }
      EXPECT_TRUE(may_run(Effect::None, policy).allowed);
    }
}

TEST(Effects, HaveNames) {
  EXPECT_EQ(parse_effect("power-cycle"), Effect::PowerCycle);
  EXPECT_EQ(parse_effect("none"), std::nullopt);
  EXPECT_EQ(parse_effect("whatever"), std::nullopt);
}

}  // namespace
}  // namespace rocca::engine
