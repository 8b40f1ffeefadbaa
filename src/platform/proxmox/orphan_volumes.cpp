#include "platform/proxmox/orphan_volumes.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "platform/resource_base.hpp"
#include "platform/survey.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* note = "What a create that died has left. rocca takes it away.";
// In the VM's SMBIOS, beside the proof: its notes are anybody's to edit.
constexpr const char* rest_product = "rest-of-a-create";
// Task log and storage both tell whole seconds.
constexpr Duration slack = 2s;

struct Span {
  Instant from, to;
};

/// When creates of this id, or clones of its source, by us were at work and came to nothing.
std::vector<Span> failed_creates(World& world, const RestSearch& search) {
  const std::string us = our_name(world);
  std::vector<Span> spans;
  const auto look = [&](const std::string& host, proxmox::Vmid vmid, const char* type) {
    proxmox::TaskFilter filter;
    filter.vmid = vmid;
    filter.type = type;
    for (const proxmox::TaskRow& task : world.proxmox().tasks(host, filter)) {
      if (task.running() || task.user != us) continue;
      if (proxmox::Task{task.upid, false, task.status}.ok()) continue;
      spans.push_back({task.started - slack, task.ended.value_or(world.clock.now()) + slack});
    }
  };
  if (search.source)
    look(search.source->host, search.source->vmid, "qmclone");
  else
    look(search.host, search.vmid, "qmcreate");
  return spans;
}

/// `STORAGE:vm-104-disk-0`, `STORAGE:104/vm-104-cloudinit.qcow2`.
bool has_name_of(const proxmox::Volume& volume, proxmox::Vmid vmid) {
  const std::string name = volume.id.substr(volume.id.find_first_of(':') + 1);
  const std::string file = name.substr(name.rfind('/') + 1);
  return volume.vmid == vmid && file.starts_with(fmt::format("vm-{}-", vmid));
}

}  // namespace

std::vector<std::string> rest_of_create(World& world, const RestSearch& search) {
  proxmox::Client& client = world.proxmox();
  const std::vector<Span> spans = failed_creates(world, search);
  if (spans.empty() && !search.remembered) return {};
  world.survey.refresh(client);
  if (world.survey.find(client, search.vmid)) return {};  // whatever there is, belongs to it
  std::vector<std::string> rest;
  for (const proxmox::StorageInfo& storage : world.survey.storages(client, search.host)) {
    if (!storage.active || !storage.holds("images")) continue;
    for (const proxmox::Volume& volume :
         client.volumes(search.host, storage.name, "images", search.vmid)) {
      if (!has_name_of(volume, search.vmid)) continue;
      const bool in_time = volume.created ? std::any_of(spans.begin(), spans.end(),
                                                        [&](const Span& span) {
                                                          return *volume.created >= span.from &&
                                                                 *volume.created <= span.to;
                                                        })
                                          : search.remembered;
      if (in_time) rest.push_back(volume.id);
    }
  }
  return rest;
}

std::optional<proxmox::VmRow> find_template(World& world, const std::string& name,
                                            const std::string& host) {
  std::optional<proxmox::VmRow> elsewhere;
  for (proxmox::VmRow& row : world.survey.rows(world.proxmox())) {
    if (!row.is_template || row.name != name) continue;
    if (row.node == host) return std::move(row);
    if (!elsewhere) elsewhere = std::move(row);
  }
  return elsewhere;
}

std::optional<proxmox::Upid> clone_at_work(World& world, const RestSearch::Source& source) {
  proxmox::TaskFilter filter;
  filter.only_active = true;
  for (const proxmox::TaskRow& task : world.proxmox().tasks(source.host, filter))
    if (task.upid.type == "qmclone" && task.upid.id == std::to_string(source.vmid) &&
        task.user == our_name(world))
      return task.upid;
  return std::nullopt;
}

std::optional<proxmox::Upid> clone_under_way(World& world, const std::string& from_template) {
  const auto quietly = [](const auto& ask) -> decltype(ask()) {
    try {
      return ask();
    } catch (const Error& error) {
      if (!is_silence(error.fault())) throw;  // a host that is off copies nothing
      return {};
    }
  };
  const auto rows = quietly([&] { return world.survey.rows(world.proxmox()); });
  for (const proxmox::VmRow& row : rows) {
    if (!row.is_template || row.name != from_template) continue;
    if (auto at_work = quietly([&] { return clone_at_work(world, {row.vmid, row.node}); }))
      return at_work;
  }
  return std::nullopt;
}

engine::Receipt gather_rest(World& world, const RestSearch& search,
                            const std::vector<std::string>& volumes) {
  proxmox::VmCreate create;
  create.vmid = search.vmid;
  create.name = search.vm_name;
  create.pool = search.pool;
  create.description = note;
  create.bios = "seabios";  // it is never started
  create.agent = false;
  create.on_boot = false;
  proxmox::Smbios smbios;
  smbios.uuid = search.identity.uuid;
  smbios.product = rest_product;
  smbios.family = engine::ownership_family;
  smbios.sku = engine::ownership_mark(search.identity.cluster, search.identity.node);
  create.smbios = std::move(smbios);
  create.unused = volumes;
  const auto answer = world.proxmox().start_create(search.host, create);
  if (const auto* taken = std::get_if<proxmox::VmidTaken>(&answer))
    throw Error(Fault::Busy, taken->text);
  proxmox::VmRow row;
  row.vmid = search.vmid;
  row.node = search.host;
  row.name = search.vm_name;
  row.status = "stopped";
  world.survey.note(row);
  return {std::get<proxmox::Upid>(answer).text, "gather the rest of a create"};
}

bool is_gathered_rest(const proxmox::VmConfig& config) {
  if (config.smbios("product").value_or("") != rest_product) return false;
  return std::none_of(config.options.begin(), config.options.end(), [](const auto& option) {
    return proxmox::is_drive(option.first) && proxmox::family(option.first) != "unused";
  });
}

void throw_dead_lock(const proxmox::VmRow& row, const std::string& lock) {
  throw Error(Fault::Conflict, fmt::format("VM {} on {} has the lock `{}`, and no task works on it",
                                           row.vmid, row.node, lock))
      .hint(fmt::format("nothing proves that this VM is ours. If its host went down while rocca "
                        "created it: `qm unlock {}` and `qm destroy {}` on {} (only root may); the "
                        "next run takes away what it left on storages",
                        row.vmid, row.vmid, row.node));
}

}  // namespace rocca::resources
