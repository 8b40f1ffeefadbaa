#include "net/server/server.hpp"

#include "base/error.hpp"
#include "net/server/connection.hpp"
#include "net/server/event_loop.hpp"
#include "net/server/socket.hpp"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <future>
#include <map>
#include <mutex>
#include <thread>

namespace rocca::net {
namespace {

using namespace std::chrono_literals;

constexpr int accepts_per_turn = 64;

}  // namespace

class Server::Loop {
 public:
  Loop() : thread_([this] { run(); }) {}

  ~Loop() { stop(); }

  Id listen(Listen wanted) {
    if (!wanted.handler) throw Error(Fault::Usage, "a listener needs a handler");
    auto listener = std::make_shared<Listener>();
    listener->door.handler = std::make_shared<const Handler>(std::move(wanted.handler));
    listener->door.body_limit = wanted.body_limit;
    if (wanted.tls) listener->door.tls = make_tls_context(*wanted.tls);
    listener->socket = listen_on(wanted.address, wanted.port);
    listener->port = local_endpoint(listener->socket).port;
    {
      const std::lock_guard lock{mutex_};
      if (events_.stopping()) throw Error(Fault::Usage, "the server has been stopped");
      listener->door.listener = ++last_id_;
      listeners_.emplace(last_id_, listener);
    }
    const Id id = listener->door.listener;
    events_.post([this, listener] { watch(listener); });
    return id;
  }

  unsigned port(Id id) const {
    const std::lock_guard lock{mutex_};
    return get(id)->port;
  }

  void replace_tls(Id id, const ServerTls& settings) {
    auto context = make_tls_context(settings);
    const std::lock_guard lock{mutex_};
    auto& tls = get(id)->door.tls;
    if (!tls) throw Error(Fault::Usage, "the listener speaks clear text");
    std::swap(tls, context);
  }

  void close(Id id) {
    std::shared_ptr<Listener> listener;
    {
      const std::lock_guard lock{mutex_};
      const auto found = listeners_.find(id);
      if (found == listeners_.end()) return;
      listener = found->second;
      listeners_.erase(found);
    }
    if (events_.on_thread()) return close_now(*listener);
    auto done = std::make_shared<std::promise<void>>();
    auto over = done->get_future();
    events_.post([this, listener, done] {
      close_now(*listener);
      events_.post([done] { done->set_value(); });  // behind what the connections left to do
    });
    // A stop that comes in between destroys the task, and with it the promise.
    done.reset();
    over.wait();
  }

  void post(std::function<void()> task) { events_.post(std::move(task)); }
  void after(Duration delay, std::function<void()> task) { events_.after(delay, std::move(task)); }

  void stop() {
    {
      const std::lock_guard lock{mutex_};
      events_.stop();
    }
    if (events_.on_thread()) return;  // run() ends when the handler returns
    const std::lock_guard lock{join_};
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Listener {
    Connection::Door door;  // its tls is guarded by the mutex
    Descriptor socket;
    unsigned port = 0;
    std::optional<EventLoop::Token> token;
  };

  const std::shared_ptr<Listener>& get(Id id) const {
    const auto found = listeners_.find(id);
    if (found == listeners_.end()) {
      throw Error(Fault::NotFound, fmt::format("no listener has the id {}", id));
    }
    return found->second;
  }

  void run() {
    events_.run();
    end();
  }

  void watch(const std::shared_ptr<Listener>& listener) {
    if (!listener->socket) return;  // closed in the meantime
    listener->token = events_.watch(listener->socket.get(), EPOLLIN,
                                    [this, listener](std::uint32_t) { accept(listener); });
  }

  void accept(const std::shared_ptr<Listener>& listener) {
    for (int i = 0; i < accepts_per_turn && listener->socket; ++i) {
      Descriptor socket{
          ::accept4(listener->socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
      if (!socket) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          rest(listener);
        }
        return;
      }
      const int on = 1;
      setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      Connection::Door door;
      {
        const std::lock_guard lock{mutex_};
        door = listener->door;
      }
      const auto id = ++last_connection_;
      const std::shared_ptr<Connection> connection{
          new Connection(events_, std::move(socket), std::move(door),
                         [this, id](Connection&) { connections_.erase(id); })};
      connections_.emplace(id, connection);
      connection->start();
    }
  }

  /// Out of descriptors: the waiting client would wake the loop without end.
  void rest(const std::shared_ptr<Listener>& listener) {
    events_.forget(*listener->token, listener->socket.get());
    listener->token.reset();
    events_.after(100ms, [this, listener] { watch(listener); });
  }

  void close_now(Listener& listener) {
    if (listener.token) events_.forget(*listener.token, listener.socket.get());
    listener.token.reset();
    listener.socket.reset();
    const auto all = connections_;
    for (const auto& [id, connection] : all) {
      // In order: with input unread, a plain close sends RST, which overtakes an answer's last
      // bytes.
      if (connection->door().listener == listener.door.listener) connection->leave();
    }
  }

  /// The end of everything, on the loop's thread. The mailbox goes first: what the connections
  /// leave behind is then done here and not handed to a loop that has ended.
  void end() {
    events_.close_mailbox();
    {
      const std::lock_guard lock{mutex_};
      for (const auto& [id, listener] : listeners_) listener->socket.reset();
    }
    for (const auto& [id, connection] : std::exchange(connections_, {})) connection->stop_now();
    events_.leave_thread();
  }

  EventLoop events_;
  mutable std::mutex mutex_;
  std::map<Id, std::shared_ptr<Listener>> listeners_;
  Id last_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // the loop's thread only
  std::uint64_t last_connection_ = 0;
  std::mutex join_;
  std::jthread thread_;
};

Server::Server() : loop_(std::make_unique<Loop>()) {}
Server::~Server() = default;
Server::Id Server::listen(Listen listen) {
  return loop_->listen(std::move(listen));
}
unsigned Server::port(Id id) const {
  return loop_->port(id);
}
void Server::replace_tls(Id id, ServerTls tls) {
  loop_->replace_tls(id, tls);
}
void Server::close(Id id) {
  loop_->close(id);
}
void Server::post(std::function<void()> task) {
  loop_->post(std::move(task));
}
void Server::after(Duration delay, std::function<void()> task) {
  loop_->after(delay, std::move(task));
}
void Server::stop() {
  loop_->stop();
}

}  // namespace rocca::net
