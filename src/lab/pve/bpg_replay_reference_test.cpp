// What OpenTofu with the real bpg provider asked a Proxmox, asked of the lab in the same order, and
// the answers compared.

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/pve/replay_fixture.hpp"
#include "lab/pve/replay_match.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

namespace rocca::lab::pve {
namespace {

using namespace std::chrono_literals;

text::Value read_json(const std::string& path) {
  text::Limits limits;
  limits.size = 64 * 1024 * 1024;
  return text::parse_json(test::read_file(path), path, limits);
}

std::string text_of(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  return value == nullptr || value->is_null() ? "" : value->text();
}

/// What changes from run to run becomes a placeholder; the recording has these as they were seen.
void mark_volatile(text::Value& value, std::string_view key = "") {
  static const std::set<std::string_view> numbers{"cpu", "ctime",     "disk",    "diskread",
                                                  "mem", "diskwrite", "netin",   "netout",
                                                  "pid", "uptime",    "free_mem"};
  if (value.is_map()) {
    for (text::Entry& entry : value.entries()) {
      if (key == "blockstat" || key == "nics") {
        entry.value.erase("idle_time_ns");  // there once the guest has read from it
        for (text::Entry& each : entry.value.entries())
          if (each.value.kind() == text::Kind::Int) each.value = text::Value::string("<number>");
        continue;
      }
      mark_volatile(entry.value, entry.key);
    }
  } else if (value.is_list()) {
    for (text::Value& item : value.items()) mark_volatile(item);
  } else if (value.kind() == text::Kind::Int || value.kind() == text::Kind::Float) {
    if (numbers.contains(key)) value = text::Value::string("<number>");
  } else if (value.is_string()) {
    static const std::regex uuid("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
    static const std::regex time("ctime=[0-9]+");
    if (key == "digest") {
      value = text::Value::string("<DIGEST>");
    } else if (key == "running-machine") {
      value = text::Value::string("<string>");  // of the QEMU that recorded
    } else {
      std::string text = std::regex_replace(value.text(), uuid, "<UUID>");
      value = text::Value::string(std::regex_replace(text, time, "ctime=<EPOCH>"));
    }
  }
}

class Provider {
 public:
  explicit Provider(const text::Value& fixture) : lab_(fixture) {
    const std::string secret = lab_.dc->new_uuid();
    lab_.dc->access.users["root@pam"].tokens["tofu"] = {secret, /*privsep=*/false, 0, ""};
    authorization_ = "PVEAPIToken=root@pam!tofu=" + secret;
    lab_.dc->guest_of = [](const Vm&) {
      Guest guest;
      guest.acpi = false;
      return guest;
    };
  }

  std::vector<std::string> step(const text::Value& step, const text::Value* next) {
    Matcher matcher{bindings_};
    const std::string path = fill(text_of(step, "path"));
    const text::Value& recorded = *step.find("answer");
    const bool poll = path.find("/tasks/") != std::string::npos && path.ends_with("/status");
    // Polls of one task stand there once with their number; the provider asks every second.
    if (const text::Value* repeats = step.find("repeats"))
      lab_.world.run_for(std::chrono::seconds{*repeats->as_int() - 1});
    if (poll && text_of(*recorded.find("data"), "status") == "stopped") await(path);
    const net::Answer answer = send(text_of(step, "method"), path, step);
    if (step.find("status")->as_int() != answer.head.status)
      matcher.complain(fmt::format("status: recorded {}, the lab says {}", text_of(step, "status"),
                                   answer.head.status));
    matcher.expect_text("reason", text_of(step, "reason"), answer.head.reason);
    text::Value body;
    try {
      body = text::parse_json(answer.body, "answer");
    } catch (const Error&) {
      matcher.complain("the body is no JSON: " + answer.body);
      return matcher.problems();
    }
    compare(poll, recorded, next, body, matcher);
    lab_.world.run_for(100ms);
    return matcher.problems();
  }

  /// Between its last two runs somebody ended the task that held this VM, and stopped the VM.
  void free_by_hand(unsigned vmid) {
    for (const auto& task : lab_.node->tasks())
      if (task->running() && task->upid.type == "qmreboot" && task->upid.id == std::to_string(vmid))
        task->interrupt.raise("received interrupt");
    lab_.world.run_for(1s);
    const text::Value none = text::Value::map();
    send("POST", fmt::format("/nodes/pve1/qemu/{}/status/stop", vmid), none);
    lab_.world.run_for(30s);
  }

 private:
  std::string fill(std::string text) const {
    for (const auto& [mark, upid] : upids_) text = replace_all(text, mark, percent_encode(upid));
    return text;
  }

  void await(const std::string& path) {
    const std::vector<std::string> parts = split(path, '/');
    const Task* task = lab_.node->find_task(percent_decode(parts.at(parts.size() - 2)));
    while (task != nullptr && task->running() && lab_.world.next_due() && lab_.world.step()) {
    }
  }

  net::Answer send(const std::string& method, const std::string& path, const text::Value& step) {
    net::Request out;
    out.method = method;
    out.url = fmt::format("https://{}:8006/api2/json{}", lab_.node->address, path);
    out.tls = net::Tls::pinned(lab_.node->fingerprint);
    out.headers.add("Authorization", authorization_);
    if (method == "POST" || method == "PUT") {
      std::string form;
      if (const text::Value* pairs = step.find("form"))
        for (const text::Value& pair : pairs->items())
          form += (form.empty() ? "" : "&") + percent_encode(pair.items()[0].text()) + "=" +
                  percent_encode(pair.items()[1].text());
      out.headers.add("Content-Type", "application/x-www-form-urlencoded");
      out.body = form;
    }
    return net::fetch(lab_.wire, out);
  }

  void compare(bool poll, const text::Value& recorded, const text::Value* next, text::Value& body,
               Matcher& matcher) {
    const text::Value* wanted = recorded.find("data");
    const text::Value* data = body.find("data");
    if (data == nullptr) return matcher.complain("there is no data");
    if (const std::string* mark = wanted->as_string(); mark != nullptr) {
      if (mark->starts_with("<UPID:")) {
        const auto upid = Upid::parse(data->text());
        const std::vector<std::string> parts = split(mark->substr(1, mark->size() - 2), ':');
        if (!upid || upid->type != parts.at(2) || upid->id != parts.at(3))
          return matcher.complain(
              fmt::format("task: recorded {}, the lab says {}", *mark, data->text()));
        upids_[*mark] = data->text();
        return;
      }
      if (!data->is_list()) matcher.complain("a list is expected");
      return;
    }
    if (poll) {  // recorded with a few of its keys; whether it has ended yet is a matter of speed
      if (text_of(*data, "status") == "stopped" && text_of(*wanted, "status") == "running" &&
          next != nullptr)
        wanted = next->find({"answer", "data"});
      for (const text::Entry& entry : wanted->entries())
        matcher.expect_text(entry.key, entry.value.text(), text_of(*data, entry.key));
      return;
    }
    text::Value marked = recorded;
    mark_volatile(marked);
    if (text::Value* blocks = body.find({"data", "blockstat"}))
      for (text::Entry& entry : blocks->entries()) entry.value.erase("idle_time_ns");
    matcher.expect_value("answer", marked, body);
  }

  Fixture lab_;
  std::string authorization_;
  Bindings bindings_;
  std::map<std::string, std::string> upids_;
};

/// The next poll of the same task that says how it ended.
const text::Value* ending(const std::vector<text::Value>& steps, std::size_t from) {
  for (std::size_t i = from + 1; i < steps.size(); ++i)
    if (text_of(steps[i], "path") == text_of(steps[from], "path")) return &steps[i];
  return nullptr;
}

TEST(BpgReplay, TheLabAnswersTheProviderAsProxmoxDid) {
  const text::Value fixture = read_json(test::reference_path("pve/fixture.json"));
  for (const std::string& path : test::reference_files("bpg", ".json")) {
    const text::Value file = read_json(path);
    Provider provider{fixture};
    for (const text::Value& run : file.find("runs")->items()) {
      std::size_t agreed = 0;
      const std::vector<text::Value>& steps = run.find("steps")->items();
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::string name =
            fmt::format("{}/{} {} {}", text_of(run, "name"), i, text_of(steps[i], "method"),
                        text_of(steps[i], "path"));
        // The provider began once more, after its first attempt to stop both had failed.
        if (text_of(run, "name") == "destroy" && i > 0 &&
            text_of(steps[i], "path").ends_with("/storage/local/content"))
          provider.free_by_hand(800);
        const std::vector<std::string> problems = provider.step(steps[i], ending(steps, i));
        test::count_case();
        if (problems.empty()) ++agreed;
        EXPECT_TRUE(problems.empty()) << name << "\n    " << join(problems, "\n    ");
      }
      fmt::print("{}: {} of {} steps agree\n", text_of(run, "name"), agreed, steps.size());
    }
  }
}

}  // namespace
}  // namespace rocca::lab::pve
