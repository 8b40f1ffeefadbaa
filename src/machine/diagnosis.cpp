#include "machine/diagnosis.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "machine/quorum.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"
#include "proxmox/property_string.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

// Firmware alone reads next to nothing; a kernel and its initramfs are a hundred times this.
constexpr std::uint64_t little_read = 4u << 20;
// A system that runs idles below this; one that starts over and over never does.
constexpr double busy = 0.25;
// A machine that nobody talks to still hears what is shouted on its wire: bytes a second.
constexpr std::uint64_t little_heard = 200;

bool too_old(const std::string& cpu) {
  for (const char* each : {"kvm64", "kvm32", "qemu64", "qemu32", "x86-64-v1", "486", "pentium"})
    if (cpu == each) return true;
  return false;
}

bool has_agent_address(const Symptoms& symptoms) {
  return std::any_of(symptoms.agent_addresses.begin(), symptoms.agent_addresses.end(),
                     [&](const IpAddress& each) { return to_string(each) == symptoms.address; });
}

/// Does anything come in that is meant for it?
bool hears(const Symptoms& symptoms) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           symptoms.uptime.value_or(std::chrono::seconds{10}))
                           .count();
  const auto counted = static_cast<std::uint64_t>(std::max<std::int64_t>(seconds, 10));
  return symptoms.net_in >= counted * little_heard;
}

/// It has been on for long enough that a system would have shown itself.
bool has_had_time(const Symptoms& s) {
  return s.uptime && *s.uptime >= std::chrono::seconds{60};
}

std::string amount(std::uint64_t bytes) {
  if (bytes < (1u << 10)) return fmt::format("{} B", bytes);
  if (bytes < (1u << 20)) return fmt::format("{:.0f} KiB", static_cast<double>(bytes) / (1 << 10));
  if (bytes < (1u << 30)) return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

void judge_machine(const Symptoms& s, std::vector<Cause>& causes) {
  if (s.existing) {
    if (s.answer == Symptoms::Answer::Nobody)
      causes.push_back(
          {s.address.empty()
               ? std::string("nobody with its hardware UUID answers in network.subnet")
               : fmt::format("nobody answers at {}: the machine is off, not in its network, or has "
                             "another address",
                             s.address),
           "look at its console: Talos prints its address and its stage there; nodes." + s.node +
               ".address must be that address",
           50});
    return;
  }
  if (!s.there) {
    causes.push_back({"there is no VM of this node", "run `rocca up` again: it is made anew", 100});
    return;
  }
  if (s.power != "running") {
    causes.push_back({"its VM is off: somebody stopped it, or the guest ended by itself",
                      "`rocca drift` names who; `rocca up` starts it again", 100});
    return;
  }
  if (s.qmp == "internal-error" || s.qmp == "paused" || s.qmp == "io-error")
    causes.push_back({fmt::format("its VM is {}: QEMU itself stopped it", s.qmp),
                      "look at the host: a full storage and a failing disk do this", 95});
  if (too_old(s.cpu_type))
    causes.push_back({fmt::format("its processor type is {}, and Talos needs x86-64-v2: the kernel "
                                  "dies at once, and the VM starts over and over",
                                  s.cpu_type),
                      "machine.cpu: host (or x86-64-v2-AES)", s.net_out == 0 ? 90 : 70});
  if (s.firmware == "ovmf" && s.pre_enrolled_keys)
    causes.push_back(
        {"its EFI disk has Microsoft's keys enrolled, so Secure Boot refuses an image that is not "
         "signed",
         "recreate the EFI disk with pre-enrolled-keys=0; rocca makes it so by itself",
         s.disk_read < little_read ? 88 : 60});
  if (s.iso_first)
    causes.push_back(
        {"it boots from an ISO although Talos is on its disk: the ISO then halts on purpose",
         "take the ISO out of its drive, or put the disk first in the boot order",
         s.net_out == 0 ? 86 : 65});
  if (s.agent_extension && !s.agent_device)
    causes.push_back(
        {"its image has the qemu-guest-agent, and the VM offers no agent port: Talos "
         "waits for that service for ever",
         "machine.agent: true, then a power cycle", s.answer == Symptoms::Answer::Ours ? 92 : 50});
}

/// What the counters alone tell of a guest that never sent a byte, whatever its configuration is.
void judge_start(const Symptoms& s, std::vector<Cause>& causes) {
  if (!s.there || s.power != "running" || s.net_out > 0 || !has_had_time(s) ||
      s.answer == Symptoms::Answer::Ours || s.answer == Symptoms::Answer::Maintenance)
    return;
  // What the configuration explains needs no second name.
  if (std::any_of(causes.begin(), causes.end(), [](const Cause& c) { return c.weight > 80; }))
    return;
  if (s.disk_read < little_read)
    causes.push_back({"its firmware starts nothing: it has hardly read its disk",
                      "is the system disk in the boot order, and does it hold an image that the "
                      "firmware accepts (no Secure Boot, the right architecture)?",
                      64});
  else if (s.cpu >= busy && s.disk_written == 0)
    causes.push_back(
        {"it starts over and over: it computes and reads, and never comes as far as its network",
         "its console in Proxmox shows where it dies; a processor type below x86-64-v2 and a "
         "damaged image do this",
         64});
  else if (s.cpu < busy && s.disk_written == 0)
    causes.push_back(
        {"it started and stands still: it has read a system, and neither wrote to its disk nor "
         "sent anything",
         "its console in Proxmox says why; an ISO that finds Talos on the disk halts like this",
         64});
}

void judge_network(const Symptoms& s, std::vector<Cause>& causes) {
  if (!s.there || s.power != "running" || s.answer == Symptoms::Answer::Ours ||
      s.answer == Symptoms::Answer::Maintenance)
    return;
  // Who never sent a byte has not come as far as its network.
  if (s.net_out == 0 && has_had_time(s)) return;
  const std::string wire =
      s.vlan ? fmt::format("VLAN {} of {}", *s.vlan, s.bridge)
             : fmt::format("{} without a VLAN", s.bridge.empty() ? "its bridge" : s.bridge);
  if (s.agent_answers && !s.agent_addresses.empty() && !has_agent_address(s) && !s.by_dhcp) {
    std::vector<std::string> names;
    for (const IpAddress& each : s.agent_addresses) names.push_back(to_string(each));
    causes.push_back(
        {fmt::format("it has another address: its guest agent says {}", enumerate(names)),
         "is there a DHCP server, and does the cloud-init drive hang in its slot?", 90});
  }
  const bool up = has_agent_address(s);
  const bool deaf = !hears(s);
  // It is up, or at least sends, and still nobody gets through to it. On a wire of its own that
  // wire is suspected first, on a flat network its way back.
  if ((deaf && s.net_out > 0) || up)
    causes.push_back(
        {fmt::format("it {} and hears {}: {} is not where its network is",
                     up ? "has its address" : "sends", deaf ? "nobody" : "too little", wire),
         "network.vlan, machine.nics and proxmox.bridge must name the network that "
         "holds its subnet",
         deaf ? (s.vlan ? 89 : 75) : 45});
  if (s.gateway && (up || !deaf)) {
    const bool outside = s.subnet && !s.subnet->contains(*s.gateway);
    causes.push_back({outside
                          ? fmt::format("its gateway {} is not in its subnet {}",
                                        to_string(*s.gateway), to_string(*s.subnet))
                          : fmt::format("its answers do not come back: {} may not be its gateway",
                                        to_string(*s.gateway)),
                      "network.gateway must be the router of its subnet",
                      outside ? 90
                      : up    ? 80
                              : 55});
  }
  if (s.net_out == 0 && !deaf)
    causes.push_back(
        {"its network card hears others and sends nothing: the guest has not come as "
         "far as its network",
         "look at its console in Proxmox", 40});
}

void judge_address(const Symptoms& s, std::vector<Cause>& causes) {
  switch (s.answer) {
    case Symptoms::Answer::Stranger:
      causes.push_back({fmt::format("another machine answers at {}: {}", s.address, s.answer_text),
                        "give the node a free address, or move that machine away", 99});
      break;
    case Symptoms::Answer::Foreign:
      causes.push_back(
          {fmt::format("a machine of another cluster answers at {}", s.address),
           "give the node a free address; a machine that should be ours must be reset first", 99});
      break;
    case Symptoms::Answer::OtherSystem:
      causes.push_back({fmt::format("somebody else has {}: {}, and a Talos node never does",
                                    s.address, s.answer_text),
                        "give the node a free address, or move that machine away", 98});
      break;
    case Symptoms::Answer::Ours:
    case Symptoms::Answer::Maintenance:
      if (!s.answer_text.empty())
        causes.push_back({"it answers, and waits for " + s.answer_text,
                          "its log says more: `talosctl dmesg`, `talosctl services`", 60});
      break;
    case Symptoms::Answer::Nobody:
      break;
  }
}

}  // namespace

std::vector<Cause> diagnose(const Symptoms& symptoms) {
  std::vector<Cause> causes;
  judge_machine(symptoms, causes);
  judge_start(symptoms, causes);
  judge_address(symptoms, causes);
  judge_network(symptoms, causes);
  if (causes.empty())
    causes.push_back({"nothing that Proxmox shows explains it",
                      "look at its console in Proxmox; `timeouts.boot` may be too short for this "
                      "host",
                      0});
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.weight > b.weight; });
  return causes;
}

std::string render(const Symptoms& s, const std::vector<Cause>& causes) {
  std::string text;
  if (s.there) {
    text += fmt::format("Proxmox says: {}{}", s.power,
                        s.uptime ? " for " + to_rough_string(*s.uptime) : "");
    if (s.power == "running")
      text += fmt::format(", CPU {:.0f} %, disk {} read and {} written, network {} in and {} out",
                          s.cpu * 100, amount(s.disk_read), amount(s.disk_written),
                          amount(s.net_in), amount(s.net_out));
    if (s.power == "running") {
      std::vector<std::string> names;
      for (const IpAddress& each : s.agent_addresses) names.push_back(to_string(each));
      text += !s.agent_device ? ", no agent port"
              : s.agent_answers
                  ? ", agent says " + (names.empty() ? "no address" : enumerate(names))
                  : ", agent silent";
    }
    text += "\n";
  }
  text += causes.size() == 1 ? "likely cause:\n" : "likely causes:\n";
  std::size_t number = 0;
  for (const Cause& cause : causes)
    text += fmt::format("  {}. {}\n     {}\n", ++number, cause.what, cause.fix);
  text.pop_back();
  return text;
}

namespace {

/// Does anybody say anything at this port?
bool speaks(World& world, const std::string& address, unsigned port) {
  net::Request request;
  request.url = fmt::format("http://{}:{}/", address, port);
  request.connect_timeout = std::chrono::milliseconds{500};
  request.timeout = std::chrono::seconds{2};
  try {
    net::fetch(world.transport, request, world.stop);
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    // Any other failure came after something had accepted the connection.
    return error.fault() != Fault::Unreachable;
  }
  return true;
}

/// Ports that other systems open and Talos does not, and that answer there: "port 22 answers".
std::string other_system(World& world, const std::string& address) {
  // A proxy on the way that answers for everybody answers at a port that nobody uses, too.
  if (speaks(world, address, 1)) return "";
  std::vector<std::string> open;
  for (const unsigned port : {22u, 80u, 443u, 445u, 6443u, 8006u})
    if (speaks(world, address, port)) open.push_back(std::to_string(port));
  if (open.empty()) return "";
  return fmt::format("{} {} answer{} there", open.size() == 1 ? "port" : "ports", enumerate(open),
                     open.size() == 1 ? "s" : "");
}

}  // namespace

std::string occupant(World& world, const std::string& name) {
  const spec::Node* node = world.cluster.spec.find_node(name);
  if (node == nullptr || !node->address) return "";
  const std::string address = to_string(**node->address);
  talos::Access access = world.access(address);
  access.connect_timeout = world.survey.first_knock();
  const Tick knocked = world.clock.tick();
  const talos::Sight sight =
      talos::look(world.transport, access, world.stop, talos::Detail::Status);
  // Where there is no machine, nobody refuses.
  const bool at_home = world.clock.tick() - knocked < access.connect_timeout / 2;
  switch (sight.door) {
    case talos::Door::Ours:
      return "";  // one that goes before this one comes
    case talos::Door::Foreign:
      return "a Talos machine of another cluster";
    case talos::Door::Closed:
      return at_home ? other_system(world, address) : "";
    case talos::Door::Maintenance:
      break;
  }
  const auto system = world.maintenance(address).find_system_information();
  if (!system || !system->uuid || system->uuid == world.cluster.find_uuid(name)) return "";
  const auto ours = [&](const Survey::Candidate& each) {
    return each.shown != nullptr && each.shown->uuid == system->uuid &&
           each.shown->family == engine::ownership_family;
  };
  if (world.cluster.proxmox && !world.survey.select(world.proxmox(), ours).empty()) return "";
  return fmt::format("machine {}, which waits for a configuration", to_string(*system->uuid));
}

std::string vip_occupant(World& world) {
  const auto& endpoint = world.cluster.spec.kubernetes.endpoint;
  if (!endpoint || !endpoint->vip) return "";
  const std::string address = to_string(*endpoint->vip->address);
  talos::Access access = world.access(address);
  access.connect_timeout = world.survey.first_knock();
  const Tick knocked = world.clock.tick();
  const talos::Sight sight =
      talos::look(world.transport, access, world.stop, talos::Detail::Status);
  const bool at_home = world.clock.tick() - knocked < access.connect_timeout / 2;
  switch (sight.door) {
    case talos::Door::Ours:
      return "";
    case talos::Door::Foreign:
      return "a Talos machine of another cluster";
    case talos::Door::Maintenance:
      return "a Talos machine that waits for a configuration";
    case talos::Door::Closed:
      break;
  }
  return at_home ? other_system(world, address) : "";
}

Symptoms examine(World& world, const std::string& name) {
  Symptoms s;
  const spec::Spec& spec = world.cluster.spec;
  const spec::Node* node = spec.find_node(name);
  s.node = name;
  s.address = address_of(world, name);
  s.by_dhcp = *spec.network.addressing == spec::Addressing::Dhcp;
  if (spec.network.gateway) s.gateway = **spec.network.gateway;
  if (spec.network.subnet) s.subnet = **spec.network.subnet;
  const spec::Image& image = node != nullptr ? spec.image_of(*node) : spec.talos.image;
  for (const auto& extension : image.extensions)
    s.agent_extension = s.agent_extension || extension->ends_with("qemu-guest-agent");
  s.existing = node != nullptr && node->existing;
  const auto vm = world.known(vm_address(name));
  const auto vmid = parse_uint(fact(vm, "vmid"));
  if (vmid && world.cluster.proxmox) {
    proxmox::Client& client = world.proxmox();
    const auto id = static_cast<proxmox::Vmid>(*vmid);
    const std::string host = fact(vm, "host");
    const auto attempt = [](auto&& body) {
      try {
        body();
      } catch (const Error& error) {
        // ignored: the diagnosis goes on without this symptom; the step's own error stands above
        // it.
        if (!is_external(error.fault())) throw;
      }
    };
    attempt([&] {
      const auto status = client.find_status(host, id);
      if (!status) return;
      s.there = true;
      s.power = status->status;
      s.qmp = status->qmp_status;
      s.uptime = status->uptime;
      s.cpu = status->cpu;
      s.net_in = status->net_in;
      s.net_out = status->net_out;
      s.disk_read = status->disk_read;
      s.disk_written = status->disk_written;
    });
    attempt([&] {
      const auto config = client.find_config(host, id, true);
      if (!config) return;
      using proxmox::PropertyString;
      s.cpu_type =
          PropertyString::parse("cpu", config->value_or("cpu", "kvm64")).value_or("cputype", "");
      s.firmware = config->value_or("bios", "seabios");
      if (const std::string* efi = config->find("efidisk0"))
        s.pre_enrolled_keys =
            PropertyString::parse("efidisk0", *efi).value_or("pre-enrolled-keys", "0") == "1";
      s.agent_device =
          PropertyString::parse("agent", config->value_or("agent", "0")).value_or("enabled", "0") ==
          "1";
      if (const std::string* nic = config->find("net0")) {
        const PropertyString card = PropertyString::parse("net0", *nic);
        s.bridge = card.value_or("bridge", "");
        if (const auto tag = parse_uint(card.value_or("tag", "")))
          s.vlan = static_cast<unsigned>(*tag);
      }
      std::string order = config->value_or("boot", "");
      if (order.starts_with("order=")) order.erase(0, 6);
      const std::string first = split(order, ';').front();
      const std::string* device = config->find(first);
      s.iso_first = device != nullptr && device->find(":iso/") != std::string::npos;
    });
    attempt([&] {
      const auto interfaces = client.find_agent_interfaces(host, id);
      s.agent_answers = interfaces.has_value();
      if (!interfaces) return;
      for (const proxmox::AgentInterface& interface : *interfaces)
        for (const IpAddress& address : interface.addresses)
          if (!address.is_loopback() && !address.is_link_local())
            s.agent_addresses.push_back(address);
    });
  }
  if (s.address.empty()) return s;
  const talos::Sight sight = talos::look(world.transport, world.access(s.address), world.stop);
  if (sight.door == talos::Door::Closed) {
    s.answer_text = other_system(world, s.address);
    if (!s.answer_text.empty()) s.answer = Symptoms::Answer::OtherSystem;
    return s;
  }
  s.answer = sight.door == talos::Door::Ours          ? Symptoms::Answer::Ours
             : sight.door == talos::Door::Maintenance ? Symptoms::Answer::Maintenance
                                                      : Symptoms::Answer::Foreign;
  if (sight.door == talos::Door::Ours) s.answer_text = talos::until_running(sight).waiting_for;
  if (sight.door == talos::Door::Maintenance && node != nullptr && !node->existing) {
    try {
      const auto system = world.maintenance(s.address).find_system_information();
      if (system && system->uuid && system->uuid != world.cluster.find_uuid(name)) {
        s.answer = Symptoms::Answer::Stranger;
        s.answer_text = "machine " + to_string(*system->uuid);
      }
    } catch (const Error& error) {
      // ignored: without its UUID the machine is described as one in maintenance mode.
      if (!is_external(error.fault())) throw;
    }
  }
  return s;
}

engine::Explanation explain_node(World& world, const std::string& node) {
  const Symptoms symptoms = examine(world, node);
  const std::vector<Cause> causes = diagnose(symptoms);
  const Cause& likeliest = causes.front();
  return {likeliest.fix.empty() ? likeliest.what
                                : fmt::format("{} ({})", likeliest.what, likeliest.fix),
          render(symptoms, causes)};
}

}  // namespace rocca::resources
