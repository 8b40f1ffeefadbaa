#include "lab/machines/machines.hpp"

#include "base/strings.hpp"
#include "lab/machines/clusters.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab {

Estate::Estate(pve::Datacenter& dc, const ImageFactory& factory, Lans& lans,
               talos::NodeTiming timing)
    : dc_(dc),
      factory_(factory),
      lans_(lans),
      timing_(timing),
      fleet_(dc.world),
      clusters_(std::make_unique<Clusters>(fleet_)) {
  fleet_.lans = &lans_;
  dc_.on_power = [this](pve::Vm& vm, bool running) {
    if (running)
      boot(vm.id, false);
    else
      cut(vm.id);
  };
  dc_.on_replug = [this](pve::Vm& vm) { replug(vm); };
  dc_.on_button = [this](pve::Vm& vm) {
    talos::TalosNode* node = find(vm.id);
    if (node != nullptr) node->press_power_button();
    return node != nullptr;
  };
  dc_.counters_of = [this](const pve::Vm& vm) { return counters_of(vm); };
  dc_.guest_of = [this](const pve::Vm& vm) { return guest_of(vm); };
  lans_.on_change([this] {
    for (talos::TalosNode* node : fleet_.nodes()) node->renew_leases();
  });
}

Estate::~Estate() {
  dc_.world.end_routines();
  dc_.on_power = nullptr;
  dc_.on_replug = nullptr;
  dc_.on_button = nullptr;
  dc_.guest_of = nullptr;
  dc_.counters_of = nullptr;
  lans_.on_change(nullptr);
}

void Estate::boot(unsigned vmid, bool warm) {
  pve::Vm* vm = dc_.find_vm(vmid);
  if (vm == nullptr) return;
  Box& box = boxes_[vmid];
  box.on = true;
  box.since = dc_.world.now();
  spoil_config(*vm);
  box.start = start_up(dc_, *vm, factory_, warm);
  spoil(*vm, box.start);
  dc_.world.note(fmt::format("VM {} boots {}{}{}", vmid, to_string(box.start.boot),
                             box.start.why.empty() ? "" : ": ", box.start.why));
  if (box.start.boot != Boot::Talos && box.start.boot != Boot::Halted) return;
  if (box.node == nullptr) {
    box.node = std::make_unique<talos::TalosNode>(fleet_, talos::Machine{}, timing_);
    box.node->on_power_off = [this, vmid] {
      pve::Vm* mine = dc_.find_vm(vmid);
      if (mine != nullptr && pve::is_running(*mine)) pve::set_stopped(dc_, *mine);
    };
    box.node->on_reboot = [this, vmid](bool again_warm) {
      save(vmid, boxes_.at(vmid));
      boot(vmid, again_warm);
    };
  }
  box.node->power_on(box.start.machine, box.start.disk, warm);
}

/// What it hears and who hears it changes at once; what it has configured stays.
void Estate::replug(const pve::Vm& vm) {
  const auto found = boxes_.find(vm.id);
  talos::TalosNode* node = find(vm.id);
  if (found == boxes_.end() || node == nullptr) return;
  std::map<std::string, std::string> wires;  // by hardware address
  for (const auto& [key, value] : vm.running)
    if (pve::is_net_key(key))
      wires[to_lower(pve::parse_keys(dc_.schema, "net", value)["macaddr"])] =
          wire_of(dc_.schema, value);
  StartUp& start = found->second.start;
  for (talos::Link& link : start.machine.links) link.wire = wires[link.mac];
  misplug(vm, start);
  wires.clear();
  for (const talos::Link& link : start.machine.links) wires[link.mac] = link.wire;
  node->plug(wires);
}

void Estate::cut(unsigned vmid) {
  const auto found = boxes_.find(vmid);
  if (found == boxes_.end() || !found->second.on) return;
  found->second.on = false;
  if (found->second.node != nullptr) found->second.node->power_off();
  save(vmid, found->second);
}

void Estate::save(unsigned vmid, Box& box) {
  if (box.node == nullptr || box.start.boot != Boot::Talos) return;
  const talos::SystemDisk& disk = box.node->disk();
  pve::Vm* vm = dc_.find_vm(vmid);
  const pve::Node* host = vm == nullptr ? nullptr : dc_.find_node(vm->node);
  const auto key = box.start.drives.find(disk.installed_disk);
  if (host == nullptr || key == box.start.drives.end()) return;
  const auto value = vm->config.find(key->second);
  if (value == vm->config.end()) return;
  const auto drive = pve::parse_drive(dc_.schema, key->second, value->second);
  pve::Volume* volume = drive ? dc_.find_volume(drive->file(), *host) : nullptr;
  if (volume == nullptr) return;
  if (!disk.installed) {
    volume->image.identity.clear();
    volume->image.content.reset();
    return;
  }
  TalosImage image;
  if (const auto before = TalosImage::parse(volume->image.identity)) image = *before;
  image.version = disk.version;
  image.platform = disk.platform;
  image.schematic = disk.schematic;
  volume->image.identity = to_string(image);
  volume->image.content = std::make_shared<TalosDisk>(disk);
}

talos::TalosNode* Estate::find(unsigned vmid) const {
  const auto found = boxes_.find(vmid);
  if (found == boxes_.end() || found->second.node == nullptr || !found->second.node->powered())
    return nullptr;
  return found->second.node.get();
}

talos::TalosNode* Estate::find(const std::string& hostname) const {
  for (talos::TalosNode* node : fleet_.nodes())
    if (node->powered() && node->hostname() == hostname) return node;
  return nullptr;
}

std::optional<pve::Guest> Estate::guest_of(const pve::Vm& vm) const {
  const auto found = boxes_.find(vm.id);
  if (found == boxes_.end() || !found->second.on) return std::nullopt;
  const Box& box = found->second;
  if (box.start.boot == Boot::Foreign) {
    pve::Guest other;
    other.acpi = !troubled(vm, Trouble::Deaf);
    return other;
  }
  const talos::TalosNode* node = find(vm.id);
  // Firmware that waits and kernels that die hear no button.
  if (node == nullptr) return std::nullopt;
  pve::Guest guest;
  guest.acpi = node->stage() != talos::Stage::Unknown && !troubled(vm, Trouble::Deaf);
  guest.agent = node->service_running("ext-qemu-guest-agent");
  if (!guest.agent) return guest;
  guest.host_name = node->hostname();
  guest.agent_version = "10.0.2";
  const std::string version = fmt::format("v{}", to_string(node->version()));
  guest.os = {{"id", "talos"},
              {"name", "Talos"},
              {"pretty-name", fmt::format("Talos ({})", version)},
              {"version-id", version},
              {"machine", "x86_64"}};
  guest.interfaces.push_back({"lo", "00:00:00:00:00:00", {{"127.0.0.1", 8}, {"::1", 128}}});
  for (const talos::Link& link : node->machine().links) {
    pve::Guest::Interface card{link.name, link.mac, {}};
    for (const talos::Address& each : node->network().addresses)
      if (each.link == link.name)
        card.addresses.push_back({to_string(each.cidr.address()), each.cidr.prefix()});
    guest.interfaces.push_back(std::move(card));
  }
  return guest;
}

namespace {

constexpr std::pair<std::string_view, Trouble> troubles[] = {
    {"boot-loop", Trouble::BootLoop},
    {"no-boot", Trouble::NoBoot},
    {"halt", Trouble::Halt},
    {"no-agent", Trouble::NoAgent},
    {"wrong-vlan", Trouble::WrongVlan},
    {"wrong-gateway", Trouble::WrongGateway},
    {"deaf", Trouble::Deaf},
    {"kvm64", Trouble::OldProcessor},
    {"enrolled-keys", Trouble::EnrolledKeys},
    {"iso-first", Trouble::IsoFirst},
    {"agent-off", Trouble::AgentOff}};

}  // namespace

std::optional<Trouble> parse_trouble(std::string_view name) {
  for (const auto& [word, trouble] : troubles)
    if (word == name) return trouble;
  return std::nullopt;
}

std::vector<std::string> trouble_names() {
  std::vector<std::string> names;
  for (const auto& [word, trouble] : troubles) names.emplace_back(word);
  return names;
}

namespace {

void set(std::set<Trouble>& all, Trouble what, bool on) {
  if (on)
    all.insert(what);
  else
    all.erase(what);
}

}  // namespace

void Estate::trouble(unsigned vmid, Trouble what, bool on) {
  set(vm_troubles_[vmid], what, on);
}

void Estate::trouble_host(const std::string& host, Trouble what, bool on) {
  set(host_troubles_[host], what, on);
}

void Estate::trouble_all(Trouble what, bool on) {
  set(troubles_, what, on);
}

void Estate::end_troubles() {
  vm_troubles_.clear();
  host_troubles_.clear();
  troubles_.clear();
}

bool Estate::troubled(const pve::Vm& vm, Trouble what) const {
  const auto mine = vm_troubles_.find(vm.id);
  const auto host = host_troubles_.find(vm.node);
  return troubles_.contains(what) || (mine != vm_troubles_.end() && mine->second.contains(what)) ||
         (host != host_troubles_.end() && host->second.contains(what));
}

/// What Proxmox shows and what the process got are both as that hand left them.
void Estate::spoil_config(pve::Vm& vm) const {
  const auto set = [&](const std::string& key, const std::string& value) {
    vm.config[key] = vm.running[key] = value;
  };
  if (troubled(vm, Trouble::OldProcessor)) set("cpu", "kvm64");
  if (troubled(vm, Trouble::AgentOff)) set("agent", "0");
  if (troubled(vm, Trouble::EnrolledKeys) && vm.config.contains("efidisk0")) {
    std::string efi = vm.config["efidisk0"];
    const auto at = efi.find("pre-enrolled-keys=0");
    if (at != std::string::npos)
      efi.replace(at, 19, "pre-enrolled-keys=1");
    else if (efi.find("pre-enrolled-keys=1") == std::string::npos)
      efi += ",pre-enrolled-keys=1";
    set("efidisk0", efi);
  }
  if (!troubled(vm, Trouble::IsoFirst)) return;
  const auto installed = find_installed(dc_, vm, vm.config, factory_);
  pve::Storage* storage = dc_.find_storage("local");
  if (!installed || storage == nullptr) return;
  pve::Volume iso;
  iso.name = "iso/talos-by-hand.iso";
  iso.content = "iso";
  iso.format = "iso";
  iso.size = iso.used = 300u << 20;
  iso.image.format = "iso";
  iso.image.identity = installed->volume->image.identity;
  storage->on(vm.node)[iso.name] = iso;
  set("ide0", "local:iso/talos-by-hand.iso,media=cdrom,size=300M");
  set("boot", fmt::format("order=ide0;{}", installed->drive));
}

void Estate::spoil(const pve::Vm& vm, StartUp& start) const {
  if (start.boot == Boot::Nothing) return;
  const auto becomes = [&](Boot boot, const char* why) {
    start.boot = boot;
    start.why = why;
  };
  if (troubled(vm, Trouble::NoBoot)) becomes(Boot::Nothing, "the firmware refuses to start it");
  if (troubled(vm, Trouble::BootLoop)) becomes(Boot::Loop, "the kernel dies at once");
  if (troubled(vm, Trouble::Halt) && start.boot == Boot::Talos) {
    becomes(Boot::Halted, "Talos stops before it serves anything");
    start.machine.halts = true;
  }
  if (troubled(vm, Trouble::NoAgent)) start.machine.agent_device = false;
  misplug(vm, start);
  start.machine.no_way_back = troubled(vm, Trouble::WrongGateway);
}

void Estate::misplug(const pve::Vm& vm, StartUp& start) const {
  for (talos::Link& link : start.machine.links)
    if (troubled(vm, Trouble::WrongVlan) && !link.wire.empty()) link.wire += " elsewhere";
}

void Estate::crash(unsigned vmid) {
  pve::Vm* vm = dc_.find_vm(vmid);
  if (vm != nullptr && pve::is_running(*vm)) pve::set_stopped(dc_, *vm);
}

std::optional<unsigned> Estate::owner_of(std::string_view address) const {
  for (const auto& [vmid, box] : boxes_)
    if (box.node != nullptr && box.node->powered())
      for (const talos::SharedAddress& each : box.node->owned())
        if (each.address == address) return vmid;
  return std::nullopt;
}

/// Orders of magnitude as a host shows them: a system that starts reads its disk, one that runs
/// talks, one that dies at once reads the same again and again, and firmware that waits does
/// nothing.
pve::Counters Estate::counters_of(const pve::Vm& vm) const {
  const auto found = boxes_.find(vm.id);
  if (found == boxes_.end() || !found->second.on) return {};
  const Box& box = found->second;
  const auto seconds = [](Duration duration) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(
        std::chrono::duration_cast<std::chrono::seconds>(duration).count(), 0));
  };
  const std::uint64_t all = seconds(dc_.world.now() - vm.started);
  const std::uint64_t now = seconds(dc_.world.now() - box.since);
  constexpr std::uint64_t mib = 1 << 20;
  pve::Counters counters;
  const talos::TalosNode* node = find(vm.id);
  const bool plugged = node == nullptr || !node->network().addresses.empty();
  // Whatever is shouted on the wire arrives, wanted or not.
  counters.net_in = all * 60;
  switch (box.start.boot) {
    case Boot::Nothing:
      counters.disk_read = mib / 2;
      return counters;
    case Boot::Loop:
      counters.cpu = 0.7;
      counters.disk_read = (all / 6 + 1) * 45 * mib;
      return counters;
    case Boot::Halted:
      counters.cpu = 0.01;
      counters.disk_read = std::min<std::uint64_t>(now, 10) * 14 * mib;
      return counters;
    case Boot::Foreign:
      counters.cpu = 0.02;
      counters.disk_read = std::min<std::uint64_t>(now, 20) * 10 * mib;
      counters.disk_written = now * 4096;
      counters.net_out = now * 100;
      return counters;
    case Boot::Talos:
      break;
  }
  const bool busy = node != nullptr && (node->stage() == talos::Stage::Booting ||
                                        node->stage() == talos::Stage::Installing ||
                                        node->stage() == talos::Stage::Upgrading);
  counters.cpu = busy ? 0.45 : 0.04;
  // Reboots add to what was counted before.
  counters.disk_read = std::min<std::uint64_t>(now, 15) * 12 * mib + (all - now) * mib / 4;
  counters.disk_written = all * 60'000;
  if (plugged && node != nullptr) {
    // Without a way back only its own questions go out, and nothing meant for it comes in.
    counters.net_out = now * (node->routed() ? 2500u : 120u);
    if (node->routed()) counters.net_in += now * 3000;
  }
  return counters;
}

Truth Estate::truth(unsigned vmid) const {
  Truth truth;
  truth.vmid = vmid;
  pve::Vm* vm = dc_.find_vm(vmid);
  if (vm == nullptr) return truth;
  truth.running = pve::is_running(*vm);
  const auto fill = [&](const talos::SystemDisk& disk) {
    truth.configured = disk.config.has_value();
    truth.config = disk.config.value_or("");
    truth.installed_version = disk.installed ? disk.version : "";
    truth.schematic = disk.schematic;
    truth.platform = disk.platform;
    const auto* member = disk.etcd ? disk.etcd->find(disk.etcd_member) : nullptr;
    truth.etcd_member = member != nullptr && !member->learner;
  };
  if (const auto found = boxes_.find(vmid); found != boxes_.end() && found->second.on) {
    truth.boot = found->second.start.boot;
    truth.why = found->second.start.why;
  }
  const talos::TalosNode* node = find(vmid);
  if (node == nullptr) {
    if (const auto installed = find_installed(dc_, *vm, vm->config, factory_))
      fill(installed->disk);
    return truth;
  }
  fill(node->disk());
  truth.stage = node->stage();
  truth.hostname = node->hostname();
  for (const talos::Address& each : node->network().addresses)
    truth.addresses.push_back(to_string(each.cidr));
  truth.heard = node->heard_at();
  truth.etcd_runs = node->etcd_runs();
  truth.apiserver_runs = node->apiserver_runs();
  for (const talos::SharedAddress& each : node->owned()) truth.owns.push_back(each.address);
  return truth;
}

std::vector<Truth> Estate::truths() const {
  std::vector<Truth> all;
  for (const auto& [vmid, vm] : dc_.vms) all.push_back(truth(vmid));
  return all;
}

}  // namespace rocca::lab
