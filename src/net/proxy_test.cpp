#include "net/proxy.hpp"

#include <gmock/gmock.h>

#include <map>

namespace rocca::net {
namespace {

using Environment = std::map<std::string, std::string>;

std::string choose(const Environment& environment, const char* url) {
  const Proxies proxies([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
  return proxies.choose(Url::parse(url).value());
}

TEST(Proxies, AreChosenByScheme) {
  const Environment both = {{"http_proxy", "http://a:1"}, {"HTTPS_PROXY", "http://b:2"}};
  EXPECT_EQ(choose(both, "http://x/"), "http://a:1");
  EXPECT_EQ(choose(both, "https://x/"), "http://b:2");
  EXPECT_EQ(choose({{"ALL_PROXY", "socks5://c:3"}}, "https://x/"), "socks5://c:3");
  EXPECT_EQ(choose({{"https_proxy", "http://low:1"}, {"HTTPS_PROXY", "http://up:1"}}, "https://x/"),
            "http://low:1");
  EXPECT_EQ(choose({{"HTTP_PROXY", "http://evil:1"}}, "http://x/"), "")
      << "a CGI's client may set it";
  EXPECT_EQ(choose({{"https_proxy", " "}}, "https://x/"), "");
}

struct Bypass {
  const char* name;
  const char* list;
  const char* url;
  bool bypassed;
};

class NoProxy : public ::testing::TestWithParam<Bypass> {};

TEST_P(NoProxy, Holds) {
  const auto& row = GetParam();
  EXPECT_EQ(choose({{"all_proxy", "http://p:1"}, {"NO_PROXY", row.list}}, row.url).empty(),
            row.bypassed);
}

INSTANTIATE_TEST_SUITE_P(
    Table, NoProxy,
    ::testing::Values(Bypass{"Star", "*", "https://x/", true},
                      Bypass{"Name", "x.test", "https://X.test/", true},
                      Bypass{"Below", "test", "https://a.b.test/", true},
                      Bypass{"BelowDot", ".b.test", "https://a.b.test/", true},
                      Bypass{"BelowStar", "*.b.test", "https://a.b.test/", true},
                      Bypass{"OnlyTail", "est", "https://x.test/", false},
                      Bypass{"Address", "a, 10.0.0.1", "https://10.0.0.1:8006/", true},
                      Bypass{"OtherAddress", "10.0.0.1", "https://10.0.0.11/", false},
                      Bypass{"Network", "10.0.0.0/8 192.168.0.0/16", "https://192.168.7.7/", true},
                      Bypass{"OutsideNetwork", "10.0.0.0/8", "https://11.0.0.1/", false},
                      Bypass{"Ipv6", "fd00::/8", "https://[fd00::1]:50000/", true},
                      Bypass{"Ipv6Brackets", "[::1]", "https://[::1]/", true},
                      Bypass{"TailOfAddress", "0.1", "https://10.0.0.1/", false}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace rocca::net
