#include "machine/disruption.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "machine/discover.hpp"
#include "machine/kinds.hpp"
#include "machine/kubernetes_api.hpp"
#include "machine/quorum.hpp"
#include "platform/survey.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* well_again = "well again";
constexpr std::string_view kubelet = "kubelet";

// A switch with spanning tree lets nothing through for half a minute, and Talos looks after etcd
// every twenty seconds.
constexpr Duration comes_back_within = 2min;
// One that was silent may be booting.
constexpr Duration longest = 10min;

std::string wait_of(const std::string& node) {
  return node + " to be well again";
}

/// What its etcd lacks; empty: it has a leader, and votes.
std::string etcd_trouble(World& world, const std::string& where, const std::string& host_name) {
  talos::Client client = world.talos(where);
  client.set_deadline(5s);  // without a leader the list hangs
  try {
    for (const talos::EtcdMember& member : client.etcd_members())
      if (member.hostname == host_name)
        return member.learner ? "etcd to make it a voting member" : "";
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    return fmt::format("its etcd to have a leader ({})", error.message());
  }
  return "etcd to take it as a member";
}

bool runs(const talos::Sight& sight, std::string_view id) {
  return std::any_of(sight.services.begin(), sight.services.end(), [&](const auto& service) {
    return service.id == id && service.state == "Running";
  });
}

bool answers(const talos::Sight& sight) {
  return sight.door == talos::Door::Ours || sight.door == talos::Door::Maintenance;
}

std::string host_name_of(const World& world, const std::string& node) {
  const spec::Node* wanted = world.cluster.spec.find_node(node);
  return wanted == nullptr ? node : wanted->host_name;
}

talos::Sight look_at(World& world, const std::string& node, const std::string& where) {
  if (where.empty()) return {};
  return look_by_name(world, where, host_name_of(world, node),
                      talos::look(world.transport, world.access(where), world.stop));
}

/// Services begin anew there while etcd goes on: the others must do the work meanwhile.
void wait_for_others(World& world, const Disturbance& disturbance) {
  const EtcdView etcd = etcd_view(world);
  for (const engine::Member& member : etcd.members)
    if (member.node != disturbance.node && member.voting && !member.healthy)
      throw_not_yet(world, disturbance.node,
                    Error(Fault::Busy, fmt::format("{} is not healthy; {} is not disturbed before "
                                                   "it is",
                                                   member.node, disturbance.node)));
  if (!disturbance.api) return;
  for (const spec::Node* other : world.cluster.spec.control_planes()) {
    const std::string where = address_of(world, other->name);
    if (other->name == disturbance.node || where.empty()) continue;
    // Without a member of etcd a node runs no API server: it joins after this change.
    const bool joined =
        etcd.members.empty() ||
        std::any_of(etcd.members.begin(), etcd.members.end(), [&](const engine::Member& member) {
          return member.node == other->name || member.node == other->host_name;
        });
    if (!joined) continue;
    if (const std::string trouble = kubernetes_trouble(world, where); !trouble.empty())
      throw_not_yet(
          world, disturbance.node,
          Error(Fault::Busy, fmt::format("the API server of {} does not answer ({}); {} is not "
                                         "disturbed before it does",
                                         other->name, trouble, disturbance.node)));
  }
}

/// A worker that an earlier run has cut off would be the first of many: once in a run all are asked
/// whether they are there, before the first one is touched.
void wait_for_workers(World& world, const std::string& node) {
  if (world.survey.workers_answered()) return;
  for (const spec::Node* other : world.cluster.spec.workers()) {
    // One that is about to be made has nobody to miss it.
    if (other->name == node || !world.known(machine_address(other->name))) continue;
    const talos::Sight sight = look_at(world, other->name, address_of(world, other->name));
    if (!answers(sight))
      throw_not_yet(
          world, node,
          Error(Fault::Busy,
                fmt::format("{} does not answer{}; {} is not disturbed before it does", other->name,
                            sight.told.empty() ? "" : " (" + sight.told + ")", node))
              .hint(fmt::format("put {} right first, or take it out of the spec", other->name)));
  }
  world.survey.workers_answer();
}

/// What a worker lacks of what it had. One that was made anew is in maintenance mode: its network
/// is right, and the rest is its configuration's.
std::string trouble_of_worker(const Disturbance& disturbance, const talos::Sight& sight) {
  if (!answers(sight)) return talos::until_secure(sight).waiting_for;
  // One that nobody could ask before boots like any other.
  const bool runs_up = disturbance.ran || (disturbance.restarts && !disturbance.answered);
  if (!runs_up || sight.door == talos::Door::Maintenance) return "";
  if (const talos::Progress running = talos::until_running(sight); !running.done)
    return running.waiting_for;
  return runs(sight, kubelet) ? "" : "its kubelet";
}

/// What it lacks of what it had; empty: nothing.
std::string trouble_of(World& world, const Disturbance& disturbance, const std::string& where) {
  if (disturbance.worker)
    return trouble_of_worker(disturbance, look_at(world, disturbance.node, where));
  if (!disturbance.begun && !disturbance.led) return "";
  const talos::Sight sight = look_at(world, disturbance.node, where);
  if (!disturbance.led) return answers(sight) ? "" : talos::until_secure(sight).waiting_for;
  if (const talos::Progress etcd = talos::until_etcd(sight); !etcd.done) return etcd.waiting_for;
  if (std::string etcd = etcd_trouble(world, where, host_name_of(world, disturbance.node));
      !etcd.empty())
    return etcd;
  if (!disturbance.api) return "";
  const std::string api = kubernetes_trouble(world, where);
  return api.empty() ? "" : fmt::format("its API server ({})", api);
}

/// As its receipt keeps them.
template <class Of>
auto flags_of(Of& disturbance) {
  using Flag = decltype(&disturbance.led);
  return std::array<std::pair<char, Flag>, 7>{{{'e', &disturbance.led},
                                               {'a', &disturbance.api},
                                               {'b', &disturbance.begun},
                                               {'w', &disturbance.worker},
                                               {'o', &disturbance.restarts},
                                               {'r', &disturbance.ran},
                                               {'t', &disturbance.answered}}};
}

void begin_wait(World& world, const Disturbance& disturbance) {
  turn_has_come(world, disturbance.node);
  const std::string wait = wait_of(disturbance.node);
  world.survey.wait_anew(wait);
  world.survey.wait_begins(wait, "being well again", disturbance.settles());
  world.survey.disturbs(disturbance.node, disturbance.token());
}

}  // namespace

std::string Disturbance::token() const {
  std::string flags;
  for (const auto& [letter, flag] : flags_of(*this))
    if (*flag) flags += letter;
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", well_again, node, flags, static_cast<int>(how),
                     what, way_back, task);
}

std::optional<Disturbance> Disturbance::parse(const std::string& token) {
  const std::vector<std::string> lines = split(token, '\n');
  if (lines.size() != 7 || lines[0] != well_again) return std::nullopt;
  Disturbance disturbance;
  disturbance.node = lines[1];
  for (const auto& [letter, flag] : flags_of(disturbance))
    *flag = lines[2].find(letter) != std::string::npos;
  disturbance.how = static_cast<talos::Disturbance>(parse_uint(lines[3]).value_or(0));
  disturbance.what = lines[4];
  disturbance.way_back = lines[5];
  disturbance.task = lines[6];
  return disturbance;
}

Duration Disturbance::settles() const {
  if (!led && !begun && !worker) return {};
  // A static pod goes some seconds after its configuration, and is away for some more.
  return how == talos::Disturbance::Services ? 15s : 5s;
}

void before_disturbing(World& world, Disturbance& disturbance, const std::string& where) {
  refuse_after_loss(world, disturbance.node);
  const talos::Sight sight = look_at(world, disturbance.node, where);
  if (disturbance.worker) {
    disturbance.answered = answers(sight);
    disturbance.ran = talos::until_running(sight).done && runs(sight, kubelet);
    if (disturbance.answered) wait_for_workers(world, disturbance.node);
    begin_wait(world, disturbance);
    return;
  }
  disturbance.led = sight.door == talos::Door::Ours && runs(sight, "etcd") &&
                    etcd_trouble(world, where, host_name_of(world, disturbance.node)).empty();
  disturbance.api = disturbance.how == talos::Disturbance::Services && disturbance.led &&
                    kubernetes_trouble(world, where).empty();
  disturbance.begun = world.known(bootstrap_address(world.cluster.name())).has_value();
  if (disturbance.led) {
    if (disturbance.how == talos::Disturbance::Services)
      wait_for_others(world, disturbance);
    else
      wait_for_quorum(world, disturbance.node);
  }
  begin_wait(world, disturbance);
}

std::optional<Disturbance> find_disturbance(const World& world, const std::string& node) {
  return Disturbance::parse(world.survey.disturbance_of(node));
}

void is_well_again(World& world, const std::string& node) {
  world.survey.wait_over(wait_of(node));
  world.survey.disturbs(node, "");
}

Progress until_well_again(World& world, const Disturbance& disturbance, const std::string& where) {
  // Of an earlier run: what is to be done now may be the way back. The others look before they go.
  if (!world.survey.is_awaited(wait_of(disturbance.node))) return Ready{};
  // Whose answer was lost is asked after at once, when it may not have noticed yet.
  if (const Duration early = world.survey.too_early(wait_of(disturbance.node)); early > 0s)
    return NotYet{wait_of(disturbance.node), early};
  const std::string trouble = trouble_of(world, disturbance, where);
  if (trouble.empty()) {
    is_well_again(world, disturbance.node);
    return Ready{};
  }
  miss(world, disturbance, trouble);
  return NotYet{fmt::format("{} to be well again: {}", disturbance.node, trouble), 2s};
}

void miss(World& world, const Disturbance& disturbance, const std::string& trouble) {
  const Duration since = world.survey.waiting_since(wait_of(disturbance.node));
  const bool soon = disturbance.led || (disturbance.answered && !disturbance.restarts);
  const Duration patience =
      soon ? comes_back_within : std::min<Duration>(world.cluster.spec.timeouts.boot, longest);
  if (since < patience) return;
  // A worker that was silent before says nothing of what was done to it now.
  if (!disturbance.worker || disturbance.answered) world.survey.stays_away(disturbance.node);
  world.survey.disturbs(disturbance.node, "");
  const spec::Spec& spec = world.cluster.spec;
  const bool alone = (disturbance.worker ? spec.workers() : spec.control_planes()).size() == 1;
  const std::string others = fmt::format("; the other {} are left as they were",
                                         disturbance.worker ? "workers" : "control planes");
  throw Error(Fault::Timeout,
              fmt::format("{} is not well {} after {}; it waits for {}", disturbance.node,
                          to_rough_string(since), disturbance.what, trouble))
      .hint(disturbance.way_back + (alone ? "" : others));
}

}  // namespace rocca::resources
