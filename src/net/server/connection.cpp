#include "net/server/connection.hpp"

#include "net/server/http1_session.hpp"
#include "net/server/http2_session.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace rocca::net {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view http2_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// A client that does not get as far as its first request in this time only holds a descriptor.
constexpr Duration opening_time = 30s;
constexpr Duration flush_time = 60s;  // for the last bytes, if the client reads slowly
constexpr Duration drain_time = 2s;   // for the client's answer to our end
constexpr std::size_t drain_limit = 4 * 1024 * 1024;
constexpr int reads_per_turn = 16;  // then the others have theirs

}  // namespace

Connection::Connection(EventLoop& loop, Descriptor socket, Door door,
                       std::function<void(Connection&)> when_over)
    : loop_(loop),
      socket_(std::move(socket)),
      door_(std::move(door)),
      when_over_(std::move(when_over)),
      local_(local_endpoint(socket_)),
      peer_(peer_endpoint(socket_)) {
  if (door_.tls) tls_ = std::make_unique<TlsStream>(door_.tls);
}

Connection::~Connection() = default;

void Connection::start() {
  update_interest();
  loop_.after(opening_time, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !self->session_) self->close();
  });
}

void Connection::ready(std::uint32_t events) {
  const auto self = shared_from_this();
  if ((events & EPOLLERR) != 0) return cut();
  if ((events & EPOLLOUT) != 0) write_out();
  if (!open()) return;
  const bool reading = !paused_ && !input_over_;
  if ((events & (EPOLLIN | EPOLLHUP)) != 0 && reading) return read_in();
  if ((events & EPOLLHUP) != 0 && token_) {
    // Cannot be masked and would come again and again; resuming watches anew.
    loop_.forget(*token_, socket_.get());
    token_.reset();
  }
}

void Connection::read_in() {
  std::array<char, 16 * 1024> buffer;
  for (int i = 0; i < reads_per_turn && open() && !paused_ && !input_over_; ++i) {
    const auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      return cut();
    }
    if (got == 0) return input_ended();
    from_wire({buffer.data(), static_cast<std::size_t>(got)});
  }
}

void Connection::from_wire(std::string_view bytes) {
  if (draining_) {
    drained_ += bytes.size();
    if (drained_ > drain_limit) close();
    return;
  }
  if (!tls_) return deliver(bytes);

  const bool was_shaking = tls_->state() == TlsStream::State::Handshaking;
  std::string plain;
  const auto state = tls_->feed(bytes, plain);
  flush_tls();
  if (!open()) return;
  if (was_shaking && (state == TlsStream::State::Open || state == TlsStream::State::PeerClosed)) {
    peer_certificate_ = tls_->peer_certificate();
    choose_session();
  }
  if (!plain.empty()) deliver(plain);
  if (!open() || draining_) return;
  if (state == TlsStream::State::Failed) {
    // The alert is on its way. Closing now, with the client's last flight unread, would send an RST
    // that makes the client's kernel throw the alert away.
    if (session_) session_->lost();
    finish();
  } else if (state == TlsStream::State::PeerClosed) {
    input_ended();
  }
}

void Connection::choose_session() {
  const auto protocol = tls_->protocol();
  if (protocol == "h2") {
    session_ = std::make_unique<Http2Session>(*this);
  } else if (protocol == "http/1.1") {
    session_ = std::make_unique<Http1Session>(*this);
  }
}

void Connection::deliver(std::string_view plain) {
  if (session_) return session_->input(plain);
  preface_ += plain;
  const auto common = std::min(preface_.size(), http2_preface.size());
  const bool may_be_http2 = preface_.compare(0, common, http2_preface, 0, common) == 0;
  if (may_be_http2 && common < http2_preface.size()) return;
  if (may_be_http2) {
    session_ = std::make_unique<Http2Session>(*this);
  } else {
    session_ = std::make_unique<Http1Session>(*this);
  }
  session_->input(std::exchange(preface_, {}));
}

void Connection::input_ended() {
  if (input_over_) return;
  input_over_ = true;
  if (draining_) {
    if (output_over_) return close();
  } else if (session_) {
    session_->end_of_input();
  } else {
    return close();
  }
  update_interest();
}

void Connection::flush_tls() {
  if (const auto wire = tls_->take_wire(); !wire.empty()) {
    out_ += wire;
    write_out();
  }
}

void Connection::send(std::string_view plain) {
  if (!open() || output_ending_ || plain.empty()) return;
  if (tls_) {
    tls_->seal(plain);
    out_ += tls_->take_wire();
  } else {
    out_ += plain;
  }
  write_out();
}

void Connection::write_out() {
  const bool had_bytes = unsent() > 0;
  while (open() && unsent() > 0) {
    // MSG_NOSIGNAL: the peer's leaving must not kill the process.
    const auto count = ::send(socket_.get(), out_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      return cut();
    }
    sent_ += static_cast<std::size_t>(count);
  }
  if (!open()) return;
  if (unsent() == 0) {
    out_.clear();
    sent_ = 0;
    if (out_.capacity() > high_water) out_.shrink_to_fit();
    if (output_ending_ && !output_over_) shut_down_output();
  } else if (sent_ > high_water) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  if (!open()) return;
  update_interest();
  // Later and not from here: the session may be in the middle of its own send().
  if (had_bytes && unsent() == 0 && session_ && !output_ending_) call_back_soon();
}

void Connection::call_back_soon() {
  if (std::exchange(called_back_, true)) return;
  loop_.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->called_back_ = false;
    if (self->open() && self->session_) self->session_->room();
  });
}

void Connection::update_interest() {
  if (!open()) return;
  std::uint32_t wanted = 0;
  if (!paused_ && !input_over_) wanted |= EPOLLIN;
  if (unsent() > 0) wanted |= EPOLLOUT;
  if (!token_) {
    if (wanted == 0) return;
    token_ = loop_.watch(socket_.get(), wanted, [weak = weak_from_this()](std::uint32_t events) {
      if (const auto self = weak.lock()) self->ready(events);
    });
  } else if (wanted != interest_) {
    loop_.change(*token_, socket_.get(), wanted);
  }
  interest_ = wanted;
}

void Connection::pause_input(bool pause) {
  if (pause == paused_) return;
  paused_ = pause;
  update_interest();
}

void Connection::end_output() {
  if (!open() || output_ending_) return;
  if (tls_) {
    tls_->close_notify();
    out_ += tls_->take_wire();
  }
  output_ending_ = true;
  write_out();
  if (open() && unsent() == 0 && !output_over_) shut_down_output();
}

void Connection::shut_down_output() {
  output_over_ = true;
  ::shutdown(socket_.get(), SHUT_WR);
  if (!draining_) return;
  if (input_over_) return close();
  close_after(drain_time);
}

void Connection::close_after(Duration delay) {
  loop_.after(delay, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  });
}

void Connection::finish() {
  if (!open() || draining_) return;
  draining_ = true;
  paused_ = false;
  close_after(flush_time);
  if (output_over_) {
    if (input_over_) return close();
    close_after(drain_time);
  } else {
    end_output();
  }
  update_interest();
}

void Connection::leave() {
  finish();
  if (!session_) return;
  // A handler may close its own listener: then the session is still on the stack.
  std::shared_ptr<Session> old = std::move(session_);
  old->lost();
  loop_.post([self = shared_from_this(), old = std::move(old)] {});
}

void Connection::cut() {
  if (!open()) return;
  reset_on_close(socket_);
  release();
}

void Connection::close() {
  if (!open()) return;
  if (unsent() > 0) ::send(socket_.get(), out_.data() + sent_, unsent(), MSG_NOSIGNAL);
  release();
}

void Connection::release() {
  if (token_) loop_.forget(*token_, socket_.get());
  token_.reset();
  socket_.reset();
  loop_.post([self = shared_from_this()] {
    if (self->session_) self->session_->lost();
    self->when_over_(*self);
  });
}

void Connection::stop_now() {
  if (open() && !output_ending_) {
    if (session_) session_->goodbye();
    if (open() && tls_) {
      tls_->close_notify();
      out_ += tls_->take_wire();
    }
  }
  close();
  if (session_) session_->lost();
}

void Connection::become(std::unique_ptr<Session> session) {
  // The old one is still on the stack.
  loop_.post([old = std::shared_ptr<Session>(std::move(session_))] {});
  session_ = std::move(session);
}

Incoming Connection::blank_request() const {
  Incoming request;
  request.local_address = local_.address;
  request.local_port = local_.port;
  request.peer_address = peer_.address;
  request.peer_certificate = peer_certificate_;
  request.tls = tls_ != nullptr;
  return request;
}

}  // namespace rocca::net
