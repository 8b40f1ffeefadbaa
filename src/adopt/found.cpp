#include "adopt/found.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "locking/addresses.hpp"
#include "net/http.hpp"
#include "proxmox/property_string.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace rocca::adopt {

namespace {

constexpr Duration knock = std::chrono::milliseconds{1500};

void add(std::vector<IpAddress>& all, const std::vector<IpAddress>& more) {
  for (const IpAddress& address : more)
    if (!address.is_loopback() && !address.is_link_local() &&
        std::find(all.begin(), all.end(), address) == all.end())
      all.push_back(address);
}

std::vector<MacAddress> cards_of(const proxmox::VmConfig& config) {
  std::vector<MacAddress> macs;
  for (const auto& [option, value] : config.options)
    if (proxmox::family(option) == "net")
      if (const auto mac = MacAddress::parse(
              proxmox::PropertyString::parse(option, value).value_or("macaddr", "")))
        macs.push_back(*mac);
  return macs;
}

bool has_agent(const proxmox::VmConfig& config) {
  const std::string* agent = config.find("agent");
  return agent != nullptr &&
         proxmox::PropertyString::parse("agent", *agent).value_or("enabled", "0") == "1";
}

class Search {
 public:
  Search(const Looker& looker, const Remembered& remembered)
      : looker_(looker),
        remembered_(remembered),
        client_(looker.transport, looker.proxmox, looker.stop) {}

  Found run() {
    for (proxmox::VmRow& row : client_.vms()) rows_.emplace(row.vmid, std::move(row));
    for (const RememberedVm& vm : remembered_.vms)
      if (const std::string why = take(vm); !why.empty()) {
        found_.left.push_back({vm.where, why});
        found_.missing.emplace_back(vm, why);
      }
    if (found_.nodes.empty()) {
      std::string message = "none of the VMs in the state is a node of this cluster:";
      for (const Left& left : found_.left)
        message += fmt::format("\n  {}: {}", left.where, left.why);
      throw Error(Fault::NotFound, std::move(message))
          .hint("is it the right Proxmox, and are these the secrets of this cluster?");
    }
    return std::move(found_);
  }

 private:
  /// Empty: it is taken. Else why not.
  std::string take(const RememberedVm& vm) {
    const auto row = rows_.find(static_cast<proxmox::Vmid>(vm.vmid));
    if (row == rows_.end()) return fmt::format("VM {} is gone", vm.vmid);
    if (row->second.is_container) return fmt::format("{} is a container now", vm.vmid);
    if (row->second.is_template) return fmt::format("VM {} is a template", vm.vmid);
    auto config = client_.find_whole_config(row->second.node, row->second.vmid);
    if (!config) return fmt::format("VM {} is gone", vm.vmid);
    FoundNode node{vm, row->second, std::move(*config), {}, {}, "", "", "", {}};
    if (const std::string* name = node.config.find("name")) node.row.name = *name;
    const std::vector<MacAddress> cards = cards_of(node.config);
    const bool same = std::any_of(vm.macs.begin(), vm.macs.end(), [&](const MacAddress& mac) {
      return std::find(cards.begin(), cards.end(), mac) != cards.end();
    });
    if (!vm.macs.empty() && !same)
      return fmt::format("VM {} is another one now: '{}', without a card of the one in the state",
                         vm.vmid, node.row.name);
    const auto uuid = node.config.uuid();
    if (!uuid) return fmt::format("VM {} has no SMBIOS UUID that it could be known by", vm.vmid);
    node.uuid = *uuid;
    if (const std::string why = ask(node); !why.empty()) return why;
    found_.nodes.push_back(std::move(node));
    return "";
  }

  std::vector<IpAddress> places_of(const FoundNode& node) {
    std::vector<IpAddress> places;
    for (const auto& [option, value] : node.config.options)
      if (proxmox::family(option) == "ipconfig") add(places, locking::addresses_of_ipconfig(value));
    if (has_agent(node.config))
      if (const auto links = client_.find_agent_interfaces(node.row.node, node.row.vmid))
        for (const proxmox::AgentInterface& link : *links)
          if (link.mac) add(places, link.addresses);
    add(places, node.remembered.addresses);
    // Addresses that only the configuration says: which of them it has tells the UUID.
    if (places.empty())
      for (const std::string& applied : remembered_.nodes)
        if (const auto address = IpAddress::parse(applied)) add(places, {*address});
    return places;
  }

  std::string ask(FoundNode& node) {
    const auto status = client_.find_status(node.row.node, node.row.vmid);
    if (status && status->status != "running") return fmt::format("VM {} is off", node.row.vmid);
    std::vector<std::string> told;
    for (const IpAddress& place : places_of(node)) {
      const std::string where = to_string(place);
      talos::Access access = talos::Access::secure(where, looker_.authority, looker_.identity);
      access.connect_timeout = knock;
      const talos::Sight sight = talos::look(looker_.transport, access, looker_.stop);
      switch (sight.door) {
        case talos::Door::Closed:
          told.push_back(fmt::format("nobody answers at {}", where));
          continue;
        case talos::Door::Maintenance:
          told.push_back(fmt::format("{} is in maintenance mode, without a configuration", where));
          continue;
        case talos::Door::Foreign:
          told.push_back(fmt::format("{} runs a configuration of another cluster", where));
          continue;
        case talos::Door::Ours:
          break;
      }
      talos::Client client{looker_.transport, access, looker_.stop};
      const auto system = client.find_system_information();
      if (!system || system->uuid != node.uuid) {
        told.push_back(fmt::format("who answers at {} is another machine", where));
        continue;
      }
      if (talos::until_etcd(sight).done) ask_etcd(node, access);
      return describe(node, client, place);
    }
    if (told.empty()) return fmt::format("VM {} has no address that is known", node.row.vmid);
    return fmt::format("no node of this cluster: {}", join(told, "; "));
  }

  /// Without a leader it does not answer: then the first plan waits for it, and says so.
  void ask_etcd(FoundNode& node, const talos::Access& access) {
    talos::Client client{looker_.transport, access, looker_.stop};
    client.set_deadline(std::chrono::seconds{5});
    try {
      node.etcd_member = client.etcd_status().member_id;
      if (found_.etcd.empty())
        for (const talos::EtcdMember& member : client.etcd_members()) {
          const auto peer =
              member.peer_urls.empty() ? std::nullopt : net::Url::parse(member.peer_urls.front());
          found_.etcd.push_back({member.id, member.hostname, peer ? peer->host : ""});
        }
    } catch (const Error& error) {
      // ignored: without a leader etcd does not answer; the first plan waits for it and says so.
      if (!is_external(error.fault())) throw;
    }
  }

  static std::string describe(FoundNode& node, talos::Client& client, const IpAddress& place) {
    node.address = Cidr{place, place.bits()};
    for (const talos::Address& address : client.addresses())
      if (address.address.address() == place) node.address = address.address;
    node.talos = client.version().tag;
    for (const talos::Extension& extension : client.extensions())
      if (extension.name == "schematic") node.schematic = extension.version;
    node.host_name = client.find_hostname().value_or("");
    auto active = client.find_config();
    if (!active) return fmt::format("{} does not show its configuration", to_string(place));
    node.active = std::move(*active);
    return "";
  }

  const Looker& looker_;
  const Remembered& remembered_;
  proxmox::Client client_;
  std::map<proxmox::Vmid, proxmox::VmRow> rows_;
  Found found_;
};

}  // namespace

void refuse_strange_members(const Found& found) {
  for (const EtcdPeer& member : found.etcd) {
    const bool known =
        std::any_of(found.nodes.begin(), found.nodes.end(), [&](const FoundNode& node) {
          // One whose etcd does not answer is known by its name.
          return node.etcd_member == member.id ||
                 (node.etcd_member == 0 && !member.name.empty() && node.host_name == member.name);
        });
    if (known) continue;
    const auto vm = std::find_if(found.missing.begin(), found.missing.end(), [&](const auto& each) {
      const auto address = IpAddress::parse(member.address);
      const auto& places = each.first.addresses;
      return (address && std::find(places.begin(), places.end(), *address) != places.end()) ||
             (!member.name.empty() &&
              (each.first.name == member.name || each.first.name.ends_with("-" + member.name)));
    });
    const auto asked = std::find_if(found.nodes.begin(), found.nodes.end(),
                                    [](const FoundNode& node) { return node.etcd_member != 0; });
    throw Error(
        Fault::Refused,
        fmt::format(
            "etcd has {}, and {} is not among the nodes that were found{}",
            plural(found.etcd.size(), "member"),
            member.name.empty() ? "the one at " + member.address
                                : member.name + " at " + member.address,
            vm == found.missing.end() ? "" : fmt::format(": {} ({})", vm->second, vm->first.where)))
        .hint(fmt::format(
            "nothing was written. Start it and adopt again; or, if it is gone for good, `talosctl "
            "-n {} etcd remove-member {:x}` first",
            to_string(asked->address.address()), member.id));
  }
}

Found look(const Looker& looker, const Remembered& remembered) {
  return Search{looker, remembered}.run();
}

}  // namespace rocca::adopt
