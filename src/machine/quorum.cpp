#include "machine/quorum.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/units.hpp"
#include "machine/kinds.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

using namespace std::chrono_literals;

namespace {

std::string turn_of(const std::string& node) {
  return "turn of " + node;
}

}  // namespace

std::string address_found(const std::string& node) {
  return "address of " + node;
}

std::string address_of(const World& world, const std::string& node) {
  if (const std::string found = world.survey.door_of(address_found(node)); !found.empty())
    return found;
  if (const std::string seen = fact(world.known(machine_address(node)), "address"); !seen.empty())
    return seen;
  const spec::Node* wanted = world.cluster.spec.find_node(node);
  if (wanted != nullptr && wanted->address) return to_string(**wanted->address);
  return fact(world.known(vm_address(node)), "address");
}

EtcdView etcd_view(World& world) {
  EtcdView view;
  std::vector<std::pair<const spec::Node*, std::string>> healthy;
  for (const spec::Node* node : world.cluster.spec.control_planes()) {
    const std::string address = address_of(world, node->name);
    const talos::Sight sight =
        address.empty() ? talos::Sight{}
                        : talos::look(world.transport, world.access(address), world.stop);
    if (sight.door != talos::Door::Ours)
      view.silent.push_back(node->name);
    else if (talos::until_etcd(sight).done)
      healthy.emplace_back(node, address);
    else
      view.waiting += std::any_of(
          sight.services.begin(), sight.services.end(), [](const talos::Service& service) {
            return service.id == "etcd" &&
                   (service.state == "Preparing" || service.state == "Waiting" ||
                    service.state == "Initialized");
          });
  }
  for (const auto& [node, address] : healthy) {
    talos::Client client = world.talos(address);
    client.set_deadline(5s);  // without a leader the list hangs
    std::vector<talos::EtcdMember> members;
    try {
      members = client.etcd_members();
    } catch (const Error& error) {
      // ignored: the next control plane is asked; if none answers, the guard refuses.
      if (!is_external(error.fault())) throw;
      continue;
    }
    view.asked = node->name;
    for (const talos::EtcdMember& member : members) {
      const auto whose = std::find_if(healthy.begin(), healthy.end(), [&](const auto& each) {
        return each.first->host_name == member.hostname;
      });
      const auto named = world.cluster.spec.control_planes();
      const auto ours = std::find_if(named.begin(), named.end(), [&](const spec::Node* each) {
        return each->host_name == member.hostname;
      });
      view.members.push_back({ours == named.end() ? member.hostname : (*ours)->name,
                              !member.learner, whose != healthy.end()});
    }
    break;
  }
  return view;
}

engine::Verdict quorum_gate(World& world, const std::string& node) {
  const EtcdView view = etcd_view(world);
  if (view.asked.empty()) {
    const auto planes = world.cluster.spec.control_planes();
    if (planes.size() == 1) return {true, ""};
    const auto bootstrap = world.known(bootstrap_address(world.cluster.name()));
    if (!bootstrap) return {true, ""};
    // Nobody remembers an etcd, and too many that answer have none for a quorum to be anywhere.
    if (fact(bootstrap, "first").empty() && fact(bootstrap, "was").empty() &&
        planes.size() - view.waiting < engine::quorum_of(planes.size()))
      return {true, ""};
    return {false, fmt::format("etcd does not answer on any control plane: {} must not go away now",
                               node)};
  }
  return engine::may_disturb(view.members, node, {});
}

void refuse_after_loss(World& world, const std::string& node) {
  const std::string lost = world.survey.who_stays_away();
  if (lost.empty() || lost == node) return;
  throw Error(Fault::Conflict,
              fmt::format("{} is left as it is: {} has not come back from what this run changed "
                          "there",
                          node, lost))
      .hint(fmt::format("put {} right first", lost));
}

void wait_for_quorum(World& world, const std::string& node) {
  refuse_after_loss(world, node);
  const engine::Verdict verdict = quorum_gate(world, node);
  if (!verdict.allowed) throw_not_yet(world, node, Error(Fault::Busy, verdict.reason));
  turn_has_come(world, node);
}

void throw_not_yet(World& world, const std::string& node, const Error& reason) {
  const Duration most = world.cluster.spec.timeouts.boot;
  if (world.survey.waiting_since(turn_of(node)) < most) throw reason;
  Error late(Fault::Timeout,
             fmt::format("still waiting after {}: {}", to_rough_string(most), reason.message()));
  if (!reason.hint().empty()) late.hint(reason.hint());
  throw late;
}

void turn_has_come(World& world, const std::string& node) {
  world.survey.wait_anew(turn_of(node));
}

}  // namespace rocca::resources
