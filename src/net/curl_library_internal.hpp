#pragma once

#include <curl/curl.h>

#include <string_view>

namespace rocca::net {

/// The functions of libcurl that we use, found with dlopen: a run that talks to nobody does not pay
/// for loading libcurl and its thirty libraries.
struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_version_info) version_info;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_multi_init) multi_init;
  decltype(&::curl_multi_setopt) multi_setopt;
  decltype(&::curl_multi_add_handle) multi_add_handle;
  decltype(&::curl_multi_remove_handle) multi_remove_handle;
  decltype(&::curl_multi_perform) multi_perform;
  decltype(&::curl_multi_poll) multi_poll;
  decltype(&::curl_multi_wakeup) multi_wakeup;
  decltype(&::curl_multi_info_read) multi_info_read;
  decltype(&::curl_multi_strerror) multi_strerror;
  decltype(&::curl_multi_cleanup) multi_cleanup;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;

  /// Opens this library and checks that it can do what we need. Throws Error(Usage) that names the
  /// package.
  static CurlLibrary open(const char* name);
};

/// Our own hooks live in OpenSSL's SSL_CTX: a libcurl of another flavour would hand us something
/// else.
void require_openssl_flavour(std::string_view ssl_version);

/// The machine's libcurl, opened at the first call.
const CurlLibrary& curl_library();

}  // namespace rocca::net
