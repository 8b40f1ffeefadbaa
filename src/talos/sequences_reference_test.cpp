#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "proto/cosi.pb.h"
#include "proto/spec_cluster.pb.h"
#include "support/reference.hpp"
#include "talos/client.hpp"
#include "talos/waits.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

// What real nodes went through, walked by our waits to the end that each recording has.

namespace rocca::talos {
namespace {

using Events = std::vector<text::Value>;

text::Value parse(const std::string& file) {
  text::Limits limits;
  limits.size = 64u << 20;
  return text::parse_json(test::read_file(file), file, limits);
}

std::string text_at(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  return value == nullptr || value->is_null() || !value->is_scalar() ? "" : value->text();
}

std::int64_t time_of(const text::Value& event) {
  return event.find("t_ms")->as_int().value_or(0);
}

Stage stage_of(const std::string& word) {
  if (word.empty()) return Stage::Unknown;  // protobuf JSON leaves zeros out
  for (int i = 0; i <= static_cast<int>(Stage::Upgrading); ++i)
    if (to_string(static_cast<Stage>(i)) == to_lower(replace_all(word, "_", " ")))
      return static_cast<Stage>(i);
  ADD_FAILURE() << "unknown stage " << word;
  return Stage::Unknown;
}

/// Of a resource (`unmetConditions`) or of an event (`unmet_conditions`).
MachineStatus status_of(const text::Value& value) {
  MachineStatus status;
  status.stage = stage_of(text_at(value, "stage"));
  const text::Value* inner = value.find("status");
  if (inner == nullptr) return status;
  if (const text::Value* ready = inner->find("ready"))
    status.ready = ready->as_bool().value_or(false);
  for (const char* key : {"unmetConditions", "unmet_conditions"})
    if (const text::Value* list = inner->find(key))
      for (const text::Value& unmet : list->items())
        status.unmet.push_back({text_at(unmet, "name"), text_at(unmet, "reason")});
  return status;
}

Sight ours() {
  Sight sight;
  sight.door = Door::Ours;
  return sight;
}

// ---- MachineStatus

/// Every version of it, in the node's own words, until the wait is over or the recording is.
void walk_machine_status(const std::string& id, const Events& events) {
  bool running_seen = false, ready_at_the_end = false;
  for (const text::Value& event : events) {
    if (text_at(event, "type") == "DESTROYED") continue;
    Sight sight = ours();
    sight.status = status_of(text::parse_yaml(text_at(event, "yaml"), "recorded"));
    const bool running = sight.status->stage == Stage::Running;
    EXPECT_EQ(until_running(sight).done, running);
    EXPECT_EQ(until_ready(sight).done, running && sight.status->ready);
    // Running is not etcd: no recorded status alone may end that wait.
    EXPECT_FALSE(until_etcd(sight).done);
    if (!until_ready(sight).done) {
      EXPECT_FALSE(until_ready(sight).waiting_for.empty());
    }
    for (const UnmetCondition& unmet : sight.status->unmet) {
      if (running && sight.status->ready) continue;
      EXPECT_NE(until_ready(sight).waiting_for.find(unmet.reason), std::string::npos)
          << "the wait must say " << unmet.reason;
    }
    running_seen = running_seen || running;
    ready_at_the_end = running && sight.status->ready;
    test::count_case();
  }
  EXPECT_TRUE(running_seen);
  // Only the run with real Kubernetes parts ends ready; the one that reboots says ready while it
  // goes down.
  EXPECT_EQ(ready_at_the_end, id == "k8s-machinestatus");
}

// ---- the event stream

Service& service_named(Sight& sight, const std::string& id) {
  for (Service& service : sight.services)
    if (service.id == id) return service;
  sight.services.emplace_back().id = id;
  return sight.services.back();
}

/// `RUNNING` of an event is `Running` in a list of services.
std::string state_of(const std::string& action) {
  std::string state = to_lower(action);
  if (!state.empty()) state[0] = static_cast<char>(action[0]);
  return state;
}

struct Ends {
  bool running = false;
  bool etcd = false;
  bool bootstrappable_before_etcd = true;
};

/// What a node tells of itself as it goes, folded into what one would see; etcd counts from the
/// moment its own health check says so, and no sooner.
void walk_events(const Events& events, const Ends& ends) {
  Sight sight = ours();
  bool etcd_said_healthy = false, bootstrappable = false, was_bootstrappable = false;
  for (const text::Value& event : events) {
    const std::string type = text_at(event, "type");
    if (type == "MachineStatusEvent") {
      sight.status = status_of(event);
    } else if (type == "ServiceStateEvent") {
      Service& service = service_named(sight, text_at(event, "service"));
      service.state = state_of(text_at(event, "action"));
      service.last_message = text_at(event, "message");
      const text::Value* health = event.find("health");
      const text::Value* unknown = health != nullptr ? health->find("unknown") : nullptr;
      const text::Value* good = health != nullptr ? health->find("healthy") : nullptr;
      service.health_known =
          health != nullptr && !(unknown != nullptr && unknown->as_bool().value_or(false));
      service.healthy = good != nullptr && good->as_bool().value_or(false);
      if (service.id == "etcd")
        etcd_said_healthy = text_at(event, "action") == "RUNNING" && service.healthy;
    }
    EXPECT_EQ(until_etcd(sight).done, etcd_said_healthy) << until_etcd(sight).waiting_for;
    EXPECT_EQ(until_running(sight).done, sight.status && sight.status->stage == Stage::Running);
    bootstrappable = until_bootstrappable(sight).done;
    was_bootstrappable = was_bootstrappable || bootstrappable;
    if (until_etcd(sight).done && ends.bootstrappable_before_etcd) {
      EXPECT_TRUE(was_bootstrappable) << "etcd before CRI";
    }
    for (const Progress& wait : {until_etcd(sight), until_running(sight), until_ready(sight)})
      EXPECT_EQ(wait.done, wait.waiting_for.empty()) << "a wait says what it waits for";
    test::count_case();
  }
  EXPECT_EQ(until_running(sight).done, ends.running) << until_running(sight).waiting_for;
  EXPECT_EQ(until_etcd(sight).done, ends.etcd) << until_etcd(sight).waiting_for;
}

// ---- services as resources

void walk_services(const Events& events) {
  Sight sight = ours();
  bool etcd = false;
  for (const text::Value& event : events) {
    const text::Value spec = text::parse_yaml(text_at(event, "yaml"), "recorded");
    Service& service = service_named(sight, text_at(event, "id"));
    service.state = text_at(spec, "running") == "true" ? "Running" : "Waiting";
    service.health_known = text_at(spec, "unknown") != "true";
    service.healthy = text_at(spec, "healthy") == "true";
    etcd = etcd || (service.id == "etcd" && service.healthy);
    EXPECT_EQ(until_etcd(sight).done, etcd) << until_etcd(sight).waiting_for;
    test::count_case();
  }
  EXPECT_TRUE(until_etcd(sight).done) << "the wait for etcd must end";
  EXPECT_TRUE(until_bootstrappable(sight).done);
}

// ---- resources

/// What the wire carries beside the YAML of a Member; for anything else it means nothing.
std::string as_member(const std::string& yaml) {
  const text::Value value = text::parse_yaml(yaml.empty() ? "{}" : yaml, "recorded");
  if (value.find("nodeId") == nullptr) return "";
  proto::spec::cluster::MemberSpec member;
  member.set_node_id(text_at(value, "nodeId"));
  member.set_hostname(text_at(value, "hostname"));
  member.set_operating_system(text_at(value, "operatingSystem"));
  const bool plane = text_at(value, "machineType") == "controlplane";
  member.set_machine_type(plane ? proto::spec::enums::TYPE_CONTROL_PLANE
                                : proto::spec::enums::TYPE_WORKER);
  for (const text::Value& address : value.find("addresses")->items()) {
    const auto ip = IpAddress::parse(address.text());
    std::string bytes(4, '\0');
    const std::vector<std::string> parts = split(to_string(*ip), '.');
    for (std::size_t i = 0; i < 4; ++i)
      bytes[i] = static_cast<char>(parse_uint(parts[i]).value_or(0));
    member.add_addresses()->set_ip(bytes);
  }
  return member.SerializeAsString();
}

/// Answers a List with what was there at one moment.
class Listing final : public net::Transport {
 public:
  explicit Listing(std::map<std::string, text::Value> there) : there_(std::move(there)) {}

  net::Response exchange(const net::Request&, net::BodySink& sink, std::stop_token) override {
    net::Response response;
    response.status = 200;
    response.headers.add("content-type", "application/grpc+proto");
    sink.begin(response);
    for (const auto& [id, event] : there_) {
      proto::cosi::ListResponse message;
      auto* metadata = message.mutable_resource()->mutable_metadata();
      metadata->set_id(id);
      metadata->set_version(text_at(event, "version"));
      metadata->set_phase("running");
      auto* spec = message.mutable_resource()->mutable_spec();
      spec->set_yaml_spec(text_at(event, "yaml"));
      spec->set_proto_spec(as_member(text_at(event, "yaml")));
      if (!sink.write(net::grpc_frame(message.SerializeAsString()))) break;
    }
    response.trailers.add("grpc-status", "0");
    return response;
  }

 private:
  std::map<std::string, text::Value> there_;
};

/// Gives `visit` our client in front of the resources as they stand after each event.
void walk_resources(const Events& events,
                    const std::function<void(Client&, std::size_t there)>& visit) {
  std::map<std::string, text::Value> there;
  for (const text::Value& event : events) {
    if (text_at(event, "type") == "DESTROYED")
      there.erase(text_at(event, "id"));
    else
      there[text_at(event, "id")] = event;
    Listing node{there};
    Client client{node, Access::maintenance("10.5.0.8")};
    visit(client, there.size());
    test::count_case();
  }
}

void walk_members(const Events& events) {
  std::vector<Member> last;
  walk_resources(events, [&](Client& client, std::size_t there) {
    last = client.members();
    ASSERT_EQ(last.size(), there);
  });
  for (const Member& member : last) {
    EXPECT_FALSE(member.hostname.empty());
    EXPECT_FALSE(member.addresses.empty()) << member.hostname;
    EXPECT_TRUE(member.control_plane) << member.hostname;
  }
}

void walk_listed(const Events& events, const std::string& type) {
  walk_resources(events, [&](Client& client, std::size_t there) {
    const auto seen = client.list_resources("x", type);
    EXPECT_EQ(seen.size(), there);
    for (const Resource& resource : seen) {
      EXPECT_FALSE(resource.id.empty());
      EXPECT_EQ(resource.phase, "running");
    }
  });
}

// ---- calls

/// What came back of each call, as our waits see it.
Sight sight_of(const text::Value& event) {
  Sight sight;
  const std::string code = text_at(event, "code");
  if (code == "OK") return ours();
  const auto number = code == "Unavailable"        ? net::GrpcCode::Unavailable
                      : code == "DeadlineExceeded" ? net::GrpcCode::DeadlineExceeded
                                                   : net::GrpcCode::Unknown;
  const Failure failure = classify(number, text_at(event, "message"));
  EXPECT_TRUE(failure.reason == Reason::NotUp || failure.reason == Reason::TimedOut)
      << code << ": " << text_at(event, "message");
  sight.door = Door::Closed;
  sight.told = failure.text;
  return sight;
}

/// A second apply hangs and blocks the node: nothing after it is an answer, and the wait must say
/// so and go on rather than end or throw.
void walk_double_apply(const Events& events) {
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(text_at(events[0], "code"), "OK");
  EXPECT_EQ(text_at(events[1], "code"), "DeadlineExceeded");
  for (std::size_t i = 1; i < events.size(); ++i) {
    const Progress progress = until_secure(sight_of(events[i]));
    EXPECT_FALSE(progress.done);
    EXPECT_NE(progress.waiting_for.find("the Talos API to answer"), std::string::npos);
    test::count_case();
  }
}

/// Refused connections, then answers: the door opens once. Every one of those calls restarted etcd;
/// so a bootstrap waits for CRI, and an open door alone is not enough for it.
void walk_bootstrap_hammering(const Events& events) {
  bool open = false;
  for (const text::Value& event : events) {
    const Sight sight = sight_of(event);
    EXPECT_EQ(until_secure(sight).done, sight.door == Door::Ours);
    EXPECT_FALSE(until_bootstrappable(sight).done);
    EXPECT_FALSE(open && sight.door != Door::Ours) << "once open it stays so";
    open = sight.door == Door::Ours;
    test::count_case();
  }
  EXPECT_TRUE(open);
}

/// What a probe around an apply saw: closed doors between maintenance and our own.
void walk_transition(const Events& events) {
  bool secure = false;
  for (const text::Value& event : events) {
    const std::string refused = text_at(event, "tls_error") + text_at(event, "end");
    const std::string grpc = text_at(event, "grpc");
    const bool maintenance = text_at(event, "server_cert").find("maintenance") != std::string::npos;
    Sight sight;
    test::count_case();
    if (!text_at(event, "tls_error").empty()) {
      EXPECT_EQ(classify(net::GrpcCode::Unavailable, refused).reason, Reason::NotUp);
      sight.door = Door::Closed;
    } else if (grpc.empty()) {
      EXPECT_EQ(classify(net::GrpcCode::Unavailable, refused).reason, Reason::NotInMaintenance);
      continue;
    } else {
      sight.door = maintenance ? Door::Maintenance : Door::Ours;
    }
    if (text_at(event, "identity") != "admin") continue;
    const Progress progress = until_secure(sight);
    EXPECT_EQ(progress.done, sight.door == Door::Ours);
    EXPECT_FALSE(secure && !progress.done) << "once secure it stays so";
    secure = progress.done;
  }
  EXPECT_TRUE(secure);
}

using Walk = std::function<void(const std::string& id, const Events&)>;

/// Who walks which recording. One that is not here is a failure, not a silence.
std::map<std::string, Walk> walks() {
  std::map<std::string, Walk> out;
  for (const char* id : {"golden-machinestatus", "cp2-machinestatus", "w1-machinestatus",
                         "k8s-machinestatus", "apply-reboot-machinestatus"})
    out[id] = walk_machine_status;
  const auto events = [](Ends ends) {
    return [ends](const std::string&, const Events& list) { walk_events(list, ends); };
  };
  out["golden-events"] = events({.running = true, .etcd = true});
  out["cp2-events"] = events({.running = true, .etcd = true});
  out["w1-events"] = events({.running = true, .etcd = false});
  out["apply-reboot-events"] =
      events({.running = false, .etcd = false, .bootstrappable_before_etcd = false});
  out["k8s-services"] = [](const std::string&, const Events& list) { walk_services(list); };
  out["golden-members"] = [](const std::string&, const Events& list) { walk_members(list); };
  const auto listed = [](const char* type) {
    return [type](const std::string&, const Events& list) { walk_listed(list, type); };
  };
  out["golden-etcdmember"] = listed("EtcdMembers.etcd.talos.dev");
  out["golden-staticpods"] = listed("StaticPods.kubernetes.talos.dev");
  out["golden-nodeaddress"] = listed("NodeAddresses.net.talos.dev");
  for (const char* id : {"double-apply-maintenance", "double-apply-maintenance-2"})
    out[id] = [](const std::string&, const Events& list) { walk_double_apply(list); };
  out["bootstrap-hammering"] = [](const std::string&, const Events& list) {
    walk_bootstrap_hammering(list);
  };
  for (const char* id : {"apply-transition-controlplane", "v13-apply-transition"})
    out[id] = [](const std::string&, const Events& list) { walk_transition(list); };
  return out;
}

TEST(RecordedSequences, TheWaitsWalkEveryOneToItsRightEnd) {
  const std::map<std::string, Walk> known = walks();
  std::set<std::string> walked;
  for (const std::string& file : test::reference_files("talos-node", "sequences.json")) {
    const text::Value root = parse(file);
    for (const text::Value& sequence : root.find("sequences")->items()) {
      const std::string id = text_at(sequence, "id");
      SCOPED_TRACE(id);
      const auto walk = known.find(id);
      if (walk == known.end()) {
        ADD_FAILURE() << "nobody walks it";
        continue;
      }
      const std::size_t before = test::counted_cases();
      walk->second(id, sequence.find("events")->items());
      EXPECT_GT(test::counted_cases(), before) << "not one step was walked";
      walked.insert(id);
    }
  }
  for (const auto& [id, walk] : known) EXPECT_TRUE(walked.contains(id)) << id << " is not recorded";
  std::printf("%zu sequences walked\n", walked.size());
}

/// In one run: the machine is running for a while before etcd has a member, so that whoever takes
/// one for the other is wrong.
TEST(RecordedSequences, ANodeRunsBeforeEtcdIsThere) {
  for (const std::string& file : test::reference_files("talos-node", "sequences.json")) {
    const text::Value root = parse(file);
    std::optional<std::int64_t> running, member, pods;
    for (const text::Value& sequence : root.find("sequences")->items()) {
      const std::string id = text_at(sequence, "id");
      for (const text::Value& event : sequence.find("events")->items()) {
        if (id == "golden-machinestatus" && !running &&
            text_at(event, "yaml").find("stage: running") != std::string::npos)
          running = time_of(event);
        if (id == "golden-etcdmember" && !member) member = time_of(event);
        if (id == "golden-staticpods" && !pods) pods = time_of(event);
      }
    }
    ASSERT_TRUE(running && member && pods);
    EXPECT_LT(*running, *member);
    EXPECT_LE(*member, *pods);
    test::count_case();
  }
}

}  // namespace
}  // namespace rocca::talos
