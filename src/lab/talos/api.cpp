#include "base/strings.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/node.hpp"
#include "proto/common.pb.h"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace {

/// Names of methods that the real API has and nothing here gives content to; they answer like the
/// rest where role, mode or version decide.
constexpr const char* other_methods[] = {
    "CPUFreqStats",   "CPUInfo", "DiskStats", "DiskUsage",          "List",      "LoadAvg",
    "LogsContainers", "Memory",  "Mounts",    "NetworkDeviceStats", "Netstat",   "PacketCapture",
    "Processes",      "Restart", "Stats",     "SystemStat",         "Containers"};

bool has_role(const Call& call, std::string_view role) {
  return std::find(call.roles.begin(), call.roles.end(), role) != call.roles.end();
}

bool allowed(const Call& call, std::string_view letters) {
  for (const char letter : letters) {
    const char* role = letter == 'A'   ? "os:admin"
                       : letter == 'O' ? "os:operator"
                       : letter == 'R' ? "os:reader"
                                       : "os:etcd:backup";
    if (has_role(call, role)) return true;
  }
  return false;
}

/// Where the answers of several nodes become one: each message gets the name of its node.
class Gather : public std::enable_shared_from_this<Gather> {
 public:
  Gather(std::shared_ptr<Reply> to, std::size_t parts, bool unary)
      : to_(std::move(to)), open_(parts), unary_(unary) {}

  void add(const std::string& target, std::string message) {
    rocca::proto::common::Metadata metadata;
    metadata.set_hostname(target);
    if (!unary_) {
      put_bytes(message, 1, metadata.SerializeAsString());
      to_->send(std::move(message));
      return;
    }
    // A second occurrence of a message field is merged with the first: that is how the real proxy
    // adds to a message it cannot read.
    for (std::string entry : fields(message, 1).value_or(std::vector<std::string>{})) {
      put_bytes(entry, 1, metadata.SerializeAsString());
      put_bytes(together_, 1, entry);
    }
  }

  void end(const std::string& target, const Status& status) {
    if (status.code != Code::Ok) {
      rocca::proto::common::Metadata metadata;
      metadata.set_hostname(target);
      metadata.set_error(
          fmt::format("rpc error: code = {} desc = {}", to_string(status.code), status.message));
      metadata.mutable_status()->set_code(static_cast<int>(status.code));
      metadata.mutable_status()->set_message(status.message);
      std::string entry;
      put_bytes(entry, 1, metadata.SerializeAsString());
      if (unary_)
        put_bytes(together_, 1, entry);
      else
        to_->send(std::move(entry));
    }
    if (--open_ != 0) return;
    if (unary_) to_->send(std::move(together_));
    to_->finish({});
  }

  void cut() { to_->cut(); }

 private:
  std::shared_ptr<Reply> to_;
  std::size_t open_;
  bool unary_;
  std::string together_;
};

class PartReply final : public Reply {
 public:
  PartReply(std::shared_ptr<Gather> gather, std::string target)
      : gather_(std::move(gather)), target_(std::move(target)) {}
  void send(std::string message) override { gather_->add(target_, std::move(message)); }
  void finish(Status status) override {
    if (std::exchange(over_, true)) return;
    gather_->end(target_, status);
  }
  void cut() override { finish({Code::Unavailable, "error reading from server: EOF"}); }

 private:
  std::shared_ptr<Gather> gather_;
  std::string target_;
  bool over_ = false;
};

bool is_stream(const Call& call) {
  static const std::vector<std::string> names{
      "Copy",      "Dmesg", "Events", "EtcdSnapshot", "Kubeconfig",  "List",
      "DiskUsage", "Logs",  "Read",   "ImageList",    "HealthCheck", "PacketCapture"};
  return std::find(names.begin(), names.end(), call.method) != names.end();
}

}  // namespace

const std::vector<TalosNode::Method>& TalosNode::methods() {
  using N = TalosNode;
  static const std::vector<Method> all{
      {"ApplyConfiguration", "A", &N::apply_configuration},
      {"Bootstrap", "A", &N::bootstrap},
      {"Containers", "AOR", &N::empty_answer},
      {"Copy", "A", &N::copy},
      {"CPUFreqStats", "AOR", &N::empty_answer},
      {"CPUInfo", "AOR", &N::empty_answer},
      {"DiskStats", "AOR", &N::empty_answer},
      {"DiskUsage", "AOR", &N::empty_answer},
      {"Dmesg", "AOR", &N::dmesg},
      {"Events", "AOR", &N::events},
      {"EtcdMemberList", "AORE", &N::etcd_members},
      {"EtcdRemoveMemberByID", "A", &N::etcd_remove},
      {"EtcdLeaveCluster", "A", &N::etcd_leave},
      {"EtcdForfeitLeadership", "A", &N::etcd_forfeit},
      {"EtcdRecover", "A", &N::etcd_recover},
      {"EtcdSnapshot", "AOE", &N::etcd_snapshot},
      {"EtcdAlarmList", "AORE", &N::etcd_alarms},
      {"EtcdAlarmDisarm", "AO", &N::etcd_disarm},
      {"EtcdDefragment", "AO", &N::etcd_defragment},
      {"EtcdStatus", "AORE", &N::etcd_status},
      {"EtcdDowngradeValidate", "A", &N::etcd_downgrade},
      {"EtcdDowngradeEnable", "A", &N::etcd_downgrade},
      {"EtcdDowngradeCancel", "A", &N::etcd_downgrade},
      {"GenerateConfiguration", "A", &N::generate_configuration},
      {"GenerateClientConfiguration", "A", &N::generate_client_configuration},
      {"Hostname", "AOR", &N::hostname_info},
      {"ImageList", "AOR", &N::image_list},
      {"ImagePull", "AO", &N::image_pull},
      {"Kubeconfig", "A", &N::kubeconfig},
      {"List", "AOR", &N::empty_answer},
      {"LoadAvg", "AOR", &N::empty_answer},
      {"Logs", "AOR", &N::logs},
      {"LogsContainers", "AOR", &N::empty_answer},
      {"Memory", "AOR", &N::empty_answer},
      {"MetaWrite", "A", &N::meta_write},
      {"MetaDelete", "A", &N::meta_delete},
      {"Mounts", "AOR", &N::empty_answer},
      {"NetworkDeviceStats", "AOR", &N::empty_answer},
      {"Netstat", "AOR", &N::empty_answer},
      {"PacketCapture", "AO", &N::empty_answer},
      {"Processes", "AOR", &N::empty_answer},
      {"Read", "A", &N::read},
      {"Reboot", "AO", &N::reboot},
      {"Reset", "A", &N::reset},
      {"Restart", "AO", &N::empty_answer},
      {"Rollback", "A", &N::rollback},
      {"ServiceList", "AOR", &N::service_list},
      {"ServiceRestart", "AO", &N::service_restart},
      {"ServiceStart", "AO", &N::service_start},
      {"ServiceStop", "AO", &N::service_stop},
      {"Shutdown", "AO", &N::shutdown},
      {"Stats", "AOR", &N::empty_answer},
      {"SystemStat", "AOR", &N::empty_answer},
      {"Upgrade", "A", &N::upgrade},
      {"Version", "AOR", &N::version_info},
  };
  return all;
}

void TalosNode::incoming(net::Incoming incoming, std::shared_ptr<net::Responder> responder) {
  if (incoming.version == net::HttpVersion::Http2 && refuse_request(incoming, *responder)) return;
  if (incoming.version != net::HttpVersion::Http2)
    return responder->answer(415, "", {{"content-type", "text/plain"}}, "gRPC requires HTTP/2\n");
  std::shared_ptr<Call> call = read_call(incoming, responder);
  const bool maintenance = maintenance_api_;
  if (maintenance) {
    call->roles = {"os:reader"};
  } else {
    call->roles = fleet_.roles(incoming.peer_certificate);
    // Only an impersonator may say for whom it speaks.
    if (has_role(*call, "os:impersonator"))
      if (const auto role = call->metadata.find("talos-role")) call->roles = {std::string(*role)};
  }
  std::erase_if(calls_, [](const std::weak_ptr<Call>& each) { return each.expired(); });
  calls_.push_back(call);
  responder->on_gone([weak = std::weak_ptr<Call>(call)] {
    if (const auto alive = weak.lock()) alive->interrupt.raise("the client left");
  });
  if (const auto header = call->metadata.find("grpc-timeout"))
    if (const auto timeout = parse_timeout(*header)) {
      // Over before anybody could look at it.
      if (*timeout < std::chrono::microseconds{1})
        return call->reply->finish({Code::DeadlineExceeded, "context deadline exceeded"});
      world_.after(*timeout, [weak = std::weak_ptr<Call>(call)] {
        if (const auto alive = weak.lock()) {
          alive->reply->finish({Code::DeadlineExceeded, "context deadline exceeded"});
          alive->interrupt.raise("deadline");
        }
      });
    }
  // In maintenance mode the node asked answers for itself, whatever the headers say.
  if (maintenance)
    dispatch(std::move(call));
  else
    route(std::move(call));
}

/// Can this node reach that target's API? The text is what grpc-go says when not.
std::optional<Status> TalosNode::unreachable(const std::string& target, TalosNode*& found) const {
  found = nullptr;
  if (target == hostname_) {
    found = const_cast<TalosNode*>(this);
    return std::nullopt;
  }
  if (target == "127.0.0.1")
    return Status{Code::Unavailable,
                  fmt::format("connection error: desc = \"transport: authentication handshake "
                              "failed: tls: failed to verify certificate: x509: certificate is "
                              "valid for {}, not 127.0.0.1\"",
                              address_)};
  if (!IpAddress::parse(target)) {
    const auto resolved = world_.network().resolve(target);
    if (target.find(' ') != std::string::npos)
      return Status{Code::Unavailable, "name resolver error: produced zero addresses"};
    if (!resolved)
      return Status{
          Code::Unavailable,
          fmt::format("dns: A record lookup error: lookup {} on {}:53: no such host", target,
                      network_.resolvers.empty() ? "" : network_.resolvers.front())};
    found = fleet_.find(*resolved);
  } else {
    found = fleet_.find(target);
  }
  const auto failed = [&](const char* why) {
    return Status{Code::Unavailable,
                  fmt::format("connection error: desc = \"transport: Error while dialing: dial tcp "
                              "{}:50000: connect: {}\"",
                              target, why)};
  };
  if (found == nullptr || !found->powered_ || !fleet_.connects(*this, *found))
    return failed("no route to host");
  if (!found->listening_) return failed("connection refused");
  if (found->in_maintenance())
    return Status{Code::Unavailable,
                  "connection error: desc = \"transport: authentication handshake failed: tls: "
                  "failed to verify certificate: x509: certificate signed by unknown authority\""};
  return std::nullopt;
}

void TalosNode::route(std::shared_ptr<Call> call) {
  const std::vector<std::string_view> one = call->metadata.all("node");
  const std::vector<std::string_view> many = call->metadata.all("nodes");
  const auto fail = [&](Code code, std::string text) {
    call->reply->finish({code, std::move(text)});
  };
  const auto self = [&](std::string_view target) {
    return target == hostname_ || fleet_.find(target) == this;
  };
  if (!many.empty()) {
    const bool direct =
        call->service == "machine.MachineService" || call->service == "cluster.ClusterService" ||
        call->service == "inspect.InspectService" || call->service == "storage.StorageService" ||
        call->service == "time.TimeService";
    if (!direct) {
      if (release_.minor() >= 13)
        return fail(
            Code::InvalidArgument,
            fmt::format("one-2-many proxying is not supported for method {}", call->path()));
      return fail(Code::InvalidArgument, "one-2-many proxying is not supported for COSI methods");
    }
    if (!is_control_plane()) {
      // A worker forwards nothing; asked for itself it answers as if nobody had been named.
      if (many.size() != 1 || !self(many.front()))
        return fail(Code::PermissionDenied, "no request forwarding");
      return dispatch(std::move(call));
    }
    std::vector<std::string> targets(many.begin(), many.end());
    return fan_out(std::move(call), targets);
  }
  if (one.size() > 1) return fail(Code::InvalidArgument, "node metadata must be single-valued");
  if (one.size() == 1) {
    const std::string target(one.front());
    if (target.empty() || (target.find(':') != std::string::npos && !IpAddress::parse(target)))
      return fail(Code::Internal, fmt::format("invalid target \"{}\"", target));
    if (!self(target)) {
      if (!is_control_plane()) return fail(Code::PermissionDenied, "no request forwarding");
      TalosNode* other = nullptr;
      if (const auto problem = unreachable(target, other))
        return fail(problem->code, problem->message);
      other->calls_.push_back(call);
      return other->dispatch(std::move(call));
    }
  }
  dispatch(std::move(call));
}

void TalosNode::fan_out(std::shared_ptr<Call> call, const std::vector<std::string>& targets) {
  auto gather = std::make_shared<Gather>(call->reply, targets.size(), !is_stream(*call));
  std::vector<std::shared_ptr<Call>> parts;
  for (const std::string& target : targets) {
    auto part = std::make_shared<Call>();
    part->service = call->service;
    part->method = call->method;
    part->requests = call->requests;
    part->malformed = call->malformed;
    part->roles = call->roles;
    part->reply = std::make_shared<PartReply>(gather, target);
    if (target.find(':') != std::string::npos && !IpAddress::parse(target)) {
      part->reply->finish({Code::Internal, fmt::format("invalid target \"{}\"", target)});
      continue;
    }
    TalosNode* other = nullptr;
    if (const auto problem = unreachable(target, other)) {
      part->reply->finish(*problem);
      continue;
    }
    other->calls_.push_back(part);
    other->dispatch(part);
    parts.push_back(part);
  }
  // The whole call ends its parts.
  world_.spawn(contained([](World& world, std::shared_ptr<Call> whole,
                            std::vector<std::shared_ptr<Call>> pieces) -> Routine<void> {
    Signal never;
    try {
      co_await world.wait(never, world.now() + std::chrono::hours{1}, &whole->interrupt);
    } catch (const Interrupted&) {
      for (const auto& piece : pieces) piece->interrupt.raise("the call ended");
    }
  }(world_, call, parts)));
}

void TalosNode::dispatch(std::shared_ptr<Call> call) {
  world_.spawn(contained(guarded(std::move(call))));
}

Routine<void> TalosNode::guarded(std::shared_ptr<Call> call) {
  Status status;
  try {
    if (call->empty && call->method != "EtcdRecover") refuse(Code::Unknown, "EOF");
    if (call->cut_short) refuse(Code::Internal, "unexpected EOF");
    co_await serve(call);
  } catch (const Refusal& refusal) {
    status = refusal.status;
  }
  call->reply->finish(std::move(status));
}

/// Until the client's deadline, or for ever: etcd's client inside Talos waits for its server.
Routine<void> TalosNode::hang(std::shared_ptr<Call> call) {
  Signal never;
  while (true) co_await world_.wait(never, {}, &call->interrupt);
}

bool TalosNode::knows_service(std::string_view name) const {
  const bool modern = release_.minor() >= 13;
  if (name == "machine.MachineService" || name == "storage.StorageService" ||
      name == "cosi.resource.State")
    return true;
  if (name == "machine.LifecycleService" || name == "machine.ImageService" ||
      name == "machine.DebugService")
    return modern;
  const bool full = modern || !in_maintenance();
  return full && (name == "cluster.ClusterService" || name == "time.TimeService" ||
                  name == "inspect.InspectService");
}

void TalosNode::require_metal() const {
  if (in_container()) refuse(Code::FailedPrecondition, "method is not supported in container mode");
}

void TalosNode::require_control_plane(const std::string& what) const {
  if (!is_control_plane())
    refuse(Code::Unimplemented, what + " is only available on control plane nodes");
}

Routine<void> TalosNode::serve(std::shared_ptr<Call> call) {
  const std::string& name = call->method;
  if (!knows_service(call->service))
    refuse(Code::Unimplemented, "unknown service " + call->service);
  const bool old_maintenance = in_maintenance() && release_.minor() < 13;
  const auto unknown = [&] {
    refuse(Code::Unimplemented,
           fmt::format("unknown method {} for service {}", name, call->service));
  };
  const auto need = [&](const char* letters) {
    if (!old_maintenance && !allowed(*call, letters))
      refuse(Code::PermissionDenied, "not authorized");
  };
  if (call->service == "cosi.resource.State") {
    if (name == "Get" || name == "List" || name == "Watch")
      need("AOR");
    else if (name == "Create" || name == "Update" || name == "Destroy")
      need("A");
    else
      unknown();
    const auto type = fields(call->request(), 2);
    const std::string asked = type && !type->empty() ? type->front() : "";
    const bool watches_more = name == "Watch" && asked != machine_status;
    refresh(watches_more ? "" : asked);
    if (watches_more) changed_.wake_all();  // from now on somebody wants to hear of members
    co_await store_.serve(call, release_.minor() < 13);
    co_return;
  }
  if (call->service == "storage.StorageService") {
    if (name == "Disks") {
      need("AOR");
      co_await disks(call);
    } else if (name == "BlockDeviceWipe") {
      need(in_maintenance() ? "AR" : "A");
      co_await wipe(call);
    } else {
      unknown();
    }
    co_return;
  }
  if (call->service == "machine.LifecycleService") {
    need("A");
    if (name == "Install")
      co_await lifecycle_install(call);
    else if (name == "Upgrade")
      co_await lifecycle_upgrade(call);
    else
      unknown();
    co_return;
  }
  if (call->service == "machine.ImageService") {
    if (name == "List") {
      need("AOR");
      co_await image_service_list(call);
    } else if (name == "Pull") {
      need("AO");
      co_await image_service_pull(call);
    } else {
      need("A");
      unknown();
    }
    co_return;
  }
  if (call->service == "machine.DebugService") {
    need("A");
    refuse(Code::Unimplemented, "debug containers are not simulated");
  }
  if (call->service == "inspect.InspectService" || call->service == "time.TimeService" ||
      call->service == "cluster.ClusterService") {
    need("AOR");
    if (name == "HealthCheck" && release_.minor() >= 13)
      require_control_plane("cluster health check");
    if (name == "HealthCheck" && config_)
      co_await health_check(call);
    else
      co_await empty_answer(call);
    co_return;
  }
  if (name == "GenerateConfiguration" && release_.minor() >= 13) unknown();
  if (name.starts_with("EtcdDowngrade") && release_.minor() < 11) unknown();
  const auto method = std::find_if(methods().begin(), methods().end(),
                                   [&](const Method& each) { return name == each.name; });
  if (method == methods().end()) unknown();
  if (old_maintenance) {
    if (name == "ApplyConfiguration") {
      co_await apply_maintenance(call);
      co_return;
    }
    if (name == "GenerateConfiguration") {
      co_await generate_configuration(call);
      co_return;
    }
    if (name == "Version" || name == "Reset" || name == "Upgrade" || name == "MetaWrite" ||
        name == "MetaDelete")
      refuse(Code::Unimplemented, "API is not implemented in maintenance mode");
    if (name == "GenerateClientConfiguration")
      refuse(Code::Unimplemented,
             "client configuration (talosconfig) can't be generated in the maintenance mode");
    refuse(Code::Unimplemented, fmt::format("method {} not implemented", name));
  }
  need(name == "ApplyConfiguration" && in_maintenance() && !config_ ? "AR" : method->roles);
  co_await (this->*method->handler)(call);
}

/// The clocks of node and time server: NTP is not simulated, so they are the same.
void TalosNode::answer_time(Call& call) const {
  std::string now, entry, response;
  put_varint(now, 1,
             static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                            world_.outside().time_since_epoch())
                                            .count()));
  put_bytes(entry, 2,
            network_.time_servers.empty() ? "time.cloudflare.com" : network_.time_servers.front());
  put_bytes(entry, 3, now);
  put_bytes(entry, 4, now);
  put_bytes(response, 1, entry);
  call.reply->send(response);
}

/// Half of the memory is free, as on a machine that does nothing (KiB).
void TalosNode::answer_memory(Call& call) const {
  std::string memory, entry, response;
  constexpr std::uint64_t total = 4 * 1024 * 1024;
  for (unsigned field = 1; field <= 5; ++field)
    put_varint(memory, field, field == 1 ? total : field <= 3 ? total / 2 : total / 16);
  put_bytes(entry, 2, memory);
  put_bytes(response, 1, entry);
  call.reply->send(response);
}

/// What is mounted, as far as clients look: the root image and the partitions.
void TalosNode::answer_mounts(Call& call) const {
  const auto stat = [](const std::string& source, std::uint64_t size, const std::string& target) {
    std::string out;
    put_bytes(out, 1, source);
    put_varint(out, 2, size);
    put_varint(out, 3, size - size / 8);
    put_bytes(out, 4, target);
    return out;
  };
  std::string entry;
  put_bytes(entry, 2, stat("/dev/loop0", std::uint64_t{70} << 20, "/"));
  put_bytes(entry, 2, stat("tmpfs", machine_.memory / 2, "/run"));
  if (disk_.installed && config_)
    for (const Partition& each : partitions())
      if (!each.target.empty()) put_bytes(entry, 2, stat(each.source, each.size, each.target));
  std::string response;
  put_bytes(response, 1, entry);
  call.reply->send(response);
}

Routine<void> TalosNode::empty_answer(std::shared_ptr<Call> call) {
  if (!in_container() && call->service == "time.TimeService") {
    answer_time(*call);
    co_return;
  }
  if (!in_container() && call->method == "Memory") {
    answer_memory(*call);
    co_return;
  }
  if (!in_container() && call->method == "Mounts") {
    answer_mounts(*call);
    co_return;
  }
  const bool simulated = std::none_of(std::begin(other_methods), std::end(other_methods),
                                      [&](const char* each) { return call->method == each; });
  if (simulated || call->method == "PacketCapture" || call->method == "Netstat")
    refuse(Code::Unimplemented, fmt::format("{} is not simulated", call->method));
  if (call->method == "Containers" || call->method == "Stats" || call->method == "Restart") {
    const auto space = fields(call->request(), 1);
    if (!space || space->empty() || space->front().empty()) {
      if (release_.minor() >= 13) refuse(Code::InvalidArgument, "namespace can't be empty");
      refuse(Code::Unknown, "namespace is required: failed precondition");
    }
    const auto id = fields(call->request(), 2);
    if (call->method == "Restart")
      refuse(Code::Unknown,
             fmt::format("container \"{}\" not found", id && !id->empty() ? id->front() : ""));
  }
  if (call->method == "List" || call->method == "DiskUsage") {
    const auto root = fields(call->request(), 1);
    if (root && !root->empty() && root->front() != "/" && !root->front().starts_with("/etc"))
      refuse(Code::Unknown, fmt::format("lstat {}: no such file or directory", root->front()));
    co_return;
  }
  std::string response;
  put_bytes(response, 1, "");
  call->reply->send(response);
}

}  // namespace rocca::lab::talos
