#include "state/terraform_test_server.hpp"

#include "base/encoding.hpp"
#include "net/date.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <utility>

namespace rocca::state::test {

namespace {

std::string id_of(const std::string& info) {
  const text::Value value = text::parse_json(info, "lock info");
  const text::Value* id = value.find("ID");
  return id != nullptr ? id->text() : "";
}

std::string id_in(const std::string& target) {
  const std::size_t at = target.find("ID=");
  return at == std::string::npos ? "" : percent_decode(target.substr(at + 3));
}

}  // namespace

TerraformServer::TerraformServer(Habits habits)
    : habits_(std::move(habits)), clock_(VirtualClock{}.now() + std::chrono::hours{3}) {
  net::Listen listen;
  listen.address = "127.0.0.1";
  listen.handler = [this](net::Incoming request, const std::shared_ptr<net::Responder>& out) {
    handle(request, *out);
  };
  listener_ = server_.listen(std::move(listen));
}

TerraformServer::~TerraformServer() {
  server_.stop();
}

std::string TerraformServer::address() const {
  return fmt::format("http://127.0.0.1:{}/state/blue", server_.port(listener_));
}

HttpAccess TerraformServer::access() const {
  HttpAccess access;
  access.address = address();
  access.lock_address = address() + "/lock";
  return access;
}

std::unique_ptr<Store> TerraformServer::open(const Clock& clock, Sealing sealing) {
  return http_store(transport_, clock, access(), std::move(sealing));
}

void TerraformServer::trick(Trick trick) {
  const std::lock_guard guard(mutex_);
  trick_ = trick;
}

void TerraformServer::die_at(std::uint64_t edge) {
  const std::lock_guard guard(mutex_);
  die_at_ = edge;
}

bool TerraformServer::revive() {
  const std::lock_guard guard(mutex_);
  die_at_.reset();
  return std::exchange(trick_, Trick::None) == Trick::Deaf;
}

void TerraformServer::advance(Duration by) {
  const std::lock_guard guard(mutex_);
  clock_.advance(by);
}

std::uint64_t TerraformServer::written() const {
  const std::lock_guard guard(mutex_);
  return written_;
}

std::vector<TerraformServer::Seen> TerraformServer::seen() const {
  const std::lock_guard guard(mutex_);
  return seen_;
}

std::optional<std::string> TerraformServer::state() const {
  const std::lock_guard guard(mutex_);
  return state_;
}

void TerraformServer::put(std::optional<std::string> state) {
  const std::lock_guard guard(mutex_);
  state_ = std::move(state);
}

std::optional<std::string> TerraformServer::lock() const {
  const std::lock_guard guard(mutex_);
  return lock_;
}

void TerraformServer::answer_next(int status, std::string body) {
  const std::lock_guard guard(mutex_);
  scripted_ = {status, std::move(body)};
}

void TerraformServer::handle(const net::Incoming& request, net::Responder& out) {
  const std::lock_guard guard(mutex_);
  seen_.push_back({request.method, request.target, request.body});
  if (die_at_ && *die_at_ < 2 && trick_ != Trick::Deaf) {
    if (*die_at_ == 1) act(request);
    trick_ = Trick::Deaf;
  } else if (die_at_ && *die_at_ >= 2) {
    *die_at_ -= 2;
  }
  if (trick_ == Trick::Deaf) return out.cut();
  const bool writes = (request.method == "POST" || request.method == "PUT") &&
                      !request.target.starts_with("/state/blue/lock");
  const Trick trick = writes ? std::exchange(trick_, Trick::None) : Trick::None;
  if (trick == Trick::LoseRequest) return out.cut();
  const auto [status, body] = act(request);
  if (trick == Trick::GoDark) trick_ = Trick::Deaf;
  if (trick == Trick::LoseAnswer || trick == Trick::GoDark) return out.cut();
  out.answer(status, "", {{"Date", net::to_http_date(clock_.now())}}, body);
}

std::pair<int, std::string> TerraformServer::act(const net::Incoming& request) {
  if (scripted_) {
    const auto answer = *scripted_;
    scripted_.reset();
    return answer;
  }
  if (!habits_.authorization.empty() &&
      request.headers.find("Authorization").value_or("") != habits_.authorization)
    return {401, "who are you?"};
  const std::string& method = request.method;
  const bool of_lock = request.target.starts_with("/state/blue/lock");
  if (of_lock && (method == "LOCK" || method == "POST")) {
    const bool ours = lock_ && id_of(*lock_) == id_of(request.body);
    if (lock_ && !(ours && habits_.relock)) return {423, *lock_};
    lock_ = request.body;
    return {200, ""};
  }
  if (of_lock) {
    if (lock_ && id_of(*lock_) != id_of(request.body)) return {409, *lock_};
    lock_.reset();
    return {200, ""};
  }
  if (method == "GET") return state_ ? std::pair{200, *state_} : std::pair{404, std::string{}};
  if (lock_ && id_of(*lock_) != id_in(request.target)) return {409, *lock_};
  if (method == "DELETE") {
    state_.reset();
    return {200, ""};
  }
  written_ += request.body.size();
  state_ = request.body;
  return {200, ""};
}

}  // namespace rocca::state::test
