// The pending section: applied at once to a stopped VM, as far as it goes to a running one.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::lab::pve {

namespace {

/// Thrown inside: this key waits for a restart.
struct NotNow {};
/// Thrown inside: this key cannot be plugged, with QEMU's or Proxmox's reason.
struct Problem {
  std::string text;
};

bool applies_silently(const std::string& key) {
  static const std::set<std::string, std::less<>> known{
      "lock",         "name",           "onboot",     "shares", "startup",          "description",
      "protection",   "vmstatestorage", "hookscript", "tags",   "migrate_downtime", "migrate_speed",
      "cicustom",     "cipassword",     "citype",     "ciuser", "ciupgrade",        "nameserver",
      "searchdomain", "sshkeys"};
  return known.contains(key) || family(key) == "ipconfig[n]";
}

struct Features {
  bool network = false, disk = false, usb = false, cpu = false, memory = false, cloudinit = false;
};

Features features_of(const Vm& vm) {
  const std::string* given = vm.find("hotplug");
  std::string text = given == nullptr ? "1" : *given;
  if (text == "0") return {};
  if (text == "1") text = "network,disk,usb";
  Features features;
  for (const std::string& word : split_list(text)) {
    features.network |= word == "network";
    features.disk |= word == "disk";
    features.usb |= word == "usb";
    features.cpu |= word == "cpu";
    features.memory |= word == "memory";
    features.cloudinit |= word == "cloudinit";
  }
  return features;
}

bool names_cpu_or_memory(const std::string& hotplug) {
  return hotplug.find("cpu") != std::string::npos || hotplug.find("memory") != std::string::npos;
}

class Hotplug {
 public:
  Hotplug(Job job, unsigned vmid, Keys modified)
      : job_(job), id_(vmid), modified_(std::move(modified)) {}

  Routine<std::map<std::string, std::string>> run() {
    std::vector<std::string> silent;
    for (const auto& [key, value] : vm().pending)
      if (applies_silently(key)) silent.push_back(key);
    for (const std::string& key : silent) commit(key);
    features_ = features_of(vm());
    const auto removals = vm().pending_delete;
    bool replugged = false;
    for (const auto& [key, forced] : removals) {
      if (!modified_.contains(key)) continue;
      if (co_await tried_removal(key, forced)) {
        replugged = replugged || is_net_key(key);
        vm().config.erase(key);
        vm().running.erase(key);
        vm().pending_delete.erase(key);
      }
    }
    const ConfigSection changes = vm().pending;
    for (const auto& [key, value] : changes) {
      if (!modified_.contains(key)) continue;
      if (!co_await tried_change(key, value)) continue;
      commit(key);
      replugged = replugged || is_net_key(key);
    }
    if (replugged && job_.dc().on_replug) job_.dc().on_replug(vm());
    store(schema(), vm());
    co_await job_.process.sleep(job_.dc().timing.config);
    co_return errors_;
  }

 private:
  Vm& vm() { return job_.dc().get_vm(id_, job_.process.node); }
  const Schema& schema() const { return job_.dc().schema; }

  void commit(const std::string& key) {
    Vm& now = vm();
    const auto found = now.pending.find(key);
    if (found == now.pending.end()) return;
    now.config[key] = found->second;
    now.running[key] = found->second;
    now.pending.erase(found);
  }

  Routine<bool> tried_removal(std::string key, bool forced) {
    try {
      co_await remove(key, forced);
      co_return true;
    } catch (const NotNow&) {
    } catch (const Problem& problem) {
      errors_[key] = fmt::format("hotplug problem - {}\n", problem.text);
    } catch (const Failure& failure) {
      errors_[key] = fmt::format("hotplug problem - {}\n", failure.task_text());
    }
    co_return false;
  }

  Routine<bool> tried_change(std::string key, std::string value) {
    try {
      co_await change(key, value);
      co_return true;
    } catch (const NotNow&) {
    } catch (const Problem& problem) {
      errors_[key] = fmt::format("hotplug problem - {}\n", problem.text);
    } catch (const Failure& failure) {
      errors_[key] = fmt::format("hotplug problem - {}\n", failure.task_text());
    }
    co_return false;
  }

  void unplug(const std::string& key) {
    const auto disks = boot_disks(schema(), vm().config);
    if (std::find(disks.begin(), disks.end(), key) != disks.end())
      throw Problem{fmt::format("can't unplug bootdisk '{}'", key)};
  }

  Routine<void> remove(std::string key, bool forced) {
    const Vm& now = vm();
    if (key == "hotplug") {
      const std::string* value = now.find("hotplug");
      if (value != nullptr && names_cpu_or_memory(*value)) throw NotNow{};
    } else if (key == "tablet") {
      if (!features_.usb) throw NotNow{};
    } else if (key == "vcpus") {
      if (!features_.cpu) throw NotNow{};
    } else if (key == "balloon") {
      const std::string* value = now.find("balloon");
      if (value != nullptr && *value == "0") throw NotNow{};
    } else if (applies_silently(key) || key == "cpuunits" || key == "cpulimit") {
      co_return;
    } else if (is_net_key(key)) {
      if (!features_.network) throw NotNow{};
    } else if (is_drive_key(key)) {
      const bool fixed = key.starts_with("ide") || key.starts_with("sata") || key == "efidisk0" ||
                         key == "tpmstate0";
      if (!features_.disk || fixed) throw NotNow{};
      unplug(key);
      const auto drive = parse_drive(schema(), key, now.config.at(key));
      if (!drive) co_return;
      if (forced)
        co_await free_if_unused(job_, id_, key, drive->file());
      else
        co_await retire_drive(job_, id_, *drive);
    } else if (key == "memory") {
      if (!features_.memory) throw NotNow{};
    } else {
      throw NotNow{};
    }
  }

  Routine<void> change(std::string key, std::string value) {
    const Vm& now = vm();
    const std::string* before = now.find(key);
    if (key == "hotplug") {
      if (names_cpu_or_memory(value) || (before != nullptr && names_cpu_or_memory(*before)))
        throw NotNow{};
    } else if (key == "tablet") {
      if (!features_.usb) throw NotNow{};
    } else if (key == "vcpus") {
      if (!features_.cpu) throw NotNow{};
    } else if (key == "balloon") {
      const bool had = before == nullptr || *before != "0";
      if (had != (value != "0")) throw NotNow{};
    } else if (is_net_key(key)) {
      change_net(before, value);
    } else if (is_drive_key(key)) {
      co_await change_drive(key, before, value);
    } else if (key == "memory") {
      const std::string* numa = now.find("numa");
      if (!features_.memory || numa == nullptr || *numa != "1") throw NotNow{};
    } else if (key == "agent") {
      change_agent(before, value);
    } else if (key != "cpuunits" && key != "cpulimit") {
      throw NotNow{};
    }
  }

  void change_net(const std::string* before, const std::string& value) {
    Keys wanted = parse_keys(schema(), "net", value);
    const bool there = job_.process.node.bridges.contains(wanted["bridge"]) ||
                       job_.dc().vnets.contains(wanted["bridge"]) || wanted["bridge"].empty();
    if (before != nullptr) {
      Keys now = parse_keys(schema(), "net", *before);
      const bool same_device = now["model"] == wanted["model"] &&
                               now["macaddr"] == wanted["macaddr"] &&
                               now["queues"] == wanted["queues"] && now["mtu"] == wanted["mtu"];
      if (same_device) {
        const bool replugged = now["bridge"] != wanted["bridge"] || now["tag"] != wanted["tag"] ||
                               now["trunks"] != wanted["trunks"] ||
                               now["firewall"] != wanted["firewall"];
        if (replugged && !there)
          throw Problem{fmt::format("interface {} does not exist", wanted["bridge"])};
        return;
      }
    }
    if (!features_.network) throw NotNow{};
    if (!there)
      throw Problem{
          fmt::format("VM {} qmp command 'netdev_add' failed - network script "
                      "/usr/libexec/qemu-server/pve-bridge-hotplug failed with status 512",
                      id_)};
  }

  Routine<void> change_drive(std::string key, const std::string* before, std::string value) {
    if (key == "efidisk0" || key == "tpmstate0") throw NotNow{};
    const auto drive = parse_drive(schema(), key, value);
    if (!drive) throw Problem{"unable to parse drive options"};
    if (before != nullptr) {
      const auto now = parse_drive(schema(), key, *before);
      if (now && now->is_cdrom() != drive->is_cdrom()) throw Problem{"unable to change media type"};
      if (now && now->is_cdrom()) {
        if (now->is_cloudinit() && now->file() != drive->file())
          co_await retire_drive(job_, id_, *now);
        co_return;
      }
      if (now && now->file() == drive->file()) {
        for (const char* option :
             {"aio", "discard", "iothread", "queues", "product", "cache", "ssd", "vendor", "ro"})
          if (now->get(option) != drive->get(option)) throw NotNow{};
        co_return;
      }
      if (now) {
        if (!features_.disk) throw NotNow{};
        unplug(key);
        co_await retire_drive(job_, id_, *now);
      }
    }
    if (!features_.disk || key.starts_with("ide") || key.starts_with("sata")) throw NotNow{};
    co_await job_.process.sleep(job_.dc().timing.config);
  }

  void change_agent(const std::string* before, const std::string& value) {
    if (before == nullptr) throw NotNow{};
    Keys now = parse_keys(schema(), "agent", *before);
    Keys wanted = parse_keys(schema(), "agent", value);
    now.erase("fstrim_cloned_disks");
    wanted.erase("fstrim_cloned_disks");
    if (now != wanted) throw NotNow{};
  }

  Job job_;
  unsigned id_;
  Keys modified_;
  Features features_;
  std::map<std::string, std::string> errors_;
};

}  // namespace

Routine<void> retire_drive(Job job, unsigned vmid, Drive drive) {
  if (drive.is_cloudinit()) {
    try {
      co_await free_volume(job, drive.file());
    } catch (const Failure& failure) {
      job.log(failure.message);
    }
    co_return;
  }
  if (drive.is_cdrom() || !owns(job.process, vmid, drive.file())) co_return;
  add_unused(job.dc().get_vm(vmid, job.process.node), drive.file());
}

Routine<void> free_if_unused(Job job, unsigned vmid, std::string key, std::string volid) {
  if (!owns(job.process, vmid, volid)) co_return;
  const auto id = VolumeId::parse(volid);
  if (!id) co_return;
  job.process.require("/storage/" + id->storage, {"Datastore.AllocateSpace"});
  const Vm& vm = job.dc().get_vm(vmid, job.process.node);
  const auto uses = [&](const ConfigSection& section, bool same_vm) {
    for (const auto& [other, value] : section) {
      if (same_vm && other == key) continue;
      if (!is_drive_key(other)) continue;
      const auto drive = parse_drive(job.dc().schema, other, value);
      if (drive && drive->file() == volid) return true;
    }
    return false;
  };
  bool used = uses(vm.config, true);
  for (const auto& [name, section] : vm.snapshots) used = used || uses(section, false);
  if (used) die(fmt::format("unable to delete '{}' - volume is still in use (snapshot?)", volid));
  co_await free_volume(job, volid);
}

Routine<void> apply_pending(Job job, unsigned vmid) {
  const Schema& schema = job.dc().schema;
  const auto vm = [&]() -> Vm& { return job.dc().get_vm(vmid, job.process.node); };
  const auto removals = vm().pending_delete;
  for (const auto& [key, forced] : removals) {
    const std::string* value = vm().find(key);
    if (value != nullptr && is_drive_key(key))
      if (const auto drive = parse_drive(schema, key, *value)) {
        if (forced)
          co_await free_if_unused(job, vmid, key, drive->file());
        else
          co_await retire_drive(job, vmid, *drive);
      }
    vm().config.erase(key);
    vm().pending_delete.erase(key);
  }
  bool cloudinit = false;
  const ConfigSection changes = vm().pending;
  for (const auto& [key, value] : changes) {
    if (is_drive_key(key)) {
      const auto wanted = parse_drive(schema, key, value);
      cloudinit = cloudinit || (wanted && wanted->is_cloudinit());
      if (const std::string* before = vm().find(key))
        if (const auto drive = parse_drive(schema, key, *before);
            drive && (!wanted || wanted->file() != drive->file()))
          co_await retire_drive(job, vmid, *drive);
    }
    vm().config[key] = value;
    vm().pending.erase(key);
  }
  store(schema, vm());
  if (cloudinit) co_await regenerate_cloudinit(job, vmid);
}

Routine<std::map<std::string, std::string>> hotplug_pending(Job job, unsigned vmid, Keys modified) {
  Hotplug hotplug{job, vmid, std::move(modified)};
  co_return co_await hotplug.run();
}

}  // namespace rocca::lab::pve
