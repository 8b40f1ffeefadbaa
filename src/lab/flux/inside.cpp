#include "lab/flux/inside.hpp"

#include "lab/sim/network.hpp"
#include "net/server/server.hpp"

#include <fmt/format.h>

namespace rocca::lab::flux {

namespace {

using Then = std::function<void(int, std::string)>;

/// Hands an answer on once; no answer in half a minute is one, too.
class Waiting final : public net::Responder, public std::enable_shared_from_this<Waiting> {
 public:
  explicit Waiting(Then then) : then_(std::move(then)) {}

  void answer(int code, std::string, net::Headers, std::string text, net::Headers) override {
    give(code, std::move(text));
  }
  void begin(int code, std::string, net::Headers) override { status_ = code; }
  void write(std::string bytes) override { body_ += bytes; }
  void finish(net::Headers) override { give(status_, std::move(body_)); }
  void cut() override { give(0, "EOF"); }
  void tunnel(std::string, unsigned) override { cut(); }
  bool gone() const override { return !then_; }
  void on_gone(std::function<void()>) override {}

  void give(int code, std::string text) {
    const Then then = std::exchange(then_, nullptr);
    if (then) then(code, std::move(text));
  }

 private:
  Then then_;
  int status_ = 0;
  std::string body_;
};

}  // namespace

void ask_inside(World& world, const std::string& method, const std::string& url,
                net::Headers headers, std::string body, Then then) {
  const auto parsed = net::Url::parse(url);
  if (!parsed) return then(0, fmt::format("unsupported protocol scheme in \"{}\"", url));
  const auto address = world.network().resolve(parsed->host);
  if (!address) return then(0, fmt::format("dial tcp: lookup {}: no such host", parsed->host));
  const Service* service =
      world.network().is_up(*address) ? world.network().find(*address, parsed->port) : nullptr;
  if (service == nullptr)
    return then(0,
                fmt::format("dial tcp {}:{}: connect: connection refused", *address, parsed->port));
  net::Incoming in;
  in.method = method;
  in.target = parsed->target;
  in.authority = parsed->host;
  in.tls = url.starts_with("https://");
  in.headers = std::move(headers);
  in.headers.add("Host", parsed->host);
  in.body = std::move(body);
  const auto waiting = std::make_shared<Waiting>(std::move(then));
  world.after(std::chrono::seconds{30},
              [waiting] { waiting->give(0, "context deadline exceeded"); });
  const net::Handler handler = service->handler;
  handler(std::move(in), waiting);
}

}  // namespace rocca::lab::flux
