#include "lab/data_centre.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/services/image_bytes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab {

namespace {

pve::Datacenter::Options options_of(const Home::Options& given) {
  pve::Datacenter::Options options;
  options.release = given.release;
  options.cluster = given.hosts.size() > 1 ? "home" : "";
  options.timing = given.timing;
  return options;
}

}  // namespace

Home::Home(const Options& options)
    : world({options.seed, options.start}),
      dc(world, options_of(options)),
      lans(world),
      estate(dc, factory, lans, options.node_timing),
      internet(world, dc.web, factory) {
  add_hosts(options);
  add_storages(options);
  add_users(options);
  add_lans(options);
  dc.recognise = recognise_image;
  // As somebody who keeps it there would have done it: { secret: proxmox.token }.
  internet.infisical.put(internet.project(), "prod", "/", "PROXMOX_TOKEN", token);
}

void Home::add_lans(const Options& options) {
  for (const Lans::Lan& lan : options.lans) lans.add(lan);
  const auto add = [&](const std::string& wire, const char* subnet) -> Lans::Lan {
    return {.wire = wire, .subnet = *Cidr::parse(subnet)};
  };
  Lans::Lan home = add("vmbr0", "10.0.0.0/16");
  home.gateway = IpAddress::parse("10.0.0.1");
  home.pool = AddressRange::parse("10.0.200.1-10.0.201.254");
  home.resolvers = {"10.0.0.1"};
  lans.add(std::move(home));
  for (const char* subnet :
       {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fd00::/8"})
    lans.add(add("vmbr0", subnet));
  for (const char* bridge : {"vmbr0", "vmbr1"})
    for (unsigned vlan = 10; vlan < 100; vlan += 10)
      for (const std::string& subnet :
           {fmt::format("10.{}.0.0/16", vlan), fmt::format("fd00:{}::/32", vlan)})
        lans.add(add(fmt::format("{}.{}", bridge, vlan), subnet.c_str()));
}

void Home::add_hosts(const Options& options) {
  for (std::size_t i = 0; i < options.hosts.size(); ++i) {
    std::string address = fmt::format("10.0.0.{}", 2 + i);
    if (i < options.addresses.size() && !options.addresses[i].empty())
      address = options.addresses[i];
    pve::Node& node = dc.add_node(options.hosts[i], address);
    for (const std::string& bridge : options.bridges) node.bridges[bridge] = {"", true, true};
    node.bridges["vmbr0"] = {address + "/16", false, true};
    node.bridges["vmbr1"] = {"", true, true};
    // A graphics card with its sound, alone in their group.
    node.pci["0000:01:00.0"] = {"10de:2231", "10de:147e", 14};
    node.pci["0000:01:00.1"] = {"10de:1aef", "10de:147e", 14};
  }
  // Who is reached by these names is the one whose fingerprint is shown, whatever the order given.
  std::vector<std::string> names = options.names;
  names.emplace_back("pve.home");
  for (const std::string& name : names) {
    world.network().set_name(name, first().address);
    dc.add_certificate_name(first().name, name);
  }
  for (const std::string& pool : options.pools) dc.access.pools[pool];
}

void Home::add_storages(const Options& options) {
  const auto add = [&](const char* id, const char* type, std::map<std::string, std::string> traits,
                       std::vector<std::string> content) {
    pve::Storage storage;
    storage.id = id;
    storage.type = type;
    storage.options = std::move(traits);
    storage.content = std::move(content);
    storage.shared = std::string_view(type) == "nfs";
    dc.storages.emplace(id, storage);
  };
  add("local", "dir", {{"path", "/var/lib/vz"}}, {"iso", "vztmpl", "backup", "import"});
  add("local-lvm", "lvmthin", {{"vgname", "pve"}, {"thinpool", "data"}}, {"images", "rootdir"});
  add("tank", "zfspool", {{"pool", "tank"}, {"sparse", "1"}}, {"images", "rootdir"});
  if (options.hosts.size() > 1)
    add("shared", "nfs",
        {{"server", "10.0.0.200"}, {"export", "/export/pve"}, {"path", "/mnt/pve/shared"}},
        {"images", "iso", "import", "backup"});
  for (const auto& [name, content] : options.storages) {
    if (content == std::set<std::string>{"images"})
      add(name.c_str(), "lvmthin", {{"vgname", name}, {"thinpool", "data"}}, {"images", "rootdir"});
    else
      add(name.c_str(), "dir", {{"path", "/mnt/" + name}}, {content.begin(), content.end()});
  }
}

void Home::add_users(const Options& options) {
  pve::Access& access = dc.access;
  access.users["root@pam"].password = "lab-root";
  const std::string all_powerful = dc.new_uuid();
  access.users["root@pam"].tokens["lab"] = {all_powerful, false, 0, "the lab's own"};
  root_token = "root@pam!lab=" + all_powerful;

  const std::string secret = dc.new_uuid();
  access.users["rocca@pve"].tokens["lab"] = {secret, true, 0, ""};
  token = "rocca@pve!lab=" + secret;
  std::set<std::string> machines{"VM.Allocate",       "VM.Audit",          "VM.Clone",
                                 "VM.Config.CDROM",   "VM.Config.CPU",     "VM.Config.Cloudinit",
                                 "VM.Config.Disk",    "VM.Config.HWType",  "VM.Config.Memory",
                                 "VM.Config.Network", "VM.Config.Options", "VM.Migrate",
                                 "VM.PowerMgmt"};
  machines.insert(dc.release.has_guest_agent_privileges() ? "VM.GuestAgent.Audit" : "VM.Monitor");
  if (!options.pools.empty()) machines.insert("Pool.Audit");
  access.roles["RoccaVM"] = machines;
  access.roles["RoccaDisk"] = {"Datastore.AllocateSpace", "Datastore.Audit"};
  access.roles["RoccaImage"] = {"Datastore.Allocate", "Datastore.AllocateSpace",
                                "Datastore.AllocateTemplate", "Datastore.Audit"};
  access.roles["RoccaNode"] = {"Sys.AccessNetwork", "Sys.Audit"};
  access.roles["RoccaNet"] = {"SDN.Audit", "SDN.Use"};
  access.roles["RoccaSee"] = {"Sys.Audit", "Sys.Syslog"};
  // A separated token needs every grant twice: itself and its user.
  for (const std::string who : {"rocca@pve", "rocca@pve!lab"}) {
    access.acl["/vms"][who]["RoccaVM"] = true;
    for (const auto& [id, storage] : dc.storages)
      access.acl["/storage/" + id][who][storage.allows("import") ? "RoccaImage" : "RoccaDisk"] =
          true;
    access.acl["/nodes"][who]["RoccaNode"] = true;
    for (const auto& [bridge, traits] : first().bridges)
      access.acl["/sdn/zones/localnetwork/" + bridge][who]["RoccaNet"] = true;
    for (const std::string& pool : options.pools)
      access.acl["/pool/" + pool][who]["RoccaVM"] = true;
    access.acl["/"][who]["RoccaSee"] = false;
  }
}

void without_latency(Home::Options& options) {
  pve::Timing& host = options.timing;
  for (Duration* each : {&host.handler, &host.light, &host.forward, &host.worker, &host.config,
                         &host.allocate, &host.start, &host.stop, &host.guest_shutdown})
    *each = Duration::zero();
  host.import_rate = std::uint64_t{1} << 50;
  talos::NodeTiming& node = options.node_timing;
  for (Duration* each : {&node.firmware, &node.network, &node.maintenance, &node.transition,
                         &node.service, &node.install, &node.etcd_pull, &node.etcd_start,
                         &node.etcd_healthy, &node.etcd_join, &node.etcd_jitter, &node.kubelet,
                         &node.static_pods, &node.node_ready, &node.shutdown, &node.upgrade})
    *each = Duration::zero();
  // What is tried again needs some pause, or a node would do nothing else.
  for (Duration* each : {&node.etcd_look, &node.etcd_ask, &node.etcd_promote})
    *each = std::chrono::milliseconds{50};
}

std::vector<std::string> parse_hosts(const std::string& text) {
  std::vector<std::string> hosts;
  if (const auto count = parse_uint(text)) {
    if (*count == 0 || *count > 64) throw Error(Fault::Usage, "the lab has 1 to 64 hosts");
    for (std::uint64_t i = 1; i <= *count; ++i) hosts.push_back(fmt::format("pve{}", i));
    return hosts;
  }
  for (const std::string& name : split(text, ',')) {
    if (!is_dns_label(name))
      throw Error(Fault::Usage, fmt::format("'{}' is no name for a host", name));
    if (std::find(hosts.begin(), hosts.end(), name) != hosts.end())
      throw Error(Fault::Usage, fmt::format("two hosts are called '{}'", name));
    hosts.push_back(name);
  }
  return hosts;
}

}  // namespace rocca::lab
