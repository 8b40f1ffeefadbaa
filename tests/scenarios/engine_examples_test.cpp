// Every example is raised in the lab, on hosts of its own names, and the second plan is empty: on
// Proxmox VE 8.4 and on 9.

#include "scenarios/engine_machines.hpp"
#include "support/golden.hpp"

#include <filesystem>
#include <tuple>

namespace rocca::scenarios {
namespace {

using testing::Combine;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;
using testing::Values;
using testing::ValuesIn;

const std::vector<std::string> in_vms = {"blue",
                                         "dhcp",
                                         "longhorn",
                                         "meta",
                                         "multi-host",
                                         "single-node",
                                         "static",
                                         "tailscale",
                                         "two-clusters/clusters/blue/cluster",
                                         "two-clusters/clusters/green/cluster"};

std::string example(const std::string& name) {
  RealFiles real;
  return real.get(fmt::format("{}/examples/{}.yaml", test::source_folder(), name));
}

lab::pve::Release release_of(const std::string& name) {
  return name == "9" ? lab::pve::Release::v9() : lab::pve::Release::v8_4();
}

std::string name_of(const std::string& text) {
  std::string name;
  for (const char c : text) name += c == '-' || c == '/' || c == '.' ? '_' : c;
  return name;
}

class EngineExample : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(EngineExample, IsRaisedAndThenLeftAlone) {
  const auto& [name, release] = GetParam();
  std::string text = example(name);
  // The lab's hosts share another storage than the example's.
  text = replace_all(text, "{ images: nfs, disks: ceph }", "{ images: shared, disks: local-lvm }");
  const std::string base = example("two-clusters/base");
  MemoryFiles files;
  files.make_folder("/clusters/blue");
  files.write("/base.yaml", base);
  files.write("/clusters/blue/cluster.yaml", text);
  const spec::Loaded loaded = spec::load(files, "/clusters/blue/cluster.yaml");
  ASSERT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  lab::Home::Options options;
  options.release = release_of(release);
  options.hosts.clear();
  for (const auto& host : loaded.spec.proxmox->hosts) options.hosts.push_back(*host);
  ClusterRig rig{options};
  rig.home.factory.versions.push_back("v" + to_string(*loaded.spec.talos.version));
  rig.home.dc.access.pools["talos"];
  for (const std::string& host : options.hosts)
    rig.home.dc.pci_mappings["gpu"].map.push_back("id=10de:2231,iommugroup=14,node=" + host +
                                                  ",path=0000:01:00,subsystem-id=10de:147e");
  for (const char* who : {"rocca@pve", "rocca@pve!lab"})
    rig.home.dc.access.acl["/mapping/pci/gpu"][who]["PVEMappingUser"] = true;
  rig.files.write("/base.yaml", base);
  rig.write_spec(text);
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  rig.write_spec(replace_all(text, "protect: true", "protect: false"));
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Of, EngineExample, Combine(ValuesIn(in_vms), Values("8.4", "9")),
                         [](const auto& one) {
                           return name_of(std::get<0>(one.param)) + "_on_" +
                                  name_of(std::get<1>(one.param));
                         });

TEST(EngineCards, OneThatIsNoPciExpressDeviceComesUpOnTheOldChipset) {
  ClusterRig rig;
  rig.home.dc.pci_mappings["gpu"].map.push_back(
      "id=10de:2231,iommugroup=14,node=pve1,path=0000:01:00,subsystem-id=10de:147e");
  for (const char* who : {"rocca@pve", "rocca@pve!lab"})
    rig.home.dc.access.acl["/mapping/pci/gpu"][who]["PVEMappingUser"] = true;
  rig.write_spec(static_spec(R"(  nodes:
    cp-1:
      role: controlplane
      address: 10.0.1.11
      machine: { chipset: i440fx, pci: [ { mapping: gpu, pcie: false } ] }
)"));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(*rig.home.dc.vms.begin()->second.find("hostpci0"), "mapping=gpu");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

/// Somebody's machine with what the example knows of it.
void make_metal(ClusterRig& rig, unsigned vmid, const std::string& address, const std::string& uuid,
                const std::string& serial) {
  test::Administrator client = root(rig);
  fetch_image(rig, client, "metal.qcow2", "v1.13.9", "customization: {}\n");
  proxmox::VmCreate create;
  create.vmid = vmid;
  create.name = fmt::format("metal-{}", vmid);
  create.bios = "seabios";
  if (!uuid.empty()) {
    proxmox::Smbios smbios;
    smbios.uuid = *Uuid::parse(uuid);
    create.smbios = smbios;
  }
  proxmox::Drive disk;
  disk.storage = "local-lvm";
  disk.import_from = "local:import/metal.qcow2";
  disk.serial = serial;
  create.drives["scsi0"] = disk;
  proxmox::Drive drive;
  drive.storage = "local-lvm";
  drive.cloud_init = true;
  create.drives["ide2"] = drive;
  proxmox::Nic nic;
  nic.bridge = "vmbr0";
  create.nics = {nic};
  proxmox::IpConfig ip;
  ip.address = address + "/24";
  ip.gateway = "10.40.0.1";
  create.ip_configs = {ip};
  create.boot_order = {"scsi0"};
  wait_for(rig, client, std::get<proxmox::Upid>(client.start_create("pve1", create)));
  wait_for(rig, client, client.start_vm("pve1", vmid));
}

class EngineExampleOfMachines : public testing::TestWithParam<std::string> {};

TEST_P(EngineExampleOfMachines, AreRaisedAndThenLeftAlone) {
  lab::Home::Options options;
  options.release = release_of(GetParam());
  ClusterRig rig{options};
  rig.home.factory.versions.emplace_back("v1.13.9");
  make_metal(rig, 301, "10.40.0.11", "", "one");
  make_metal(rig, 302, "10.40.0.12", "4c4c4544-0042-4d10-8051-b3c04f4a3532", "two");
  make_metal(rig, 303, "10.40.0.13", "", "S3Z8NB0K123456");
  rig.home.world.run_for(std::chrono::minutes{2});
  rig.write_spec(example("existing"));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(On, EngineExampleOfMachines, Values("8.4", "9"),
                         [](const auto& one) { return name_of(one.param); });

/// An example that nobody raises might as well be wrong.
TEST(EngineExamples, AreAllRaised) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(test::source_folder()) / "examples";
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml" || entry.path().filename() == "base.yaml") continue;
    found.push_back(fs::relative(entry.path(), folder).replace_extension().string());
  }
  std::vector<std::string> raised = in_vms;
  raised.emplace_back("existing");
  EXPECT_THAT(found, UnorderedElementsAreArray(raised));
}

}  // namespace
}  // namespace rocca::scenarios
