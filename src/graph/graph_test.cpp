#include "graph/graph.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <algorithm>

namespace rocca::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

/// image ← vm ← config ← bootstrap; vm ← address
Graph cluster() {
  Graph graph;
  graph.needs("vm", "image");
  graph.needs("config", "vm");
  graph.needs("address", "vm");
  graph.needs("bootstrap", "config");
  graph.add("lone");
  return graph;
}

TEST(Graph, OrdersByNeedThenByName) {
  EXPECT_THAT(cluster().order(),
              ElementsAre("image", "lone", "vm", "address", "config", "bootstrap"));
}

TEST(Graph, TurnedRoundTheLastGoesFirst) {
  const auto order = cluster().reversed().order();
  EXPECT_LT(std::find(order.begin(), order.end(), "bootstrap"),
            std::find(order.begin(), order.end(), "vm"));
  EXPECT_LT(std::find(order.begin(), order.end(), "vm"),
            std::find(order.begin(), order.end(), "image"));
}

TEST(Graph, NamesACycleInFull) {
  Graph graph = cluster();
  graph.needs("image", "config");
  const auto cycle = graph.find_cycle();
  ASSERT_TRUE(cycle);
  EXPECT_EQ(cycle->front(), cycle->back());
  EXPECT_EQ(cycle->size(), 4u);
  try {
    graph.order();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("config → vm → image → config"));
  }
  Graph self;
  self.needs("a", "a");
  EXPECT_THAT(*self.find_cycle(), ElementsAre("a", "a"));
}

TEST(Graph, ATargetPullsInWhatItNeedsAndNothingElse) {
  EXPECT_THAT(cluster().closure({"config"}).nodes(), ElementsAre("config", "image", "vm"));
  EXPECT_THAT(cluster().all_dependents("vm"),
              UnorderedElementsAre("address", "bootstrap", "config"));
  EXPECT_EQ(cluster().closure({"nobody"}).size(), 0u);
}

TEST(Graph, FindsTheLongestWay) {
  const auto path =
      cluster().critical_path([](const std::string& node) { return node == "lone" ? 3.5 : 1.0; });
  EXPECT_DOUBLE_EQ(path.length, 4);
  EXPECT_THAT(path.nodes, ElementsAre("image", "vm", "config", "bootstrap"));
}

TEST(Graph, EveryOrderKeepsEveryArrow) {
  EXPECT_TRUE(rc::check("order", [] {
    Graph graph;
    const auto count = *rc::gen::inRange<std::size_t>(1, 30);
    for (std::size_t i = 0; i < count; ++i) graph.add("n" + std::to_string(i));
    const auto arrows =
        *rc::gen::container<std::vector<std::pair<std::size_t, std::size_t>>>(rc::gen::pair(
            rc::gen::inRange<std::size_t>(0, count), rc::gen::inRange<std::size_t>(0, count)));
    // From higher to lower numbers only: no cycle is possible.
    for (const auto& [a, b] : arrows)
      if (a > b) graph.needs("n" + std::to_string(a), "n" + std::to_string(b));
    RC_ASSERT(!graph.find_cycle());
    const auto order = graph.order();
    RC_ASSERT(order.size() == count);
    std::map<std::string, std::size_t> place;
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    for (const std::string& node : graph.nodes())
      for (const std::string& needed : graph.needed_by(node))
        RC_ASSERT(place[needed] < place[node]);
    RC_ASSERT(graph.reversed().reversed().order() == order);
  }));
}

}  // namespace
}  // namespace rocca::graph
