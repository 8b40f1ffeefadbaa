#include "net/plain_http.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::net {
namespace {

struct Clear {
  const char* url;
  const char* proxy;
  bool refused;
};

TEST(ClearCredentials, GoOutOverPlainHttpOnlyToThisMachineItself) {
  for (const Clear& row :
       std::initializer_list<Clear>{{"http://nas.home/", "", true},
                                    {"http://192.0.2.1:9000/a", "", true},
                                    {"http://127.0.0.1.example.org/", "", true},
                                    {"http://localhost.example.org/", "", true},
                                    {"http://[2001:db8::1]/", "", true},
                                    {"https://nas.home/", "", false},
                                    {"https://nas.home/", "http://proxy.home:3128", false},
                                    {"http://127.0.0.1:8080/", "", false},
                                    {"http://127.9.8.7/", "", false},
                                    {"http://[::1]/", "", false},
                                    {"http://LocalHost/", "", false},
                                    // What is meant for this machine would be read by the proxy.
                                    {"http://127.0.0.1/", "http://proxy.home:3128", true},
                                    {"http://127.0.0.1/", "proxy.home:3128", true},
                                    {"http://127.0.0.1/", "socks5h://proxy.home:1080", true},
                                    {"http://127.0.0.1/", "http://127.0.0.1:3128", false}}) {
    SCOPED_TRACE(std::string(row.url) + " through " + row.proxy);
    const Url url = Url::parse(row.url).value();
    Request plain;
    plain.url = row.url;
    EXPECT_NO_THROW(refuse_clear_credential(plain, url, row.proxy));
    Request secret = plain;
    secret.authorization = Secret("Basic c2VjcmV0");
    Request header = plain;
    header.headers.add("AUTHORIZATION", "Bearer secret");
    Request cookie = plain;
    cookie.headers.add("Cookie", "PVEAuthCookie=secret");
    for (Request* request : {&secret, &header, &cookie}) {
      if (row.refused) {
        try {
          refuse_clear_credential(*request, url, row.proxy);
          ADD_FAILURE() << "it was not refused";
        } catch (const Error& error) {
          EXPECT_EQ(error.fault(), Fault::Refused);
          EXPECT_EQ(error.render().find("secret"), std::string::npos);
        }
      } else {
        EXPECT_NO_THROW(refuse_clear_credential(*request, url, row.proxy));
      }
      request->plain_http = true;
      EXPECT_NO_THROW(refuse_clear_credential(*request, url, row.proxy));
    }
  }
}

}  // namespace
}  // namespace rocca::net
