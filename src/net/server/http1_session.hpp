#pragma once

#include "net/server/connection.hpp"
#include "net/server/exchange.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace rocca::net {

/// HTTP/1.1 (and 1.0) on one connection. One request at a time: the next is read when the answer
/// before it is out, so pipelined requests are answered in order and a client cannot pile up work.
class Http1Session final : public Session, public Exchange::Owner {
 public:
  explicit Http1Session(Connection& connection);
  ~Http1Session() override;

  void input(std::string_view bytes) override;
  void end_of_input() override;
  void room() override;
  void goodbye() override {}
  void lost() override;

 private:
  void answer_changed(Exchange& exchange) override;
  void parse();
  void dispatch();
  void leave_if_unanswered();
  /// For what never becomes a request. The connection ends: where the next request would begin is
  /// unknown.
  void reject(int status, std::string_view text);
  void send_answer();
  void send_head();
  void send_body(std::string_view bytes);
  void answer_sent();

  Connection& connection_;
  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::string pending_;  // received, not yet parsed
  bool end_of_input_ = false;
  bool rejected_ = false;

  // The request that is being answered.
  std::shared_ptr<Exchange> exchange_;
  bool head_sent_ = false;
  bool is_head_ = false;  // of the HEAD method
  bool http10_ = false;
  bool keep_alive_ = true;
  enum class Framing { None, Length, Chunked, UntilClose } framing_ = Framing::None;
  std::size_t length_left_ = 0;
};

}  // namespace rocca::net
