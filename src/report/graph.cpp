#include "report/graph.hpp"

#include "base/strings.hpp"
#include "base/visible.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace rocca::report {

namespace {

using engine::Action;

Action action_of(const Drawing& drawing, const std::string& node) {
  const auto found = drawing.actions.find(node);
  return found == drawing.actions.end() ? Action::None : found->second;
}

const char* colour_of(Action action) {
  switch (action) {
    case Action::Create:
      return "#1a7f37";
    case Action::Update:
      return "#9a6700";
    case Action::Replace:
    case Action::Destroy:
      return "#cf222e";
    case Action::None:
      break;
  }
  return "#57606a";
}

/// How many steps lie before it, at the most.
std::map<std::string, std::size_t> depths(const graph::Graph& graph) {
  std::map<std::string, std::size_t> out;
  for (const std::string& node : graph.order()) {
    std::size_t depth = 0;
    for (const std::string& need : graph.needed_by(node)) depth = std::max(depth, out[need] + 1);
    out[node] = depth;
  }
  return out;
}

}  // namespace

std::string draw_text(const Drawing& drawing) {
  const auto depth = depths(drawing.graph);
  // Each thing hangs below the need that comes last: the one it really waits for.
  std::map<std::string, std::vector<std::string>> below;
  std::vector<std::string> roots;
  for (const std::string& node : drawing.graph.order()) {
    const auto& needs = drawing.graph.needed_by(node);
    if (needs.empty()) {
      roots.push_back(node);
      continue;
    }
    const auto last =
        std::max_element(needs.begin(), needs.end(),
                         [&](const auto& a, const auto& b) { return depth.at(a) < depth.at(b); });
    below[*last].push_back(node);
  }
  std::string out;
  const auto draw = [&](const auto& self, const std::string& node, std::size_t level) -> void {
    const std::string sign = engine::sign_of(action_of(drawing, node));
    out += fmt::format("{:>3} {}{}", trim(sign), std::string(level * 2, ' '), visible(node));
    const auto& needs = drawing.graph.needed_by(node);
    if (needs.size() > 1) out += fmt::format("  (after {} things)", needs.size());
    out += "\n";
    for (const std::string& child : below[node]) self(self, child, level + 1);
  };
  for (const std::string& root : roots) draw(draw, root, 0);
  return out;
}

std::string draw_dot(const Drawing& drawing) {
  std::string out =
      "digraph rocca {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n";
  const auto quoted = [](const std::string& text) {
    return "\"" + replace_all(replace_all(visible(text), "\\", "\\\\"), "\"", "\\\"") + "\"";
  };
  for (const std::string& node : drawing.graph.nodes())
    out += fmt::format("  {} [color=\"{}\"];\n", quoted(node), colour_of(action_of(drawing, node)));
  for (const std::string& node : drawing.graph.nodes())
    for (const std::string& need : drawing.graph.needed_by(node))
      out += fmt::format("  {} -> {};\n", quoted(need), quoted(node));
  return out + "}\n";
}

std::string draw_svg(const Drawing& drawing) {
  constexpr std::size_t box_height = 28;
  constexpr std::size_t gap_y = 14;
  constexpr std::size_t gap_x = 70;
  const auto depth = depths(drawing.graph);
  std::vector<std::vector<std::string>> levels;
  for (const std::string& node : drawing.graph.order()) {
    const std::size_t level = depth.at(node);
    if (levels.size() <= level) levels.resize(level + 1);
    levels[level].push_back(node);
  }
  struct Box {
    std::size_t x, y, width;
  };
  std::map<std::string, Box> boxes;
  std::size_t x = 20;
  std::size_t height = 0;
  for (const auto& level : levels) {
    std::size_t widest = 60;
    // In a font of one width a character takes 0.6 of its size; in another a `w` takes nearly all.
    for (const std::string& node : level) widest = std::max(widest, node.size() * 8 + 20);
    std::size_t y = 20;
    for (const std::string& node : level) {
      boxes[node] = {x, y, widest};
      y += box_height + gap_y;
    }
    height = std::max(height, y);
    x += widest + gap_x;
  }
  const std::size_t width = x > gap_x ? x - gap_x + 20 : 40;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"monospace\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#8c959f\"/></marker>"
      "</defs>\n",
      width, height + 10);
  for (const std::string& node : drawing.graph.nodes())
    for (const std::string& need : drawing.graph.needed_by(node)) {
      const Box& from = boxes.at(need);
      const Box& to = boxes.at(node);
      const std::size_t x1 = from.x + from.width;
      const std::size_t y1 = from.y + box_height / 2;
      const std::size_t y2 = to.y + box_height / 2;
      const std::size_t middle = (x1 + to.x) / 2;
      out += fmt::format(
          "<path d=\"M{} {}C{} {} {} {} {} {}\" fill=\"none\" stroke=\"#8c959f\" "
          "marker-end=\"url(#tip)\"/>\n",
          x1, y1, middle, y1, middle, y2, to.x, y2);
    }
  for (const auto& [node, box] : boxes) {
    const char* colour = colour_of(action_of(drawing, node));
    out += fmt::format(
        "<g><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"#f6f8fa\" "
        "stroke=\"{}\" stroke-width=\"1.5\"/><text x=\"{}\" y=\"{}\" "
        "fill=\"{}\">{}</text></g>\n",
        box.x, box.y, box.width, box_height, colour, box.x + 10, box.y + 18, colour,
        visible_markup(node));
  }
  return out + "</svg>\n";
}

}  // namespace rocca::report
