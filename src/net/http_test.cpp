#include "net/http.hpp"

#include <gmock/gmock.h>

namespace rocca::net {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(Headers, KeepOrderAndRepeatsAndIgnoreCase) {
  Headers headers{{"Set-Cookie", "a=1"}, {"X", "y"}, {"set-cookie", "b=2"}};
  EXPECT_THAT(headers.all("SET-COOKIE"), ElementsAre("a=1", "b=2"));
  EXPECT_THAT(headers.find("x"), Optional(std::string_view("y")));
  EXPECT_EQ(headers.find("z"), std::nullopt);
}

TEST(Headers, SetReplacesAllOfThatName) {
  Headers headers{{"A", "1"}, {"B", "2"}, {"a", "3"}};
  headers.set("a", "4");
  EXPECT_THAT(headers, ElementsAre(Header{"B", "2"}, Header{"a", "4"}));
}

struct GoodUrl {
  const char* name;
  const char* text;
  const char* printed;
};

class UrlReads : public ::testing::TestWithParam<GoodUrl> {};

TEST_P(UrlReads, AndPrints) {
  const auto url = Url::parse(GetParam().text);
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(to_string(*url), GetParam().printed);
  EXPECT_EQ(to_string(Url::parse(to_string(*url)).value()), GetParam().printed);
}

INSTANTIATE_TEST_SUITE_P(
    Table, UrlReads,
    ::testing::Values(GoodUrl{"DefaultPorts", "https://a.b", "https://a.b:443/"},
                      GoodUrl{"Plain", "http://a/x", "http://a:80/x"},
                      GoodUrl{"Port", "https://10.0.0.1:8006/api2/json?a=b",
                              "https://10.0.0.1:8006/api2/json?a=b"},
                      GoodUrl{"Ipv6", "https://[fd00::1]:50000", "https://[fd00::1]:50000/"},
                      GoodUrl{"Ipv6DefaultPort", "https://[::1]/x", "https://[::1]:443/x"},
                      GoodUrl{"QueryOnly", "http://a?x=1", "http://a:80/?x=1"},
                      GoodUrl{"SchemeCase", "HTTPS://a/", "https://a:443/"}),
    [](const auto& row) { return row.param.name; });

class UrlRefuses : public ::testing::TestWithParam<const char*> {};

TEST_P(UrlRefuses, It) {
  EXPECT_FALSE(Url::parse(GetParam()).has_value()) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Table, UrlRefuses,
                         ::testing::Values("", "a.b", "/x", "ftp://a/", "file:///etc/passwd",
                                           "http://", "http:///x", "http://user@a/", "http://a:0/",
                                           "http://a:65536/", "http://a:/", "http://a:80x/",
                                           "http://a/x y", "http://a/x\r\ny", "http://a/#f",
                                           "http://[::1", "http://[a.b]/", "http://[::1]x/",
                                           "http://a b/", "http://::1/"));

}  // namespace
}  // namespace rocca::net
