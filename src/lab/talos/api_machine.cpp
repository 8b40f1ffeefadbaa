#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "base/uuid.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/node.hpp"
#include "proto/common.pb.h"
#include "proto/lifecycle.pb.h"
#include "proto/machine.pb.h"
#include "proto/storage.pb.h"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::lab::talos {

namespace pb = rocca::proto::machine;
using rocca::proto::common::Data;

namespace {

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

/// gzip with stored blocks: a real stream that every reader unpacks.
std::string gzip(std::string_view bytes) {
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  const auto little = [&](std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  };
  std::string_view rest = bytes;
  do {
    const std::string_view block = rest.substr(0, 65535);
    rest.remove_prefix(block.size());
    out.push_back(rest.empty() ? '\1' : '\0');
    little(static_cast<std::uint32_t>(block.size()), 2);
    little(~static_cast<std::uint32_t>(block.size()), 2);
    out.append(block);
  } while (!rest.empty());
  little(crc32(bytes), 4);
  little(static_cast<std::uint32_t>(bytes.size()), 4);
  return out;
}

/// One tar entry as Talos writes it: no padding behind the body, no end of archive.
std::string open_tar(const std::string& name, const std::string& body) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, name);
  put(100, "0000600");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", body.size()));
  put(136, fmt::format("{:011o}", 0));
  put(148, "        ");
  header[156] = '0';
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header + body;
}

std::string duration_text(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  const auto hours = seconds / 3600, minutes = seconds / 60 % 60;
  if (hours != 0) return fmt::format("{}h{}m{}s", hours, minutes, seconds % 60);
  if (minutes != 0) return fmt::format("{}m{}s", minutes, seconds % 60);
  return fmt::format("{}s", seconds);
}

void send_data(Call& call, std::string bytes) {
  Data data;
  data.set_bytes(std::move(bytes));
  call.reply->send(data.SerializeAsString());
}

}  // namespace

Routine<void> TalosNode::version_info(std::shared_ptr<Call> call) {
  pb::VersionResponse response;
  pb::Version& version = *response.add_messages();
  version.mutable_version()->set_tag("v" + to_string(release_));
  version.mutable_version()->set_sha("undefined");
  version.mutable_version()->set_go_version("go1.26.8");
  version.mutable_version()->set_os("linux");
  version.mutable_version()->set_arch("amd64");
  version.mutable_platform()->set_name(platform());
  version.mutable_platform()->set_mode(mode());
  // The feature is always on from 1.12 and no longer told.
  version.mutable_features();
  if (release_.minor() < 12) version.mutable_features()->set_rbac(true);
  if (release_.minor() >= 12) version.clear_features();
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::hostname_info(std::shared_ptr<Call> call) {
  pb::HostnameResponse response;
  response.add_messages()->set_hostname(hostname_);
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::apply_maintenance(std::shared_ptr<Call> call) {
  if (config_) {
    // Nobody takes a second config any more: the handler waits for ever, the server waits for the
    // handler, and the boot for the server.
    wedged_ = true;
    co_await hang(call);
  }
  const auto request = call->parse<pb::ApplyConfigurationRequest>();
  const auto mode_number = static_cast<int>(request.mode());
  if (mode_number != pb::ApplyConfigurationRequest::REBOOT &&
      mode_number != pb::ApplyConfigurationRequest::AUTO &&
      mode_number != pb::ApplyConfigurationRequest::TRY) {
    constexpr const char* names[] = {"reboot", "auto", "no_reboot", "staged", "try"};
    const std::string name = mode_number >= 0 && mode_number < 5
                                 ? replace_all(names[mode_number], "_", "-")
                                 : std::to_string(mode_number);
    refuse(
        Code::Unimplemented,
        fmt::format("apply configuration --mode='{}' is not supported in maintenance mode", name));
  }
  MachineConfig config;
  try {
    config = MachineConfig::parse(request.data(), release_);
  } catch (const ConfigError& error) {
    refuse(Code::Unknown, "failed to parse config: " + error.text);
  }
  if (const auto error = config.validate(mode(), false, release_))
    refuse(Code::InvalidArgument, "configuration validation failed: " + *error);
  pb::ApplyConfigurationResponse response;
  pb::ApplyConfiguration& message = *response.add_messages();
  // Both of its validations find them; a node that runs keeps them to itself.
  for (int twice = 0; twice < 2; ++twice)
    for (std::string& warning : config.warnings(release_)) message.add_warnings(std::move(warning));
  if (request.dry_run())
    message.set_mode_details(
        "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.");
  call->reply->send(response.SerializeAsString());
  if (request.dry_run()) co_return;
  if (!config.complete()) {
    partial_ = std::move(config);
    apply_network();
    publish();
    co_return;
  }
  disk_.config = config.text();
  config_ = std::move(config);
  config_given_.wake_all();
}

Routine<void> TalosNode::apply_configuration(std::shared_ptr<Call> call) {
  using Request = pb::ApplyConfigurationRequest;
  const auto request = call->parse<Request>();
  MachineConfig config;
  try {
    config = MachineConfig::parse(request.data(), release_);
  } catch (const ConfigError& error) {
    refuse(Code::InvalidArgument, error.text);
  }
  const bool maintenance = in_maintenance();
  // It has one already and is about to leave: whoever has no certificate may no longer say
  // anything.
  if (maintenance && config_) refuse(Code::PermissionDenied, "not authorized");
  if (going_down_ && release_.minor() >= 12)
    refuse(Code::FailedPrecondition,
           "configuration was already applied and node is rebooting, cannot apply more "
           "configuration changes until next reboot");
  if (!config.complete() && !maintenance && release_.minor() >= 11)
    refuse(Code::InvalidArgument,
           "the applied machine configuration doesn't contain v1alpha1 config, did you mean to "
           "patch the machine config instead?");
  if (const auto error = config.validate(mode(), disk_.installed, release_))
    refuse(Code::InvalidArgument, *error);
  int mode_number = static_cast<int>(request.mode());
  if (mode_number < 0 || mode_number > 4) mode_number = Request::REBOOT;
  const bool quick = maintenance || !config_ || config.can_follow(*config_);
  if (mode_number == Request::AUTO) mode_number = quick ? Request::NO_REBOOT : Request::REBOOT;
  if (maintenance && mode_number == Request::REBOOT) mode_number = Request::NO_REBOOT;
  const std::string diff = unified_diff(config_ ? config_->canonical() : "", config.canonical());
  if (!quick && (mode_number == Request::NO_REBOOT || mode_number == Request::TRY))
    refuse(Code::InvalidArgument,
           "this config change can't be applied in immediate mode\ndiff:\n" + diff);
  std::string details = mode_number == Request::STAGED
                            ? "Staged configuration to be applied after the next reboot"
                        : mode_number == Request::REBOOT ? "Applied configuration with a reboot"
                                                         : "Applied configuration without a reboot";
  pb::ApplyConfigurationResponse response;
  pb::ApplyConfiguration& message = *response.add_messages();
  message.set_mode(static_cast<Request::Mode>(mode_number));
  if (request.dry_run()) {
    message.set_mode_details(
        fmt::format("Dry run summary:\n{} (skipped in dry-run).\nConfig "
                    "diff:\n\n{}",
                    details, diff.empty() ? "No changes." : diff));
    call->reply->send(response.SerializeAsString());
    co_return;
  }
  Duration timeout = std::chrono::seconds{request.try_mode_timeout().seconds()} +
                     std::chrono::nanoseconds{request.try_mode_timeout().nanos()};
  if (timeout <= Duration::zero()) timeout = std::chrono::minutes{1};
  if (mode_number == Request::TRY)
    details += fmt::format(
        "\nThe config is applied in 'try' mode and will be automatically reverted back in {}",
        duration_text(timeout));
  message.set_mode_details(details);
  call->reply->send(response.SerializeAsString());
  if (maintenance && !config.complete()) {
    partial_ = std::move(config);
    apply_network();
    publish();
    co_return;
  }
  const std::uint64_t attempt = ++tries_;
  switch (mode_number) {
    case Request::STAGED:
      disk_.staged = config.text();
      publish();
      break;
    case Request::REBOOT:
      disk_.config = config.text();
      start_down(Stage::Rebooting, "reboot", true, {}, "");
      break;
    case Request::TRY: {
      // The way back of a second try is what the first one tried.
      const MachineConfig before = *config_;
      use_config(config);
      world_.after(timeout, [this, attempt, before, boot = boot_id_] {
        if (powered_ && boot == boot_id_ && attempt == tries_ && config_) use_config(before);
      });
      break;
    }
    default:
      disk_.config = config.text();
      if (maintenance) {
        config_ = std::move(config);
        config_given_.wake_all();
      } else {
        use_config(config);
      }
  }
}

Routine<void> TalosNode::generate_configuration(std::shared_ptr<Call> call) {
  // The lab makes no configs for others; what can be asked wrongly is answered as Talos does.
  if (call->request().empty()) refuse(Code::Unknown, "invalid generate request");
  refuse(Code::Unimplemented, "GenerateConfiguration is not simulated");
  co_return;
}

Routine<void> TalosNode::generate_client_configuration(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::GenerateClientConfigurationRequest>();
  require_control_plane("client configuration (talosconfig)");
  const Duration ttl = std::chrono::seconds{request.crt_ttl().seconds()};
  if (ttl <= Duration::zero()) refuse(Code::InvalidArgument, "crt_ttl should be positive");
  const std::string ca = config_->get({"machine", "ca", "crt"});
  Leaf leaf;
  leaf.organizations.assign(request.roles().begin(), request.roles().end());
  std::sort(leaf.organizations.begin(), leaf.organizations.end());
  leaf.client = true;
  leaf.server = false;
  leaf.valid_for = ttl;
  const auto identity =
      sign_leaf({from_base64(ca).value_or(""),
                 from_base64(config_->get({"machine", "ca", "key"})).value_or("")},
                leaf, entropy_, world_.outside());
  if (!identity) refuse(Code::Unknown, "failed to parse PEM block");
  const std::string key = talos_key_pem(identity->key_pem.reveal());
  std::string name = config_->get({"cluster", "clusterName"});
  if (request.roles_size() == 1)
    name = fmt::format("{}@{}", replace_all(request.roles(0), "os:", ""), name);
  pb::GenerateClientConfigurationResponse response;
  pb::GenerateClientConfiguration& message = *response.add_messages();
  message.set_ca(from_base64(ca).value_or(""));
  message.set_crt(identity->certificate_pem);
  message.set_key(key);
  message.set_talosconfig(
      fmt::format("context: {0}\ncontexts:\n    {0}:\n        endpoints: []\n        ca: {1}\n     "
                  "   crt: {2}\n"
                  "        key: {3}\n",
                  name, ca, to_base64(identity->certificate_pem), to_base64(key)));
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::kubeconfig(std::shared_ptr<Call> call) {
  require_control_plane("kubeconfig");
  const std::string ca = config_->get({"cluster", "ca", "crt"});
  Leaf leaf;
  leaf.organizations = {"system:masters"};
  leaf.common_name = "admin";
  leaf.client = true;
  leaf.server = false;
  leaf.elliptic = true;
  leaf.valid_for = std::chrono::hours{8760};
  const auto identity =
      sign_leaf({from_base64(ca).value_or(""),
                 from_base64(config_->get({"cluster", "ca", "key"})).value_or("")},
                leaf, entropy_, world_.outside() - std::chrono::seconds{10});
  if (!identity) refuse(Code::Unknown, "failed to parse PEM block");
  const std::string cluster = config_->get({"cluster", "clusterName"});
  const std::string text = fmt::format(
      "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {1}\n    server: "
      "{2}\n  name: {0}\ncontexts:\n- context:\n    cluster: {0}\n    namespace: default\n    "
      "user: "
      "admin@{0}\n  name: admin@{0}\ncurrent-context: admin@{0}\nkind: Config\nusers:\n- name: "
      "admin@{0}\n  user:\n    client-certificate-data: {3}\n    client-key-data: {4}\n",
      cluster, ca, config_->get({"cluster", "controlPlane", "endpoint"}),
      to_base64(identity->certificate_pem), to_base64(identity->key_pem.reveal()));
  send_data(*call, gzip(open_tar("kubeconfig", text)));
  co_return;
}

Routine<void> TalosNode::logs(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::LogsRequest>();
  if (request.namespace_().empty()) {
    if (release_.minor() >= 13) refuse(Code::InvalidArgument, "namespace can't be empty");
    refuse(Code::Unknown, "namespace is required: failed precondition");
  }
  const bool system = request.namespace_() == "system";
  if (!system) refuse(Code::Unknown, fmt::format("container \"{}\" not found", request.id()));
  const auto found = services_.find(request.id());
  const bool ran = found != services_.end() &&
                   std::any_of(found->second.events.begin(), found->second.events.end(),
                               [](const ServiceEvent& event) { return event.state == "Running"; });
  if (!ran) refuse(Code::Unknown, fmt::format("log \"{}\" was not registered", request.id()));
  std::vector<std::string> lines;
  for (const ServiceEvent& event : found->second.events)
    lines.push_back(fmt::format("{}: {}: {}", request.id(), event.state, event.message));
  const auto wanted = static_cast<std::size_t>(std::max(request.tail_lines(), 0));
  if (request.tail_lines() >= 0 && lines.size() > wanted)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(wanted));
  if (!lines.empty()) send_data(*call, join(lines, "\n") + "\n");
  if (request.follow()) co_await hang(call);
}

Routine<void> TalosNode::dmesg(std::shared_ptr<Call> call) {
  if (in_container() && release_.minor() < 13)
    refuse(Code::Unknown,
           "error opening /dev/kmsg reader: open /dev/kmsg: no such file or directory");
  const auto request = call->parse<pb::DmesgRequest>();
  if (!request.tail()) {
    std::string text;
    for (const std::string& id : order_)
      for (const ServiceEvent& event : services_[id].events)
        text += fmt::format("user: warning: [talos] service[{}]({}): {}\n", id, event.state,
                            event.message);
    for (const std::string& problem : network_.problems)
      text += fmt::format("user: warning: [talos] {}\n", problem);
    send_data(*call, text);
  }
  if (request.follow()) co_await hang(call);
}

Routine<void> TalosNode::read(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ReadRequest>();
  const std::string& path = request.path();
  if (path == "/proc/sys/kernel/random/boot_id") {
    send_data(*call, boot_id_ + "\n");
  } else if (path == "/etc/os-release") {
    const std::string version = "v" + to_string(release_);
    send_data(*call,
              fmt::format("NAME=\"Talos\"\nID=talos\nVERSION_ID={0}\nPRETTY_NAME=\"Talos "
                          "({0})\"\nHOME_URL=\"https://www.talos.dev/\"\nBUG_REPORT_URL=\"https://"
                          "github.com/siderolabs/talos/issues\"\nVENDOR_NAME=\"Sidero "
                          "Labs\"\nVENDOR_URL=\"https://www.siderolabs.com/\"\n",
                          version));
  } else if (path == "/" || path == "/etc" || path == "/var" || path == "/proc") {
    refuse(Code::Unknown, "path must be a regular file");
  } else {
    refuse(Code::Unknown, fmt::format("stat {}: no such file or directory", path));
  }
  co_return;
}

Routine<void> TalosNode::copy(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::CopyRequest>();
  // Not a failed call: the text comes in the metadata of an ordinary message.
  Data data;
  data.mutable_metadata()->set_error(
      fmt::format("lstat {}: no such file or directory", request.root_path()));
  call->reply->send(data.SerializeAsString());
  co_return;
}

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
    if (!disk_.etcd->has_quorum())
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
          disk_.etcd_dirty = false;
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

Routine<void> TalosNode::meta_write(std::shared_ptr<Call> call) {
  require_metal();
  const auto request = call->parse<pb::MetaWriteRequest>();
  if (request.key() > 255) refuse(Code::InvalidArgument, "key must be a uint8");
  std::size_t used = request.value().size();
  for (const auto& [key, value] : disk_.meta)
    if (key != request.key()) used += value.size() + 8;
  if (used > 256 * 1024) refuse(Code::ResourceExhausted, "meta write failed");
  disk_.meta[request.key()] = request.value();
  publish();
  pb::MetaWriteResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::meta_delete(std::shared_ptr<Call> call) {
  require_metal();
  const auto request = call->parse<pb::MetaDeleteRequest>();
  if (request.key() > 255) refuse(Code::InvalidArgument, "key must be a uint8");
  if (disk_.meta.erase(request.key()) == 0) refuse(Code::NotFound, "meta key not found");
  store_.remove("runtime", "MetaKeys.runtime.talos.dev", fmt::format("0x{:02x}", request.key()));
  publish();
  pb::MetaDeleteResponse response;
  response.add_messages();
  call->reply->send(response.SerializeAsString());
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

Routine<void> TalosNode::disks(std::shared_ptr<Call> call) {
  rocca::proto::storage::DisksResponse response;
  rocca::proto::storage::Disks& message = *response.add_messages();
  for (const Disk& disk : machine_.disks) {
    rocca::proto::storage::Disk& out = *message.add_disks();
    out.set_size(disk.size);
    out.set_model(disk.model);
    out.set_device_name("/dev/" + disk.name);
    out.set_serial(disk.serial);
    out.set_wwid(disk.wwid);
    out.set_type(disk.cdrom ? rocca::proto::storage::Disk::CD : rocca::proto::storage::Disk::HDD);
    out.set_bus_path(disk.bus_path);
    out.set_system_disk(disk_.installed && disk.name == disk_.installed_disk);
    out.set_readonly(disk.readonly);
    out.set_subsystem("/sys/class/block");
  }
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::wipe(std::shared_ptr<Call> call) {
  const auto request = call->parse<rocca::proto::storage::BlockDeviceWipeRequest>();
  for (const auto& device : request.devices()) {
    const auto found = std::find_if(machine_.disks.begin(), machine_.disks.end(),
                                    [&](const Disk& disk) { return disk.name == device.device(); });
    if (found == machine_.disks.end())
      refuse(Code::NotFound, fmt::format("blockdevice \"{}\" not found", device.device()));
    if (disk_.installed && found->name == disk_.installed_disk)
      refuse(Code::FailedPrecondition,
             fmt::format("blockdevice \"{}\" is in use by volume \"META\"", device.device()));
  }
  std::string response;
  put_bytes(response, 1, "");
  call->reply->send(response);
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
