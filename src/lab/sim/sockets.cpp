#include "lab/sim/sockets.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "net/curl_transport.hpp"

#include <fmt/format.h>

#include <future>

namespace rocca::lab {

namespace {

/// `host:port`, `[v6]:port`.
std::optional<std::pair<std::string, unsigned>> split_authority(const std::string& authority) {
  const std::size_t colon = authority.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto port = parse_uint(authority.substr(colon + 1));
  std::string host = authority.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);
  if (!port || *port == 0 || *port > 65535 || host.empty()) return std::nullopt;
  return std::pair{host, static_cast<unsigned>(*port)};
}

}  // namespace

Sockets::Sockets(World& world, Clock& clock, Options options)
    : world_(world),
      clock_(clock),
      options_(options),
      real_start_(clock.tick()),
      world_start_(world.now()),
      real_since_(real_start_),
      world_since_(world_start_) {
  if (!options_.download_from.empty())
    outside_ =
        std::make_unique<Outside>(std::make_unique<net::CurlTransport>(), options_.download_from,
                                  [this](std::function<void()> task) {
                                    server_.post([this, task = std::move(task)] {
                                      advance();
                                      task();
                                      pump();
                                    });
                                  });
  net::Listen proxy;
  proxy.address = options_.proxy_address;
  proxy.port = options_.proxy_port;
  proxy.handler = [this](net::Incoming request, std::shared_ptr<net::Responder> responder) {
    connect(request, responder);
  };
  proxy_ = server_.listen(std::move(proxy));
  run([this] {
    if (options_.speed != 1)
      world_.set_outside([this] { return world_start_ + (clock_.tick() - real_start_); });
    world_.network().on_change([this] {
      // Whoever changes the network is in the middle of an event: listeners follow right after it.
      if (std::exchange(dirty_, true)) return;
      server_.post([this] { reconcile(); });
    });
    world_.network().set_outside(outside_.get());
    world_.network().set_doors([this](const std::string& address) { return loopback_of(address); });
    reconcile();
    pump();
  });
}

Sockets::~Sockets() {
  stop();
  world_.network().on_change(nullptr);
  world_.network().set_doors(nullptr);
  world_.set_outside(nullptr);
  world_.network().set_outside(nullptr);
  outside_.reset();  // its threads post to the server
}

void Sockets::stop() {
  server_.stop();
}

std::string Sockets::proxy() const {
  return fmt::format("http://{}:{}", options_.proxy_address, server_.port(proxy_));
}

void Sockets::run(const std::function<void()>& task) {
  std::promise<void> done;
  server_.post([&] {
    try {
      task();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

std::optional<Sockets::Door> Sockets::find(const std::string& host, unsigned port) {
  std::optional<Door> door;
  run([&] {
    const auto address = world_.network().resolve(host);
    if (!address) return;
    const Network::Place* place = world_.network().find_place(*address, port);
    if (place == nullptr) return;
    if (const auto found = open_.find(place->id); found != open_.end()) door = found->second.door;
  });
  return door;
}

void Sockets::advance() {
  const auto passed = std::chrono::duration<double>(clock_.tick() - real_since_) * options_.speed;
  const Instant target = world_since_ + std::chrono::duration_cast<Duration>(passed);
  if (target > world_.now()) world_.run_until(target);
}

void Sockets::set_speed(double speed) {
  run([&] {
    advance();
    real_since_ = clock_.tick();
    world_since_ = world_.now();
    options_.speed = speed;
    pump();  // what is due comes at another time now
  });
}

void Sockets::pump() {
  advance();
  const auto due = world_.next_due();
  if (!due) return;
  const auto wait = std::chrono::duration<double>(*due - world_.now()) / options_.speed;
  const std::uint64_t mine = ++pumps_;
  server_.after(std::max(std::chrono::duration_cast<Duration>(wait),
                         Duration{std::chrono::microseconds{100}}),
                [this, mine] {
                  if (mine == pumps_) pump();
                });
}

std::string Sockets::loopback_of(const std::string& address) {
  if (address.starts_with("127.")) return address;
  const auto found = loopback_.find(address);
  if (found != loopback_.end()) return found->second;
  const std::size_t number = loopback_.size() + 1;
  const std::string mine =
      fmt::format("127.{}.{}.{}", options_.block, number / 250, number % 250 + 1);
  return loopback_.emplace(address, mine).first->second;
}

/// Makes the listeners what the network says: opened, closed, machines that are down, new
/// certificates.
void Sockets::reconcile() {
  dirty_ = false;
  std::map<Network::Id, Network::Place> wanted;
  for (const Network::Place& place : world_.network().places())
    if (world_.network().is_up(place.address)) wanted.emplace(place.id, place);
  for (auto it = open_.begin(); it != open_.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    if (it->second.id) server_.close(*it->second.id);
    it = open_.erase(it);
  }
  for (const auto& [id, place] : wanted) {
    const Service* service = world_.network().find(id);
    if (service->elsewhere) {
      Open open;
      open.door = {service->elsewhere->first, service->elsewhere->second};
      open_.insert_or_assign(id, open);
      continue;
    }
    const std::string certificate =
        service->secured() ? service->tls->identity.certificate_pem : "";
    if (const auto found = open_.find(id); found != open_.end()) {
      if (service->secured() && found->second.certificate != certificate)
        server_.replace_tls(*found->second.id, *service->tls);
      found->second.certificate = certificate;
      continue;
    }
    net::Listen listen;
    listen.address = loopback_of(place.address);
    listen.port = place.port;
    listen.tls = service->secured();
    listen.handler = [this, place_id = id](net::Incoming request,
                                           std::shared_ptr<net::Responder> responder) {
      serve(place_id, std::move(request), std::move(responder));
    };
    Open open;
    open.certificate = certificate;
    open.door.address = listen.address;
    try {
      open.id = server_.listen(listen);
    } catch (const Error&) {
      // A privileged port, or another lab is here already: any port will do, the proxy knows the
      // way.
      listen.port = 0;
      open.id = server_.listen(listen);
    }
    open.door.port = server_.port(*open.id);
    open_.emplace(id, open);
  }
}

void Sockets::serve(Network::Id place, net::Incoming request,
                    std::shared_ptr<net::Responder> responder) {
  advance();
  const Service* service = world_.network().find(place);
  if (service == nullptr) return responder->cut();
  if (const Network::Place* where = world_.network().find_place(place)) {
    request.local_address = where->address;
    request.local_port = where->port;
  }
  world_.note(fmt::format("{} {} {}", service->name, request.method, request.target));
  if (options_.seen) options_.seen(*service, request);
  if (options_.drops && options_.drops(*service, request)) return responder->cut();
  const net::Handler handler = service->handler;
  handler(std::move(request), std::move(responder));
  pump();
}

void Sockets::connect(const net::Incoming& request,
                      const std::shared_ptr<net::Responder>& responder) {
  advance();
  const auto refuse = [&](int status, const char* reason, const std::string& text) {
    responder->answer(status, reason, {{"Content-Type", "text/plain"}}, text + "\n", {});
  };
  if (request.method != "CONNECT")
    return refuse(405, "Method Not Allowed", "this proxy leads into the lab by CONNECT only");
  const auto authority = split_authority(request.target);
  const auto address = authority ? world_.network().resolve(authority->first) : std::nullopt;
  if (!address)
    return refuse(403, "Forbidden",
                  fmt::format("{} is outside of the simulated world", request.target));
  if (const Network::Place* place = world_.network().find_place(*address, authority->second))
    if (const auto open = open_.find(place->id); open != open_.end())
      return responder->tunnel(open->second.door.address, open->second.door.port);
  refuse(502, "Bad Gateway", fmt::format("nobody listens at {}", request.target));
}

}  // namespace rocca::lab
