#include "base/strings.hpp"
#include "lab/talos/node.hpp"
#include "proto/common.pb.h"
#include "proto/lifecycle.pb.h"
#include "proto/machine.pb.h"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace pb = rocca::proto::machine;

Routine<void> TalosNode::reboot(std::shared_ptr<Call> call) {
  require_metal();
  const std::string actor = next_xid();
  pb::RebootResponse response;
  response.add_messages()->set_actor_id(actor);
  call->reply->send(response.SerializeAsString());
  start_down(Stage::Rebooting, "reboot", true, {}, actor);
  co_return;
}

Routine<void> TalosNode::shutdown(std::shared_ptr<Call> call) {
  require_metal();
  const std::string actor = next_xid();
  pb::ShutdownResponse response;
  response.add_messages()->set_actor_id(actor);
  call->reply->send(response.SerializeAsString());
  start_down(Stage::ShuttingDown, "shutdown", false, {}, actor);
  co_return;
}

Routine<void> TalosNode::reset(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ResetRequest>();
  if (request.mode() == pb::ResetRequest::SYSTEM_DISK && request.user_disks_to_wipe_size() != 0)
    refuse(Code::Unknown,
           "reset failed: invalid input, wipe mode SYSTEM_DISK doesn't support UserDisksToWipe "
           "parameter");
  if (request.mode() == pb::ResetRequest::USER_DISKS &&
      request.system_partitions_to_wipe_size() != 0)
    refuse(Code::Unknown,
           "reset failed: invalid input, wipe mode USER_DISKS doesn't support "
           "SystemPartitionsToWipe parameter");
  for (const std::string& device : request.user_disks_to_wipe()) {
    const auto found =
        std::find_if(machine_.disks.begin(), machine_.disks.end(),
                     [&](const Disk& disk) { return "/dev/" + disk.name == device; });
    const char* why = found == machine_.disks.end()         ? "wasn't found"
                      : found->readonly                     ? "is readonly"
                      : found->name == disk_.installed_disk ? "is the system disk"
                                                            : nullptr;
    if (why != nullptr)
      refuse(Code::Unknown, fmt::format("reset user disk failed: device {} {}", device, why));
  }
  if (request.graceful() && is_control_plane() && disk_.etcd) {
    if (!etcd_has_leader())
      refuse(Code::Unknown, "failed to leave cluster: context deadline exceeded");
    disk_.etcd->remove(disk_.etcd_member);
  }
  const std::string actor = next_xid();
  pb::ResetResponse response;
  response.add_messages()->set_actor_id(actor);
  call->reply->send(response.SerializeAsString());
  const bool container = in_container();
  const bool whole = request.system_partitions_to_wipe_size() == 0 &&
                     request.mode() != pb::ResetRequest::USER_DISKS;
  std::set<std::string> labels;
  for (const pb::ResetPartitionSpec& part : request.system_partitions_to_wipe())
    if (part.wipe()) labels.insert(part.label());
  start_down(
      Stage::Resetting, "reset", request.reboot(),
      [this, container, whole, labels] {
        if (container) return;
        if (whole || labels.contains("STATE")) disk_.config.reset();
        if (whole || labels.contains("EPHEMERAL")) {
          stop_etcd();
          disk_.etcd.reset();
          disk_.etcd_dirty = disk_.etcd_image = false;
          disk_.snapshot_there = false;
        }
        if (whole) {
          disk_.meta.clear();
          disk_.installed = false;
        }
      },
      actor);
  co_return;
}

Routine<void> TalosNode::upgrade(std::shared_ptr<Call> call) {
  require_metal();
  const auto request = call->parse<pb::UpgradeRequest>();
  const std::string& image = request.image();
  if (image.find('/') == std::string::npos || image.find(' ') != std::string::npos)
    refuse(Code::Unknown, fmt::format("error validating installer image \"{}\": invalid reference "
                                      "format",
                                      image));
  const bool guarded = !request.force() && !(request.preserve() && release_.minor() >= 12);
  if (is_control_plane() && guarded && disk_.etcd) {
    const auto& members = disk_.etcd->members();
    const auto fail = [](std::string text) {
      refuse(Code::Unknown, "error validating etcd for upgrade: " + std::move(text));
    };
    if (members.size() == 2)
      fail("etcd member count(2) is insufficient to maintain quorum if upgrade commences");
    for (const EtcdCluster::Member& member : members)
      if (!member.started)
        fail(
            fmt::format("etcd member {:x} is not started, all members must be running to perform "
                        "an upgrade",
                        member.id));
  }
  const std::string actor = next_xid();
  pb::UpgradeResponse response;
  pb::Upgrade& message = *response.add_messages();
  message.set_ack("Upgrade request received");
  message.set_actor_id(actor);
  call->reply->send(response.SerializeAsString());
  start_down(
      Stage::Upgrading, "upgrade", true,
      [this, image] {
        // The installer looks at versions only now; then the old system comes back.
        if (!upgrade_refusal(image).empty()) return;
        disk_.previous_version = disk_.version;
        disk_.previous_platform = disk_.platform;
        disk_.previous_schematic = disk_.schematic;
        take_image(image);
      },
      actor);
  co_return;
}

Routine<void> TalosNode::rollback(std::shared_ptr<Call> call) {
  require_metal();
  if (disk_.previous_version.empty())
    refuse(Code::Unknown, "cannot rollback to \"\", label does not exist");
  std::swap(disk_.version, disk_.previous_version);
  std::swap(disk_.platform, disk_.previous_platform);
  std::swap(disk_.schematic, disk_.previous_schematic);
  pb::RollbackResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
  start_down(Stage::Rebooting, "reboot", true, {}, "");
  co_return;
}

Routine<void> TalosNode::image_list(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ImageListRequest>();
  if (request.namespace_() == rocca::proto::common::NS_UNKNOWN)
    refuse(Code::InvalidArgument, "invalid namespace NS_UNKNOWN");
  co_return;
}

Routine<void> TalosNode::image_pull(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ImagePullRequest>();
  if (request.namespace_() == rocca::proto::common::NS_UNKNOWN)
    refuse(Code::InvalidArgument, "invalid namespace NS_UNKNOWN");
  if (request.reference().find('%') != std::string::npos || request.reference().empty())
    refuse(Code::Unknown, fmt::format("failed to parse image reference \"{}\": invalid reference "
                                      "format",
                                      request.reference()));
  if (!machine_.kubernetes)
    refuse(Code::NotFound,
           fmt::format("error pulling image: 1 error(s) occurred:\n\tfailed to pull image \"{0}\": "
                       "failed to resolve reference \"{0}\": {0}: not found",
                       request.reference()));
  pb::ImagePullResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::lifecycle_install(std::shared_ptr<Call> call) {
  require_metal();
  const auto request = call->parse<pb::LifecycleServiceInstallRequest>();
  if (disk_.installed) refuse(Code::AlreadyExists, "machine is already installed");
  if (upgrading_)
    refuse(Code::FailedPrecondition, "another installation/upgrade is already in progress");
  const std::string name = replace_all(request.destination().disk(), "/dev/", "");
  const auto found = std::find_if(machine_.disks.begin(), machine_.disks.end(),
                                  [&](const Disk& disk) { return disk.name == name; });
  const auto send = [&](std::optional<int> code, const std::string& text) {
    pb::LifecycleServiceInstallResponse response;
    if (code)
      response.mutable_progress()->set_exit_code(*code);
    else
      response.mutable_progress()->set_message(text);
    call->reply->send(response.SerializeAsString());
  };
  upgrading_ = true;
  send(std::nullopt, "running Talos installer");
  co_await world_.sleep(timing_.install, &call->interrupt);
  upgrading_ = false;
  if (found == machine_.disks.end()) {
    send(std::nullopt,
         fmt::format("failed to open {}: no such file or directory", request.destination().disk()));
    send(1, "");
    co_return;
  }
  disk_.installed = true;
  disk_.installed_disk = name;
  take_image(request.source().image_name());
  publish();
  send(0, "");
}

Routine<void> TalosNode::lifecycle_upgrade(std::shared_ptr<Call> call) {
  require_metal();
  const auto request = call->parse<pb::LifecycleServiceUpgradeRequest>();
  if (!disk_.installed) refuse(Code::FailedPrecondition, "machine is not installed");
  if (upgrading_)
    refuse(Code::FailedPrecondition, "another installation/upgrade is already in progress");
  const auto send = [&](std::optional<int> code, const std::string& text) {
    pb::LifecycleServiceUpgradeResponse response;
    if (code)
      response.mutable_progress()->set_exit_code(*code);
    else
      response.mutable_progress()->set_message(text);
    call->reply->send(response.SerializeAsString());
  };
  const std::string image = request.source().image_name();
  upgrading_ = true;
  send(std::nullopt, fmt::format("running Talos installer {}", image));
  co_await world_.sleep(timing_.upgrade, &call->interrupt);
  upgrading_ = false;
  if (const std::string refusal = upgrade_refusal(image); !refusal.empty()) {
    send(std::nullopt, "pre-flight checks failed: " + refusal);
    send(1, "");
    co_return;
  }
  disk_.previous_version = disk_.version;
  disk_.previous_platform = disk_.platform;
  disk_.previous_schematic = disk_.schematic;
  take_image(image);  // boots at the next reboot, which is the client's to ask for
  send(0, "");
}

Routine<void> TalosNode::image_service_list(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ImageServiceListRequest>();
  if (request.containerd().namespace_() == rocca::proto::common::NS_UNKNOWN)
    refuse(Code::InvalidArgument, "invalid containerd namespace NS_UNKNOWN");
  co_return;
}

Routine<void> TalosNode::image_service_pull(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ImageServicePullRequest>();
  if (request.containerd().namespace_() == rocca::proto::common::NS_UNKNOWN)
    refuse(Code::InvalidArgument, "invalid containerd namespace NS_UNKNOWN");
  if (request.image_ref().empty() || request.image_ref().find_first_of(" %") != std::string::npos)
    refuse(Code::Unknown, fmt::format("failed to parse image reference \"{}\": invalid reference "
                                      "format",
                                      request.image_ref()));
  pb::ImageServicePullResponse response;
  response.set_name(request.image_ref());
  co_await world_.sleep(std::chrono::seconds{5}, &call->interrupt);
  call->reply->send(response.SerializeAsString());
}

}  // namespace rocca::lab::talos
