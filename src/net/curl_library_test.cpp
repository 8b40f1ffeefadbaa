#include "base/error.hpp"
#include "net/curl_library_internal.hpp"

#include <gmock/gmock.h>

namespace rocca::net {
namespace {

TEST(CurlLibrary, OnlyTheOpensslFlavourIsTaken) {
  EXPECT_NO_THROW(require_openssl_flavour("OpenSSL/3.0.15"));
  for (const char* other : {"GnuTLS/3.7.9", "NSS/3.87", "OpenSSL/1.1.1w", "BoringSSL", ""})
    EXPECT_THROW(require_openssl_flavour(other), Error) << other;
}

TEST(CurlLibrary, TheMachinesOwnCanBeUsed) {
  EXPECT_NO_THROW(start_curl());
}

}  // namespace
}  // namespace rocca::net
