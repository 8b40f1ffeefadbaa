// Doctor's table of rights against `up`, on the lab: for every feature of a spec and every right
// that is taken away, doctor calls it missing exactly if `up` cannot do without it.

#include "doctor/checkup.hpp"
#include "doctor/requirements.hpp"
#include "scenarios/engine_machines.hpp"

#include <set>

namespace rocca::scenarios {
namespace {

using Privileges = std::map<std::string, std::set<std::string>>;  // by path

struct Feature {
  const char* name;
  std::string spec;
  std::function<void(ClusterRig&)> prepare = [](ClusterRig&) {};
};

const std::string one_node =
    "  nodes:\n    cp-1: { role: controlplane, address: 10.0.1.11, machine: { vmid: 100 } }\n";

std::string with(const std::string& machine) {
  return replace_all(one_node, "vmid: 100", "vmid: 100, " + machine);
}

std::string quick(const std::string& spec) {
  return replace_all(spec, "  kubernetes:\n",
                     "  timeouts: { boot: 3m, bootstrap: 4m }\n  kubernetes:\n");
}

std::vector<Feature> features() {
  const std::string plain = static_spec(one_node);
  std::string dhcp = replace_all(plain,
                                 "addressing: static\n    subnet: 10.0.0.0/16\n    gateway: "
                                 "10.0.0.1\n    nameservers: [10.0.0.1]",
                                 "addressing: dhcp");
  dhcp = replace_all(replace_all(dhcp, "address: 10.0.1.11, ", ""), "endpoint: { vip: 10.0.1.10 }",
                     "endpoint: { vip: 10.0.1.10 }");
  return {
      {"Import", quick(plain)},
      {"Iso", quick(replace_all(plain, "extensions: [qemu-guest-agent]",
                                "extensions: [qemu-guest-agent], boot: iso"))},
      {"Template",
       quick(replace_all(plain, "extensions: [qemu-guest-agent]",
                         "extensions: [qemu-guest-agent], boot: { template: "
                         "talos-template }")),
       [](ClusterRig& rig) { make_template(rig); }},
      {"Dhcp", quick(dhcp)},
      {"Meta", quick(replace_all(plain, "addressing: static", "addressing: meta"))},
      {"NoAgent", quick(replace_all(static_spec(with("agent: false")),
                                    ", extensions: [qemu-guest-agent]", ""))},
      {"Pool", quick(static_spec(with("pool: talos"))),
       [](ClusterRig& rig) { rig.home.dc.access.pools["talos"]; }},
      {"SecondStorage",
       quick(static_spec(with("disks: { system: 20GiB, data: { size: 4GiB, storage: big } }")))},
      {"Device", quick(static_spec(with("pci: [{ mapping: gpu }]"))),
       [](ClusterRig& rig) {
         rig.home.dc.find_node("pve1")->pci = {{"0000:01:00.0", {"10de:2231", "10de:147e", 14}}};
         rig.home.dc.pci_mappings["gpu"].map = {
             "id=10de:2231,node=pve1,path=0000:01:00,iommugroup=14,subsystem-id=10de:147e"};
       }},
  };
}

class RightsOfUp : public testing::TestWithParam<std::tuple<std::size_t, bool>> {
 protected:
  static const Feature& feature() {
    static const std::vector<Feature> all = features();
    return all.at(std::get<0>(GetParam()));
  }

  static std::unique_ptr<ClusterRig> rig() {
    lab::Home::Options options;
    options.hosts = {"pve1"};
    options.storages["big"] = {"images"};
    options.release = std::get<1>(GetParam()) ? lab::pve::Release::v9() : lab::pve::Release::v8_4();
    auto made = std::make_unique<ClusterRig>(options);
    made->write_spec(feature().spec);
    feature().prepare(*made);
    return made;
  }

  static doctor::Wish wish(ClusterRig& rig) {
    doctor::Wish wish = doctor::wish_of(rig.files, rig.cluster().spec, {}, std::nullopt);
    wish.images.clear();  // how a factory is reached is another matter
    return wish;
  }

  static doctor::Checkup examine(ClusterRig& rig) {
    return doctor::examine(rig.wire, rig.home.world.clock(),
                           {{rig.home.endpoint()},
                            Secret{rig.home.token},
                            net::Tls::pinned(rig.home.first().fingerprint)},
                           wish(rig));
  }

  static void grant(ClusterRig& rig, const Privileges& privileges) {
    auto& access = rig.home.dc.access;
    for (auto& [path, principals] : access.acl) {
      principals.erase("rocca@pve");
      principals.erase("rocca@pve!lab");
    }
    for (const auto& [path, names] : privileges)
      for (const char* who : {"rocca@pve", "rocca@pve!lab"})
        access.grant(who, path, names, /*propagate=*/false);
  }

  /// What doctor's lines grant, on exactly the paths that Proxmox checks.
  static Privileges everything(ClusterRig& rig) {
    const doctor::Wish its = wish(rig);
    proxmox::Scope scope = its.scope;
    scope.version = std::get<1>(GetParam()) ? Version{9, 1, 0} : Version{8, 4, 0};
    for (const auto& [vmid, vm] : rig.home.dc.vms)
      if (const std::string* name = vm.find("name"); name != nullptr && *name == its.clone_of)
        scope.template_vmid = vmid;
    Privileges all;
    for (const auto* acts : {&its.acts, &its.later})
      for (const proxmox::Act act : *acts)
        for (const proxmox::Need& need : proxmox::needs(act, scope)) {
          std::set<std::string>& there = all[need.path];
          if (std::none_of(need.any_of.begin(), need.any_of.end(),
                           [&](const std::string& name) { return there.contains(name); }))
            there.insert(need.any_of.front());
        }
    return all;
  }

  struct Outcome {
    bool ok = false;
    std::string said;
  };
  static Outcome attempt(const std::function<engine::Report()>& body) {
    try {
      const engine::Report report = body();
      return {report.ok(), problems(report)};
    } catch (const Error& error) {
      return {false, error.render()};
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Lab, RightsOfUp,
                         testing::Combine(testing::Range<std::size_t>(0, features().size()),
                                          testing::Bool()),
                         [](const auto& row) {
                           return std::string(features().at(std::get<0>(row.param)).name) +
                                  (std::get<1>(row.param) ? "_9" : "_8_4");
                         });

TEST_P(RightsOfUp, AreThoseThatDoctorCallsMissingOneByOne) {
  auto first = rig();
  const Privileges whole = everything(*first);
  grant(*first, whole);
  const doctor::Checkup ready = examine(*first);
  EXPECT_TRUE(ready.healthy()) << render_text(ready, false);
  const Outcome plain = attempt([&] { return first->up(); });
  ASSERT_TRUE(plain.ok) << "with all that doctor asks for\n" << plain.said;

  std::size_t needed = 0, spared = 0;
  for (const auto& [path, names] : whole)
    for (const std::string& name : names) {
      SCOPED_TRACE(fmt::format("without {} on {}", name, path));
      Privileges fewer = whole;
      fewer[path].erase(name);

      // It was never there.
      auto before = rig();
      grant(*before, fewer);
      const doctor::Checkup checkup = examine(*before);
      const Outcome early = attempt([&] { return before->up(); });
      EXPECT_EQ(early.ok, checkup.healthy()) << render_text(checkup, false) << early.said;
      if (!early.ok) {
        EXPECT_THAT(early.said, testing::HasSubstr(name));
      }
      EXPECT_TRUE(early.ok || before->home.dc.vms.size() == first->home.dc.vms.size() - 1)
          << "something was created before the missing right was noticed";

      // It is taken away after the plan was checked: what Proxmox itself refuses.
      auto after = rig();
      grant(*after, whole);
      const auto run = after->run();
      run->at_once();
      static_cast<void>(run->plan());
      grant(*after, fewer);
      const Outcome late = attempt([&] { return run->up([](const engine::Event&) {}); });
      if (checkup.healthy()) {
        EXPECT_TRUE(late.ok) << "doctor does not call it missing\n" << late.said;
      }
      const bool only_seen = path.starts_with("/vms/") && name == "VM.Audit";
      if (!checkup.healthy() && !only_seen) {
        EXPECT_FALSE(late.ok) << "doctor calls it missing, and `up` does without it\n"
                              << render_text(checkup, false);
      }
      ++(checkup.healthy() ? spared : needed);
    }
  EXPECT_GE(needed, 10u);
  EXPECT_GE(spared, 3u);
  fmt::print("{}: {} rights needed, {} not\n", feature().name, needed, spared);
}

}  // namespace
}  // namespace rocca::scenarios
