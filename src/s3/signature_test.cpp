#include "s3/signature.hpp"

#include "base/units.hpp"

#include <gmock/gmock.h>

namespace rocca::s3 {

namespace {

using testing::EndsWith;

// The worked examples of AWS' "Authenticating Requests: Using the Authorization Header (AWS
// Signature Version 4)".
const Signing signing{"AKIAIOSFODNN7EXAMPLE", Secret{"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
                      "us-east-1"};
const Instant at = *parse_instant("2013-05-24T00:00:00Z");

Unsigned request(std::string method, std::string_view path, Query query,
                 std::string_view body = "") {
  Unsigned plain;
  plain.method = std::move(method);
  plain.path = encode_path(path);
  plain.query = encode_query(std::move(query));
  plain.payload_sha256 = sha256_hex(body);
  plain.headers.add("Host", "examplebucket.s3.amazonaws.com");
  plain.headers.add("x-amz-date", amz_date(at));
  plain.headers.add("x-amz-content-sha256", plain.payload_sha256);
  return plain;
}

TEST(Signature, SignsAGetWithARange) {
  Unsigned get = request("GET", "/test.txt", {});
  get.headers.add("Range", "bytes=0-9");
  EXPECT_EQ(sign(get, signing, at),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(Signature, SignsAPutWithAKeyThatMustBeEncoded) {
  Unsigned put = request("PUT", "/test$file.text", {}, "Welcome to Amazon S3.");
  put.headers.add("Date", "Fri, 24 May 2013 00:00:00 GMT");
  put.headers.add("x-amz-storage-class", "REDUCED_REDUNDANCY");
  EXPECT_THAT(
      sign(put, signing, at),
      EndsWith("Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(Signature, SignsAQueryWithoutAValue) {
  EXPECT_THAT(
      sign(request("GET", "/", {{"lifecycle", ""}}), signing, at),
      EndsWith("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(Signature, SortsTheQuery) {
  const Query query{{"prefix", "J"}, {"max-keys", "2"}};
  EXPECT_EQ(encode_query(query), "max-keys=2&prefix=J");
  EXPECT_THAT(
      sign(request("GET", "/", query), signing, at),
      EndsWith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(Signature, EncodesWhatAQueryAndAPathMayHold) {
  EXPECT_EQ(encode_path("/b/a key/ö+~.json"), "/b/a%20key/%C3%B6%2B~.json");
  EXPECT_EQ(encode_query({{"prefix", "a/b c"}, {"list-type", "2"}}),
            "list-type=2&prefix=a%2Fb%20c");
}

}  // namespace

}  // namespace rocca::s3
