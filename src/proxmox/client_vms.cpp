#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "proxmox/client.hpp"
#include "proxmox/reading.hpp"

#include <fmt/format.h>

namespace rocca::proxmox {

namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

std::string vm_path(const std::string& node, Vmid vmid, std::string_view rest = "") {
  return fmt::format("/nodes/{}/qemu/{}{}", percent_encode(node), vmid, rest);
}

std::string vm_path(const OwnedVm& vm, std::string_view rest = "") {
  return vm_path(vm.node(), vm.vmid(), rest);
}

Parameters update_parameters(const VmUpdate& update) {
  Parameters parameters;
  for (const auto& [key, value] : update.set) parameters.emplace_back(key, value);
  if (!update.erase.empty()) parameters.emplace_back("delete", join(update.erase, ","));
  if (!update.revert.empty()) parameters.emplace_back("revert", join(update.revert, ","));
  if (!update.digest.empty()) parameters.emplace_back("digest", update.digest);
  return parameters;
}

bool absent(const Failure& failure) {
  return failure.reason == Reason::DoesNotExist;
}

}  // namespace

std::optional<VmConfig> Client::find_config(const std::string& node, Vmid vmid, bool current) {
  Reply reply = call("GET", vm_path(node, vmid, "/config"),
                     current ? Parameters{{"current", "1"}} : Parameters{});
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (absent(*failure)) return std::nullopt;
    throw failure->error(fmt::format("reading the configuration of VM {}", vmid));
  }
  VmConfig config;
  for (const text::Entry& entry : std::get<text::Value>(reply).entries()) {
    if (entry.key == "digest")
      config.digest = scalar_text(entry.value);
    else if (entry.value.is_scalar())
      config.options[entry.key] = scalar_text(entry.value);
  }
  return config;
}

std::optional<VmConfig> Client::find_whole_config(const std::string& node, Vmid vmid) {
  Reply reply = call("GET", vm_path(node, vmid, "/pending"));
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (absent(*failure)) return std::nullopt;
    throw failure->error(fmt::format("reading the configuration of VM {}", vmid));
  }
  VmConfig config;
  for (const text::Value& row : rows(std::get<text::Value>(std::move(reply)))) {
    const std::string option = read_text_or(row, "key");
    const text::Value* value = row.find("value");
    if (value != nullptr && value->is_scalar())
      (option == "digest" ? config.digest : config.options[option]) = scalar_text(*value);
    const text::Value* pending = row.find("pending");
    if (pending != nullptr && pending->is_scalar())
      config.pending[option] = scalar_text(*pending);
    else if (read_switch(row, "delete"))
      config.pending[option] = std::nullopt;
  }
  return config;
}

std::vector<PendingChange> Client::pending(const std::string& node, Vmid vmid) {
  std::vector<PendingChange> changes;
  for (const text::Value& row : rows(require(fmt::format("reading what is pending for VM {}", vmid),
                                             "GET", vm_path(node, vmid, "/pending")))) {
    PendingChange change{read_text_or(row, "key"), read_text(row, "value"),
                         read_text(row, "pending"), read_switch(row, "delete")};
    if (change.pending || change.deletes) changes.push_back(std::move(change));
  }
  return changes;
}

std::optional<VmStatus> Client::find_status(const std::string& node, Vmid vmid) {
  Reply reply = call("GET", vm_path(node, vmid, "/status/current"));
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (absent(*failure)) return std::nullopt;
    throw failure->error(fmt::format("reading the status of VM {}", vmid));
  }
  const text::Value& data = std::get<text::Value>(reply);
  VmStatus status;
  status.vmid = vmid;
  status.name = read_text_or(data, "name");
  status.status = read_text_or(data, "status");
  status.qmp_status = read_text_or(data, "qmpstatus", status.status);
  status.lock = read_text_or(data, "lock");
  if (const auto uptime = read_number(data, "uptime"))
    status.uptime = std::chrono::seconds{*uptime};
  status.agent_enabled = read_switch(data, "agent");
  if (const text::Value* ha = data.find("ha")) status.ha_managed = read_switch(*ha, "managed");
  status.cpu = read_float(data, "cpu");
  status.net_in = read_number(data, "netin").value_or(0);
  status.net_out = read_number(data, "netout").value_or(0);
  status.disk_read = read_number(data, "diskread").value_or(0);
  status.disk_written = read_number(data, "diskwrite").value_or(0);
  return status;
}

std::variant<Upid, VmidTaken> Client::start_create(const std::string& node,
                                                   const VmCreate& create) {
  const std::string doing =
      fmt::format("creating VM {} ({}) on {}", create.vmid, create.name, node);
  Reply reply =
      call("POST", fmt::format("/nodes/{}/qemu", percent_encode(node)), create.parameters());
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    // A second create of an id that is being created right now times out on its lock file instead.
    const bool racing =
        failure->reason == Reason::Contention &&
        failure->text.find(fmt::format("lock-{}.conf", create.vmid)) != std::string::npos;
    if (failure->reason == Reason::AlreadyExists || racing) return VmidTaken{failure->text};
    throw failure->error(doing);
  }
  const text::Value& data = std::get<text::Value>(reply);
  const auto upid = Upid::parse(data.is_scalar() ? data.text() : "");
  if (!upid) throw Error(Fault::Rejected, doing + ": Proxmox answered without the name of a task");
  return *upid;
}

std::optional<Upid> Client::start_update(const OwnedVm& vm, const VmUpdate& update) {
  const text::Value data = require(fmt::format("changing VM {}", vm.vmid()), "POST",
                                   vm_path(vm, "/config"), update_parameters(update));
  return data.is_scalar() ? Upid::parse(data.text()) : std::nullopt;
}

void Client::update(const OwnedVm& vm, const VmUpdate& update) {
  require(fmt::format("changing VM {}", vm.vmid()), "PUT", vm_path(vm, "/config"),
          update_parameters(update));
}

Upid Client::start_resize(const OwnedVm& vm, const std::string& slot, Bytes size,
                          const std::string& digest) {
  const auto gib = size.whole_gib();
  const auto mib = size.whole_mib();
  if (!mib)
    throw Error(Fault::Usage,
                fmt::format("a disk of {} is no whole number of MiB", to_string(size)));
  Parameters parameters{{"disk", slot},
                        {"size", gib ? fmt::format("{}G", *gib) : fmt::format("{}M", *mib)}};
  if (!digest.empty()) parameters.emplace_back("digest", digest);
  return require_task(fmt::format("resizing {} of VM {}", slot, vm.vmid()), "PUT",
                      vm_path(vm, "/resize"), parameters);
}

Upid Client::start_clone(const std::string& node, const Clone& clone) {
  Parameters parameters{{"newid", std::to_string(clone.target)}, {"full", clone.full ? "1" : "0"}};
  if (!clone.name.empty()) parameters.emplace_back("name", clone.name);
  if (!clone.description.empty()) parameters.emplace_back("description", clone.description);
  if (!clone.pool.empty()) parameters.emplace_back("pool", clone.pool);
  if (!clone.storage.empty()) parameters.emplace_back("storage", clone.storage);
  if (!clone.node.empty()) parameters.emplace_back("target", clone.node);
  return require_task(fmt::format("cloning VM {} to {}", clone.source, clone.target), "POST",
                      vm_path(node, clone.source, "/clone"), parameters);
}

Upid Client::start_template(const OwnedVm& vm) {
  return require_task(fmt::format("making VM {} a template", vm.vmid()), "POST",
                      vm_path(vm, "/template"));
}

Upid Client::start_destroy(const OwnedVm& vm, bool purge) {
  // destroy-unreferenced-disks stays off: it deletes by name on every storage, other clusters'
  // disks too.
  return require_task(fmt::format("destroying VM {}", vm.vmid()), "DELETE", vm_path(vm),
                      purge ? Parameters{{"purge", "1"}} : Parameters{});
}

void Client::regenerate_cloud_init(const OwnedVm& vm) {
  require(fmt::format("writing the cloud-init drive of VM {}", vm.vmid()), "PUT",
          vm_path(vm, "/cloudinit"));
}

Upid Client::start_vm(const OwnedVm& vm) {
  return require_task(fmt::format("starting VM {}", vm.vmid()), "POST",
                      vm_path(vm, "/status/start"));
}

Upid Client::start_stop(const OwnedVm& vm, bool overrule_shutdown) {
  return require_task(fmt::format("stopping VM {}", vm.vmid()), "POST", vm_path(vm, "/status/stop"),
                      overrule_shutdown ? Parameters{{"overrule-shutdown", "1"}} : Parameters{});
}

Upid Client::start_shutdown(const OwnedVm& vm, Duration timeout, bool force_stop) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
  return require_task(
      fmt::format("shutting down VM {}", vm.vmid()), "POST", vm_path(vm, "/status/shutdown"),
      {{"timeout", std::to_string(seconds)}, {"forceStop", force_stop ? "1" : "0"}});
}

Upid Client::start_reboot(const OwnedVm& vm, Duration timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
  return require_task(fmt::format("rebooting VM {}", vm.vmid()), "POST",
                      vm_path(vm, "/status/reboot"), {{"timeout", std::to_string(seconds)}});
}

Upid Client::start_reset(const OwnedVm& vm) {
  return require_task(fmt::format("resetting VM {}", vm.vmid()), "POST",
                      vm_path(vm, "/status/reset"));
}

Upid Client::start_migrate(const OwnedVm& vm, const std::string& target, bool online) {
  return require_task(fmt::format("migrating VM {} to {}", vm.vmid(), target), "POST",
                      vm_path(vm, "/migrate"),
                      {{"target", target}, {"online", online ? "1" : "0"}});
}

std::optional<std::vector<AgentInterface>> Client::find_agent_interfaces(const std::string& node,
                                                                         Vmid vmid) {
  Reply reply = call("GET", vm_path(node, vmid, "/agent/network-get-interfaces"));
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (failure->reason == Reason::AgentSilent || failure->reason == Reason::NotRunning)
      return std::nullopt;
    throw failure->error(fmt::format("asking the guest agent of VM {}", vmid));
  }
  const text::Value* result = std::get<text::Value>(reply).find("result");
  // The agent's own refusal comes with status 200: {"result":{"error":{…}}}.
  if (result == nullptr || !result->is_list()) return std::nullopt;
  std::vector<AgentInterface> interfaces;
  for (const text::Value& row : result->items()) {
    AgentInterface interface;
    interface.name = read_text_or(row, "name");
    interface.mac = MacAddress::parse(read_text_or(row, "hardware-address"));
    if (const text::Value* addresses = row.find("ip-addresses"))
      for (const text::Value& address : addresses->items())
        if (const auto ip = IpAddress::parse(read_text_or(address, "ip-address")))
          interface.addresses.push_back(*ip);
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

}  // namespace rocca::proxmox
