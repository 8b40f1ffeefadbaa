#include "base/strings.hpp"
#include "lab/pve/datacenter.hpp"
#include "lab/services/compression.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace rocca::lab::pve {

namespace {

/// A token sees its own tasks, a user its own and its tokens'; others need the privilege on the
/// node.
bool owns(const Caller& caller, const std::string& task_user) {
  if (caller.id == task_user) return true;
  return !caller.token && task_user.starts_with(caller.id + "!");
}

void split_user(text::Value& row, const std::string& user) {
  const std::size_t bang = user.find('!');
  row.set("user", string(user.substr(0, bang)));
  if (bang != std::string::npos) row.set("tokenid", string(user.substr(bang + 1)));
}

text::Value describe(const Task& task, bool split) {
  text::Value row = object({{"upid", string(task.text)},
                            {"node", string(task.upid.node)},
                            {"pid", number(task.upid.pid)},
                            {"pstart", number(task.upid.pstart)},
                            {"starttime", number(task.upid.start)},
                            {"type", string(task.upid.type)},
                            {"id", string(task.upid.id)}});
  if (split)
    split_user(row, task.upid.user);
  else
    row.set("user", string(task.upid.user));
  return row;
}

bool is_error(const Task& task) {
  return !task.running() && task.status != "OK";
}

std::string status_kind(const Task& task) {
  if (task.status == "OK") return "ok";
  if (task.status.starts_with("WARNINGS")) return "warning";
  if (task.status == "unexpected status") return "unknown";
  return "error";
}

/// Follows Proxmox's filters: substring for the user, exact type, the VMID as the task's id.
bool wanted(const Call& call, const Task& task, bool auditor) {
  if (!auditor && !owns(call.caller, task.upid.user)) return false;
  const Parameters& p = call.params;
  if (p.has("vmid") && task.upid.id != p.text("vmid")) return false;
  if (p.has("typefilter") && task.upid.type != p.text("typefilter")) return false;
  if (p.has("userfilter") && task.upid.user.find(p.text("userfilter")) == std::string::npos)
    return false;
  if (p.has("since") && task.upid.start < p.integer("since")) return false;
  if (p.has("until") && task.upid.start > p.integer("until")) return false;
  if (p.flag("errors") && !is_error(task)) return false;
  if (p.has("statusfilter") && !task.running()) {
    const auto kinds = p.split("statusfilter");
    if (std::find(kinds.begin(), kinds.end(), status_kind(task)) == kinds.end()) return false;
  }
  return true;
}

Routine<text::Value> list_tasks(Call& call) {
  const std::string source = call.params.text("source", "archive");
  const bool auditor = call.may("/nodes/" + call.node.name, {"Sys.Audit"});
  const auto start = static_cast<std::size_t>(call.params.integer("start", 0));
  const auto limit = static_cast<std::size_t>(call.params.integer("limit", 50));
  text::Value rows = text::Value::list();
  std::size_t seen = 0;
  const auto add = [&](const Task& task) {
    if (!wanted(call, task, auditor)) return;
    const std::size_t index = seen++;
    if (index < start || (limit != 0 && index >= start + limit)) return;
    text::Value row = describe(task, !task.running());
    row.set("status", string(task.running() ? "RUNNING" : task.status));
    if (task.running())
      row.set("saved", string("0"));
    else
      row.set("endtime", number(*task.end));
    rows.append(std::move(row));
  };
  const auto& tasks = call.node.tasks();
  if (source != "archive")
    for (auto task = tasks.rbegin(); task != tasks.rend(); ++task)
      if ((*task)->running()) add(**task);
  if (source != "active")
    for (auto task = tasks.rbegin(); task != tasks.rend(); ++task)
      if (!(*task)->running()) add(**task);
  if (seen > 0) call.total = static_cast<std::int64_t>(seen);  // zero is left out
  co_return rows;
}

Routine<text::Value> task_index(Call&) {
  co_return text::Value::list(
      {object({{"name", string("log")}}), object({{"name", string("status")}})});
}

/// The UPID of the path, checked; the task itself may be gone.
Upid checked_upid(const Call& call) {
  const auto upid = Upid::parse(call.params.text("upid"));
  if (!upid) refuse_parameter("upid", "unable to parse worker upid");
  return *upid;
}

Routine<text::Value> task_status(Call& call) {
  const Upid upid = checked_upid(call);
  const Task* task = call.node.find_task(call.params.text("upid"));
  if (task == nullptr) refuse_parameter("upid", "no such task");
  if (!owns(call.caller, upid.user)) call.require("/nodes/" + call.node.name, {"Sys.Audit"});
  text::Value row = describe(*task, true);
  row.set("status", string(task->running() ? "running" : "stopped"));
  if (!task->running()) row.set("exitstatus", string(task->status));
  co_return row;
}

/// The whole log as a file to save; larger ones go through gzip.
Attachment log_file(const Task& task) {
  constexpr std::size_t worth_compressing = 1024;
  Attachment file;
  file.name = fmt::format("task-{}-{}-{:%FT%TZ}.log", task.upid.node, task.upid.type,
                          fmt::gmtime(static_cast<std::time_t>(task.upid.start)));
  file.type = "text/plain";
  for (const std::string& line : task.log) file.bytes += line + "\n";
  if (file.bytes.size() > worth_compressing) {
    file.encoding = "gzip";
    file.bytes = gzip(file.bytes, task.text, task.upid.start);
  }
  return file;
}

Routine<text::Value> task_log(Call& call) {
  const Upid upid = checked_upid(call);
  if (!owns(call.caller, upid.user)) call.require("/nodes/" + call.node.name, {"Sys.Audit"});
  const Task* task = call.node.find_task(call.params.text("upid"));
  if (call.params.flag("download")) {
    if (call.params.has("start") || call.params.has("limit"))
      die("Parameter 'download' can't be used with other parameters");
    if (task == nullptr) die("Could not open file - No such file or directory");
    call.attachment = log_file(*task);
    co_return text::Value::null();
  }
  const auto line = [](std::size_t n, std::string text_of) {
    return object({{"n", number(static_cast<std::int64_t>(n))}, {"t", string(std::move(text_of))}});
  };
  if (task == nullptr) {
    call.total = 1;
    text::Value told = line(1, "unable to open file - No such file or directory");
    co_return call.dc.release.nine() ? text::Value::list({std::move(told)}) : std::move(told);
  }
  const auto start = static_cast<std::size_t>(call.params.integer("start", 0));
  const auto limit = static_cast<std::size_t>(call.params.integer("limit", 50));
  text::Value rows = text::Value::list();
  for (std::size_t i = start; i < task->log.size() && (limit == 0 || i < start + limit); ++i)
    rows.append(line(i + 1, task->log[i]));
  if (task->log.empty()) rows.append(line(1, "no content"));
  call.total = static_cast<std::int64_t>(std::max<std::size_t>(task->log.size(), 1));
  co_return rows;
}

Routine<text::Value> stop_task(Call& call) {
  const Upid upid = checked_upid(call);
  if (!owns(call.caller, upid.user)) call.require("/nodes/" + call.node.name, {"Sys.Modify"});
  Task* task = call.node.find_task(call.params.text("upid"));
  if (task != nullptr && task->running()) {
    task->interrupt.raise("received interrupt");
    co_await call.world().wait(task->ended, call.world().now() + std::chrono::seconds{5}, nullptr);
  }
  co_return text::Value::null();
}

/// Running tasks of all nodes and the newest finished ones. A token without Sys.Audit on / sees
/// nothing: the comparison takes the bare user of the task and the whole name of the token.
Routine<text::Value> cluster_tasks(Call& call) {
  const bool auditor = call.may("/", {"Sys.Audit"});
  text::Value rows = text::Value::list();
  for (const auto& [name, node] : call.dc.nodes()) {
    std::size_t finished = 0;
    const auto& tasks = node->tasks();
    for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
      if (!(*task)->running() && ++finished > 25) continue;
      const std::string& user = (*task)->upid.user;
      if (!auditor && call.caller.id != user.substr(0, user.find('!'))) continue;
      text::Value row = describe(**task, !(*task)->running());
      if ((*task)->running()) {
        row.set("saved", string("0"));
      } else {
        row.set("endtime", number(*(*task)->end));
        row.set("status", string((*task)->status));
        row.set("saved", string("1"));
      }
      rows.append(std::move(row));
    }
  }
  co_return rows;
}

}  // namespace

std::vector<Route> task_routes() {
  return {
      {"GET /nodes/{node}/tasks", list_tasks},
      {"GET /nodes/{node}/tasks/{upid}", task_index},
      {"DELETE /nodes/{node}/tasks/{upid}", stop_task},
      {"GET /nodes/{node}/tasks/{upid}/status", task_status},
      {"GET /nodes/{node}/tasks/{upid}/log", task_log},
      {"GET /cluster/tasks", cluster_tasks},
  };
}

}  // namespace rocca::lab::pve
