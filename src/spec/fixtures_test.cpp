#include "base/files.hpp"
#include "base/strings.hpp"
#include "spec/fields.hpp"
#include "spec/load.hpp"
#include "spec/validation/rules.hpp"
#include "support/golden.hpp"
#include "talosconfig/patch_check.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace rocca::spec {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> yaml_files(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(test::source_folder()) / folder))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// The specs of examples/: its own files, and every cluster.yaml of the repositories below it.
std::vector<std::string> examples() {
  std::vector<std::string> names = yaml_files("examples");
  const fs::path top = fs::path(test::source_folder()) / "examples";
  for (const auto& entry : fs::recursive_directory_iterator(top))
    if (entry.path().filename() == "cluster.yaml")
      names.push_back(fs::relative(entry.path(), top).replace_extension().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// A folder of the source tree in memory, so that messages name the same paths on every machine.
MemoryFiles in_memory(const std::string& folder) {
  MemoryFiles files;
  const fs::path top = fs::path(test::source_folder()) / folder;
  for (const auto& entry : fs::recursive_directory_iterator(top))
    if (entry.is_regular_file()) {
      files.make_folder((fs::path("c") / fs::relative(entry.path().parent_path(), top))
                            .lexically_normal()
                            .string(),
                        0755);
      files.write("c/" + fs::relative(entry.path(), top).string(), read(entry.path()), 0644);
    }
  return files;
}

Loaded load_bad(const std::string& name) {
  MemoryFiles files = in_memory("tests/spec/bad");
  if (const auto lock = files.find("c/files/" + name + ".lock", Files::default_limit))
    files.write("c/rocca.lock", *lock, 0644);
  Loaded loaded = load(files, "c/" + name + ".yaml");
  if (!loaded.diagnostics.has_errors()) talos::check_patches(loaded.spec, loaded.diagnostics);
  return loaded;
}

std::string code_of(const std::string& fixture) {
  return fixture.substr(0, fixture.find("--"));
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  return replace_all(replace_all(replace_all(info.param, "--", "_"), "-", "_"), "/", "_");
}

class BadSpec : public testing::TestWithParam<std::string> {};

TEST_P(BadSpec, IsToldWithPlaceAndHint) {
  const Loaded loaded = load_bad(GetParam());
  std::string text = loaded.diagnostics.render();
  std::set<std::string> codes;
  for (const Problem& problem : loaded.diagnostics.problems()) {
    codes.insert(problem.code);
    EXPECT_GT(problem.where.line, 0u) << problem.code << ": " << problem.message;
  }
  EXPECT_THAT(codes, testing::Contains(code_of(GetParam())));
  test::expect_golden("spec/" + GetParam() + ".txt", text);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, BadSpec, testing::ValuesIn(yaml_files("tests/spec/bad")),
                         test_name);

TEST(Rules, HaveAFixtureEach) {
  std::set<std::string> covered;
  for (const std::string& fixture : yaml_files("tests/spec/bad")) covered.insert(code_of(fixture));
  for (const Rule& rule : rules()) EXPECT_THAT(covered, testing::Contains(std::string(rule.code)));
}

TEST(Rules, AreAtLeastSixty) {
  EXPECT_GE(rules().size(), 60u);
}

class GoodSpec : public testing::TestWithParam<std::string> {};

TEST_P(GoodSpec, HasNothingToSayAndResolvesToItself) {
  MemoryFiles files = in_memory("examples");
  Loaded loaded = load(files, "c/" + GetParam() + ".yaml");
  talos::check_patches(loaded.spec, loaded.diagnostics);
  EXPECT_EQ(loaded.diagnostics.render(), "");
  const std::string yaml = resolved_yaml(loaded.spec);
  const Loaded again = load_text(files, yaml, "resolved.yaml", loaded.spec.folder);
  EXPECT_EQ(again.diagnostics.render(), "");
  EXPECT_EQ(resolved_yaml(again.spec), yaml);
  test::expect_golden("spec/resolved/" + GetParam() + ".yaml", yaml);
}

INSTANTIATE_TEST_SUITE_P(Examples, GoodSpec, testing::ValuesIn(examples()), test_name);

TEST(Examples, StandInTheirReadme) {
  const std::string readme = read(fs::path(test::source_folder()) / "examples/README.md");
  for (const std::string& name : examples())
    EXPECT_THAT(readme, testing::HasSubstr("(" + name + ".yaml)"));
}

TEST(Table, HasNoKeyThatNobodyReads) {
  std::set<std::string> touched;
  for (const char* folder : {"examples", "tests/spec/good"}) {
    MemoryFiles files = in_memory(folder);
    for (const std::string& name : yaml_files(folder)) {
      const Loaded loaded = load(files, "c/" + name + ".yaml", {.touched = &touched});
      EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
    }
  }
  for (const Field& field : fields()) {
    if (field.is(Internal) || field.path == "$secret") continue;
    EXPECT_THAT(touched, testing::Contains(std::string(field.path)));
  }
}

}  // namespace
}  // namespace rocca::spec
