#include "talos/waits.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::talos {

namespace {

Progress done() {
  return {true, ""};
}
Progress waiting(std::string what) {
  return {false, std::move(what)};
}

/// Does it try again and again, or no more? A service that is on its way says nothing of worth.
bool is_in_trouble(const Service& service) {
  return service.state == "Failed" ||
         (service.state == "Waiting" && service.last_message.starts_with("Error "));
}

/// `booting: time (not in sync), services (etcd not running)`, and why that service does not run.
std::string describe(const Sight& sight) {
  std::vector<std::string> reasons;
  for (const UnmetCondition& unmet : sight.status->unmet)
    reasons.push_back(unmet.reason.empty() ? unmet.name
                                           : fmt::format("{} ({})", unmet.name, unmet.reason));
  const std::string stage = to_string(sight.status->stage);
  std::string text = reasons.empty() ? stage : fmt::format("{}: {}", stage, join(reasons, ", "));
  for (const Service& service : sight.services)
    if (is_in_trouble(service) && text.find(service.id) != std::string::npos)
      text +=
          fmt::format("; {} is {}: {}", service.id, to_lower(service.state), service.last_message);
  return text;
}

Progress at_the_door(const Sight& sight, std::string_view wanted) {
  switch (sight.door) {
    case Door::Closed:
      return waiting(sight.told.empty() ? "the Talos API to answer"
                                        : fmt::format("the Talos API to answer ({})", sight.told));
    case Door::Maintenance:
      return waiting(fmt::format("{}; the node is in maintenance mode", wanted));
    case Door::Foreign:
      throw Error(Fault::Conflict, "the node runs a configuration of another cluster" +
                                       (sight.told.empty() ? "" : " (" + sight.told + ")"))
          .hint(
              "check the address; a node that should be ours must be reset first, which rocca "
              "never does unasked");
    case Door::Ours:
      break;
  }
  return waiting(std::string(wanted));
}

const Service* find_service(const Sight& sight, std::string_view id) {
  const auto found = std::find_if(sight.services.begin(), sight.services.end(),
                                  [&](const Service& service) { return service.id == id; });
  return found == sight.services.end() ? nullptr : &*found;
}

Progress service_up(const Sight& sight, const std::string& id, bool healthy) {
  const Service* service = find_service(sight, id);
  if (service == nullptr) return waiting(id + " to be started");
  if (service->state == "Failed")
    return waiting(fmt::format("{}, which failed: {}", id, service->last_message));
  if (service->state != "Running")
    return waiting(fmt::format("{} to run (now {}{}{})", id, to_lower(service->state),
                               service->last_message.empty() ? "" : ": ", service->last_message));
  if (healthy && service->health_known && !service->healthy)
    return waiting(fmt::format("{} to be healthy ({})", id, service->last_message));
  if (healthy && !service->health_known) return waiting(id + " to be healthy (not known yet)");
  return done();
}

/// Where nobody is at home, or somebody with another key.
Door door_of(const Failure& failure) {
  switch (failure.reason) {
    case Reason::NotUp:
    case Reason::TimedOut:
      return Door::Closed;
    case Reason::InMaintenance:
    case Reason::NotSupported:
      return Door::Maintenance;
    case Reason::NotInMaintenance:
    case Reason::WrongIdentity:
      return Door::Foreign;
    default:
      return Door::Closed;
  }
}

/// What a node says without a certificate: its maintenance status, that it wants one, or nothing.
Sight look_without_certificate(net::Transport& transport, const Access& secure,
                               std::stop_token stop) {
  Access open = Access::maintenance(secure.address);
  open.port = secure.port;
  open.connect_timeout = secure.connect_timeout;
  Client client{transport, std::move(open), std::move(stop)};
  Sight sight;
  try {
    auto answer = client.find_machine_status();
    if (auto* status = std::get_if<MachineStatus>(&answer)) {
      sight.door = Door::Maintenance;
      sight.status = std::move(*status);
    } else {
      const auto& failure = std::get<Failure>(answer);
      sight.door = door_of(failure);
      sight.told = failure.text;
    }
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    // It asked for a certificate in the handshake: it has a configuration, and ours did not fit it.
    sight.door = error.fault() == Fault::Denied ? Door::Foreign : Door::Closed;
    sight.told = error.message();
  }
  return sight;
}

}  // namespace

const char* to_string(Door door) noexcept {
  switch (door) {
    case Door::Closed:
      return "closed";
    case Door::Maintenance:
      return "maintenance";
    case Door::Ours:
      return "ours";
    case Door::Foreign:
      return "foreign";
  }
  return "?";
}

namespace {

/// What a node says to our certificate; nothing: its own is not of our CA, or it does not take
/// ours.
std::optional<Sight> look_with_certificate(net::Transport& transport, const Access& secure,
                                           std::stop_token stop, Detail detail) {
  Client client{transport, secure, std::move(stop)};
  try {
    auto answer = client.find_machine_status();
    if (auto* status = std::get_if<MachineStatus>(&answer)) {
      Sight sight;
      sight.door = Door::Ours;
      sight.status = std::move(*status);
      if (detail == Detail::Services) sight.services = client.services();
      return sight;
    }
    const auto& failure = std::get<Failure>(answer);
    if (failure.reason == Reason::NotUp || failure.reason == Reason::TimedOut)
      return Sight{Door::Closed, std::nullopt, {}, failure.text};
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    if (error.fault() != Fault::Denied)
      return Sight{Door::Closed, std::nullopt, {}, error.message()};
  }
  return std::nullopt;
}

}  // namespace

Sight look(net::Transport& transport, const Access& secure, std::stop_token stop, Detail detail) {
  if (auto sight = look_with_certificate(transport, secure, stop, detail)) return *sight;
  // A certificate that is not of our CA: maintenance mode has one of its own, another cluster too.
  Sight without = look_without_certificate(transport, secure, stop);
  if (without.door != Door::Foreign) return without;
  // Between the two knocks it may have left maintenance mode, with the configuration we gave it.
  const auto sight = look_with_certificate(transport, secure, std::move(stop), detail);
  return sight && sight->door == Door::Ours ? *sight : without;
}

std::optional<Sight> look_through(net::Transport& transport, const Access& access,
                                  std::stop_token stop) {
  Client client{transport, access, std::move(stop)};
  // Whoever passes it on knocks at a silent node for up to twenty seconds.
  client.set_deadline(access.connect_timeout);
  auto answer = client.find_machine_status();
  auto* status = std::get_if<MachineStatus>(&answer);
  if (status == nullptr) return std::nullopt;
  return Sight{Door::Ours, std::move(*status), {}, ""};
}

Progress until_maintenance(const Sight& sight) {
  if (sight.door == Door::Maintenance) return done();
  if (sight.door == Door::Ours)
    return waiting("maintenance mode; the node already runs our configuration");
  return at_the_door(sight, "maintenance mode");
}

Progress until_secure(const Sight& sight) {
  return sight.door == Door::Ours
             ? done()
             : at_the_door(sight, "the node to come back with its configuration");
}

Progress until_running(const Sight& sight) {
  if (sight.door != Door::Ours) return at_the_door(sight, "the node to run");
  if (!sight.status) return waiting("the node's status");
  if (sight.status->stage == Stage::Running) return done();
  return waiting(describe(sight));
}

Progress until_etcd(const Sight& sight) {
  if (sight.door != Door::Ours) return at_the_door(sight, "etcd");
  return service_up(sight, "etcd", /*healthy=*/true);
}

Progress until_bootstrappable(const Sight& sight) {
  if (sight.door != Door::Ours) return at_the_door(sight, "the node to take a bootstrap");
  // Talos itself waits for CRI to be healthy, for a second at the most, and then refuses.
  return service_up(sight, "cri", /*healthy=*/true);
}

bool maybe_bootstrapped(const Sight& sight) {
  const Service* etcd = find_service(sight, "etcd");
  const Service* cri = find_service(sight, "cri");
  if (etcd == nullptr || cri == nullptr) return true;
  if (etcd->started == Instant{} || cri->ran == Instant{}) return true;
  return etcd->started > cri->ran;
}

Progress until_ready(const Sight& sight) {
  const Progress running = until_running(sight);
  if (!running.done) return running;
  return sight.status->ready ? done() : waiting(describe(sight));
}

}  // namespace rocca::talos
