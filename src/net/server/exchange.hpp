#pragma once

#include "net/server/event_loop.hpp"
#include "net/server/server.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace rocca::net {

/// One request's way back to its client. The handler's side may be called from any thread and only
/// leaves tasks in the mailbox; the session's side lives on the loop's thread and reads what those
/// tasks have put here.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  struct Head {
    int status = 0;
    std::string reason;
    Headers headers;
    std::optional<std::size_t> size;  // a whole answer's; nothing while it streams
  };

  /// The session that sends the answer.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void answer_changed(Exchange& exchange) = 0;
  };

  Exchange(std::shared_ptr<Mailbox> mailbox, Owner& owner, std::int64_t id = 0)
      : mailbox_(std::move(mailbox)), owner_(&owner), id_(id) {}

  /// What a handler gets. When its last copy goes without an answer, the client still gets one.
  static std::shared_ptr<Responder> responder(std::shared_ptr<Exchange> exchange);
  /// Calls the handler; what it throws becomes a 500.
  static void run(const Handler& handler, Incoming request,
                  const std::shared_ptr<Exchange>& exchange);

  // The handler's side.
  void answer(Head head, std::string body, Headers trailers);
  void begin(Head head);
  void write(std::string bytes);
  void finish(Headers trailers);
  void cut();
  void tunnel(Endpoint to);
  void fail(const std::string& text);
  bool gone() const noexcept { return gone_.load(); }
  std::size_t unsent() const noexcept { return unsent_.load(); }
  void on_gone(std::function<void()> then);

  // The session's side.
  std::int64_t id() const noexcept { return id_; }
  const std::optional<Head>& head() const noexcept { return head_; }
  bool has_bytes() const noexcept { return !chunks_.empty(); }
  /// Up to `limit` bytes of the body, at least one if there are any.
  std::string_view peek(std::size_t limit) const;
  void consume(std::size_t count);
  bool finished() const noexcept { return finished_; }
  const Headers& trailers() const noexcept { return trailers_; }
  bool is_cut() const noexcept { return cut_; }
  const std::optional<Endpoint>& tunnel_to() const noexcept { return tunnel_; }
  /// The answer has been sent, or nobody is there to take it; no call comes back to the owner after
  /// this.
  /// `delivered`: the client has it all and is not gone.
  void detach(bool delivered = false);

 private:
  enum class Stage { Waiting, Streaming, Ended };

  /// Runs `change` on the loop's thread and tells the owner.
  void later(std::function<void(Exchange&)> change);

  const std::shared_ptr<Mailbox> mailbox_;

  // Shared between threads.
  std::atomic<bool> gone_{false};
  std::atomic<std::size_t> unsent_{0};
  std::mutex mutex_;
  Stage stage_ = Stage::Waiting;
  std::function<void()> on_gone_;

  // The loop's thread only.
  Owner* owner_;
  const std::int64_t id_;
  std::optional<Head> head_;
  std::deque<std::string> chunks_;
  std::size_t offset_ = 0;  // into the first chunk
  bool finished_ = false;
  Headers trailers_;
  bool cut_ = false;
  std::optional<Endpoint> tunnel_;
};

}  // namespace rocca::net
