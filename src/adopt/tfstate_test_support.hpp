#pragma once

#include "secrets/bundle.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

// States as the providers write them, for tests.

namespace rocca::adopt {

/// One entry of `resources` with one instance.
inline std::string resource(const std::string& type, const std::string& name,
                            const std::string& attributes, const std::string& module = "",
                            const std::string& key = "") {
  return fmt::format(
      R"({{{}"mode": "managed", "type": "{}", "name": "{}", "provider": "provider[\"x\"]",
          "instances": [{{{}"schema_version": 0, "attributes": {}}}]}})",
      module.empty() ? "" : fmt::format("\"module\": \"{}\", ", module), type, name,
      key.empty() ? "" : fmt::format("\"index_key\": \"{}\", ", key), attributes);
}

inline std::string state(const std::vector<std::string>& resources,
                         const std::string& version = "4") {
  return fmt::format(
      R"({{"version": {}, "terraform_version": "1.10.6", "serial": 7, "lineage": "a-b-c",
          "outputs": {{}}, "resources": [{}]}})",
      version, fmt::join(resources, ",\n"));
}

/// The attributes of talos_machine_secrets.
inline std::string machine_secrets(const secrets::Bundle& bundle) {
  const text::Value yaml = secrets::to_value(bundle);
  const auto at = [&](std::initializer_list<std::string_view> path) {
    const text::Value* found = yaml.find(path);
    return text::emit_json(found == nullptr ? text::Value::null() : *found);
  };
  const auto pair = [&](const char* name) {
    return fmt::format(R"({{"cert": {}, "key": {}}})", at({"certs", name, "crt"}),
                       at({"certs", name, "key"}));
  };
  return fmt::format(
      R"({{"id": "machine_secrets", "talos_version": "v1.11.5", "client_configuration": {{}},
        "machine_secrets": {{
          "certs": {{"etcd": {}, "k8s": {}, "k8s_aggregator": {}, "os": {},
                     "k8s_serviceaccount": {{"key": {}}}}},
          "cluster": {{"id": {}, "secret": {}}},
          "secrets": {{"bootstrap_token": {}, "secretbox_encryption_secret": {},
                       "aescbc_encryption_secret": null}},
          "trustdinfo": {{"token": {}}}}}}})",
      pair("etcd"), pair("k8s"), pair("k8saggregator"), pair("os"),
      at({"certs", "k8sserviceaccount", "key"}), at({"cluster", "id"}), at({"cluster", "secret"}),
      at({"secrets", "bootstraptoken"}), at({"secrets", "secretboxencryptionsecret"}),
      at({"trustdinfo", "token"}));
}

struct BpgVm {
  unsigned vmid = 0;
  std::string host = "pve1";
  std::string name;
  std::string mac = {};
  std::string address = {};  // with its prefix length, or dhcp
  std::string gateway = "10.0.0.1";
};

/// The attributes of proxmox_virtual_environment_vm, as far as they matter, and some that do not.
inline std::string bpg_vm(const BpgVm& vm) {
  return fmt::format(
      R"({{"acpi": true, "agent": [{{"enabled": true, "timeout": "15m", "trim": false}}],
        "bios": "seabios", "cpu": [{{"cores": 2, "sockets": 1, "type": "host"}}],
        "id": "{0}", "vm_id": {0}, "node_name": "{1}", "name": "{2}",
        "initialization": [{{"datastore_id": "local-lvm", "interface": "ide2",
           "ip_config": [{{"ipv4": [{{"address": "{4}", "gateway": "{5}"}}], "ipv6": []}}]}}],
        "ipv4_addresses": [["127.0.0.1"], []], "ipv6_addresses": [],
        "mac_addresses": ["{3}"],
        "network_device": [{{"bridge": "vmbr0", "mac_address": "{3}", "model": "virtio"}}],
        "started": true, "tags": ["terraform"], "template": false}})",
      vm.vmid, vm.host, vm.name, vm.mac, vm.address, vm.gateway);
}

/// The attributes of proxmox_vm_qemu, Telmate's: text where bpg has blocks, an id with its host.
inline std::string telmate_vm(const BpgVm& vm) {
  return fmt::format(
      R"({{"agent": 1, "bios": "seabios", "boot": "order=scsi0", "ciuser": null, "cores": 2,
        "default_ipv4_address": "{4}", "desc": "Managed by Terraform.", "full_clone": true,
        "id": "{1}/qemu/{0}", "ipconfig0": "ip={3},gw={5}", "name": "{2}",
        "network": [{{"bridge": "vmbr0", "id": 0, "macaddr": "{6}", "model": "virtio", "tag": 0}}],
        "os_type": null, "tags": "k8s;talos", "target_node": "{1}", "vm_state": "running",
        "vmid": {0}}})",
      vm.vmid, vm.host, vm.name, vm.address, vm.address.substr(0, vm.address.find('/')), vm.gateway,
      vm.mac);
}

}  // namespace rocca::adopt
