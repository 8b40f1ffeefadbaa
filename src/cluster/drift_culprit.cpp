#include "base/strings.hpp"
#include "cluster/drift_parts.hpp"

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

/// What a task says that it does to an option; nothing: it does not speak of it.
std::optional<std::string> said_of(const std::string& line, const std::string& option) {
  const auto words = split(line, ' ');
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "-" + option) {
      std::string value = words[i + 1];
      // A value may have blanks in it; the next option begins with a dash.
      for (std::size_t j = i + 2; j < words.size() && !words[j].starts_with('-'); ++j)
        value += " " + words[j];
      return value;
    }
    if (words[i] == "-delete")
      for (const std::string& each : split(words[i + 1], ','))
        if (each == option) return "";
  }
  return std::nullopt;
}

/// `cores` of `cores`, `cores.pending` and `scsi0.cache`.
std::string option_of(const std::string& field) {
  return field.substr(0, field.find('.'));
}

/// Is what was found what was asked for? Proxmox sorts tags and adds to what it is told of a card
/// or a disk, so that parts count.
bool fits(const std::string& asked, const std::string& found) {
  if (asked == found) return true;
  std::vector<std::string> parts = split(replace_all(asked, ";", ","), ',');
  for (const std::string& part : split(replace_all(found, ";", ","), ','))
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) return false;
  return !found.empty();
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

namespace {

/// The newest line of the cluster log that made the option what was found.
const proxmox::LogEntry* find_in_log(const Suspicion& suspicion, const Drift& drift) {
  const std::string option = option_of(drift.field);
  const proxmox::LogEntry* newest = nullptr;
  for (const proxmox::LogEntry& entry : suspicion.log) {
    if (suspicion.since && entry.time + 1s < *suspicion.since) continue;
    const auto asked = said_of(entry.message, option);
    if (!asked || entry.user == suspicion.us || !fits(*asked, drift.found)) continue;
    if (newest == nullptr || entry.time > newest->time) newest = &entry;
  }
  return newest;
}

void name_by_task(const Suspicion& suspicion, Drift& drift);

}  // namespace

void name_culprit(const Suspicion& suspicion, Drift& drift) {
  name_by_task(suspicion, drift);
  const bool proven = !drift.by.empty() && drift.perhaps.empty();
  const proxmox::LogEntry* entry = find_in_log(suspicion, drift);
  if (entry == nullptr || (proven && drift.since && *drift.since + 1s >= entry->time)) return;
  drift.by = entry->user;
  drift.perhaps.clear();
  drift.task = "cluster log";
  drift.since = entry->time;
}

namespace {

void name_by_task(const Suspicion& suspicion, Drift& drift) {
  const proxmox::TaskRow* newest = nullptr;
  const std::string option = option_of(drift.field);
  const auto line_of = [&](const proxmox::TaskRow& task) -> const std::string* {
    const auto line = suspicion.said.find(task.upid.text);
    return line == suspicion.said.end() ? nullptr : &line->second;
  };
  std::size_t others = 0;
  for (const proxmox::TaskRow& task : suspicion.tasks) {
    if (!explains(task.upid.type, drift.field) || !worked(task)) continue;
    if (suspicion.since && task.started + 1s < *suspicion.since) continue;
    // Whoever says what he did, and not this, did not do it.
    if (const std::string* line = line_of(task); line != nullptr && !said_of(*line, option))
      continue;
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
  const std::string* line = line_of(*newest);
  if (others == 0) {
    drift.perhaps = "a task of our own, and no other is in the log";
  } else if (line != nullptr) {
    if (const std::string asked = *said_of(*line, option); !fits(asked, drift.found))
      drift.perhaps =
          fmt::format("that task {}, and a change that is made at once leaves none",
                      asked.empty() ? "took it away" : fmt::format("made it '{}'", asked));
  } else if (others > 1) {
    drift.perhaps = fmt::format("the last of {} tasks that could have done it", others);
  } else if (newest->upid.type == "qmconfig") {
    drift.perhaps =
        "what it changed is not known, and a change that is made at once leaves no task";
  }
}

}  // namespace

}  // namespace rocca::resources
