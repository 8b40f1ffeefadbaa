#include "base/error.hpp"
#include "factory/schematic.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>

// Every case of tests/reference/talos/schematics, made with the factory's own code of three
// versions. rocca follows the newest. Only where an older factory could not even read the text as
// YAML may rocca refuse it too.
namespace rocca::factory {
namespace {

using text::Value;

TEST(TalosSchematics, EveryCaseGivesTheFactorysBytesAndId) {
  std::size_t stricter = 0;
  for (const std::string& path : test::reference_files("talos/schematics", ".json")) {
    const Value cases = text::parse_json(test::read_file(path), path);
    for (const Value& item : cases.items()) {
      SCOPED_TRACE(item.find("name")->text());
      const auto& results = item.find("results")->items();
      const Value& newest = results.back();
      const auto accepts = [](const Value& result) { return *result.find("ok")->as_bool(); };
      const bool contested = results.size() > 1;
      const bool someone_refuses = !std::all_of(results.begin(), results.end(), accepts);

      Diagnostics problems;
      const auto schematic = read_schematic(item.find("input")->text(), "schematic.yaml", problems);
      if (!schematic) {
        const bool unreadable =
            std::any_of(results.begin(), results.end(), [&](const Value& result) {
              return !accepts(result) &&
                     result.find("error")->text().find(" errors:") == std::string::npos;
            });
        EXPECT_TRUE(!accepts(newest) || unreadable) << problems.render();
        EXPECT_TRUE(problems.has_errors());
        stricter += accepts(newest) ? 1 : 0;
      } else {
        ASSERT_TRUE(accepts(newest)) << schematic->canonical();
        EXPECT_EQ(schematic->canonical(), newest.find("canonical")->text());
        EXPECT_EQ(schematic->id(), newest.find("id")->text());
        // Accepted by all, but hashed in two ways: the user is told.
        if (contested && !someone_refuses) {
          EXPECT_FALSE(problems.empty());
        }
      }
      test::count_case();
    }
  }
  std::printf("refused although the newest factory reads them: %zu\n", stricter);
}

/// A canonical text is its own canonical text, unless the factory's own notes say that it is not.
TEST(TalosSchematics, CanonicalTextsStayThemselves) {
  for (const std::string& path : test::reference_files("talos/schematics", ".json")) {
    const Value cases = text::parse_json(test::read_file(path), path);
    for (const Value& item : cases.items()) {
      const Value& newest = item.find("results")->items().back();
      if (!*newest.find("ok")->as_bool() || newest.find("warning") != nullptr) continue;
      SCOPED_TRACE(item.find("name")->text());
      Diagnostics problems;
      const auto schematic =
          read_schematic(newest.find("canonical")->text(), "canonical.yaml", problems);
      ASSERT_TRUE(schematic) << problems.render();
      EXPECT_EQ(schematic->id(), newest.find("id")->text());
      test::count_case();
    }
  }
}

}  // namespace
}  // namespace rocca::factory
