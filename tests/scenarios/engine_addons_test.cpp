// Add-ons through a whole `up`: networks, manifests, what nodes must be prepared with, and tokens
// for those who ask Proxmox from inside the cluster.

#include "kube/client.hpp"
#include "lab/talos/node.hpp"
#include "scenarios/engine_machines.hpp"
#include "scenarios/handover_rig.hpp"
#include "text/json.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using lab::kube::condition_status;
using lab::kube::text_at;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* files_only = "    publish: [ { files: { folder: configs } } ]\n";
constexpr const char* cilium = "cni: { cilium: { version: 1.16.5 } }";

std::string now_of(HandoverRig& one) {
  return one.rig.files.get("/clusters/blue/cluster.yaml");
}

/// The spec with something in place of something else.
void change(HandoverRig& one, const std::string& what, const std::string& by) {
  const std::string text = now_of(one);
  ASSERT_THAT(text, HasSubstr(what));
  one.rig.write_spec(replace_all(text, what, by));
}

// ---- Cilium

TEST(EngineCilium, ComesByItsJobAndTheNodesAreReadyThen) {
  HandoverRig one;
  one.write(plain_flux, "", cilium);
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  for (const char* node : {"cp-1", "worker-1"})
    EXPECT_EQ(condition_status(*one.find("/nodes", "", node), "Ready"), "True") << node;
  const auto agents = one.find("apps/daemonsets", "kube-system", "cilium");
  ASSERT_TRUE(agents);
  EXPECT_EQ(text_at(*agents, {"status", "numberReady"}), "2");
  EXPECT_FALSE(one.find("apps/daemonsets", "kube-system", "kube-proxy"));
  EXPECT_THAT(one.plan(), IsEmpty());
  // Other values are another Job, and nothing else changes.
  change(one, "version: 1.16.5",
         "version: 1.16.5, values: { hubble: { relay: { enabled: true } } }");
  EXPECT_THAT(one.plan(), ElementsAre(HasSubstr("addon/cni")));
  ASSERT_TRUE(one.up().ok());
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EngineCilium, WhoseInstallerCannotBePulledIsNamedAndComesOnceItCan) {
  HandoverRig one;
  one.rig.home.estate.clusters().refused_images["alpine/helm"] = "not found";
  one.write(plain_flux, "", cilium);
  EXPECT_THAT(one.failure(),
              AllOf(HasSubstr("addon/cni"), HasSubstr("alpine/helm"), HasSubstr("not found")));
  one.rig.home.estate.clusters().refused_images.clear();
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
}

// ---- kube-vip

/// What whoever has the kubeconfig reaches at the address that it names.
std::size_t nodes_by_kubeconfig(HandoverRig& one) {
  kube::Client client{one.rig.wire, one.rig.files,
                      kube::load_kubeconfig(one.rig.files, "/clusters/blue/configs/kubeconfig")};
  return client.list("/api/v1/nodes").size();
}

TEST(EngineKubeVip, BringsTheAddressThatTheKubeconfigNames) {
  HandoverRig one;
  one.write(plain_flux);
  change(one, "{ vip: 10.0.1.10 }", "{ vip: 10.0.1.10, by: kube-vip }");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.rig.files.get("/clusters/blue/configs/kubeconfig"),
              HasSubstr("https://10.0.1.10:6443"));
  EXPECT_EQ(nodes_by_kubeconfig(one), 2u);
  EXPECT_THAT(one.plan(), IsEmpty());
}

constexpr const char* tailscale = "  tailscale: { authKey: { secret: tailscale.key } }\n";

void with_tailscale(HandoverRig& one) {
  change(one, "[qemu-guest-agent]", "[qemu-guest-agent, tailscale]");
}

TEST(EngineKubeVip, MayBeOnATailscaleInterface) {
  HandoverRig one;
  one.write(plain_flux, tailscale);
  with_tailscale(one);
  change(one, "{ vip: 10.0.1.10 }", "{ vip: 100.64.9.9, by: kube-vip, interface: tailscale0 }");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.rig.files.get("/clusters/blue/configs/kubeconfig"),
              HasSubstr("https://100.64.9.9:6443"));
  EXPECT_EQ(nodes_by_kubeconfig(one), 2u);
  const auto pods = one.find("apps/daemonsets", "kube-system", "kube-vip");
  EXPECT_THAT(text::emit_json(*pods),
              AllOf(HasSubstr("tailscale0"), HasSubstr("vip_allow_interface_not_up")));
  EXPECT_THAT(one.plan(), IsEmpty());
}

// ---- what nodes are prepared with

TEST(EnginePrepared, ANodeThatItsTailnetDoesNotLetInIsNamed) {
  HandoverRig one;
  auto& fleet = one.rig.home.estate.clusters().fleet();
  fleet.tailnet_open = false;
  one.write(files_only, tailscale);
  with_tailscale(one);
  EXPECT_THAT(one.failure(),
              AllOf(HasSubstr("prepared/worker-1"), HasSubstr("an address of 100.64.0.0/10"),
                    HasSubstr("auth key")));
  fleet.tailnet_open = true;
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
}

/// A spec that names its image by a schematic of its own: what is in it nobody knows before it
/// runs.
void with_schematic(HandoverRig& one, const std::string& extensions) {
  one.rig.files.write(
      "/clusters/blue/schematic.yaml",
      "customization:\n  systemExtensions:\n    officialExtensions: [" + extensions + "]\n");
  change(one, "extensions: [qemu-guest-agent]", "schematic: schematic.yaml");
}

TEST(EnginePrepared, AnImageWithoutTailscaleIsNamed) {
  HandoverRig one;
  one.write(files_only, tailscale);
  with_schematic(one, "siderolabs/qemu-guest-agent");
  EXPECT_THAT(one.failure(), HasSubstr("worker-1 lacks the extension tailscale"));
}

struct Missing {
  const char* name;
  const char* extensions;
  const char* told;
};

class LonghornImage : public testing::TestWithParam<Missing> {};

TEST_P(LonghornImage, WithoutAnExtensionIsNamed) {
  HandoverRig one;
  one.write(files_only, "  addons: { longhorn: true }\n");
  with_schematic(one, GetParam().extensions);
  const std::string told = one.failure();
  EXPECT_THAT(told, HasSubstr(fmt::format("worker-1 lacks {}\n", GetParam().told)));
}

INSTANTIATE_TEST_SUITE_P(
    Lacking, LonghornImage,
    testing::Values(Missing{"iscsi", "siderolabs/qemu-guest-agent, siderolabs/util-linux-tools",
                            "the extension iscsi-tools, for Longhorn"},
                    Missing{"tools", "siderolabs/qemu-guest-agent, siderolabs/iscsi-tools",
                            "the extension util-linux-tools, for Longhorn"}),
    [](const auto& each) { return each.param.name; });

void with_longhorn(HandoverRig& one, const std::string& more = "") {
  one.write(files_only, "  addons: { longhorn: true }\n");
  change(one, "extensions: [qemu-guest-agent]",
         "extensions: [qemu-guest-agent, iscsi-tools, util-linux-tools]" + more);
}

struct Service {
  const char* name;
  const char* id;
  bool longhorn;
};

class PreparedService : public testing::TestWithParam<Service> {};

TEST_P(PreparedService, ThatDoesNotRunIsNamedWithWhatItsNodeSaysOfIt) {
  const Service& service = GetParam();
  HandoverRig one;
  auto& fleet = one.rig.home.estate.clusters().fleet();
  const std::string why = fmt::format(
      "Error running Containerd({0}), going to restart forever: task \"{0}\" failed: exit code 1",
      service.id);
  fleet.failing_services[service.id] = why;
  if (service.longhorn) {
    with_longhorn(one);
  } else {
    one.write(files_only, tailscale);
    with_tailscale(one);
  }
  EXPECT_THAT(one.failure(), AllOf(HasSubstr("member/worker-1"),
                                   HasSubstr(fmt::format("services ({} not running)", service.id)),
                                   HasSubstr(fmt::format("{} is waiting: {}", service.id, why))));
  fleet.failing_services.clear();
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
  // One that comes back from a restart without it is found by the next plan.
  fleet.failing_services[service.id] = why;
  test::Administrator client = root(one.rig);
  for (const proxmox::VmRow& row : client.vms()) {
    if (row.name.find("worker-1") == std::string::npos) continue;
    wait_for(one.rig, client, client.start_stop("pve1", row.vmid));
    wait_for(one.rig, client, client.start_vm("pve1", row.vmid));
  }
  one.rig.home.world.run_for(5min);
  EXPECT_THAT(one.plan(), Contains(AllOf(HasSubstr("prepared/worker-1"),
                                         HasSubstr(service.id + std::string(" to run")),
                                         HasSubstr("(Waiting: " + why + ")"))));
}

INSTANTIATE_TEST_SUITE_P(Of, PreparedService,
                         testing::Values(Service{"Tailscale", "ext-tailscale", false},
                                         Service{"Longhorn", "ext-iscsid", true}),
                         [](const auto& each) { return each.param.name; });

TEST(EnginePrepared, AMountThatAPatchTakesAwayIsNamed) {
  HandoverRig one;
  with_longhorn(
      one,
      ", patches: { worker: [ { machine: { kubelet: { extraMounts: { $patch: delete } } } "
      "} ] }");
  EXPECT_THAT(one.failure(),
              HasSubstr("worker-1 lacks the kubelet's mount /var/lib/longhorn, for Longhorn"));
}

TEST(EnginePrepared, AModuleThatDoesNotLoadIsNamed) {
  HandoverRig one;
  auto& fleet = one.rig.home.estate.clusters().fleet();
  fleet.failing_modules.insert("nvme_tcp");
  with_longhorn(one, ", modules: [nvme_tcp]");
  EXPECT_THAT(one.failure(),
              AllOf(HasSubstr("prepared/worker-1"), HasSubstr("the kernel module nvme_tcp")));
  fleet.failing_modules.clear();
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EnginePrepared, AModuleThatDoesNotLoadIsNamedWithoutLonghornToo) {
  HandoverRig one;
  auto& fleet = one.rig.home.estate.clusters().fleet();
  fleet.failing_modules.insert("nvme_tcp");
  one.write(files_only);
  change(one, "extensions: [qemu-guest-agent]",
         "modules: [nvme_tcp], extensions: [qemu-guest-agent]");
  EXPECT_THAT(one.failure(),
              AllOf(HasSubstr("prepared/worker-1"), HasSubstr("the kernel module nvme_tcp")));
}

TEST(EnginePrepared, ADataDiskThatSomebodyTookAwayIsNamed) {
  HandoverRig one;
  with_longhorn(one);
  change(one, "machine: { memory: 8GiB, cores: 4 }",
         "machine: { memory: 8GiB, cores: 4, disks: { data: { size: 20GiB, use: longhorn } } }");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
  test::Administrator client = root(one.rig);
  const auto rows = client.vms();
  const auto worker = std::find_if(rows.begin(), rows.end(), [](const proxmox::VmRow& row) {
    return row.name.find("worker-1") != std::string::npos;
  });
  ASSERT_NE(worker, rows.end());
  proxmox::VmUpdate update;
  update.erase = {"scsi1"};
  wait_for(one.rig, client, *client.start_update("pve1", worker->vmid, update));
  wait_for(one.rig, client, client.start_stop("pve1", worker->vmid));
  wait_for(one.rig, client, client.start_vm("pve1", worker->vmid));
  one.rig.home.world.run_for(5min);
  EXPECT_THAT(one.plan(), Contains(AllOf(HasSubstr("prepared/worker-1"),
                                         HasSubstr("the disk data, for Longhorn"))));
}

// ---- other ways to a network, other places of manifests

TEST(EngineNetwork, NoneIsNotWaitedFor) {
  HandoverRig one;
  one.write(files_only, "", "cni: none");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  one.rig.home.world.run_for(2min);
  EXPECT_EQ(condition_status(*one.find("/nodes", "", "worker-1"), "Ready"), "False");
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EngineManifests, MayStandInTheSpecItself) {
  HandoverRig one;
  one.write(plain_flux, R"(  addons:
    manifests:
      - |
        apiVersion: v1
        kind: ConfigMap
        metadata: { name: hours, namespace: default }
        data: { open: "9-17" }
)");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(text_at(*one.find("/configmaps", "default", "hours"), {"data", "open"}), "9-17");
  EXPECT_THAT(one.plan(), IsEmpty());
  change(one, "9-17", "9-18");
  EXPECT_THAT(one.plan(), ElementsAre(HasSubstr("addon/manifests")));
  ASSERT_TRUE(one.up().ok());
  EXPECT_EQ(text_at(*one.find("/configmaps", "default", "hours"), {"data", "open"}), "9-18");
}

TEST(EngineVolumes, OfProxmoxCsiOutliveTheClusterAndAreListed) {
  HandoverRig one;
  one.secrets["proxmox.csi"] = one.rig.home.token;
  one.write(plain_flux, "  addons: { proxmoxCsi: { token: { secret: proxmox.csi } } }\n");
  ASSERT_TRUE(one.up().ok());
  lab::pve::Volume volume;
  volume.name = "vm-9999-pvc-1f2e";
  volume.content = "images";
  volume.format = "raw";
  volume.size = 1u << 30;
  volume.vmid = 9999;
  one.rig.home.dc.storages.at("local-lvm").on("pve1")[volume.name] = volume;
  const auto run = one.rig.run(one.options());
  const engine::Report report = run->down([](const engine::Event&) {});
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.rig.home.dc.vms, IsEmpty());
  EXPECT_THAT(run->loose_volumes(), ElementsAre("local-lvm:vm-9999-pvc-1f2e on pve1"));
}

// ---- tokens of their own

const char* minters = "RoccaMint";

void may_mint(HandoverRig& one) {
  auto& access = one.rig.home.dc.access;
  access.roles[minters] = {"Sys.Modify", "Realm.AllocateUser", "User.Modify", "Permissions.Modify"};
  for (const std::string who : {"rocca@pve", "rocca@pve!lab"})
    for (const char* path : {"/access", "/", "/vms", "/storage/local-lvm"})
      access.acl[path][who][minters] = true;
}

TEST(EngineTokens, AreMadeWithJustTheirRightsWhereRoccaMay) {
  HandoverRig one;
  may_mint(one);
  one.write(plain_flux, "  addons: { proxmoxCcm: true, proxmoxCsi: true }\n");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.secrets["proxmox.ccm"], testing::StartsWith("rocca-ccm@pve!blue="));
  EXPECT_THAT(one.secrets["proxmox.csi"], testing::StartsWith("rocca-csi@pve!blue="));
  EXPECT_THAT(one.data(one.find("/secrets", "csi-proxmox", "proxmox-csi-plugin"), "config.yaml"),
              HasSubstr("token_id: rocca-csi@pve!blue"));
  // Each may do what it needs, and no more.
  const auto& access = one.rig.home.dc.access;
  const auto may = [&](const char* who, const char* path) {
    std::vector<std::string> all;
    for (const auto& [privilege, propagate] : access.permissions(who, path))
      all.push_back(privilege);
    return all;
  };
  EXPECT_THAT(may("rocca-csi@pve!blue", "/vms/100"),
              AllOf(Contains("VM.Config.Disk"), Not(Contains("VM.Allocate"))));
  EXPECT_THAT(may("rocca-csi@pve!blue", "/storage/local"), IsEmpty());
  EXPECT_THAT(may("rocca-ccm@pve!blue", "/vms/100"), Not(Contains("VM.Config.Disk")));
  EXPECT_THAT(may("rocca-ccm@pve!blue", "/"), Contains("Sys.Audit"));
  EXPECT_THAT(may("rocca-ccm@pve!blue", "/nodes/pve1"), IsEmpty());
  const std::string first = one.secrets["proxmox.csi"];
  EXPECT_THAT(one.plan(), IsEmpty());
  ASSERT_TRUE(one.up().ok());
  EXPECT_EQ(one.secrets["proxmox.csi"], first) << "it was made again";
  // Nobody kept it (a run that was killed just then): it is made anew, and the plugin gets it.
  one.secrets.erase("proxmox.csi");
  ASSERT_TRUE(one.up().ok());
  EXPECT_NE(one.secrets["proxmox.csi"], first);
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EngineTokens, AreNotMadeWithoutTheRight) {
  HandoverRig one;
  one.write(plain_flux, "  addons: { proxmoxCsi: true }\n");
  EXPECT_THAT(one.failure(),
              AllOf(HasSubstr("addons.proxmoxCsi has no token"),
                    HasSubstr("User.Modify on /access/groups"), HasSubstr("rocca doctor")));
  EXPECT_FALSE(one.rig.home.dc.access.users.contains("rocca-csi@pve"));
  one.secrets["proxmox.csi"] = one.rig.home.token;
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
}

TEST(EngineTokens, OfAnotherClusterAreLeftAlone) {
  HandoverRig one;
  may_mint(one);
  auto& users = one.rig.home.dc.access.users;
  users["rocca-csi@pve"].tokens["blue"] = {"1-2-3", true, 0, "of somebody's blue"};
  one.write(plain_flux, "  addons: { proxmoxCsi: true }\n");
  EXPECT_THAT(one.failure(), HasSubstr("rocca-csi@pve!blue is there already, and not of this"));
  EXPECT_EQ(users["rocca-csi@pve"].tokens["blue"].comment, "of somebody's blue");
}

}  // namespace
}  // namespace rocca::scenarios
