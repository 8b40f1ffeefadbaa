#include "base/error.hpp"
#include "net/curl_library_internal.hpp"

#include <fmt/format.h>

namespace rocca::net {

namespace {

constexpr const char* install_hint = "install Debian's package libcurl4 (apt install libcurl4)";

void require_features(const curl_version_info_data& version) {
  require_openssl_flavour(version.ssl_version == nullptr ? "" : version.ssl_version);
  // CURLOPT_QUICK_EXIT, without which a cancelled call waits for the resolver, came with 7.87.
  if (version.version_num < 0x075700)
    throw Error(Fault::Usage,
                fmt::format("libcurl {} is too old: 7.87 is the least", version.version))
        .hint(install_hint);
  const auto require = [&](int bit, const char* what) {
    if ((version.features & bit) == 0)
      throw Error(Fault::Usage,
                  fmt::format("libcurl {} was built without {}", version.version, what))
          .hint(install_hint);
  };
  require(CURL_VERSION_HTTP2, "HTTP/2");
  require(CURL_VERSION_ASYNCHDNS, "a resolver that does not block");
}

}  // namespace

void require_openssl_flavour(std::string_view ssl_version) {
  if (!ssl_version.starts_with("OpenSSL/3"))
    throw Error(Fault::Usage,
                fmt::format("libcurl uses '{}' for TLS, but OpenSSL 3 is needed", ssl_version))
        .hint(install_hint);
}

void start_curl() {
  [[maybe_unused]] static const bool started = [] {
    require_features(*curl_version_info(CURLVERSION_NOW));
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
      throw Error(Fault::Bug, "libcurl did not start");
    return true;
  }();
}

}  // namespace rocca::net
