#include "base/error.hpp"
#include "base/version.hpp"
#include "support/reference.hpp"
#include "talosconfig/merge.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

#include <iostream>
#include <map>

namespace rocca::talos {
namespace {

using text::Value;

// Where we do not do what Talos did, and why.
const std::map<std::string, std::string> differences{
    {"delete-document-no-name",
     "Talos adds an empty document `{}` that no node takes; we refuse the patch"},
};

/// Of each minor version the newest release that was run.
std::map<std::uint64_t, std::string> newest(const Value& results) {
  std::map<std::uint64_t, std::string> out;
  for (const Value& result : results.items()) {
    for (const Value& item : result.find("versions")->items()) {
      const Version version = *Version::parse(item.text());
      auto& known = out[version.minor()];
      if (known.empty() || *Version::parse(known) < version) known = item.text();
    }
  }
  return out;
}

const Value& result_of(const Value& results, const std::string& version) {
  for (const Value& result : results.items())
    for (const Value& item : result.find("versions")->items())
      if (item.text() == version) return result;
  throw Error(Fault::Bug, "no result");
}

struct Counts {
  std::size_t bytes = 0;
  std::size_t meaning = 0;
  std::size_t refused = 0;
  std::size_t different = 0;
};

void run_case(const std::string& path, Counts& counts) {
  const Value recorded = text::parse_json(test::read_file(path), path);
  const std::string name = recorded.find("name")->text();
  const std::string base =
      test::read_file(test::reference_path("talos/patches/bases/" + recorded.find("base")->text()));
  const Value& results = *recorded.find("results");
  for (const auto& [minor, version] : newest(results)) {
    SCOPED_TRACE(name + " with " + version);
    test::count_case();
    const Value& result = result_of(results, version);
    const bool accepted = result.find("exit")->as_int() == 0;
    std::string ours;
    std::string refusal;
    try {
      std::vector<ConfigPatch> patches;
      for (const Value& patch : recorded.find("patches")->items())
        patches.push_back(read_patch(patch.text(), "patch.yaml"));
      ours = patched_config(base, "base.yaml", patches, static_cast<unsigned>(minor));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage) << error.message();
      refusal = error.message();
    }
    if (differences.contains(name)) {
      EXPECT_NE(accepted, refusal.empty()) << "no difference any more";
      ++counts.different;
    } else if (!accepted) {
      // Place and reason: the file, and more than the file.
      EXPECT_THAT(refusal, testing::AnyOf(testing::StartsWith("patch.yaml:"),
                                          testing::StartsWith("base.yaml:")))
          << "Talos: " << result.find("stderr")->text();
      ++counts.refused;
    } else {
      EXPECT_EQ(refusal, "");
      const std::string& theirs = result.find("stdout")->text();
      if (ours + "\n" == theirs) {
        ++counts.bytes;
      } else {
        EXPECT_EQ(text::parse_yaml_stream(ours, "ours"), text::parse_yaml_stream(theirs, "theirs"))
            << "ours:\n"
            << ours << "theirs:\n"
            << theirs;
        ++counts.meaning;
      }
    }
  }
}

TEST(Patches, MergeAsTalosDoes) {
  Counts counts;
  for (const std::string& path : test::reference_files("talos/patches/cases", ".json"))
    run_case(path, counts);
  std::cout << counts.bytes << " with the same bytes, " << counts.meaning
            << " with the same meaning, " << counts.refused << " refused alike, "
            << counts.different << " different on purpose\n";
}

}  // namespace
}  // namespace rocca::talos
