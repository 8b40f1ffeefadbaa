#include "platform/teardown.hpp"

#include "base/strings.hpp"
#include "engine/guards.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

bool has_no_data(const ControlPlaneFacts& plane) {
  return plane.data == EtcdData::Gone || plane.data == EtcdData::Empty;
}

std::size_t count(const std::vector<ControlPlaneFacts>& planes, EtcdData data) {
  return static_cast<std::size_t>(
      std::count_if(planes.begin(), planes.end(),
                    [&](const ControlPlaneFacts& plane) { return plane.data == data; }));
}

bool is_lost(const std::vector<ControlPlaneFacts>& planes, const ClusterPast& past) {
  if (!past.bootstrapped || past.etcd_answers || planes.empty()) return false;
  if (may_have_data(planes) < engine::quorum_of(planes.size())) return true;
  // All that answer wait for a bootstrap, and there is no other one to hope for.
  return count(planes, EtcdData::Waiting) > 0 && count(planes, EtcdData::Present) == 0 &&
         count(planes, EtcdData::Silent) == 0;
}

std::vector<std::string> names(const std::vector<ControlPlaneFacts>& planes, EtcdData data) {
  std::vector<std::string> all;
  for (const ControlPlaneFacts& plane : planes)
    if (plane.data == data) all.push_back(plane.node);
  return all;
}

}  // namespace

const char* course_name(Course course) noexcept {
  switch (course) {
    case Course::Proceed:
      return "proceed";
    case Course::Keep:
      return "keep";
    case Course::Recreate:
      return "recreate";
    case Course::Undecided:
      return "undecided";
    case Course::Lost:
      return "lost";
  }
  return "?";
}

std::size_t may_have_data(const std::vector<ControlPlaneFacts>& planes) {
  return planes.size() -
         static_cast<std::size_t>(std::count_if(planes.begin(), planes.end(), has_no_data));
}

std::vector<std::string> destroyed_by_teardown(const std::vector<ControlPlaneFacts>& planes) {
  std::vector<std::string> all;
  for (const ControlPlaneFacts& plane : planes)
    if (plane.announced && !plane.stays && has_no_data(plane)) all.push_back(plane.node);
  return all;
}

Course decide(const std::vector<ControlPlaneFacts>& planes, const ClusterPast& past) {
  const bool lost = is_lost(planes, past);
  if (!past.teardown) return lost ? Course::Lost : Course::Proceed;
  const bool lives_on = std::any_of(
      planes.begin(), planes.end(),
      [](const ControlPlaneFacts& plane) { return plane.stays && !has_no_data(plane); });
  const bool unseen = std::any_of(planes.begin(), planes.end(), [](const ControlPlaneFacts& plane) {
    return plane.announced && !plane.stays && plane.data == EtcdData::Silent;
  });
  if (!lives_on && !destroyed_by_teardown(planes).empty()) return Course::Recreate;
  if (!lives_on && unseen) return Course::Undecided;
  return lost ? Course::Lost : Course::Keep;
}

std::string explain_loss(const std::vector<ControlPlaneFacts>& planes) {
  const std::size_t needed = engine::quorum_of(planes.size());
  std::vector<std::string> parts;
  const auto say = [&](EtcdData data, const char* one, const char* many) {
    if (const auto nodes = names(planes, data); !nodes.empty())
      parts.push_back(enumerate(nodes) + (nodes.size() == 1 ? one : many));
  };
  say(EtcdData::Gone, " is gone", " are gone");
  say(EtcdData::Empty, " has an empty disk", " have empty disks");
  say(EtcdData::Waiting, " answers without etcd data", " answer without etcd data");
  if (may_have_data(planes) == 0 || parts.empty() || count(planes, EtcdData::Present) == 0)
    return fmt::format(
        "etcd was bootstrapped before, and no control plane has its data any more ({}): a new, "
        "empty cluster would take its place",
        join(parts, ", "));
  return fmt::format("etcd has lost its quorum: {}; {} of {} control planes are needed",
                     join(parts, ", "), needed, planes.size());
}

}  // namespace rocca::resources
