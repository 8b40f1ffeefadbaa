#include "platform/proxmox/desired_vm.hpp"

#include "base/strings.hpp"
#include "platform/proxmox/kinds.hpp"
#include "platform/proxmox/placement.hpp"
#include "platform/vm_guard.hpp"
#include "proxmox/property_string.hpp"
#include "talosconfig/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::resources {

namespace {

using proxmox::PropertyString;

// What a VM has where its configuration says nothing (qemu-server's schema).
const std::map<std::string, std::string> defaults = {
    {"cores", "1"},      {"sockets", "1"},    {"memory", "512"},   {"scsihw", "lsi"},
    {"bios", "seabios"}, {"ostype", "other"}, {"cpu", "kvm64"},    {"onboot", "0"},
    {"agent", "0"},      {"tags", ""},        {"description", ""}, {"name", ""},
    {"nameserver", ""},  {"machine", "pc"}};

// What we say of a disk, a card and the agent. Whatever else a user set there is theirs.
constexpr std::array of_disks = {"cache", "discard", "iothread", "serial", "ssd"};
constexpr std::array of_nics = {"bridge", "macaddr", "model", "mtu", "tag"};
constexpr std::array of_agents = {"enabled"};

bool is_data_slot(const std::string& option) {
  return proxmox::family(option) == "scsi" && option != "scsihw";
}

/// Where another tool may have put what we put on SCSI.
bool is_disk_slot(const std::string& option) {
  const std::string_view bus = proxmox::family(option);
  return is_data_slot(option) || bus == "virtio" || bus == "sata";
}

/// Does this part of an option's value belong to us?
bool declared(const std::string& option, const std::string& key) {
  const auto among = [&](const auto& keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if (is_disk_slot(option)) return among(of_disks);
  if (proxmox::family(option) == "net") return among(of_nics);
  if (option == "agent") return among(of_agents);
  return true;
}

/// A hardware address or a serial number that is not asked for is the VM's own.
bool counts(const std::string& option, const std::string& key, const PropertyString& wanted) {
  if (!declared(option, key)) return false;
  return (key != "macaddr" && key != "serial") || wanted.find(key) != nullptr;
}

bool has_parts(const std::string& option) {
  return is_disk_slot(option) || proxmox::family(option) == "net" || option == "agent";
}

/// The parts of a value that count where `wanted` is asked for, in one order and spelling.
std::string declared_parts(const std::string& option, const std::string& text,
                           const std::string& wanted) {
  const PropertyString properties = PropertyString::parse(option, proxmox::normalise(option, text));
  const PropertyString wish = PropertyString::parse(option, proxmox::normalise(option, wanted));
  std::vector<std::string> parts;
  for (const PropertyString::Property& property : properties.properties())
    if (counts(option, property.key, wish)) parts.push_back(property.key + "=" + property.value);
  std::sort(parts.begin(), parts.end());
  return join(parts, ",");
}

/// The found value with our parts as wished and all others as they are.
std::string with_our_parts(const std::string& option, const std::string& wanted,
                           const std::string& found) {
  PropertyString result = PropertyString::parse(option, found);
  const PropertyString ours = PropertyString::parse(option, wanted);
  const std::vector<PropertyString::Property> found_parts = result.properties();
  for (const PropertyString::Property& property : found_parts)
    if (counts(option, property.key, ours)) result.erase(property.key);
  for (const PropertyString::Property& property : ours.properties())
    if (declared(option, property.key)) result.set(property.key, property.value);
  return result.print();
}

bool is_q35(std::string_view machine) {
  return machine.find("q35") != std::string_view::npos;
}

bool same(const std::string& option, const std::string& wanted, const std::string& found) {
  if (option == "description") return trim(wanted) == trim(found);
  // A VM may be bound to a version of its chipset (`pc-q35-9.0`); a spec names the chipset.
  if (option == "machine") return is_q35(wanted) == is_q35(found);
  if (has_parts(option))
    return declared_parts(option, wanted, wanted) == declared_parts(option, found, wanted);
  return proxmox::same_meaning(option, wanted, found);
}

/// Of a disk that may stand on another bus than ours would: the parts are the same there.
std::string disk_parts(const std::string& slot, const std::string& found, const DiskWish& disk) {
  PropertyString moved{disk.slot};
  const PropertyString parts = PropertyString::parse(slot, found);
  for (const PropertyString::Property& part : parts.properties()) moved.set(part.key, part.value);
  return declared_parts(disk.slot, moved.print(), disk.drive.print());
}

Bytes size_in(const std::string& slot, const std::string& text) {
  const PropertyString properties = PropertyString::parse(slot, text);
  return Bytes{proxmox::parse_size(properties.value_or("size", "0")).value_or(0)};
}

std::string volume_in(const std::string& slot, const std::string& text) {
  return PropertyString::parse(slot, text).value_or("file", "");
}

std::string storage_of(const std::string& volume) {
  const auto colon = volume.find(':');
  return colon == std::string::npos ? "" : volume.substr(0, colon);
}

void set_disks(VmWish& wish, const spec::Spec& spec, const spec::Node& node,
               const std::string& image) {
  unsigned number = 0;
  for (const spec::Disk& disk : node.machine->disks) {
    const bool system = number == 0;
    DiskWish made;
    made.slot = fmt::format("scsi{}", number++);
    made.storage = disk.storage ? **disk.storage : *spec.proxmox->disk_storage;
    made.size = *disk.size;
    made.drive.storage = made.storage;
    if (system && *spec.talos.boot == spec::Boot::Import)
      made.drive.import_from = image;
    else
      made.drive.size = made.size;
    made.serial = talos::disk_serial(disk);
    if (!wish.adopted()) made.drive.serial = made.serial;
    made.drive.iothread = *disk.iothread;
    made.drive.discard = disk.discard;
    made.drive.ssd = disk.ssd;
    made.drive.cache = *disk.cache;
    wish.create.drives[made.slot] = made.drive;
    wish.disks.push_back(std::move(made));
  }
}

void set_network(VmWish& wish, const spec::Spec& spec, const spec::Node& node) {
  const spec::Machine& machine = *node.machine;
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    const spec::Nic& nic = machine.nics[i];
    proxmox::Nic made;
    if (nic.mac)
      made.mac = **nic.mac;
    else if (!wish.adopted())
      made.mac = derive_mac(wish.identity.uuid, i);
    made.bridge = nic.bridge ? **nic.bridge : *spec.proxmox->bridge;
    // What the spec says of the cluster's network is about the first link.
    const auto& vlan = nic.vlan || i > 0 ? nic.vlan : spec.network.vlan;
    const auto& mtu = nic.mtu || i > 0 ? nic.mtu : spec.network.mtu;
    if (vlan) made.vlan = static_cast<unsigned>(**vlan);
    if (mtu) made.mtu = static_cast<unsigned>(**mtu);
    wish.create.nics.push_back(std::move(made));
  }
  if (*spec.network.addressing != spec::Addressing::NoCloud) return;
  wish.cloud_init_slot = *machine.cloud_init_slot;
  proxmox::Drive drive;
  drive.storage = *spec.proxmox->disk_storage;
  drive.cloud_init = true;
  wish.create.drives[wish.cloud_init_slot] = drive;
  if (!node.address || !spec.network.subnet) return;
  proxmox::IpConfig ip;
  const std::string address =
      fmt::format("{}/{}", to_string(**node.address), (*spec.network.subnet)->prefix());
  const std::string gateway = spec.network.gateway ? to_string(**spec.network.gateway) : "";
  (node.address->value.is_v4() ? ip.address : ip.address6) = address;
  (node.address->value.is_v4() ? ip.gateway : ip.gateway6) = gateway;
  wish.create.ip_configs.push_back(std::move(ip));
  for (const auto& server : spec.network.nameservers)
    wish.create.nameservers.push_back(to_string(*server));
}

std::string first_note(const Cluster& cluster, const std::string& node, bool control_plane) {
  return fmt::format("{} {} of the Talos cluster {}.", control_plane ? "Control plane" : "Worker",
                     node, cluster.name());
}

/// What will not be as wished after the next start, because somebody said so.
void add_pending(const VmWish& wish, const std::map<std::string, std::string>& options,
                 const proxmox::VmConfig& config, Fields& fields) {
  for (const auto& [option, value] : config.pending) {
    const auto disk = std::find_if(
        wish.disks.begin(), wish.disks.end(),
        [&, &name = option](const DiskWish& each) { return slot_in(wish, each, config) == name; });
    bool kept = true;
    if (option == "smbios1") {
      // With the next stop this VM would lose its proof.
      proxmox::VmConfig after;
      if (value) after.options[option] = *value;
      kept =
          engine::prove(shown_of({}, after), wish.identity).ownership == engine::Ownership::Ours ||
          wish.adopted();
    } else if (disk != wish.disks.end()) {
      kept = value && same(option, disk->drive.print(), *value);
    } else if (option == wish.cloud_init_slot) {
      kept = value && value->find("cloudinit") != std::string::npos;
    } else if (const auto wanted = options.find(option); wanted != options.end()) {
      const auto fallback = defaults.find(option);
      const std::string after =
          value ? *value : (fallback == defaults.end() ? "" : fallback->second);
      // An ISO that is still there stands last in the order.
      kept = same(option, wanted->second, after) ||
             (option == "boot" && after.starts_with("order=scsi0"));
    }
    if (!kept) fields[option + ".pending"] = value.value_or("removed");
  }
}

/// The order in which a user counts disks.
std::pair<int, std::uint64_t> rank_of(const std::string& slot) {
  constexpr std::array buses = {"scsi", "virtio", "sata", "ide"};
  const std::string bus{proxmox::family(slot)};
  const auto found = std::find(buses.begin(), buses.end(), bus);
  return {static_cast<int>(found - buses.begin()),
          parse_uint(std::string_view(slot).substr(bus.size())).value_or(0)};
}

}  // namespace

std::vector<std::string> disk_slots(const proxmox::VmConfig& config) {
  std::vector<std::string> slots;
  for (const auto& [option, value] : config.options) {
    const std::string_view bus = proxmox::family(option);
    if (!proxmox::is_drive(option) || bus == "efidisk" || bus == "tpmstate" || bus == "unused")
      continue;
    const PropertyString properties = PropertyString::parse(option, value);
    if (properties.value_or("media", "disk") == "disk" &&
        properties.value_or("file", "").find("cloudinit") == std::string::npos)
      slots.push_back(option);
  }
  const std::string boot = config.value_or("boot", "");
  std::string first;
  if (boot.starts_with("order="))
    for (const std::string& slot : split(std::string_view(boot).substr(6), ';'))
      if (first.empty() && std::find(slots.begin(), slots.end(), slot) != slots.end()) first = slot;
  std::sort(slots.begin(), slots.end(), [&](const std::string& a, const std::string& b) {
    if ((a == first) != (b == first)) return a == first;
    return rank_of(a) < rank_of(b);
  });
  return slots;
}

std::string slot_in(const VmWish& wish, const DiskWish& disk, const proxmox::VmConfig& config) {
  if (!wish.adopted()) return disk.slot;
  const std::vector<std::string> slots = disk_slots(config);
  const auto index = static_cast<std::size_t>(&disk - wish.disks.data());
  return index < slots.size() ? slots[index] : disk.slot;
}

std::optional<bool> control_plane_by_notes(const Cluster& cluster, const std::string& node,
                                           const proxmox::VmConfig& config) {
  const std::string notes = config.value_or("description", "");
  for (const bool control_plane : {false, true})
    if (notes.starts_with(first_note(cluster, node, control_plane))) return control_plane;
  return std::nullopt;
}

VmWish vm_wish(const Cluster& cluster, const Ground& ground, const spec::Node& node) {
  const spec::Spec& spec = cluster.spec;
  const spec::Machine& machine = *node.machine;
  const spec::LockedNode& chosen = cluster.lock.nodes.at(node.name);
  VmWish wish;
  wish.node = node.name;
  wish.control_plane = node.control_plane();
  wish.workers = cluster.spec.workers().size();
  wish.host = chosen.host;
  wish.pinned = machine.vmid.has_value();
  wish.identity = cluster.identity_of(node.name);
  if (node.address) wish.address = to_string(**node.address);
  wish.boot_timeout = spec.timeouts.boot;
  if (*spec.talos.boot == spec::Boot::Template) {
    wish.from_template = spec.talos.boot_template;
    // A clone call of a killed run may still be carried out: its nonce counts until the VM settles.
    const state::Item* item = ground.item(vm_address(node.name));
    wish.nonce = item == nullptr ? "" : fact(item->facts, clone_nonce);
    if (const auto seed = Uuid::parse(ground.seed); wish.nonce.empty() && seed)
      wish.nonce = to_string(Uuid::v5(*seed, node.name));
  }

  proxmox::VmCreate& create = wish.create;
  create.vmid = static_cast<proxmox::Vmid>(chosen.vmid.value_or(0));
  create.name = node.vm_name;
  if (machine.pool) create.pool = **machine.pool;
  create.description = fmt::format("{}\n\nrocca keeps this VM as its spec says. UUID {}",
                                   first_note(cluster, node.name, node.control_plane()),
                                   to_string(wish.identity.uuid));
  create.tags = {"rocca", to_lower(cluster.name())};
  std::sort(create.tags.begin(), create.tags.end());
  create.cores = static_cast<unsigned>(*machine.cores);
  create.cpu = *machine.cpu;
  create.memory_mib = machine.memory->count() >> 20;
  create.balloon_mib = 0;  // Talos does not give memory back
  create.machine = *machine.chipset == "i440fx" ? "pc" : *machine.chipset;  // Proxmox' name of it
  create.bios = *machine.firmware;
  create.scsi_controller = *machine.scsi;
  create.agent = *machine.agent;
  create.on_boot = *machine.on_boot;
  // Without pre-enrolled keys: with them OVMF refuses an image that is not signed for Secure Boot.
  if (create.bios == "ovmf")
    create.efi_disk = proxmox::EfiDisk{*spec.proxmox->disk_storage, /*pre_enrolled_keys=*/false};
  proxmox::Smbios smbios;
  smbios.uuid = wish.identity.uuid;
  smbios.family = engine::ownership_family;
  smbios.sku = engine::ownership_mark(wish.identity.cluster, wish.identity.node);
  create.smbios = std::move(smbios);
  const bool iso = *spec.talos.boot == spec::Boot::Iso;
  const std::string image = fmt::format("{}:{}/{}", *spec.proxmox->image_storage,
                                        iso ? "iso" : "import", image_file(cluster, node));
  set_disks(wish, spec, node, image);
  set_network(wish, spec, node);
  // The disk first: an empty one falls through to the ISO, and once Talos is on it the ISO, which
  // halts a machine that is installed, is never reached.
  create.boot_order = {"scsi0"};
  if (iso) {
    proxmox::Drive drive;
    drive.volume = image;
    drive.cdrom = true;
    create.drives[*machine.iso_slot] = drive;
    create.boot_order.push_back(*machine.iso_slot);
  }
  for (const spec::PciDevice& device : machine.pci)
    create.pci_mappings.push_back({*device.mapping, *device.pcie});
  return wish;
}

std::map<std::string, std::string> VmWish::options() const {
  std::map<std::string, std::string> options;
  for (auto& [key, value] : create.parameters()) {
    // Ids, places and drives are no options; the mark was proved before anything was compared.
    if (key == "vmid" || key == "pool" || key == "smbios1" || proxmox::is_drive(key)) continue;
    options[key] = value;
  }
  // An ISO leaves the order with its drive.
  options["boot"] = "order=scsi0";
  if (adopted())
    for (const char* untold : {"balloon", "boot", "description", "ostype", "sockets", "tags"})
      options.erase(untold);
  return options;
}

Effect effect_of(const std::string& option, const std::string& wanted, const std::string& found) {
  if (option == "machine" || option == "bios" || option == "vmid") return Effect::Replace;
  for (const char* live : {"name", "tags", "description", "onboot", "power"})
    if (option == live) return Effect::Live;
  if (option.ends_with(".size")) {
    const auto before = Bytes::parse(found), after = Bytes::parse(wanted);
    return before && after && *after < *before ? Effect::DataLoss : Effect::Live;
  }
  if (is_data_slot(option)) {
    if (found.empty()) return Effect::Live;       // a new disk is plugged in
    if (wanted.empty()) return Effect::DataLoss;  // one that is no longer wanted
  }
  if (proxmox::family(option) == "net" && !found.empty()) {
    // A bridge or VLAN is changed under a running guest, who is somewhere else from then on; model,
    // MAC and MTU unplug the card.
    PropertyString a = PropertyString::parse(option, proxmox::normalise(option, wanted));
    PropertyString b = PropertyString::parse(option, proxmox::normalise(option, found));
    const auto same_without = [&](std::initializer_list<const char*> keys) {
      for (const char* key : keys) {
        a.erase(key);
        b.erase(key);
      }
      return a.print() == b.print();
    };
    if (same_without({"firewall", "rate"})) return Effect::Live;
    return same_without({"bridge", "tag", "trunks", "link_down"}) ? Effect::Service
                                                                  : Effect::PowerCycle;
  }
  return Effect::PowerCycle;
}

bool moves_card(const FieldChange& field) {
  return proxmox::family(field.field) == "net" && field.effect == Effect::Service;
}

std::string ordeal_of(const Change& change) {
  std::vector<std::string> parts;
  for (const FieldChange& field : change.fields) {
    if (moves_card(field))  // without the hardware address, which stands first
      parts.push_back(field.field +
                      field.after.substr(std::min(field.after.find(','), field.after.size())));
    else if (field.effect >= Effect::Reboot)
      parts.push_back(field.field);
  }
  return "vm " + join(parts, " ");
}

constexpr const char* cloud_init_drive = "cloud-init drive";

namespace {

/// Where another slot than the wanted one holds the cloud-init drive; empty: none does.
std::string other_cloud_init_slot(const VmWish& wish, const proxmox::VmConfig& config) {
  for (const auto& [option, value] : config.options)
    if (option != wish.cloud_init_slot && proxmox::is_drive(option) &&
        PropertyString::parse(option, value).value_or("file", "").find("cloudinit") !=
            std::string::npos)
      return option;
  return "";
}

}  // namespace

Fields wished_fields(const VmWish& wish) {
  Fields fields;
  for (const auto& [option, value] : wish.options()) fields[option] = value;
  for (const DiskWish& disk : wish.disks) {
    fields[disk.slot] = declared_parts(disk.slot, disk.drive.print(), disk.drive.print());
    fields[disk.slot + ".size"] = to_string(disk.size);
    fields[disk.slot + ".storage"] = disk.storage;
  }
  if (!wish.cloud_init_slot.empty()) fields[wish.cloud_init_slot] = cloud_init_drive;
  fields["power"] = "running";
  if (wish.pinned) fields["vmid"] = std::to_string(wish.create.vmid);
  return fields;
}

Fields seen_fields(const VmWish& wish, proxmox::Vmid vmid, const proxmox::VmConfig& config,
                   bool running) {
  Fields fields;
  if (wish.pinned) fields["vmid"] = std::to_string(vmid);
  const auto options = wish.options();
  for (const auto& [option, wanted] : options) {
    const std::string* found = config.find(option);
    const auto fallback = defaults.find(option);
    if (found == nullptr && fallback == defaults.end()) continue;
    const std::string& value = found != nullptr ? *found : fallback->second;
    fields[option] = same(option, wanted, value) ? wanted : value;
  }
  // An ISO that is still there stands last in the order: that is what was asked for at first.
  if (const std::string* boot = config.find("boot"))
    if (boot->starts_with("order=scsi0") && !wish.adopted()) fields["boot"] = options.at("boot");
  std::vector<std::string> slots;
  for (const DiskWish& disk : wish.disks) {
    const std::string slot = slot_in(wish, disk, config);
    slots.push_back(slot);
    const std::string* found = config.find(slot);
    if (found == nullptr) continue;
    fields[disk.slot] = disk_parts(slot, *found, disk);
    fields[disk.slot + ".storage"] = storage_of(volume_in(slot, *found));
    // Storages round up to their own grain: a little more is what was asked for.
    const Bytes size = size_in(slot, *found);
    const bool rounded = size >= disk.size && size.count() - disk.size.count() < (64ull << 20);
    fields[disk.slot + ".size"] = to_string(rounded ? disk.size : size);
  }
  // A disk with a serial number that we gave and that is no longer wanted.
  for (const auto& [option, value] : config.options) {
    if (!is_data_slot(option) || !proxmox::is_drive(option)) continue;
    if (std::find(slots.begin(), slots.end(), option) != slots.end() || wish.adopted()) continue;
    const PropertyString properties = PropertyString::parse(option, value);
    if (properties.value_or("media", "disk") == "disk" && properties.find("serial") != nullptr)
      fields[option] = declared_parts(option, value, value);
  }
  if (!wish.cloud_init_slot.empty()) {
    if (const std::string* drive = config.find(wish.cloud_init_slot))
      fields[wish.cloud_init_slot] = drive->find("cloudinit") != std::string::npos
                                         ? cloud_init_drive
                                         : volume_in(wish.cloud_init_slot, *drive);
    else if (const std::string other = other_cloud_init_slot(wish, config); !other.empty())
      fields[wish.cloud_init_slot] = "it is at " + other;
  }
  fields["power"] = running ? "running" : "stopped";
  add_pending(wish, options, config, fields);
  return fields;
}

std::string digest_options(const proxmox::VmConfig& config) {
  std::string all;
  for (const auto& [option, value] : config.options) {
    if (option == "lock" || option == "digest") continue;
    std::uint32_t hash = 2166136261u;  // FNV-1a: to tell two values apart, not to hide them
    // Spelled as one: a size that we know from our own resize is not written as Proxmox does.
    for (const char c : proxmox::normalise(option, value))
      hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    fmt::format_to(std::back_inserter(all), "{}{}={:08x}", all.empty() ? "" : " ", option, hash);
  }
  return all;
}

std::string pending_option(const std::string& field) {
  constexpr std::string_view ending = ".pending";
  if (!field.ends_with(ending)) return "";
  return field.substr(0, field.size() - ending.size());
}

proxmox::VmUpdate update_of(const VmWish& wish, const proxmox::VmConfig& config,
                            const std::vector<std::string>& fields) {
  proxmox::VmUpdate update;
  bool foreign = false;  // a disk that belongs to another VM
  update.digest = config.digest;
  const auto options = wish.options();
  for (const std::string& field : fields) {
    const auto disk = std::find_if(wish.disks.begin(), wish.disks.end(),
                                   [&](const DiskWish& each) { return each.slot == field; });
    const std::string slot = disk == wish.disks.end() ? field : slot_in(wish, *disk, config);
    const std::string* found = config.find(slot);
    if (const auto option = options.find(field); option != options.end()) {
      const bool mixed = found != nullptr && has_parts(field);
      update.set[field] = mixed ? with_our_parts(field, option->second, *found) : option->second;
      continue;
    }
    if (field == wish.cloud_init_slot) {
      // A VM has one: the old one goes first, and the new one is made by the next call.
      if (const std::string other = other_cloud_init_slot(wish, config);
          !other.empty() && found == nullptr) {
        update.erase.push_back(other);
        continue;
      }
      update.set[field] = wish.create.drives.at(field).print();
      continue;
    }
    if (disk == wish.disks.end()) {
      if (found != nullptr && is_data_slot(field)) {
        update.erase.push_back(field);
        // Without it the volume stays as `unused0`, in no plan. What belongs to another VM stays.
        const bool its_own =
            found->find(fmt::format("vm-{}-", wish.create.vmid)) != std::string::npos;
        foreign = foreign || !its_own;
        if (!foreign) update.set["force"] = "1";
      }
      continue;
    }
    if (found == nullptr) {
      proxmox::Drive drive = disk->drive;
      if (drive.serial.empty()) drive.serial = disk->serial;
      update.set[slot] = drive.print();
      continue;
    }
    // The stored volume is named again: `STORAGE:32` would allocate another disk.
    update.set[slot] = with_our_parts(slot, disk->drive.print(), *found);
  }
  if (foreign) update.set.erase("force");
  return update;
}

std::string left_key(const std::string& address, const std::string& field) {
  return fmt::format("ignore/{}/{}", address, field);
}

std::string left_value(const std::string& found, const std::string& declared) {
  return fmt::format("'{}' in place of '{}'", found, declared);
}

}  // namespace rocca::resources
