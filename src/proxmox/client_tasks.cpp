#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "proxmox/client.hpp"
#include "proxmox/reading.hpp"

#include <fmt/format.h>

namespace rocca::proxmox {

namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

std::string task_path(const Upid& upid, std::string_view rest = "") {
  return fmt::format("/nodes/{}/tasks/{}{}", percent_encode(upid.node), percent_encode(upid.text),
                     rest);
}

}  // namespace

std::optional<Task> Client::find_task(const Upid& upid) {
  Reply reply = call("GET", task_path(upid, "/status"));
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (failure->reason == Reason::DoesNotExist) return std::nullopt;
    throw failure->error(fmt::format("asking after task {} on {}", upid.type, upid.node));
  }
  const text::Value& data = std::get<text::Value>(reply);
  return Task{upid, read_text_or(data, "status") == "running", read_text_or(data, "exitstatus")};
}

std::vector<std::string> Client::task_log(const Upid& upid, unsigned limit) {
  const text::Value data =
      require(fmt::format("reading the log of task {}", upid.type), "GET", task_path(upid, "/log"),
              {{"start", "0"}, {"limit", std::to_string(limit)}});
  std::vector<std::string> lines;
  // The log of an unknown task is one line that says so: in 8.4 an object, in 9 a list of one.
  if (data.is_map()) return lines;
  for (const text::Value& row : data.items()) lines.push_back(read_text_or(row, "t"));
  if (lines.size() == 1 && lines.front().starts_with("unable to open file - ")) lines.clear();
  return lines;
}

std::vector<TaskRow> Client::tasks(const std::string& node, const TaskFilter& filter) {
  Parameters parameters{{"source", filter.only_active ? "active" : "all"},
                        {"limit", std::to_string(filter.limit)}};
  if (filter.vmid) parameters.emplace_back("vmid", std::to_string(*filter.vmid));
  if (!filter.type.empty()) parameters.emplace_back("typefilter", filter.type);
  if (filter.only_errors) parameters.emplace_back("errors", "1");
  if (filter.since)
    parameters.emplace_back("since",
                            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                                               filter.since->time_since_epoch())
                                               .count()));
  std::vector<TaskRow> tasks;
  for (const text::Value& row :
       rows(require(fmt::format("listing the tasks of {}", node), "GET",
                    fmt::format("/nodes/{}/tasks", percent_encode(node)), parameters))) {
    const auto upid = Upid::parse(read_text_or(row, "upid"));
    if (!upid) continue;
    TaskRow task{*upid, upid->user, upid->started, std::nullopt, read_text_or(row, "status")};
    if (const auto end = read_number(row, "endtime")) task.ended = from_epoch(*end);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

void Client::stop_task(const Upid& upid) {
  require(fmt::format("ending task {} on {}", upid.type, upid.node), "DELETE", task_path(upid));
}

}  // namespace rocca::proxmox
