// Every recorded exchange of tests/reference/kube, sent to a fresh cluster of the lab in the
// recorded order, and compared.
//
//   ROCCA_REPLAY=ssa/conflict   only scenarios whose name contains this; differences are printed
//
// replay_differences.txt holds the differences with their reasons; a step in it that agrees is a
// failure too, so that it can only shrink. The observations of tests/reference/kube/flux are no
// exchanges and belong to another test.

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/kube/replay_cluster.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

namespace rocca::lab::kube {
namespace {

std::map<std::string, std::string> read_list(const std::string& file) {
  std::map<std::string, std::string> entries;
  std::ifstream in(test::source_folder() + "/src/lab/kube/" + file);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    const std::size_t bar = line.find(" | ");
    entries[line.substr(0, bar)] = bar == std::string::npos ? "" : line.substr(bar + 3);
  }
  return entries;
}

TEST(KubeReplay, TheLabAnswersAsTheRecordedApiServerDid) {
  const char* filter = std::getenv("ROCCA_REPLAY");
  const std::string wanted = filter == nullptr ? "" : filter;
  const auto differences = read_list("replay_differences.txt");
  std::set<std::string> seen;
  std::size_t agreed_in_all = 0;
  for (const std::string& path : test::reference_files("kube", ".json")) {
    if (path.find("/kube/flux/") != std::string::npos) continue;
    text::Limits limits;
    limits.size = 64 * 1024 * 1024;
    const text::Value file = text::parse_json(test::read_file(path), path, limits);
    const std::string id = file.find("id")->text();
    if (!wanted.empty() && id.find(wanted) == std::string::npos) continue;
    std::size_t agreed = 0;
    const auto results = ReplayCluster{file}.run();
    for (const auto& [step, problems] : results) {
      test::count_case();
      seen.insert(step);
      const bool listed = differences.contains(step);
      if (problems.empty()) {
        ++agreed;
        if (listed) ADD_FAILURE() << step << " agrees: take it off the list";
        continue;
      }
      if (!wanted.empty()) fmt::print("{}\n    {}\n", step, join(problems, "\n    "));
      if (!listed) ADD_FAILURE() << step << "\n    " << join(problems, "\n    ");
    }
    agreed_in_all += agreed;
    fmt::print("{}: {} of {} steps agree\n", id, agreed, results.size());
  }
  fmt::print("{} of {} steps agree\n", agreed_in_all, seen.size());
  for (const auto& [step, reason] : differences)
    if (wanted.empty() && !seen.contains(step))
      ADD_FAILURE() << step << " is listed but not recorded";
  for (const auto& [step, reason] : differences)
    EXPECT_FALSE(reason.empty()) << step << " has no reason";
}

}  // namespace
}  // namespace rocca::lab::kube
