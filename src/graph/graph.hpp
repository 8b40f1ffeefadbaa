#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rocca::graph {

/// Nodes by name and arrows between them: `needs(a, b)` says that a comes after b. Knows nothing of
/// infrastructure. All answers are in one fixed order (by name), so that the same graph always
/// gives the same run.
class Graph {
 public:
  /// Adds a node; adding it again is no error.
  void add(const std::string& node);
  /// Both are added if they are not there. An arrow of a node to itself is a cycle of one.
  void needs(const std::string& node, const std::string& needed);

  bool contains(const std::string& node) const { return nodes_.contains(node); }
  std::size_t size() const { return nodes_.size(); }
  std::vector<std::string> nodes() const;
  const std::set<std::string>& needed_by(const std::string& node) const;  // what it needs directly
  std::vector<std::string> dependents(const std::string& node) const;     // who needs it directly

  /// Everything a node needs, and what that needs…; without the node itself.
  std::set<std::string> all_needed_by(const std::string& node) const;
  std::set<std::string> all_dependents(const std::string& node) const;

  /// A cycle, if there is one, as the path that comes back to its start: {a, b, c, a}. The shortest
  /// that the smallest name on any cycle is part of.
  std::optional<std::vector<std::string>> find_cycle() const;

  /// Every node behind what it needs; among those that may come now, by name. Error(Bug) names a
  /// cycle in full.
  std::vector<std::string> order() const;

  /// The same nodes with every arrow turned round: what was made last goes first.
  Graph reversed() const;
  /// Only these nodes and all they need: what a target pulls in.
  Graph closure(const std::vector<std::string>& targets) const;

  /// The longest way through the graph if each node takes this long: its length and its nodes in
  /// order.
  struct Path {
    double length = 0;
    std::vector<std::string> nodes;
  };
  Path critical_path(const std::function<double(const std::string&)>& cost) const;

 private:
  std::map<std::string, std::set<std::string>> nodes_;       // node → what it needs
  std::map<std::string, std::set<std::string>> dependents_;  // node → who needs it
};

/// `a → b → c → a`.
std::string describe_cycle(const std::vector<std::string>& cycle);

}  // namespace rocca::graph
