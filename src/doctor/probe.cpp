#include "doctor/probe.hpp"

#include "base/strings.hpp"
#include "base/visible.hpp"
#include "platform/vm_guard.hpp"
#include "platform/volume_guard.hpp"
#include "proxmox/task_cause.hpp"
#include "text/value.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::doctor {

namespace {

constexpr auto ask_again = std::chrono::seconds{2};

class Run {
 public:
  Run(proxmox::Client& client, const Clock& clock, Entropy& entropy, const ProbePlan& plan,
      const Pause& pause, const std::function<void(const ProbeStep&)>& told)
      : client_(client),
        clock_(clock),
        plan_(plan),
        pause_(pause),
        told_(told),
        uuid_(Uuid::v4(entropy)) {}

  Probe run() {
    const std::string image = plan_.image_url.substr(plan_.image_url.rfind('/') + 1);
    volume_ = fmt::format("{}:import/rocca-probe-{}", plan_.image_storage, image);
    const bool made = step("download", [&] { return download(image); }) &&
                      step("create", [&] { return create(); }) &&
                      step("read back", [&] { return read_back(); }) &&
                      step("start", [&] { return start(); });
    if (made) step("boot", [&] { return boot(); });
    clean_up();
    return std::move(result_);
  }

 private:
  bool step(const std::string& name, const std::function<std::string()>& body) {
    const Tick start = clock_.tick();
    ProbeStep step;
    step.name = name;
    try {
      step.text = body();
      step.ok = true;
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted) {
        clean_up();
        throw;
      }
      step.text = error.message();
      if (!error.hint().empty()) step.text += "\n" + error.hint();
    }
    step.took = clock_.tick() - start;
    if (told_) told_(step);
    result_.steps.push_back(step);
    return step.ok;
  }

  void wait_for(const proxmox::Upid& upid, std::string_view doing) {
    const Tick deadline = clock_.tick() + plan_.task_wait;
    for (;;) {
      const auto task = client_.find_task(upid);
      if (task && !task->running) {
        if (!task->ok()) throw proxmox::explain_failure(client_, *task).error(doing);
        return;
      }
      if (clock_.tick() >= deadline)
        throw Error(Fault::Timeout, fmt::format("{}: the task {} did not end in {}", doing,
                                                upid.type, to_rough_string(plan_.task_wait)))
            .hint("its log is in Proxmox under Tasks of " + upid.node);
      rest();
    }
  }

  /// Nobody's wish to stop ends the cleaning up.
  void rest() {
    try {
      pause_(ask_again);
    } catch (const Error& error) {
      if (error.fault() != Fault::Interrupted || !cleaned_) throw;
    }
  }

  std::optional<proxmox::Volume> find_image() {
    for (const proxmox::Volume& volume : client_.volumes(plan_.host, plan_.image_storage, "import"))
      if (volume.id == volume_) return volume;
    return std::nullopt;
  }

  static bool may_have_run(Fault fault) {
    return fault == Fault::Lost || fault == Fault::Timeout || fault == Fault::Interrupted ||
           fault == Fault::Unreachable;
  }

  std::string download(const std::string& image) {
    if (find_image()) return "the image is there already";
    proxmox::Download download;
    download.storage = plan_.image_storage;
    download.filename = "rocca-probe-" + image;
    download.url = plan_.image_url;
    // A lost answer says nothing: the file may come. A refused download leaves a file of that name
    // to whoever has put it there.
    downloaded_ = true;
    try {
      wait_for(client_.start_download(plan_.host, download), "downloading the image");
    } catch (const Error& error) {
      if (!may_have_run(error.fault())) downloaded_ = false;
      throw;
    }
    const auto volume = find_image();
    if (!volume) throw Error(Fault::NotFound, "the download ended and its file is not listed");
    return fmt::format("{} MiB", volume->size.count() >> 20);
  }

  std::string create() {
    vmid_ = client_.next_free_vmid();
    proxmox::VmCreate vm;
    vm.vmid = vmid_;
    vm.name = fmt::format("rocca-probe-{}", vmid_);
    vm.pool = plan_.pool;
    vm.description = "made by `rocca doctor --probe`; may be deleted";
    vm.cores = 1;
    vm.memory_mib = 2048;
    vm.on_boot = false;
    vm.smbios = proxmox::Smbios{uuid_,
                                "",
                                "",
                                "",
                                "",
                                engine::ownership_mark("probe", std::to_string(vmid_)),
                                engine::ownership_family};
    vm.efi_disk = proxmox::EfiDisk{plan_.disk_storage, false};
    proxmox::Drive system;
    system.storage = plan_.disk_storage;
    system.import_from = volume_;
    proxmox::Drive cloud_init;
    cloud_init.storage = plan_.disk_storage;
    cloud_init.cloud_init = true;
    vm.drives = {{"scsi0", system}, {"ide2", cloud_init}};
    proxmox::Nic nic;
    nic.bridge = plan_.bridge;
    vm.nics = {nic};
    vm.ip_configs = {{plan_.address.empty() ? "dhcp" : plan_.address, plan_.gateway, "", ""}};
    vm.boot_order = {"scsi0"};
    auto answer = client_.start_create(plan_.host, vm);
    if (const auto* taken = std::get_if<proxmox::VmidTaken>(&answer))
      throw Error(Fault::Conflict,
                  fmt::format("VM id {} was taken while we asked for it: {}", vmid_, taken->text))
          .hint("run it again");
    created_ = true;
    wait_for(std::get<proxmox::Upid>(answer), "creating the VM");
    return fmt::format("VM {} on {}, disk imported", vmid_, plan_.host);
  }

  std::string read_back() {
    if (!client_.find_config(plan_.host, vmid_))
      throw Error(Fault::NotFound, fmt::format("VM {} is not there after its creation", vmid_));
    proved();
    return "the mark and the UUID are there";
  }

  std::string start() {
    wait_for(client_.start_vm(proved()), "starting the VM");
    return "running";
  }

  /// As far as it answers: a guest agent with an address, or at least bytes on the network and the
  /// disk.
  std::string boot() {
    const Tick deadline = clock_.tick() + plan_.boot_wait;
    for (;;) {
      const auto status = client_.find_status(plan_.host, vmid_);
      if (!status || status->status != "running")
        throw Error(Fault::Rejected, "the VM does not run any more");
      if (client_.find_agent_interfaces(plan_.host, vmid_)) return "the guest agent answers";
      const bool alive = status->disk_read > (16u << 20) && status->net_out > 0;
      if (alive)
        return fmt::format("it reads its disk ({} MiB) and speaks on the network",
                           status->disk_read >> 20);
      if (clock_.tick() >= deadline)
        throw Error(
            Fault::Timeout,
            fmt::format("no sign of life in {}: {} MiB read from the disk, {} bytes sent",
                        to_rough_string(plan_.boot_wait), status->disk_read >> 20, status->net_out))
            .hint(
                "look at its console in Proxmox; CPU type (host or x86-64-v2-AES) and firmware are "
                "the usual causes");
      rest();
    }
  }

  /// The VM that this probe created, proved by its UUID and mark this moment.
  proxmox::OwnedVm proved() {
    proxmox::VmRow row;
    row.vmid = vmid_;
    row.node = plan_.host;
    const engine::Identity identity{"probe", std::to_string(vmid_), uuid_};
    if (auto config = client_.find_config(plan_.host, vmid_, /*current=*/true))
      if (auto verdict = resources::VmGuard::judge({{row, std::move(*config)}}, {identity, vmid_});
          verdict.front().vm)
        return std::move(*verdict.front().vm);
    throw Error(Fault::Refused,
                fmt::format("VM {} does not carry the mark that the probe gave it: it is left "
                            "alone",
                            vmid_));
  }

  void clean_up() {
    if (cleaned_) return;
    cleaned_ = true;
    bool clean = true;
    if (created_)
      clean = step("destroy", [&]() -> std::string {
        if (!client_.find_config(plan_.host, vmid_)) return "the VM is gone already";
        wait_for(client_.start_stop(proved()), "stopping the VM");
        wait_for(client_.start_destroy(proved(), true), "destroying the VM");
        return fmt::format("VM {} is gone", vmid_);
      });
    if (downloaded_)
      clean = step("delete image",
                   [&]() -> std::string {
                     const auto image = find_image();
                     if (!image) return "there is none";
                     const auto verdict = resources::VolumeGuard::may_delete(
                         {plan_.host, volume_, image, resources::VolumeOrigin::ThisRun});
                     if (!verdict.volume) throw Error(Fault::Refused, verdict.refusal);
                     if (const auto upid = client_.start_delete_volume(*verdict.volume))
                       wait_for(*upid, "deleting the image");
                     return "deleted";
                   }) &&
              clean;
    result_.clean = clean;
  }

  proxmox::Client& client_;
  const Clock& clock_;
  const ProbePlan& plan_;
  const Pause& pause_;
  const std::function<void(const ProbeStep&)>& told_;
  Uuid uuid_;
  std::string volume_;
  proxmox::Vmid vmid_ = 0;
  bool created_ = false, downloaded_ = false, cleaned_ = false;
  Probe result_;
};

}  // namespace

bool Probe::ok() const {
  return clean &&
         std::all_of(steps.begin(), steps.end(), [](const ProbeStep& step) { return step.ok; });
}

Probe probe(proxmox::Client& client, const Clock& clock, Entropy& entropy, const ProbePlan& plan,
            const Pause& pause, const std::function<void(const ProbeStep&)>& told) {
  return Run{client, clock, entropy, plan, pause, told}.run();
}

std::string render_text(const ProbeStep& step) {
  return fmt::format("{}  {:<13} {:>7}  {}\n", step.ok ? "ok  " : "BAD ", step.name,
                     to_rough_string(step.took), visible(step.text, 30));
}

std::string verdict(const Probe& probe) {
  if (probe.ok()) return "a VM can be made, started and destroyed here";
  if (probe.clean) return "the probe failed; nothing of it is left";
  return "the probe failed and could not take everything away again: see the steps above";
}

std::string render_text(const Probe& probe) {
  std::string text;
  for (const ProbeStep& step : probe.steps) text += render_text(step);
  return text + "\n" + verdict(probe) + "\n";
}

text::Value to_value(const Probe& probe) {
  text::Value root = text::Value::map();
  root.set("ok", text::Value::boolean(probe.ok()));
  root.set("clean", text::Value::boolean(probe.clean));
  text::Value steps = text::Value::list();
  for (const ProbeStep& step : probe.steps) {
    text::Value row = text::Value::map();
    row.set("name", text::Value::string(step.name));
    row.set("ok", text::Value::boolean(step.ok));
    row.set("milliseconds",
            text::Value::integer(
                std::chrono::duration_cast<std::chrono::milliseconds>(step.took).count()));
    row.set("text", text::Value::string(step.text));
    steps.append(std::move(row));
  }
  root.set("steps", std::move(steps));
  return root;
}

}  // namespace rocca::doctor
