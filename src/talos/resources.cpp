#include "base/error.hpp"
#include "proto/cosi.pb.h"
#include "proto/spec_block.pb.h"
#include "proto/spec_cluster.pb.h"
#include "proto/spec_config.pb.h"
#include "proto/spec_extensions.pb.h"
#include "proto/spec_hardware.pb.h"
#include "proto/spec_k8s.pb.h"
#include "proto/spec_network.pb.h"
#include "proto/spec_runtime.pb.h"
#include "proto/spec_time.pb.h"
#include "talos/client.hpp"

#include <fmt/format.h>

#include <algorithm>

// What a node tells about itself as COSI resources. Namespaces and types must be the full names:
// the server resolves no aliases.

namespace rocca::talos {

namespace spec = proto::spec;
namespace cosi = proto::cosi;

namespace {

template <class Message>
Message decode(std::string_view bytes, std::string_view what) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw Error(Fault::Rejected, fmt::format("the node's {} cannot be read", what));
  return message;
}

Resource to_resource(const cosi::Resource& wire) {
  const auto& meta = wire.metadata();
  return {meta.namespace_(),       meta.type(),  meta.id(),
          meta.version(),          meta.phase(), wire.spec().yaml_spec(),
          wire.spec().proto_spec()};
}

std::optional<IpAddress> to_ip(std::string_view raw) {
  if (raw.size() == 4) {
    std::uint32_t value = 0;
    for (const char c : raw) value = (value << 8) | static_cast<unsigned char>(c);
    return IpAddress::v4(value);
  }
  if (raw.size() != 16) return std::nullopt;
  std::array<std::uint8_t, 16> bytes{};
  std::transform(raw.begin(), raw.end(), bytes.begin(),
                 [](char c) { return static_cast<std::uint8_t>(c); });
  return IpAddress::v6(bytes);
}

}  // namespace

std::optional<Resource> Client::find_resource(const std::string& space, const std::string& type,
                                              const std::string& id) {
  cosi::GetRequest request;
  request.set_namespace_(space);
  request.set_type(type);
  request.set_id(id);
  request.mutable_options();
  const auto answer = ask("/cosi.resource.State/Get", request.SerializeAsString());
  const std::string doing = fmt::format("reading {} {}", type.substr(0, type.find('.')), id);
  if (const auto* failure = std::get_if<Failure>(&answer)) {
    if (failure->reason == Reason::NotFound) return std::nullopt;
    throw failure->error(doing);
  }
  return to_resource(decode<cosi::GetResponse>(std::get<std::string>(answer), doing).resource());
}

std::vector<Resource> Client::list_resources(const std::string& space, const std::string& type) {
  cosi::ListRequest request;
  request.set_namespace_(space);
  request.set_type(type);
  request.mutable_options();
  std::vector<Resource> resources;
  const std::string doing = fmt::format("listing {}", type.substr(0, type.find('.')));
  stream(doing, call("/cosi.resource.State/List", request.SerializeAsString()),
         [&](std::string_view bytes) {
           resources.push_back(to_resource(decode<cosi::ListResponse>(bytes, doing).resource()));
           return true;
         });
  std::sort(resources.begin(), resources.end(),
            [](const Resource& a, const Resource& b) { return a.id < b.id; });
  return resources;
}

void Client::watch_resource(const std::string& space, const std::string& type,
                            const std::string& id,
                            const std::function<bool(const std::optional<Resource>&)>& changed,
                            std::optional<Duration> at_most) {
  cosi::WatchRequest request;
  request.set_namespace_(space);
  request.set_type(type);
  request.set_id(id);
  request.set_api_version(1);
  request.mutable_options();  // without them a 1.11 node panics
  net::GrpcCall watch = call("/cosi.resource.State/Watch", request.SerializeAsString());
  watch.deadline = at_most;
  const std::string doing = fmt::format("watching {} {}", type.substr(0, type.find('.')), id);
  stream(doing, std::move(watch), [&](std::string_view bytes) {
    const auto response = decode<cosi::WatchResponse>(bytes, doing);
    for (const cosi::Event& event : response.event()) {
      if (event.event_type() == cosi::ERRORED)
        throw Error(Fault::Lost, doing + ": " + event.error());
      if (event.event_type() == cosi::BOOTSTRAPPED || event.event_type() == cosi::NOOP) continue;
      const bool gone = event.event_type() == cosi::DESTROYED;
      if (!changed(gone ? std::nullopt : std::optional{to_resource(event.resource())}))
        return false;
    }
    return true;
  });
}

MachineStatus decode_machine_status(std::string_view bytes) {
  const auto wire = decode<spec::runtime::MachineStatusSpec>(bytes, "machine status");
  MachineStatus status;
  status.stage = static_cast<Stage>(wire.stage());
  status.ready = wire.status().ready();
  for (const auto& unmet : wire.status().unmet_conditions())
    status.unmet.push_back({unmet.name(), unmet.reason()});
  return status;
}

std::variant<MachineStatus, Failure> Client::find_machine_status() {
  cosi::GetRequest request;
  request.set_namespace_("runtime");
  request.set_type("MachineStatuses.runtime.talos.dev");
  request.set_id("machine");
  request.mutable_options();
  auto answer = ask("/cosi.resource.State/Get", request.SerializeAsString());
  if (auto* failure = std::get_if<Failure>(&answer)) return std::move(*failure);
  return decode_machine_status(
      decode<cosi::GetResponse>(std::get<std::string>(answer), "machine status")
          .resource()
          .spec()
          .proto_spec());
}

std::optional<SystemInformation> Client::find_system_information() {
  const auto found =
      find_resource("hardware", "SystemInformations.hardware.talos.dev", "systeminformation");
  if (!found) return std::nullopt;
  const auto wire =
      decode<spec::hardware::SystemInformationSpec>(found->spec, "system information");
  return SystemInformation{wire.manufacturer(), wire.product_name(), wire.serial_number(),
                           wire.sku_number(), Uuid::parse(wire.uuid())};
}

std::optional<Secret> Client::find_config() {
  auto found = find_resource("config", "MachineConfigs.config.talos.dev", "v1alpha1");
  if (!found) return std::nullopt;
  auto wire = decode<spec::config::MachineConfigSpec>(found->spec, "configuration");
  wipe(found->spec);
  wipe(found->yaml);
  return Secret::take(std::move(*wire.mutable_yaml_marshalled()));
}

Member decode_member(std::string name, std::string_view bytes) {
  const auto wire = decode<spec::cluster::MemberSpec>(bytes, "member");
  Member member{std::move(name),
                wire.node_id(),
                {},
                wire.hostname(),
                wire.machine_type() == spec::enums::TYPE_CONTROL_PLANE ||
                    wire.machine_type() == spec::enums::TYPE_INIT,
                wire.operating_system()};
  for (const auto& address : wire.addresses())
    if (const auto ip = to_ip(address.ip())) member.addresses.push_back(*ip);
  return member;
}

std::vector<Member> Client::members() {
  std::vector<Member> members;
  for (const Resource& resource : list_resources("cluster", "Members.cluster.talos.dev"))
    members.push_back(decode_member(resource.id, resource.spec));
  return members;
}

std::vector<Address> Client::addresses() {
  std::vector<Address> addresses;
  for (const Resource& resource : list_resources("network", "AddressStatuses.net.talos.dev")) {
    const auto wire = decode<spec::network::AddressStatusSpec>(resource.spec, "address");
    if (const auto ip = to_ip(wire.address().ip()))
      addresses.push_back(
          {wire.link_name(), Cidr{*ip, static_cast<unsigned>(wire.address().prefix_length())}});
  }
  return addresses;
}

std::vector<Link> Client::links() {
  std::vector<Link> links;
  for (const Resource& resource : list_resources("network", "LinkStatuses.net.talos.dev")) {
    const auto wire = decode<spec::network::LinkStatusSpec>(resource.spec, "link");
    Link link;
    link.name = resource.id;
    if (wire.hardware_addr().size() == 6) {
      std::array<std::uint8_t, 6> bytes{};
      std::transform(wire.hardware_addr().begin(), wire.hardware_addr().end(), bytes.begin(),
                     [](char c) { return static_cast<std::uint8_t>(c); });
      link.mac = MacAddress{bytes};
    }
    link.mtu = wire.mtu();
    link.up = wire.link_state();
    link.kind = wire.kind();
    link.driver = wire.driver();
    link.physical = wire.kind().empty() && wire.type() == spec::enums::LINK_ETHER;
    links.push_back(std::move(link));
  }
  return links;
}

std::vector<Disk> Client::disks() {
  std::vector<Disk> disks;
  for (const Resource& resource : list_resources("runtime", "Disks.block.talos.dev")) {
    const auto wire = decode<spec::block::DiskSpec>(resource.spec, "disk");
    disks.push_back({resource.id, wire.dev_path(), Bytes{wire.size()}, wire.model(), wire.serial(),
                     wire.wwid(), wire.transport(), wire.bus_path(), wire.readonly(), wire.cdrom(),
                     wire.rotational()});
  }
  return disks;
}

std::optional<std::string> Client::find_system_disk() {
  const auto found = find_resource("runtime", "SystemDisks.block.talos.dev", "system-disk");
  if (!found) return std::nullopt;
  return decode<spec::block::SystemDiskSpec>(found->spec, "system disk").disk_id();
}

std::vector<Extension> Client::extensions() {
  std::vector<Extension> extensions;
  for (const Resource& resource :
       list_resources("runtime", "ExtensionStatuses.runtime.talos.dev")) {
    const auto wire = decode<spec::extensions::Layer>(resource.spec, "extension");
    extensions.push_back({wire.metadata().name(), wire.metadata().version()});
  }
  return extensions;
}

std::optional<std::string> Client::find_hostname() {
  const auto found = find_resource("network", "HostnameStatuses.net.talos.dev", "hostname");
  if (!found) return std::nullopt;
  return decode<spec::network::HostnameStatusSpec>(found->spec, "hostname").hostname();
}

std::optional<KubernetesNode> Client::find_kubernetes_node() {
  for (const Resource& resource : list_resources("k8s", "NodeStatuses.kubernetes.talos.dev")) {
    const auto wire = decode<spec::k8s::NodeStatusSpec>(resource.spec, "Kubernetes node");
    return KubernetesNode{wire.nodename(), wire.node_ready(), wire.unschedulable()};
  }
  return std::nullopt;
}

bool Client::time_in_sync() {
  const auto found = find_resource("runtime", "TimeStatuses.v1alpha1.talos.dev", "node");
  return found && decode<spec::time::StatusSpec>(found->spec, "time status").synced();
}

}  // namespace rocca::talos
