#pragma once

#include "net/server/connection.hpp"
#include "net/server/exchange.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct nghttp2_session;

namespace rocca::net {

/// HTTP/2 on one connection. Bounded whatever the client does: streams, header sizes, bodies in
/// flight and the rate of resets have limits, and bytes are made only while the socket and the
/// client's windows take them.
class Http2Session final : public Session, public Exchange::Owner {
 public:
  explicit Http2Session(Connection& connection);
  ~Http2Session() override;

  void input(std::string_view bytes) override;
  void end_of_input() override;
  void room() override;
  void goodbye() override;
  void lost() override;

 private:
  struct Stream {
    Incoming request;
    std::size_t head_size = 0;
    std::size_t header_count = 0;
    bool is_head = false;       // of the HEAD method
    int refusal = 0;            // the status it deserves
    bool request_over = false;  // END_STREAM came
    bool submitted = false;     // the head is with nghttp2
    bool deferred = false;      // nghttp2 waits for more of the body
    std::shared_ptr<Exchange> exchange;
  };
  struct Callbacks;

  void answer_changed(Exchange& exchange) override;
  void dispatch(std::int32_t id);
  void refuse(std::int32_t id, Stream& stream);
  void submit(std::int32_t id, Stream& stream);
  void client_reset();
  void pump();

  Connection& connection_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Stream> streams_;
  std::vector<std::int32_t> complete_;  // requests to hand out once nghttp2 has returned
  std::size_t bodies_ = 0;              // bytes of bodies that are still coming in
  double reset_credit_;
  std::chrono::steady_clock::time_point reset_seen_;
  bool pumping_ = false;
  bool over_ = false;
};

}  // namespace rocca::net
