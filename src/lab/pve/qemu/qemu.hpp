#pragma once

#include "lab/pve/datacenter.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::pve {

/// Keys of a VM's config, or of one property string.
using Keys = std::map<std::string, std::string>;

// ---- drives (qemu_drive.cpp) ----

/// One drive line: `scsi0: local-lvm:vm-100-disk-0,size=32G`.
struct Drive {
  std::string key;
  Keys options;

  std::string get(const std::string& name) const {
    const auto found = options.find(name);
    return found == options.end() ? "" : found->second;
  }
  std::string file() const { return get("file"); }
  bool is_cdrom() const { return get("media") == "cdrom"; }
  bool is_cloudinit() const;
};

bool is_drive_key(std::string_view key);  // ide, sata, scsi, virtio, efidisk0, tpmstate0
bool is_unused_key(std::string_view key);
bool is_net_key(std::string_view key);
std::optional<Drive> parse_drive(const Schema& schema, const std::string& key,
                                 const std::string& text);
std::string print_drive(const Schema& schema, const Drive& drive);
/// The largest unit that divides exactly: `32G`, `528K`; 0 is `0T`.
std::string print_size(std::uint64_t bytes);
std::uint64_t parse_size(std::string_view text);

/// `STORAGE:SIZE_IN_GIB` asks for a new volume.
struct NewDisk {
  std::string storage;
  std::uint64_t bytes = 0;
};
std::optional<NewDisk> parse_new_disk(const std::string& file);

Keys parse_keys(const Schema& schema, std::string_view format, const std::string& text);
std::string print_keys(const Schema& schema, std::string_view format, const Keys& keys);
std::vector<std::string> boot_order(const Schema& schema, const Keys& config);
/// Devices of the order that are drives; without an order what `bootdisk` says.
std::vector<std::string> boot_disks(const Schema& schema, const Keys& config);
std::string print_boot_order(const std::vector<std::string>& devices);
/// First disk (ide, scsi, virtio, sata), first CD-ROM, first NIC.
std::vector<std::string> default_boot_devices(const Schema& schema, const Keys& config);
/// The key of the cloud-init drive, other than `except`.
std::optional<std::string> find_cloudinit(const Schema& schema, const Keys& config,
                                          std::string_view except = "");

// ---- the config as a file (qemu_config.cpp) ----

/// As re-read from the file: a key without a value comes back as one blank.
void load(Vm& vm);
/// As written: an empty description goes, and so does an unusedN whose volume is in use again.
void store(const Schema& schema, Vm& vm);
void check_lock(const Vm& vm);
bool has_lock(const Vm& vm, std::string_view lock);
bool is_template(const Vm& vm);
bool is_running(const Vm& vm);
/// The VM with its process looked for, as power calls do: `unable to find configuration file for
/// VM 100 on node 'n'`.
Vm& get_process_vm(Process& process, unsigned vmid);
bool is_known_option(const Schema& schema, const std::string& key);
/// The value as JSON: integers and booleans are numbers, everything else is text.
text::Value json_of(const Schema& schema, const std::string& key, const std::string& value);
/// `agent: 1,type=virtio` and the like.
bool agent_enabled(const Schema& schema, const Keys& config);
/// The key it has from now on: `unused0`.
std::string add_unused(Vm& vm, const std::string& volid);

// ---- who may (qemu_permissions.cpp) ----

void check_vm_right(const Process& process, unsigned vmid, const std::string& pool,
                    const std::vector<std::string>& privileges, bool any = false);
void check_keys(const Process& process, unsigned vmid, const std::string& pool,
                const std::vector<std::string>& keys);
/// serialN, usbN, hostpciN, rng0, tags: depends on the value. `creating` only changes the text.
void check_device(const Process& process, unsigned vmid, const std::string& pool,
                  const std::string& key, const std::string& value, bool creating);
void check_tags(const Process& process, unsigned vmid, const std::string& pool,
                const std::string& before, const std::string& after);
void check_bridge(const Process& process, const std::string& net);
void check_volume_access(const Process& process, unsigned vmid, const std::string& volid);
void check_storage_access(const Process& process, unsigned vmid, const Keys& settings,
                          const std::string& default_storage);
/// Syntax that the schema cannot see; re-prints the drives. `cdrom` has become ide2 before.
void check_drives(const Process& process, Keys& settings);
void resolve_cdrom(Keys& settings);
void only_root(const Call& call, std::initializer_list<const char*> names);

// ---- volumes (qemu_volumes.cpp) ----

/// A running piece of work: the process, and the task's log if it is one.
struct Job {
  Process& process;
  Worker* worker = nullptr;

  Datacenter& dc() const { return process.dc; }
  void log(std::string line) const {
    if (worker != nullptr) worker->log(std::move(line));
  }
};

/// A VM's lock file, with the lines that a task prints when it has to wait.
Routine<Locks::Guard> lock_guest(Worker& worker, unsigned vmid,
                                 Duration timeout = std::chrono::seconds{10},
                                 Locks::Mode mode = Locks::Mode::Exclusive);

struct Allocation {
  std::string storage;
  unsigned vmid = 0;
  std::string format;
  std::string name;  // empty: the lowest free vm-ID-disk-N
  std::uint64_t bytes = 0;
  ImageFacts image;
  std::uint64_t used = 0;
};
Routine<std::string> allocate(Job job, Allocation what);
Routine<void> free_volume(Job job, std::string volid);
/// Copies a volume's content; `label` is the drive in the log line, empty for imports.
struct Copy {
  std::string source;
  std::string storage;
  unsigned vmid = 0;
  std::string format;
  std::string label;
  bool cloudinit = false;
};
Routine<std::string> copy_volume(Job job, Copy what);
/// Dies with `volume 'x' does not exist`, or what is wrong with its storage.
Volume& activate(const Process& process, const std::string& volid);
bool owns(const Process& process, unsigned vmid, const std::string& volid);
std::string format_for(const Storage& storage, const std::string& wanted,
                       const std::string& source);

struct Created {
  Keys drives;
  std::vector<std::string> volumes;
};
/// Allocates, imports or attaches what the drives of `settings` ask for, in the order of their
/// keys; frees what it made if one fails. `config` tells of the rest of the VM.
Routine<Created> create_disks(Job job, unsigned vmid, Keys settings, Keys config,
                              std::string default_storage);

// ---- values (qemu_create.cpp) ----

void check_ssh_keys(const std::string& encoded);
/// Re-printed, with a new MAC where none is given.
std::string complete_net(Datacenter& dc, const std::string& text);
/// Unique, sorted and lower-case, unless the datacenter's tag-style says otherwise.
std::string unique_tags(const Datacenter& dc, const std::string& text);

// ---- backups (qemu_backup.cpp) ----

/// The host's own backup job for one VM: a `vzdump` task of root@pam that locks it while it runs
/// and leaves an archive. Gives the UPID; nothing if there is no such VM.
std::string start_backup(Datacenter& dc, unsigned vmid, const std::string& storage);
/// A job for many VMs of one host, one after the other. Its UPID names none of them, and what goes
/// wrong with one does not keep it from the next.
std::string start_backup_job(Datacenter& dc, const std::string& host, std::vector<unsigned> vmids,
                             const std::string& storage);

struct Restore {
  unsigned id = 0;
  std::string archive, storage;
  bool unique = false;  // new MACs, a new SMBIOS UUID
  Keys settings;        // win over what is in the archive
};
/// The work of qmrestore on an id that is reserved: the VM as it was, on new volumes. Without
/// `unique` it carries the same UUID and MACs as the one that was backed up.
Routine<void> restore_guest(Worker& worker, Restore what);

// ---- cloud-init (qemu_cloudinit.cpp) ----

/// What Proxmox writes on the drive of a VM with this config.
struct CloudInitFiles {
  std::string user_data, network_config, meta_data;
};
CloudInitFiles cloudinit_files(const Datacenter& dc, const Vm& vm);
/// Writes the drive anew where there is one.
Routine<void> regenerate_cloudinit(Job job, unsigned vmid);

// ---- changes (qemu_pending.cpp) ----

/// Applies the pending section to a stopped VM.
Routine<void> apply_pending(Job job, unsigned vmid);
/// Applies what can be applied while it runs. What fails comes back by key.
Routine<std::map<std::string, std::string>> hotplug_pending(Job job, unsigned vmid, Keys modified);
/// A drive that goes: its volume becomes unusedN, a cloud-init drive is freed.
Routine<void> retire_drive(Job job, unsigned vmid, Drive drive);
Routine<void> free_if_unused(Job job, unsigned vmid, std::string key, std::string volid);

// ---- power (qemu_power.cpp, qemu_start.cpp) ----

/// The work of qmstart, under the VM's lock.
struct StartOptions {
  bool skip_lock = false;
  std::string machine;
};
Routine<void> start_guest(Worker& worker, unsigned vmid, StartOptions options);
std::string start_task_of(Process& process, unsigned vmid, StartOptions options);
/// What runs inside, if anything does.
std::optional<Guest> guest_of(Datacenter& dc, const Vm& vm);
/// The same, if its agent would answer.
std::optional<Guest> answering_agent(Datacenter& dc, const Vm& vm);
void set_stopped(Datacenter& dc, Vm& vm);
/// The process ends some time from now, whoever waits for it, unless it has ended before.
void end_guest_later(Datacenter& dc, unsigned vmid, Duration delay);
std::string running_machine(const Datacenter& dc, const Vm& vm);
/// Where saved memory goes: vmstatestorage, a shared storage of a disk, any storage of a disk.
std::string state_storage(const Process& process, const Vm& vm);
Routine<std::string> allocate_state(Job job, unsigned vmid, std::string name, std::string storage);

/// A VM under HA is not touched by power calls: its wanted state changes, and the HA manager acts.
enum class HaRequest { Start, Stop, Shutdown };
bool is_ha_managed(const Datacenter& dc, unsigned vmid);
std::string start_ha_task(Process& process, unsigned vmid, HaRequest request);

// ---- tables, one per file ----

std::vector<Route> qemu_read_routes();
std::vector<Route> qemu_create_routes();
std::vector<Route> qemu_update_routes();
std::vector<Route> qemu_disk_routes();
std::vector<Route> qemu_clone_routes();
std::vector<Route> qemu_migrate_routes();
std::vector<Route> qemu_snapshot_routes();
std::vector<Route> qemu_cloudinit_routes();
std::vector<Route> qemu_power_routes();
std::vector<Route> qemu_agent_routes();
std::vector<Route> qemu_destroy_routes();

}  // namespace rocca::lab::pve
