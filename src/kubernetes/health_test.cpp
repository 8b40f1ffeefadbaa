#include "kubernetes/health.hpp"

#include "kube/waits.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

text::Value node(const std::string& name, const std::string& ready,
                 const std::string& message = "") {
  return text::parse_yaml(
      fmt::format("{{ metadata: {{ name: {} }}, status: {{ conditions: [ {{ type: Ready, status: "
                  "\"{}\", reason: KubeletNotReady, message: \"{}\" }} ] }} }}",
                  name, ready, message),
      "node");
}

TEST(NodesHealthy, AreThoseOfTheSpecAndReadyWhereThereIsANetwork) {
  const text::Value a = node("a", "True"), b = node("b", "False", "no CNI"),
                    c = node("c", "Unknown", "silent");
  const struct {
    std::vector<text::Value> found;
    std::vector<std::string> wanted;
    bool ready;
    const char* waiting_for;
  } cases[] = {
      {{a}, {"a"}, true, ""},
      {{a, b}, {"a"}, true, ""},  // b is not a node of the spec
      {{a, b}, {"a", "b"}, false, ""},
      {{a, b}, {"a", "b"}, true, "node b to be ready (KubeletNotReady: no CNI)"},
      {{a, b, c},
       {"a", "b", "c"},
       true,
       "Nodes b and c to be ready (node b to be ready (KubeletNotReady: no CNI))"},
      {{a}, {"a", "b"}, true, "Node b to register"},
      {{}, {"a", "b", "c"}, false, "Nodes a, b and c to register"},
      {{b}, {"a", "b"}, true, "Node a to register"},
  };
  for (const auto& each : cases) {
    const kube::Verdict verdict = nodes_healthy(each.found, each.wanted, each.ready);
    EXPECT_EQ(verdict.waiting_for, each.waiting_for);
    EXPECT_EQ(verdict.done, std::string(each.waiting_for).empty());
    EXPECT_FALSE(verdict.hopeless);
  }
}

}  // namespace
}  // namespace rocca::resources
