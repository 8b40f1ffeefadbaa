#include "platform/vm_guard.hpp"

#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr proxmox::Vmid its_id = 104, other_id = 204;
const char* const its_nonce = "6a1c2f0e-9d1b-4d8c-9f6e-0f3a8d2b7c55";
const Uuid derived = engine::derive_uuid("cluster-id", "worker-1");
const Uuid adopted_uuid = *Uuid::parse("1cb0a0e6-6d38-4c83-8d21-8a0d7b5b1c11");
const Uuid random_uuid = *Uuid::parse("9d3e1a52-7c1f-4b0a-8a37-2f5d64c0e9b1");

enum class UuidIs { Ours, Other, Absent };
enum class Mark { None, Ours, OtherNode, OtherCluster, OtherFamily };
enum class Notes { None, Ours, Nonce, OtherNonce };
enum class Beside { Nothing, SameProof, SameUuid, SameMark, SameNonce };

/// One combination of everything that can be known of a VM and of the node it may be.
struct Case {
  UuidIs uuid;
  Mark mark;
  Notes notes;
  bool name, tags, at_its_id, is_template;
  bool adopted;    // by the lock
  bool journaled;  // the state holds the nonce of a clone
  Beside beside;   // what a second VM shows
};

SeenVm seen_vm(proxmox::Vmid vmid, std::optional<Uuid> uuid, std::string family, std::string sku,
               const std::string& notes) {
  SeenVm vm;
  vm.row.node = "atlas";
  vm.row.vmid = vmid;
  if (uuid || !family.empty() || !sku.empty()) {
    proxmox::Smbios smbios;
    smbios.uuid = uuid.value_or(random_uuid);
    smbios.family = std::move(family);
    smbios.sku = std::move(sku);
    vm.config.options["smbios1"] = smbios.print();
  }
  if (!notes.empty()) vm.config.options["description"] = notes;
  return vm;
}

std::string notes_text(Notes notes) {
  switch (notes) {
    case Notes::None:
      return "";
    case Notes::Ours:
      return "Worker worker-1 of the Talos cluster blue.\n\nrocca keeps this VM as its spec says. "
             "UUID " +
             to_string(derived);
    case Notes::Nonce:
      return clone_notes({"blue", "worker-1", derived}, its_nonce);
    case Notes::OtherNonce:
      return clone_notes({"blue", "worker-1", derived}, to_string(random_uuid));
  }
  return "";
}

ExpectedVm expected_of(const Case& one) {
  ExpectedVm expected{{"blue", "worker-1", derived}, its_id};
  if (one.adopted) expected.identity = {"blue", "worker-1", adopted_uuid, its_id};
  if (one.journaled) expected.nonce = its_nonce;
  return expected;
}

SeenVm subject_of(const Case& one) {
  const Uuid ours = one.adopted ? adopted_uuid : derived;
  std::optional<Uuid> uuid;
  if (one.uuid == UuidIs::Ours) uuid = ours;
  if (one.uuid == UuidIs::Other) uuid = random_uuid;
  std::string family, sku;
  if (one.mark != Mark::None) family = one.mark == Mark::OtherFamily ? "acme" : "rocca";
  if (one.mark == Mark::Ours || one.mark == Mark::OtherFamily) sku = "blue/worker-1";
  if (one.mark == Mark::OtherNode) sku = "blue/worker-2";
  if (one.mark == Mark::OtherCluster) sku = "green/worker-1";
  SeenVm vm = seen_vm(one.at_its_id ? its_id : other_id, uuid, family, sku, notes_text(one.notes));
  vm.row.name = one.name ? "blue-worker-1" : "db-1";
  vm.config.options["name"] = vm.row.name;
  if (one.tags) vm.row.tags = {"blue", "rocca"};
  vm.row.is_template = one.is_template;
  return vm;
}

std::vector<SeenVm> seen_of(const Case& one) {
  const Uuid ours = one.adopted ? adopted_uuid : derived;
  std::vector<SeenVm> seen{subject_of(one)};
  switch (one.beside) {
    case Beside::Nothing:
      break;
    case Beside::SameProof:
      seen.push_back(one.adopted ? seen_vm(304, ours, "", "", "")
                                 : seen_vm(304, ours, "rocca", "blue/worker-1", ""));
      break;
    case Beside::SameUuid:
      seen.push_back(seen_vm(304, ours, "", "", ""));
      break;
    case Beside::SameMark:
      seen.push_back(seen_vm(304, random_uuid, "rocca", "blue/worker-1", ""));
      break;
    case Beside::SameNonce:
      seen.push_back(seen_vm(304, random_uuid, "", "", notes_text(Notes::Nonce)));
      break;
  }
  return seen;
}

/// The rule, written a second time as a sentence over the case.
VmStanding rule(const Case& one) {
  const bool uuid = one.uuid == UuidIs::Ours;
  const bool mark = one.mark == Mark::Ours;
  const bool proved = one.adopted
                          ? uuid && one.at_its_id &&
                                (mark || one.mark == Mark::None || one.mark == Mark::OtherFamily)
                          : uuid && mark;
  const bool same_proof =
      one.beside == Beside::SameProof || (one.adopted && one.beside == Beside::SameUuid);
  if (one.adopted && uuid && same_proof) return VmStanding::Twin;
  if (proved) return same_proof ? VmStanding::Twin : VmStanding::Ours;
  if (uuid) return VmStanding::HasUuid;
  if (mark) return VmStanding::HasMark;
  const bool nonce = one.journaled && one.notes == Notes::Nonce;
  if (nonce && one.beside == Beside::SameNonce) return VmStanding::Twin;
  const bool fresh = nonce && !one.adopted && one.at_its_id && !one.is_template &&
                     one.mark == Mark::None && one.beside != Beside::SameProof;
  return fresh ? VmStanding::OurClone : VmStanding::Foreign;
}

template <class Body>
std::size_t every_case(Body&& body) {
  std::size_t count = 0;
  for (const UuidIs uuid : {UuidIs::Ours, UuidIs::Other, UuidIs::Absent})
    for (const Mark mark :
         {Mark::None, Mark::Ours, Mark::OtherNode, Mark::OtherCluster, Mark::OtherFamily})
      for (const Notes notes : {Notes::None, Notes::Ours, Notes::Nonce, Notes::OtherNonce})
        for (const Beside beside : {Beside::Nothing, Beside::SameProof, Beside::SameUuid,
                                    Beside::SameMark, Beside::SameNonce})
          for (unsigned bits = 0; bits < 64; ++bits) {
            const auto bit = [&](unsigned index) { return ((bits >> index) & 1u) != 0; };
            // smbios1 always has a UUID once it has a mark.
            if (uuid == UuidIs::Absent && mark != Mark::None) continue;
            body(Case{uuid, mark, notes, bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), beside});
            ++count;
          }
  return count;
}

std::string print(const Case& one) {
  return testing::PrintToString(
      std::vector<int>{static_cast<int>(one.uuid), static_cast<int>(one.mark),
                       static_cast<int>(one.notes), one.name, one.tags, one.at_its_id,
                       one.is_template, one.adopted, one.journaled, static_cast<int>(one.beside)});
}

TEST(VmGuard, DecidesEveryCombinationByTheRule) {
  std::map<VmStanding, std::size_t> reached;
  const std::size_t cases = every_case([&](const Case& one) {
    const std::vector<SeenVm> seen = seen_of(one);
    const std::vector<VmVerdict> verdicts = VmGuard::judge(seen, expected_of(one));
    ASSERT_THAT(verdicts, SizeIs(seen.size()));
    const VmVerdict& verdict = verdicts.front();
    EXPECT_EQ(verdict.standing, rule(one)) << print(one) << to_string(verdict.standing);
    EXPECT_THAT(verdict.reason, HasSubstr(std::to_string(seen.front().row.vmid))) << print(one);
    ++reached[verdict.standing];
  });
  EXPECT_EQ(cases, 14080u);
  EXPECT_THAT(reached, SizeIs(6)) << "every standing is reached";
}

TEST(VmGuard, OnlyWhatIsProvedCanBeTouched) {
  every_case([](const Case& one) {
    const std::vector<SeenVm> seen = seen_of(one);
    const ExpectedVm expected = expected_of(one);
    const std::vector<VmVerdict> verdicts = VmGuard::judge(seen, expected);
    std::size_t touchable = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const VmVerdict& verdict = verdicts[i];
      const bool may = verdict.vm.has_value();
      touchable += may;
      EXPECT_EQ(may,
                verdict.standing == VmStanding::Ours || verdict.standing == VmStanding::OurClone);
      if (!may) continue;
      EXPECT_EQ(verdict.vm->vmid(), seen[i].row.vmid);
      EXPECT_EQ(verdict.vm->node(), seen[i].row.node);
      const bool by_uuid = seen[i].config.uuid() == expected.identity.uuid;
      const bool by_mark = seen[i].config.smbios("family") == "rocca" &&
                           seen[i].config.smbios("sku") == "blue/worker-1";
      const bool by_nonce =
          !expected.nonce.empty() &&
          seen[i].config.value_or("description", "").find(expected.nonce) != std::string::npos;
      EXPECT_TRUE((by_uuid && (by_mark || one.adopted)) || by_nonce) << print(one);
    }
    EXPECT_LE(touchable, 1u) << "one node, one VM: " << print(one);
  });
}

/// A change of this one property never changes a verdict.
template <class Flip>
void never_matters(const char* what, Flip&& flip) {
  every_case([&](const Case& one) {
    Case other = one;
    if (!flip(other)) return;
    EXPECT_EQ(VmGuard::judge(seen_of(one), expected_of(one)).front().standing,
              VmGuard::judge(seen_of(other), expected_of(other)).front().standing)
        << what << " " << print(one);
  });
}

TEST(VmGuard, NamesAndTagsNeverMatter) {
  never_matters("name", [](Case& one) { return one.name = !one.name, true; });
  never_matters("tags", [](Case& one) { return one.tags = !one.tags, true; });
}

TEST(VmGuard, NotesNeverMatterWithoutTheJournaledNonce) {
  for (const Notes notes : {Notes::None, Notes::Ours, Notes::OtherNonce})
    never_matters("notes", [&](Case& one) {
      if (one.journaled && one.notes == Notes::Nonce) return false;
      one.notes = notes;
      return true;
    });
  never_matters("notes with a lost state", [](Case& one) {
    if (one.journaled) return false;
    one.notes = Notes::Nonce;
    return true;
  });
}

TEST(VmGuard, AnIdNeverMakesAVmOurs) {
  never_matters("id", [](Case& one) {
    // An adopted VM and an unmarked clone need their proof at the right id: there it only refuses.
    if (one.adopted || (one.journaled && one.notes == Notes::Nonce)) return false;
    one.at_its_id = !one.at_its_id;
    return true;
  });
  every_case([](const Case& one) {
    if (one.at_its_id) return;
    Case there = one;
    there.at_its_id = true;
    if (one.uuid == UuidIs::Ours || (one.journaled && one.notes == Notes::Nonce)) return;
    EXPECT_FALSE(VmGuard::judge(seen_of(there), expected_of(there)).front().vm) << print(there);
  });
}

TEST(VmGuard, AContainerIsNeverOurs) {
  every_case([](const Case& one) {
    std::vector<SeenVm> seen = seen_of(one);
    seen.front().row.is_container = true;
    EXPECT_FALSE(VmGuard::judge(seen, expected_of(one)).front().vm) << print(one);
  });
}

TEST(VmGuard, TwinsAreAllNamed) {
  const SeenVm one = seen_vm(104, derived, "rocca", "blue/worker-1", "");
  const SeenVm two = seen_vm(204, derived, "rocca", "blue/worker-1", "");
  const ExpectedVm expected{{"blue", "worker-1", derived}, its_id};
  for (const VmVerdict& verdict : VmGuard::judge({one, two}, expected)) {
    EXPECT_EQ(verdict.standing, VmStanding::Twin);
    EXPECT_THAT(verdict.reason, testing::AllOf(HasSubstr("VM 104 on atlas"),
                                               HasSubstr("VM 204 on atlas"), HasSubstr("Neither")));
  }
}

TEST(VmGuard, AClaimIsRefusedUnlessTheVmIsFree) {
  const std::vector<engine::Identity> others{{"blue", "worker-2", random_uuid}};
  every_case([&](const Case& one) {
    const std::vector<SeenVm> seen = seen_of(one);
    const ExpectedVm expected = expected_of(one);
    const VmGuard::Claim claim = VmGuard::may_claim(seen, 0, expected, others);
    const bool twin = one.beside == Beside::SameProof || one.beside == Beside::SameUuid;
    const bool other_mark = one.mark == Mark::OtherNode || one.mark == Mark::OtherCluster;
    const bool ours = one.uuid == UuidIs::Ours && one.mark == Mark::Ours;
    const bool refused = one.is_template || one.adopted || twin || other_mark ||
                         (one.uuid == UuidIs::Other);  // it is worker-2's
    EXPECT_EQ(!claim.refusal.empty(), refused) << print(one) << claim.refusal;
    EXPECT_EQ(claim.vm.has_value(), !refused && !ours) << print(one);
    EXPECT_EQ(claim.ours, !refused && ours) << print(one);
  });
}

}  // namespace
}  // namespace rocca::resources
