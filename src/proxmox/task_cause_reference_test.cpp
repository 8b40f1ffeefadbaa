// Every failed task in the recordings: what a user is told names a cause, not a program's exit.

#include "proxmox/task_cause.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <gtest/gtest.h>

namespace rocca::proxmox {
namespace {

/// Calls `visit` with every recorded task, wherever a recording keeps it.
template <class Visit>
void for_each_task(const text::Value& value, const Visit& visit) {
  if (value.is_map()) {
    const text::Value* exit = value.find("exitstatus");
    const text::Value* log = value.find("log");
    if (exit != nullptr && exit->is_scalar() && log != nullptr && log->is_list())
      visit(exit->text(), *log);
    for (const text::Entry& entry : value.entries()) for_each_task(entry.value, visit);
  } else if (value.is_list()) {
    for (const text::Value& item : value.items()) for_each_task(item, visit);
  }
}

TEST(TaskCause, IsNamedForEveryRecordedFailure) {
  std::size_t generic = 0;
  for (const char* folder : {"pve", "pve-more", "pve9"})
    for (const std::string& file : test::reference_files(folder, ".json")) {
      text::Limits limits;
      limits.size = 64 * 1024 * 1024;
      const text::Value root = text::parse_json(test::read_file(file), file, limits);
      for_each_task(root, [&](const std::string& exit_status, const text::Value& log) {
        if (exit_status == "OK" || exit_status.starts_with("WARNINGS:") || exit_status.empty())
          return;
        std::vector<std::string> lines;
        for (const text::Value& line : log.items()) lines.push_back(line.text());
        const std::string cause = cause_of_failure(exit_status, lines);
        EXPECT_FALSE(names_no_cause(cause)) << file << ": " << exit_status << " -> " << cause;
        generic += names_no_cause(exit_status);
        test::count_case();
      });
    }
  EXPECT_GT(generic, 5u) << "some of them only say that a program failed";
}

}  // namespace
}  // namespace rocca::proxmox
