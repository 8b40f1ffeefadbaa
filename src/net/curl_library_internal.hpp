#pragma once

#include <curl/curl.h>

#include <string_view>

namespace rocca::net {

/// Starts libcurl at the first call, for the whole process, and checks that it can do what we need.
/// Throws Error(Usage) that names the package to install.
void start_curl();

/// Our own hooks live in OpenSSL's SSL_CTX: a libcurl of another flavour would hand us something
/// else.
void require_openssl_flavour(std::string_view ssl_version);

}  // namespace rocca::net
