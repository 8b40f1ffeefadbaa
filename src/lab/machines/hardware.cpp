#include "lab/machines/hardware.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::lab {

namespace {

using pve::Drive;
using pve::Volume;

std::string text_at(const pve::ConfigSection& config, const std::string& key) {
  const auto found = config.find(key);
  return found == config.end() ? "" : found->second;
}

/// What a schematic puts into an image.
struct Contents {
  std::vector<talos::Extension> extensions;
  std::vector<std::string> kernel_args;
  std::map<unsigned, std::string> meta;
};

talos::Extension extension_of(const std::string& reference, const std::string& version) {
  const std::string name = reference.substr(reference.rfind('/') + 1);
  talos::Extension extension;
  extension.name = name;
  extension.version = version.substr(version.starts_with('v') ? 1 : 0);
  extension.image = fmt::format("ghcr.io/{}:{}", reference, version);
  extension.service = name == "qemu-guest-agent" || name == "tailscale" || name == "iscsi-tools";
  extension.needs_config = name == "tailscale";
  extension.needs_device = name == "qemu-guest-agent";
  extension.service_name = name == "iscsi-tools" ? "iscsid" : name;
  return extension;
}

Contents contents_of(const ImageFactory& factory, const std::string& schematic,
                     const std::string& version) {
  Contents contents;
  const std::string* canonical = factory.find(schematic);
  if (canonical == nullptr) return contents;
  const text::Value value = text::parse_yaml(*canonical, "schematic");
  if (const text::Value* list =
          value.find({"customization", "systemExtensions", "officialExtensions"}))
    for (const text::Value& each : list->items())
      contents.extensions.push_back(extension_of(each.text(), version));
  if (const text::Value* list = value.find({"customization", "extraKernelArgs"}))
    for (const text::Value& each : list->items()) contents.kernel_args.push_back(each.text());
  if (const text::Value* list = value.find({"customization", "meta"}))
    for (const text::Value& each : list->items())
      contents.meta[static_cast<unsigned>(each.find("key")->as_int().value_or(0))] =
          each.find("value")->text();
  return contents;
}

/// Models that Proxmox knows and that lack what x86-64-v2 asks for. No model at all is kvm64.
bool lacks_v2(const std::string& model) {
  static const std::set<std::string> old{
      "",       "486",    "athlon",  "Conroe",     "core2duo",   "coreduo",
      "kvm32",  "kvm64",  "pentium", "pentium2",   "pentium3",   "Penryn",
      "phenom", "qemu32", "qemu64",  "Opteron_G1", "Opteron_G2", "Opteron_G3"};
  return old.contains(model);
}

bool enforces_secure_boot(const pve::Schema& schema, const pve::ConfigSection& config) {
  if (text_at(config, "bios") != "ovmf") return false;
  pve::Keys efi = pve::parse_keys(schema, "efidisk0", text_at(config, "efidisk0"));
  return efi["pre-enrolled-keys"] == "1";
}

const TalosDisk* written(const Volume& volume) {
  return dynamic_cast<const TalosDisk*>(volume.image.content.get());
}

talos::SystemDisk disk_of(const Volume& volume, const TalosImage& image,
                          const ImageFactory& factory) {
  if (const TalosDisk* content = written(volume)) return content->state;
  talos::SystemDisk disk;
  disk.installed = true;
  disk.version = image.version;
  disk.platform = image.platform;
  disk.schematic = image.schematic;
  disk.meta = contents_of(factory, image.schematic, image.version).meta;
  return disk;
}

struct Found {
  Drive drive;
  Volume* volume = nullptr;
  std::string name;  // in Linux
};

/// All drives with a medium, named as Linux names them.
std::vector<Found> drives_of(pve::Datacenter& dc, const pve::Vm& vm,
                             const pve::ConfigSection& config) {
  const pve::Node* node = dc.find_node(vm.node);
  std::vector<Found> all;
  char scsi = 'a', virtio = 'a';
  unsigned cdroms = 0;
  for (const char* bus : {"scsi", "sata", "ide", "virtio"})
    for (unsigned i = 0; i < 31; ++i) {
      const std::string key = bus + std::to_string(i);
      const std::string text = text_at(config, key);
      if (text.empty()) continue;
      auto drive = pve::parse_drive(dc.schema, key, text);
      if (!drive) continue;
      Found found;
      found.volume = node == nullptr ? nullptr : dc.find_volume(drive->file(), *node);
      if (drive->is_cdrom())
        found.name = fmt::format("sr{}", cdroms++);
      else if (std::string_view(bus) == "virtio")
        found.name = fmt::format("vd{}", virtio++);
      else
        found.name = fmt::format("sd{}", scsi++);
      found.drive = std::move(*drive);
      all.push_back(std::move(found));
    }
  return all;
}

std::vector<talos::Disk> disks_of(const std::vector<Found>& drives) {
  std::vector<talos::Disk> disks;
  for (const Found& each : drives) {
    talos::Disk disk;
    disk.name = each.name;
    disk.size = each.volume == nullptr ? 0 : each.volume->size;
    disk.serial = percent_decode(each.drive.get("serial"));
    disk.cdrom = disk.readonly = each.drive.is_cdrom();
    if (disk.cdrom) disk.model = "QEMU DVD-ROM";
    if (each.name.starts_with("vd")) disk.model.clear();
    disk.bus_path = fmt::format("/pci0000:00/{}/", each.drive.key);
    disks.push_back(std::move(disk));
  }
  return disks;
}

std::vector<talos::Link> links_of(const pve::Schema& schema, const pve::ConfigSection& config,
                                  bool simple_names) {
  const std::string type = pve::parse_keys(schema, "machine", text_at(config, "machine"))["type"];
  const bool q35 = type == "q35" || type.starts_with("pc-q35");
  std::vector<talos::Link> links;
  for (unsigned i = 0; i < 32; ++i) {
    const std::string text = text_at(config, fmt::format("net{}", i));
    if (text.empty()) continue;
    talos::Link link;
    link.name = simple_names ? fmt::format("eth{}", links.size())
                : q35        ? fmt::format("enp6s{}", 18 + i)
                             : fmt::format("ens{}", 18 + i);
    pve::Keys keys = pve::parse_keys(schema, "net", text);
    link.mac = to_lower(keys["macaddr"]);
    link.wire = wire_of(schema, text);
    // 1 is the bridge's own.
    if (const auto mtu = parse_uint(keys["mtu"]); mtu && *mtu > 1)
      link.mtu = static_cast<unsigned>(*mtu);
    links.push_back(std::move(link));
  }
  return links;
}

void read_smbios(const pve::Schema& schema, const std::string& text, talos::Machine& machine) {
  pve::Keys keys = pve::parse_keys(schema, "pve-qm-smbios1", text);
  const auto value = [&](const char* key) {
    return keys["base64"] == "1" ? from_base64(keys[key]).value_or("") : keys[key];
  };
  machine.uuid = to_lower(keys["uuid"]);
  machine.serial = value("serial");
  machine.manufacturer = value("manufacturer");
  machine.product = value("product");
  if (machine.manufacturer.empty()) machine.manufacturer = "QEMU";
  if (machine.product.empty()) machine.product = "Standard PC (i440FX + PIIX, 1996)";
}

}  // namespace

std::optional<TalosImage> TalosImage::parse(std::string_view identity) {
  const std::vector<std::string> words = split(identity, ' ');
  if (words.size() < 4 || words[0] != "talos") return std::nullopt;
  TalosImage image{words[1], words[2], words[3]};
  for (std::size_t i = 4; i < words.size(); ++i) {
    if (words[i] == "arm64") image.arch = words[i];
    if (words[i] == "secureboot") image.secure_boot = true;
  }
  return image;
}

std::string to_string(const TalosImage& image) {
  return fmt::format("talos {} {} {}{}{}", image.version, image.platform,
                     image.schematic.empty() ? "-" : image.schematic,
                     image.arch == "amd64" ? "" : " " + image.arch,
                     image.secure_boot ? " secureboot" : "");
}

const char* to_string(Boot boot) {
  constexpr const char* names[] = {"nothing", "foreign", "talos", "loop", "halted"};
  return names[static_cast<std::size_t>(boot)];
}

std::string wire_of(const pve::Schema& schema, const std::string& net) {
  pve::Keys keys = pve::parse_keys(schema, "net", net);
  if (keys["link_down"] == "1" || keys["bridge"].empty()) return "";
  return keys["tag"].empty() ? keys["bridge"] : fmt::format("{}.{}", keys["bridge"], keys["tag"]);
}

std::optional<InstalledTalos> find_installed(pve::Datacenter& dc, const pve::Vm& vm,
                                             const pve::ConfigSection& config,
                                             const ImageFactory& factory) {
  for (const Found& each : drives_of(dc, vm, config)) {
    if (each.drive.is_cdrom() || each.volume == nullptr) continue;
    const auto image = TalosImage::parse(each.volume->image.identity);
    if (!image) continue;
    InstalledTalos installed{each.drive.key, each.volume, disk_of(*each.volume, *image, factory)};
    installed.disk.installed_disk = each.name;
    return installed;
  }
  return std::nullopt;
}

StartUp start_up(pve::Datacenter& dc, const pve::Vm& vm, const ImageFactory& factory, bool warm) {
  const pve::ConfigSection& config = vm.running;
  const std::vector<Found> drives = drives_of(dc, vm, config);
  StartUp start;
  start.why = "no device of the boot order has a system on it";
  for (const Found& each : drives)
    if (!each.drive.is_cdrom()) start.drives[each.name] = each.drive.key;

  std::vector<std::string> order = pve::boot_order(dc.schema, config);
  if (order.empty()) order = pve::default_boot_devices(dc.schema, config);
  const Found* medium = nullptr;
  std::optional<TalosImage> image;
  const auto installed = find_installed(dc, vm, config, factory);
  if (warm && installed) order = {installed->drive};
  for (const std::string& key : order) {
    const auto found = std::find_if(drives.begin(), drives.end(),
                                    [&](const Found& each) { return each.drive.key == key; });
    if (found == drives.end() || found->volume == nullptr || found->volume->image.identity.empty())
      continue;
    image = TalosImage::parse(found->volume->image.identity);
    if (enforces_secure_boot(dc.schema, config) && image && !image->secure_boot) {
      // OVMF says "Access Denied" and looks further.
      start.why = fmt::format("{}: the firmware's enrolled keys refuse an unsigned image", key);
      continue;
    }
    medium = &*found;
    break;
  }
  if (medium == nullptr) return start;
  start.device = medium->drive.key;
  start.why.clear();
  if (!image) {
    start.boot = Boot::Foreign;
    start.why = medium->volume->image.identity;
    return start;
  }
  const std::string model =
      pve::parse_keys(dc.schema, "pve-vm-cpu-conf", text_at(config, "cpu"))["cputype"];
  if (image->arch != "amd64" || lacks_v2(model)) {
    start.boot = Boot::Loop;
    start.why = image->arch != "amd64" ? "the image is for another processor"
                                       : fmt::format("the processor type '{}' lacks x86-64-v2",
                                                     model.empty() ? "kvm64" : model);
    return start;
  }

  const bool iso = medium->drive.is_cdrom();
  talos::Machine& machine = start.machine;
  if (iso) {
    machine.version = image->version;
    machine.platform = image->platform;
    machine.schematic = image->schematic;
    start.disk.meta = contents_of(factory, image->schematic, image->version).meta;
    if (installed) {
      start.boot = Boot::Halted;
      start.why = "Talos is already installed to disk but booted from another media";
      machine.halts = true;
    }
  } else {
    start.disk = disk_of(*medium->volume, *image, factory);
    start.disk.installed_disk = machine.boot_disk = medium->name;
    machine.version = start.disk.version;
    machine.platform = start.disk.platform;
    machine.schematic = start.disk.schematic;
  }
  if (start.boot != Boot::Halted) start.boot = Boot::Talos;
  const Contents contents = contents_of(factory, machine.schematic, machine.version);
  machine.extensions = contents.extensions;
  std::vector<std::string> args = contents.kernel_args;
  args.insert(args.end(), start.disk.kernel_args.begin(), start.disk.kernel_args.end());
  const bool simple_names = machine.platform == "nocloud" ||
                            std::find(args.begin(), args.end(), "net.ifnames=0") != args.end();
  if (iso && simple_names && machine.platform != "nocloud")
    start.disk.kernel_args = {"net.ifnames=0"};  // of an ISO's arguments this one is carried over
  machine.disks = disks_of(drives);
  machine.links = links_of(dc.schema, config, simple_names);
  machine.agent_device = pve::agent_enabled(dc.schema, config);
  const auto number = [&](const char* key, std::uint64_t otherwise) {
    return parse_uint(text_at(config, key)).value_or(otherwise);
  };
  machine.cores = static_cast<unsigned>(number("cores", 1) * number("sockets", 1));
  machine.memory =
      parse_uint(pve::parse_keys(dc.schema, "memory", text_at(config, "memory"))["current"])
          .value_or(512)
      << 20;
  read_smbios(dc.schema, text_at(config, "smbios1"), machine);
  if (pve::find_cloudinit(dc.schema, config)) {
    pve::Vm as_started;
    as_started.id = vm.id;
    as_started.config = config;
    const pve::CloudInitFiles files = pve::cloudinit_files(dc, as_started);
    machine.cloud_init = {files.meta_data, files.user_data, files.network_config, true, true};
  }
  return start;
}

}  // namespace rocca::lab
