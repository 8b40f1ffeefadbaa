#include "base/error.hpp"
#include "net/curl_library_internal.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace rocca::net {

namespace {

constexpr const char* install_hint = "install Debian's package libcurl4 (apt install libcurl4)";

template <class Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw Error(Fault::Usage, fmt::format("libcurl has no function {}", name)).hint(install_hint);
}

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

CurlLibrary CurlLibrary::open(const char* name) {
  // Never closed: libcurl and OpenSSL leave hooks behind that run at exit.
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw Error(Fault::Usage,
                fmt::format("libcurl is not there: {}", reason == nullptr ? name : reason))
        .hint(install_hint);
  }
  CurlLibrary curl{};
  find(library, curl.global_init, "curl_global_init");
  find(library, curl.version_info, "curl_version_info");
  find(library, curl.easy_init, "curl_easy_init");
  find(library, curl.easy_setopt, "curl_easy_setopt");
  find(library, curl.easy_getinfo, "curl_easy_getinfo");
  find(library, curl.easy_reset, "curl_easy_reset");
  find(library, curl.easy_cleanup, "curl_easy_cleanup");
  find(library, curl.easy_strerror, "curl_easy_strerror");
  find(library, curl.multi_init, "curl_multi_init");
  find(library, curl.multi_setopt, "curl_multi_setopt");
  find(library, curl.multi_add_handle, "curl_multi_add_handle");
  find(library, curl.multi_remove_handle, "curl_multi_remove_handle");
  find(library, curl.multi_perform, "curl_multi_perform");
  find(library, curl.multi_poll, "curl_multi_poll");
  find(library, curl.multi_wakeup, "curl_multi_wakeup");
  find(library, curl.multi_info_read, "curl_multi_info_read");
  find(library, curl.multi_strerror, "curl_multi_strerror");
  find(library, curl.multi_cleanup, "curl_multi_cleanup");
  find(library, curl.slist_append, "curl_slist_append");
  find(library, curl.slist_free_all, "curl_slist_free_all");
  require_features(*curl.version_info(CURLVERSION_NOW));
  if (curl.global_init(CURL_GLOBAL_ALL) != CURLE_OK)
    throw Error(Fault::Bug, "libcurl did not start");
  return curl;
}

const CurlLibrary& curl_library() {
  static const CurlLibrary library = CurlLibrary::open("libcurl.so.4");
  return library;
}

}  // namespace rocca::net
