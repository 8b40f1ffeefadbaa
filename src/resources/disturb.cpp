#include "resources/disturb.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "resources/kinds.hpp"
#include "resources/kubernetes.hpp"
#include "resources/quorum.hpp"
#include "resources/survey.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* well_again = "well again";

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
    if (error.fault() == Fault::Interrupted) throw;
    return fmt::format("its etcd to have a leader ({})", error.message());
  }
  return "etcd to take it as a member";
}

bool runs_etcd(const talos::Sight& sight) {
  return std::any_of(sight.services.begin(), sight.services.end(), [](const auto& service) {
    return service.id == "etcd" && service.state == "Running";
  });
}

talos::Sight look_at(World& world, const std::string& where) {
  if (where.empty()) return {};
  return talos::look(world.transport, world.access(where), world.stop);
}

std::string host_name_of(const World& world, const std::string& node) {
  const spec::Node* wanted = world.cluster.spec.find_node(node);
  return wanted == nullptr ? node : wanted->host_name;
}

/// Services begin anew there while etcd goes on: the others must do the work meanwhile.
void wait_for_others(World& world, const Disturbance& disturbance) {
  for (const engine::Member& member : etcd_view(world).members)
    if (member.node != disturbance.node && member.voting && !member.healthy)
      throw Error(Fault::Busy, fmt::format("{} is not healthy; {} is not disturbed before it is",
                                           member.node, disturbance.node));
  if (!disturbance.api) return;
  for (const spec::Node* other : world.cluster.spec.control_planes()) {
    const std::string where = address_of(world, other->name);
    if (other->name == disturbance.node || where.empty()) continue;
    if (const std::string trouble = kubernetes_trouble(world, where); !trouble.empty())
      throw Error(Fault::Busy,
                  fmt::format("the API server of {} does not answer ({}); {} is not disturbed "
                              "before it does",
                              other->name, trouble, disturbance.node));
  }
}

/// What it lacks of what it had; empty: nothing.
std::string trouble_of(World& world, const Disturbance& disturbance, const std::string& where) {
  if (!disturbance.begun && !disturbance.led) return "";
  const talos::Sight sight = look_at(world, where);
  if (!disturbance.led) {
    const bool answers = sight.door == talos::Door::Ours || sight.door == talos::Door::Maintenance;
    return answers ? "" : talos::until_secure(sight).waiting_for;
  }
  if (const talos::Progress etcd = talos::until_etcd(sight); !etcd.done) return etcd.waiting_for;
  if (std::string etcd = etcd_trouble(world, where, host_name_of(world, disturbance.node));
      !etcd.empty())
    return etcd;
  if (!disturbance.api) return "";
  const std::string api = kubernetes_trouble(world, where);
  return api.empty() ? "" : fmt::format("its API server ({})", api);
}

}  // namespace

std::string Disturbance::token() const {
  return fmt::format("{}\n{}\n{}{}{}\n{}\n{}\n{}\n{}", well_again, node, led ? 'e' : '-',
                     api ? 'a' : '-', begun ? 'b' : '-', static_cast<int>(how), what, way_back,
                     task);
}

std::optional<Disturbance> Disturbance::parse(const std::string& token) {
  const std::vector<std::string> lines = split(token, '\n');
  if (lines.size() != 7 || lines[0] != well_again) return std::nullopt;
  Disturbance disturbance;
  disturbance.node = lines[1];
  disturbance.led = lines[2].find('e') != std::string::npos;
  disturbance.api = lines[2].find('a') != std::string::npos;
  disturbance.begun = lines[2].find('b') != std::string::npos;
  disturbance.how = static_cast<talos::Disturbance>(parse_uint(lines[3]).value_or(0));
  disturbance.what = lines[4];
  disturbance.way_back = lines[5];
  disturbance.task = lines[6];
  return disturbance;
}

Duration Disturbance::settles() const {
  if (!led && !begun) return {};
  // A static pod goes some seconds after its configuration, and is away for some more.
  return how == talos::Disturbance::Services ? 15s : 5s;
}

void before_disturbing(World& world, Disturbance& disturbance, const std::string& where) {
  refuse_after_loss(world, disturbance.node);
  const talos::Sight sight = look_at(world, where);
  disturbance.led = sight.door == talos::Door::Ours && runs_etcd(sight) &&
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
  world.survey.wait_anew(wait_of(disturbance.node));
  world.survey.wait_begins(wait_of(disturbance.node), "being well again", disturbance.settles());
}

Progress until_well_again(World& world, const Disturbance& disturbance, const std::string& where) {
  // Of an earlier run: what is to be done now may be the way back. The others look before they go.
  if (!world.survey.is_awaited(wait_of(disturbance.node))) return Ready{};
  const std::string trouble = trouble_of(world, disturbance, where);
  if (trouble.empty()) {
    world.survey.wait_over(wait_of(disturbance.node));
    return Ready{};
  }
  const Duration since = world.survey.waiting_since(wait_of(disturbance.node));
  const Duration patience = disturbance.led
                                ? comes_back_within
                                : std::min<Duration>(world.cluster.spec.timeouts.boot, longest);
  if (since < patience)
    return NotYet{fmt::format("{} to be well again: {}", disturbance.node, trouble), 2s};
  world.survey.stays_away(disturbance.node);
  const bool alone = world.cluster.spec.control_planes().size() == 1;
  throw Error(Fault::Timeout,
              fmt::format("{} is not well {} after {}; it waits for {}", disturbance.node,
                          to_rough_string(since), disturbance.what, trouble))
      .hint(fmt::format("{}{}", disturbance.way_back,
                        alone ? "" : "; the other control planes are left as they were"));
}

}  // namespace rocca::resources
