#include "base/strings.hpp"
#include "resources/drift_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

bool is_one_of(const std::string& type, std::initializer_list<const char*> types) {
  return std::any_of(types.begin(), types.end(), [&](const char* each) { return type == each; });
}

/// Tasks of Proxmox that could have made a field what it is.
bool explains(const std::string& type, const std::string& field) {
  if (field == "power")
    return is_one_of(type, {"qmstop", "qmshutdown", "hastop", "qmreset", "qmreboot", "qmsuspend"});
  if (field.ends_with(".size")) return is_one_of(type, {"resize", "qmconfig"});
  if (field.ends_with(".storage")) return is_one_of(type, {"qmmove", "qmigrate"});
  if (field == "exists") return is_one_of(type, {"qmdestroy"});
  return is_one_of(type, {"qmconfig", "qmrestore", "qmrollback"});
}

bool worked(const proxmox::TaskRow& task) {
  return task.running() || proxmox::Task{task.upid, false, task.status}.ok();
}

/// A VM is off because of the last task that put it off, unless it was started again since.
bool is_undone(const std::vector<proxmox::TaskRow>& tasks, const proxmox::TaskRow& stop) {
  return std::any_of(tasks.begin(), tasks.end(), [&](const proxmox::TaskRow& task) {
    return is_one_of(task.upid.type, {"qmstart", "hastart", "qmresume"}) && worked(task) &&
           task.started > stop.started;
  });
}

}  // namespace

void name_culprit(const Suspicion& suspicion, Drift& drift) {
  const proxmox::TaskRow* newest = nullptr;
  std::size_t others = 0, all = 0;
  for (const proxmox::TaskRow& task : suspicion.tasks) {
    if (!explains(task.upid.type, drift.field) || !worked(task)) continue;
    if (suspicion.since && task.started + 1s < *suspicion.since) continue;
    ++all;
    const bool ours = task.user == suspicion.us;
    if (!ours) ++others;
    // What we did ourselves made it as declared: anybody else is likelier.
    const bool better = newest == nullptr || (newest->user == suspicion.us && !ours) ||
                        (ours == (newest->user == suspicion.us) && task.started > newest->started);
    if (better) newest = &task;
  }
  if (newest == nullptr) return;
  const bool last_counts = drift.field == "power" || drift.field == "exists";
  if (drift.field == "power" && is_undone(suspicion.tasks, *newest)) return;
  drift.by = newest->user;
  drift.task = fmt::format("{}, {}", newest->upid.type, newest->upid.text);
  drift.since = newest->started;
  if (last_counts) return;
  if (others == 0)
    drift.perhaps = "a task of our own, and no other is in the log";
  else if (others > 1)
    drift.perhaps = fmt::format("the last of {} tasks that could have done it", others);
  else if (suspicion.options > 1 && newest->upid.type == "qmconfig")
    drift.perhaps = fmt::format(
        "{} options differ, one task is in the log, and a change that is made at once leaves none",
        suspicion.options);
}

}  // namespace rocca::resources
