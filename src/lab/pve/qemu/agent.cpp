// The guest agent, the monitor and the keyboard of a running VM.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

#include <regex>
#include <set>

namespace rocca::lab::pve {

namespace {

constexpr std::int64_t memory_block = 128ll << 20;  // Linux on x86

/// The agent of a running VM; an agent that does not answer costs three seconds.
Routine<Guest> ask_agent(Call& call) {
  {
    const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
    if (vm.find("agent") == nullptr) die("No QEMU guest agent configured");
    if (!is_running(vm)) die(fmt::format("VM {} is not running", vm.id));
    if (const std::optional<Guest> guest = answering_agent(call.dc, vm)) co_return *guest;
  }
  co_await call.sleep(std::chrono::seconds{3});
  die("QEMU guest agent is not running");
}

text::Value interfaces(const Guest& guest) {
  text::Value rows = text::Value::list();
  for (const Guest::Interface& each : guest.interfaces) {
    text::Value addresses = text::Value::list();
    for (const Guest::Address& address : each.addresses)
      addresses.append(object(
          {{"ip-address", string(address.ip)},
           {"ip-address-type", string(address.ip.find(':') == std::string::npos ? "ipv4" : "ipv6")},
           {"prefix", number(address.prefix)}}));
    text::Value statistics = text::Value::map();
    for (const char* way : {"rx", "tx"})
      for (const char* what : {"bytes", "dropped", "errs", "packets"})
        statistics.set(fmt::format("{}-{}", way, what), number(0));
    rows.append(object({{"name", string(each.name)},
                        {"hardware-address", string(to_lower(each.mac))},
                        {"ip-addresses", addresses},
                        {"statistics", statistics}}));
  }
  return rows;
}

text::Value supported_commands(const Guest& guest) {
  static const std::set<std::string> silent{"guest-suspend-hybrid", "guest-suspend-ram",
                                            "guest-suspend-disk", "guest-shutdown"};
  text::Value rows = text::Value::list();
  for (const char* name : {"get-cpustats",
                           "get-diskstats",
                           "ssh-remove-authorized-keys",
                           "ssh-add-authorized-keys",
                           "ssh-get-authorized-keys",
                           "get-devices",
                           "get-osinfo",
                           "get-timezone",
                           "get-users",
                           "get-host-name",
                           "exec",
                           "exec-status",
                           "get-memory-block-info",
                           "set-memory-blocks",
                           "get-memory-blocks",
                           "set-user-password",
                           "get-fsinfo",
                           "get-disks",
                           "set-vcpus",
                           "get-vcpus",
                           "network-get-interfaces",
                           "suspend-hybrid",
                           "suspend-ram",
                           "suspend-disk",
                           "fstrim",
                           "fsfreeze-thaw",
                           "fsfreeze-freeze-list",
                           "fsfreeze-freeze",
                           "fsfreeze-status",
                           "file-flush",
                           "file-seek",
                           "file-write",
                           "file-read",
                           "file-close",
                           "file-open",
                           "shutdown",
                           "info",
                           "set-time",
                           "get-time",
                           "ping",
                           "sync",
                           "sync-delimited"}) {
    const std::string full = fmt::format("guest-{}", name);
    // Only Windows guests can list their devices.
    rows.append(object({{"name", string(full)},
                        {"enabled", text::Value::boolean(full != "guest-get-devices")},
                        {"success-response", text::Value::boolean(!silent.contains(full))}}));
  }
  return object({{"supported_commands", rows}, {"version", string(guest.agent_version)}});
}

text::Value answer_of(Call& call, const Guest& guest, const std::string& command) {
  if (command == "ping") return text::Value::map();
  if (command == "network-get-interfaces") return interfaces(guest);
  if (command == "info") return supported_commands(guest);
  if (command == "get-host-name") return object({{"host-name", string(guest.host_name)}});
  if (command == "get-osinfo") {
    text::Value os = text::Value::map();
    for (const auto& [key, value] : guest.os) os.set(key, string(value));
    return os;
  }
  if (command == "get-time")
    return number(
        std::chrono::duration_cast<std::chrono::nanoseconds>(call.world().now().time_since_epoch())
            .count());
  if (command == "get-timezone") return object({{"offset", number(0)}, {"zone", string("UTC")}});
  if (command == "get-vcpus") {
    text::Value rows = text::Value::list();
    const unsigned count = cpu_count(call.dc.get_vm(call.vmid(), call.node), call.node);
    for (unsigned i = 0; i < count; ++i)
      rows.append(object({{"logical-id", number(i)},
                          {"online", text::Value::boolean(true)},
                          {"can-offline", text::Value::boolean(i > 0)}}));
    return rows;
  }
  if (command == "get-memory-block-info") return object({{"size", number(memory_block)}});
  if (command == "get-memory-blocks") {
    text::Value rows = text::Value::list();
    const auto bytes = static_cast<std::int64_t>(memory_of(call.dc.get_vm(call.vmid(), call.node)));
    for (std::int64_t i = 0; i * memory_block < bytes; ++i)
      rows.append(object({{"phys-index", number(i)},
                          {"online", text::Value::boolean(true)},
                          {"can-offline", text::Value::boolean(true)}}));
    return rows;
  }
  // There is no file system in get-fsinfo, so there is none to freeze or trim.
  if (command == "fsfreeze-status") return string("thawed");
  if (command == "fsfreeze-freeze" || command == "fsfreeze-thaw") return number(0);
  if (command == "fstrim") return object({{"paths", text::Value::list()}});
  if (command == "get-fsinfo" || command == "get-users") return text::Value::list();
  return object(
      {{"error", object({{"class", string("CommandNotFound")},
                         {"desc", string(fmt::format("The command guest-{} has not been found",
                                                     command))}})}});
}

Routine<text::Value> simple_command(Call& call) {
  std::string command = call.method.path.substr(call.method.path.rfind('/') + 1);
  if (command == "agent") command = call.params.text("command");
  const Guest guest = co_await ask_agent(call);
  if (command == "shutdown") {
    end_guest_later(call.dc, call.vmid(), call.dc.timing.guest_shutdown);
    co_return object({{"result", text::Value::null()}});
  }
  co_return object({{"result", answer_of(call, guest, command)}});
}

Routine<text::Value> agent_index(Call&) {
  text::Value rows = text::Value::list();
  for (const char* name : {"exec",
                           "exec-status",
                           "file-read",
                           "file-write",
                           "fsfreeze-freeze",
                           "fsfreeze-status",
                           "fsfreeze-thaw",
                           "fstrim",
                           "get-fsinfo",
                           "get-host-name",
                           "get-memory-block-info",
                           "get-memory-blocks",
                           "get-osinfo",
                           "get-time",
                           "get-timezone",
                           "get-users",
                           "get-vcpus",
                           "info",
                           "network-get-interfaces",
                           "ping",
                           "set-user-password",
                           "shutdown",
                           "suspend-disk",
                           "suspend-hybrid",
                           "suspend-ram"})
    rows.append(object({{"name", string(name)}}));
  co_return rows;
}

Routine<text::Value> exec(Call& call) {
  const Guest guest = co_await ask_agent(call);
  std::vector<std::string> command = call.params.list("command");
  const auto result = guest.run ? guest.run(command) : std::nullopt;
  if (!result)
    die(
        fmt::format("Agent error: Guest agent command failed, error was 'Failed to execute child "
                    "process “{}” (No such file or directory)'",
                    command.empty() ? "" : command.front()));
  Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  const std::int64_t pid = vm.next_guest_pid++;
  vm.guest_processes[pid] = {result->code, result->out};
  co_return object({{"pid", number(pid)}});
}

Routine<text::Value> exec_status(Call& call) {
  const Guest guest = co_await ask_agent(call);
  Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  const std::int64_t pid = call.params.integer("pid");
  const auto found = vm.guest_processes.find(pid);
  if (found == vm.guest_processes.end())
    die(fmt::format("Agent error: PID {} does not exist", pid));
  const auto [code, out] = found->second;
  vm.guest_processes.erase(found);  // its end can be read once
  text::Value row = object({{"exited", number(1)}, {"exitcode", number(code)}});
  if (!out.empty()) {
    row.set("out-data", string(out));
    row.set("out-truncated", number(0));
  }
  co_return row;
}

Routine<text::Value> file_read(Call& call) {
  const Guest guest = co_await ask_agent(call);
  const std::string name = call.params.text("file");
  const auto found = guest.files.find(name);
  if (found == guest.files.end())
    die(fmt::format("Agent error: failed to open file '{}' (mode: 'r'): No such file or directory",
                    name));
  co_return object({{"content", string(found->second)},
                    {"bytes-read", number(static_cast<std::int64_t>(found->second.size()))}});
}

Routine<text::Value> file_write(Call& call) {
  const Guest guest = co_await ask_agent(call);
  die(fmt::format("Agent error: failed to open file '{}' (mode: 'wb'): Read-only file system",
                  call.params.text("file")));
}

Routine<text::Value> set_password(Call& call) {
  const Guest guest = co_await ask_agent(call);
  die("Agent error: cannot find 'passwd' program in PATH");
}

Routine<text::Value> monitor(Call& call) {
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  const std::string command = call.params.text("command");
  const bool harmless = command.starts_with("info") || command.starts_with("help");
  if (!harmless) call.require("/", {"Sys.Modify"});
  if (!is_running(vm)) co_return string(fmt::format("ERROR: VM {} not running\n", vm.id));
  if (command == "info status")
    co_return string(vm.power == Vm::Power::Paused ? "VM status: paused\r\n"
                                                   : "VM status: running\r\n");
  co_return string(fmt::format("unknown command: '{}'\r\n", command.substr(0, command.find(' '))));
}

bool is_key(const std::string& name) {
  static const std::regex form(
      "[a-z0-9]|f([1-9]|1[0-2])|kp_[a-z0-9]+|shift(_r)?|alt(_r)?|ctrl(_r)?|ret|spc|esc|tab|"
      "backspace|delete|insert|home|end|pgup|pgdn|up|down|left|right|caps_lock|num_lock|"
      "scroll_lock|print|pause|sysrq|minus|equal|comma|dot|slash|backslash|semicolon|apostrophe|"
      "bracket_left|bracket_right|grave_accent|less|menu|meta_l|meta_r|power|sleep|wake|0x[0-9a-f]"
      "+");
  return std::regex_match(name, form);
}

Routine<text::Value> send_key(Call& call) {
  only_root(call, {"skiplock"});
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  if (!is_running(vm)) die(fmt::format("VM {} not running", vm.id));
  for (const std::string& key : split(call.params.text("key"), '-'))
    if (!is_key(key)) throw Failure{400, "", {}, false};  // QEMU's complaint has no text left
  co_return text::Value::null();
}

}  // namespace

std::vector<Route> qemu_agent_routes() {
  std::vector<Route> routes{
      {"GET /nodes/{node}/qemu/{vmid}/agent", agent_index},
      {"POST /nodes/{node}/qemu/{vmid}/agent", simple_command},
      {"POST /nodes/{node}/qemu/{vmid}/agent/exec", exec},
      {"GET /nodes/{node}/qemu/{vmid}/agent/exec-status", exec_status},
      {"GET /nodes/{node}/qemu/{vmid}/agent/file-read", file_read},
      {"POST /nodes/{node}/qemu/{vmid}/agent/file-write", file_write},
      {"POST /nodes/{node}/qemu/{vmid}/agent/set-user-password", set_password},
      {"POST /nodes/{node}/qemu/{vmid}/monitor", monitor},
      {"PUT /nodes/{node}/qemu/{vmid}/sendkey", send_key},
  };
  for (const char* command : {"POST /nodes/{node}/qemu/{vmid}/agent/ping",
                              "POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-status",
                              "POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-freeze",
                              "POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-thaw",
                              "POST /nodes/{node}/qemu/{vmid}/agent/fstrim",
                              "POST /nodes/{node}/qemu/{vmid}/agent/shutdown",
                              "POST /nodes/{node}/qemu/{vmid}/agent/suspend-disk",
                              "POST /nodes/{node}/qemu/{vmid}/agent/suspend-hybrid",
                              "POST /nodes/{node}/qemu/{vmid}/agent/suspend-ram",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-fsinfo",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-host-name",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-memory-block-info",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-memory-blocks",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-osinfo",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-time",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-timezone",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-users",
                              "GET /nodes/{node}/qemu/{vmid}/agent/get-vcpus",
                              "GET /nodes/{node}/qemu/{vmid}/agent/info",
                              "GET /nodes/{node}/qemu/{vmid}/agent/network-get-interfaces"})
    routes.push_back({command, simple_command});
  return routes;
}

}  // namespace rocca::lab::pve
