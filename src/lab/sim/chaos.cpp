#include "lab/sim/chaos.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <array>

namespace rocca::lab {

namespace {

class NoSink final : public net::BodySink {
 public:
  bool write(std::string_view) override { return true; }
};

net::Response made_up(int status, const char* reason, net::BodySink& sink) {
  net::Response response;
  response.status = status;
  response.reason = reason;
  response.version = net::HttpVersion::Http1;
  response.headers.add("Content-Type", "text/html");
  if (status == 429 || status == 503) response.headers.add("Retry-After", "2");
  sink.begin(response);
  sink.write(fmt::format("<html><body><h1>{} {}</h1></body></html>", status, reason));
  return response;
}

}  // namespace

bool Chaos::strikes(unsigned thousandths) {
  if (entropy_.below(1000) >= thousandths) return false;
  ++struck_;
  return true;
}

net::Response Chaos::exchange(const net::Request& request, net::BodySink& sink,
                              std::stop_token stop) {
  // Every exchange draws the same number of times, so that one option's chance does not shift the
  // others'.
  const bool before = strikes(options_.dropped_before);
  const bool after = strikes(options_.dropped_after);
  const bool busy = strikes(options_.busy);
  const bool broken = strikes(options_.broken);
  const bool late = strikes(options_.delayed);
  const std::uint64_t draw = entropy_.word();
  if (late && options_.longest_delay.count() > 0)
    pause(world_, parker_,
          Duration{static_cast<Duration::rep>(
              draw % static_cast<std::uint64_t>(options_.longest_delay.count()))});
  if (before) throw Error(Fault::Unreachable, "the connection could not be made");
  if (busy)
    return draw % 2 == 0 ? made_up(429, "Too Many Requests", sink)
                         : made_up(503, "Service Unavailable", sink);
  if (broken) {
    constexpr std::array<std::pair<int, const char*>, 3> kinds{
        {{500, "Internal Server Error"}, {502, "Bad Gateway"}, {504, "Gateway Timeout"}}};
    const auto& [status, reason] = kinds[draw % kinds.size()];
    return made_up(status, reason, sink);
  }
  if (after) {
    NoSink nowhere;
    inner_.exchange(request, nowhere, stop);
    throw Error(Fault::Lost, "the connection was reset before the answer came");
  }
  return inner_.exchange(request, sink, stop);
}

}  // namespace rocca::lab
