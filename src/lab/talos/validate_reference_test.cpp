#include "base/strings.hpp"
#include "lab/talos/config.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

namespace rocca::lab::talos {
namespace {

using text::Value;

std::string here(const char* name) {
  return test::source_folder() + "/src/lab/talos/" + name;
}

/// What a node of that release says to a configuration: "" if it takes it.
std::string refusal(const std::string& config, const std::string& mode, const Version& release) {
  try {
    const MachineConfig parsed = MachineConfig::parse(config, release);
    // The recordings are of `talosctl validate`, which knows no running node: nothing is installed,
    // and the versions of images are not looked at.
    return parsed.validate(mode, false, release, MachineConfig::Images::Any).value_or("");
  } catch (const ConfigError& error) {
    return error.text;
  }
}

TEST(TalosNodeLab, WarnsOfConfigurationsInTalosOwnWords) {
  std::size_t warned = 0;
  for (const std::string& path : test::reference_files("talos/validate", ".json")) {
    const Value cases = text::parse_json(test::read_file(path), path);
    for (const Value& entry : cases.items()) {
      SCOPED_TRACE(entry.find("name")->text());
      for (const Value& result : entry.find("results")->items()) {
        std::vector<std::string> wanted;
        if (const Value* list = result.find("warnings"); list != nullptr && list->is_list())
          for (const Value& item : list->items()) wanted.push_back(item.text());
        for (const text::Entry& run : result.find("runs")->entries())
          for (const Value& version : run.value.items()) {
            // `--strict` is talosctl's own and makes errors of them; a node knows only warnings.
            const std::vector<std::string> modes = split(run.key, ',');
            if (std::all_of(modes.begin(), modes.end(),
                            [](const std::string& mode) { return mode.ends_with("+strict"); }))
              continue;
            const Version release = *Version::parse(version.text());
            try {
              EXPECT_EQ(
                  MachineConfig::parse(entry.find("config")->text(), release).warnings(release),
                  wanted)
                  << version.text();
            } catch (const ConfigError&) {
              EXPECT_TRUE(wanted.empty()) << "what cannot be read has no warnings";
            }
            test::count_case();
            warned += wanted.size();
          }
      }
    }
  }
  EXPECT_GT(warned, 0u);
}

TEST(TalosNodeLab, RefusesConfigurationsInTalosOwnWords) {
  // Name of a case, then why the lab's node says something else there.
  std::map<std::string, std::string> differences;
  std::ifstream list(here("validate_differences.txt"));
  for (std::string line; std::getline(list, line);)
    if (!line.empty() && line[0] != '#') differences[split(line, ' ').front()] = line;
  const char* only = std::getenv("ROCCA_REPLAY");
  const bool write = std::getenv("ROCCA_REPLAY_WRITE") != nullptr;
  std::size_t alike = 0, taken = 0, other = 0;
  std::map<std::string, std::string> failing;
  std::set<std::string> seen;
  for (const std::string& path : test::reference_files("talos/validate", ".json")) {
    const Value cases = text::parse_json(test::read_file(path), path);
    for (const Value& entry : cases.items()) {
      const std::string& name = entry.find("name")->text();
      seen.insert(name);
      if (only != nullptr && name != only) continue;
      const std::string& config = entry.find("config")->text();
      for (const Value& result : entry.find("results")->items()) {
        const bool refused = result.find("exit")->as_int() != 0;
        std::string wanted = refused ? result.find("error")->text() : "";
        if (wanted.ends_with('\n')) wanted.pop_back();
        for (const text::Entry& run : result.find("runs")->entries()) {
          for (const Value& version : run.value.items()) {
            for (const std::string mode : {"metal", "cloud", "container"}) {
              const std::string modes = "," + run.key + ",";
              if (run.key != "all" && modes.find("," + mode + ",") == std::string::npos) continue;
              test::count_case();
              const std::string said = refusal(config, mode, *Version::parse(version.text()));
              // A crash of Talos is not to be played, but must not be taken either.
              const bool crash = wanted.starts_with("panic");
              if (crash ? !said.empty() : said == wanted) {
                ++(refused ? alike : taken);
                continue;
              }
              ++other;
              failing.emplace(name,
                              fmt::format("{} in mode {}\n    lab      {:?}\n    recorded {:?}",
                                          version.text(), mode, said, wanted));
            }
          }
        }
      }
    }
  }
  for (const auto& [name, why] : failing)
    if (only != nullptr || (!write && !differences.contains(name)))
      ADD_FAILURE() << name << " at " << why;
  for (const auto& [name, why] : differences) {
    EXPECT_TRUE(seen.contains(name)) << name << " of validate_differences.txt is not recorded";
    if (only != nullptr || write || !seen.contains(name)) continue;
    EXPECT_TRUE(failing.contains(name))
        << name << " agrees now: take it off validate_differences.txt";
  }
  fmt::print("{} refused alike, {} taken alike, {} otherwise in {} cases\n", alike, taken, other,
             failing.size());
  if (write) {
    std::ofstream out(here("validate_differences.txt"));
    out << "# Configurations to which the lab's node says something else than Talos: name, why.\n";
    for (const auto& [name, why] : failing) {
      const auto known = differences.find(name);
      out << (known == differences.end() ? name : known->second) << "\n";
    }
  }
}

}  // namespace
}  // namespace rocca::lab::talos
