// A cluster that Terraform has raised, taken over as it runs: its first plan is empty, and from
// then on it lives like any other.

#include "scenarios/terraform_rig.hpp"
#include "support/golden.hpp"

namespace rocca::scenarios {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

const std::vector<TerraformNode> three_nodes = {
    {310, "blue-cp-1", "10.0.1.11", true},
    {311, "blue-worker-1", "10.0.1.21"},
    {312, "blue-worker-2", "10.0.1.22"},
};

std::vector<std::string> changed(const engine::Plan& plan) {
  std::vector<std::string> all;
  for (const engine::Planned& step : plan.steps)
    all.push_back(engine::sign_of(step.change.action) + step.address);
  return all;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << from << " is not in\n" << text;
    return text;
  }
  return text.replace(at, from.size(), to);
}

class Adopted : public testing::Test {
 protected:
  void take_over(std::vector<TerraformNode> nodes = three_nodes) {
    tf.raise(std::move(nodes));
    before = identities(tf.rig);
    described = tf.adopt(tf.state());
  }
  void settle() {
    const engine::Report report = tf.rig.up();
    ASSERT_TRUE(report.ok()) << problems(report);
    ASSERT_THAT(differences(tf.rig.plan()), IsEmpty());
  }
  void add_a_worker() {
    std::string spec = with(described.spec, "count: 2", "count: 3");
    spec = with(spec, "10.0.1.21-10.0.1.22", "10.0.1.21-10.0.1.23");
    tf.rig.write_spec(spec);
    EXPECT_THAT(changed(tf.rig.plan()),
                UnorderedElementsAre(HasSubstr("+image/"), "+vm/worker-3", "+machine/worker-3",
                                     "+member/worker-3"));
    settle();
    for (const std::string& line : before) EXPECT_THAT(identities(tf.rig), Contains(line));
    EXPECT_EQ(tf.rig.home.dc.vms.size(), 4u);
  }
  TerraformRig tf;
  std::vector<std::string> before;
  adopt::Description described;
};

TEST_F(Adopted, ItsFirstPlanIsEmptyAndItsSpecIsReadable) {
  take_over();
  test::expect_golden("adopt/static.yaml", described.spec);
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  EXPECT_THAT(described.secrets, IsEmpty());
  settle();
  EXPECT_EQ(identities(tf.rig), before) << "nothing was touched";
  EXPECT_EQ(tf.rig.home.estate.bootstraps().size(), 1u);
}

TEST_F(Adopted, AWorkerMoreTouchesNothingElse) {
  take_over();
  settle();
  add_a_worker();
  // The one that is ours carries our mark; the others stay as they came.
  unsigned marked = 0;
  for (const auto& [vmid, vm] : tf.rig.home.dc.vms)
    if (const std::string* smbios = vm.find("smbios1"))
      marked += smbios->find("family=") != std::string::npos;
  EXPECT_EQ(marked, 1u);
}

TEST_F(Adopted, OfTelmateItsWholeLife) {
  tf.telmate = true;
  tf.controller = "virtio-scsi-pci";
  take_over();
  EXPECT_THAT(described.spec, AllOf(HasSubstr("count: 2"), HasSubstr("10.0.1.21-10.0.1.22")));
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  settle();
  EXPECT_EQ(identities(tf.rig), before) << "nothing was touched";
  // One worker more, and nothing else.
  add_a_worker();
  EXPECT_TRUE(tf.rig.run()->status().healthy);
  const engine::Report report = tf.rig.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_TRUE(tf.rig.home.dc.vms.empty());
}

TEST_F(Adopted, WhatNoSpecCanSayIsLeftAsItIs) {
  tf.telmate = true;
  tf.controller = "megasas";
  take_over();
  const adopt::FirstPlan first = adopt::judge(tf.rig.plan());
  EXPECT_THAT(first.differs, IsEmpty());
  ASSERT_EQ(first.leave.size(), 3u);
  EXPECT_EQ(first.leave.front().field, "scsihw");
  EXPECT_EQ(first.leave.front().found, "megasas");
  state::State state;
  state.cluster = "blue";
  state.cluster_id = tf.rig.bundle->cluster_id;
  SeededEntropy entropy{1};
  adopt::remember(tf.rig.files, tf.rig.home.world.clock(), entropy, "/clusters/blue/.rocca", state,
                  first.leave);
  tf.rig.store.reset();
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  settle();
  EXPECT_EQ(identities(tf.rig), before) << "nothing was touched";
  EXPECT_EQ(tf.option(310, "scsihw"), "megasas");
}

TEST_F(Adopted, DownTakesExactlyItsVms) {
  take_over();
  settle();
  test::Administrator client = client_with(tf.rig, tf.rig.home.root_token);
  proxmox::VmCreate other;
  other.vmid = 900;
  other.name = "blue-worker-9";
  other.bios = "seabios";
  other.tags = {"k8s", "talos", "terraform"};
  const auto answer = client.start_create("pve1", other);
  while (client.find_task(std::get<proxmox::Upid>(answer))->running)
    tf.rig.home.world.run_for(std::chrono::seconds{1});
  const engine::Report report = tf.rig.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  ASSERT_EQ(tf.rig.home.dc.vms.size(), 1u);
  EXPECT_TRUE(tf.rig.home.dc.vms.contains(900));
  // What comes up next with these names is our own.
  const auto lock = spec::find_lock(tf.rig.files, "/clusters/blue");
  for (const auto& [name, node] : lock->nodes) EXPECT_FALSE(node.uuid) << name;
}

TEST_F(Adopted, AForeignVmAtItsIdIsNeverTouched) {
  take_over();
  settle();
  // Somebody destroys worker-2, and the id goes to another VM of the same name.
  test::Administrator client = client_with(tf.rig, tf.rig.home.root_token);
  const auto finish = [&](const proxmox::Upid& upid) {
    while (client.find_task(upid)->running) tf.rig.home.world.run_for(std::chrono::seconds{1});
  };
  finish(client.start_stop("pve1", 312));
  finish(client.start_destroy("pve1", 312, true));
  EXPECT_THAT(refused([&] { tf.rig.up(); }), HasSubstr("VM 312, which was taken over as worker-2"));
  proxmox::VmCreate other;
  other.vmid = 312;
  other.name = "blue-worker-2";
  other.bios = "seabios";
  finish(std::get<proxmox::Upid>(client.start_create("pve1", other)));
  tf.rig.home.world.run_for(std::chrono::seconds{20});
  EXPECT_THAT(refused([&] { tf.rig.up(); }), HasSubstr("is taken by VM 312"));
  EXPECT_TRUE(tf.rig.down().ok());
  ASSERT_EQ(tf.rig.home.dc.vms.size(), 1u);
  EXPECT_TRUE(tf.rig.home.dc.vms.contains(312));
}

TEST_F(Adopted, AWorkerThatLeavesTheSpecGoes) {
  take_over();
  settle();
  std::string spec = with(described.spec, "count: 2", "count: 1");
  tf.rig.write_spec(spec);
  const engine::Report report = tf.rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_FALSE(tf.rig.home.dc.vms.contains(312));
  EXPECT_EQ(tf.rig.home.dc.vms.size(), 2u);
  EXPECT_FALSE(spec::find_lock(tf.rig.files, "/clusters/blue")->nodes.at("worker-2").uuid);
  EXPECT_TRUE(spec::find_lock(tf.rig.files, "/clusters/blue")->nodes.at("worker-1").uuid);
}

TEST_F(Adopted, LosingStateOrLockLosesNoVm) {
  take_over();
  settle();
  tf.rig.lose_state();
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  settle();
  tf.rig.files.remove("/clusters/blue/rocca.lock");
  EXPECT_THAT(differences(tf.rig.plan()), IsEmpty()) << "the state knows them, too";
  settle();
  EXPECT_EQ(identities(tf.rig), before);
}

TEST_F(Adopted, DriftIsSeenAndPutRight) {
  take_over();
  settle();
  test::Administrator client = client_with(tf.rig, tf.rig.home.root_token);
  proxmox::VmUpdate update;
  update.set["onboot"] = "0";
  client.update("pve1", 311, update);
  const auto drift = tf.rig.run()->drift();
  ASSERT_EQ(drift.size(), 1u);
  EXPECT_EQ(drift.front().field, "onboot");
  settle();
  EXPECT_EQ(tf.option(311, "onboot"), "1");
}

TEST_F(Adopted, StatusShowsIt) {
  take_over();
  settle();
  const resources::ClusterStatus status = tf.rig.run()->status();
  EXPECT_TRUE(status.healthy);
  EXPECT_EQ(status.nodes.size(), 3u);
}

TEST_F(Adopted, WithDhcpItIsFoundAgain) {
  tf.endpoint = "https://k8s.home:6443";
  take_over({{310, "cp", "", true}, {311, "worker-a", ""}});
  EXPECT_THAT(described.spec, AllOf(HasSubstr("addressing: dhcp"), HasSubstr("host: k8s.home"),
                                    HasSubstr("worker-a:"), Not(HasSubstr("pools:"))));
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  settle();
  EXPECT_EQ(identities(tf.rig), before);
}

// A load balancer, or an address that the control planes share, on another port than 6443.
TEST_F(Adopted, ThePortOfItsApiIsKept) {
  for (const char* vip : {"", "10.0.1.200"}) {
    TerraformRig other;
    other.vip = vip;
    other.endpoint = "https://10.0.1.200:8443";
    other.raise({{310, "blue-cp-1", "10.0.1.11", true}, {311, "blue-worker-1", "10.0.1.21"}});
    const adopt::Description taken = other.adopt(other.state());
    EXPECT_THAT(taken.spec, HasSubstr("endpoint: {host: 10.0.1.200, port: 8443}"));
    EXPECT_THAT(other.first_plan(), IsEmpty());
    const engine::Report report = other.rig.up();
    ASSERT_TRUE(report.ok()) << problems(report);
    EXPECT_THAT(other.rig.files.get("/clusters/blue/configs/kubeconfig"),
                HasSubstr("server: https://10.0.1.200:8443\n"));
  }
}

TEST_F(Adopted, DisksOnAnotherBusAreManagedWhereTheyAre) {
  take_over({{310, "blue-cp-1", "10.0.1.11", true, "virtio0"}});
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  settle();
  tf.rig.write_spec(with(described.spec, "size: 10GiB", "size: 12GiB"));
  settle();
  EXPECT_THAT(tf.option(310, "virtio0"), HasSubstr("size=12G"));
  EXPECT_EQ(tf.option(310, "scsi0"), "");
}

TEST_F(Adopted, SecretsOfPatchesAreNotWrittenInClear) {
  tf.patch_of_all =
      "machine: { registries: { config: { r.home: { auth: { username: u, password: hunter22 } } } "
      "} "
      "}\n"
      // As Terraform's yamlencode writes a manifest.
      "cluster:\n  inlineManifests:\n  - name: db\n    contents: |\n      \"apiVersion\": \"v1\"\n"
      "      \"kind\": \"Secret\"\n      \"metadata\":\n        \"name\": \"db\"\n"
      "        \"namespace\": \"default\"\n      \"stringData\":\n        \"p\": \"swordfish\"\n";
  take_over();
  EXPECT_THAT(described.spec, AllOf(Not(HasSubstr("hunter22")), Not(HasSubstr("swordfish")),
                                    HasSubstr("secret: adopted.")));
  std::vector<std::string> kept;
  for (const auto& [name, secret] : described.secrets) kept.emplace_back(secret.reveal());
  EXPECT_THAT(kept, UnorderedElementsAre("u", "hunter22", HasSubstr("swordfish")));
}

TEST_F(Adopted, WhatIsGoneOrOtherIsNamedAndLeft) {
  tf.raise(three_nodes);
  const std::string other = adopt::resource("proxmox_virtual_environment_vm", "db",
                                            adopt::bpg_vm({800, "pve1", "db", "", "10.0.7.7/16"}));
  const std::string helm = adopt::resource("helm_release", "cilium", "{}");
  const std::string text = tf.state({other, helm});
  test::Administrator client = client_with(tf.rig, tf.rig.home.root_token);
  proxmox::VmCreate database;
  database.vmid = 800;
  database.name = "db";
  database.bios = "seabios";
  const auto finish = [&](const proxmox::Upid& upid) {
    while (client.find_task(upid)->running) tf.rig.home.world.run_for(std::chrono::seconds{1});
  };
  finish(std::get<proxmox::Upid>(client.start_create("pve1", database)));
  finish(client.start_stop("pve1", 312));
  finish(client.start_destroy("pve1", 312, true));
  tf.rig.home.world.run_for(std::chrono::seconds{20});
  const adopt::Found found = tf.look(text);
  EXPECT_EQ(found.nodes.size(), 2u);
  std::vector<std::string> lines;
  for (const adopt::Left& left : found.left) lines.push_back(left.where + ": " + left.why);
  EXPECT_THAT(lines, ElementsAre("proxmox_virtual_environment_vm.db: VM 800 is off",
                                 AllOf(HasSubstr("[\"blue-worker-2\"]"), HasSubstr("is gone"))));
}

/// A Proxmox that says something else at one path: what the lab cannot become.
class Otherwise final : public net::Transport {
 public:
  Otherwise(net::Transport& inner, std::string path, std::function<void(std::string&)> change)
      : inner_(inner), path_(std::move(path)), change_(std::move(change)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.url.find(path_) == std::string::npos)
      return inner_.exchange(request, sink, std::move(stop));
    net::MemorySink memory;
    net::Response response = inner_.exchange(request, memory, std::move(stop));
    change_(memory.text());
    sink.begin(response);
    sink.write(memory.text());
    return response;
  }

 private:
  net::Transport& inner_;
  std::string path_;
  std::function<void(std::string&)> change_;
};

std::vector<std::string> lines_of(const std::vector<adopt::Left>& left) {
  std::vector<std::string> lines;
  for (const adopt::Left& one : left) lines.push_back(one.where + ": " + one.why);
  return lines;
}

TEST_F(Adopted, WhatBecameATemplateAContainerOrAnotherMachineIsNamedAndLeft) {
  tf.raise(three_nodes);
  const std::string text = tf.state();
  test::Administrator client = client_with(tf.rig, tf.rig.home.root_token);
  const auto finish = [&](const proxmox::Upid& upid) {
    while (client.find_task(upid)->running) tf.rig.home.world.run_for(std::chrono::seconds{1});
  };
  finish(client.start_stop("pve1", 312));
  finish(client.start_template("pve1", 312));
  tf.rig.home.world.run_for(std::chrono::seconds{20});  // the list of all VMs is ten seconds old
  EXPECT_THAT(lines_of(tf.look(text).left), ElementsAre(AllOf(HasSubstr("[\"blue-worker-2\"]"),
                                                              HasSubstr("VM 312 is a template"))));

  // The lab has no containers.
  Otherwise container{tf.rig.wire, "/cluster/resources", [](std::string& rows) {
                        const std::size_t row = rows.rfind('{', rows.find("\"vmid\":312"));
                        rows = rows.substr(0, row) +
                               with(rows.substr(row), "\"type\":\"qemu\"", "\"type\":\"lxc\"");
                      }};
  EXPECT_THAT(
      lines_of(tf.look(text, container).left),
      ElementsAre(AllOf(HasSubstr("[\"blue-worker-2\"]"), HasSubstr("312 is a container now"))));

  // A VM with the same cards: the machine that answers at its address is not the one it describes.
  Otherwise another{tf.rig.wire, "/qemu/311/", [](std::string& said) {
                      const std::size_t at = said.find("uuid=");
                      if (at == std::string::npos) return;
                      said.replace(at + 5, 36, "11111111-2222-4333-8444-555555555555");
                    }};
  const adopt::Found found = tf.look(text, another);
  ASSERT_EQ(found.nodes.size(), 1u);
  EXPECT_EQ(found.nodes.front().row.vmid, 310u);
  EXPECT_THAT(lines_of(found.left),
              Contains(AllOf(HasSubstr("[\"blue-worker-1\"]"),
                             HasSubstr("who answers at 10.0.1.21 is another machine"))));
}

// A spec has one version for all: nodes of two are refused, each with its own.
TEST_F(Adopted, NodesOfTwoVersionsAreRefused) {
  tf.raise({{310, "blue-cp-1", "10.0.1.11", true}, {311, "blue-worker-1", "10.0.1.21"}});
  before = identities(tf.rig);
  tf.upgrade(tf.nodes.back(), {1, 11, 6}, tf.schematic_with({"siderolabs/qemu-guest-agent"}));
  const std::string why = refused([&] { tf.adopt(tf.state()); });
  EXPECT_THAT(why, AllOf(HasSubstr("not all the same version of Talos"), HasSubstr("blue-cp-1: "),
                         HasSubstr("blue-worker-1: ")));
  EXPECT_FALSE(tf.rig.files.status("/clusters/blue/cluster.yaml"));
  EXPECT_EQ(identities(tf.rig), before);
}

const std::vector<std::string> with_graphics = {"siderolabs/qemu-guest-agent", "siderolabs/i915"};

TEST_F(Adopted, WorkersWithAnImageOfTheirOwnKeepIt) {
  std::vector<TerraformNode> nodes = three_nodes;
  nodes.push_back({313, "blue-gpu-1", "10.0.1.31"});
  nodes.push_back({314, "blue-gpu-2", "10.0.1.32"});
  for (std::size_t i = 3; i < nodes.size(); ++i) nodes[i].extensions = with_graphics;
  take_over(nodes);
  test::expect_golden("adopt/two-schematics.yaml", described.spec);
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  settle();
  EXPECT_EQ(identities(tf.rig), before) << "nothing was touched";

  // One more of them has their image, and nobody else is touched.
  const std::size_t pool = described.spec.find("    gpu:\n");
  ASSERT_NE(pool, std::string::npos) << described.spec;
  tf.rig.write_spec(described.spec.substr(0, pool) +
                    with(with(described.spec.substr(pool), "count: 2", "count: 3"),
                         "10.0.1.31-10.0.1.32", "10.0.1.31-10.0.1.33"));
  const std::string theirs = tf.schematic_with(with_graphics);
  EXPECT_THAT(changed(tf.rig.plan()),
              UnorderedElementsAre(HasSubstr("-" + theirs.substr(0, 12) + "-"), "+vm/gpu-3",
                                   "+machine/gpu-3", "+member/gpu-3"));
  settle();
  const auto lock = spec::find_lock(tf.rig.files, "/clusters/blue");
  EXPECT_EQ(lock->schematics.at("pools.gpu"), theirs);
  EXPECT_NE(lock->schematics.at("cluster"), theirs);
  talos::Client newest = tf.secure({0, "gpu-3", "10.0.1.33"});
  EXPECT_THAT(newest.find_config()->reveal(), HasSubstr("/" + theirs + ":v1.11.5"));
  EXPECT_TRUE(tf.rig.down().ok());
  EXPECT_TRUE(tf.rig.home.dc.vms.empty());
}

// Its configuration still names the installer that it was made with: the patch that says so is its
// own, and the image that the node tells of counts.
TEST_F(Adopted, AMemberOfAPoolThatWasBroughtToAnotherImageIsANodeOfItsOwn) {
  tf.raise(three_nodes);
  const std::string other = tf.schematic_with(with_graphics);
  tf.upgrade(tf.nodes.back(), tf.talos, other);
  before = identities(tf.rig);
  described = tf.adopt(tf.state());
  EXPECT_THAT(described.spec, AllOf(HasSubstr("schematic: " + other), HasSubstr("worker-2:")));
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  settle();
  EXPECT_EQ(identities(tf.rig), before) << "nothing was touched";
  EXPECT_EQ(spec::find_lock(tf.rig.files, "/clusters/blue")->schematics.at("nodes.worker-2"),
            other);
}

TEST_F(Adopted, WithoutAControlPlaneThatAnswersItIsRefused) {
  tf.raise(three_nodes);
  const std::string text = tf.state();
  test::Administrator client = client_with(tf.rig, tf.rig.home.root_token);
  const auto upid = client.start_stop("pve1", 310);
  while (client.find_task(upid)->running) tf.rig.home.world.run_for(std::chrono::seconds{1});
  EXPECT_THAT(refused([&] { tf.adopt(text); }), HasSubstr("no control plane is among the nodes"));
  EXPECT_FALSE(tf.rig.files.status("/clusters/blue/cluster.yaml"));
}

const std::vector<TerraformNode> three_planes = {
    {310, "blue-cp-1", "10.0.1.11", true},
    {311, "blue-cp-2", "10.0.1.12", true},
    {312, "blue-cp-3", "10.0.1.13", true},
};

// It would be in no spec, and nobody would see that etcd cannot lose one more.
TEST_F(Adopted, AMemberOfEtcdThatIsOffOrGoneIsRefusedByName) {
  tf.raise(three_planes);
  const std::string text = tf.state();
  test::Administrator client = client_with(tf.rig, tf.rig.home.root_token);
  const auto finish = [&](const proxmox::Upid& upid) {
    while (client.find_task(upid)->running) tf.rig.home.world.run_for(std::chrono::seconds{1});
    tf.rig.home.world.run_for(std::chrono::minutes{1});
  };
  finish(client.start_stop("pve1", 312));
  EXPECT_THAT(refused([&] { tf.adopt(text); }),
              AllOf(HasSubstr("etcd has 3 members, and blue-cp-3 at 10.0.1.13 is not among the"),
                    HasSubstr("VM 312 is off (module.talos."), HasSubstr("[\"blue-cp-3\"]")));
  finish(client.start_destroy("pve1", 312, true));
  EXPECT_THAT(refused([&] { tf.adopt(text); }), HasSubstr("VM 312 is gone"));
  EXPECT_FALSE(tf.rig.files.status("/clusters/blue/cluster.yaml"));
  // As the hint says.
  talos::Client node = tf.secure(three_planes.front());
  for (const talos::EtcdMember& member : node.etcd_members())
    if (member.hostname == "blue-cp-3") node.etcd_remove_member(member.id);
  described = tf.adopt(text);
  EXPECT_THAT(tf.first_plan(), IsEmpty());
  settle();
  const resources::ClusterStatus status = tf.rig.run()->status();
  EXPECT_TRUE(status.healthy);
  EXPECT_EQ(status.etcd, "2 members, healthy");
}

TEST_F(Adopted, AMemberOfEtcdThatLeftTheSpecIsShownByStatus) {
  take_over(three_planes);
  settle();
  EXPECT_EQ(tf.rig.run()->status().etcd, "3 members, healthy");
  std::string spec = described.spec;
  const auto from = spec.find("    cp-3:");
  ASSERT_NE(from, std::string::npos) << spec;
  auto to = spec.find('\n', from) + 1;
  while (to < spec.size() && spec.compare(to, 6, "      ") == 0) to = spec.find('\n', to) + 1;
  spec.erase(from, to - from);
  tf.rig.write_spec(with(spec, "  talos:\n", "  policy: { evenControlPlanes: warn }\n  talos:\n"));
  resources::ClusterStatus status = tf.rig.run()->status();
  // The access files still name it until the next `up`.
  EXPECT_THAT(status.problems, testing::ElementsAre(HasSubstr("talosconfig.endpoints")));
  EXPECT_EQ(status.etcd, "3 members; blue-cp-3 is in no spec");
  test::Administrator client = client_with(tf.rig, tf.rig.home.root_token);
  client.start_stop("pve1", 312);
  tf.rig.home.world.run_for(std::chrono::minutes{2});
  status = tf.rig.run()->status();
  EXPECT_FALSE(status.healthy);
  EXPECT_EQ(status.etcd, "3 members; blue-cp-3 is in no spec and does not answer");
}

// A run of Terraform that ended between the configurations and etcd: rocca would begin it, and an
// adoption begins nothing.
TEST_F(Adopted, WhatIsNotFinishedIsADifference) {
  tf.bootstrapped = false;
  take_over();
  EXPECT_THAT(tf.first_plan(), Contains(HasSubstr("bootstrap/blue")));
  EXPECT_EQ(tf.rig.home.estate.bootstraps().size(), 0u);
}

struct Line {
  const char* name;
  Version talos;
  std::string kubernetes;
  bool names = true;
  std::optional<Version> contract = {};
};

class OfTalos : public Adopted, public testing::WithParamInterface<Line> {};

// Names and shared addresses are said otherwise from 1.12 on (HostnameConfig, Layer2VIPConfig).
TEST_P(OfTalos, ItsFirstPlanIsEmptyAndAWorkerMoreTouchesNothingElse) {
  tf.talos = GetParam().talos;
  tf.kubernetes = GetParam().kubernetes;
  tf.names_its_nodes = GetParam().names;
  tf.contract = GetParam().contract;
  tf.vip = "10.0.1.10";
  tf.endpoint = "https://10.0.1.10:6443";
  take_over();
  EXPECT_THAT(described.spec, HasSubstr("vip: 10.0.1.10"));
  EXPECT_THAT(tf.first_plan(), IsEmpty()) << described.spec;
  settle();
  EXPECT_EQ(identities(tf.rig), before) << "nothing was touched";
  if (!GetParam().contract) return add_a_worker();
  // Each says its name in a way that no pool can: they are nodes, and a new one has rocca's way.
  EXPECT_THAT(described.spec, Not(HasSubstr("pools:")));
  tf.rig.write_spec(with(described.spec, "  nodes:\n",
                         "  nodes:\n    worker-3: { role: worker, address: 10.0.1.23 }\n"));
  settle();
  EXPECT_NE(tf.rig.home.estate.find("blue-worker-3"), nullptr) << described.spec;
}

INSTANTIATE_TEST_SUITE_P(
    Of, OfTalos,
    testing::Values(Line{"V9", {1, 9, 6}, "1.32.4"}, Line{"V12", {1, 12, 7}, "1.35.0"},
                    Line{"V13", {1, 13, 9}, "1.36.3"},
                    Line{"V13WithNamesOfTalos", {1, 13, 9}, "1.36.3", false},
                    Line{"V13ConfiguredAsV9", {1, 13, 9}, "1.32.4", true, Version{1, 9, 6}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(Adopted, AnotherClustersSecretsOpenNothing) {
  tf.raise({{310, "blue-cp-1", "10.0.1.11", true}});
  const secrets::Bundle other = make_bundle(99);
  const std::string text = tf.state();
  tf.rig.bundle = &other;
  try {
    tf.look(text);
    ADD_FAILURE() << "was taken over";
  } catch (const Error& error) {
    EXPECT_THAT(error.render(), AllOf(HasSubstr("none of the VMs"), HasSubstr("another cluster")));
  }
}

}  // namespace
}  // namespace rocca::scenarios
