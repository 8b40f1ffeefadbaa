// Every recorded request of tests/reference/pve, pve-more (8.4) and pve9 (9.1), sent through the
// Wire in the recorded order and set-up, and compared.
//
//   ROCCA_REPLAY=pve/c-vm-create/create-basic
//
// runs only files, scenarios or steps whose name contains this, and prints what differs.
//
// A step that the test does not understand (an unknown principal, an unknown set-up step, a missing
// part) is a difference like any other: it is counted, and the run goes on.
//
// replay_differences.txt holds the deliberate differences with their reasons; a step in it that
// agrees is a failure too, so that it can only shrink.

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/pve/replay_fixture.hpp"
#include "lab/pve/replay_match.hpp"
#include "lab/services/compression.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
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

const text::Value& required(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  if (value == nullptr) throw Error(Fault::NotFound, fmt::format("the recording has no '{}'", key));
  return *value;
}

/// The recorder folds long values: `<9000 characters: xxxxxxxxxx...>`.
std::string unfold(const std::string& value) {
  if (!value.starts_with("<") || value.find(" characters: ") == std::string::npos) return value;
  const std::size_t count = std::stoul(value.substr(1));
  return std::string(count, value[value.find(": ") + 2]);
}

/// Lines of programs that are not Proxmox's: their wording changes with their version.
bool is_foreign(const std::string& line) {
  static const std::vector<std::string> beginnings{
      "Formatting '",
      "transferred ",
      "<PROGRESS",
      "swtpm",
      "--",
      "Connecting to ",
      "HTTP request sent",
      "Length: ",
      "Saving to: ",
      "Resolving",
      "Location: ",
      "Reusing ",
      "kvm: ",
      "qemu-img: ",
      "Proxy request",
      "<TIMESTAMP> (",
      "<TIMESTAMP> ERROR",
      "GnuTLS: ",
      "  ",
      "Starting vTPM",
      "Successfully ",
      "TPM is",
      "WARNING: ",
      "Authoring",
      "2026-",
      "ERROR ",
      "Image resized",
      "Use of uninitialized value",
  };
  if (line.empty()) return true;
  for (const std::string& beginning : beginnings)
    if (line.starts_with(beginning)) return true;
  return false;
}

std::vector<std::string> own_lines(const std::vector<std::string>& lines) {
  std::vector<std::string> own;
  for (const std::string& line : lines)
    if (!is_foreign(line)) own.push_back(line);
  return own;
}

class Scenario {
 public:
  Scenario(const text::Value& fixture, const text::Value& principals, const text::Value& scenario,
           std::string name)
      : lab_(fixture),
        principals_(principals),
        steps_(required(scenario, "steps")),
        name_(std::move(name)) {
    if (name_.starts_with("pve/")) lab_.add_left_over_pools();
  }

  /// step name -> its differences (none: it agrees)
  std::map<std::string, std::vector<std::string>> run() {
    std::map<std::string, std::vector<std::string>> results;
    for (std::size_t i = 0; i < steps_.items().size(); ++i) {
      const text::Value& step = steps_.items()[i];
      std::string name =
          name_ + "/" +
          (step.find("name") == nullptr ? text_of(step, "out_of_band") : text_of(step, "name"));
      while (results.contains(name)) name += "'";
      Matcher matcher{bindings_};
      try {
        await_tasks(i);
        if (name.find("statistics") != std::string::npos)
          lab_.world.run_for(12s);  // the recorder waited for a round
        if (step.find("request") != nullptr)
          request(step, i, matcher, name);
        else if (step.find("observe") != nullptr)
          observe(step, matcher);
        else if (!lab_.out_of_band(text_of(step, "out_of_band")))
          matcher.complain("cannot do this out of band");
      } catch (const Error& error) {
        matcher.complain("error: " + error.message());
      } catch (const std::exception& error) {
        matcher.complain(fmt::format("exception: {}", error.what()));
      }
      results.emplace(name, matcher.problems());
      lab_.world.run_for(200ms);  // the recorder took its time, too
    }
    lab_.world.settle(20min);
    for (const auto& [name, task, upid, index] : later_) {
      Matcher matcher{bindings_};
      compare_task(*task, upid, matcher);
      for (const std::string& problem : matcher.problems()) results[name].push_back(problem);
    }
    return results;
  }

 private:
  net::Answer send(const text::Value& request, Matcher& matcher) {
    net::Request out;
    out.method = text_of(request, "method");
    const std::string format =
        request.find("format") == nullptr ? "json" : text_of(request, "format");
    const std::string prefix = format == "none" ? "" : "/api2/" + format;
    out.url =
        fmt::format("https://{}:8006{}{}", lab_.node->address, prefix,
                    replace_all(Matcher::fill(text_of(request, "path"), bindings_), " ", "%20"));
    const auto pairs = [&](std::string_view key) {
      std::vector<std::string> parts;
      if (const text::Value* list = request.find(key))
        for (const text::Value& pair : list->items()) {
          const std::string value = unfold(Matcher::fill(pair.items()[1].text(), bindings_));
          parts.push_back(percent_encode(pair.items()[0].text()) + "=" +
                          percent_encode(resolve_ticket(value)));
        }
      return join(parts, "&");
    };
    if (const std::string query = pairs("query"); !query.empty())
      out.url += (out.url.find('?') == std::string::npos ? "?" : "&") + query;
    out.tls = net::Tls::pinned(lab_.node->fingerprint);
    out.timeout = std::nullopt;
    out.headers = lab_.act_as(required(principals_, text_of(request, "auth")));
    if (const text::Value* headers = request.find("headers"))
      for (const text::Entry& header : headers->entries()) {
        if (header.key == "<70 headers>")
          for (int i = 0; i < 70; ++i) out.headers.add(fmt::format("X-Header-{}", i), "x");
        else
          out.headers.add(header.key, header.value.text());
      }
    if (request.find("form") != nullptr) {
      out.body = pairs("form");
      if (text_of(request, "no_content_type") != "true")
        out.headers.add("Content-Type", "application/x-www-form-urlencoded");
    } else if (const text::Value* json = request.find("json")) {
      out.body = text::emit_json(*json);
      out.headers.add("Content-Type", "application/json");
    } else if (request.find("raw_body") != nullptr) {
      out.body = text_of(request, "raw_body");
    } else if (const text::Value* parts = request.find("multipart")) {
      multipart(*parts, out);
    }
    static_cast<void>(matcher);
    return net::fetch(lab_.wire, out);
  }

  /// Renewing a ticket sends the old one as the password.
  std::string resolve_ticket(const std::string& value) {
    if (value != "PVE:root@pam:<HEX8>::<BASE64>") return value;
    const net::Headers headers = lab_.root();
    return percent_decode(headers.find("Cookie")->substr(14));
  }

  static void multipart(const text::Value& parts, net::Request& out) {
    const std::string boundary =
        text_of(parts, "boundary").empty() ? "----recorded" : text_of(parts, "boundary");
    std::string body;
    const auto field = [&](const std::string& key, const std::string& value) {
      body += fmt::format("--{}\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n",
                          boundary, key, value);
    };
    const auto file = [&] {
      const text::Value* size = parts.find("size");
      body += fmt::format(
          "--{}\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"{}\"\r\n"
          "Content-Type: application/octet-stream\r\n\r\n",
          boundary, text_of(parts, "filename"));
      body += text_of(parts, "content") + std::string("\n");
      if (size != nullptr) body += "size=" + size->text();
      body += "\r\n";
    };
    const bool first = text_of(parts, "file_first") == "true";
    if (first) file();
    if (const text::Value* fields = parts.find("fields"))
      for (const text::Value& pair : fields->items())
        field(pair.items()[0].text(), pair.items()[1].text());
    if (!first) file();
    body += fmt::format("--{}--\r\n", boundary);
    out.body = body;
    out.headers.add("Content-Type", "multipart/form-data; boundary=" + boundary);
  }

  void request(const text::Value& step, std::size_t index, Matcher& matcher,
               const std::string& name) {
    const text::Value& recorded = required(step, "response");
    net::Answer answer;
    bool closed = false;
    try {
      answer = send(*step.find("request"), matcher);
    } catch (const Error& error) {
      if (error.fault() != Fault::Lost) throw;
      closed = true;
    }
    const bool should_close = text_of(recorded, "connection_closed_without_response") == "true";
    if (closed || should_close) {
      if (closed != should_close)
        matcher.complain(closed ? "the lab closed the connection" : "the lab answered");
      return;
    }
    compare_answer(required(step, "request"), recorded, answer, matcher);
    if (const text::Value* task = step.find("task")) {
      Task* mine = find_task(answer.body);
      if (mine == nullptr) {
        matcher.complain("no task was started");
      } else if (recorder_waited(index, index + 1)) {
        while (mine->running() && lab_.world.next_due() && lab_.world.step()) {
        }
        compare_task(*task, mine->text, matcher);
      } else {
        later_.push_back({name, task, mine->text, index});
      }
    }
    if (const text::Value* readback = step.find("readback"))
      compare_readback(step, *readback, matcher);
  }

  Task* find_task(const std::string& body) {
    try {
      const text::Value json = text::parse_json(body, "answer");
      const text::Value* data = json.find("data");
      return data == nullptr ? nullptr : lab_.node->find_task(data->text());
    } catch (const Error&) {
      return nullptr;
    }
  }

  /// Once nothing that follows shows a task running, the recorder had let it end.
  void await_tasks(std::size_t from) {
    for (const Later& each : later_) {
      if (!recorder_waited(each.index, from)) continue;
      const Task* task = lab_.node->find_task(each.upid);
      while (task != nullptr && task->running() && lab_.world.next_due() && lab_.world.step()) {
      }
    }
  }

  /// Whether the recorder let a task end before it went on is not written down, but what it did
  /// next tells.
  bool recorder_waited(std::size_t index, std::size_t from) const {
    const text::Value& task = *steps_.items()[index].find("task");
    const std::string exit = text_of(task, "exitstatus");
    const std::string pid = text_of(task, "upid").substr(0, text_of(task, "upid").find('>'));
    const std::string marker = pid.substr(pid.find('<'));
    const std::string lock_file = fmt::format("lock-{}.conf' - got timeout", text_of(task, "id"));
    for (std::size_t i = from; i < steps_.items().size(); ++i) {
      const text::Value* next = steps_.items()[i].find("request");
      if (next == nullptr) continue;
      const std::string path = text_of(*next, "path");
      const text::Value* data = steps_.items()[i].find({"response", "body", "data"});
      if (path.find(marker) != std::string::npos) {
        if (text_of(*next, "method") == "DELETE" && exit.find("interrupt") != std::string::npos)
          return false;
        if (data != nullptr && text_of(*data, "status") == "running") return false;
      }
      const std::string all = text::emit_json(steps_.items()[i]);
      if (exit.find("got timeout") == std::string::npos && all.find(lock_file) != std::string::npos)
        return false;
      if (exit.find("interrupt") != std::string::npos &&
          all.find("overrule-shutdown") != std::string::npos)
        return false;
      // Another task of the same VM that did not have to wait: this one was over by then.
      if (const text::Value* other = steps_.items()[i].find("task");
          other != nullptr && text_of(*other, "id") == text_of(task, "id") &&
          text_of(*other, "exitstatus").find("got timeout") == std::string::npos)
        return true;
      if (i > from + 5) break;
    }
    return true;
  }

  void compare_answer(const text::Value& request, const text::Value& recorded,
                      const net::Answer& answer, Matcher& matcher) {
    if (const text::Value* status = &required(recorded, "status");
        status->as_int() != answer.head.status)
      matcher.complain(
          fmt::format("status: recorded {}, the lab says {}", status->text(), answer.head.status));
    std::string reason;
    for (const char raw : answer.head.reason) {
      const auto c = static_cast<unsigned char>(raw);
      if (c < 0x80) {
        reason += raw;
      } else {
        reason += static_cast<char>(0xC0 | c >> 6);
        reason += static_cast<char>(0x80 | (c & 0x3F));
      }
    }
    matcher.expect_text("reason", text_of(recorded, "reason"), reason);
    matcher.expect_text("content type", text_of(recorded, "content_type"),
                        std::string(answer.head.headers.find("Content-Type").value_or("")));
    if (const text::Value* connection = recorded.find("connection")) {
      std::string wanted;
      if (connection->is_list())
        for (const text::Value& item : connection->items()) wanted += item.text() + ",";
      else
        wanted = connection->text() + ",";
      std::string got;
      for (const std::string_view each : answer.head.headers.all("Connection"))
        got += std::string(each) + ",";
      matcher.expect_text("connection", wanted, got);
    }
    if (text_of(recorded, "empty_body") == "true") {
      if (!answer.body.empty()) matcher.complain("the body should be empty: " + answer.body);
      return;
    }
    const text::Value* others = recorded.find("other_headers");
    if (others != nullptr)
      for (const text::Entry& each : others->entries())
        matcher.expect_text(
            each.key, without_time(each.value.text()),
            without_time(std::string(answer.head.headers.find(each.key).value_or(""))));
    if (const text::Value* plain = recorded.find("body_text")) {
      // What is compressed was written down as text and cannot be unpacked: our own must.
      if (answer.head.headers.find("Content-Encoding") == "gzip")
        compare_log_file(request, answer.body, matcher);
      else
        matcher.expect_text("body", plain->text(), answer.body);
      return;
    }
    text::Value body;
    try {
      body = text::parse_json(answer.body, "answer");
    } catch (const Error&) {
      return matcher.complain("the body is no JSON: " + answer.body);
    }
    if (const text::Value* wanted = recorded.find("body"))
      compare_body(text_of(request, "path"), *wanted, body, matcher);
  }

  /// The name of a log to save ends with the time of its task.
  static std::string without_time(const std::string& header) {
    static const std::regex time("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z");
    return std::regex_replace(header, time, "(time)");
  }

  void compare_log_file(const text::Value& request, const std::string& body, Matcher& matcher) {
    const std::vector<std::string> path =
        split(Matcher::fill(text_of(request, "path"), bindings_), '/');
    const Task* task = lab_.node->find_task(percent_decode(path.at(path.size() - 2)));
    if (task == nullptr) return matcher.complain("the task is gone");
    std::string unpacked;
    const auto gunzip = Decompressor::make("gz");
    if (!gunzip->feed(body, [&](std::string_view bytes) { unpacked += bytes; }) ||
        !gunzip->complete())
      return matcher.complain("the body is no gzip");
    if (body.find(task->text) == std::string::npos)
      matcher.complain("the gzip does not name the task's file");
    matcher.expect_text("body", join(task->log, "\n") + "\n", unpacked);
  }

  static void compare_body(const std::string& path, const text::Value& wanted, text::Value& body,
                           Matcher& matcher) {
    if (path.ends_with("/tasks")) return compare_shapes(wanted, body, matcher);
    if (path.find("/tasks/") != std::string::npos && path.ends_with("/log")) {
      fold_log(body);
      text::Value folded = wanted;
      fold_log(folded);
      return matcher.expect_value("body", folded, body);
    }
    if (path == "/access/roles" ||
        path == "/access/acl") {  // the roles that carry the grants are ours
      text::Value* rows = body.find("data");
      if (rows != nullptr && rows->is_list())
        std::erase_if(rows->items(), [](const text::Value& row) {
          return text_of(row, "roleid").starts_with("lab-");
        });
    }
    matcher.expect_value("body", wanted, body);
  }

  /// Task lists also show tasks of other scenarios: only the shape counts.
  static void compare_shapes(const text::Value& wanted, const text::Value& body, Matcher& matcher) {
    std::set<std::string> shapes;
    const auto shape = [](const text::Value& row) {
      std::set<std::string> keys;
      for (const text::Entry& entry : row.entries())
        keys.insert(entry.key + ":" + to_string(entry.value.kind()));
      std::string all;
      for (const std::string& key : keys) all += key + " ";
      return all;
    };
    const auto kind_of_placeholder = [&](const text::Value& row) {
      std::set<std::string> keys;
      for (const text::Entry& entry : row.entries()) {
        const bool number = entry.value.text() == "<int>";
        keys.insert(entry.key + ":" + (number ? "int" : to_string(entry.value.kind())));
      }
      std::string all;
      for (const std::string& key : keys) all += key + " ";
      return all;
    };
    const text::Value* rows = wanted.find("data");
    const text::Value* mine = body.find("data");
    if (rows == nullptr || mine == nullptr || !mine->is_list() || !rows->is_list())
      return matcher.expect_value("body", wanted, body);
    for (const text::Value& row : rows->items()) shapes.insert(kind_of_placeholder(row));
    for (const text::Value& row : mine->items())
      if (!shapes.empty() && !shapes.contains(shape(row)))
        matcher.complain(fmt::format("a task row of another shape: {}", shape(row)));
    if (rows->items().empty() && !mine->items().empty())
      matcher.complain("the recorded list is empty");
    // A total of zero is left out.
    if (rows->items().empty() == mine->items().empty() &&
        (wanted.find("total") == nullptr) != (body.find("total") == nullptr))
      matcher.complain("total");
  }

  static void fold_log(text::Value& body) {
    text::Value* rows = body.find("data");
    if (rows == nullptr || !rows->is_list()) return;
    std::erase_if(rows->items(),
                  [](const text::Value& row) { return is_foreign(text_of(row, "t")); });
    for (text::Value& row : rows->items()) row.set("n", text::Value::integer(0));
    body.set("total", text::Value::null());
  }

  void compare_task(const text::Value& recorded, const std::string& upid, Matcher& matcher) {
    const Task* task = lab_.node->find_task(upid);
    if (task == nullptr) return matcher.complain("the task is gone");
    if (task->running()) return matcher.complain("the task does not end");
    matcher.expect_text("task", text_of(recorded, "upid"), task->text);
    matcher.expect_text("exit status", text_of(recorded, "exitstatus"), task->status);
    std::vector<std::string> wanted;
    if (const text::Value* log = recorded.find("log"))
      for (const text::Value& line : log->items()) wanted.push_back(line.text());
    wanted = own_lines(wanted);
    const std::vector<std::string> got = own_lines(task->log);
    if (wanted.size() != got.size())
      return matcher.complain(fmt::format("log: recorded [{}], the lab says [{}]",
                                          join(wanted, " | "), join(got, " | ")));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      matcher.expect_text(fmt::format("log {}", i), wanted[i], got[i]);
  }

  static unsigned vmid_of(const text::Value& step) {
    const text::Value& request = *step.find("request");
    const std::string path = text_of(request, "path");
    const auto from_form = [&](std::string_view key) -> unsigned {
      if (const text::Value* form = request.find("form"))
        for (const text::Value& pair : form->items())
          if (pair.items()[0].text() == key)
            return static_cast<unsigned>(parse_uint(pair.items()[1].text()).value_or(0));
      if (const text::Value* json = request.find("json"))
        return static_cast<unsigned>(parse_uint(text_of(*json, key)).value_or(0));
      return 0;
    };
    if (path.ends_with("/clone")) return from_form("newid");
    const std::size_t at = path.find("/qemu/");
    if (at == std::string::npos) return from_form("vmid");
    const std::string rest = path.substr(at + 6);
    return static_cast<unsigned>(parse_uint(rest.substr(0, rest.find('/'))).value_or(0));
  }

  text::Value ask_root(const std::string& path) {
    net::Request out;
    out.url = fmt::format("https://{}:8006/api2/json{}", lab_.node->address, path);
    out.tls = net::Tls::pinned(lab_.node->fingerprint);
    out.headers = lab_.root();
    const net::Answer answer = net::fetch(lab_.wire, out);
    const text::Value json = text::parse_json(answer.body, path);
    const text::Value* data = json.find("data");
    return data == nullptr ? text::Value::null() : *data;
  }

  void compare_readback(const text::Value& step, const text::Value& readback, Matcher& matcher) {
    const unsigned vmid = vmid_of(step);
    const text::Value config =
        ask_root(fmt::format("/nodes/{}/qemu/{}/config", lab_.node->name, vmid));
    const text::Value pending =
        ask_root(fmt::format("/nodes/{}/qemu/{}/pending", lab_.node->name, vmid));
    if (const text::Value* wanted = readback.find("config"))
      for (const text::Entry& entry : wanted->entries()) {
        const text::Value* mine = config.find(entry.key);
        if (entry.value.is_null() != (mine == nullptr))
          matcher.complain(fmt::format(
              "config.{}: recorded {}, the lab {}", entry.key, text::emit_json(entry.value),
              mine == nullptr ? "has none" : "says " + text::emit_json(*mine)));
        else if (mine != nullptr)
          matcher.expect_value("config." + entry.key, entry.value, *mine);
      }
    if (const text::Value* wanted = readback.find("pending");
        wanted != nullptr && wanted->is_list()) {
      std::set<std::string> keys;
      if (const text::Value* of = readback.find("config"))
        for (const text::Entry& entry : of->entries()) keys.insert(entry.key);
      text::Value mine = text::Value::list();
      for (const text::Value& row : pending.items())
        if (keys.contains(text_of(row, "key"))) mine.append(row);
      matcher.expect_value("pending", *wanted, mine);
    }
  }

  void observe(const text::Value& step, Matcher& matcher) {
    if (text_of(step, "observe") == "config-file") {
      const Vm* vm =
          lab_.dc->find_vm(static_cast<unsigned>(required(step, "vmid").as_uint().value_or(0)));
      const text::Value* wanted = step.find("text");
      if (wanted == nullptr || wanted->is_null()) {
        if (vm != nullptr) matcher.complain("the config file should be gone");
        return;
      }
      if (vm == nullptr) return matcher.complain("there is no config file");
      return matcher.expect_text("config file", wanted->text(), config_file_text(*vm));
    }
    for (const text::Entry& entry : required(step, "storages").entries()) {
      text::Value rows =
          ask_root(fmt::format("/nodes/{}/storage/{}/content", lab_.node->name, entry.key));
      for (text::Value& row : rows.items()) row.erase("ctime");
      matcher.expect_value(entry.key, entry.value, rows);
    }
  }

  struct Later {
    std::string name;
    const text::Value* task;
    std::string upid;
    std::size_t index;
  };

  Fixture lab_;
  const text::Value& principals_;
  const text::Value& steps_;
  std::string name_;
  Bindings bindings_;
  std::vector<Later> later_;
};

std::map<std::string, std::string> read_list(const std::string& file) {
  std::map<std::string, std::string> entries;
  std::ifstream in(test::source_folder() + "/src/lab/pve/" + file);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    const std::size_t bar = line.find(" | ");
    entries[line.substr(0, bar)] = bar == std::string::npos ? "" : line.substr(bar + 3);
  }
  return entries;
}

/// One folder of recordings and the fixture that they start from.
struct Recordings {
  const char* folder;
  const char* fixture;
};

class PveReplay : public testing::TestWithParam<Recordings> {};

TEST_P(PveReplay, TheLabAnswersAsTheRecordedProxmoxDid) {
  const char* filter = std::getenv("ROCCA_REPLAY");
  const std::string wanted = filter == nullptr ? "" : filter;
  const std::string folder = GetParam().folder;
  text::Value fixture = read_json(test::reference_path(GetParam().fixture));
  // The later recordings of 8.4 were made with the files of 9's.
  if (folder == "pve-more")
    fixture.set("volumes", *read_json(test::reference_path("pve9/fixture.json")).find("volumes"));
  auto differences = read_list("replay_differences.txt");
  std::erase_if(differences,
                [&](const auto& entry) { return !entry.first.starts_with(folder + "/"); });
  std::set<std::string> seen;
  std::size_t all_agreed = 0;
  std::size_t all_steps = 0;
  for (const std::string& path : test::reference_files(folder, ".json")) {
    const text::Value file = read_json(path);
    const text::Value* scenarios = file.find("scenarios");
    if (scenarios == nullptr) continue;
    std::string base = folder + "/" + path.substr(path.rfind('/') + 1);
    base.resize(base.size() - 5);
    std::size_t agreed = 0;
    std::size_t total = 0;
    for (const text::Value& scenario : scenarios->items()) {
      const std::string name = base + "/" + text_of(scenario, "name");
      if (!wanted.empty() && name.find(wanted.substr(0, name.size())) == std::string::npos)
        continue;
      for (const auto& [recorded, problems] :
           Scenario{fixture, required(file, "principals"), scenario, name}.run()) {
        const std::string step = replace_all(recorded, "\n", "\\n");  // one line of the list each
        if (!wanted.empty() && step.find(wanted) == std::string::npos) continue;
        test::count_case();
        ++total;
        seen.insert(step);
        const bool listed = differences.contains(step);
        if (problems.empty()) {
          ++agreed;
          if (listed) ADD_FAILURE() << step << " agrees: take it off the list";
          continue;
        }
        if (!wanted.empty()) fmt::print("{}\n    {}\n", step, join(problems, "\n    "));
        if (!listed) ADD_FAILURE() << step << "\n    " << join(problems, "\n    ");
      }
    }
    if (total > 0) fmt::print("{}: {} of {} steps agree\n", base, agreed, total);
    all_agreed += agreed;
    all_steps += total;
  }
  fmt::print("{}: {} of {} steps agree\n", folder, all_agreed, all_steps);
  for (const auto& [step, reason] : differences) {
    if (wanted.empty() && !seen.contains(step))
      ADD_FAILURE() << step << " is listed but not recorded";
    EXPECT_FALSE(reason.empty()) << step << " has no reason";
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, PveReplay,
                         testing::Values(Recordings{"pve", "pve/fixture.json"},
                                         Recordings{"pve-more", "pve/fixture.json"},
                                         Recordings{"pve9", "pve9/fixture.json"}),
                         [](const auto& each) {
                           return replace_all(std::string(each.param.folder), "-", "_");
                         });

TEST(PveReplayRunner, CountsWhatItDoesNotUnderstandAndGoesOn) {
  const text::Value fixture = read_json(test::reference_path("pve/fixture.json"));
  const text::Value file = text::parse_json(R"({
    "principals": {
      "R": {"kind": "ticket", "user": "root@pam"},
      "X": {"kind": "token", "id": "nobody@pve!none", "privsep": 1},
      "Y": {"kind": "carrier pigeon"},
      "Z": {"kind": "token", "id": "tester@pve!sep", "token_grants": {"/vms": {}}}
    },
    "scenario": {"name": "odd", "steps": [
      {"name": "unknown principal", "request": {"method": "GET", "path": "/version", "auth": "Q"},
       "response": {"status": 200}},
      {"name": "unknown token", "request": {"method": "GET", "path": "/version", "auth": "X"},
       "response": {"status": 200}},
      {"name": "unknown kind", "request": {"method": "GET", "path": "/version", "auth": "Y"},
       "response": {"status": 200}},
      {"name": "grants without privileges",
       "request": {"method": "GET", "path": "/version", "auth": "Z"}, "response": {"status": 200}},
      {"name": "no answer recorded", "request": {"method": "GET", "path": "/version", "auth": "R"}},
      {"name": "no status recorded", "request": {"method": "GET", "path": "/version", "auth": "R"},
       "response": {"reason": "OK"}},
      {"name": "unknown observation", "observe": "weather"},
      {"name": "config of what", "observe": "config-file"},
      {"out_of_band": "somebody moves the rack"},
      {"name": "after all this", "request": {"method": "GET", "path": "/pools", "auth": "R"},
       "response": {"status": 200, "reason": "OK"}}
    ]}})",
                                            "odd.json");
  const auto results =
      Scenario{fixture, required(file, "principals"), required(file, "scenario"), "odd"}.run();
  EXPECT_EQ(results.size(), 10u);
  for (const auto& [step, problems] : results) EXPECT_FALSE(problems.empty()) << step;
  test::count_case(results.size());
}

}  // namespace
}  // namespace rocca::lab::pve
