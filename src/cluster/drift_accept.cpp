#include "base/strings.hpp"
#include "cluster/drift_parts.hpp"
#include "platform/proxmox/desired_vm.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace rocca::resources {

namespace {

using Path = std::vector<std::string>;
using proxmox::PropertyString;

/// The parts of a value that are not as declared, as they were found; an empty one is not there.
Fields other_parts(const std::string& option, const std::string& declared, const std::string& found,
                   const std::set<std::string>& ours) {
  const auto parts = [&](const std::string& text) {
    return PropertyString::parse(option, proxmox::normalise(option, text));
  };
  const PropertyString wanted = parts(declared), seen = parts(found);
  Fields other;
  for (const std::string& key : ours) {
    const std::string value = seen.value_or(key, "");
    if (value != wanted.value_or(key, "")) other[key] = value;
  }
  return other;
}

/// All cards of a node as its spec would have to list them, with one value of one of them changed:
/// a list in the spec replaces the whole one that a node inherits.
std::string all_nics(const std::vector<spec::Nic>& nics, std::size_t number, const Fields& values) {
  std::vector<std::string> cards;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    Fields card;
    if (nics[i].bridge) card["bridge"] = **nics[i].bridge;
    if (nics[i].vlan) card["vlan"] = std::to_string(**nics[i].vlan);
    if (nics[i].mtu) card["mtu"] = std::to_string(**nics[i].mtu);
    if (nics[i].mac) card["mac"] = fmt::format("\"{}\"", to_string(**nics[i].mac));
    if (i == number)
      for (const auto& [key, value] : values) card[key] = value;
    std::vector<std::string> parts;
    for (const auto& [key, value] : card) parts.push_back(key + ": " + value);
    cards.push_back("{" + join(parts, ", ") + "}");
  }
  return "[" + join(cards, ", ") + "]";
}

void accept_nic(const spec::Node& node, const std::string& option, Path path, Drift& drift) {
  const auto number = parse_uint(std::string_view(option).substr(3));
  if (!number || *number >= node.machine->nics.size()) return;
  const Fields other = other_parts(option, drift.declared, drift.found,
                                   {"bridge", "macaddr", "model", "mtu", "tag"});
  Fields values;
  for (const auto& [key, value] : other) {
    // What is missing may come from `network`, which speaks for every node; model and address are
    // the card itself.
    if (value.empty() || key == "macaddr" || key == "model") return;
    values[key == "tag" ? "vlan" : key] = value;
  }
  path.emplace_back("nics");
  const std::string whole = all_nics(node.machine->nics, *number, values);
  for (const auto& [key, value] : values) {
    Path place = path;
    place.insert(place.end(), {std::to_string(*number), key});
    drift.accepts.push_back({place, value, path, whole});
  }
}

void accept_disk(const spec::Node& node, const std::string& option, Path path, Drift& drift) {
  const auto number = parse_uint(std::string_view(option).substr(4));
  if (!number || *number >= node.machine->disks.size()) return;
  path.insert(path.end(), {"disks", node.machine->disks[*number].name, ""});
  for (const auto& [key, value] : other_parts(option, drift.declared, drift.found,
                                              {"cache", "discard", "iothread", "serial", "ssd"})) {
    if (key == "serial") {
      drift.accepts.clear();
      return;
    }
    path.back() = key;
    const bool on = value == "1" || value == "on";
    const std::string text = key == "cache" ? (value.empty() ? "none" : value)
                             : on           ? "true"
                                            : "false";
    drift.accepts.push_back({path, text, {}, ""});
  }
}

}  // namespace

void find_acceptance(const spec::Node& node, Drift& drift) {
  // What waits for the next start is accepted like what is in force.
  const std::string pending = pending_option(drift.field);
  const std::string& about = pending.empty() ? drift.field : pending;
  drift.accept_pool = node.pool;
  if (!node.machine || drift.found.empty() || (!pending.empty() && drift.found == "removed"))
    return;
  Path path{"spec", node.pool.empty() ? "nodes" : "pools",
            node.pool.empty() ? node.name : node.pool, "machine"};
  const auto say = [&](const Path& more, const std::string& value) {
    path.insert(path.end(), more.begin(), more.end());
    drift.accepts.push_back({path, value, {}, ""});
  };
  static constexpr std::array same = {std::pair{"cores", "cores"}, std::pair{"cpu", "cpu"},
                                      std::pair{"scsihw", "scsi"}};
  for (const auto& [field, key] : same)
    if (about == field) return say({key}, drift.found);
  if (about == "onboot" || about == "agent")
    return say({about == "onboot" ? "onBoot" : "agent"},
               drift.found.starts_with('1') ? "true" : "false");
  if (about == "memory") {
    if (const auto mib = parse_uint(drift.found)) say({"memory"}, to_string(Bytes::mib(*mib)));
    return;
  }
  if (proxmox::family(about) == "net") return accept_nic(node, about, path, drift);
  if (!about.starts_with("scsi")) return;
  if (about.ends_with(".size")) {
    const auto number = parse_uint(about.substr(4, about.find('.') - 4));
    if (!number || *number >= node.machine->disks.size()) return;
    return say({"disks", node.machine->disks[*number].name, "size"}, drift.found);
  }
  if (about.find('.') == std::string::npos) accept_disk(node, about, path, drift);
}

}  // namespace rocca::resources
