#include "spec/spec.hpp"

#include "base/strings.hpp"

#include <algorithm>
#include <array>

namespace rocca::spec {

const char* to_string(Role role) noexcept {
  return role == Role::ControlPlane ? "controlplane" : "worker";
}

const char* to_string(Addressing addressing) noexcept {
  switch (addressing) {
    case Addressing::NoCloud:
      return "nocloud";
    case Addressing::Meta:
      return "meta";
    case Addressing::Dhcp:
      return "dhcp";
  }
  return "";
}

const char* to_string(Effect effect) noexcept {
  switch (effect) {
    case Effect::Live:
      return "live";
    case Effect::Service:
      return "service";
    case Effect::Reboot:
      return "reboot";
    case Effect::PowerCycle:
      return "power-cycle";
    case Effect::Replace:
      return "replace";
    case Effect::DataLoss:
      return "data-loss";
  }
  return "";
}

std::optional<Effect> parse_effect(std::string_view text) {
  constexpr std::array all = {Effect::Live,       Effect::Service, Effect::Reboot,
                              Effect::PowerCycle, Effect::Replace, Effect::DataLoss};
  for (const Effect effect : all)
    if (text == to_string(effect)) return effect;
  return std::nullopt;
}

std::optional<MaxUnavailable> MaxUnavailable::parse(std::string_view text) {
  MaxUnavailable out;
  out.percent = text.ends_with('%');
  if (out.percent) text.remove_suffix(1);
  const auto number = parse_int(text);
  if (!number || *number < 1 || *number > (out.percent ? 100 : 10'000)) return std::nullopt;
  out.amount = *number;
  return out;
}

std::int64_t MaxUnavailable::of(std::int64_t workers) const {
  return std::max<std::int64_t>(1, percent ? workers * amount / 100 : amount);
}

std::optional<std::int64_t> parse_time_of_day(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  const auto hour = parse_int(text.substr(0, 2));
  const auto minute = parse_int(text.substr(3));
  if (!hour || !minute || *hour < 0 || *hour > 23 || *minute < 0 || *minute > 59)
    return std::nullopt;
  return *hour * 60 + *minute;
}

Position Spec::position(const Where& where) const {
  return {where.file < files.size() ? files[where.file] : std::string(), where.line, where.column};
}

const Node* Spec::find_node(std::string_view node_name) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& node) { return node.name == node_name; });
  return found == nodes.end() ? nullptr : &*found;
}

std::string Spec::host_name_of(std::string_view node_name) const {
  return replace_all(replace_all(*host_naming, "{cluster}", *name), "{node}", node_name);
}

std::vector<const Node*> Spec::control_planes() const {
  std::vector<const Node*> found;
  for (const Node& node : nodes)
    if (node.control_plane()) found.push_back(&node);
  return found;
}

std::vector<const Node*> Spec::workers() const {
  std::vector<const Node*> found;
  for (const Node& node : nodes)
    if (!node.control_plane()) found.push_back(&node);
  return found;
}

}  // namespace rocca::spec
