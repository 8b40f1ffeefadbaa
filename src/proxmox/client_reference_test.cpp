#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "proxmox/client.hpp"
#include "proxmox/property_string.hpp"
#include "proxmox/recordings_test_support.hpp"
#include "proxmox/scripted_transport.hpp"
#include "support/administrator.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <deque>
#include <map>

namespace rocca::proxmox {
namespace {

/// Placeholders stand where a value changed from run to run; here each gets one that has its form.
std::string concrete(std::string text) {
  const auto fill = [&](std::string_view name, std::string_view with) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
      const std::size_t end = text.find('>', at);
      const std::string number = text.substr(at + name.size(), end - at - name.size());
      text.replace(at, end + 1 - at,
                   fmt::format(fmt::runtime(with), parse_uint(number).value_or(0)));
    }
  };
  fill("<PID:", "{:08X}");
  fill("<PSTART:", "{:08X}");
  fill("<TIME:", "{:08X}");
  fill("<UUID:", "00000000-0000-4000-8000-{:012x}");
  fill("<MAC:", "BC:24:11:00:00:{:02X}");
  fill("<DIGEST:", "{:040x}");
  return text;
}

net::Answer recorded_answer(const text::Value& response) {
  net::Answer answer;
  answer.head.status = static_cast<int>(response.find("status")->as_int().value_or(0));
  answer.head.reason = concrete(text_at(response, {"reason"}));
  answer.head.headers.add("Server", "pve-api-daemon/3.0");
  if (const std::string type = text_at(response, {"content_type"}); !type.empty())
    answer.head.headers.add("Content-Type", type);
  if (const text::Value* body = response.find("body"))
    answer.body = concrete(text::emit_json(*body));
  else
    answer.body = concrete(text_at(response, {"body_text"}));
  return answer;
}

/// Answers as recorded: the request of the step under test, then its task and the read-back of the
/// VM.
class Replay {
 public:
  explicit Replay(const text::Value& step)
      : step_(step), transport_([this](const net::Request& request) { return answer(request); }) {}

  ScriptedTransport& transport() { return transport_; }

 private:
  net::Answer answer(const net::Request& request) {
    if (request.url.find("/tasks/") != std::string::npos && request.url.ends_with("/status")) {
      text::Value data = text::Value::map();
      for (const char* key : {"status", "exitstatus"})
        if (const text::Value* value = step_.find({"task", key})) data.set(key, *value);
      text::Value body = text::Value::map();
      body.set("data", data);
      return json_answer(200, "OK", concrete(text::emit_json(body)));
    }
    if (request.method == "GET" && request.url.ends_with("/config") && answered_) {
      text::Value body = text::Value::map();
      body.set("data", *step_.find({"readback", "config"}));
      return json_answer(200, "OK", concrete(text::emit_json(body)));
    }
    answered_ = true;
    return recorded_answer(*step_.find("response"));
  }

  const text::Value& step_;
  bool answered_ = false;
  ScriptedTransport transport_;
};

std::map<std::string, std::string> parameters(const text::Value& request) {
  std::map<std::string, std::string> found;
  for (const char* kind : {"form", "query"})
    if (const text::Value* pairs = request.find(kind))
      for (const text::Value& pair : pairs->items())
        found[pair.items()[0].text()] = concrete(pair.items()[1].text());
  return found;
}

/// The call of our client that asks what the recorded request asked; false if we have none for it.
bool ask(test::Administrator& client, const text::Value& request, std::optional<Upid>& task) {
  const std::string method = text_at(request, {"method"});
  const std::vector<std::string> path =
      split(concrete(text_at(request, {"path"})), '/');  // "", nodes, pve1, qemu, 100, …
  const auto form = parameters(request);
  const auto at = [&](std::size_t i) { return i < path.size() ? path[i] : std::string{}; };
  const auto value = [&](const char* key) {
    return form.contains(key) ? form.at(key) : std::string{};
  };
  if (method == "GET" && at(1) == "version" && path.size() == 2) return client.version(), true;
  if (method == "GET" && at(1) == "nodes" && path.size() == 2) return client.nodes(), true;
  if (at(1) == "cluster" && at(2) == "nextid" && method == "GET") {
    if (const auto vmid = parse_uint(value("vmid")))
      return client.vmid_is_free(static_cast<Vmid>(*vmid)), true;
    return form.empty() ? (client.next_free_vmid(), true) : false;
  }
  if (at(1) == "cluster" && at(2) == "resources" && method == "GET") return client.vms(), true;
  if (at(1) == "cluster" && at(2) == "status" && method == "GET")
    return client.cluster_status(), true;
  if (at(1) == "cluster" && at(2) == "options" && method == "GET") return client.options(), true;
  if (at(1) == "access" && at(2) == "permissions" && method == "GET" && !form.contains("userid"))
    return client.permissions(value("path")), true;
  if (at(1) == "cluster" && at(2) == "log" && method == "GET")
    return client.cluster_log(static_cast<unsigned>(parse_uint(value("max")).value_or(50))), true;
  if (at(1) == "pools" && path.size() == 2 && method == "GET" && form.empty())
    return client.pools(), true;
  if (at(1) != "nodes") return false;
  const std::string node = at(2);
  if (at(3) == "storage" && method == "GET" && path.size() == 4) return client.storages(node), true;
  if (at(3) == "network" && method == "GET" && path.size() == 4) return client.bridges(node), true;
  if (at(3) == "query-url-metadata") return client.url_metadata(node, value("url")), true;
  if (at(3) == "storage" && at(5) == "content" && method == "GET" && path.size() == 6)
    return client.volumes(node, at(4), value("content")), true;
  if (at(3) == "storage" && at(5) == "download-url" && method == "POST") {
    Download download{at(4),
                      value("content"),
                      value("filename"),
                      value("url"),
                      value("checksum-algorithm"),
                      value("checksum"),
                      true};
    return task = client.start_download(node, download), true;
  }
  if (at(3) == "tasks" && at(5) == "log" && method == "GET" && !form.contains("download"))
    if (const auto upid = Upid::parse(percent_decode(at(4)))) return client.task_log(*upid), true;
  if (at(3) == "tasks" && path.size() == 4 && method == "GET") return client.tasks(node), true;
  if (at(3) != "qemu") return false;
  if (path.size() == 4 && method == "POST") {
    VmCreate create;
    create.vmid = static_cast<Vmid>(parse_uint(value("vmid")).value_or(0));
    auto result = client.start_create(node, create);
    if (auto* upid = std::get_if<Upid>(&result)) task = *upid;
    return true;
  }
  const auto vmid = parse_uint(at(4));
  if (!vmid || *vmid > 999999999) return false;
  const Vmid id = static_cast<Vmid>(*vmid);
  if (method == "DELETE" && path.size() == 5)
    return task = client.start_destroy(node, id, false), true;
  if (at(5) == "config" && method == "GET") return client.find_config(node, id), true;
  if (at(5) == "pending" && method == "GET") return client.pending(node, id), true;
  if (at(5) == "config" && (method == "PUT" || method == "POST")) {
    VmUpdate update;
    for (const auto& [key, text] : form) update.set[key] = text;
    if (method == "PUT") return client.update(node, id, update), true;
    return task = client.start_update(node, id, update), true;
  }
  if (at(5) == "resize" && method == "PUT")
    return task = client.start_resize(node, id, value("disk"), Bytes::gib(1)), true;
  if (at(5) == "clone" && method == "POST") {
    Clone clone;
    clone.source = id;
    clone.target = static_cast<Vmid>(parse_uint(value("newid")).value_or(0));
    return task = client.start_clone(node, clone), true;
  }
  if (at(5) == "template" && method == "POST") return task = client.start_template(node, id), true;
  if (at(5) == "cloudinit" && method == "PUT") return client.regenerate_cloud_init(node, id), true;
  if (at(5) == "agent" && at(6) == "network-get-interfaces")
    return client.find_agent_interfaces(node, id), true;
  if (at(5) != "status") return false;
  if (at(6) == "current") return client.find_status(node, id), true;
  if (at(6) == "start") return task = client.start_vm(node, id), true;
  if (at(6) == "stop") return task = client.start_stop(node, id), true;
  if (at(6) == "shutdown")
    return task = client.start_shutdown(node, id, std::chrono::seconds{60}, false), true;
  if (at(6) == "reboot")
    return task = client.start_reboot(node, id, std::chrono::seconds{60}), true;
  if (at(6) == "reset") return task = client.start_reset(node, id), true;
  return false;
}

TEST(ClientOnRecordings, ReachesTheRecordedEnd) {
  std::map<std::string, std::size_t> calls;
  for_each_recorded_step([&](const RecordedStep& recorded) {
    const text::Value* response = recorded.step.find("response");
    const text::Value* request = recorded.step.find("request");
    if (response == nullptr || response->find("status") == nullptr) return;
    // Other formatters, other principals' odd spellings of the path: not what a client of ours
    // sends.
    if (request->find("format") != nullptr || request->find("raw_body") != nullptr) return;
    SCOPED_TRACE(recorded.where);
    Replay replay{recorded.step};
    test::Administrator client{
        replay.transport(),
        {{"https://pve1:8006"}, Secret("root@pam!t=x"), net::Tls::unverified()}};
    const int status = static_cast<int>(response->find("status")->as_int().value_or(0));
    std::optional<Upid> task;
    try {
      if (!ask(client, *request, task)) return;
      const bool absence = status >= 400;
      if (absence) {
        // Only what the caller branches on may come back without an Error: absence, a taken id, a
        // silent agent.
        const Failure failure = classify(status, recorded_answer(*response).head.reason);
        EXPECT_TRUE(
            failure.reason == Reason::DoesNotExist || failure.reason == Reason::AlreadyExists ||
            failure.reason == Reason::BadParameter || failure.reason == Reason::AgentSilent ||
            failure.reason == Reason::NotRunning || failure.reason == Reason::Contention)
            << to_string(failure.reason);
      }
    } catch (const Error& error) {
      EXPECT_GE(status, 400) << error.render();
      EXPECT_NE(error.fault(), Fault::Bug);
    }
    test::count_case();
    ++calls[text_at(*request, {"method"})];
    if (status != 200 || !task) return;
    EXPECT_EQ(task->text, concrete(text_at(*response, {"body", "data"})));
    if (recorded.step.find("task") == nullptr) return;
    const auto ended = client.find_task(*task);
    ASSERT_TRUE(ended);
    const std::string exit = text_at(recorded.step, {"task", "exitstatus"});
    EXPECT_EQ(ended->ok(), exit == "OK" || exit.starts_with("WARNINGS")) << exit;
    if (recorded.step.find({"readback", "config"}) == nullptr) return;
    const auto config = client.find_config("pve1", 100);
    ASSERT_TRUE(config);
    for (const text::Entry& entry : recorded.step.find({"readback", "config"})->entries()) {
      if (entry.key == "digest" || !entry.value.is_scalar() || entry.value.is_null()) continue;
      EXPECT_EQ(config->value_or(entry.key, "(absent)"), concrete(entry.value.text()));
    }
  });
  for (const auto& [method, count] : calls)
    std::printf("%s: %zu recorded calls answered to our client\n", method.c_str(), count);
}

TEST(ClientOnRecordings, ClassifiesEveryRecordedFailure) {
  std::map<std::string, std::size_t> reasons;
  for_each_recorded_step([&](const RecordedStep& recorded) {
    if (const text::Value* response = recorded.step.find("response")) {
      const int status = static_cast<int>(
          response->find("status") ? response->find("status")->as_int().value_or(0) : 0);
      if (status >= 400) {
        std::map<std::string, std::string> errors;
        if (const text::Value* map = response->find({"body", "errors"}))
          for (const text::Entry& entry : map->entries()) errors[entry.key] = entry.value.text();
        std::string message = text_at(*response, {"body", "message"});
        if (message.empty()) message = text_at(*response, {"reason"});
        const Failure failure = classify(status, message, errors);
        EXPECT_NE(failure.reason, Reason::Other)
            << recorded.where << ": " << status << " " << message;
        ++reasons[to_string(failure.reason)];
        test::count_case();
      }
    }
    const std::string exit = text_at(recorded.step, {"task", "exitstatus"});
    if (exit.empty() || exit == "OK" || exit.starts_with("WARNINGS")) return;
    const Failure failure = classify_task(exit);
    EXPECT_NE(failure.reason, Reason::Other) << recorded.where << ": task: " << exit;
    ++reasons[to_string(failure.reason)];
    test::count_case();
  });
  for (const auto& [reason, count] : reasons) std::printf("%-18s %zu\n", reason.c_str(), count);
}

}  // namespace
}  // namespace rocca::proxmox
