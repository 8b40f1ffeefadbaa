#pragma once

#include "base/clock.hpp"
#include "base/secret.hpp"
#include "net/http.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocca::s3 {

using Query = std::vector<std::pair<std::string, std::string>>;

/// Percent-encoded as both the request line and the signature want it; a key's slashes stay.
std::string encode_path(std::string_view path);
/// Sorted by name, `a=b&c=`.
std::string encode_query(Query query);

struct Signing {
  std::string access_key;
  Secret secret_key;
  std::string region;
};

/// One request, with every header that is to be signed, `Host` among them.
struct Unsigned {
  std::string method;
  std::string path;   // encoded
  std::string query;  // encoded and sorted
  net::Headers headers;
  std::string payload_sha256;  // hex
};

/// AWS Signature Version 4 (service `s3`): the value of the Authorization header. The time must be
/// the one of the `x-amz-date` header.
std::string sign(const Unsigned& request, const Signing& signing, Instant at);

std::string amz_date(Instant at);  // 20130524T000000Z
std::string sha256_hex(std::string_view bytes);

}  // namespace rocca::s3
