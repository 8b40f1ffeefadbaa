#include "base/strings.hpp"
#include "lab/pve/datacenter.hpp"

#include <fmt/format.h>

#include <charconv>

namespace rocca::lab::pve {

void Locks::Guard::release() {
  if (locks_ == nullptr) return;
  const auto found = locks_->locks_.find(name_);
  if (found != locks_->locks_.end()) {
    Lock& lock = *found->second;
    if (mode_ == Mode::Exclusive)
      lock.exclusive = false;
    else
      --lock.shared;
    lock.freed.wake_all();
  }
  locks_ = nullptr;
}

std::optional<Locks::Guard> Locks::try_take(const std::string& name, Mode mode) {
  auto& slot = locks_[name];
  if (!slot) slot = std::make_unique<Lock>();
  if (slot->exclusive || (mode == Mode::Exclusive && slot->shared > 0)) return std::nullopt;
  if (mode == Mode::Exclusive)
    slot->exclusive = true;
  else
    ++slot->shared;
  return Guard{this, name, mode};
}

Routine<std::optional<Locks::Guard>> Locks::take(World& world, std::string name, Duration timeout,
                                                 Interrupt* interrupt, Mode mode) {
  const Instant deadline = world.now() + timeout;
  while (true) {
    if (auto guard = try_take(name, mode)) co_return std::move(guard);
    if (world.now() >= deadline) co_return std::nullopt;
    Signal& freed = locks_.at(name)->freed;
    co_await world.wait(freed, deadline, interrupt);
  }
}

bool Locks::held(const std::string& name) const {
  const auto found = locks_.find(name);
  return found != locks_.end() && (found->second->exclusive || found->second->shared > 0);
}

namespace {

std::optional<std::uint64_t> parse_hex(std::string_view text, std::size_t least, std::size_t most) {
  if (text.size() < least || text.size() > most) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'))) return std::nullopt;
    value = value * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'A' + 10);
  }
  return value;
}

}  // namespace

std::optional<Upid> Upid::parse(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 9 || parts[0] != "UPID" || !parts[8].empty()) return std::nullopt;
  const auto pid = parse_hex(parts[2], 8, 8);
  const auto pstart = parse_hex(parts[3], 8, 9);
  const auto start = parse_hex(parts[4], 8, 8);
  if (!pid || !pstart || !start || parts[1].empty() || parts[5].empty() || parts[7].empty())
    return std::nullopt;
  for (const std::string& part : parts)
    if (part.find_first_of("/ \n") != std::string::npos) return std::nullopt;
  return Upid{parts[1],
              static_cast<unsigned>(*pid),
              static_cast<unsigned>(*pstart),
              static_cast<std::int64_t>(*start),
              parts[5],
              parts[6],
              parts[7]};
}

std::string to_string(const Upid& upid) {
  return fmt::format("UPID:{}:{:08X}:{:08X}:{:08X}:{}:{}:{}:", upid.node, upid.pid, upid.pstart,
                     upid.start, upid.type, upid.id, upid.user);
}

void Worker::warn(const std::string& line) {
  ++task.warnings;
  log("WARN: " + line);
}

Node::Node(Datacenter& dc, std::string host, std::string ip, unsigned number)
    : name(std::move(host)),
      address(std::move(ip)),
      id(number),
      booted(dc.world.now() - std::chrono::hours{50}),
      dc_(dc) {}

std::string Node::start_task(std::string type, std::string task_id, const Caller& caller,
                             TaskBody body) {
  const auto jiffies =
      std::chrono::duration_cast<std::chrono::milliseconds>(dc_.world.now() - booted).count() / 10;
  auto task = std::make_unique<Task>();
  next_pid_ += 2 + static_cast<unsigned>(dc_.chance("pid/" + name).below(7));
  task->upid = {name,
                next_pid_,
                static_cast<unsigned>(jiffies),
                dc_.world.unix_time(),
                std::move(type),
                std::move(task_id),
                caller.id};
  task->text = to_string(task->upid);
  task->body = std::move(body);
  Task& started = *task;
  tasks_.push_back(std::move(task));
  dc_.write_log(*this, caller.id, started.upid.pid, "starting task " + started.text);
  dc_.world.note(fmt::format("{} starts task {} {} of {}", name, started.upid.type, started.upid.id,
                             caller.id));
  if (tasks_.size() >
      2000) {  // the archive keeps about as many; running ones are never the oldest for long
    const auto oldest = std::find_if(tasks_.begin(), tasks_.end(),
                                     [](const auto& each) { return !each->running(); });
    if (oldest != tasks_.end()) tasks_.erase(oldest);
  }
  dc_.world.after(dc_.timing.worker, [this, &started, caller] {
    if (started.running())
      dc_.world.spawn(run_task(started, caller));
    else
      started.body = nullptr;
  });
  return started.text;
}

Routine<void> Node::run_task(Task& task, Caller caller) {
  Worker worker{dc_, *this, caller, task};
  std::optional<std::string> error;
  bool at_work = false;
  const std::optional<TaskFault> fault =
      dc_.task_fault ? dc_.task_fault(*this, task) : std::nullopt;
  try {
    if (fault && fault->hangs) {
      Signal never;
      co_await dc_.world.wait(never, {}, &task.interrupt);
    }
    if (fault && !fault->error.empty() && !fault->after_the_work) die(fault->error);
    at_work = true;
    co_await task.body(worker);
    if (fault && !fault->error.empty()) die(fault->error);
  } catch (const Failure& failure) {
    error = failure.task_text();
  } catch (const Interrupted& interrupted) {
    error = interrupted.reason;
  }
  task.body = nullptr;             // and what it holds: one that never began to work has a lock
  if (!task.running()) co_return;  // the host went down meanwhile
  if (error && !at_work) give_back_id(task);
  if (error) {
    const std::string line = replace_all(*error, "\n", " ");
    task.log.push_back("TASK ERROR: " + *error);
    task.status = line;
  } else if (task.warnings > 0) {
    task.log.push_back(fmt::format("TASK WARNINGS: {}", task.warnings));
    task.status = fmt::format("WARNINGS: {}", task.warnings);
  } else {
    task.log.push_back("TASK OK");
    task.status = "OK";
  }
  task.end = dc_.world.unix_time();
  dc_.write_log(*this, task.upid.user, task.upid.pid,
                fmt::format("end task {} {}", task.text, task.status), error ? 3 : 6);
  dc_.world.note(
      fmt::format("{} ends task {} {}: {}", name, task.upid.type, task.upid.id, task.status));
  task.ended.wake_all();
}

/// A create that fails gives back the id that its call had reserved, however early it fails.
void Node::give_back_id(const Task& task) {
  if (task.upid.type != "qmcreate" && task.upid.type != "qmrestore") return;
  const auto vm = dc_.vms.find(static_cast<unsigned>(parse_uint(task.upid.id).value_or(0)));
  if (vm == dc_.vms.end()) return;
  const std::string* lock = vm->second.find("lock");
  if (lock != nullptr && *lock == "create") dc_.vms.erase(vm);
}

Task* Node::find_task(const std::string& upid) {
  for (auto task = tasks_.rbegin(); task != tasks_.rend(); ++task)
    if ((*task)->text == upid) return task->get();
  return nullptr;
}

void Node::power_off() {
  online = false;
  for (const auto& task : tasks_)
    if (task->running()) {
      task->end = dc_.world.unix_time();
      task->status = "unexpected status";
      task->interrupt.raise("host lost power");
      task->ended.wake_all();
    }
  for (const auto& [order, process] : processes_) process->raise("host lost power");
  for (auto& [number, vm] : dc_.vms)
    if (vm.node == name && vm.power != Vm::Power::Stopped) {
      vm.power = Vm::Power::Stopped;
      vm.pid.reset();
      vm.running.clear();
      if (dc_.on_power) dc_.on_power(vm, false);
    }
}

void Node::power_on() {
  online = true;
  booted = dc_.world.now();
}

}  // namespace rocca::lab::pve
