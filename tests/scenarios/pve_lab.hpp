#pragma once

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/pve/datacenter.hpp"
#include "lab/pve/http.hpp"
#include "lab/sim/wire.hpp"
#include "proxmox/failure.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rocca::test {

using Form = std::vector<std::pair<std::string, std::string>>;

/// What a call or a task answered.
struct Said {
  int status = 0;  // 0: a task's exit status
  std::string text;
  std::map<std::string, std::string> errors;
  std::string data;

  proxmox::Failure read() const {
    return status == 0 ? proxmox::classify_task(text) : proxmox::classify(status, text, errors);
  }
  /// Everything it says, parameter errors too.
  std::string all() const {
    std::string out = text;
    for (const auto& [name, why] : errors) out += " " + name + ": " + why;
    return out;
  }
};

/// Three hosts, a directory, thin and thick LVM; a token beside root.
class Lab {
 public:
  Lab() {
    lab::pve::Datacenter::Options options;
    options.cluster = "home";
    dc = std::make_unique<lab::pve::Datacenter>(world, options);
    for (unsigned i = 1; i <= 3; ++i)
      dc->add_node(fmt::format("pve{}", i), fmt::format("10.0.0.{}", i)).bridges["vmbr0"];
    const auto add = [&](const char* id, const char* type) -> lab::pve::Storage& {
      lab::pve::Storage storage;
      storage.id = id;
      storage.type = type;
      storage.content = {"images"};
      if (storage.type == "dir") storage.options["path"] = fmt::format("/mnt/{}", id);
      return dc->storages.emplace(id, storage).first->second;
    };
    add("disks", "dir");
    add("other", "dir");
    add("thin", "lvmthin");
    add("thick", "lvm").total = 10ull << 30;
    lab::pve::Token token;
    token.secret = dc->new_uuid();
    token.privsep = false;
    dc->access.users["admin@pve"].tokens["t"] = token;
    dc->access.grant("admin@pve", "/", dc->access.privileges());
    token_ = "PVEAPIToken=admin@pve!t=" + token.secret;
  }

  net::Headers root() {
    const lab::pve::Ticket ticket = lab::pve::make_ticket(*dc, "root@pam");
    return {{"Cookie", "PVEAuthCookie=" + percent_encode(ticket.ticket)},
            {"CSRFPreventionToken", ticket.csrf}};
  }
  net::Headers token() const { return {{"Authorization", token_}}; }

  Said ask(const std::string& method, const std::string& path, const Form& form = {}) {
    return ask_with(wire, root(), method, path, form);
  }

  Said ask_with(net::Transport& transport, net::Headers headers, const std::string& method,
                const std::string& path, const Form& form = {}) {
    net::Request request;
    request.method = method;
    std::vector<std::string> parts;
    for (const auto& [key, value] : form)
      parts.push_back(percent_encode(key) + "=" + percent_encode(value));
    request.url = fmt::format("https://10.0.0.1:8006/api2/json{}", path);
    if (method == "GET" || method == "DELETE") {
      if (!parts.empty()) request.url += "?" + join(parts, "&");
    } else {
      request.body = join(parts, "&");
      headers.add("Content-Type", "application/x-www-form-urlencoded");
    }
    request.headers = headers;
    request.tls = net::Tls::pinned(dc->find_node("pve1")->fingerprint);
    const net::Answer answer = net::fetch(transport, request);
    Said said{answer.head.status, answer.head.reason, {}, ""};
    if (answer.body.empty()) return said;
    const text::Value body = text::parse_json(answer.body, path);
    if (const text::Value* errors = body.find("errors"))
      for (const text::Entry& entry : errors->entries())
        said.errors[entry.key] = entry.value.text();
    if (const text::Value* data = body.find("data"); data != nullptr && data->is_scalar())
      said.data = data->text();
    return said;
  }

  /// How the task ended that this call started.
  Said task(const std::string& method, const std::string& path, const Form& form = {}) {
    const Said said = ask(method, path, form);
    EXPECT_EQ(said.status, 200) << said.all();
    for (const auto& [name, node] : dc->nodes())
      if (lab::pve::Task* task = node->find_task(said.data)) {
        while (task->running() && world.step()) {
        }
        return {0, task->status, {}, ""};
      }
    ADD_FAILURE() << path << " started no task";
    return {};
  }

  void done(const std::string& method, const std::string& path, const Form& form = {}) {
    EXPECT_EQ(task(method, path, form).text, "OK") << path;
  }
  /// A VM with a disk, on pve1.
  void vm(unsigned id = 100, Form more = {}) {
    Form form{{"vmid", std::to_string(id)}, {"memory", "128"}, {"scsi0", "disks:1,format=qcow2"}};
    form.insert(form.end(), more.begin(), more.end());
    done("POST", "/nodes/pve1/qemu", form);
  }
  void set(const Form& form, unsigned id = 100) {
    EXPECT_EQ(ask("PUT", vm_path(id) + "/config", form).status, 200);
  }
  void run(unsigned id = 100) { done("POST", vm_path(id) + "/status/start"); }
  static std::string vm_path(unsigned id = 100) { return fmt::format("/nodes/pve1/qemu/{}", id); }

  lab::World world;
  std::unique_ptr<lab::pve::Datacenter> dc;
  lab::Wire wire{world};

 private:
  std::string token_;
};

}  // namespace rocca::test
