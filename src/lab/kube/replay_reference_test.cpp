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
#include <gmock/gmock.h>

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

/// Recordings of others may hold what the replay has never seen.
TEST(KubeReplay, WhatIsUnknownInARecordingIsADifferenceAndTheNextStepIsPlayed) {
  const text::Value recording = text::parse_json(R"({"id": "odd/one", "steps": [
      {"as": "stranger", "request": {"method": "GET", "path": "/version"}, "response": {"status": 200}},
      {"event": "the moon rises"},
      {"as": "admin"},
      "text",
      {"as": "admin", "request": {"method": "GET", "path": "/api/v1/namespaces/<uid:x>", "query": ["a"]}, "response": {}},
      {"as": "admin", "request": {"method": "GET", "path": "/api/v1/nodes"}, "response": {"status": 200, "body": {"metadata": {"resourceVersion": "<rv:99999999999999999999>"}}}},
      {"as": "admin", "request": {"method": "GET", "path": "/readyz"}, "response": {"status": 200, "bodyText": "ok"}}]})",
                                                 "odd.json");
  const auto results = ReplayCluster{recording}.run();
  ASSERT_EQ(results.size(), 7u);
  EXPECT_THAT(results[0].second, testing::ElementsAre(testing::HasSubstr("unknown principal")));
  EXPECT_THAT(results[1].second, testing::ElementsAre(testing::HasSubstr("unknown set-up step")));
  for (std::size_t i : {2u, 3u, 4u, 5u}) EXPECT_FALSE(results[i].second.empty()) << i;
  EXPECT_TRUE(results[6].second.empty()) << join(results[6].second, "\n");
  const text::Value empty = text::parse_json("{}", "empty.json");
  EXPECT_EQ(ReplayCluster{empty}.run().size(), 1u);
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
    text::Value file;
    try {
      file = text::parse_json(test::read_file(path), path, limits);
    } catch (const Error& error) {
      test::count_case();
      ADD_FAILURE() << path << "\n    is not a recording: " << error.what();
      continue;
    }
    const text::Value* named = file.find("id");
    const std::string id = named != nullptr && named->is_string() ? named->text() : path;
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
