// The cloud-init drive: what is on it, and writing it anew.

#include "base/address.hpp"
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace rocca::lab::pve {

namespace {

std::string text_of(const Vm& vm, const char* key) {
  const std::string* value = vm.find(key);
  return value == nullptr ? "" : *value;
}

std::string user_data(const Vm& vm) {
  std::string host = text_of(vm, "name");
  if (host.empty()) host = fmt::format("VM{}", vm.id);
  std::string domain = text_of(vm, "searchdomain");
  if (const std::size_t dot = host.find('.'); dot != std::string::npos) {
    domain = host.substr(dot + 1);
    host = host.substr(0, dot);
  }
  std::string out = fmt::format("#cloud-config\nhostname: {}\nmanage_etc_hosts: true\n", host);
  if (!domain.empty()) out += fmt::format("fqdn: {}.{}\n", host, split_list(domain).front());
  const std::string user = text_of(vm, "ciuser");
  if (!user.empty()) out += fmt::format("user: {}\n", user);
  if (user == "root") out += "disable_root: False\n";
  if (const std::string password = text_of(vm, "cipassword"); !password.empty())
    out += fmt::format("password: {}\n", password);
  if (const std::string keys = text_of(vm, "sshkeys"); !keys.empty()) {
    out += "ssh_authorized_keys:\n";
    for (const std::string& line : split(percent_decode(keys), '\n'))
      if (!trim(line).empty()) out += fmt::format("  - {}\n", line);
  }
  out += "chpasswd:\n  expire: False\n";
  if (user != "root") out += "users:\n  - default\n";
  out += text_of(vm, "ciupgrade") == "0" ? "package_upgrade: false\n" : "package_upgrade: true\n";
  return out;
}

std::string netmask(unsigned prefix) {
  const std::uint32_t mask = prefix == 0 ? 0 : ~0u << (32 - prefix);
  return fmt::format("{}.{}.{}.{}", mask >> 24, mask >> 16 & 255, mask >> 8 & 255, mask & 255);
}

std::string network_config(const Datacenter& dc, const Vm& vm) {
  std::string out = "version: 1\nconfig:\n";
  for (unsigned i = 0; i < 32; ++i) {
    const std::string net = text_of(vm, fmt::format("net{}", i).c_str());
    const std::string ip = text_of(vm, fmt::format("ipconfig{}", i).c_str());
    if (net.empty() || ip.empty()) continue;
    out += fmt::format(
        "    - type: physical\n      name: eth{}\n      mac_address: '{}'\n      subnets:\n", i,
        to_lower(parse_keys(dc.schema, "net", net)["macaddr"]));
    Keys config = parse_keys(dc.schema, "pve-qm-ipconfig", ip);
    if (config["ip"] == "dhcp") {
      out += "      - type: dhcp4\n";
    } else if (const auto cidr = Cidr::parse(config["ip"])) {
      out += fmt::format("      - type: static\n        address: '{}'\n        netmask: '{}'\n",
                         config["ip"].substr(0, config["ip"].find('/')), netmask(cidr->prefix()));
      if (!config["gw"].empty()) out += fmt::format("        gateway: '{}'\n", config["gw"]);
    }
    if (config["ip6"] == "dhcp") {
      out += "      - type: dhcp6\n";
    } else if (config["ip6"] == "auto") {
      out += "      - type: ipv6_slaac\n";
    } else if (!config["ip6"].empty() && config["ip6"] != "manual") {
      out += fmt::format("      - type: static6\n        address: '{}'\n", config["ip6"]);
      if (!config["gw6"].empty()) out += fmt::format("        gateway: '{}'\n", config["gw6"]);
    }
  }
  std::vector<std::string> servers = split_list(text_of(vm, "nameserver"));
  const std::vector<std::string> domains = split_list(text_of(vm, "searchdomain"));
  if (servers.empty()) servers.push_back("192.0.2.53");  // the host's resolv.conf
  out += "    - type: nameserver\n      address:\n";
  for (const std::string& server : servers) out += fmt::format("      - '{}'\n", server);
  if (!domains.empty()) out += "      search:\n";
  for (const std::string& domain : domains) out += fmt::format("      - '{}'\n", domain);
  return out;
}

std::string sha1(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha1(), nullptr);
  return to_hex({reinterpret_cast<const char*>(out.data()), size});
}

Routine<text::Value> dump(Call& call) {
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  const std::string type = call.params.text("type");
  if (type == "user") co_return string(user_data(vm));
  if (type == "network") co_return string(network_config(call.dc, vm));
  co_return string(cloudinit_files(call.dc, vm).meta_data);
}

Routine<text::Value> view(Call& call) {
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  text::Value rows = text::Value::list();
  for (const char* key : {"cicustom", "cipassword", "citype", "ciuser", "ciupgrade", "nameserver",
                          "searchdomain", "sshkeys"})
    if (const std::string* value = vm.find(key))
      rows.append(object({{"key", string(key)}, {"value", json_of(call.dc.schema, key, *value)}}));
  co_return rows;
}

Routine<text::Value> regenerate(Call& call) {
  call.dc.get_vm(call.vmid(), call.node);
  const Locks::Guard lock = co_await call.lock_vm(call.vmid());
  check_lock(call.dc.get_vm(call.vmid(), call.node));
  co_await regenerate_cloudinit({call, nullptr}, call.vmid());
  co_return text::Value::null();
}

}  // namespace

CloudInitFiles cloudinit_files(const Datacenter& dc, const Vm& vm) {
  CloudInitFiles files{user_data(vm), network_config(dc, vm), ""};
  files.meta_data = fmt::format("instance-id: {}\n", sha1(files.user_data + files.network_config));
  return files;
}

Routine<void> regenerate_cloudinit(Job job, unsigned vmid) {
  std::optional<Drive> drive;
  {
    const Vm& vm = job.dc().get_vm(vmid, job.process.node);
    const auto key = find_cloudinit(job.dc().schema, vm.config);
    if (!key) co_return;
    drive = parse_drive(job.dc().schema, *key, vm.config.at(*key));
    if (const std::string* custom = vm.find("cicustom"))
      for (const auto& [what, volid] : parse_keys(job.dc().schema, "pve-qm-cicustom", *custom))
        activate(job.process, volid);
  }
  job.log("generating cloud-init ISO");
  co_await job.process.sleep(job.dc().timing.config);
  if (job.dc().find_volume(drive->file(), job.process.node) != nullptr) co_return;
  const auto id = VolumeId::parse(drive->file());
  const Storage& storage = job.dc().get_storage_on(id->storage, job.process.node);
  Allocation what;
  what.storage = id->storage;
  what.vmid = vmid;
  what.format = parse_volume_name(storage, id->name).format;
  what.name = fmt::format("vm-{}-cloudinit", vmid);
  what.bytes = 4ull << 20;
  co_await allocate(job, what);
}

std::vector<Route> qemu_cloudinit_routes() {
  return {
      {"GET /nodes/{node}/qemu/{vmid}/cloudinit", view},
      {"PUT /nodes/{node}/qemu/{vmid}/cloudinit", regenerate},
      {"GET /nodes/{node}/qemu/{vmid}/cloudinit/dump", dump},
  };
}

}  // namespace rocca::lab::pve
