// PUT and POST config, and unlink: changes go to the pending section first and are then applied.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

namespace rocca::lab::pve {

namespace {

/// A change as its parameters say, checked.
struct Change {
  unsigned id = 0;
  Keys settings;
  std::vector<std::string> remove;
  std::vector<std::string> revert;
  std::string said;  // `-name cp-9`, for the log
  std::string digest;
  bool force = false;
  bool skip_lock = false;
};

void check_drive_rights(const Process& process, unsigned vmid, const std::string& key,
                        const std::string& value) {
  const auto drive = parse_drive(process.dc.schema, key, value);
  if (drive && drive->is_cloudinit())
    check_vm_right(process, vmid, "", {"VM.Config.Cloudinit", "VM.Config.CDROM"});
  else if (drive && drive->is_cdrom())
    check_vm_right(process, vmid, "", {"VM.Config.CDROM"});
  else
    check_vm_right(process, vmid, "", {"VM.Config.Disk"});
}

bool is_windows(const Vm& vm) {
  const std::string* type = vm.find("ostype");
  return type != nullptr && type->starts_with("w");
}

/// The work of one change; the VM's lock is held by the caller.
class Update {
 public:
  Update(Job job, Change change) : job_(job), change_(std::move(change)) {}

  Routine<void> run() {
    job_.log(fmt::format("update VM {}: {}", change_.id, change_.said));
    order_ = boot_order(schema(), vm().config);
    for (const std::string& key : change_.remove) co_await remove(key);
    for (const auto& [key, value] : change_.settings) co_await set(key, value);
    forget_equal();
    store(schema(), vm());
    co_await job_.process.sleep(job_.dc().timing.config);
    if (vm().pending.empty() && vm().pending_delete.empty()) co_return;
    std::map<std::string, std::string> errors;
    if (is_running(vm()))
      errors = co_await hotplug_pending(job_, change_.id, modified_);
    else
      co_await apply_pending(job_, change_.id);
    if (!errors.empty()) refuse_parameters(errors);
  }

 private:
  Vm& vm() { return job_.dc().get_vm(change_.id, job_.process.node); }
  const Schema& schema() const { return job_.dc().schema; }

  void set_order() {
    vm().pending["boot"] = print_boot_order(order_);
    modified_["boot"] = "";
  }

  Routine<void> remove(std::string key) {
    Vm& now = vm();
    load(now);
    const bool was_pending = now.pending.contains(key);
    const std::string* current = now.find(key);
    if (current == nullptr && !was_pending) {
      job_.log(fmt::format("cannot delete '{}' - not set in current configuration!", key));
      co_return;
    }
    const std::string value = current != nullptr ? *current : now.pending.at(key);
    const std::string pending_value = was_pending ? now.pending.at(key) : "";
    modified_[key] = "";
    const Process& process = job_.process;
    if (is_unused_key(key)) {
      check_protection(now, fmt::format("can't remove unused disk '{}'", value));
      check_vm_right(process, change_.id, "", {"VM.Config.Disk"});
      co_await free_if_unused(job_, change_.id, key, value);
      vm().config.erase(key);
      co_return;
    }
    if (is_drive_key(key)) {
      check_protection(now, fmt::format("can't remove drive '{}'", key));
      check_drive_rights(process, change_.id, key, value);
    } else if (key == "tags") {
      check_tags(process, change_.id, "", value, "");
    } else if (is_net_key(key)) {
      if (current != nullptr) check_bridge(process, value);
    } else {
      check_device(process, change_.id, "", key, value, /*creating=*/false);
    }
    now.pending.erase(key);
    if (const auto at = std::find(order_.begin(), order_.end(), key); at != order_.end()) {
      order_.erase(at);
      set_order();
    }
    if (was_pending && is_drive_key(key))
      if (const auto drive = parse_drive(schema(), key, pending_value))
        co_await retire_drive(job_, change_.id, *drive);
    if (vm().config.contains(key)) vm().pending_delete[key] = change_.force;
    load(vm());
  }

  Routine<void> set(std::string key, std::string value) {
    Vm& now = vm();
    load(now);
    modified_[key] = "";
    if (const auto same = now.pending.find(key); same != now.pending.end() && same->second == value)
      co_return;
    const Process& process = job_.process;
    if (is_drive_key(key)) {
      co_await set_drive(key, value);
    } else if (key == "tags") {
      const std::string* before = now.find("tags");
      check_tags(process, change_.id, "", before == nullptr ? "" : *before, value);
      now.pending[key] = unique_tags(job_.dc(), value);
    } else if (is_net_key(key)) {
      if (const std::string* before = now.find(key)) check_bridge(process, *before);
      now.pending[key] = value;
    } else if (key == "cipassword") {
      now.pending[key] = is_windows(now) ? value : hashed(value);
    } else if (key == "boot") {
      now.pending[key] = value;
      set_boot(value);
    } else {
      if (const std::string* before = now.find(key); before != nullptr && *before != value)
        check_device(process, change_.id, "", key, *before, /*creating=*/false);
      check_device(process, change_.id, "", key, value, /*creating=*/false);
      now.pending[key] = value;
    }
    vm().pending_delete.erase(key);
    load(vm());
  }

  void set_boot(const std::string& value) {
    Vm& now = vm();
    const auto devices = split_list(parse_keys(schema(), "pve-qm-boot", value)["order"]);
    if (devices.empty()) return;
    for (const std::string& device : devices) {
      const bool there = now.config.contains(device) || now.pending.contains(device) ||
                         change_.settings.contains(device);
      const bool goes =
          std::find(change_.remove.begin(), change_.remove.end(), device) != change_.remove.end();
      if (!there || goes) {
        now.pending.erase("boot");
        die(fmt::format("invalid bootorder: device '{}' does not exist'", device));
      }
    }
    now.pending["boot"] = print_boot_order(devices);
    if (now.config.contains("bootdisk")) now.pending_delete["bootdisk"] = false;
  }

  Routine<void> set_drive(std::string key, std::string value) {
    const Process& process = job_.process;
    if (const std::string* before = vm().find(key))
      check_drive_rights(process, change_.id, key, *before);
    check_drive_rights(process, change_.id, key, value);
    if (const auto pending = vm().pending.find(key); pending != vm().pending.end())
      if (const auto drive = parse_drive(schema(), key, pending->second)) {
        const auto wanted = parse_drive(schema(), key, value);
        vm().pending.erase(pending);
        if (!wanted || wanted->file() != drive->file())
          co_await retire_drive(job_, change_.id, *drive);
      }
    Keys rest = vm().config;
    for (const auto& [other, text] : vm().pending) rest[other] = text;
    const Keys one{{key, value}};
    const Created made = co_await create_disks(job_, change_.id, one, rest, "");
    vm().pending[key] = made.drives.at(key);
    const auto drive = parse_drive(schema(), key, made.drives.at(key));
    const bool listed = std::find(order_.begin(), order_.end(), key) != order_.end();
    if (!order_.empty() && drive && drive->is_cdrom() && !drive->is_cloudinit() && !listed) {
      order_.push_back(key);
      set_order();
    }
    store(schema(), vm());
  }

  /// crypt(3) of the lab: recognisable, never reversible to anything that was real.
  std::string hashed(const std::string& password) {
    static const std::regex already("\\$(?:[156]|2[ay])(\\$.+){2}");
    if (std::regex_match(password, already)) return password;
    static constexpr std::string_view alphabet =
        "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    SeededEntropy& chance = job_.dc().chance("crypt");
    std::string text = "$5$";
    for (int i = 0; i < 8; ++i) text += alphabet[chance.below(64)];
    text += "$";
    for (int i = 0; i < 43; ++i) text += alphabet[chance.below(64)];
    return text;
  }

  void forget_equal() {
    Vm& now = vm();
    std::erase_if(now.pending, [&](const auto& entry) {
      const std::string* current = now.find(entry.first);
      return current != nullptr && *current == entry.second;
    });
    std::erase_if(now.pending_delete,
                  [&](const auto& entry) { return !now.config.contains(entry.first); });
  }

  static void check_protection(const Vm& now, const std::string& what) {
    const std::string* flag = now.find("protection");
    if (flag != nullptr && *flag == "1") die(what + " - protection mode enabled");
  }

  Job job_;
  Change change_;
  std::vector<std::string> order_;
  Keys modified_;
};

Change read_change(Call& call, const std::string& delete_key) {
  static const std::set<std::string, std::less<>> of_the_call{
      "background_delay",       "delete", "digest", "force",    "idlist",
      "import-working-storage", "node",   "revert", "skiplock", "vmid"};
  Change change;
  change.id = call.vmid();
  std::vector<std::string> said;
  for (const auto& [key, value] : call.params.all()) {
    if (key == "node" || key == "vmid" || key == "digest" || key == "background_delay") continue;
    said.push_back("-" + key);
    said.push_back(key == "cipassword" ? "<hidden>" : value);
    if (!of_the_call.contains(key)) change.settings[key] = value;
  }
  change.said = join(said, " ");
  change.digest = call.params.text("digest");
  change.force = call.params.flag("force");
  only_root(call, {"skiplock"});
  change.skip_lock = call.params.flag("skiplock");
  if (const auto keys = change.settings.find("sshkeys"); keys != change.settings.end())
    check_ssh_keys(keys->second);
  const auto removed = call.params.split(delete_key);
  change.revert = call.params.split("revert");
  if (removed.empty() && change.revert.empty() && change.settings.empty())
    die("no options specified");
  resolve_cdrom(change.settings);
  const Schema& schema = call.dc.schema;
  for (const std::string& key : change.revert) {
    if (!is_known_option(schema, key))
      refuse_parameter("revert", fmt::format("unknown option '{}'", key));
    if (change.settings.contains(key))
      refuse_parameter("delete",
                       fmt::format("you can't use '-{0}' and -revert {0}' at the same time", key));
  }
  for (std::string key : removed) {
    if (key == "cdrom") key = "ide2";
    if (change.settings.contains(key))
      refuse_parameter("delete",
                       fmt::format("you can't use '-{0}' and -delete {0}' at the same time", key));
    if (std::find(change.revert.begin(), change.revert.end(), key) != change.revert.end())
      refuse_parameter(
          "revert",
          fmt::format("you can't use '-delete {0}' and -revert {0}' at the same time", key));
    if (!is_known_option(schema, key))
      refuse_parameter("delete", fmt::format("unknown option '{}'", key));
    change.remove.push_back(key);
  }
  return change;
}

void check_change(Call& call, Change& change) {
  Datacenter& dc = call.dc;
  check_drives(call, change.settings);
  for (auto& [key, value] : change.settings) {
    if (is_net_key(key)) value = complete_net(dc, value);
    if (key == "vmgenid" && value == "1") value = dc.new_uuid();
    if (key == "hookscript" && dc.find_volume(value, call.node) == nullptr)
      refuse_parameter(key, fmt::format("script '{}' does not exist\n", value));
  }
  check_keys(call, change.id, "", change.remove);
  std::vector<std::string> keys;
  for (const auto& [key, value] : change.settings) keys.push_back(key);
  check_keys(call, change.id, "", keys);
  check_storage_access(call, change.id, change.settings, "");
  for (const auto& [key, value] : change.settings)
    if (is_net_key(key)) check_bridge(call, value);
}

/// Under the lock, before the work: the digest, the config lock, reverting, the balloon.
void prepare(Call& call, Change& change) {
  const Vm& vm = call.dc.get_vm(change.id, call.node);
  if (!change.digest.empty() && change.digest != config_digest(vm))
    die("checksum mismatch (file change by other user?)");
  if (!change.skip_lock) check_lock(vm);
  for (const std::string& key : change.revert) {
    if (const std::string* value = vm.find(key))
      change.settings[key] = *value;
    else if (vm.pending.contains(key))
      change.remove.push_back(key);
  }
  const auto value_of = [&](const char* key) -> std::string {
    if (const auto given = change.settings.find(key); given != change.settings.end())
      return given->second;
    if (const auto pending = vm.pending.find(key); pending != vm.pending.end())
      return pending->second;
    const std::string* now = vm.find(key);
    return now == nullptr ? "" : *now;
  };
  if (!change.settings.contains("memory") && !change.settings.contains("balloon")) return;
  const auto memory =
      parse_uint(parse_keys(call.dc.schema, "memory", value_of("memory"))["current"]).value_or(512);
  if (parse_uint(value_of("balloon")).value_or(0) > memory)
    die("balloon value too large (must be smaller than assigned memory)");
}

Routine<void> update_worker(Worker& worker, Change change, std::shared_ptr<Locks::Guard> held) {
  const Locks::Guard lock = std::move(*held);
  Update update{{worker, &worker}, change};
  co_await update.run();
}

Routine<text::Value> change_config(Call& call, std::string delete_key, bool background) {
  Change change = read_change(call, delete_key);
  check_change(call, change);
  Locks::Guard lock = co_await call.lock_vm(change.id);
  prepare(call, change);
  call.dc.write_log(call.node, call.caller.id, 0,
                    fmt::format("update VM {}: {}", change.id, change.said));
  if (!background) {
    Update update{{call, nullptr}, change};
    co_await update.run();
    co_return text::Value::null();
  }
  const auto held = std::make_shared<Locks::Guard>(std::move(lock));
  const std::string upid = call.node.start_task("qmconfig", std::to_string(change.id), call.caller,
                                                [change, held](Worker& worker) -> Routine<void> {
                                                  return update_worker(worker, change, held);
                                                });
  if (call.params.has("background_delay")) {
    Task* task = call.node.find_task(upid);
    const Instant deadline =
        call.world().now() + std::chrono::seconds{call.params.integer("background_delay")};
    if (task->running()) co_await call.world().wait(task->ended, deadline);
    task = call.node.find_task(upid);
    if (task != nullptr && !task->running()) {
      if (task->status == "OK" || task->status.starts_with("WARNINGS"))
        co_return text::Value::null();
      die(fmt::format("failed to update VM {}: {}", change.id, task->status));
    }
  }
  co_return string(upid);
}

Routine<text::Value> put_config(Call& call) {
  return change_config(call, "delete", false);
}

Routine<text::Value> post_config(Call& call) {
  return change_config(call, "delete", true);
}

Routine<text::Value> unlink(Call& call) {
  return change_config(call, "idlist", false);
}

}  // namespace

std::vector<Route> qemu_update_routes() {
  return {
      {"PUT /nodes/{node}/qemu/{vmid}/config", put_config},
      {"POST /nodes/{node}/qemu/{vmid}/config", post_config},
      {"PUT /nodes/{node}/qemu/{vmid}/unlink", unlink},
  };
}

}  // namespace rocca::lab::pve
