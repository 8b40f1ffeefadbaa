#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/talos/replay_decode.hpp"
#include "lab/talos/replay_test_site.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace rocca::lab::talos {
namespace {

using namespace replay;

std::string here(const char* name) {
  return test::source_folder() + "/src/lab/talos/" + name;
}

/// The first word of each line that is no comment.
std::set<std::string> read_list(const char* name) {
  std::set<std::string> out;
  std::ifstream file(here(name));
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') out.insert(split(line, ' ').front());
  return out;
}

/// Calls whose ids begin alike were made in one state; this brings it about.
std::unique_ptr<Site> make_site(const std::string& file, const std::string& group,
                                const Configs& configs) {
  auto site = std::make_unique<Site>(configs);
  using Kubernetes = Site::Kubernetes;
  const auto several = [&](std::size_t count) {
    const char* names[] = {"cp1", "cp2", "cp3"};
    for (std::size_t i = 0; i < count; ++i) {
      const std::string address = fmt::format("10.5.0.{}", i + 2);
      site->control_plane(address, names[i], "v1.11.5", Kubernetes::Alone);
      if (i == 0) site->bootstrap(address);
    }
    site->world.run_for(30s);
  };
  if (group == "v13run") {
    site->control_plane("10.5.0.8", "g3");
    site->bootstrap("10.5.0.8");
    NodeTiming slow;
    slow.etcd_join = 1h;  // it was still a learner when it was asked
    site->control_plane("10.5.0.13", "v13", "v1.13.0", Kubernetes::Alone, slow);
    site->world.run_for(20s);
  } else if (group == "v13") {
    site->add("10.5.0.13", "v13", "v1.13.0", Kubernetes::Off);
  } else if (group == "maint") {
    site->add("10.5.0.2", "cp1", "v1.11.5", Kubernetes::Off);
  } else if (group == "pre" || group == "ident" || group == "boot") {
    site->control_plane("10.5.0.2", "cp1");
  } else if (group == "recover" || group == "recover2") {
    site->control_plane("10.5.0.2", "cp1", "v1.11.5", Kubernetes::Alone);
  } else if (group == "etcd" || group == "run" || file == "role-matrix") {
    site->control_plane("10.5.0.2", "cp1");
    site->bootstrap("10.5.0.2");
  } else if (group == "ctr") {
    site->control_plane("10.5.0.4", "cp3");
    site->bootstrap("10.5.0.4");
  } else if (group == "try") {
    site->control_plane("10.5.0.8", "g3");
    site->bootstrap("10.5.0.8");
  } else if (group == "ready") {
    site->control_plane("10.5.0.8", "g3", "v1.11.5", Kubernetes::Whole);
    site->bootstrap("10.5.0.8");
    site->world.run_for(1min);
  } else if (group == "three" || group == "leave") {
    several(3);
  } else if (group == "remove") {
    several(2);  // the third had left before
  } else if (group == "noquorum") {
    several(3);
    site->nodes[1]->power_off();
    site->nodes[2]->power_off();
  } else if (group == "worker" || group == "multi" || group == "state") {
    const Kubernetes all = group == "state" ? Kubernetes::Alone : Kubernetes::Off;
    site->control_plane("10.5.0.2", "cp1", "v1.11.5",
                        group == "state" ? Kubernetes::Whole : Kubernetes::Off);
    site->bootstrap("10.5.0.2");
    site->control_plane("10.5.0.3", "cp2", "v1.11.5", all);
    site->add("10.5.0.5", "w1", "v1.11.5", all);
    site->configure("10.5.0.5", configs.worker(), true);
  } else {
    return nullptr;
  }
  return site;
}

std::string case_of(const std::string& id) {
  for (const char* prefix : {"maint-dry-", "run-dryinvalid-", "v13-dry-"})
    if (id.starts_with(prefix)) return id.substr(std::string_view(prefix).size());
  if (id.starts_with("run-dry-") || id.starts_with("v13run-dry-")) {
    const std::string rest = id.substr(id.find("-dry-") + 1);
    return "run-" + rest.substr(0, rest.rfind('-'));
  }
  if (id.ends_with("-label")) return "run-dry-label";
  if (id.ends_with("-token")) return "run-dry-token";
  if (id.ends_with("-env")) return "run-dry-env";
  if (id.find("sysctl") != std::string::npos || id.starts_with("v13run-try-"))
    return "run-dry-sysctl";
  // What was tried is told by the resource that was looked at afterwards.
  for (const char* part : {"try-single", "commit-", "twice-1", "twice-2", "v13run-single"})
    if (id.find(part) != std::string::npos && !id.ends_with("-reset")) return "tried";
  return "good";
}

std::optional<std::string> apply_request(const Value& request, const std::string& id,
                                         const Configs& configs) {
  // Short texts are in the recording, long ones only by their change.
  const std::string data = text_at(request, "data");
  const auto text = data == "<config text>" ? configs.make(case_of(id)) : from_base64(data);
  if (!text) return std::nullopt;
  std::string out;
  put_bytes(out, 1, *text);
  static const std::map<std::string, unsigned> modes{
      {"AUTO", 1}, {"NO_REBOOT", 2}, {"STAGED", 3}, {"TRY", 4}};
  if (const std::string mode = text_at(request, "mode"); !mode.empty()) {
    const auto named = modes.find(mode);
    put_varint(out, 4, named == modes.end() ? parse_uint(mode).value_or(0) : named->second);
  }
  if (text_at(request, "dry_run") == "true") put_varint(out, 5, 1);
  if (const std::string timeout = text_at(request, "try_mode_timeout"); !timeout.empty()) {
    std::string duration;
    put_varint(duration, 1, parse_uint(timeout.substr(0, timeout.size() - 1)).value_or(0));
    put_bytes(out, 6, duration);
  }
  return out;
}

/// Member ids of a recording and whose they are: the decoded answers mask them, their bytes do not.
std::map<std::string, std::string> recorded_members(const std::vector<Value>& calls,
                                                    const Descriptors& descriptors) {
  std::map<std::string, std::string> out;
  for (const Value& call : calls) {
    const std::string method = text_at(call, "method");
    const Value* responses = call.find("responses");
    if (!method.ends_with("/EtcdMemberList") || responses == nullptr) continue;
    for (const Value& response : responses->items()) {
      const auto bytes = from_hex(text_at(response, "hex"));
      if (!bytes || bytes->empty()) continue;
      const Value json = descriptors.decode(descriptors.response_of(method), *bytes);
      if (const Value* messages = json.find("messages"))
        for (const Value& message : messages->items())
          if (const Value* list = message.find("members"))
            for (const Value& member : list->items())
              out[text_at(member, "id")] = text_at(member, "hostname");
    }
  }
  return out;
}

/// The stream of a real etcd's snapshot.
std::string real_snapshot() {
  const std::string path = test::reference_path("talos/etcd-snapshot/sample.json");
  const Value sample = text::parse_json(test::read_file(path), "sample");
  std::string packed = from_base64(text_at(sample, "gzip_base64")).value_or("");
  std::string out(parse_uint(text_at(sample, "size")).value_or(0), '\0');
  z_stream stream{};
  inflateInit2(&stream, 16 + MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return out;
}

/// The uploads: their bytes were left out of the recordings, so a real snapshot stands for them.
std::vector<std::string> recover_requests(const Value& request, const std::string& id) {
  std::string bytes = from_base64(text_at(request, "bytes")).value_or("");
  if (text_at(request, "bytes") == "<chunk>") {
    bytes = real_snapshot();
    if (id.find("truncated") != std::string::npos) bytes.resize(bytes.size() - 32);
  }
  std::vector<std::string> out;
  for (std::size_t at = 0; at < bytes.size(); at += 4096) {
    out.emplace_back();
    put_bytes(out.back(), 2, bytes.substr(at, 4096));
  }
  return out;
}

/// Secrets stand in the lab's texts where the recordings have marks.
std::string masked(const std::string& text) {
  static const std::regex pem(R"((crt|key): [A-Za-z0-9+/=]{40,})");
  static const std::regex secret(R"(\b(token|id|secret|secretboxEncryptionSecret): (?!<)[^\n"]*)");
  static const std::regex port("[0-9]+->|<port>->");
  static const std::regex digest(R"(got \[[0-9 ]+\])");  // of another snapshot than the recorder's
  std::string out = std::regex_replace(text, pem, "$1: <pem-base64>");
  out = std::regex_replace(out, secret, "$1: <secret>");
  out = std::regex_replace(out, digest, "got <digest>");
  return std::regex_replace(out, port, "<port>->");
}

/// Whether a condition was met before it was waited for, and a health check that failed once on a
/// machine under load, are chance; what came of it is not.
bool is_chance(const Value& event) {
  const std::string text = text_at(event, "msg");
  return text_at(event, "state") == "Waiting" ? !text.starts_with("Runner ")
                                              : text.starts_with("Health check");
}

Value masked(const Value& json) {
  if (json.is_map() && json.find("events") != nullptr && json.find("events")->is_list()) {
    Value events = Value::list();
    for (const Value& event : json.find("events")->items())
      if (!is_chance(event)) events.append(masked(event));
    Value out = Value::map();
    out.set("events", std::move(events));
    return out;
  }
  if (json.is_map()) {
    Value out = Value::map();
    for (const text::Entry& entry : json.entries()) out.set(entry.key, masked(entry.value));
    return out;
  }
  if (json.is_list()) {
    Value out = Value::list();
    for (const Value& item : json.items()) out.append(masked(item));
    return out;
  }
  return json.is_string() ? Value::string(masked(json.text())) : json;
}

/// Why the lab does not agree with a recorded call; "" if it does.
std::string compare(const Value& entry, const Outcome& outcome, const Descriptors& descriptors) {
  const std::string code = text_at(entry, "grpc_code");
  const std::string message = text_at(entry, "grpc_message");
  const bool cut = entry.find("ended_by") != nullptr ||
                   (code == "DeadlineExceeded" && outcome.code == "DeadlineExceeded");
  if (!cut && outcome.code != code)
    return fmt::format("code {} ({}), recorded {} ({})", outcome.code, outcome.message, code,
                       message);
  // The words of a failed connection are the client's own.
  const bool ours = code == "Unavailable" && message.find("desc = \"") != std::string::npos &&
                    entry.find("metadata") == nullptr;
  if (!cut && !ours && masked(outcome.message) != masked(message))
    return fmt::format("message {:?}, recorded {:?}", outcome.message, message);
  const Value* responses = entry.find("responses");
  if (responses == nullptr) return "";
  if (responses->size() != outcome.answers.size())
    return fmt::format("{} messages, recorded {}", outcome.answers.size(), responses->size());
  const std::string type = descriptors.response_of(text_at(entry, "method"));
  for (std::size_t i = 0; i < outcome.answers.size(); ++i) {
    const Value* json = responses->items()[i].find("json");
    if (json == nullptr || json->is_null()) continue;
    const Value mine = masked(comparable(descriptors.decode(type, outcome.answers[i])));
    const Value theirs = masked(comparable(*json));
    if (!(mine == theirs))
      return fmt::format("message {}\n    lab      {}\n    recorded {}", i, text::emit_json(mine),
                         text::emit_json(theirs));
  }
  return "";
}

TEST(TalosNodeLab, RestoresTheSnapshotOfARealEtcd) {
  test::count_case();
  const std::string snapshot = real_snapshot();
  EXPECT_EQ(snapshot.size() % 512, 32u);
  const EtcdCluster::Restored good = EtcdCluster::restore(snapshot, false);
  ASSERT_EQ(good.error, "");
  EXPECT_THAT(good.cluster->data(),
              testing::IsSupersetOf({testing::Pair("k1", "v1"), testing::Pair("k3", "v3")}));
  EXPECT_THAT(good.cluster->members(), testing::IsEmpty());
  // Without its hash, cut, and changed: none of them is taken for a whole one.
  const EtcdCluster::Restored bare =
      EtcdCluster::restore(snapshot.substr(0, snapshot.size() - 32), false);
  EXPECT_THAT(bare.error,
              testing::StartsWith("error recovering from the snapshot: expected sha256"));
  EXPECT_TRUE(bare.dirty);
  std::string changed = snapshot;
  changed[9000] ^= 1;
  EXPECT_THAT(EtcdCluster::restore(changed, false).error, testing::HasSubstr("expected sha256"));
  EXPECT_EQ(EtcdCluster::restore("garbage", false).error,
            "error verifying snapshot: invalid database");
}

TEST(TalosNodeLab, AnswersAsTheRecordedNodes) {
  const Configs configs;
  const Descriptors descriptors{text::parse_json(
      test::read_file(test::reference_path("talos/protobuf/descriptors.json")), "descriptors")};
  const std::set<std::string> differences = read_list("replay_differences.txt");
  const char* only = std::getenv("ROCCA_REPLAY");
  std::set<std::string> seen;
  for (const std::string& path : test::reference_files("talos-node", ".json")) {
    const std::string file =
        path.substr(path.rfind('/') + 1, path.rfind('.') - path.rfind('/') - 1);
    const Value root = text::parse_json(test::read_file(path), file);
    std::vector<Value> calls;
    if (const Value* list = root.find("calls")) calls = list->items();
    if (const Value* methods = root.find("methods"))
      for (const Value& method : methods->items())
        for (const text::Entry& result : method.find("results")->entries()) {
          Value call = Value::map();
          call.set("id", Value::string(text_at(method, "id") + ":" + result.key));
          call.set("node", Value::string("10.5.0.2"));
          call.set("identity", Value::string(result.key));
          call.set("method", Value::string(text_at(method, "id")));
          call.set("request_hex", Value::string(""));
          call.set("grpc_code", result.value.items()[0]);
          call.set("grpc_message", result.value.items()[1]);
          calls.push_back(std::move(call));
        }
    const std::map<std::string, std::string> members = recorded_members(calls, descriptors);
    std::size_t agree = 0, deliberate = 0;
    std::string group;
    std::unique_ptr<Site> site;
    for (const Value& entry : calls) {
      const std::string id = text_at(entry, "id");
      const std::string name = file + "/" + id;
      seen.insert(name);
      if (only != nullptr && name.find(only) == std::string::npos) continue;
      test::count_case();
      // "boot-servicelist-14s": so long after what went before.
      static const std::regex after(".*-([0-9]+)s");
      std::smatch seconds;
      const std::string next = id.substr(0, id.find('-'));
      if (!site || next != group) {
        group = next;
        site = make_site(file, group, configs);
      }
      std::string why = "no such state";
      if (site) {
        std::vector<std::string> requests{from_hex(text_at(entry, "request_hex")).value_or("")};
        const Value* request = entry.find("request");
        bool known = true;
        if (request != nullptr && !text_at(*request, "data").empty() &&
            text_at(entry, "method").ends_with("/ApplyConfiguration")) {
          const auto made = apply_request(*request, id, configs);
          known = made.has_value();
          if (made) requests = {*made};
        }
        if (text_at(entry, "method").ends_with("/EtcdRecover") && request != nullptr)
          requests = recover_requests(*request, id);
        if (text_at(entry, "method").ends_with("/EtcdRemoveMemberByID") && request != nullptr)
          if (const auto own = site->member_id(members, text_at(*request, "member_id"))) {
            requests = {""};
            put_varint(requests.front(), 1, *own);
          }
        net::Headers metadata;
        if (const Value* fields = entry.find("metadata"))
          for (const text::Entry& field : fields->entries())
            for (const Value& value : field.value.items()) metadata.add(field.key, value.text());
        if (id.ends_with("-apply-again"))  // right behind the first one
          site->call(text_at(entry, "node"), text_at(entry, "identity"), text_at(entry, "method"),
                     requests, metadata, 4s, 0);
        if (group == "boot" && std::regex_match(id, seconds, after))
          site->world.run_for(std::chrono::seconds{std::stoi(seconds[1])});
        const Value* responses = entry.find("responses");
        const bool enough = entry.find("ended_by") != nullptr && responses != nullptr;
        const Outcome outcome =
            site->call(text_at(entry, "node"), text_at(entry, "identity"), text_at(entry, "method"),
                       requests, metadata, 4s, enough ? responses->size() : 0);
        why = known ? compare(entry, outcome, descriptors) : "the change is not understood";
        site->world.run_for(group == "recover2" ? 10s : 1s);
      }
      if (why.empty()) {
        ++agree;
        EXPECT_FALSE(differences.contains(name))
            << name << " agrees now: take it off replay_differences.txt";
        continue;
      }
      if (differences.contains(name)) ++deliberate;
      if (only != nullptr || !differences.contains(name)) ADD_FAILURE() << name << ": " << why;
    }
    // Files without calls have readers of their own; one that nobody reads must not pass unseen.
    static const std::map<std::string, std::string> elsewhere{
        {"config-cases", "replay_test_site.hpp makes configurations of them"},
        {"http2", "wire_reference_test.cpp"},
        {"payload-formats", "wire_reference_test.cpp"},
        {"sequences", "talos/sequences_reference_test.cpp: what a client sees over time"}};
    if (calls.empty()) {
      EXPECT_TRUE(elsewhere.contains(file)) << file << " gives no case";
    }
    if (!calls.empty())
      fmt::print("{:<32} {:>4} calls, {:>4} agree, {:>3} differ on purpose\n", file, calls.size(),
                 agree, deliberate);
  }
  for (const std::string& name : differences)
    EXPECT_TRUE(seen.contains(name)) << name << " of replay_differences.txt is not recorded";
}

}  // namespace
}  // namespace rocca::lab::talos
