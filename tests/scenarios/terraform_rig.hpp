#pragma once

#include "adopt/describe.hpp"
#include "adopt/proof.hpp"
#include "adopt/tfstate_test_support.hpp"
#include "factory/client.hpp"
#include "scenarios/engine_rig.hpp"
#include "talos/client.hpp"
#include "talosconfig/render.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rocca::scenarios {

/// One VM of a cluster that Terraform raises.
struct TerraformNode {
  unsigned vmid = 0;
  std::string name;
  std::string address = {};  // empty: DHCP
  bool control_plane = false;
  std::string disk_slot = "scsi0";
  std::vector<std::string> extensions = {"siderolabs/qemu-guest-agent"};  // of its image
};

/// A cluster that bpg/proxmox (or Telmate's) and siderolabs/talos have raised: no mark, no UUID of
/// ours, their own names of things, their own configurations.
class TerraformRig {
 public:
  ClusterRig rig;
  std::vector<TerraformNode> nodes;
  Version talos{1, 11, 5};
  std::string kubernetes = "1.34.1";
  /// The line that the configurations were made for: nodes are upgraded, their configurations stay.
  std::optional<Version> contract;
  std::string endpoint = "https://10.0.1.11:6443";
  /// An address that the control planes share; as the Talos of these nodes has it said.
  std::string vip;
  /// Whether the configurations say their nodes' names: else Talos makes them.
  bool names_its_nodes = true;
  /// Whether etcd was begun: a run of Terraform may have ended before.
  bool bootstrapped = true;
  /// By Telmate/proxmox (`proxmox_vm_qemu`) and not by bpg/proxmox.
  bool telmate = false;
  /// Of the disks; there are some that no spec can say.
  std::string controller = "virtio-scsi-single";
  /// What the module's own patches say, as Talos takes them.
  std::string patch_of_all = "cluster: { proxy: { disabled: true } }\n";

  void raise(std::vector<TerraformNode> wanted) {
    nodes = std::move(wanted);
    test::Administrator client = client_with(rig, rig.home.token);
    std::set<std::string> images;
    for (const TerraformNode& node : nodes)
      if (images.insert(schematic_with(node.extensions)).second) download(client, node);
    for (const TerraformNode& node : nodes) make_vm(client, node);
    rig.home.world.run_for(std::chrono::seconds{60});
    for (const TerraformNode& node : nodes) {
      talos::Client machine{rig.wire, talos::Access::maintenance(where(node))};
      machine.apply(config_of(node), {talos::ApplyMode::Auto, false, std::chrono::minutes{1}, {}});
    }
    rig.home.world.run_for(std::chrono::minutes{2});
    if (bootstrapped) secure(nodes.front()).bootstrap();
    rig.home.world.run_for(std::chrono::minutes{10});
  }

  /// Where it is, as the simulated hosts know it.
  std::string where(const TerraformNode& node) {
    if (!node.address.empty()) return node.address;
    test::Administrator client = client_with(rig, rig.home.token);
    const auto links = client.find_agent_interfaces("pve1", node.vmid);
    if (links)
      for (const auto& link : *links)
        for (const IpAddress& address : link.addresses)
          if (address.is_v4() && !address.is_loopback()) return to_string(address);
    throw Error(Fault::NotFound, node.name + " does not tell its address");
  }

  std::string option(unsigned vmid, const char* key) const {
    const std::string* value = rig.home.dc.vms.at(vmid).find(key);
    return value == nullptr ? "" : *value;
  }

  /// terraform.tfstate, with whatever else is in it.
  std::string state(const std::vector<std::string>& more = {}, bool with_secrets = true) {
    std::vector<std::string> resources = more;
    for (const TerraformNode& node : nodes) {
      const std::string card = option(node.vmid, "net0");
      const std::string mac = card.substr(card.find('=') + 1, 17);
      const adopt::BpgVm vm{node.vmid, "pve1", node.name, mac,
                            node.address.empty() ? "dhcp" : node.address + "/16"};
      resources.push_back(telmate ? adopt::resource("proxmox_vm_qemu", "nodes",
                                                    adopt::telmate_vm(vm), "", node.name)
                                  : adopt::resource("proxmox_virtual_environment_vm", "vms",
                                                    adopt::bpg_vm(vm), "module.talos", node.name));
      resources.push_back(adopt::resource("talos_machine_configuration_apply", "nodes",
                                          fmt::format(R"({{"node": "{}"}})", where(node))));
    }
    if (with_secrets)
      resources.push_back(
          adopt::resource("talos_machine_secrets", "this", adopt::machine_secrets(*rig.bundle)));
    return adopt::state(resources);
  }

  adopt::Remembered remembered(const std::string& text) {
    Diagnostics problems;
    auto found = adopt::read_tfstate(text, "terraform.tfstate", {}, problems);
    if (!found) throw Error(Fault::Usage, problems.render());
    return std::move(*found);
  }

  adopt::Found look(const std::string& text) { return look(text, rig.wire); }
  adopt::Found look(const std::string& text, net::Transport& through) {
    const proxmox::Access access{{rig.home.endpoint()},
                                 Secret{rig.home.token},
                                 net::Tls::pinned(rig.home.first().fingerprint)};
    return adopt::look({through, access, rig.bundle->os.crt, identity(), {}}, remembered(text));
  }

  /// Takes it over: the files are in the rig's folder afterwards.
  adopt::Description adopt(const std::string& text) {
    const adopt::Found found = look(text);
    adopt::Wording wording;
    wording.name = "blue";
    wording.folder = "/clusters/blue";
    wording.site.endpoints = {rig.home.endpoint()};
    wording.site.insecure = true;
    adopt::Description described = adopt::describe(rig.files, found, *rig.bundle, wording);
    rig.files.write("/clusters/blue/cluster.yaml", described.spec);
    rig.files.write("/clusters/blue/rocca.lock", spec::to_text(described.lock));
    return described;
  }

  /// Somebody brings one node to another Talos or another image, as `talosctl upgrade` does.
  void upgrade(const TerraformNode& node, const Version& to, const std::string& with) {
    secure(node).upgrade(
        {fmt::format("factory.talos.dev/nocloud-installer/{}:v{}", with, to_string(to))});
    rig.home.world.run_for(std::chrono::minutes{10});
  }
  std::string schematic_with(std::vector<std::string> extensions) {
    factory::Schematic wanted;
    wanted.extensions = std::move(extensions);
    factory::Client factory{rig.wire, "https://factory.talos.dev", net::Tls::unverified()};
    return factory.register_schematic(wanted);
  }

  /// The same with the proof: what would differ beside the access files.
  std::vector<std::string> first_plan() {
    const adopt::FirstPlan first = adopt::judge(rig.plan());
    std::vector<std::string> lines = first.differs;
    for (const auto& value : first.leave)
      lines.push_back(fmt::format("{} {}: '{}' -> '{}'", value.address, value.field, value.found,
                                  value.declared));
    return lines;
  }

  talos::Client secure(const TerraformNode& node) {
    return {rig.wire, talos::Access::secure(where(node), rig.bundle->os.crt, identity())};
  }

 private:
  std::shared_ptr<const net::Identity> identity() {
    return credentials_of(*rig.bundle, rig.home.world.now()).talos;
  }

  void finish(test::Administrator& client, const proxmox::Upid& upid) {
    while (client.find_task(upid)->running) rig.home.world.run_for(std::chrono::seconds{1});
    const auto task = client.find_task(upid);
    if (!task->ok()) throw Error(Fault::Rejected, upid.type + ": " + task->exit_status);
  }

  std::string image_file(const TerraformNode& node) {
    return fmt::format("talos-{}-nocloud.qcow2", schematic_with(node.extensions).substr(0, 8));
  }

  void download(test::Administrator& client, const TerraformNode& node) {
    proxmox::Download image;
    image.storage = "local";
    image.content = "import";
    image.filename = image_file(node);
    image.url = "https://factory.talos.dev" +
                factory::image_path(schematic_with(node.extensions), talos, {});
    finish(client, client.start_download("pve1", image));
  }

  /// The options that bpg sends: see tests/reference/bpg for its spellings.
  void make_vm(test::Administrator& client, const TerraformNode& node) {
    proxmox::VmCreate create;
    create.vmid = node.vmid;
    create.name = node.name;
    create.description = "Managed by Terraform";
    create.tags = {"k8s", "talos", "terraform"};
    create.cores = 2;
    create.memory_mib = 4096;
    create.balloon_mib = 0;
    create.bios = "seabios";
    create.boot_order = {node.disk_slot};
    proxmox::Drive disk;
    disk.storage = "local-lvm";
    disk.import_from = "local:import/" + image_file(node);
    disk.iothread = true;
    disk.discard = true;
    disk.cache = "writethrough";
    create.drives[node.disk_slot] = disk;
    proxmox::Drive cloud_init;
    cloud_init.storage = "local-lvm";
    cloud_init.cloud_init = true;
    create.scsi_controller = controller;
    create.drives[telmate ? "ide3" : "ide2"] = cloud_init;
    if (telmate) {
      // What its defaults make otherwise than bpg's.
      create.description = "Managed by Terraform.";
      create.tags = {"k8s", "talos"};
      create.balloon_mib.reset();
      create.machine = "pc";
      create.serial_port = "socket";
    }
    proxmox::Nic nic;
    nic.bridge = "vmbr0";
    nic.firewall = false;
    create.nics = {nic};
    proxmox::IpConfig ip;
    ip.address = node.address.empty() ? "dhcp" : node.address + "/16";
    ip.gateway = node.address.empty() ? "" : "10.0.0.1";
    create.ip_configs = {ip};
    create.nameservers = {"10.0.0.1"};
    const auto answer = client.start_create("pve1", create);
    finish(client, std::get<proxmox::Upid>(answer));
    finish(client, client.start_resize("pve1", node.vmid, node.disk_slot, Bytes::gib(10)));
    finish(client, client.start_vm("pve1", node.vmid));
  }

  Secret config_of(const TerraformNode& node) {
    talos::ConfigInput input;
    input.talos = contract.value_or(talos);
    input.kubernetes = kubernetes;
    input.control_plane = node.control_plane;
    input.cluster = "blue";
    input.endpoint = endpoint;
    input.bundle = *rig.bundle;
    input.install_disk = node.disk_slot == "virtio0" ? "/dev/vda" : "/dev/sda";
    input.installer = fmt::format("factory.talos.dev/nocloud-installer/{}:v{}",
                                  schematic_with(node.extensions), to_string(talos));
    if (names_its_nodes) input.hostname = node.name;
    if (node.control_plane && !vip.empty()) {
      input.vip = vip;
      input.vip_link = "eth0";
    }
    input.patches = {talos::read_patch(patch_of_all, "module")};
    return talos::render_text(input);
  }
};

}  // namespace rocca::scenarios
