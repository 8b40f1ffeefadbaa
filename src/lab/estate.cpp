#include "lab/estate.hpp"

#include "lab/pve/qemu.hpp"

#include <fmt/format.h>

namespace rocca::lab {

Estate::Estate(pve::Datacenter& dc, const ImageFactory& factory, Lans& lans,
               talos::NodeTiming timing)
    : dc_(dc), factory_(factory), lans_(lans), timing_(timing), fleet_(dc.world) {
  fleet_.lans = &lans_;
  dc_.on_power = [this](pve::Vm& vm, bool running) {
    if (running)
      boot(vm.id, false);
    else
      cut(vm.id);
  };
  dc_.on_button = [this](pve::Vm& vm) {
    talos::TalosNode* node = find(vm.id);
    if (node != nullptr) node->press_power_button();
    return node != nullptr;
  };
  dc_.guest_of = [this](const pve::Vm& vm) { return guest_of(vm); };
  lans_.on_change([this] {
    for (talos::TalosNode* node : fleet_.nodes()) node->renew_leases();
  });
}

Estate::~Estate() {
  dc_.world.end_routines();
  dc_.on_power = nullptr;
  dc_.on_button = nullptr;
  dc_.guest_of = nullptr;
  lans_.on_change(nullptr);
}

void Estate::boot(unsigned vmid, bool warm) {
  const pve::Vm* vm = dc_.find_vm(vmid);
  if (vm == nullptr) return;
  Box& box = boxes_[vmid];
  box.on = true;
  box.since = dc_.world.now();
  box.start = start_up(dc_, *vm, factory_, warm);
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
  if (box.start.boot == Boot::Foreign) return pve::Guest{};
  const talos::TalosNode* node = find(vm.id);
  // Firmware that waits and kernels that die hear no button.
  if (node == nullptr) return std::nullopt;
  pve::Guest guest;
  guest.acpi = node->stage() != talos::Stage::Unknown;
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
  return truth;
}

std::vector<Truth> Estate::truths() const {
  std::vector<Truth> all;
  for (const auto& [vmid, vm] : dc_.vms) all.push_back(truth(vmid));
  return all;
}

}  // namespace rocca::lab
