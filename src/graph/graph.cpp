#include "graph/graph.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <deque>

namespace rocca::graph {

namespace {

const std::set<std::string> none;

std::set<std::string> reach(const std::map<std::string, std::set<std::string>>& arrows,
                            const std::string& from) {
  std::set<std::string> seen;
  std::deque<std::string> open{from};
  while (!open.empty()) {
    const std::string node = std::move(open.front());
    open.pop_front();
    const auto found = arrows.find(node);
    if (found == arrows.end()) continue;
    for (const std::string& next : found->second)
      if (seen.insert(next).second) open.push_back(next);
  }
  return seen;
}

}  // namespace

void Graph::add(const std::string& node) {
  nodes_.try_emplace(node);
  dependents_.try_emplace(node);
}

void Graph::needs(const std::string& node, const std::string& needed) {
  add(node);
  add(needed);
  nodes_[node].insert(needed);
  dependents_[needed].insert(node);
}

std::vector<std::string> Graph::nodes() const {
  std::vector<std::string> names;
  for (const auto& [name, arrows] : nodes_) names.push_back(name);
  return names;
}

const std::set<std::string>& Graph::needed_by(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? none : found->second;
}

std::vector<std::string> Graph::dependents(const std::string& node) const {
  const auto found = dependents_.find(node);
  if (found == dependents_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::set<std::string> Graph::all_needed_by(const std::string& node) const {
  std::set<std::string> all = reach(nodes_, node);
  all.erase(node);
  return all;
}

std::set<std::string> Graph::all_dependents(const std::string& node) const {
  std::set<std::string> all = reach(dependents_, node);
  all.erase(node);
  return all;
}

std::optional<std::vector<std::string>> Graph::find_cycle() const {
  for (const auto& [start, arrows] : nodes_) {
    // The shortest way from the node back to itself, by breadth.
    std::map<std::string, std::string> came_from;
    std::deque<std::string> open{start};
    while (!open.empty()) {
      const std::string node = std::move(open.front());
      open.pop_front();
      for (const std::string& next : needed_by(node)) {
        if (next == start) {
          std::vector<std::string> cycle{start};
          for (std::string at = node; at != start; at = came_from.at(at)) cycle.push_back(at);
          cycle.push_back(start);
          std::reverse(cycle.begin(), cycle.end());
          return cycle;
        }
        if (came_from.try_emplace(next, node).second) open.push_back(next);
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> Graph::order() const {
  std::map<std::string, std::size_t> missing;
  std::set<std::string> ready;
  for (const auto& [node, needed] : nodes_) {
    missing[node] = needed.size();
    if (needed.empty()) ready.insert(node);
  }
  std::vector<std::string> order;
  order.reserve(nodes_.size());
  while (!ready.empty()) {
    const std::string node = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(node);
    for (const std::string& next : dependents_.at(node))
      if (--missing[next] == 0) ready.insert(next);
  }
  if (order.size() < nodes_.size())
    throw Error(Fault::Bug, "these wait for each other: " +
                                describe_cycle(find_cycle().value_or(std::vector<std::string>{})));
  return order;
}

Graph Graph::reversed() const {
  Graph turned;
  turned.nodes_ = dependents_;
  turned.dependents_ = nodes_;
  return turned;
}

Graph Graph::closure(const std::vector<std::string>& targets) const {
  std::set<std::string> wanted;
  for (const std::string& target : targets) {
    if (!contains(target)) continue;
    wanted.insert(target);
    wanted.merge(all_needed_by(target));
  }
  Graph part;
  for (const std::string& node : wanted) {
    part.add(node);
    for (const std::string& needed : needed_by(node)) part.needs(node, needed);
  }
  return part;
}

Graph::Path Graph::critical_path(const std::function<double(const std::string&)>& cost) const {
  std::map<std::string, double> ends;
  std::map<std::string, std::string> behind;
  Path path;
  std::string last;
  for (const std::string& node : order()) {
    double start = 0;
    for (const std::string& needed : needed_by(node))
      if (ends[needed] > start) {
        start = ends[needed];
        behind[node] = needed;
      }
    ends[node] = start + cost(node);
    if (last.empty() || ends[node] > path.length) {
      path.length = ends[node];
      last = node;
    }
  }
  for (std::string at = last; !at.empty(); at = behind.contains(at) ? behind[at] : "")
    path.nodes.push_back(at);
  std::reverse(path.nodes.begin(), path.nodes.end());
  return path;
}

std::string describe_cycle(const std::vector<std::string>& cycle) {
  return join(cycle, " → ");
}

}  // namespace rocca::graph
