#include "lab/talos/node.hpp"
#include "proto/common.pb.h"
#include "proto/etcd.pb.h"
#include "proto/machine.pb.h"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace pb = rocca::proto::machine;

bool TalosNode::etcd_runs() const {
  return service_running("etcd");
}

/// The etcd cluster this machine belongs to, or the one of a control plane of its own cluster.
std::shared_ptr<EtcdCluster> TalosNode::find_cluster() const {
  if (disk_.etcd && disk_.etcd->find(disk_.etcd_member) != nullptr) return disk_.etcd;
  if (!config_) return nullptr;
  for (const TalosNode* node : fleet_.nodes())
    if (node != this && node->powered_ && node->is_control_plane() && node->etcd_runs() &&
        node->etcd_has_leader() && fleet_.connects(*this, *node) &&
        node->config_->get({"cluster", "id"}) == config_->get({"cluster", "id"}) &&
        // A worker's config knows nothing of etcd; it finds the cluster through its API servers,
        // which those in containers never reached.
        ((!is_control_plane() && !in_container()) ||
         node->config_->get({"cluster", "etcd", "ca", "crt"}) ==
             config_->get({"cluster", "etcd", "ca", "crt"})))
      return node->disk_.etcd;
  return nullptr;
}

void TalosNode::place_etcd() {
  if (!disk_.etcd) return;
  std::string wire;
  for (const Address& each : network_.addresses)
    for (const Link& link : machine_.links)
      if (wire.empty() && link.name == each.link) wire = link.wire;
  disk_.etcd->place(disk_.etcd_member, fleet_.lans == nullptr || routed(), wire);
}

bool TalosNode::etcd_has_leader() const {
  return disk_.etcd && disk_.etcd->has_quorum(disk_.etcd_member);
}

void TalosNode::stop_etcd() {
  if (disk_.etcd) disk_.etcd->set_started(disk_.etcd_member, false);
}

bool TalosNode::is_learner() const {
  const EtcdCluster::Member* self = disk_.etcd ? disk_.etcd->find(disk_.etcd_member) : nullptr;
  return self != nullptr && self->learner;
}

bool TalosNode::reaches_learner(const EtcdCluster& cluster) {
  const bool any =
      std::any_of(cluster.members().begin(), cluster.members().end(),
                  [](const EtcdCluster::Member& each) { return each.learner && each.started; });
  return any && timing_.learner_answers > 0 && member_lists_.below(1000) < timing_.learner_answers;
}

void TalosNode::restart_etcd(Duration away) {
  if (!etcd_runs() || !disk_.etcd) return;
  stop_etcd();
  set_service("etcd", "Waiting",
              "Runner Containerd(etcd) exited without error, going to restart it");
  services_["etcd"].unknown = services_["etcd"].healthy = false;
  services_["etcd"].last_message = "service not running";
  publish();
  world_.spawn(contained(start_etcd_again(away, new_stop())));
}

Routine<void> TalosNode::start_etcd_again(Duration away, Stop stop) {
  co_await world_.sleep(away, stop.get());
  if (!disk_.etcd || disk_.etcd->find(disk_.etcd_member) == nullptr || etcd_runs()) co_return;
  disk_.etcd->set_started(disk_.etcd_member, true);
  set_service("etcd", "Running",
              fmt::format("Started task etcd (PID {}) for container etcd", ++pid_));
  co_await world_.sleep(timing_.etcd_healthy, stop.get());
  if (etcd_runs() && etcd_has_leader()) set_health("etcd", true);
}

Pauses Pauses::of_asking(const World& world, const std::string& hostname, Duration jitter) {
  return {world.fork("etcd/asks/" + hostname), jitter};
}
Pauses Pauses::of_promoting(const World& world, const std::string& hostname, Duration jitter) {
  return {world.fork("etcd/promotes/" + hostname), jitter};
}

Duration Pauses::next(Duration least) {
  if (jitter_ == Duration{}) return least;
  return least + Duration{static_cast<Duration::rep>(
                     entropy_.below(static_cast<std::uint64_t>(jitter_.count())))};
}

Routine<void> TalosNode::run_etcd(Stop stop) {
  const auto begin = [this] {
    set_service("etcd", "Starting", "Starting service");
    set_service("etcd", "Waiting",
                "Waiting for volume \"/var/lib\" to be mounted, volume \"ETCD\" to be mounted, "
                "service \"cri\" to be \"up\", time sync, network, etcd spec");
  };
  begin();
  set_service("etcd", "Waiting", "Waiting for service \"cri\" to be \"up\"");
  while (!service_running("cri")) co_await world_.wait(changed_, {}, stop.get());
  set_service("etcd", "Preparing", "Running pre state");
  Pauses pauses = Pauses::of_asking(world_, hostname_, timing_.etcd_jitter);
  while (!disk_.etcd || disk_.etcd->find(disk_.etcd_member) == nullptr) {
    if (disk_.etcd) {
      // Removed by others while it was down: the data is there, the member is not. etcd ends at
      // once and is started again for ever.
      set_service("etcd", "Waiting",
                  "Runner Containerd(etcd) exited without error, going to restart it");
      co_await world_.sleep(std::chrono::minutes{1}, stop.get());
      continue;
    }
    if (bootstrapped_) {
      // A call restarts the service; the old events are gone with it.
      bootstrapped_ = false;
      const auto self = services_.find("etcd");
      if (self != services_.end()) self->second.events.clear();
      begin();
      set_service("etcd", "Preparing", "Running pre state");
      std::shared_ptr<EtcdCluster> made;
      if (recover_) {
        std::string error;
        if (!disk_.snapshot_there) {
          error =
              "error verifying snapshot: stat /var/lib/etcd.snapshot: no such file or directory";
        } else {
          EtcdCluster::Restored restored = EtcdCluster::restore(disk_.snapshot, skip_hash_);
          error = restored.error;
          disk_.etcd_dirty = disk_.etcd_dirty || restored.dirty;
          made = restored.cluster;
        }
        if (!error.empty()) {
          set_service("etcd", "Failed", "Failed to run pre stage: " + error);
          co_await world_.wait(bootstrap_asked_, {}, stop.get());
          continue;
        }
      } else {
        made = std::make_shared<EtcdCluster>();
      }
      // Until etcd has written its directory every further call is accepted and begins anew; one
      // that comes while the image is pulled ends that, too.
      if (!disk_.etcd_image) {
        if (co_await world_.wait(bootstrap_asked_, world_.now() + timing_.etcd_pull, stop.get()) ==
            Woke::Signalled)
          continue;
        disk_.etcd_image = true;
      }
      if (co_await world_.wait(bootstrap_asked_, world_.now() + timing_.etcd_start, stop.get()) ==
          Woke::Signalled)
        continue;
      disk_.etcd = made;
      disk_.etcd_member = disk_.etcd->add(hostname_, address_, entropy_.word() | 1).value_or(0);
      fleet_.bootstraps.push_back(
          {machine_.uuid, hostname_, config_->get({"cluster", "clusterName"}), recover_});
      break;
    }
    if (!disk_.etcd_image) {
      if (co_await world_.wait(bootstrap_asked_, world_.now() + timing_.etcd_pull, stop.get()) ==
          Woke::Signalled)
        continue;
      disk_.etcd_image = true;
    }
    if (const auto cluster = find_cluster()) {
      // Only one learner at a time, as etcd has it.
      const bool busy = std::any_of(cluster->members().begin(), cluster->members().end(),
                                    [](const EtcdCluster::Member& each) { return each.learner; });
      if (!busy) {
        if (const auto id = cluster->add(hostname_, address_, entropy_.word() | 1)) {
          disk_.etcd = cluster;
          disk_.etcd_member = *id;
          break;
        }
      }
    }
    co_await world_.wait(bootstrap_asked_, world_.now() + pauses.next(timing_.etcd_ask),
                         stop.get());
  }
  set_service("etcd", "Preparing", "Creating service runner");
  if (is_learner()) {
    world_.spawn(contained(promote_etcd(new_stop())));
    co_await world_.sleep(timing_.etcd_start, stop.get());
    if (!disk_.etcd) co_return;  // it left
  }
  disk_.etcd->move(disk_.etcd_member, address_);
  place_etcd();
  disk_.etcd->set_started(disk_.etcd_member, true);
  set_service("etcd", "Running",
              fmt::format("Started task etcd (PID {}) for container etcd", ++pid_));
  // Talos looks after it five seconds later and then every twenty: a learner that votes a moment
  // after such a look counts as ill until the next.
  co_await world_.sleep(timing_.etcd_healthy, stop.get());
  while (is_learner()) {
    set_health("etcd", false, "etcdserver: rpc not supported for learner");
    co_await world_.sleep(timing_.etcd_look, stop.get());
  }
  if (!disk_.etcd) co_return;
  set_health("etcd", true);
  bool healthy = true;
  while (true) {
    co_await world_.wait(changed_, world_.now() + std::chrono::seconds{20}, stop.get());
    if (!disk_.etcd) co_return;  // it left
    if (disk_.etcd->find(disk_.etcd_member) == nullptr && etcd_runs()) {
      set_service("etcd", "Waiting",
                  "Runner Containerd(etcd) exited without error, going to restart it");
      services_["etcd"].unknown = false;
      services_["etcd"].healthy = false;
      services_["etcd"].last_message = "service not running";
      publish();
      continue;
    }
    // Talos tells the others where its member is now, if there is still a leader to tell it to.
    disk_.etcd->update_peer(disk_.etcd_member);
    const bool now = etcd_has_leader();
    if (etcd_runs() && now != healthy) {
      healthy = now;
      set_health("etcd", now, now ? "" : "context deadline exceeded");
    }
  }
}

/// Begins when etcd does, so that the first attempt comes too early, and the second a while later.
Routine<void> TalosNode::promote_etcd(Stop stop) {
  // From 1.14 on it is tried every two seconds.
  Duration units = timing_.etcd_promote;
  if (release_.minor() >= 14) units = std::min<Duration>(units, std::chrono::seconds{2});
  Pauses pauses = Pauses::of_promoting(world_, hostname_, timing_.etcd_jitter);
  const Instant in_sync = world_.now() + timing_.etcd_start + timing_.etcd_join;
  while (is_learner()) {
    if (world_.now() >= in_sync && disk_.etcd->promote(disk_.etcd_member)) co_return;
    co_await world_.sleep(pauses.next(units), stop.get());
  }
}

Routine<void> TalosNode::bootstrap(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::BootstrapRequest>();
  if (!is_control_plane()) {
    if (release_.minor() >= 13)
      refuse(Code::Unimplemented, "bootstrap is only available on control plane nodes");
    refuse(Code::FailedPrecondition, "bootstrap can only be performed on a control plane node");
  }
  if (!service_running("cri")) refuse(Code::FailedPrecondition, "bootstrap is not available yet");
  if (!time_synced_) refuse(Code::FailedPrecondition, "time is not in sync yet");
  if (disk_.etcd || disk_.etcd_dirty)
    refuse(Code::AlreadyExists, "etcd data directory is not empty");
  bootstrapped_ = true;
  recover_ = request.recover_etcd();
  skip_hash_ = request.recover_skip_hash_check();
  bootstrap_asked_.wake_all();
  pb::BootstrapResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::etcd_members(std::shared_ptr<Call> call) {
  require_control_plane("member list");
  const auto request = call->parse<pb::EtcdMemberListRequest>();
  // Asked through the whole cluster it answers on a node whose own member is gone, too.
  const std::shared_ptr<EtcdCluster> cluster =
      request.query_local() ? (etcd_runs() ? disk_.etcd : nullptr) : find_cluster();
  const bool led = cluster == disk_.etcd ? etcd_has_leader() : cluster && cluster->has_quorum();
  if (!led) co_await hang(call);
  // Asked through the cluster, any control plane answers for all, and a learner refuses.
  const bool by_learner = request.query_local() ? is_learner() : reaches_learner(*cluster);
  if (by_learner) refuse(Code::FailedPrecondition, "etcdserver: rpc not supported for learner");
  pb::EtcdMemberListResponse response;
  pb::EtcdMembers& list = *response.add_messages();
  for (const EtcdCluster::Member& member : cluster->members()) {
    list.add_legacy_members(member.name);
    pb::EtcdMember& out = *list.add_members();
    out.set_id(member.id);
    out.set_hostname(member.name);
    out.add_peer_urls(member.peer_url);
    out.add_client_urls(member.client_url);
    out.set_is_learner(member.learner);
  }
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::etcd_status(std::shared_ptr<Call> call) {
  require_control_plane("etcd status");
  if (!etcd_runs() || !disk_.etcd) co_await hang(call);
  const EtcdCluster& cluster = *disk_.etcd;
  pb::EtcdStatusResponse response;
  pb::EtcdMemberStatus& status = *response.add_messages()->mutable_member_status();
  status.set_protocol_version("3.6.8");
  if (release_.minor() >= 11) status.set_storage_version("3.6.0");
  const auto size = static_cast<std::int64_t>(cluster.size());
  status.set_db_size(size);
  status.set_db_size_in_use(size - 4096);
  status.set_leader(etcd_has_leader() ? cluster.leader() : 0);
  status.set_raft_index(cluster.index());
  status.set_raft_term(cluster.term());
  status.set_raft_applied_index(cluster.index());
  if (!etcd_has_leader()) status.add_errors("etcdserver: no leader");
  status.set_member_id(disk_.etcd_member);
  if (const auto* self = cluster.find(disk_.etcd_member)) status.set_is_learner(self->learner);
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::etcd_alarms(std::shared_ptr<Call> call) {
  require_control_plane("etcd alarm list");
  if (!etcd_runs() || !etcd_has_leader()) co_await hang(call);
  pb::EtcdAlarmListResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::etcd_disarm(std::shared_ptr<Call> call) {
  // Talos's own text names the wrong call here.
  require_control_plane("etcd alarm list");
  if (!etcd_runs() || !etcd_has_leader()) co_await hang(call);
  pb::EtcdAlarmDisarmResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::etcd_defragment(std::shared_ptr<Call> call) {
  require_control_plane("etcd defragmentation");
  if (!etcd_runs()) co_await hang(call);
  pb::EtcdDefragmentResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::etcd_forfeit(std::shared_ptr<Call> call) {
  require_control_plane("etcd forfeit leadership");
  if (!etcd_runs() || !etcd_has_leader()) co_await hang(call);
  EtcdCluster& cluster = *disk_.etcd;
  pb::EtcdForfeitLeadershipResponse response;
  pb::EtcdForfeitLeadership& message = *response.add_messages();
  if (cluster.members().size() == 1)
    refuse(Code::Unknown,
           "failed to forfeit leadership: cannot forfeit leadership, only one member");
  if (cluster.leader() == disk_.etcd_member) {
    const auto next = cluster.transfer();
    if (!next)
      refuse(Code::Unknown, "failed to forfeit leadership: etcdserver: bad leader transferee");
    message.set_member(*next);
  }
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::etcd_leave(std::shared_ptr<Call> call) {
  require_control_plane("etcd leave cluster");
  if (!etcd_runs() || !etcd_has_leader()) co_await hang(call);
  // It takes itself off the list while it still runs: with two members nobody could do it later.
  disk_.etcd->remove(disk_.etcd_member);
  disk_.etcd.reset();
  set_service("etcd", "Stopping",
              fmt::format("Sending SIGTERM to task etcd (PID {}, container etcd)", pid_));
  services_["etcd"].healthy = services_["etcd"].unknown = false;
  services_["etcd"].last_message = "service not running";
  set_service("etcd", "Finished", "Service finished successfully");
  pb::EtcdLeaveClusterResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::etcd_remove(std::shared_ptr<Call> call) {
  require_control_plane("etcd remove member");
  const auto request = call->parse<pb::EtcdRemoveMemberByIDRequest>();
  if (!etcd_runs() || !disk_.etcd) co_await hang(call);
  switch (disk_.etcd->remove(request.member_id())) {
    case EtcdCluster::Removal::NotFound:
      refuse(Code::NotFound, fmt::format("failed to remove member {}: etcdserver: member not found",
                                         request.member_id()));
    case EtcdCluster::Removal::NoLeader:
      refuse(Code::Unknown,
             fmt::format("failed to remove member: failed to remove member {}: etcdserver: no "
                         "leader",
                         request.member_id()));
    case EtcdCluster::Removal::Removed:
      break;
  }
  for (TalosNode* node : fleet_.nodes()) node->changed_.wake_all();
  pb::EtcdRemoveMemberByIDResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::etcd_snapshot(std::shared_ptr<Call> call) {
  require_control_plane("etcd snapshot");
  if (!etcd_runs() || !disk_.etcd) co_await hang(call);
  const std::string all = disk_.etcd->snapshot();
  for (std::size_t at = 0; at < all.size(); at += 1024) {
    rocca::proto::common::Data data;
    data.set_bytes(all.substr(at, 1024));
    call->reply->send(data.SerializeAsString());
  }
}

Routine<void> TalosNode::etcd_recover(std::shared_ptr<Call> call) {
  require_control_plane("etcd recover");
  std::string all;
  for (const std::string& request : call->requests) {
    rocca::proto::common::Data data;
    if (!data.ParseFromString(request))
      refuse(Code::Internal, "grpc: error unmarshalling request: unexpected EOF");
    all += data.bytes();
  }
  if (stage_ == Stage::Unknown)
    refuse(Code::FailedPrecondition, "etcd service is not ready for recovery yet");
  disk_.snapshot = std::move(all);
  disk_.snapshot_there = true;
  pb::EtcdRecoverResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::etcd_downgrade(std::shared_ptr<Call> call) {
  require_control_plane("etcd downgrade cancel");
  const auto version = fields(call->request(), 1);
  if (call->method != "EtcdDowngradeCancel" &&
      (!version || version->empty() || version->front().find('.') == std::string::npos)) {
    if (etcd_runs()) refuse(Code::InvalidArgument, "version should be in MAJOR.MINOR format");
  }
  if (!etcd_runs()) co_await hang(call);
  std::string downgrade, entry, response;  // cluster_downgrade { cluster_version }
  put_bytes(downgrade, 1, "3.6");
  put_bytes(entry, 2, downgrade);
  put_bytes(response, 1, entry);
  call->reply->send(response);
}

}  // namespace rocca::lab::talos
