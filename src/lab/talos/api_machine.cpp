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
  } else if (path == "/proc/modules") {
    std::string text = "virtio_net 94208 0 - Live 0x0000000000000000\n";
    if (const text::Value* modules =
            config_ ? config_->main()->find({"machine", "kernel", "modules"}) : nullptr)
      for (const text::Value& module : modules->items())
        if (const text::Value* name = module.find("name");
            name != nullptr && !fleet_.failing_modules.contains(name->text()))
          text += replace_all(name->text(), "-", "_") + " 16384 0 - Live 0x0000000000000000\n";
    send_data(*call, text);
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

}  // namespace rocca::lab::talos
