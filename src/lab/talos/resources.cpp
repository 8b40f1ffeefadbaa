#include "base/strings.hpp"
#include "lab/talos/node.hpp"
#include "proto/cosi_meta.pb.h"
#include "proto/events.pb.h"
#include "proto/spec_block.pb.h"
#include "proto/spec_cluster.pb.h"
#include "proto/spec_config.pb.h"
#include "proto/spec_etcd.pb.h"
#include "proto/spec_extensions.pb.h"
#include "proto/spec_hardware.pb.h"
#include "proto/spec_k8s.pb.h"
#include "proto/spec_network.pb.h"
#include "proto/spec_runtime.pb.h"
#include "proto/spec_time.pb.h"
#include "proto/spec_v1alpha1.pb.h"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace spec = rocca::proto::spec;

namespace {

std::string raw(const IpAddress& address) {
  const auto& bytes = address.bytes();
  const auto* data = reinterpret_cast<const char*>(bytes.data());
  return address.is_v4() ? std::string(data + 12, 4) : std::string(data, 16);
}

void fill(const Cidr& cidr, rocca::proto::common::NetIPPrefix& out) {
  out.set_ip(raw(cidr.address()));
  out.set_prefix_length(static_cast<int>(cidr.prefix()));
}

std::string yaml_list(const std::string& key, const std::vector<std::string>& items) {
  if (items.empty()) return key + ": []\n";
  std::string out = key + ":\n";
  for (const std::string& item : items) out += "    - " + yaml_string(item) + "\n";
  return out;
}

/// Names that Talos gives to a kind beside those that are made of its own.
std::vector<std::string> given_names(std::string_view type) {
  constexpr std::pair<std::string_view, std::string_view> all[] = {
      {"MetaKeys.", "meta"},
      {"ExtensionStatuses.", "extensions"},
      {"KernelParamStatuses.", "sysctls kernelparameters kernelparams"},
      {"StaticPodStatuses.", "podstatus"},
      {"NetworkStatuses.", "netstatus netstatuses"},
      {"LinkStatuses.", "link links"},
      {"ProbeStatuses.", "probe probes"},
      {"TimeServerStatuses.", "timeserver timeservers"},
      {"AddressStatuses.", "address addresses"},
      {"ResolverStatuses.", "resolvers"},
      {"HostnameStatuses.", "hostname"},
      {"RouteStatuses.", "route routes"},
      {"Services.", "svc"},
      {"SystemInformations.", "systeminformation"},
  };
  for (const auto& [prefix, names] : all)
    if (type.starts_with(prefix)) return split(names, ' ');
  return {};
}

const char* boolean(bool value) {
  return value ? "true" : "false";
}

}  // namespace

void TalosNode::publish_definitions() {
  for (const ResourceKind& kind : resource_kinds()) {
    rocca::proto::cosi::resource::meta::ResourceDefinitionSpec definition;
    definition.set_resource_type(kind.type);
    const std::string plural = kind.type.substr(0, kind.type.find('.'));
    std::string single = plural;
    if (single.ends_with("sses"))
      single.resize(single.size() - 2);
    else if (single.ends_with("tatuses") || single.ends_with("esses"))
      single.resize(single.size() - 2);
    else if (single.ends_with("ies"))
      single = single.substr(0, single.size() - 3) + "y";
    else if (single.ends_with("s") && !single.ends_with("ss"))
      single.resize(single.size() - 1);
    definition.set_display_type(single);
    definition.set_default_namespace(kind.space);
    std::vector<std::string> aliases{to_lower(plural), to_lower(single)};
    if (plural == "MachineConfigs") {
      aliases.insert(aliases.end(), {"mc"});
    } else {
      // Capital letters make the short name: MachineStatus is ms.
      std::string initials;
      for (const char c : single)
        if (c >= 'A' && c <= 'Z') initials.push_back(static_cast<char>(c - 'A' + 'a'));
      if (initials.size() > 1) aliases.push_back(initials);
    }
    for (const std::string& name : given_names(kind.type))
      if (std::find(aliases.begin(), aliases.end(), name) == aliases.end()) aliases.push_back(name);
    for (const std::string& alias : aliases) {
      definition.add_aliases(alias);
      definition.add_all_aliases(alias);
    }
    definition.add_all_aliases(to_lower(kind.type));
    std::string columns;
    for (const auto& [name, path] : kind.columns) {
      auto& column = *definition.add_print_columns();
      column.set_name(name);
      column.set_json_path(path);
      columns += fmt::format("    - name: {}\n      jsonPath: '{}'\n", name, path);
    }
    if (kind.sensitive)
      definition.set_sensitivity(
          rocca::proto::cosi::resource::meta::ResourceDefinitionSpec::SENSITIVE);
    store_.set("meta", "ResourceDefinitions.meta.cosi.dev", to_lower(kind.type), "meta",
               definition.SerializeAsString(),
               fmt::format("type: {}\ndisplayType: {}\naliases: [{}]\ndefaultNamespace: {}\n"
                           "printColumns:{}{}sensitivity: {}\n",
                           kind.type, single, join(aliases, ", "), kind.space,
                           columns.empty() ? " []\n" : "\n", columns,
                           kind.sensitive ? "sensitive" : "\"\""));
  }
}

void TalosNode::publish_network() {
  const std::string space = "network";
  for (const Link& link : machine_.links) {
    spec::network::LinkStatusSpec status;
    const auto mac = MacAddress::parse(link.mac).value_or(MacAddress{});
    const std::string bytes(reinterpret_cast<const char*>(mac.bytes().data()), 6);
    const bool container = in_container();
    const auto index = static_cast<unsigned>(&link - machine_.links.data()) + 2;
    status.set_index(index);
    status.set_type(spec::enums::LINK_ETHER);
    status.set_hardware_addr(bytes);
    if (!container) status.set_permanent_addr(bytes);
    status.set_broadcast_addr(std::string(6, '\xff'));
    const auto known = network_.mtus.find(link.name);
    const unsigned mtu = known == network_.mtus.end() ? link.mtu : known->second;
    status.set_mtu(mtu);
    status.set_link_state(true);
    status.set_driver(container ? "veth" : "virtio_net");
    status.set_kind(container ? "veth" : "");
    store_.set(
        space, "LinkStatuses.net.talos.dev", link.name, "network.LinkStatusController",
        status.SerializeAsString(),
        fmt::format("index: {}\ntype: ether\nlinkIndex: {}\nflags: "
                    "UP,BROADCAST,RUNNING,MULTICAST,LOWER_UP\nhardwareAddr: {}\npermanentAddr: "
                    "{}\nbroadcastAddr: ff:ff:ff:ff:ff:ff\nmtu: {}\nqueueDisc: "
                    "{}\noperationalState: up\nkind: {}\nslaveKind: \"\"\ndriver: "
                    "{}\ndriverVersion: {}\nlinkState: true\nspeedMbit: {}\nport: {}\nduplex: "
                    "{}\n",
                    index, container ? index + 1 : 0, to_lower_string(mac),
                    container ? "\"\"" : to_lower_string(mac), mtu,
                    container ? "noqueue" : "pfifo_fast", container ? "veth" : "\"\"",
                    container ? "veth" : "virtio_net", container ? "\"1.0\"" : "1.0.0",
                    container ? 10000 : 4294967295u, container ? "TwistedPair" : "Other",
                    container ? "Full" : "Unknown"));
  }
  if (!network_ready_) return;
  std::vector<std::string> all;
  spec::network::NodeAddressSpec addresses;
  for (const Address& each : network_.addresses) {
    fill(each.cidr, *addresses.add_addresses());
    all.push_back(to_string(each.cidr));
    spec::network::AddressStatusSpec status;
    fill(each.cidr, *status.mutable_address());
    status.mutable_local()->set_ip(raw(each.cidr.address()));
    const auto link = std::find_if(machine_.links.begin(), machine_.links.end(),
                                   [&](const Link& one) { return one.name == each.link; });
    const auto index = static_cast<unsigned>(link - machine_.links.begin()) + 2;
    status.set_link_index(index);
    status.set_link_name(each.link);
    const bool v4 = each.cidr.address().is_v4();
    status.set_family(v4 ? spec::enums::FAMILY_INET4 : spec::enums::FAMILY_INET6);
    status.set_flags(128);
    store_.set(space, "AddressStatuses.net.talos.dev",
               fmt::format("{}/{}", each.link, to_string(each.cidr)),
               "network.AddressStatusController", status.SerializeAsString(),
               fmt::format("address: {}\nlinkIndex: {}\nlinkName: {}\nfamily: {}\nscope: "
                           "global\nflags: permanent\npriority: 0\n",
                           to_string(each.cidr), index, each.link, v4 ? "inet4" : "inet6"));
  }
  std::vector<SharedAddress> more = owned_;
  more.insert(more.end(), held_.begin(), held_.end());
  for (const SharedAddress& shared : more)
    if (const auto address = IpAddress::parse(shared.address)) {
      const Cidr cidr(*address, address->is_v4() ? 32 : 128);
      spec::network::AddressStatusSpec status;
      fill(cidr, *status.mutable_address());
      status.set_link_name(shared.link);
      status.set_family(address->is_v4() ? spec::enums::FAMILY_INET4 : spec::enums::FAMILY_INET6);
      store_.set(space, "AddressStatuses.net.talos.dev",
                 fmt::format("{}/{}", shared.link, to_string(cidr)),
                 "network.AddressStatusController", status.SerializeAsString(),
                 fmt::format("address: {}\nlinkName: {}\nfamily: inet4\nscope: global\n",
                             to_string(cidr), shared.link));
    }
  // Its tailnet gives it one more, out of the range that carriers share among their customers.
  if (fleet_.tailnet_open && service_running("ext-tailscale") && !network_.addresses.empty()) {
    const auto address = IpAddress::parse(fmt::format("100.64.{}", [&] {
      const std::string own = to_string(network_.addresses.front().cidr.address());
      const auto parts = split(own, '.');
      return parts.size() == 4 ? parts[2] + "." + parts[3] : std::string("0.1");
    }()));
    if (address) {
      const Cidr cidr(*address, 32);
      spec::network::AddressStatusSpec status;
      fill(cidr, *status.mutable_address());
      status.set_link_name("tailscale0");
      status.set_family(spec::enums::FAMILY_INET4);
      store_.set(space, "AddressStatuses.net.talos.dev", "tailscale0/" + to_string(cidr),
                 "network.AddressStatusController", status.SerializeAsString(),
                 fmt::format("address: {}\nlinkName: tailscale0\nfamily: inet4\nscope: global\n",
                             to_string(cidr)));
    }
  }
  const std::string yaml = yaml_list("addresses", all) + "sortAlgorithm: v1\n";
  for (const char* id : {"default", "current", "routed", "accumulative", "current-no-k8s"}) {
    if (std::string_view(id) == "default" && !addresses.addresses().empty()) {
      spec::network::NodeAddressSpec first;
      *first.add_addresses() = addresses.addresses(0);
      store_.set(space, "NodeAddresses.net.talos.dev", id, "network.NodeAddressController",
                 first.SerializeAsString(),
                 yaml_list("addresses", {all.front()}) + "sortAlgorithm: v1\n");
      continue;
    }
    store_.set(space, "NodeAddresses.net.talos.dev", id, "network.NodeAddressController",
               addresses.SerializeAsString(), yaml);
  }
  spec::network::HostnameStatusSpec hostname;
  hostname.set_hostname(hostname_);
  hostname.set_domainname(network_.domain);
  store_.set(space, "HostnameStatuses.net.talos.dev", "hostname", "network.HostnameSpecController",
             hostname.SerializeAsString(),
             fmt::format("hostname: {}\ndomainname: {}\n", yaml_string(hostname_),
                         network_.domain.empty() ? "\"\"" : network_.domain));
  spec::network::ResolverStatusSpec resolvers;
  for (const std::string& server : network_.resolvers)
    if (const auto address = IpAddress::parse(server))
      resolvers.add_dns_servers()->set_ip(raw(*address));
  store_.set(space, "ResolverStatuses.net.talos.dev", "resolvers", "network.ResolverSpecController",
             resolvers.SerializeAsString(),
             yaml_list("dnsServers", network_.resolvers) + "searchDomains: []\n");
  std::string servers;
  for (const std::string& server : network_.time_servers) put_bytes(servers, 1, server);
  store_.set(space, "TimeServerStatuses.net.talos.dev", "timeservers",
             "network.TimeServerSpecController", servers,
             yaml_list("timeServers", network_.time_servers));
  for (const Route& route : network_.routes) {
    spec::network::RouteStatusSpec status;
    if (const auto to = Cidr::parse(route.destination)) fill(*to, *status.mutable_destination());
    if (const auto via = IpAddress::parse(route.gateway))
      status.mutable_gateway()->set_ip(raw(*via));
    status.set_out_link_name(route.link);
    status.set_priority(route.metric);
    store_.set(
        space, "RouteStatuses.net.talos.dev",
        fmt::format("{}/{}/{}/{}/{}", route.link, route.family(), route.gateway, route.destination,
                    route.metric),
        "network.RouteStatusController", status.SerializeAsString(),
        fmt::format("family: {}\ndst: \"{}\"\nsrc: \"\"\ngateway: {}\noutLinkName: "
                    "{}\ntable: main\npriority: {}\nscope: global\ntype: unicast\nflags: "
                    "\"\"\nprotocol: static\n",
                    route.family(), route.destination, route.gateway, route.link, route.metric));
  }
  spec::network::StatusSpec status;
  status.set_address_ready(true);
  status.set_connectivity_ready(true);
  status.set_hostname_ready(true);
  status.set_etc_files_ready(true);
  store_.set(space, "NetworkStatuses.net.talos.dev", "status", "network.StatusController",
             status.SerializeAsString(),
             "addressReady: true\nconnectivityReady: true\nhostnameReady: true\netcFilesReady: "
             "true\n");
}

void TalosNode::publish_config() {
  spec::config::MachineTypeSpec type;
  if (config_)
    type.set_machine_type(is_control_plane() ? spec::config::CONTROL_PLANE : spec::config::WORKER);
  store_.set("config", "MachineTypes.config.talos.dev", "machine-type",
             "config.MachineTypeController", type.SerializeAsString(),
             !config_             ? "unknown\n"
             : is_control_plane() ? "controlplane\n"
                                  : "worker\n");
  if (!config_) return;
  const auto put = [&](const char* id, const std::string& text) {
    spec::config::MachineConfigSpec config;
    config.set_yaml_marshalled(text);
    store_.set("config", "MachineConfigs.config.talos.dev", id, "config.AcquireController",
               config.SerializeAsString(),
               release_.minor() >= 12 ? yaml_string(text) + "\n" : text);
  };
  put("v1alpha1", config_->text());
  if (release_.minor() >= 10) put("persistent", disk_.config.value_or(config_->text()));
  for (const char* key : {"sysctls"})
    if (const text::Value* params = config_->main()->find({"machine", key}))
      for (const text::Entry& entry : params->entries()) {
        std::string proto;
        put_bytes(proto, 1, entry.value.text());
        store_.set(
            "runtime", "KernelParamSpecs.runtime.talos.dev", "proc.sys." + entry.key,
            "runtime.KernelParamConfigController", proto,
            fmt::format("value: {}\nignoreErrors: false\n", yaml_string(entry.value.text())));
      }
}

void TalosNode::publish_members() {
  if (!config_ || config_->get({"cluster", "discovery", "enabled"}) == "false") return;
  for (const TalosNode* node : fleet_.nodes()) {
    if (!node->config_ || node->hostname_.empty() ||
        node->config_->get({"cluster", "id"}) != config_->get({"cluster", "id"}) ||
        node->config_->get({"cluster", "secret"}) != config_->get({"cluster", "secret"}))
      continue;
    publish_affiliate(*node);
    spec::cluster::MemberSpec member;
    member.set_node_id(node->disk_.node_id);
    std::vector<std::string> addresses;
    for (const Address& each : node->network_.addresses) {
      member.add_addresses()->set_ip(raw(each.cidr.address()));
      addresses.push_back(to_string(each.cidr.address()));
    }
    const bool control_plane = node->is_control_plane();
    member.set_hostname(node->hostname_);
    member.set_machine_type(control_plane ? spec::enums::TYPE_CONTROL_PLANE
                                          : spec::enums::TYPE_WORKER);
    const std::string system = fmt::format("Talos (v{})", to_string(node->release_));
    member.set_operating_system(system);
    if (control_plane) member.mutable_control_plane()->set_api_server_port(6443);
    store_.set("cluster", "Members.cluster.talos.dev", node->hostname_, "cluster.MemberController",
               member.SerializeAsString(),
               fmt::format("nodeId: {}\n{}hostname: {}\nmachineType: {}\noperatingSystem: {}\n{}",
                           node->disk_.node_id, yaml_list("addresses", addresses),
                           yaml_string(node->hostname_), control_plane ? "controlplane" : "worker",
                           system, control_plane ? "controlPlane:\n    port: 6443\n" : ""));
  }
}

void TalosNode::publish_status() {
  Unmet unmet;
  if (stage_ == Stage::Booting || stage_ == Stage::Running) {
    if (!time_synced_)
      unmet.emplace_back("time",
                         "resource TimeStatuses.v1alpha1.talos.dev(runtime/node@undefined) doesn't "
                         "exist");
    if (!network_ready_) unmet.emplace_back("network", "waiting on: address, etc-files, hostname");
    std::vector<std::string> wanted{"apid", "machined", "kubelet"}, missing;
    if (is_control_plane()) wanted.insert(wanted.end(), {"etcd", "trustd"});
    for (const auto& [id, service] : services_)
      if (id.starts_with("ext-")) wanted.push_back(id);
    for (const std::string& id : wanted) {
      const auto found = services_.find(id);
      if (found == services_.end() || found->second.state != "Running")
        missing.push_back(id + " not running");
      else if (!found->second.unknown && !found->second.healthy)
        missing.push_back(id + " not healthy");
    }
    if (!missing.empty()) unmet.emplace_back("services", join(missing, ", "));
    if (config_ && network_ready_ && !node_registered_)
      unmet.emplace_back("nodeReady",
                         fmt::format("node \"{}\" status is not available yet", hostname_));
    else if (config_ && network_ready_ && !node_ready_)
      unmet.emplace_back("nodeReady", fmt::format("node \"{}\" is not ready", hostname_));
  }
  if (told_ && told_->first == stage_ && told_->second == unmet) return;
  told_.emplace(stage_, unmet);
  spec::runtime::MachineStatusSpec status;
  status.set_stage(static_cast<spec::enums::RuntimeMachineStage>(static_cast<int>(stage_)));
  status.mutable_status()->set_ready(unmet.empty());
  std::string conditions;
  for (const auto& [name, reason] : unmet) {
    auto& condition = *status.mutable_status()->add_unmet_conditions();
    condition.set_name(name);
    condition.set_reason(reason);
    conditions +=
        fmt::format("        - name: {}\n          reason: {}\n", name, yaml_string(reason));
  }
  const Resource* before = store_.find("runtime", machine_status, "machine");
  const unsigned version = before == nullptr ? 0 : before->version;
  store_.set(
      "runtime", machine_status, "machine", "runtime.MachineStatusController",
      status.SerializeAsString(),
      fmt::format("stage: {}\nstatus:\n    ready: {}\n    unmetConditions:{}{}", to_string(stage_),
                  boolean(unmet.empty()), conditions.empty() ? " []\n" : "\n", conditions));
  before = store_.find("runtime", machine_status, "machine");
  if (before->version == version) return;
  rocca::proto::machine::MachineStatusEvent event;
  event.set_stage(static_cast<rocca::proto::machine::MachineStatusEvent::MachineStage>(
      static_cast<int>(stage_)));
  event.mutable_status()->set_ready(unmet.empty());
  for (const auto& [name, reason] : unmet) {
    auto& condition = *event.mutable_status()->add_unmet_conditions();
    condition.set_name(name);
    condition.set_reason(reason);
  }
  add_event("MachineStatusEvent", event.SerializeAsString());
}

void TalosNode::publish() {
  stale_ = true;
  if (store_.watched_besides(machine_status))
    refresh({});
  else
    publish_status();
}

/// Before a look at resources of this type; none: at any.
void TalosNode::refresh(std::string_view type) {
  if (type == machine_status) return;  // never stale
  const bool definitions = type.empty() || type == "ResourceDefinitions.meta.cosi.dev";
  if (definitions && store_.find("meta", "ResourceDefinitions.meta.cosi.dev",
                                 "machinestatuses.runtime.talos.dev") == nullptr)
    publish_definitions();
  // Members come and leave without a word to this node.
  if (!stale_ && type != "Members.cluster.talos.dev") return;
  stale_ = false;
  publish_all();
}

void TalosNode::publish_all() {
  publish_network();
  publish_config();
  for (const char* id : {"apid", "auditd", "containerd", "cri", "dashboard", "etcd", "kubelet",
                         "machined", "syslogd", "trustd", "udevd"}) {
    const auto found = services_.find(id);
    if (found == services_.end() || found->second.state != "Running") {
      store_.remove("runtime", "Services.v1alpha1.talos.dev", id);
      continue;
    }
    spec::v1alpha1::ServiceSpec service;
    service.set_running(true);
    service.set_healthy(found->second.healthy);
    service.set_unknown(found->second.unknown);
    store_.set("runtime", "Services.v1alpha1.talos.dev", id, "v1alpha1.ServiceController",
               service.SerializeAsString(),
               fmt::format("running: true\nhealthy: {}\nunknown: {}\n",
                           boolean(found->second.healthy), boolean(found->second.unknown)));
  }
  for (const auto& [id, state] : services_)
    if (id.starts_with("ext-") && state.state == "Running") {
      spec::v1alpha1::ServiceSpec service;
      service.set_running(true);
      service.set_unknown(true);
      store_.set("runtime", "Services.v1alpha1.talos.dev", id, "v1alpha1.ServiceController",
                 service.SerializeAsString(), "running: true\nhealthy: false\nunknown: true\n");
    }
  if (time_synced_) {
    spec::time::StatusSpec status;
    status.set_synced(true);
    status.set_sync_disabled(in_container());
    store_.set("runtime", "TimeStatuses.v1alpha1.talos.dev", "node", "time.SyncController",
               status.SerializeAsString(),
               fmt::format("synced: true\nepoch: 0\nsyncDisabled: {}\n", boolean(in_container())));
  }
  std::string version;
  put_bytes(version, 1, "v" + to_string(release_));
  store_.set("runtime", "Versions.runtime.talos.dev", "version", "runtime.VersionController",
             version, fmt::format("version: v{}\n", to_string(release_)));
  store_.set("runtime", "SecurityStates.talos.dev", "securitystate",
             "runtime.SecurityStateController", "", "secureBoot: false\n");
  if (network_ready_) {
    spec::runtime::PlatformMetadataSpec metadata;
    metadata.set_platform(platform());
    metadata.set_hostname(hostname_);
    std::string bytes = metadata.SerializeAsString();
    if (!machine_.instance_type.empty()) put_bytes(bytes, 5, machine_.instance_type);
    store_.set("runtime", "PlatformMetadatas.talos.dev", "platformmetadata",
               "network.PlatformConfigController", bytes,
               fmt::format("platform: {}\nhostname: {}\n{}", platform(), yaml_string(hostname_),
                           machine_.instance_type.empty()
                               ? ""
                               : fmt::format("instanceType: {}\n", machine_.instance_type)));
  }
  if (!machine_.uuid.empty()) {
    spec::hardware::SystemInformationSpec system;
    system.set_manufacturer(machine_.manufacturer);
    system.set_product_name(machine_.product);
    system.set_serial_number(machine_.serial);
    system.set_uuid(machine_.uuid);
    store_.set("hardware", "SystemInformations.hardware.talos.dev", "systeminformation",
               "hardware.SystemInfoController", system.SerializeAsString(),
               fmt::format("manufacturer: {}\nproductName: {}\nserialnumber: {}\nuuid: {}\n",
                           yaml_string(machine_.manufacturer), yaml_string(machine_.product),
                           yaml_string(machine_.serial), machine_.uuid));
  }
  for (const Disk& disk : machine_.disks) {
    spec::block::DiskSpec out;
    out.set_size(disk.size);
    out.set_io_size(512);
    out.set_sector_size(512);
    out.set_readonly(disk.readonly);
    out.set_model(disk.model);
    out.set_serial(disk.serial);
    out.set_wwid(disk.wwid);
    out.set_bus_path(disk.bus_path);
    out.set_transport(disk.transport);
    out.set_cdrom(disk.cdrom);
    out.set_dev_path("/dev/" + disk.name);
    const std::string pretty = fmt::format("{} GB", disk.size / 1'000'000'000);
    out.set_pretty_size(pretty);
    store_.set(
        "runtime", "Disks.block.talos.dev", disk.name, "block.DisksController",
        out.SerializeAsString(),
        fmt::format("dev_path: /dev/{}\nsize: {}\npretty_size: {}\nio_size: "
                    "512\nsector_size: 512\nreadonly: {}\ncdrom: {}\nmodel: {}\nserial: "
                    "{}\ntransport: {}\n",
                    disk.name, disk.size, pretty, boolean(disk.readonly), boolean(disk.cdrom),
                    yaml_string(disk.model), yaml_string(disk.serial), disk.transport));
  }
  if (disk_.installed) {
    spec::block::SystemDiskSpec system;
    system.set_disk_id(disk_.installed_disk);
    system.set_dev_path("/dev/" + disk_.installed_disk);
    store_.set("runtime", "SystemDisks.block.talos.dev", "system-disk",
               "block.SystemDiskController", system.SerializeAsString(),
               fmt::format("diskID: {0}\ndevPath: /dev/{0}\n", disk_.installed_disk));
    if (config_ && !in_container()) publish_volumes();
  }
  std::vector<Extension> extensions = machine_.extensions;
  if (!disk_.schematic.empty())
    extensions.push_back({"schematic", disk_.schematic, "", false, false});
  for (std::size_t i = 0; i < extensions.size(); ++i) {
    spec::extensions::Layer layer;
    layer.set_image(extensions[i].image);
    layer.mutable_metadata()->set_name(extensions[i].name);
    layer.mutable_metadata()->set_version(extensions[i].version);
    store_.set("runtime", "ExtensionStatuses.runtime.talos.dev", std::to_string(i),
               "runtime.ExtensionStatusController", layer.SerializeAsString(),
               fmt::format("image: {}\nmetadata:\n    name: {}\n    version: {}\n",
                           extensions[i].image.empty() ? "\"\"" : extensions[i].image,
                           extensions[i].name, yaml_string(extensions[i].version)));
  }
  for (const auto& [key, value] : disk_.meta) {
    if (in_container()) break;
    spec::runtime::MetaKeySpec meta;
    meta.set_value(value);
    store_.set("runtime", "MetaKeys.runtime.talos.dev", fmt::format("0x{:02x}", key),
               "runtime.MetaController", meta.SerializeAsString(),
               fmt::format("value: {}\n", yaml_string(value)));
  }
  if (config_ && network_ready_) {
    spec::k8s::NodenameSpec nodename;
    nodename.set_nodename(hostname_);
    nodename.set_hostname_version("1");
    store_.set("k8s", "Nodenames.kubernetes.talos.dev", "nodename", "k8s.NodenameController",
               nodename.SerializeAsString(),
               fmt::format("nodename: {}\nhostnameVersion: \"1\"\nskipNodeRegistration: false\n",
                           yaml_string(hostname_)));
    std::string identity;
    put_bytes(identity, 1, disk_.node_id);
    store_.set("cluster", "Identities.cluster.talos.dev", "local", "cluster.NodeIdentityController",
               identity, fmt::format("nodeId: {}\n", disk_.node_id));
    publish_members();
  }
  publish_identity();
  publish_etcd_config();
  publish_kubernetes_node();
  if (disk_.etcd && etcd_runs()) {
    const std::string id = fmt::format("{:016x}", disk_.etcd_member);
    spec::etcd::MemberSpec member;
    member.set_member_id(id);
    store_.set("etcd", "EtcdMembers.etcd.talos.dev", "local", "etcd.MemberController",
               member.SerializeAsString(), fmt::format("memberID: {}\n", id));
  } else {
    store_.remove("etcd", "EtcdMembers.etcd.talos.dev", "local");
  }
  publish_status();
}

}  // namespace rocca::lab::talos
