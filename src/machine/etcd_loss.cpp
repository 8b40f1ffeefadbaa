#include "machine/etcd_loss.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "engine/guards.hpp"
#include "machine/kinds.hpp"
#include "machine/quorum.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

struct Tally {
  std::vector<std::string> silent;      // no answer at all
  std::vector<std::string> without;     // answers, and etcd does not run there
  std::vector<std::string> leaderless;  // etcd runs, and finds no leader
  bool leader = false;
};

void ask(World& world, const spec::Node& node, Tally& tally) {
  const std::string where = address_of(world, node.name);
  const talos::Sight sight = where.empty()
                                 ? talos::Sight{}
                                 : talos::look(world.transport, world.access(where), world.stop);
  if (sight.door != talos::Door::Ours) {
    tally.silent.push_back(node.name);
    return;
  }
  talos::Client client = world.talos(where);
  client.set_deadline(5s);  // before etcd runs its calls hang; without a leader this one answers
  try {
    const talos::EtcdStatus status = client.etcd_status();
    tally.leader = tally.leader || status.leader != 0;
    if (status.leader == 0) tally.leaderless.push_back(node.name);
  } catch (const Error& error) {
    // ignored: the node counts as one whose etcd does not answer, which the explanation says.
    if (!is_external(error.fault())) throw;
    tally.without.push_back(node.name);
  }
}

}  // namespace

std::optional<std::string> explain_etcd(World& world) {
  Tally tally;
  const auto planes = world.cluster.spec.control_planes();
  for (const spec::Node* node : planes) ask(world, *node, tally);
  if (tally.leader || tally.leaderless.empty()) return std::nullopt;
  std::vector<std::string> missing = tally.silent;
  missing.insert(missing.end(), tally.without.begin(), tally.without.end());
  std::string text = fmt::format(
      "etcd has lost quorum: it runs on {} and finds no leader; {} of {} control planes are "
      "needed\n",
      enumerate(tally.leaderless), engine::quorum_of(planes.size()), planes.size());
  if (missing.empty())
    text +=
        "all control planes are there and do not find each other: their addresses have changed all "
        "at once, and etcd looks for its members where they were\n";
  else
    text += fmt::format(
        "bring {} back first: with them quorum comes back by itself, and nothing is lost\n",
        enumerate(missing));
  std::vector<std::string> all;
  for (const spec::Node* node : planes)
    if (const std::string where = address_of(world, node->name); !where.empty())
      all.push_back(where);
  const std::string source = address_of(world, tally.leaderless.front());
  text += fmt::format(
      "{}every disk is left as it is; keep a copy of what etcd has first: `talosctl -n {} cp "
      "/var/lib/etcd/member/snap/db .`\n"
      "then `talosctl -n {} reset --graceful=false --reboot --system-labels-to-wipe=EPHEMERAL` "
      "empties etcd on the control planes, and {} (a copy of the file also needs "
      "--recover-skip-hash-check)",
      missing.empty() ? "" : "if they are gone for good: ", source, join(all, ","),
      how_to_restore(all.front()));
  return text;
}

std::string way_out_of_loss(const World& world, const std::vector<ControlPlaneFacts>& planes) {
  const auto at = [&](EtcdData data) {
    for (const ControlPlaneFacts& plane : planes)
      if (plane.data == data) return plane.node;
    return std::string();
  };
  std::string text =
      "nothing is created, because empty control planes could not join; every disk is left as it "
      "is\n";
  if (const std::string node = at(EtcdData::Present); !node.empty()) {
    const std::string where = address_of(world, node);
    text += fmt::format(
        "{0} still has etcd's data: keep a copy first, `talosctl -n {1} cp "
        "/var/lib/etcd/member/snap/db .`; then `talosctl -n {1} reset --graceful=false --reboot "
        "--system-labels-to-wipe=EPHEMERAL` and `talosctl -n {1} bootstrap --recover-from=db "
        "--recover-skip-hash-check`; the next `rocca up` creates the others\n",
        node, where);
  } else if (const std::string waits = at(EtcdData::Waiting); !waits.empty()) {
    text += how_to_restore(address_of(world, waits)) + "\n";
  } else {
    const std::string first = planes.front().node;
    text +=
        fmt::format("with a backup: `rocca up --target {}` creates it without starting etcd; {}\n",
                    machine_address(first), how_to_restore(address_of(world, first)));
  }
  return text + "without its data: `rocca down` and `rocca up` create an empty cluster";
}

std::string how_to_restore(const std::string& address) {
  return fmt::format(
      "a backup comes back with `talosctl -n {} bootstrap --recover-from=FILE`; the next `rocca "
      "up` goes on from there",
      address.empty() ? "ADDRESS" : address);
}

}  // namespace rocca::resources
