#include "talos/client.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "proto/common.pb.h"
#include "proto/etcd.pb.h"
#include "proto/events.pb.h"
#include "proto/lifecycle.pb.h"
#include "proto/machine.pb.h"

#include <fmt/format.h>

namespace rocca::talos {

namespace machine = proto::machine;

namespace {

constexpr const char* machine_service = "/machine.MachineService/";

template <class Message>
Message decode(std::string_view bytes, std::string_view what) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw Error(Fault::Rejected, fmt::format("{}: the node's answer cannot be read", what));
  return message;
}

/// Calls that leave everything as it is, of those that many are made of. One that acts is never
/// among them: it would go out twice where an answer is lost.
bool only_reads(std::string_view method) {
  if (method.starts_with("/cosi.resource.State/")) return true;  // Get, List and Watch
  if (!method.starts_with(machine_service)) return false;
  method.remove_prefix(std::string_view(machine_service).size());
  return method == "Version" || method == "ServiceList" || method == "EtcdMemberList" ||
         method == "EtcdStatus" || method == "EtcdAlarmList" || method == "Read";
}

/// What Talos repeats of a configuration, without the secrets in it.
std::string without(std::string text, const std::vector<Secret>& hidden) {
  for (const Secret& secret : hidden)
    if (!secret.empty()) text = replace_all(text, secret.reveal(), "***");
  return text;
}

/// A unary answer of the older services: a list with one entry per node asked. With `nodes`
/// metadata a refusal arrives inside status 0, in the entry's own metadata.
template <class Response>
auto only_message(std::string_view bytes, const std::string& doing,
                  const std::vector<Secret>& hidden = {}) {
  const Response response = decode<Response>(bytes, doing);
  using Message = std::decay_t<decltype(response.messages(0))>;
  if (response.messages_size() == 0) return Message{};
  const Message& message = response.messages(0);
  if (message.has_metadata() && !message.metadata().error().empty()) {
    const auto& status = message.metadata().status();
    throw classify(static_cast<net::GrpcCode>(status.code()),
                   without(message.metadata().error(), hidden))
        .error(doing);
  }
  return message;
}

machine::ApplyConfigurationRequest::Mode to_wire(ApplyMode mode) {
  switch (mode) {
    case ApplyMode::Reboot:
      return machine::ApplyConfigurationRequest::REBOOT;
    case ApplyMode::Auto:
      return machine::ApplyConfigurationRequest::AUTO;
    case ApplyMode::NoReboot:
      return machine::ApplyConfigurationRequest::NO_REBOOT;
    case ApplyMode::Staged:
      return machine::ApplyConfigurationRequest::STAGED;
    case ApplyMode::Try:
      return machine::ApplyConfigurationRequest::TRY;
  }
  return machine::ApplyConfigurationRequest::AUTO;
}

ApplyMode from_wire(machine::ApplyConfigurationRequest::Mode mode) {
  switch (mode) {
    case machine::ApplyConfigurationRequest::REBOOT:
      return ApplyMode::Reboot;
    case machine::ApplyConfigurationRequest::NO_REBOOT:
      return ApplyMode::NoReboot;
    case machine::ApplyConfigurationRequest::STAGED:
      return ApplyMode::Staged;
    case machine::ApplyConfigurationRequest::TRY:
      return ApplyMode::Try;
    default:
      return ApplyMode::Auto;
  }
}

/// The line an event is for people. Only what our own messages name: an unknown type keeps its
/// name.
std::string event_line(std::string_view type, const std::string& bytes) {
  if (type == "machine.SequenceEvent") {
    const auto event = decode<machine::SequenceEvent>(bytes, "event");
    return fmt::format(
        "{} {}{}", event.sequence(),
        event.action() == machine::SequenceEvent::START  ? "started"
        : event.action() == machine::SequenceEvent::STOP ? "ended"
                                                         : "",
        event.error().message().empty() ? "" : ": " + redact_config(event.error().message()));
  }
  if (type == "machine.PhaseEvent")
    return "phase " + decode<machine::PhaseEvent>(bytes, "event").phase();
  if (type == "machine.TaskEvent")
    return "task " + decode<machine::TaskEvent>(bytes, "event").task();
  if (type == "machine.ServiceStateEvent") {
    const auto event = decode<machine::ServiceStateEvent>(bytes, "event");
    return fmt::format("service {}: {}", event.service(), event.message());
  }
  if (type == "machine.ConfigValidationErrorEvent")
    return redact_config(decode<machine::ConfigValidationErrorEvent>(bytes, "event").error());
  if (type == "machine.ConfigLoadErrorEvent")
    return redact_config(decode<machine::ConfigLoadErrorEvent>(bytes, "event").error());
  if (type == "machine.AddressEvent") {
    const auto event = decode<machine::AddressEvent>(bytes, "event");
    return fmt::format("{} has {}", event.hostname(),
                       join({event.addresses().begin(), event.addresses().end()}, ", "));
  }
  if (type == "machine.MachineStatusEvent") {
    const auto event = decode<machine::MachineStatusEvent>(bytes, "event");
    return fmt::format("stage {}{}", to_string(static_cast<Stage>(event.stage())),
                       event.status().ready() ? ", ready" : "");
  }
  return std::string(type);
}

}  // namespace

const char* to_string(Stage stage) noexcept {
  switch (stage) {
    case Stage::Unknown:
      return "unknown";
    case Stage::Booting:
      return "booting";
    case Stage::Installing:
      return "installing";
    case Stage::Maintenance:
      return "maintenance";
    case Stage::Running:
      return "running";
    case Stage::Rebooting:
      return "rebooting";
    case Stage::ShuttingDown:
      return "shutting down";
    case Stage::Resetting:
      return "resetting";
    case Stage::Upgrading:
      return "upgrading";
  }
  return "unknown";
}

Access Access::maintenance(std::string address) {
  Access access;
  access.address = std::move(address);
  access.tls = net::Tls::unverified();
  return access;
}

Access Access::secure(std::string address, std::string authority_pem,
                      std::shared_ptr<const net::Identity> identity) {
  Access access;
  access.address = std::move(address);
  access.tls = net::Tls::authority(std::move(authority_pem));
  access.tls.identity = std::move(identity);
  return access;
}

Client::Client(net::Transport& transport, Access access, std::stop_token stop)
    : transport_(transport), access_(std::move(access)), stop_(std::move(stop)) {}

net::GrpcCall Client::call(std::string method, std::string message) const {
  net::GrpcCall call;
  const std::string& host = access_.through.empty() ? access_.address : access_.through;
  const bool v6 = host.find(':') != std::string::npos;
  call.origin = fmt::format("https://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", access_.port);
  call.method = std::move(method);
  call.message = std::move(message);
  call.tls = access_.tls;
  call.deadline = deadline_;
  call.connect_timeout = access_.connect_timeout;
  call.reads = only_reads(call.method);
  if (!access_.through.empty()) call.metadata.add("node", access_.address);
  return call;
}

template <class Body>
auto Client::reach(Body&& body) const {
  try {
    return body();
  } catch (const Error& error) {
    const std::string& host = access_.through.empty() ? access_.address : access_.through;
    const auto failure = classify_connection(error, fmt::format("{}:{}", host, access_.port));
    if (!failure) throw;
    throw failure->error("connecting");
  }
}

std::variant<std::string, Failure> Client::ask(const std::string& method,
                                               const std::string& message) {
  const net::GrpcAnswer answer =
      reach([&] { return net::grpc_unary(transport_, call(method, message), stop_); });
  if (answer.status.ok()) return answer.message;
  return classify(answer.status.code, answer.status.message);
}

std::string Client::require(const std::string& doing, const std::string& method,
                            const std::string& message) {
  return within(fmt::format("talking to {}", access_.address), [&]() -> std::string {
    auto answer = ask(method, message);
    if (const auto* failure = std::get_if<Failure>(&answer)) throw failure->error(doing);
    return std::get<std::string>(std::move(answer));
  });
}

void Client::stream(const std::string& doing, net::GrpcCall call,
                    const std::function<bool(std::string_view)>& message) {
  within(fmt::format("talking to {}", access_.address), [&] {
    const net::GrpcStatus status =
        reach([&] { return net::grpc_stream(transport_, call, message, stop_); });
    if (!status.ok()) throw classify(status.code, status.message).error(doing);
  });
}

void Client::stream_data(const std::string& doing, const std::string& method, std::string message,
                         const std::function<bool(std::string_view)>& write) {
  net::GrpcCall call = this->call(machine_service + method, std::move(message));
  call.deadline.reset();
  stream(doing, std::move(call), [&](std::string_view bytes) {
    const auto data = decode<proto::common::Data>(bytes, doing);
    if (!data.metadata().error().empty())
      throw classify(static_cast<net::GrpcCode>(data.metadata().status().code()),
                     data.metadata().error())
          .error(doing);
    return data.bytes().empty() || write(data.bytes());
  });
}

VersionInfo Client::version() {
  const auto message = only_message<machine::VersionResponse>(
      require("asking for the version", "/machine.MachineService/Version", ""),
      "asking for the version");
  return {message.version().tag(), message.platform().name(), message.version().arch()};
}

namespace {

Service service_of(const machine::ServiceInfo& info) {
  Service service{info.id(),
                  info.state(),
                  !info.health().unknown(),
                  info.health().healthy(),
                  info.health().last_message(),
                  {},
                  {}};
  for (const auto& event : info.events().events()) {
    const Instant when{std::chrono::seconds{event.ts().seconds()} +
                       std::chrono::nanoseconds{event.ts().nanos()}};
    if (service.started == Instant{}) service.started = when;
    if (service.ran == Instant{} && event.state() == "Running") service.ran = when;
    // Who does not run has no health: why is in what happened last.
    if (service.state != "Running" && !event.msg().empty()) service.last_message = event.msg();
  }
  return service;
}

}  // namespace

std::vector<Service> Client::services() {
  const auto list = only_message<machine::ServiceListResponse>(
      require("listing services", "/machine.MachineService/ServiceList", ""), "listing services");
  std::vector<Service> services;
  for (const auto& info : list.services()) services.push_back(service_of(info));
  return services;
}

Applied Client::apply(const Secret& config, const ApplyOptions& options) {
  if (config.reveal().size() > max_config_size)
    throw Error(Fault::Usage,
                fmt::format("the machine configuration has {} bytes; Talos takes {} at most",
                            config.reveal().size(), max_config_size))
        .hint("large manifests belong into cluster.extraManifests, by URL");
  machine::ApplyConfigurationRequest request;
  request.set_data(std::string(config.reveal()));
  request.set_mode(to_wire(options.mode));
  request.set_dry_run(options.dry_run);
  if (options.mode == ApplyMode::Try)
    request.mutable_try_mode_timeout()->set_seconds(
        std::chrono::duration_cast<std::chrono::seconds>(options.try_timeout).count());
  std::string bytes = request.SerializeAsString();
  wipe(*request.mutable_data());
  const std::string doing = "applying the configuration";
  std::string answer;
  try {
    answer = within(fmt::format("talking to {}", access_.address), [&]() -> std::string {
      auto reply = ask("/machine.MachineService/ApplyConfiguration", bytes);
      if (auto* failure = std::get_if<Failure>(&reply)) {
        failure->text = without(std::move(failure->text), options.hidden);
        throw failure->error(doing);
      }
      return std::get<std::string>(std::move(reply));
    });
  } catch (...) {
    wipe(bytes);
    throw;
  }
  wipe(bytes);
  const auto message =
      only_message<machine::ApplyConfigurationResponse>(answer, doing, options.hidden);
  Applied applied;
  applied.mode = from_wire(message.mode());
  for (const std::string& warning : message.warnings())
    applied.warnings.push_back(redact_config(without(warning, options.hidden)));
  applied.details = redact_config(without(message.mode_details(), options.hidden));
  return applied;
}

void Client::meta_write(std::uint8_t key, std::string_view value) {
  machine::MetaWriteRequest request;
  request.set_key(key);
  request.set_value(std::string(value));
  require("writing META", "/machine.MachineService/MetaWrite", request.SerializeAsString());
}

bool Client::meta_delete(std::uint8_t key) {
  machine::MetaDeleteRequest request;
  request.set_key(key);
  const auto answer = ask("/machine.MachineService/MetaDelete", request.SerializeAsString());
  const auto* failure = std::get_if<Failure>(&answer);
  if (failure != nullptr && failure->reason != Reason::NotFound)
    throw failure->error("deleting from META");
  return failure == nullptr;
}

void Client::bootstrap(bool recover, bool skip_hash_check) {
  machine::BootstrapRequest request;
  request.set_recover_etcd(recover);
  request.set_recover_skip_hash_check(skip_hash_check);
  only_message<machine::BootstrapResponse>(
      require("bootstrapping etcd", "/machine.MachineService/Bootstrap",
              request.SerializeAsString()),
      "bootstrapping etcd");
}

std::string Client::reboot(bool power_cycle) {
  machine::RebootRequest request;
  request.set_mode(power_cycle ? machine::RebootRequest::POWERCYCLE
                               : machine::RebootRequest::DEFAULT);
  return only_message<machine::RebootResponse>(
             require("rebooting", "/machine.MachineService/Reboot", request.SerializeAsString()),
             "rebooting")
      .actor_id();
}

std::string Client::shutdown(bool force) {
  machine::ShutdownRequest request;
  request.set_force(force);
  return only_message<machine::ShutdownResponse>(
             require("shutting down", "/machine.MachineService/Shutdown",
                     request.SerializeAsString()),
             "shutting down")
      .actor_id();
}

std::string Client::reset(const ResetOptions& options) {
  machine::ResetRequest request;
  request.set_graceful(options.graceful);
  request.set_reboot(options.reboot);
  request.set_mode(options.mode == WipeMode::All          ? machine::ResetRequest::ALL
                   : options.mode == WipeMode::SystemDisk ? machine::ResetRequest::SYSTEM_DISK
                                                          : machine::ResetRequest::USER_DISKS);
  for (const std::string& label : options.partitions) {
    auto* partition = request.add_system_partitions_to_wipe();
    partition->set_label(label);
    partition->set_wipe(true);
  }
  for (const std::string& disk : options.user_disks) request.add_user_disks_to_wipe(disk);
  return only_message<machine::ResetResponse>(
             require("resetting", "/machine.MachineService/Reset", request.SerializeAsString()),
             "resetting")
      .actor_id();
}

std::string Client::upgrade(const UpgradeOptions& options) {
  machine::UpgradeRequest request;
  request.set_image(options.image);
  request.set_preserve(true);  // the default since 1.8; older ones wiped etcd without it
  request.set_stage(options.stage);
  request.set_force(options.force);
  return only_message<machine::UpgradeResponse>(
             require("upgrading", "/machine.MachineService/Upgrade", request.SerializeAsString()),
             "upgrading")
      .actor_id();
}

void Client::lifecycle_upgrade(const std::string& image,
                               const std::function<void(std::string_view)>& progress) {
  machine::LifecycleServiceUpgradeRequest request;
  request.mutable_containerd()->set_driver(proto::common::CONTAINERD);
  request.mutable_containerd()->set_namespace_(proto::common::NS_SYSTEM);
  request.mutable_source()->set_image_name(image);
  net::GrpcCall call = this->call("/machine.LifecycleService/Upgrade", request.SerializeAsString());
  call.deadline.reset();
  std::optional<int> exit_code;
  stream("upgrading", std::move(call), [&](std::string_view bytes) {
    const auto response = decode<machine::LifecycleServiceUpgradeResponse>(bytes, "upgrading");
    if (response.progress().has_exit_code()) exit_code = response.progress().exit_code();
    if (response.progress().has_message()) progress(response.progress().message());
    return true;
  });
  // The stream ends without an error whether the installer worked or not; its exit code tells.
  if (!exit_code) throw Error(Fault::Lost, "upgrading: the installer's end was not told");
  if (*exit_code != 0)
    throw Error(Fault::Rejected,
                fmt::format("upgrading: the installer ended with code {}", *exit_code));
}

void Client::rollback() {
  require("rolling back", "/machine.MachineService/Rollback", "");
}

void Client::restart_service(const std::string& id) {
  machine::ServiceRestartRequest request;
  request.set_id(id);
  require("restarting " + id, "/machine.MachineService/ServiceRestart",
          request.SerializeAsString());
}

std::vector<EtcdMember> Client::etcd_members(bool local) {
  machine::EtcdMemberListRequest request;
  request.set_query_local(local);
  const auto list = only_message<machine::EtcdMemberListResponse>(
      require("asking etcd for its members", "/machine.MachineService/EtcdMemberList",
              request.SerializeAsString()),
      "asking etcd for its members");
  std::vector<EtcdMember> members;
  for (const auto& member : list.members())
    members.push_back({member.id(),
                       member.hostname(),
                       {member.peer_urls().begin(), member.peer_urls().end()},
                       {member.client_urls().begin(), member.client_urls().end()},
                       member.is_learner()});
  return members;
}

EtcdStatus Client::etcd_status() {
  const auto message = only_message<machine::EtcdStatusResponse>(
      require("asking etcd for its status", "/machine.MachineService/EtcdStatus", ""),
      "asking etcd for its status");
  const auto& wire = message.member_status();
  EtcdStatus status;
  status.member_id = wire.member_id();
  status.leader = wire.leader();
  status.raft_index = wire.raft_index();
  status.raft_term = wire.raft_term();
  status.raft_applied_index = wire.raft_applied_index();
  status.db_size = wire.db_size();
  status.db_size_in_use = wire.db_size_in_use();
  status.learner = wire.is_learner();
  status.protocol_version = wire.protocol_version();
  status.storage_version = wire.storage_version();
  status.errors = {wire.errors().begin(), wire.errors().end()};
  return status;
}

std::vector<EtcdAlarm> Client::etcd_alarms() {
  const auto message = only_message<machine::EtcdAlarmListResponse>(
      require("asking etcd for alarms", "/machine.MachineService/EtcdAlarmList", ""),
      "asking etcd for alarms");
  std::vector<EtcdAlarm> alarms;
  for (const auto& alarm : message.member_alarms())
    alarms.push_back({alarm.member_id(), machine::EtcdMemberAlarm_AlarmType_Name(alarm.alarm())});
  return alarms;
}

void Client::etcd_leave() {
  require("leaving etcd", "/machine.MachineService/EtcdLeaveCluster", "");
}

void Client::etcd_forfeit_leadership() {
  require("giving up etcd's leadership", "/machine.MachineService/EtcdForfeitLeadership", "");
}

void Client::etcd_remove_member(std::uint64_t id) {
  machine::EtcdRemoveMemberByIDRequest request;
  request.set_member_id(id);
  require(fmt::format("removing etcd member {:016x}", id),
          "/machine.MachineService/EtcdRemoveMemberByID", request.SerializeAsString());
}

void Client::etcd_defragment() {
  require("defragmenting etcd", "/machine.MachineService/EtcdDefragment", "");
}

void Client::etcd_snapshot(const std::function<bool(std::string_view)>& write) {
  stream_data("taking an etcd snapshot", "EtcdSnapshot", "", write);
}

void Client::etcd_recover(const std::function<std::optional<std::string>()>& chunk) {
  const auto encode = [](std::string bytes) {
    proto::common::Data data;
    data.set_bytes(std::move(bytes));
    return data.SerializeAsString();
  };
  net::GrpcCall call =
      this->call("/machine.MachineService/EtcdRecover", encode(chunk().value_or("")));
  call.deadline.reset();
  call.more = [&]() -> std::optional<std::string> {
    auto next = chunk();
    return next ? std::optional{encode(std::move(*next))} : std::nullopt;
  };
  stream("uploading the etcd snapshot", std::move(call), [](std::string_view) { return true; });
}

Secret Client::kubeconfig() {
  std::string archive;
  stream_data("fetching the kubeconfig", "Kubeconfig", "", [&](std::string_view bytes) {
    archive += bytes;
    return archive.size() < 4u * 1024 * 1024;
  });
  Secret result = Secret::take(unpack_kubeconfig(archive));
  wipe(archive);
  return result;
}

void Client::logs(const std::string& service, int tail_lines,
                  const std::function<bool(std::string_view)>& write) {
  machine::LogsRequest request;
  request.set_namespace_("system");
  request.set_id(service);
  request.set_driver(proto::common::CONTAINERD);
  request.set_tail_lines(tail_lines);
  stream_data("reading the log of " + service, "Logs", request.SerializeAsString(), write);
}

void Client::dmesg(const std::function<bool(std::string_view)>& write) {
  stream_data("reading the kernel's log", "Dmesg", "", write);
}

void Client::events(int tail, const std::function<bool(const Event&)>& event) {
  machine::EventsRequest request;
  request.set_tail_events(tail);
  net::GrpcCall call = this->call("/machine.MachineService/Events", request.SerializeAsString());
  call.deadline.reset();
  stream("following events", std::move(call), [&](std::string_view bytes) {
    const auto wire = decode<machine::Event>(bytes, "following events");
    // The first message is an empty hello.
    if (wire.data().type_url().empty()) return true;
    const std::string& url = wire.data().type_url();
    const std::string type = url.substr(url.rfind('/') + 1);
    return event({type, wire.id(), wire.actor_id(), event_line(type, wire.data().value())});
  });
}

std::string Client::read_file(const std::string& path) {
  machine::ReadRequest request;
  request.set_path(path);
  std::string content;
  stream_data("reading " + path, "Read", request.SerializeAsString(), [&](std::string_view bytes) {
    content += bytes;
    return content.size() < 16u * 1024 * 1024;
  });
  return content;
}

}  // namespace rocca::talos
