#pragma once

#include "net/http.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rocca::net {

/// Which proxy an exchange goes through, by the environment's customs: https_proxy and HTTPS_PROXY,
/// http_proxy (only in lower case: a CGI's client may set HTTP_PROXY), all_proxy and ALL_PROXY,
/// no_proxy and NO_PROXY.
class Proxies {
 public:
  using Lookup = std::function<std::optional<std::string>(const char* name)>;

  Proxies() = default;  // none
  explicit Proxies(const Lookup& lookup);
  static Proxies from_environment();

  /// The proxy for this URL, or an empty text.
  std::string choose(const Url& url) const;

 private:
  bool bypassed(const Url& url) const;

  std::string http_;
  std::string https_;
  std::vector<std::string> except_;  // names, addresses and networks, lower case
};

}  // namespace rocca::net
