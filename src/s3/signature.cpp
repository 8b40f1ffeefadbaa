#include "s3/signature.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

namespace rocca::s3 {

namespace {

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(),
           &size) == nullptr)
    throw Error(Fault::Bug, "OpenSSL could not compute an HMAC");
  return {reinterpret_cast<const char*>(out.data()), size};
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, EVP_sha256(), nullptr) != 1)
    throw Error(Fault::Bug, "OpenSSL could not compute a digest");
  return to_hex({reinterpret_cast<const char*>(out.data()), size});
}

std::string encode_path(std::string_view path) {
  // Once, unlike the other services of AWS, which sign a path that is encoded twice.
  std::vector<std::string> parts = split(path, '/');
  for (std::string& part : parts) part = percent_encode(part);
  return join(parts, "/");
}

std::string encode_query(Query query) {
  for (auto& [name, value] : query) {
    name = percent_encode(name);
    value = percent_encode(value);
  }
  std::sort(query.begin(), query.end());
  std::vector<std::string> parts;
  for (const auto& [name, value] : query) parts.push_back(name + "=" + value);
  return join(parts, "&");
}

std::string amz_date(Instant at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::seconds>(at - day)};
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", int{date.year()}, unsigned{date.month()},
                     unsigned{date.day()}, time.hours().count(), time.minutes().count(),
                     time.seconds().count());
}

std::string sign(const Unsigned& request, const Signing& signing, Instant at) {
  std::map<std::string, std::string> headers;
  for (const net::Header& header : request.headers)
    headers[to_lower(header.name)] = std::string{trim(header.value)};
  std::string canonical = fmt::format("{}\n{}\n{}\n", request.method, request.path, request.query);
  std::vector<std::string> names;
  for (const auto& [name, value] : headers) {
    canonical += fmt::format("{}:{}\n", name, value);
    names.push_back(name);
  }
  const std::string signed_headers = join(names, ";");
  canonical += fmt::format("\n{}\n{}", signed_headers, request.payload_sha256);

  const std::string time = amz_date(at);
  const std::string day = time.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, signing.region);
  const std::string text =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, sha256_hex(canonical));
  std::string key = fmt::format("AWS4{}", signing.secret_key.reveal());
  for (const std::string& part :
       {day, signing.region, std::string{"s3"}, std::string{"aws4_request"}}) {
    std::string next = hmac(key, part);
    wipe(key);
    key = std::move(next);
  }
  const std::string signature = to_hex(hmac(key, text));
  wipe(key);
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                     signing.access_key, scope, signed_headers, signature);
}

}  // namespace rocca::s3
