#pragma once

#include "net/transport.hpp"

#include <memory>
#include <string>

namespace rocca::net {

/// HTTP over real sockets with libcurl, which is opened at first use. Connections are kept and
/// reused per endpoint and TLS identity, never across identities; only GET and HEAD go out on a
/// used one, because libcurl repeats by itself a request whose answer was lost on a reused
/// connection. Cancelling wakes it within 100 ms. Proxies come from the environment (HTTPS_PROXY,
/// NO_PROXY…), and so does another file of root certificates (SSL_CERT_FILE); read once when it is
/// made.
class CurlTransport final : public Transport {
 public:
  struct Options {
    std::string user_agent = "rocca";
    std::size_t idle_per_endpoint = 8;  // kept connections
    std::string proxy = "";             // for everything, instead of what the environment says
  };

  CurlTransport();
  explicit CurlTransport(Options options);
  ~CurlTransport() override;

  Response exchange(const Request& request, BodySink& sink, std::stop_token stop) override;

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace rocca::net
