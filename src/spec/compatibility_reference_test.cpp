// Which Kubernetes a Talos runs, as Talos's own checks say it. Upgrade checks of the same files are
// not the spec's.

#include "base/files.hpp"
#include "base/version.hpp"
#include "spec/load.hpp"
#include "spec/validation/versions.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace rocca::spec {
namespace {

std::vector<std::string> codes_for(const std::string& talos, const std::string& kubernetes) {
  MemoryFiles files;
  const Loaded loaded =
      load_text(files,
                fmt::format("apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: {{ name: a "
                            "}}\nspec:\n  talos: {{ version: {} }}\n"
                            "  kubernetes: {{ version: {} }}\n  nodes:\n    a: {{ role: "
                            "controlplane, address: 10.0.0.1, existing: true }}\n",
                            talos, kubernetes),
                "a.yaml", "");
  std::vector<std::string> codes;
  for (const Problem& problem : loaded.diagnostics.problems()) codes.push_back(problem.code);
  return codes;
}

TEST(Compatibility, IsWhatTalosSays) {
  for (const std::string& path : test::reference_files("talos/compatibility", ".json")) {
    const text::Value cases = text::parse_json(test::read_file(path), path);
    for (const text::Value& one : cases.items()) {
      if (one.find("check")->text() != "kubernetes") continue;
      test::count_case();
      const std::string talos = one.find("talos")->text();
      const std::string kubernetes = one.find("kubernetes")->text();
      const auto codes = codes_for(talos, kubernetes);
      SCOPED_TRACE(talos + " with " + kubernetes);
      if (!Version::parse(kubernetes)) {
        EXPECT_THAT(codes,
                    testing::Contains("bad-version"));  // stricter than Talos: it reads 1.32 too
      } else if (find_talos_line(*Version::parse(talos)) == nullptr) {
        EXPECT_THAT(codes, testing::Contains("talos-unsupported"));
      } else if (one.find("error")->is_null()) {
        EXPECT_THAT(codes, testing::IsEmpty());
      } else {
        EXPECT_THAT(codes, testing::ElementsAre("kubernetes-unsupported"));
      }
    }
  }
}

}  // namespace
}  // namespace rocca::spec
