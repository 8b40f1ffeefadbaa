#include "state/http_store.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "secrets/crypto.hpp"
#include "state/holder.hpp"
#include "state/leased_lock.hpp"
#include "state/server_clock.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace rocca::state {

namespace {

using text::Value;

constexpr int ok = 200;
constexpr int conflict = 409;
constexpr int locked = 423;

bool held_by_somebody(int status) {
  return status == conflict || status == locked;
}

/// The first of the body's words, for a message.
std::string excerpt(const std::string& body) {
  const std::string_view text = trim(body);
  if (text.empty()) return "";
  return fmt::format(": {}", text.substr(0, std::min<std::size_t>(text.size(), 200)));
}

/// Terraform's lock info. `Info` is for whoever reads it; ours says until when the lock is good.
constexpr std::string_view until_mark = "rocca, until ";

std::string lock_info(const Holder& holder, bool expires) {
  Value info = Value::map();
  info.set("ID", Value::string(holder.id));
  info.set("Operation", Value::string(holder.doing));
  info.set("Info",
           Value::string(expires ? fmt::format("{}{}", until_mark, to_string(holder.until)) : ""));
  info.set("Who", Value::string(holder.who));
  info.set("Version", Value::string("rocca"));
  info.set("Created", Value::string(to_string(holder.since)));
  info.set("Path", Value::string(""));
  return text::emit_json(info);
}

/// Nothing where a server does not say who holds it.
std::optional<Holder> parse_lock_info(const std::string& body) {
  try {
    const Value info = text::parse_json(body, "lock");
    const auto text = [&](std::string_view key) {
      const Value* value = info.find(key);
      return value != nullptr && value->is_string() ? value->text() : std::string{};
    };
    Holder holder;
    holder.id = text("ID");
    holder.who = text("Who");
    holder.doing = text("Operation");
    holder.since = parse_instant(text("Created")).value_or(Instant{});
    holder.until = Instant::max();
    const std::string mark = text("Info");
    if (mark.starts_with(until_mark))
      holder.until =
          parse_instant(std::string_view{mark}.substr(until_mark.size())).value_or(Instant::max());
    if (holder.id.empty()) return std::nullopt;
    return holder;
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;  // not JSON: the lock's holder is unknown
    return std::nullopt;
  }
}

/// One server, as both the state and its lock talk to it.
class Server {
 public:
  Server(net::Transport& transport, const Clock& clock, HttpAccess access)
      : transport_(transport), clock_(clock), access_(std::move(access)) {
    for (const std::string* url :
         {&access_.address, &access_.lock_address, &access_.unlock_address})
      if (!url->empty() && !net::Url::parse(*url))
        throw Error(Fault::Usage, fmt::format("'{}' is no http(s) address of a state", *url));
    if (access_.unlock_address.empty()) access_.unlock_address = access_.lock_address;
  }

  const HttpAccess& access() const { return access_; }
  FarClock& clock() { return clock_; }
  std::string describe() const { return "the state at " + access_.address; }

  net::Answer send(const std::string& method, const std::string& url, std::string body = "") {
    net::Request request;
    request.method = method;
    request.url = url;
    request.tls = access_.tls;
    request.plain_http = access_.plain_http;
    if (!access_.username.empty()) {
      std::string pair = fmt::format("{}:{}", access_.username, access_.password.reveal());
      request.authorization = Secret("Basic " + to_base64(pair));
      wipe(pair);
    }
    if (!body.empty()) {
      request.headers.add("Content-Type", "application/json");
      request.body = std::move(body);
    }
    net::Answer answer = net::fetch(transport_, request);
    clock_.heard(answer.head.headers);
    return answer;
  }

  /// An answer that is none of those that the caller knows.
  [[noreturn]] void fail(const net::Answer& answer, std::string_view doing, bool writing) const {
    const int status = answer.head.status;
    const std::string message =
        fmt::format("{} {} answered {}{}", doing, describe(), status, excerpt(answer.body));
    if (status == 401 || status == 403)
      throw Error(Fault::Denied, message).hint("check `state.http.username` and its password");
    if (status == 429) throw Error(Fault::Busy, message);
    // Whether a gateway's error came before or after the server acted cannot be seen.
    if (status >= 500) throw Error(writing ? Fault::Lost : Fault::Unreachable, message);
    throw Error(Fault::Rejected, message);
  }

 private:
  net::Transport& transport_;
  FarClock clock_;
  HttpAccess access_;
};

std::string with_id(const std::string& address, const std::string& id) {
  if (id.empty()) return address;
  const char mark = address.find('?') == std::string::npos ? '?' : '&';
  return fmt::format("{}{}ID={}", address, mark, percent_encode(id));
}

/// What both the holder of the lock and the writer of the state know of it.
struct Hold {
  std::string id;
  Duration lease{};
  bool renewable = false;
  std::atomic<bool> lost{false};
  std::atomic<Duration::rep> until{0};
};

/// LOCK, and again LOCK: 200 takes or renews, 409 and 423 bring the holder's lock info.
class HttpLock final : public Lock {
 public:
  HttpLock(std::shared_ptr<Server> server, std::shared_ptr<Hold> hold, Holder holder)
      : server_(std::move(server)), hold_(std::move(hold)), holder_(std::move(holder)) {}
  HttpLock(const HttpLock&) = delete;
  HttpLock& operator=(const HttpLock&) = delete;

  ~HttpLock() override {
    if (hold_->lost || server_->access().lock_address.empty()) return;
    try {
      server_->send(server_->access().unlock_method, server_->access().unlock_address,
                    lock_info(holder_, hold_->renewable));
    } catch (const Error&) {
      // ignored: a destructor cannot throw. The lock expires where the server supports it.
    }
  }

  void renew() override {
    if (hold_->lost) throw taken_over(server_->describe(), std::nullopt);
    if (server_->access().lock_address.empty()) return;
    Holder next = holder_;
    next.until = server_->clock().now() + hold_->lease;
    net::Answer answer;
    try {
      answer = server_->send(server_->access().lock_method, server_->access().lock_address,
                             lock_info(next, hold_->renewable));
      if (answer.head.status != ok && !held_by_somebody(answer.head.status))
        server_->fail(answer, "renewing the lock of", /*writing=*/true);
    } catch (const Error& error) {
      const Instant until{Duration{hold_->until.load()}};
      if (!may_retry(error.fault()) || (hold_->renewable && server_->clock().now() >= until)) throw;
      return;
    }
    if (held_by_somebody(answer.head.status)) {
      const auto by = parse_lock_info(answer.body);
      // A server that does not say whose it is means, to the one who locked it, that it is held.
      if (by && by->id != hold_->id) {
        hold_->lost = true;
        throw taken_over(server_->describe(), by);
      }
    }
    hold_->until = next.until.time_since_epoch().count();
  }

 private:
  std::shared_ptr<Server> server_;
  std::shared_ptr<Hold> hold_;
  const Holder holder_;
};

class HttpShelf final : public Shelf {
 public:
  explicit HttpShelf(std::shared_ptr<Server> server) : server_(std::move(server)) {}

  std::string describe() const override { return server_->describe(); }
  bool adds() const override { return false; }

  Content read() override {
    Content content;
    content.state = get();
    seen_ = digest(content.state);
    return content;
  }

  void write(std::string_view state) override {
    if (digest(get()) != seen_)
      throw Error(Fault::Conflict, fmt::format("{} was changed by somebody else", describe()))
          .hint("somebody else worked on this cluster meanwhile; run again, it goes on from there");
    const auto hold = hold_.lock();
    const net::Answer answer =
        server_->send(server_->access().update_method,
                      with_id(server_->access().address, lock_id(hold)), std::string{state});
    const int status = answer.head.status;
    if (status != ok && status != 201 && status != 204) refuse(answer, hold, "writing");
    seen_ = digest(std::string{state});
  }

  void add(std::string_view, std::uint64_t, std::uint64_t) override {
    throw Error(Fault::Bug, "there is no journal in Terraform's protocol");
  }

  void erase() override {
    const auto hold = hold_.lock();
    const net::Answer answer =
        server_->send("DELETE", with_id(server_->access().address, lock_id(hold)));
    const int status = answer.head.status;
    if (status != ok && status != 204 && status != 404) refuse(answer, hold, "deleting");
    seen_ = digest(std::nullopt);
  }

  std::unique_ptr<Lock> lock(const Holder& holder, bool force) override {
    auto hold = std::make_shared<Hold>();
    hold->id = holder.id;
    const Duration asked = holder.until - holder.since;
    hold->lease = asked > Duration{} ? asked : LeasedLocks::default_lease;
    Holder mine = holder;
    if (!server_->access().lock_address.empty()) {
      take(mine, *hold, force);
      // Locking again tells whether this server lets a holder renew. Where it does not, the lock
      // must not carry a time, or it would look dead while its holder lives.
      hold->renewable = try_lock(mine, *hold, /*expires=*/true).head.status == ok;
      if (!hold->renewable) {
        unlock(lock_info(mine, true));
        if (const net::Answer answer = try_lock(mine, *hold, /*expires=*/false);
            answer.head.status != ok)
          throw locked_by(describe(), parse_lock_info(answer.body).value_or(Holder{}), way_on({}));
      }
    }
    hold_ = hold;
    return std::make_unique<HttpLock>(server_, std::move(hold), std::move(mine));
  }

  /// The protocol has no question for it: a lock that is got is given back at once. One who asks
  /// while it holds the lock knows the answer.
  std::optional<Holder> holder() override {
    if (server_->access().lock_address.empty()) return std::nullopt;
    Holder probe;
    probe.id = fmt::format("probe-{}", server_->clock().now().time_since_epoch().count());
    probe.doing = "status";
    probe.since = server_->clock().now();
    probe.until = probe.since + std::chrono::seconds{5};
    const net::Answer answer = server_->send(
        server_->access().lock_method, server_->access().lock_address, lock_info(probe, true));
    if (answer.head.status == ok) {
      unlock(lock_info(probe, true));
      return std::nullopt;
    }
    if (!held_by_somebody(answer.head.status))
      server_->fail(answer, "asking for the lock of", true);
    const Holder found = parse_lock_info(answer.body).value_or(Holder{});
    if (expired(found)) return std::nullopt;
    return found;
  }

  void need_lock() override {
    const auto hold = hold_.lock();
    if (!hold) throw Error(Fault::Bug, fmt::format("{} is written without its lock", describe()));
    if (hold->lost) throw taken_over(describe(), std::nullopt);
    if (!hold->renewable || server_->clock().now() < Instant{Duration{hold->until.load()}}) return;
    Holder mine;
    mine.id = hold->id;
    const net::Answer answer = try_lock(mine, *hold, true);
    if (answer.head.status == ok) return;
    hold->lost = true;
    throw taken_over(describe(), parse_lock_info(answer.body));
  }

 private:
  static std::string digest(const std::optional<std::string>& text) {
    return text ? secrets::crypto::sha256(*text) : "";
  }

  std::string lock_id(const std::shared_ptr<Hold>& hold) const {
    return hold && !server_->access().lock_address.empty() ? hold->id : "";
  }

  std::optional<std::string> get() {
    net::Answer answer = server_->send("GET", server_->access().address);
    const int status = answer.head.status;
    if (status == 204 || status == 404 || (status == ok && answer.body.empty()))
      return std::nullopt;
    if (status != ok) server_->fail(answer, "reading", /*writing=*/false);
    return std::move(answer.body);
  }

  [[noreturn]] void refuse(const net::Answer& answer, const std::shared_ptr<Hold>& hold,
                           std::string_view doing) {
    if (held_by_somebody(answer.head.status)) {
      if (hold) hold->lost = true;
      throw taken_over(describe(), parse_lock_info(answer.body));
    }
    server_->fail(answer, doing, /*writing=*/true);
  }

  bool expired(const Holder& holder) const {
    return holder.until != Instant::max() &&
           server_->clock().now() > holder.until + LeasedLocks::grace;
  }

  std::string way_on(const std::optional<Holder>& holder) const {
    if (holder && holder->until != Instant::max())
      return fmt::format(
          "wait until that run is over; if it is dead, its lock expires at {} "
          "(`--take-over` does not wait)",
          to_string(holder->until + LeasedLocks::grace));
    return "wait until that run is over; if it is dead, take its lock with `--take-over`: locks of "
           "this server do not expire";
  }

  /// 200, 409 or 423; anything else throws.
  net::Answer try_lock(Holder& mine, Hold& hold, bool expires) {
    mine.since = server_->clock().now();
    mine.until = mine.since + hold.lease;
    net::Answer answer = server_->send(server_->access().lock_method,
                                       server_->access().lock_address, lock_info(mine, expires));
    if (answer.head.status == ok) {
      hold.until = mine.until.time_since_epoch().count();
    } else if (!held_by_somebody(answer.head.status)) {
      server_->fail(answer, "locking", /*writing=*/true);
    }
    return answer;
  }

  void unlock(const std::string& info) {
    server_->send(server_->access().unlock_method, server_->access().unlock_address, info);
  }

  void take(Holder& mine, Hold& hold, bool force) {
    for (int tries = 0; tries < 3; ++tries) {
      net::Answer answer;
      try {
        answer = try_lock(mine, hold, /*expires=*/true);
      } catch (const Error& error) {
        if (error.fault() != Fault::Lost) throw;
        continue;  // the next try shows whether it is ours
      }
      if (answer.head.status == ok) return;
      const auto other = parse_lock_info(answer.body);
      if (other && other->id == mine.id) return;
      if (!other || (!force && !expired(*other)))
        throw locked_by(describe(), other.value_or(Holder{}), way_on(other));
      // By its holder's id: a server takes nothing from the one who was faster than us.
      unlock(lock_info(*other, other->until != Instant::max()));
    }
    throw Error(Fault::Busy, fmt::format("the lock of {} changes too often", describe()))
        .hint("others take it at this moment; try again");
  }

  std::shared_ptr<Server> server_;
  std::weak_ptr<Hold> hold_;
  std::string seen_;
};

}  // namespace

std::unique_ptr<Store> http_store(net::Transport& transport, const Clock& clock, HttpAccess access,
                                  Sealing sealing) {
  auto server = std::make_shared<Server>(transport, clock, std::move(access));
  return std::make_unique<JournaledStore>(std::make_unique<HttpShelf>(std::move(server)),
                                          std::move(sealing));
}

}  // namespace rocca::state
