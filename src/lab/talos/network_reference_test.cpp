#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/talos/node.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <fstream>
#include <set>

namespace rocca::lab::talos {
namespace {

using text::Value;

std::string text_at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found == nullptr || !found->is_scalar() || found->is_null() ? "" : found->text();
}

std::string here(const char* name) {
  return test::source_folder() + "/src/lab/talos/" + name;
}

/// What a machine with this network has, one line each.
std::set<std::string> recorded(const Value& result) {
  std::set<std::string> out;
  const auto each = [&](const char* section, auto&& line) {
    if (const Value* items = result.find(section))
      for (const Value& item : items->items())
        if (const std::string text = line(item); !text.empty()) out.insert(text);
  };
  const std::set<std::string> links{"eth0", "eth1"};
  each("addresses", [&](const Value& item) {
    return links.contains(text_at(item, "linkName"))
               ? fmt::format("address {} {}", text_at(item, "address"), text_at(item, "linkName"))
               : "";
  });
  each("routes", [&](const Value& item) {
    // A route without a gateway is one the kernel makes for an on-link gateway.
    return links.contains(text_at(item, "outLinkName")) && !text_at(item, "gateway").empty()
               ? fmt::format("route {} via {} {} {}", text_at(item, "dst"),
                             text_at(item, "gateway"), text_at(item, "outLinkName"),
                             text_at(item, "priority").empty() ? "0" : text_at(item, "priority"))
               : "";
  });
  each("hostnames", [&](const Value& item) {
    return fmt::format("hostname {} {}", text_at(item, "hostname"), text_at(item, "domainname"));
  });
  each("resolvers", [&](const Value& item) {
    std::string servers = "resolvers";
    if (const Value* list = item.find("dnsServers"))
      for (const Value& server : list->items()) servers += " " + server.text();
    return servers;
  });
  each("links", [&](const Value& item) {
    const std::string mtu = text_at(item, "mtu");
    return links.contains(text_at(item, "name")) && !mtu.empty() && mtu != "0" && mtu != "1500"
               ? fmt::format("mtu {} {}", text_at(item, "name"), mtu)
               : "";
  });
  each("timeServers", [&](const Value& item) {
    std::string servers = "time";
    if (const Value* list = item.find("timeServers"))
      for (const Value& server : list->items()) servers += " " + server.text();
    return servers;
  });
  return out;
}

std::set<std::string> of_node(const TalosNode& node) {
  std::set<std::string> out;
  const NetworkState& network = node.network();
  for (const Address& address : network.addresses)
    out.insert(fmt::format("address {} {}", to_string(address.cidr), address.link));
  for (const Route& route : network.routes)
    out.insert(fmt::format("route {} via {} {} {}", route.destination, route.gateway, route.link,
                           route.metric));
  if (!network.hostname.starts_with("talos-"))
    out.insert(fmt::format("hostname {} {}", network.hostname, network.domain));
  if (network.resolvers != std::vector<std::string>{"none"})
    out.insert("resolvers " + join(network.resolvers, " "));
  for (const auto& [link, mtu] : network.mtus)
    if (mtu != 1500) out.insert(fmt::format("mtu {} {}", link, mtu));
  if (network.time_servers != std::vector<std::string>{"time.cloudflare.com"})
    out.insert("time " + join(network.time_servers, " "));
  return out;
}

TEST(TalosNetwork, DrivesAndMetaLeadNodesToTheRecordedAddresses) {
  std::set<std::string> differences, failing;
  std::ifstream list(here("network_differences.txt"));
  for (std::string line; std::getline(list, line);)
    if (!line.empty() && line[0] != '#') differences.insert(split(line, ' ').front());
  std::size_t agree = 0;
  for (const std::string& path : test::reference_files("talos/network", ".json")) {
    const Value cases = text::parse_json(test::read_file(path), path);
    for (const Value& entry : cases.items()) {
      const std::string kind = text_at(entry, "kind");
      for (const Value& result : entry.find("results")->items()) {
        const std::string version = result.find("versions")->items().front().text();
        const std::string name = fmt::format("{}@{}", text_at(entry, "name"), version);
        test::count_case();
        World world;
        Fleet fleet{world};
        Machine machine;
        machine.platform = kind == "meta" ? "metal" : "nocloud";
        machine.version = "v" + version;
        machine.boot_disk = "sda";
        machine.resolvers = {"none"};
        machine.links = {{"eth0", "BC:24:11:00:00:01", {}}, {"eth1", "BC:24:11:00:00:02", {}}};
        machine.cloud_init = {text_at(entry, "meta_data"), text_at(entry, "user_data"),
                              text_at(entry, "network_config"), true,
                              entry.find("network_config") != nullptr};
        if (kind == "meta") machine.meta[10] = text_at(entry, "value");
        TalosNode node(fleet, machine);
        node.power_on();
        world.run_for(std::chrono::seconds{30});
        std::string why;
        const bool ok = text_at(result, "ok") == "true";
        if (kind == "include") {
          const Include include =
              nocloud_include(text_at(entry, "user_data")).value_or(Include{"", "no include"});
          if (include.error != text_at(result, "error") ||
              (ok && include.url != text_at(result, "url")))
            why = fmt::format("{} {}, recorded {}", include.url, include.error,
                              text_at(result, ok ? "url" : "error"));
        } else if (ok) {
          const auto wanted = recorded(text::parse_yaml(text_at(result, "result"), name));
          if (of_node(node) != wanted)
            why = fmt::format("node [{}], recorded [{}]", fmt::join(of_node(node), "; "),
                              fmt::join(wanted, "; "));
        } else if (!node.network().addresses.empty() || node.network().problems.empty()) {
          why = "the node took what Talos refuses: " + text_at(result, "error");
        }
        world.end_routines();
        if (why.empty()) {
          ++agree;
          if (differences.contains(name))
            ADD_FAILURE() << name << " agrees now: take it off network_differences.txt";
        } else {
          failing.insert(name);
          if (!differences.contains(name)) ADD_FAILURE() << name << ": " << why;
        }
      }
    }
  }
  fmt::print("network: {} agree, {} differ on purpose\n", agree, failing.size());
}

}  // namespace
}  // namespace rocca::lab::talos
