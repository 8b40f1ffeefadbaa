#include "base/address.hpp"
#include "base/strings.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

Routine<text::Value> list_nodes(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [name, node] : call.dc.nodes()) {
    text::Value row = node_resource(call.dc, *node, call.may("/nodes/" + name, {"Sys.Audit"}));
    row.set("ssl_fingerprint", string(to_string(node->fingerprint)));
    rows.append(std::move(row));
  }
  co_return rows;
}

Routine<text::Value> node_index(Call& call) {
  text::Value rows = text::Value::list();
  for (const char* name : {"aplinfo",     "apt",          "capabilities",
                           "ceph",        "certificates", "config",
                           "disks",       "dns",          "firewall",
                           "hardware",    "hosts",        "journal",
                           "lxc",         "migrateall",   "netstat",
                           "network",     "qemu",         "query-url-metadata",
                           "replication", "report",       "rrd",
                           "rrddata",     "scan",         "services",
                           "spiceshell",  "startall",     "status",
                           "stopall",     "storage",      "subscription",
                           "suspendall",  "syslog",       "tasks",
                           "termproxy",   "time",         "version",
                           "vncshell",    "vzdump",       "wakeonlan",
                           "sdn"})
    rows.append(object({{"name", string(name)}}));
  if (call.dc.release.nine()) rows.append(object({{"name", string("query-oci-repo-tags")}}));
  co_return rows;
}

Routine<text::Value> status(Call& call) {
  const Node& node = call.node;
  const Release& release = call.dc.release;
  const auto bytes = [](std::uint64_t value) { return number(static_cast<std::int64_t>(value)); };
  text::Value memory = object({{"total", bytes(node.memory)},
                               {"used", bytes(node.memory / 4)},
                               {"free", bytes(node.memory - node.memory / 4)}});
  if (release.nine()) memory.set("available", bytes(node.memory - node.memory / 4));
  text::Value cpu = object({{"cores", number(node.cpus / 2 == 0 ? 1 : node.cpus / 2)},
                            {"cpus", number(node.cpus)},
                            {"flags", string("fpu vme sse4_2 aes avx avx2 vmx")},
                            {"hvm", string("1")},
                            {"mhz", string("2600.000")},
                            {"model", string("Simulated CPU")},
                            {"sockets", number(1)},
                            {"user_hz", number(100)}});
  if (release.nine()) {
    cpu.set("family", string("6"));
    cpu.set("vendor", string("GenuineIntel"));
  }
  co_return object(
      {{"boot-info", object({{"mode", string("efi")}})},
       {"cpu", number(0)},
       {"cpuinfo", cpu},
       {"current-kernel", object({{"machine", string("x86_64")},
                                  {"release", string(release.kernel)},
                                  {"sysname", string("Linux")},
                                  {"version", string("#1 SMP PREEMPT_DYNAMIC PMX")}})},
       {"idle", number(0)},
       {"ksm", object({{"shared", number(0)}})},
       {"kversion", string("Linux " + release.kernel + " #1 SMP PREEMPT_DYNAMIC PMX")},
       {"loadavg", text::Value::list({string("0.10"), string("0.08"), string("0.05")})},
       {"memory", memory},
       {"pveversion", string(fmt::format("pve-manager/{}/{}", release.manager, release.repoid))},
       {"rootfs", object({{"avail", bytes(80ull << 30)},
                          {"free", bytes(88ull << 30)},
                          {"total", bytes(96ull << 30)},
                          {"used", bytes(8ull << 30)}})},
       {"swap",
        object({{"free", bytes(8ull << 30)}, {"total", bytes(8ull << 30)}, {"used", number(0)}})},
       {"uptime",
        number(std::chrono::duration_cast<std::chrono::seconds>(call.world().now() - node.booted)
                   .count())},
       {"wait", number(0)}});
}

Routine<text::Value> time_of_node(Call& call) {
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(call.world().outside().time_since_epoch())
          .count();
  co_return object(
      {{"localtime", number(now)}, {"time", number(now)}, {"timezone", string("UTC")}});
}

/// Bridges need SDN.Audit or SDN.Use on localnetwork; without it they are left out in silence.
Routine<text::Value> network(Call& call) {
  const std::string type = call.params.text("type");
  const bool bridges = type.empty() || type == "bridge" || type == "any_bridge" ||
                       type == "any_local_bridge" || type == "include_sdn";
  const bool others = type.empty() || type == "eth" || type == "include_sdn";
  text::Value rows = text::Value::list();
  const text::Value families = text::Value::list({string("inet")});
  if (others)
    rows.append(object({{"iface", string("eno1")},
                        {"type", string("eth")},
                        {"method", string("manual")},
                        {"method6", string("manual")},
                        {"families", families},
                        {"priority", number(3)}}));
  std::int64_t priority = 3;
  for (const auto& [name, bridge] : call.node.bridges) {
    ++priority;
    if (!bridges || !call.may("/sdn/zones/localnetwork/" + name, {"SDN.Audit", "SDN.Use"}, true))
      continue;
    text::Value row = object({{"iface", string(name)},
                              {"type", string("bridge")},
                              {"autostart", number(1)},
                              {"bridge_fd", string("0")},
                              {"bridge_stp", string("off")},
                              {"bridge_ports", string(bridge.cidr.empty() ? "" : "eno1")},
                              {"families", families},
                              {"method", string(bridge.cidr.empty() ? "manual" : "static")},
                              {"method6", string("manual")},
                              {"priority", number(priority)}});
    if (bridge.active) row.set("active", number(1));
    if (const auto cidr = Cidr::parse(bridge.cidr)) {
      row.set("cidr", string(bridge.cidr));
      row.set("address", string(to_string(cidr->address())));
      row.set("netmask", string(std::to_string(cidr->prefix())));
      if (const auto gateway = cidr->network().plus(1))
        row.set("gateway", string(to_string(*gateway)));
    }
    if (bridge.vlan_aware) {
      row.set("bridge_vlan_aware", number(1));
      row.set("bridge_vids", string("2-4094"));
    }
    rows.append(std::move(row));
  }
  // Whatever a NIC can be plugged into: the VNets of SDN zones too, each by its own rights.
  if (type == "any_bridge" || type == "include_sdn")
    for (const auto& [id, vnet] : call.dc.vnets) {
      const auto zone = vnet.find("zone");
      if (zone == vnet.end() ||
          !call.may("/sdn/zones/" + zone->second + "/" + id, {"SDN.Audit", "SDN.Use"}, true))
        continue;
      rows.append(object({{"iface", string(id)}, {"type", string("vnet")}, {"active", number(1)}}));
    }
  co_return rows;
}

text::Value certificate(const std::string& file, const std::string& pem) {
  const CertificateFacts facts = certificate_facts(pem);
  text::Value names = text::Value::list();
  for (const std::string& name : facts.names) names.append(string(name));
  return object(
      {{"filename", string(file)},
       {"fingerprint", string(to_string(net::Fingerprint::of_der(*first_certificate_der(pem))))},
       {"issuer", string(facts.issuer)},
       {"subject", string(facts.subject)},
       {"notbefore", number(facts.not_before)},
       {"notafter", number(facts.not_after)},
       {"pem", string(pem)},
       {"public-key-bits", number(facts.key_bits)},
       {"public-key-type", string(facts.key_type)},
       {"san", names}});
}

Routine<text::Value> certificates(Call& call) {
  co_return text::Value::list({certificate("pve-root-ca.pem", call.dc.authority.certificate_pem()),
                               certificate("pve-ssl.pem", call.node.identity.certificate_pem)});
}

/// The machine versions a QEMU knows: its own and every older one.
Routine<text::Value> machines(Call& call) {
  static const std::vector<std::string> versions{
      "10.1", "10.0", "9.2",  "9.1", "9.0", "8.2", "8.1", "8.0", "7.2", "7.1", "7.0",
      "6.2",  "6.1",  "6.0",  "5.2", "5.1", "5.0", "4.2", "4.1", "4.0", "3.1", "3.0",
      "2.12", "2.11", "2.10", "2.9", "2.8", "2.7", "2.6", "2.5", "2.4"};
  static const std::vector<std::string> ancient{"2.3", "2.2", "2.1", "2.0",
                                                "1.7", "1.6", "1.5", "1.4"};
  const auto key = [](const std::string& version) {
    const std::vector<std::string> parts = split(version, '.');
    return std::pair{parse_uint(parts.at(0)).value_or(0), parse_uint(parts.at(1)).value_or(0)};
  };
  text::Value rows = text::Value::list();
  const auto add = [&](const char* prefix, const char* type, const std::string& version,
                       const char* changes) {
    text::Value row = object(
        {{"id", string(prefix + version)}, {"type", string(type)}, {"version", string(version)}});
    if (changes != nullptr) row.set("changes", string(changes));
    rows.append(std::move(row));
  };
  for (const auto& [prefix, type] :
       {std::pair{"pc-q35-", "q35"}, std::pair{"pc-i440fx-", "i440fx"}}) {
    const bool q35 = std::string_view(type) == "q35";
    for (const std::string& version : versions) {
      if (key(version) > key(call.dc.release.qemu)) continue;
      if (version == "4.1") {
        add(prefix, type, "4.1+pve2", "Increases the number of SCSI drives supported.");
        add(prefix, type, "4.1+pve1", "Introduction of pveX versioning, no changes.");
      }
      if (version == "9.2" || version == "10.0" || version == "10.1")
        add(prefix, type, version + "+pve1", nullptr);
      if (version == "4.0" && q35) add(prefix, type, "4.0.1", nullptr);
      add(prefix, type, version, nullptr);
    }
    for (const std::string& version : ancient)
      if (!q35) add(prefix, type, version, nullptr);
  }
  co_return rows;
}

Routine<text::Value> cpus(Call&) {
  static const std::vector<std::pair<const char*, const char*>> models{
      {"GenuineIntel",
       "486 Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS Cascadelake-Server "
       "Cascadelake-Server-noTSX "
       "Cascadelake-Server-v2 Cascadelake-Server-v4 Cascadelake-Server-v5 Conroe Cooperlake "
       "Cooperlake-v2 GraniteRapids "
       "Haswell Haswell-IBRS Haswell-noTSX Haswell-noTSX-IBRS Icelake-Client Icelake-Client-noTSX "
       "Icelake-Server "
       "Icelake-Server-noTSX Icelake-Server-v3 Icelake-Server-v4 Icelake-Server-v5 "
       "Icelake-Server-v6 IvyBridge "
       "IvyBridge-IBRS KnightsMill Nehalem Nehalem-IBRS Penryn SandyBridge SandyBridge-IBRS "
       "SapphireRapids "
       "SapphireRapids-v2 Skylake-Client Skylake-Client-IBRS Skylake-Client-noTSX-IBRS "
       "Skylake-Client-v4 Skylake-Server "
       "Skylake-Server-IBRS Skylake-Server-noTSX-IBRS Skylake-Server-v4 Skylake-Server-v5 Westmere "
       "Westmere-IBRS "
       "core2duo coreduo pentium pentium2 pentium3"},
      {"AuthenticAMD",
       "EPYC EPYC-Genoa EPYC-IBPB EPYC-Milan EPYC-Milan-v2 EPYC-Rome EPYC-Rome-v2 EPYC-Rome-v3 "
       "EPYC-Rome-v4 EPYC-v3 "
       "EPYC-v4 Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 athlon phenom"},
      {"default",
       "host kvm32 kvm64 max qemu32 qemu64 x86-64-v2 x86-64-v2-AES x86-64-v3 x86-64-v4"}};
  text::Value rows = text::Value::list();
  for (const auto& [vendor, names] : models)
    for (const std::string& name : split(names, ' '))
      rows.append(
          object({{"name", string(name)}, {"vendor", string(vendor)}, {"custom", number(0)}}));
  co_return rows;
}

Routine<text::Value> interface(Call& call) {
  const std::string name = call.params.text("iface");
  const auto bridge = call.node.bridges.find(name);
  if (bridge == call.node.bridges.end() && name != "eno1")
    refuse_parameter("iface", "interface does not exist");
  text::Value row = object({{"type", string(name == "eno1" ? "eth" : "bridge")},
                            {"method", string("manual")},
                            {"method6", string("manual")},
                            {"priority", number(3)}});
  co_return row;
}

Routine<text::Value> node_zones(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [id, zone] : call.dc.zones)
    if (call.may("/sdn/zones/" + id, {"SDN.Audit"}))
      rows.append(object({{"zone", string(id)}, {"status", string("available")}}));
  if (call.may("/sdn/zones/localnetwork", {"SDN.Audit"}))
    rows.append(object({{"zone", string("localnetwork")}, {"status", string("available")}}));
  co_return rows;
}

}  // namespace

std::vector<Route> node_routes() {
  return {
      {"GET /nodes", list_nodes},
      {"GET /nodes/{node}", node_index},
      {"GET /nodes/{node}/status", status},
      {"GET /nodes/{node}/time", time_of_node},
      {"GET /nodes/{node}/network", network},
      {"GET /nodes/{node}/network/{iface}", interface},
      {"GET /nodes/{node}/certificates/info", certificates},
      {"GET /nodes/{node}/capabilities/qemu/machines", machines},
      {"GET /nodes/{node}/capabilities/qemu/cpu", cpus},
      {"GET /nodes/{node}/sdn/zones", node_zones},
  };
}

}  // namespace rocca::lab::pve
