#include "net/server/exchange.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace rocca::net {
namespace {

class HandedOut final : public Responder {
 public:
  explicit HandedOut(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  HandedOut(const HandedOut&) = delete;
  HandedOut& operator=(const HandedOut&) = delete;
  ~HandedOut() override { exchange_->fail("the request was not answered"); }

  void answer(int status, std::string reason, Headers headers, std::string body,
              Headers trailers) override {
    const auto size = body.size();
    exchange_->answer({status, std::move(reason), std::move(headers), size}, std::move(body),
                      std::move(trailers));
  }
  void begin(int status, std::string reason, Headers headers) override {
    exchange_->begin({status, std::move(reason), std::move(headers), std::nullopt});
  }
  void write(std::string bytes) override { exchange_->write(std::move(bytes)); }
  void finish(Headers trailers) override { exchange_->finish(std::move(trailers)); }
  std::size_t unsent() const override { return exchange_->unsent(); }
  void cut() override { exchange_->cut(); }
  void tunnel(std::string address, unsigned port) override {
    exchange_->tunnel({std::move(address), port});
  }
  bool gone() const override { return exchange_->gone(); }
  void on_gone(std::function<void()> then) override { exchange_->on_gone(std::move(then)); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace

std::shared_ptr<Responder> Exchange::responder(std::shared_ptr<Exchange> exchange) {
  return std::make_shared<HandedOut>(std::move(exchange));
}

void Exchange::run(const Handler& handler, Incoming request,
                   const std::shared_ptr<Exchange>& exchange) {
  const auto out = responder(exchange);
  try {
    handler(std::move(request), out);
  } catch (const std::exception& error) {
    exchange->fail(error.what());
  } catch (...) {
    // ignored: what is not a std::exception has no text; the client reads that the handler failed.
    exchange->fail("internal error");
  }
}

void Exchange::later(std::function<void(Exchange&)> change) {
  mailbox_->post([self = shared_from_this(), change = std::move(change)] {
    if (self->owner_ == nullptr) return;
    change(*self);
    self->owner_->answer_changed(*self);
  });
}

void Exchange::answer(Head head, std::string body, Headers trailers) {
  {
    const std::lock_guard lock{mutex_};
    if (stage_ != Stage::Waiting) return;
    stage_ = Stage::Ended;
  }
  unsent_ += body.size();
  later([head = std::move(head), body = std::move(body),
         trailers = std::move(trailers)](Exchange& self) mutable {
    self.head_ = std::move(head);
    if (!body.empty()) self.chunks_.push_back(std::move(body));
    self.trailers_ = std::move(trailers);
    self.finished_ = true;
  });
}

void Exchange::begin(Head head) {
  {
    const std::lock_guard lock{mutex_};
    if (stage_ != Stage::Waiting) return;
    stage_ = Stage::Streaming;
  }
  later([head = std::move(head)](Exchange& self) mutable { self.head_ = std::move(head); });
}

void Exchange::write(std::string bytes) {
  {
    const std::lock_guard lock{mutex_};
    if (stage_ != Stage::Streaming || bytes.empty() || gone()) return;
  }
  // Counted here and not when the loop takes it: the mailbox must be bounded as well.
  if (unsent_.fetch_add(bytes.size()) >= Responder::stream_limit) return cut();
  later([bytes = std::move(bytes)](Exchange& self) mutable {
    self.chunks_.push_back(std::move(bytes));
  });
}

void Exchange::finish(Headers trailers) {
  {
    const std::lock_guard lock{mutex_};
    if (stage_ != Stage::Streaming) return;
    stage_ = Stage::Ended;
  }
  later([trailers = std::move(trailers)](Exchange& self) mutable {
    self.trailers_ = std::move(trailers);
    self.finished_ = true;
  });
}

void Exchange::cut() {
  {
    const std::lock_guard lock{mutex_};
    if (stage_ == Stage::Ended) return;
    stage_ = Stage::Ended;
  }
  later([](Exchange& self) { self.cut_ = true; });
}

void Exchange::tunnel(Endpoint to) {
  {
    const std::lock_guard lock{mutex_};
    if (stage_ != Stage::Waiting) return;
    stage_ = Stage::Ended;
  }
  later([to = std::move(to)](Exchange& self) mutable { self.tunnel_ = std::move(to); });
}

void Exchange::fail(const std::string& text) {
  // An answer that has begun cannot become a 500 any more; breaking it off is all that is left.
  const bool streaming = [&] {
    const std::lock_guard lock{mutex_};
    return stage_ == Stage::Streaming;
  }();
  if (streaming) return cut();
  const std::string body = text + "\n";
  answer({500, {}, {{"Content-Type", "text/plain; charset=utf-8"}}, body.size()}, body, {});
}

void Exchange::on_gone(std::function<void()> then) {
  {
    const std::lock_guard lock{mutex_};
    if (stage_ == Stage::Ended) return;
    if (!gone()) {
      on_gone_ = std::move(then);
      return;
    }
  }
  if (!mailbox_->post(then)) then();
}

std::string_view Exchange::peek(std::size_t limit) const {
  if (chunks_.empty()) return {};
  return std::string_view{chunks_.front()}.substr(offset_, limit);
}

void Exchange::consume(std::size_t count) {
  unsent_ -= count;
  offset_ += count;
  if (offset_ < chunks_.front().size()) return;
  chunks_.pop_front();
  offset_ = 0;
}

void Exchange::detach(bool delivered) {
  owner_ = nullptr;
  chunks_.clear();
  unsent_ = 0;
  std::function<void()> then;
  {
    const std::lock_guard lock{mutex_};
    gone_ = !delivered;
    then = std::exchange(on_gone_, nullptr);
    if (stage_ == Stage::Ended) then = nullptr;
  }
  // Not called from here: a session is in the middle of its work. At the very end there is no other
  // place left.
  if (then && !mailbox_->post(then)) {
    try {
      then();
    } catch (...) {
      // ignored: as for every task of the loop
    }
  }
}

}  // namespace rocca::net
