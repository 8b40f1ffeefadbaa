#include "net/plain_http.hpp"

#include "base/error.hpp"
#include "base/loopback.hpp"

#include <fmt/format.h>

namespace rocca::net {

void refuse_plain_http(const Url& url, bool allowed) {
  if (allowed || url.scheme != "http" || is_loopback_host(url.host)) return;
  throw Error(
      Fault::Refused,
      fmt::format("a credential would go to {} over plain HTTP, for everybody on the way to "
                  "read",
                  url.origin()))
      .hint("use https://; or say `plainHttp: true` beside the address in the spec");
}

void refuse_clear_credential(const Request& request, const Url& url, std::string_view proxy) {
  const bool credential = request.authorization || request.headers.find("authorization") ||
                          request.headers.find("cookie");
  if (!credential || request.plain_http || url.scheme != "http") return;
  refuse_plain_http(url, false);
  // Even what is meant for this machine goes to the proxy first.
  if (proxy.empty()) return;
  const auto scheme = proxy.find("://");
  const auto way = Url::parse(fmt::format(
      "http://{}", scheme == std::string_view::npos ? proxy : proxy.substr(scheme + 3)));
  if (way && is_loopback_host(way->host)) return;
  throw Error(Fault::Refused,
              fmt::format("a credential for {} would go to a proxy over plain HTTP", url.origin()))
      .hint("name the host in NO_PROXY, or use https://");
}

}  // namespace rocca::net
