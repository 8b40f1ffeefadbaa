#pragma once

#include "base/error.hpp"
#include "base/handle.hpp"
#include "net/curl_library_internal.hpp"
#include "net/tls_client_internal.hpp"
#include "net/transport.hpp"

#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <string>

namespace rocca::net {

inline void free_curl_easy(CURL* easy) {
  curl_easy_cleanup(easy);
}
inline void free_curl_multi(CURLM* multi) {
  curl_multi_cleanup(multi);
}
void free_curl_list(curl_slist* list);  // wipes it first: it holds the Authorization header

using CurlEasy = Handle<CURL, free_curl_easy>;
using CurlMulti = Handle<CURLM, free_curl_multi>;
using CurlList = Handle<curl_slist, free_curl_list>;

/// What is kept between exchanges with one endpoint under one identity: at most one open
/// connection, and our part of its TLS. One exchange at a time. curl's handles die before the hooks
/// that they call.
struct CurlLine {
  CurlLine(const Tls& how, std::shared_ptr<const TlsMaterial> material);

  TlsClient tls;
  CurlMulti multi;
  CurlEasy easy;
};

/// What is the same for every exchange of a transport.
struct CurlSurroundings {
  std::string user_agent;
  std::string roots;  // a file with the machine's root certificates (SSL_CERT_FILE); empty: usual
};

/// One exchange on a line, from the first option to the answer or the Error.
class CurlExchange {
 public:
  CurlExchange(CurlLine& line, const Request& request, const Url& url, BodySink& sink);
  ~CurlExchange();
  CurlExchange(const CurlExchange&) = delete;
  CurlExchange& operator=(const CurlExchange&) = delete;

  Response run(const CurlSurroundings& surroundings, const std::string& proxy,
               const std::stop_token& stop);

 private:
  template <class Value>
  void set(CURLoption option, Value value);
  void set_connection(const std::string& proxy);
  void set_tls(const std::string& roots);
  void set_headers(const std::string& user_agent);
  void set_body();
  CURLcode wait_for_end(const std::stop_token& stop);
  void wait_for_bytes() const;
  void begin_once();
  void take_header_line(std::string_view line);
  bool sent_something() const;
  bool has_grpc_status() const;

  Error failure(CURLcode code) const;
  Error tls_refusal(int alert) const;
  Error not_trusted(CURLcode code) const;
  std::string reason_text(CURLcode code) const;

  static std::size_t on_header(char* data, std::size_t size, std::size_t count,
                               void* self) noexcept;
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) noexcept;
  static std::size_t on_upload(char* data, std::size_t size, std::size_t count,
                               void* self) noexcept;
  static int on_seek(void* self, curl_off_t offset, int origin) noexcept;
  static CURLcode on_context(CURL* easy, void* context, void* self) noexcept;
  static int on_ready(void* self, char* peer, char* local, int peer_port, int local_port) noexcept;

  using Steady = std::chrono::steady_clock;

  CurlLine& line_;
  const Request& request_;
  const Url& url_;
  BodySink& sink_;
  bool tls_ = false;
  bool through_proxy_ = false;
  CurlList headers_;
  CurlList connect_to_;
  std::array<char, CURL_ERROR_SIZE> text_{};
  std::string method_;

  Response head_;
  enum class Stage { Status, Head, Body } stage_ = Stage::Status;
  std::uint64_t events_ = 0;  // callbacks so far: whether a turn of the loop moved anything
  bool begun_ = false;
  bool enough_ = false;           // the sink has read what it wanted
  std::exception_ptr trouble_;    // thrown by the sink or the source
  std::optional<Error> refusal_;  // ours, before anything was sent
  std::size_t upload_position_ = 0;
  bool ready_ = false;      // a connection stood and the request was about to be sent
  long sent_before_ = 0;    // what curl had sent by then (to a proxy)
  bool idled_out_ = false;  // the far side was silent for longer than idle_timeout
  Steady::time_point last_sign_of_life_;
};

}  // namespace rocca::net
