#include "base/error.hpp"
#include "net/curl_library_internal.hpp"

#include <gmock/gmock.h>

namespace rocca::net {
namespace {

TEST(CurlLibrary, AMissingLibraryNamesItsPackage) {
  try {
    CurlLibrary::open("libcurl-that-is-not-there.so.4");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("libcurl-that-is-not-there.so.4"));
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("libcurl4"));
  }
}

TEST(CurlLibrary, AnotherLibraryIsNotTakenForIt) {
  EXPECT_THROW(CurlLibrary::open("libc.so.6"), Error);
}

TEST(CurlLibrary, OnlyTheOpensslFlavourIsTaken) {
  EXPECT_NO_THROW(require_openssl_flavour("OpenSSL/3.0.15"));
  for (const char* other : {"GnuTLS/3.7.9", "NSS/3.87", "OpenSSL/1.1.1w", "BoringSSL", ""})
    EXPECT_THROW(require_openssl_flavour(other), Error) << other;
}

TEST(CurlLibrary, TheMachinesOwnCanBeUsed) {
  EXPECT_EQ(&curl_library(), &curl_library());
}

}  // namespace
}  // namespace rocca::net
