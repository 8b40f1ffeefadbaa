#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "factory/client.hpp"
#include "factory/node_image.hpp"
#include "lab/data_centre.hpp"
#include "lab/sim/wire.hpp"
#include "proxmox/client.hpp"
#include "secrets/bundle.hpp"
#include "secrets/x509.hpp"
#include "spec/load.hpp"
#include "support/administrator.hpp"
#include "talos/client.hpp"
#include "talosconfig/input.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace rocca::scenarios {

/// Kubernetes 1.32 is what every supported Talos runs.
inline std::string spec_text(const std::string& talos, const std::string& network,
                             const std::string& nodes, const std::string& kubernetes = "") {
  return fmt::format(
      "apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: {{ name: blue }}\nspec:\n"
      "  talos: {{ version: {}, extensions: [qemu-guest-agent] }}\n  kubernetes: {{ version: "
      "v1.32.4{} }}\n"
      "  network: {{ {} }}\n  proxmox:\n    endpoints: [https://pve.home:8006]\n"
      "    insecure: true\n    token: {{ secret: proxmox.token }}\n    hosts: [pve1]\n"
      "  nodes:\n{}",
      talos, kubernetes, network, nodes);
}

/// Raises the nodes of a spec in a lab with our own clients, one call after the other: what the
/// engine does, without the engine.
class NodeRig {
 public:
  explicit NodeRig(const std::string& text, const lab::Home::Options& options = {})
      : home(options),
        wire(home.world),
        pve(wire,
            {{home.endpoint()}, Secret{home.token}, net::Tls::pinned(home.first().fingerprint)}) {
    spec::Loaded loaded = spec::load_text(files, text, "cluster.yaml", "/cluster");
    EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
    spec = std::move(loaded.spec);
  }

  /// One for all tests of a process: making keys is slow, and nothing here is about them.
  static const secrets::Bundle& bundle() {
    static const secrets::Bundle made = [] {
      SeededEntropy entropy{5};
      secrets::BundleOptions options;
      options.service_account_key = [](Entropy& from) {
        return secrets::PrivateKey::generate(secrets::KeyAlgorithm::Ed25519, from);
      };
      return secrets::generate_bundle(options, Instant{std::chrono::seconds{1'763'400'000}},
                                      entropy);
    }();
    return made;
  }

  void finish(const proxmox::Upid& upid) {
    for (int i = 0; i < 2000; ++i) {
      const auto task = pve.find_task(upid);
      if (task && !task->running) {
        if (const auto failure = task->failure()) throw failure->error("task " + upid.type);
        return;
      }
      pause(std::chrono::seconds{1});
    }
    throw Error(Fault::Timeout, "task " + upid.type + " does not end");
  }
  void pause(Duration duration) { lab::pause(home.world, parker, duration); }

  /// Lets time pass until it is so; false: not within `limit`.
  bool until(const std::function<bool()>& so, Duration limit = std::chrono::minutes{5}) {
    const Instant end = home.world.now() + limit;
    while (!so()) {
      if (home.world.now() > end) return false;
      pause(std::chrono::seconds{1});
    }
    return true;
  }

  const spec::Node& node(const std::string& name) const {
    for (const spec::Node& each : spec.nodes)
      if (each.name == name) return each;
    throw Error(Fault::NotFound, "no node " + name);
  }
  unsigned vmid(const spec::Node& node) const {
    return 100 + static_cast<unsigned>(&node - spec.nodes.data());
  }

  std::string schematic(const spec::Node& node) {
    const factory::NodeImage image = factory::node_image(files, spec, node);
    if (image.schematic) {
      factory::Client client{wire, "https://factory.talos.dev"};
      EXPECT_EQ(client.register_schematic(*image.schematic), image.id);
    }
    return image.id;
  }

  proxmox::VmCreate machine(const spec::Node& node) {
    const std::string id = schematic(node);
    const std::string platform = talos::image_platform(spec, node);
    factory::Artifact artifact;
    artifact.platform = platform == "metal" ? factory::Platform::Metal : factory::Platform::NoCloud;
    const std::string path = factory::image_path(id, *spec.talos.version, artifact);
    const std::string file = fmt::format("talos-{}-{}.qcow2", platform, id.substr(0, 12));
    if (downloaded_.insert(file).second) {
      proxmox::Download download;
      download.storage = "local";
      download.filename = file;
      download.url = "https://factory.talos.dev" + path;
      finish(pve.start_download("pve1", download));
    }
    proxmox::VmCreate vm;
    vm.vmid = vmid(node);
    vm.name = node.vm_name;
    vm.memory_mib = 4096;
    vm.cores = 2;
    vm.efi_disk = proxmox::EfiDisk{"local-lvm", false};
    proxmox::Drive disk;
    disk.storage = "local-lvm";
    disk.import_from = "local:import/" + file;
    disk.serial = talos::disk_serial(node.machine->system());
    vm.drives["scsi0"] = disk;
    for (std::size_t i = 0; i < node.machine->nics.size(); ++i) {
      const spec::Nic& wish = node.machine->nics[i];
      proxmox::Nic nic;
      nic.bridge = wish.bridge ? **wish.bridge : "vmbr0";
      const auto& vlan = wish.vlan || i > 0 ? wish.vlan : spec.network.vlan;
      const auto& mtu = wish.mtu || i > 0 ? wish.mtu : spec.network.mtu;
      if (vlan) nic.vlan = static_cast<unsigned>(**vlan);
      if (mtu) nic.mtu = static_cast<unsigned>(**mtu);
      vm.nics.push_back(nic);
    }
    vm.boot_order = {"scsi0"};
    vm.smbios = proxmox::Smbios{uuid(node), "", "", "", "", "", ""};
    if (platform == "nocloud") {
      proxmox::Drive drive;
      drive.storage = "local-lvm";
      drive.cloud_init = true;
      vm.drives["ide2"] = drive;
      proxmox::IpConfig ip;
      ip.address = "dhcp";
      if (*spec.network.addressing != spec::Addressing::Dhcp && node.address) {
        ip = {};
        const bool v4 = (*node.address)->is_v4();
        (v4 ? ip.address : ip.address6) =
            fmt::format("{}/{}", to_string(**node.address), (*spec.network.subnet)->prefix());
        (v4 ? ip.gateway : ip.gateway6) = to_string(**spec.network.gateway);
      }
      vm.ip_configs = {ip};
      for (const auto& server : spec.network.nameservers)
        vm.nameservers.push_back(to_string(*server));
    }
    return vm;
  }
  Uuid uuid(const spec::Node& node) const {
    return *Uuid::parse(fmt::format("6d1c4a2e-0000-4000-8000-{:012}", vmid(node)));
  }

  void create(const spec::Node& node) { create(node, machine(node)); }
  void create(const spec::Node&, const proxmox::VmCreate& vm) {
    const auto started = pve.start_create("pve1", vm);
    ASSERT_TRUE(std::holds_alternative<proxmox::Upid>(started));
    finish(std::get<proxmox::Upid>(started));
    finish(pve.start_vm("pve1", vm.vmid));
  }

  /// Where Proxmox's agent says it is.
  std::string address(const spec::Node& node) {
    if (const auto interfaces = pve.find_agent_interfaces("pve1", vmid(node)))
      for (const proxmox::AgentInterface& each : *interfaces)
        for (const auto& found : each.addresses)
          if (each.name != "lo" && (node.address ? found == **node.address : found.is_v4()))
            return to_string(found);
    return "";
  }

  talos::Client maintenance(const std::string& at) {
    return {wire, talos::Access::maintenance(at)};
  }
  talos::Client secure(const std::string& at) {
    if (admin_ == nullptr) {
      SeededEntropy entropy{6};
      const secrets::CertifiedKey made = secrets::mint_talos_client(
          bundle().authority(secrets::Authority::Os), {"os:admin"}, home.world.now(), entropy);
      admin_ = std::make_shared<net::Identity>(
          net::Identity{made.certificate.pem, standard(made.key.pem())});
    }
    return {wire, talos::Access::secure(at, bundle().os.crt, admin_)};
  }
  bool answers(const std::string& at) {
    try {
      secure(at).version();
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  bool in_maintenance(const std::string& at) {
    try {
      maintenance(at).disks();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  /// The hardware address of the link that has this address, as the machine itself says it.
  std::string link_at(const std::string& at) {
    talos::Client client = maintenance(at);
    for (const talos::Address& address : client.addresses())
      for (const talos::Link& link : client.links())
        if (to_string(address.address.address()) == at && link.name == address.link)
          return to_lower_string(link.mac);
    return "";
  }

  /// `at`: where a machine that was there before is, which must tell some of it itself.
  Secret config(const spec::Node& node, const std::string& first_address = "",
                const std::string& at = "") {
    talos::Surroundings around;
    if (talos::needs_link(spec, node) && !at.empty()) around.link = link_at(at);
    around.bundle = bundle();
    around.schematic = schematic(node);
    around.first_address = first_address;
    return talos::render_config(talos::config_input(spec, node, around)).text;
  }

  lab::Truth truth(const spec::Node& node) const { return home.estate.truth(vmid(node)); }

  lab::Home home;
  lab::InlineParker parker;
  lab::Wire wire;
  test::Administrator pve;
  MemoryFiles files;
  spec::Spec spec;

 private:
  /// OpenSSL does not know Talos's label.
  static Secret standard(const Secret& pem) {
    return Secret::take(replace_all(pem.reveal(), "ED25519 PRIVATE KEY", "PRIVATE KEY"));
  }

  std::set<std::string> downloaded_;
  std::shared_ptr<const net::Identity> admin_;
};

}  // namespace rocca::scenarios
