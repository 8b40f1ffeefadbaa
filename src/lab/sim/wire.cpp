#include "lab/sim/wire.hpp"

#include "base/error.hpp"
#include "lab/services/internet.hpp"
#include "lab/sim/pki.hpp"

#include <fmt/format.h>

#include <deque>
#include <exception>

namespace rocca::lab {

void InlineParker::park(World& world, Pending& pending) {
  while (!pending.over())
    if (!world.step())
      throw Error(Fault::Bug,
                  "the simulated world has come to rest while somebody waits for an answer");
}

void pause(World& world, Parker& parker, Duration duration) {
  Pending pending;
  const World::Timer timer = world.after(duration, [&pending] { pending.finish(); });
  try {
    parker.park(world, pending);
  } catch (...) {
    world.cancel(timer);
    throw;
  }
}

/// One exchange as both sides see it: the caller waits on `pending`, the service writes through the
/// responder, and everything between them takes latency. Whoever comes late finds it over.
class Wire::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  explicit Exchange(World& owner) : world(owner) {}

  void fail(Fault fault, std::string message) {
    if (over) return;
    error = Error(fault, std::move(message));
    end();
  }

  void end() {
    if (over) return;
    over = true;
    pending.finish();
  }

  /// From the service to the caller: one way of latency, in order, and only while the machine is
  /// up.
  void send(std::function<void()> arrive) {
    auto self = shared_from_this();
    const Instant when =
        std::max(world.now() + world.network().draw_latency(address), last_arrival);
    last_arrival = when;
    world.at(when, [self, arrive = std::move(arrive)] {
      if (self->over || !self->world.network().is_up(self->address)) return;
      self->heard();
      arrive();
    });
  }

  void heard() {
    if (!idle_timeout) return;
    if (idle_timer) world.cancel(*idle_timer);
    auto self = shared_from_this();
    idle_timer = world.after(*idle_timeout, [self] {
      self->idle_timer.reset();
      self->fail(Fault::Lost, fmt::format("{} fell silent", self->where));
    });
  }

  void leave() {
    if (left) return;
    left = true;
    over = true;
    if (idle_timer) world.cancel(*idle_timer);
    idle_timer.reset();
    if (gone && !answered) std::exchange(gone, nullptr)();
  }

  World& world;
  Pending pending;
  std::string address;
  std::string where;  // host:port, for messages
  std::optional<Duration> idle_timeout;
  std::optional<World::Timer> idle_timer;
  Instant last_arrival{};
  bool over = false;      // the caller needs nothing more
  bool left = false;      // the caller has returned
  bool answered = false;  // the service has said its last word
  bool begun = false;     // head is valid
  net::Response head;
  std::deque<std::string> chunks;
  std::optional<Error> error;
  std::function<void()> gone;
};

class Wire::WireResponder final : public net::Responder {
 public:
  explicit WireResponder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~WireResponder() override {
    // A handler that drops its responder has closed the connection.
    if (!exchange_->answered) cut();
  }
  WireResponder(const WireResponder&) = delete;
  WireResponder& operator=(const WireResponder&) = delete;

  void answer(int status, std::string reason, net::Headers headers, std::string body,
              net::Headers trailers) override {
    if (exchange_->answered || begun_) return;
    begin(status, std::move(reason), std::move(headers));
    if (!body.empty()) write(std::move(body));
    finish(std::move(trailers));
  }

  void begin(int status, std::string reason, net::Headers headers) override {
    if (exchange_->answered || begun_) return;
    begun_ = true;
    exchange_->world.note(fmt::format("{} answers {} {}", exchange_->where, status, reason));
    exchange_->send([state = exchange_.get(), status, reason = std::move(reason),
                     headers = std::move(headers)] {
      state->head.status = status;
      if (state->head.version != net::HttpVersion::Http2) state->head.reason = reason;
      state->head.headers = headers;
      state->begun = true;
      state->pending.finish();
    });
  }

  void write(std::string bytes) override {
    if (exchange_->answered || !begun_) return;
    exchange_->send([state = exchange_.get(), bytes = std::move(bytes)] {
      state->chunks.push_back(bytes);
      state->pending.finish();
    });
  }

  void finish(net::Headers trailers) override {
    if (exchange_->answered || !begun_) return;
    exchange_->answered = true;
    exchange_->send([state = exchange_.get(), trailers = std::move(trailers)] {
      state->head.trailers = trailers;
      state->end();
    });
  }

  void cut() override {
    if (exchange_->answered) return;
    exchange_->answered = true;
    exchange_->world.note(fmt::format("{} cuts the connection", exchange_->where));
    exchange_->send([state = exchange_.get()] {
      state->fail(
          Fault::Lost,
          fmt::format("{} closed the connection before the answer was complete", state->where));
    });
  }

  void tunnel(std::string, unsigned) override { cut(); }

  bool gone() const override { return exchange_->left; }
  void on_gone(std::function<void()> then) override {
    if (exchange_->left)
      then();
    else
      exchange_->gone = std::move(then);
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  bool begun_ = false;
};

Wire::Wire(World& world) : world_(world), parker_(inline_) {}

std::size_t Wire::peak_in_flight(const std::string& service) const {
  const auto found = load_.find(service);
  return found == load_.end() ? 0 : found->second.peak;
}

namespace {

std::string read_body(const net::Request& request, net::Headers& headers) {
  if (const auto* text = std::get_if<std::string>(&request.body)) {
    if (!headers.find("Content-Length"))
      headers.add("Content-Length", std::to_string(text->size()));
    return *text;
  }
  if (const auto* source = std::get_if<std::shared_ptr<net::BodySource>>(&request.body)) {
    std::string body;
    std::string buffer(64 * 1024, '\0');
    while (const std::size_t got = (*source)->read({buffer.data(), buffer.size()}))
      body.append(buffer, 0, got);
    if ((*source)->size())
      headers.add("Content-Length", std::to_string(body.size()));
    else
      headers.add("Transfer-Encoding", "chunked");
    return body;
  }
  return {};
}

}  // namespace

/// The TLS handshake as facts: who refuses whom, and what each learns of the other.
std::optional<std::string> Wire::handshake(const net::ServerTls& server, const net::Tls& client,
                                           const std::string& host, net::Incoming& incoming) {
  const Instant now = world_.now();
  net::Tls trust = client;
  if (client.trust == net::Tls::Trust::System) {
    trust.authority_pem = public_roots(world_.network());
    if (!trust.authority_pem.empty()) trust.trust = net::Tls::Trust::Authority;
  }
  if (auto reason = chains_.refuse_server(server.identity.certificate_pem, trust, host, now))
    return fmt::format("certificate refused: {}", *reason);
  if (server.clients == net::ServerTls::Clients::Ignore) return std::nullopt;
  if (!client.identity) {
    if (server.clients == net::ServerTls::Clients::Require)
      return "the server wants a client certificate";
    return std::nullopt;
  }
  const std::string& mine = client.identity->certificate_pem;
  if (auto reason = chains_.refuse_client(mine, server.client_authority_pem, now))
    return fmt::format("the server refused our certificate: {}", *reason);
  if (server.exact_client_usage && !chains_.look(mine).only_client_usage)
    return "the server refused our certificate: bad certificate";
  incoming.peer_certificate = chains_.look(mine).der;
  return std::nullopt;
}

net::Response Wire::exchange(const net::Request& request, net::BodySink& sink,
                             std::stop_token stop) {
  const auto url = net::Url::parse(request.url);
  if (!url) throw Error(Fault::Usage, fmt::format("'{}' is not an http or https URL", request.url));
  if (stop.stop_requested()) throw Error(Fault::Interrupted, "interrupted");
  Network& network = world_.network();
  const auto address = network.resolve(url->host);
  if (!address) throw Error(Fault::Unreachable, fmt::format("the name {} is not known", url->host));

  auto state = std::make_shared<Exchange>(world_);
  state->address = *address;
  state->where = fmt::format("{}:{}", url->host, url->port);
  state->idle_timeout = request.idle_timeout;
  ++exchanges_;

  auto incoming = std::make_shared<net::Incoming>();
  incoming->method = request.method;
  incoming->target = url->target;
  incoming->authority = state->where;
  incoming->headers = request.headers;
  if (!incoming->headers.find("Host")) incoming->headers.add("Host", state->where);
  if (request.authorization)
    incoming->headers.add("Authorization", std::string(request.authorization->reveal()));
  incoming->body = read_body(request, incoming->headers);
  incoming->local_address = *address;
  incoming->local_port = url->port;
  incoming->peer_address = "192.0.2.254";

  bool sent = false;
  std::string load_name;
  std::vector<World::Timer> timers;
  if (request.timeout)
    timers.push_back(world_.after(*request.timeout, [state, &sent, limit = *request.timeout] {
      const auto waited = std::chrono::duration<double>(limit).count();
      state->fail(sent ? Fault::Lost : Fault::Unreachable,
                  fmt::format("{} did not answer within {}s", state->where, waited));
    }));
  const bool up = network.is_up(*address);
  const Duration there = up ? network.draw_latency(*address) : Duration{};
  if (!up || there * 2 > request.connect_timeout) {
    timers.push_back(world_.after(request.connect_timeout, [state] {
      state->fail(Fault::Unreachable, fmt::format("{}: connection timed out", state->where));
    }));
  } else {
    timers.push_back(world_.after(there * 3, [&, state, incoming] {  // SYN, SYN+ACK, request
      if (!network.is_up(state->address)) return;                    // the timeouts decide
      const Service* service = network.find(state->address, url->port);
      if (service == nullptr)
        return state->fail(Fault::Unreachable, state->where + ": connection refused");
      const bool secure = url->scheme == "https";
      if (secure && !service->secured())
        return state->fail(Fault::Unreachable, state->where + " does not speak TLS");
      incoming->tls = secure;
      const bool http2 =
          request.version == net::HttpVersion::Http2 ||
          (request.version == net::HttpVersion::Any && secure && service->tls->offer_http2);
      incoming->version = http2 ? net::HttpVersion::Http2 : net::HttpVersion::Http1;
      state->head.version = incoming->version;
      if (secure) {
        state->head.peer = chains_.look(service->tls->identity.certificate_pem).fingerprint;
        if (auto reason = handshake(*service->tls, request.tls, url->host, *incoming))
          return state->fail(Fault::Denied, fmt::format("{}: {}", state->where, *reason));
      }
      sent = true;
      load_name = service->name;
      Load& load = load_[load_name];
      load.peak = std::max(load.peak, ++load.now);
      world_.note(fmt::format("{} {} {}", service->name, incoming->method, incoming->target));
      state->heard();
      const net::Handler handler =
          service->handler;  // the service may close itself while it answers
      handler(std::move(*incoming), std::make_shared<WireResponder>(state));
    }));
  }

  const std::stop_callback interrupt{stop,
                                     [state] { state->fail(Fault::Interrupted, "interrupted"); }};
  // However it ends. Half of all exchanges knock at closed doors: nothing is caught on the way.
  struct Leaving {
    Wire& wire;
    Exchange& exchange;
    const std::vector<World::Timer>& timers;
    const std::string& load_name;
    ~Leaving() {
      for (const World::Timer timer : timers) wire.world_.cancel(timer);
      if (!load_name.empty()) --wire.load_[load_name].now;
      exchange.leave();
    }
  } const leaving{*this, *state, timers, load_name};
  bool told = false;
  while (true) {
    if (state->begun && !told) {
      told = true;
      sink.begin(state->head);
    }
    bool enough = false;
    while (!enough && !state->chunks.empty()) {
      const std::string chunk = std::move(state->chunks.front());
      state->chunks.pop_front();
      enough = !sink.write(chunk);
    }
    if (state->error) throw *state->error;
    if (enough || state->over) break;
    state->pending.rearm();
    parker_.park(world_, state->pending);
  }
  return state->head;
}

}  // namespace rocca::lab
