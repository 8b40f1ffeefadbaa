// Which right each key and drive of a VM asks for (qemu-server's option groups), and the checks
// that hang on values.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

#include <set>

namespace rocca::lab::pve {

namespace {

const char* right_of(const std::string& key) {
  static const std::set<std::string, std::less<>> cpu{"cores", "cpu", "cpulimit", "cpuunits",
                                                      "numa",  "smp", "sockets",  "vcpus"};
  static const std::set<std::string, std::less<>> memory{"memory", "balloon", "shares",
                                                         "allow-ksm"};
  static const std::set<std::string, std::less<>> hardware{
      "acpi",    "hotplug", "kvm", "machine",  "scsihw",
      "smbios1", "tablet",  "vga", "watchdog", "audio0"};
  static const std::set<std::string, std::less<>> general{
      "agent",     "autostart",        "bios",          "description", "keyboard",
      "localtime", "migrate_downtime", "migrate_speed", "name",        "onboot",
      "ostype",    "protection",       "reboot",        "startdate",   "startup",
      "tdf",       "template"};
  static const std::set<std::string, std::less<>> disk{"boot", "bootdisk", "vmstatestorage"};
  if (cpu.contains(key) || family(key) == "numa[n]") return "VM.Config.CPU";
  if (memory.contains(key)) return "VM.Config.Memory";
  if (hardware.contains(key)) return "VM.Config.HWType";
  if (general.contains(key)) return "VM.Config.Options";
  if (disk.contains(key)) return "VM.Config.Disk";
  if (key == "freeze") return "VM.PowerMgmt";
  if (is_net_key(key)) return "VM.Config.Network";
  return nullptr;
}

bool is_cloudinit_key(const std::string& key) {
  static const std::set<std::string, std::less<>> known{"cicustom",     "cipassword", "citype",
                                                        "ciuser",       "ciupgrade",  "nameserver",
                                                        "searchdomain", "sshkeys"};
  return known.contains(key) || family(key) == "ipconfig[n]";
}

/// Checked where the value is known.
bool depends_on_value(const std::string& key) {
  const std::string group = family(key);
  return is_drive_key(key) || key == "cdrom" || key == "tags" || key == "rng0" ||
         group == "unused[n]" || group == "serial[n]" || group == "usb[n]" || group == "hostpci[n]";
}

}  // namespace

void check_vm_right(const Process& process, unsigned vmid, const std::string& pool,
                    const std::vector<std::string>& privileges, bool any) {
  if (!pool.empty() && process.may("/pool/" + pool, privileges, any)) return;
  process.require(fmt::format("/vms/{}", vmid), privileges, any);
}

void check_keys(const Process& process, unsigned vmid, const std::string& pool,
                const std::vector<std::string>& keys) {
  if (process.caller.is_root()) return;
  for (const std::string& key : keys) {
    if (depends_on_value(key)) continue;
    if (const char* right = right_of(key)) {
      check_vm_right(process, vmid, pool, {right});
      if (key == "startup") process.require("/", {"Sys.Modify"});
    } else if (is_cloudinit_key(key)) {
      check_vm_right(process, vmid, pool, {"VM.Config.Cloudinit", "VM.Config.Network"}, true);
    } else {
      die(fmt::format("only root can set '{}' config", key));
    }
  }
}

void check_device(const Process& process, unsigned vmid, const std::string& pool,
                  const std::string& key, const std::string& value, bool creating) {
  if (process.caller.is_root()) return;
  const std::string group = family(key);
  const Schema& schema = process.dc.schema;
  const char* verb = creating ? "set" : "modify";
  const auto hardware = [&] { check_vm_right(process, vmid, pool, {"VM.Config.HWType"}); };
  if (group == "serial[n]") {
    if (value != "socket")
      die(fmt::format("only root can {} '{}' config for real devices", verb, key));
    hardware();
  } else if (group == "usb[n]") {
    Keys usb = parse_keys(schema, "usb", value);
    if (!usb["mapping"].empty())
      process.require("/mapping/usb/" + usb["mapping"], {"Mapping.Use"});
    else if (to_lower(usb["host"]) != "spice")
      die(fmt::format("only root can {} '{}' config for real devices", verb, key));
    hardware();
  } else if (group == "hostpci[n]") {
    Keys pci = parse_keys(schema, "pve-qm-hostpci", value);
    if (pci["mapping"].empty())
      die(fmt::format("only root can set '{}' config for non-mapped devices", key));
    process.require("/mapping/pci/" + pci["mapping"], {"Mapping.Use"});
    hardware();
  } else if (key == "rng0") {
    hardware();
    if (parse_keys(schema, "pve-qm-rng", value)["source"] == "/dev/hwrng")
      process.require("/mapping/hwrng", {"Mapping.Use"});
  }
}

void check_tags(const Process& process, unsigned vmid, const std::string& pool,
                const std::string& before, const std::string& after) {
  if (process.caller.is_root()) return;
  check_vm_right(process, vmid, pool, {"VM.Config.Options"});
  const auto option = [&](const char* name) {
    const auto found = process.dc.options.find(name);
    return found == process.dc.options.end() ? std::string() : found->second;
  };
  std::set<std::string> registered;
  for (const std::string& tag : split_list(option("registered-tags"))) registered.insert(tag);
  std::string allow = "free";
  std::set<std::string> listed;
  for (const std::string& part : split(option("user-tag-access"), ',')) {
    if (part.starts_with("user-allow=")) allow = part.substr(11);
    if (part.starts_with("user-allow-list="))
      for (const std::string& tag : split_list(part.substr(16))) listed.insert(tag);
  }
  std::set<std::string> existing;
  if (allow == "existing")
    for (const auto& [id, vm] : process.dc.vms)
      if (const std::string* tags = vm.find("tags"))
        for (const std::string& tag : split_list(*tags)) existing.insert(tag);
  std::set<std::string> old_tags, new_tags;
  for (const std::string& tag : split_list(before)) old_tags.insert(to_lower(tag));
  for (const std::string& tag : split_list(after)) new_tags.insert(to_lower(tag));
  std::set<std::string> changed;
  for (const std::string& tag : old_tags)
    if (!new_tags.contains(tag)) changed.insert(tag);
  for (const std::string& tag : new_tags)
    if (!old_tags.contains(tag)) changed.insert(tag);
  for (const std::string& tag : changed) {
    const bool fine = !registered.contains(tag) &&
                      (allow == "free" || listed.contains(tag) || existing.contains(tag));
    if (!fine && !process.may("/", {"Sys.Modify"}))
      deny(fmt::format("/, Sys.Modify for modifying tag '{}'", tag));
  }
}

void check_bridge(const Process& process, const std::string& text) {
  if (process.caller.is_root()) return;
  Keys net = parse_keys(process.dc.schema, "net", text);
  const std::string bridge = net["bridge"];
  if (bridge.empty() && process.dc.release.nine()) return;
  if (bridge.empty()) die("no sdn vnet ID specified");
  std::string zone = "localnetwork";
  if (const auto vnet = process.dc.vnets.find(bridge); vnet != process.dc.vnets.end())
    if (const auto found = vnet->second.find("zone"); found != vnet->second.end())
      zone = found->second;
  const std::string path = fmt::format("/sdn/zones/{}/{}", zone, bridge);
  if (!net["tag"].empty()) process.require(path + "/" + net["tag"], {"SDN.Use"});
  for (const std::string& range : split(net["trunks"], ';')) {
    if (range.empty()) continue;
    const auto first = parse_uint(range.substr(0, range.find('-'))).value_or(0);
    const auto last = parse_uint(range.substr(range.find('-') + 1)).value_or(first);
    for (auto tag = first; tag <= last; ++tag)
      process.require(fmt::format("{}/{}", path, tag), {"SDN.Use"});
  }
  if (net["tag"].empty() && net["trunks"].empty()) process.require(path, {"SDN.Use"});
}

void check_volume_access(const Process& process, unsigned vmid, const std::string& volid) {
  const auto id = VolumeId::parse(volid);
  if (!id) {
    if (!process.caller.is_root())
      die(
          fmt::format("Only root can pass arbitrary filesystem paths. at "
                      "/usr/share/perl5/PVE/Storage.pm line {}.",
                      process.dc.release.nine() ? 651 : 581));
    return;
  }
  const VolumeName name = parse_volume_name(process.dc.get_storage(id->storage), id->name);
  const std::string path = "/storage/" + id->storage;
  if (process.may(path, {"Datastore.Allocate"})) return;
  if (name.content == "iso" || name.content == "vztmpl" || name.content == "import") {
    process.require(path, {"Datastore.AllocateSpace", "Datastore.Audit"}, true);
  } else if (name.vmid && *name.vmid == vmid) {
    return;
  } else if (name.content == "backup" && name.vmid) {
    process.require(path, {"Datastore.AllocateSpace"});
    process.require(fmt::format("/vms/{}", *name.vmid), {"VM.Backup"});
  } else if (name.content == "images" && name.vmid) {
    process.require(path, {"Datastore.Audit"});
    process.require(fmt::format("/vms/{}", *name.vmid), {"VM.Config.Disk"});
  } else {
    die(fmt::format("missing privileges to access {}", volid));
  }
}

void check_storage_access(const Process& process, unsigned vmid, const Keys& settings,
                          const std::string& default_storage) {
  const Schema& schema = process.dc.schema;
  for (const auto& [key, value] : settings) {
    if (!is_drive_key(key)) continue;
    const auto drive = parse_drive(schema, key, value);
    if (!drive) refuse_parameter(key, "unable to parse drive options");
    const std::string file = drive->file();
    const auto id = VolumeId::parse(file);
    const auto fresh = parse_new_disk(file);
    if (file == "none" || file == "cloudinit" || (id && id->name == "cloudinit")) {
      // Nothing is asked: a cloud-init drive costs no right on its storage.
    } else if (drive->is_cdrom() && file == "cdrom") {
      process.require("/", {"Sys.Console"});
    } else if (!drive->is_cdrom() && fresh) {
      const std::string storage = fresh->storage.empty() ? default_storage : fresh->storage;
      if (storage.empty()) die("no storage ID specified (and no default storage)");
      process.require("/storage/" + storage, {"Datastore.AllocateSpace"});
      if (!process.dc.get_storage(storage).allows("images"))
        refuse_parameter("storage",
                         fmt::format("storage '{}' does not support vm images", storage));
    } else {
      check_volume_access(process, vmid, file);
      if (id) {
        const std::string kind =
            parse_volume_name(process.dc.get_storage(id->storage), id->name).content;
        if (kind != "images" && kind != "iso")
          refuse_parameter(key, "content type needs to be 'images' or 'iso'");
        if (kind == "iso" && !drive->is_cdrom())
          refuse_parameter(key, "explicit 'media=cdrom' is required for iso images");
      }
    }
    const std::string source = drive->get("import-from");
    if (source.empty()) continue;
    if (const auto from = VolumeId::parse(source)) {
      const VolumeName name = parse_volume_name(process.dc.get_storage(from->storage), from->name);
      if (name.content != "images" && name.content != "import")
        refuse_parameter(
            key, fmt::format("{} has wrong type '{}' - needs to be 'images' or 'import'", source,
                             name.content));
      if (name.content == "images" && name.vmid) {
        process.require(fmt::format("/vms/{}", *name.vmid), {"VM.Clone"});
        continue;
      }
    }
    check_volume_access(process, vmid, source);
  }
  if (const auto state = settings.find("vmstatestorage"); state != settings.end())
    process.require("/storage/" + state->second, {"Datastore.AllocateSpace"});
}

void check_drives(const Process& process, Keys& settings) {
  const Schema& schema = process.dc.schema;
  for (auto& [key, value] : settings) {
    if (!is_drive_key(key)) continue;
    auto drive = parse_drive(schema, key, value);
    if (!drive) refuse_parameter(key, "unable to parse drive options");
    const std::string file = drive->file();
    if (!drive->get("import-from").empty()) {
      const auto fresh = parse_new_disk(file);
      if (!fresh || fresh->bytes != 0)
        refuse_parameter(key,
                         "'import-from' requires special syntax - use <storage "
                         "ID>:0,import-from=<source>");
      if (key == "efidisk0")
        for (const char* needed : {"efitype", "pre-enrolled-keys"})
          if (drive->get(needed).empty())
            refuse_parameter(key,
                             fmt::format("need to specify '{}' when using 'import-from'", needed));
      if (key == "tpmstate0" && drive->get("version").empty())
        refuse_parameter(key, "need to specify 'version' when using 'import-from'");
    }
    if (drive->get("media").empty() && (file == "none" || file == "cdrom"))
      drive->options["media"] = "cdrom";
    value = print_drive(schema, *drive);
  }
}

void resolve_cdrom(Keys& settings) {
  const auto alias = settings.find("cdrom");
  if (alias == settings.end()) return;
  std::string value = alias->second;
  if (value.find("media=") == std::string::npos) value += ",media=cdrom";
  settings.erase(alias);
  settings["ide2"] = value;
}

void only_root(const Call& call, std::initializer_list<const char*> names) {
  if (call.caller.is_root()) return;
  for (const char* name : names)
    if (call.params.has(name) && call.params.text(name) != "0")
      refuse_parameter(name, "Only root may use this option.");
}

}  // namespace rocca::lab::pve
