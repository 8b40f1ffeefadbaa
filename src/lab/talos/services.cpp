#include "lab/talos/node.hpp"
#include "proto/events.pb.h"
#include "proto/machine.pb.h"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace pb = rocca::proto::machine;

namespace {

void stamp(Instant when, google::protobuf::Timestamp& to) {
  const auto nanos = when.time_since_epoch().count();
  to.set_seconds(nanos / 1'000'000'000);
  to.set_nanos(static_cast<int>(nanos % 1'000'000'000));
}

pb::ServiceStateEvent::Action action_of(const std::string& state) {
  if (state == "Preparing") return pb::ServiceStateEvent::PREPARING;
  if (state == "Waiting") return pb::ServiceStateEvent::WAITING;
  if (state == "Running") return pb::ServiceStateEvent::RUNNING;
  if (state == "Stopping") return pb::ServiceStateEvent::STOPPING;
  if (state == "Finished") return pb::ServiceStateEvent::FINISHED;
  if (state == "Failed") return pb::ServiceStateEvent::FAILED;
  if (state == "Skipped") return pb::ServiceStateEvent::SKIPPED;
  if (state == "Starting") return pb::ServiceStateEvent::STARTING;
  return pb::ServiceStateEvent::INITIALIZED;
}

}  // namespace

void TalosNode::set_service(const std::string& id, const std::string& state, std::string message) {
  const bool known = services_.contains(id);
  Service& service = services_[id];
  if (!known) order_.push_back(id);
  if (state == "Running" && service.state != "Running") {
    service.unknown = true;
    service.healthy = false;
    service.last_message = "Unknown";
    service.last_change = world_.now();
  }
  if (state == "Starting") {
    service.last_message.clear();
    service.unknown = true;
    service.healthy = false;
    service.last_change = world_.now();
  }
  service.state = state;
  pb::ServiceStateEvent event;
  event.set_service(id);
  event.set_action(action_of(state));
  event.set_message(message);
  event.mutable_health()->set_unknown(service.unknown);
  event.mutable_health()->set_healthy(service.healthy);
  stamp(service.last_change, *event.mutable_health()->mutable_last_change());
  add_event("ServiceStateEvent", event.SerializeAsString());
  service.events.push_back({std::move(message), state, world_.now()});
  changed_.wake_all();
  publish();
}

void TalosNode::set_health(const std::string& id, bool healthy, std::string message) {
  const auto found = services_.find(id);
  if (found == services_.end()) return;
  Service& service = found->second;
  service.unknown = false;
  service.healthy = healthy;
  service.last_message = message;
  service.last_change = world_.now();
  service.events.push_back({healthy ? "Health check successful" : "Health check failed: " + message,
                            service.state, world_.now()});
  changed_.wake_all();
  publish();
}

Routine<void> TalosNode::start_service(std::string id, std::string waiting, std::string started,
                                       Duration time, Stop stop) {
  set_service(id, "Starting", "Starting service");
  if (!waiting.empty()) set_service(id, "Waiting", "Waiting for " + waiting);
  co_await world_.sleep(time, stop.get());
  set_service(id, "Preparing", "Running pre state");
  set_service(id, "Preparing", "Creating service runner");
  set_service(id, "Running", std::move(started));
  co_await world_.sleep(std::chrono::milliseconds{20}, stop.get());
  set_health(id, true);
}

std::string TalosNode::next_xid() {
  // xid: time, machine, process, counter in base32 of its own alphabet.
  constexpr char alphabet[] = "0123456789abcdefghijklmnopqrstuv";
  std::string bytes;
  const auto seconds = static_cast<std::uint32_t>(world_.unix_time());
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(seconds >> shift));
  bytes += std::string("\x4c\x61\x62\x04\xd2", 5);
  ++xids_;
  for (int shift = 16; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(xids_ >> shift));
  std::string out;
  unsigned buffer = 0, bits = 0;
  for (const char c : bytes) {
    buffer = buffer << 8 | static_cast<unsigned char>(c);
    bits += 8;
    while (bits >= 5) {
      out.push_back(alphabet[buffer >> (bits - 5) & 31]);
      bits -= 5;
    }
    buffer &= (1u << bits) - 1;
  }
  if (bits != 0) out.push_back(alphabet[buffer << (5 - bits) & 31]);
  return out;
}

void TalosNode::add_event(std::string type, std::string data, std::string actor) {
  events_.push_back({std::move(type), std::move(data), next_xid(), std::move(actor)});
  if (events_.size() > 4000) events_.erase(events_.begin());
  events_changed_.wake_all();
}

void TalosNode::sequence_event(const std::string& sequence, int action, const std::string& actor) {
  pb::SequenceEvent event;
  event.set_sequence(sequence);
  event.set_action(static_cast<pb::SequenceEvent::Action>(action));
  add_event("SequenceEvent", event.SerializeAsString(), actor);
}

void TalosNode::phase_event(const std::string& phase, int action, const std::string& actor) {
  pb::PhaseEvent event;
  event.set_phase(phase);
  event.set_action(static_cast<pb::PhaseEvent::Action>(action));
  add_event("PhaseEvent", event.SerializeAsString(), actor);
}

void TalosNode::walk(const std::string& phase, const std::string& task, const std::string& actor) {
  phase_event(phase, 0, actor);
  task_event(task, 0, actor);
  task_event(task, 1, actor);
  phase_event(phase, 1, actor);
}

void TalosNode::task_event(const std::string& task, int action, const std::string& actor) {
  pb::TaskEvent event;
  event.set_task(task);
  event.set_action(static_cast<pb::TaskEvent::Action>(action));
  add_event("TaskEvent", event.SerializeAsString(), actor);
}

Routine<void> TalosNode::service_list(std::shared_ptr<Call> call) {
  pb::ServiceListResponse response;
  pb::ServiceList& list = *response.add_messages();
  for (const auto& [id, service] : services_) {
    pb::ServiceInfo& info = *list.add_services();
    info.set_id(id);
    info.set_state(service.state);
    // Talos keeps the last 16.
    const std::size_t first = service.events.size() > 16 ? service.events.size() - 16 : 0;
    for (std::size_t i = first; i < service.events.size(); ++i) {
      pb::ServiceEvent& event = *info.mutable_events()->add_events();
      event.set_msg(service.events[i].message);
      event.set_state(service.events[i].state);
      stamp(service.events[i].when, *event.mutable_ts());
    }
    info.mutable_health()->set_unknown(service.unknown);
    info.mutable_health()->set_healthy(service.healthy);
    info.mutable_health()->set_last_message(service.last_message);
    stamp(service.last_change, *info.mutable_health()->mutable_last_change());
  }
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::service_start(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ServiceStartRequest>();
  if (!services_.contains(request.id()))
    refuse(Code::Unknown, fmt::format("service \"{}\" not defined", request.id()));
  pb::ServiceStartResponse response;
  response.add_messages()->set_resp(fmt::format("Service \"{}\" started", request.id()));
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::service_stop(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ServiceStopRequest>();
  if (!services_.contains(request.id()))
    refuse(Code::Unknown, fmt::format("service \"{}\" not defined", request.id()));
  if (!request.id().starts_with("ext-"))
    refuse(Code::Unknown,
           fmt::format("service \"{}\" doesn't support stop operation via API", request.id()));
  set_service(request.id(), "Finished", "Service finished successfully");
  pb::ServiceStopResponse response;
  response.add_messages()->set_resp(fmt::format("Service \"{}\" stopped", request.id()));
  call->reply->send(response.SerializeAsString());
  co_return;
}

Routine<void> TalosNode::service_restart(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::ServiceRestartRequest>();
  if (!services_.contains(request.id()))
    refuse(Code::Unknown, fmt::format("service \"{}\" not defined", request.id()));
  if (request.id() != "kubelet" && !request.id().starts_with("ext-"))
    refuse(Code::Unknown,
           fmt::format("service \"{}\" doesn't support restart operation via API", request.id()));
  set_service(request.id(), "Stopping",
              fmt::format("Sending SIGTERM to task {} (PID {}, container {})", request.id(), pid_,
                          request.id()));
  co_await world_.sleep(timing_.service, &call->interrupt);
  set_service(request.id(), "Finished", "Service finished successfully");
  world_.spawn(contained(start_service(
      request.id(), "",
      fmt::format("Started task {} (PID {}) for container {}", request.id(), ++pid_, request.id()),
      timing_.service, new_stop())));
  pb::ServiceRestartResponse response;
  response.add_messages()->set_resp(fmt::format("Service \"{}\" restarted", request.id()));
  call->reply->send(response.SerializeAsString());
}

Routine<void> TalosNode::events(std::shared_ptr<Call> call) {
  const auto request = call->parse<pb::EventsRequest>();
  const auto send = [&](const MachineEvent* event) {
    pb::Event out;
    out.mutable_data();
    if (event != nullptr) {
      out.mutable_data()->set_type_url("talos/runtime/machine." + event->type);
      out.mutable_data()->set_value(event->data);
      out.set_id(event->id);
      out.set_actor_id(event->actor);
    } else {
      out.set_id(next_xid());
    }
    call->reply->send(out.SerializeAsString());
  };
  send(nullptr);
  const std::string& tail_id = request.tail_id();
  if (!tail_id.empty() &&
      (tail_id.size() != 20 ||
       tail_id.find_first_not_of("0123456789abcdefghijklmnopqrstuv") != std::string::npos))
    refuse(Code::Unknown, "error parsing tail_id: xid: invalid ID");
  std::string last = events_.empty() ? "" : events_.back().id;
  const auto wanted = [&](const MachineEvent& event) {
    return request.with_actor_id().empty() || event.actor == request.with_actor_id();
  };
  std::size_t from = events_.size();
  if (request.tail_events() != 0) {
    const auto tail = static_cast<std::size_t>(std::max(request.tail_events(), 0));
    from = request.tail_events() < 0 || tail > events_.size() ? 0 : events_.size() - tail;
  } else if (!tail_id.empty()) {
    const auto found = std::find_if(events_.begin(), events_.end(),
                                    [&](const MachineEvent& each) { return each.id > tail_id; });
    from = static_cast<std::size_t>(found - events_.begin());
  } else if (request.tail_seconds() != 0) {
    from = 0;
  }
  for (std::size_t i = from; i < events_.size(); ++i)
    if (wanted(events_[i])) send(&events_[i]);
  while (true) {
    co_await world_.wait(events_changed_, {}, &call->interrupt);
    std::vector<MachineEvent> fresh;  // ids are made of time and a counter: they sort
    for (const MachineEvent& event : events_)
      if (event.id > last) fresh.push_back(event);
    for (const MachineEvent& event : fresh) {
      last = event.id;
      if (wanted(event)) send(&event);
    }
  }
}

}  // namespace rocca::lab::talos
