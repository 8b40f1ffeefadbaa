#include "adopt/tfstate.hpp"

#include "adopt/tfstate_test_support.hpp"
#include "talosconfig/render.hpp"

#include <gmock/gmock.h>

namespace rocca::adopt {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

secrets::Bundle make_bundle(std::uint64_t number) {
  SeededEntropy entropy{number};
  secrets::BundleOptions options;
  options.service_account_key = [](Entropy& from) {
    return secrets::PrivateKey::generate(secrets::KeyAlgorithm::EcdsaP256, from);
  };
  return secrets::generate_bundle(options, Instant{std::chrono::seconds{1'763'000'000}}, entropy);
}

const secrets::Bundle& bundle() {
  static const secrets::Bundle made = make_bundle(3);
  return made;
}

std::string control_plane_config() {
  talos::ConfigInput input;
  input.talos = Version{1, 11, 5};
  input.kubernetes = "1.34.1";
  input.control_plane = true;
  input.cluster = "blue";
  input.endpoint = "https://10.0.0.11:6443";
  input.bundle = bundle();
  input.install_disk = "/dev/sda";
  return std::string{talos::render_text(input).reveal()};
}

const std::string cp1 = resource(
    "proxmox_virtual_environment_vm", "cp",
    bpg_vm({104, "pve1", "blue-cp-1", "BC:24:11:00:00:01", "10.0.0.11/16"}), "module.blue", "cp-1");
const std::string some_secrets =
    resource("talos_machine_secrets", "this", machine_secrets(bundle()), "module.blue");

struct Read {
  std::optional<Remembered> found;
  std::string told;
};

Read read(const std::string& text, const StateOptions& options = {}) {
  Diagnostics problems;
  Read read;
  read.found = read_tfstate(text, "terraform.tfstate", options, problems);
  read.told = problems.render();
  return read;
}

TEST(Tfstate, TellsVmsSecretsAndNodesOfBpgAndTalos) {
  const Read all =
      read(state({cp1, some_secrets,
                  resource("talos_machine_configuration_apply", "cp", R"({"node": "10.0.0.11"})"),
                  resource("talos_machine_bootstrap", "this", R"({"node": "10.0.0.11"})"),
                  resource("talos_image_factory_schematic", "this", R"({"id": "abc"})"),
                  resource("talos_cluster_kubeconfig", "this", "{}")}));
  ASSERT_TRUE(all.found) << all.told;
  ASSERT_EQ(all.found->vms.size(), 1u);
  const RememberedVm& vm = all.found->vms.front();
  EXPECT_EQ(vm.where, "module.blue.proxmox_virtual_environment_vm.cp[\"cp-1\"]");
  EXPECT_EQ(vm.vmid, 104u);
  EXPECT_EQ(vm.host, "pve1");
  EXPECT_EQ(vm.name, "blue-cp-1");
  EXPECT_THAT(vm.macs, ElementsAre(*MacAddress::parse("bc:24:11:00:00:01")));
  EXPECT_THAT(vm.addresses, ElementsAre(*IpAddress::parse("10.0.0.11")));
  EXPECT_EQ(all.found->bundle, bundle());
  EXPECT_EQ(all.found->bundle_from, "module.blue.talos_machine_secrets.this");
  EXPECT_THAT(all.found->nodes, ElementsAre("10.0.0.11"));
  EXPECT_THAT(all.found->left, IsEmpty());
}

TEST(Tfstate, TellsVmsOfTelmate) {
  const Read all =
      read(state({resource("proxmox_vm_qemu", "cp",
                           R"({"id": "pve2/qemu/210", "name": "cp", "target_node": "", "vmid": 0,
                    "ipconfig0": "ip=10.0.0.12/16,gw=10.0.0.1", "ipconfig1": "ip=dhcp",
                    "default_ipv4_address": "10.0.0.99",
                    "network": [{"macaddr": "BC:24:11:00:00:02", "tag": -1}]})"),
                  some_secrets}));
  ASSERT_TRUE(all.found) << all.told;
  const RememberedVm& vm = all.found->vms.at(0);
  EXPECT_EQ(vm.vmid, 210u);
  EXPECT_EQ(vm.host, "pve2");
  EXPECT_THAT(vm.addresses,
              ElementsAre(*IpAddress::parse("10.0.0.12"), *IpAddress::parse("10.0.0.99")));
  EXPECT_EQ(vm.macs.size(), 1u);
}

TEST(Tfstate, TakesSecretsFromAConfigurationWhereTheyAreNowhereElse) {
  text::Value attributes = text::Value::map();
  attributes.set("machine_configuration", text::Value::string(control_plane_config()));
  const Read all = read(
      state({cp1, resource("talos_machine_configuration", "cp", text::emit_json(attributes))}));
  ASSERT_TRUE(all.found) << all.told;
  EXPECT_EQ(all.found->bundle->cluster_id, bundle().cluster_id);
  EXPECT_EQ(all.found->bundle_from, "talos_machine_configuration.cp");
}

TEST(Tfstate, NamesWhatItLeaves) {
  const std::string broken = R"({"mode": "managed", "type": "proxmox_virtual_environment_vm",
    "name": "old", "instances": [{"deposed": "abcd", "attributes": {"vm_id": 9}}]})";
  const Read all = read(state({cp1, some_secrets, broken,
                               resource("proxmox_virtual_environment_vm", "image",
                                        R"({"vm_id": 900, "node_name": "pve1", "template": true})"),
                               resource("proxmox_virtual_environment_download_file", "talos", "{}"),
                               resource("helm_release", "cilium", "{}")}));
  ASSERT_TRUE(all.found) << all.told;
  EXPECT_EQ(all.found->vms.size(), 1u);
  EXPECT_THAT(
      all.found->left,
      ElementsAre(AllOf(Field(&Left::where, "proxmox_virtual_environment_vm.old"),
                        Field(&Left::why, HasSubstr("deposed"))),
                  Left{"proxmox_virtual_environment_vm.image", "a template"},
                  AllOf(Field(&Left::where, "proxmox_virtual_environment_download_file.talos"),
                        Field(&Left::why, HasSubstr("an image"))),
                  Field(&Left::where, "helm_release.cilium")));
}

TEST(Tfstate, TwoClustersAreTakenOneAtATime) {
  const std::string green =
      resource("talos_machine_secrets", "this", machine_secrets(make_bundle(4)), "module.green");
  const std::string green_vm = resource("proxmox_virtual_environment_vm", "cp",
                                        bpg_vm({204, "pve1", "green-cp-1"}), "module.green[0]");
  const std::string both = state({cp1, some_secrets, green, green_vm});
  const Read refused = read(both);
  EXPECT_FALSE(refused.found);
  EXPECT_THAT(refused.told, AllOf(HasSubstr("the secrets of 2 clusters"), HasSubstr("--module"),
                                  HasSubstr("module.green.talos_machine_secrets.this")));
  const Read blue = read(both, {.module = "module.blue"});
  ASSERT_TRUE(blue.found) << blue.told;
  EXPECT_EQ(blue.found->vms.size(), 1u);
  EXPECT_EQ(blue.found->bundle, bundle());
  EXPECT_EQ(read(both, {.module = "module.green"}).found->vms.at(0).vmid, 204u);
  EXPECT_THAT(read(both, {.module = "module.gre"}).told, HasSubstr("no VM of bpg/proxmox"));
}

TEST(Tfstate, OtherSecretsCountInTheirPlace) {
  EXPECT_THAT(read(state({cp1})).told,
              AllOf(HasSubstr("secrets are not in it"), HasSubstr("--secrets FILE")));
  const Read given = read(state({cp1}), {.module = "", .has_bundle = true});
  ASSERT_TRUE(given.found) << given.told;
  EXPECT_FALSE(given.found->bundle);
}

struct Bad {
  const char* name;
  std::string text;
  const char* says;
};

class BadState : public testing::TestWithParam<Bad> {};

TEST_P(BadState, IsRefusedWithAReason) {
  const Read bad = read(GetParam().text);
  EXPECT_FALSE(bad.found);
  EXPECT_THAT(bad.told, AllOf(HasSubstr("terraform.tfstate:"), HasSubstr(GetParam().says),
                              HasSubstr("hint: ")));
}

const Bad bad_states[] = {
    {"Empty", "", "it is empty"},
    {"NotJson", "kind: Cluster\n", "terraform.tfstate:1:1"},
    {"Truncated", state({cp1, some_secrets}).substr(0, 900), "is it whole? `terraform state pull`"},
    {"Older", state({cp1}, "3"), "a state of format 3"},
    {"Newer", state({cp1}, "5"), "a state of format 5"},
    {"Encrypted", R"({"serial": 3, "lineage": "x", "meta": {}, "encrypted_data": "AAAA"})",
     "the state is encrypted"},
    {"AnotherFile", R"({"version": 4, "kind": "x"})", "no Terraform or OpenTofu state"},
    {"NoObject", "[4]", "no Terraform or OpenTofu state"},
    {"NoResources", R"({"version": 4, "serial": 1})", "a state without a list of resources"},
    {"NothingInIt", state({}), "it is empty: is it the workspace"},
    {"AnotherProvider", state({resource("aws_instance", "web", "{}")}), "there is aws_instance"},
    {"NoId", state({resource("proxmox_virtual_environment_vm", "cp", R"({"name": "cp"})")}),
     "has no VM id or no host"},
    {"HalfTheSecrets",
     state({cp1, resource("talos_machine_secrets", "this",
                          R"({"machine_secrets": {"cluster": {"id": "a"}}})")}),
     "talos_machine_secrets.this: "},
    {"NoVersion", R"({"version": {}, "serial": 1})", "no Terraform or OpenTofu state"},
    {"OnlyAVersion", R"({"version": {}})", "no Terraform or OpenTofu state"},
    // 100 in 32 bits.
    {"LargeId",
     state({resource("proxmox_virtual_environment_vm", "cp",
                     R"({"vm_id": 4294967396, "node_name": "pve1"})")}),
     "has VM id 4294967396, and no Proxmox has such a VM"},
    {"SmallId",
     state({resource("proxmox_vm_qemu", "cp", R"({"vmid": 99, "target_node": "pve1"})")}),
     "has VM id 99, and no Proxmox has such a VM"},
    {"FlatVm",
     R"({"version": 4, "serial": 1, "resources": [{"mode": "managed",
         "type": "proxmox_virtual_environment_vm", "name": "cp",
         "instances": [{"schema_version": 0, "attributes_flat": {"vm_id": "104"}}]}]})",
     "proxmox_virtual_environment_vm.cp was written by an older provider"},
    {"FlatSecrets",
     R"({"version": 4, "serial": 1, "resources": [{"mode": "managed",
         "type": "talos_machine_secrets", "name": "this",
         "instances": [{"schema_version": 0, "attributes_flat": {"id": "x"}}]}]})",
     "`terraform apply -refresh-only` first"},
};
INSTANTIATE_TEST_SUITE_P(Of, BadState, testing::ValuesIn(bad_states),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Tfstate, WhatIsMissingOfTheSecretsIsOneError) {
  const Read bad = read(state({cp1, resource("talos_machine_secrets", "this",
                                             R"({"machine_secrets": {"cluster": {"id": "a"}}})")}));
  EXPECT_FALSE(bad.found);
  EXPECT_THAT(bad.told, AllOf(HasSubstr("cluster.secret"), HasSubstr("certs.os.key"),
                              HasSubstr("trustdinfo.token"), HasSubstr(" are missing")));
  const auto first = bad.told.find("error:");
  EXPECT_EQ(bad.told.find("error:", first + 1), std::string::npos) << bad.told;
}

TEST(Tfstate, AVmThatIsInItTwiceIsTakenOnceAndNamed) {
  const std::string again = resource("proxmox_virtual_environment_vm", "again",
                                     bpg_vm({204, "pve1", "cp", "BC:24:11:00:00:09"}));
  const Read all = read(state({resource("proxmox_virtual_environment_vm", "cp",
                                        bpg_vm({204, "pve1", "cp", "BC:24:11:00:00:01"})),
                               again, some_secrets}));
  ASSERT_TRUE(all.found) << all.told;
  EXPECT_EQ(all.found->vms.size(), 1u);
  EXPECT_THAT(all.found->left,
              ElementsAre(Left{"proxmox_virtual_environment_vm.again",
                               "VM 204 once more: it is also proxmox_virtual_environment_vm.cp, "
                               "and is looked at as that"}));
}

TEST(Tfstate, NoMessageShowsASecret) {
  std::string half = machine_secrets(bundle());
  half.replace(half.find("\"bootstrap_token\""), 17, "\"bootstrap_tokem\"");
  const Read bad = read(state({cp1, resource("talos_machine_secrets", "this", half)}));
  EXPECT_FALSE(bad.found);
  for (const Secret* secret : {&bundle().trustd_token, &bundle().cluster_secret,
                               &bundle().bootstrap_token, &bundle().secretbox_secret})
    EXPECT_THAT(bad.told, testing::Not(HasSubstr(std::string{secret->reveal()})));
}

}  // namespace
}  // namespace rocca::adopt
