// The real curl against net::Server. Usage: peer_curl CURL FOLDER. Writes certificates for curl
// into FOLDER, prints `ok NAME` or `FAIL NAME: why` per case, and exits 1 if one failed.

#include "net/server/server.hpp"
#include "support/pki.hpp"

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace rocca;
using ResponderPtr = std::shared_ptr<net::Responder>;

struct Ran {
  int code = -1;
  std::string output;  // stdout and stderr
};

class Suite {
 public:
  Suite(std::string curl, std::string folder)
      : curl_(std::move(curl)), folder_(std::move(folder)) {}

  std::string file(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream{path} << text;
    return path;
  }

  Ran curl(const std::string& arguments) const {
    // Nothing of the caller's settings: no proxy, no ~/.curlrc.
    const std::string line = "env -u HTTPS_PROXY -u https_proxy -u http_proxy -u ALL_PROXY " +
                             curl_ + " -q -sS --max-time 20 " + arguments + " 2>&1";
    Ran ran;
    FILE* pipe = ::popen(line.c_str(), "r");
    if (pipe == nullptr) return ran;
    std::array<char, 4096> buffer{};
    while (const auto got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      ran.output.append(buffer.data(), got);
    }
    const int status = ::pclose(pipe);
    ran.code = (status >> 8) & 0xff;
    return ran;
  }

  void expect(const std::string& name, const std::string& arguments, int code,
              const std::vector<std::string>& parts) {
    const auto ran = curl(arguments);
    std::string why;
    if (ran.code != code) why = fmt::format("curl ended with {} instead of {}", ran.code, code);
    for (const auto& part : parts) {
      if (ran.output.find(part) == std::string::npos) why += fmt::format("; '{}' is missing", part);
    }
    if (why.empty()) {
      fmt::print("ok {}\n", name);
    } else {
      failed_ = true;
      fmt::print("FAIL {}: {}; it said:\n{}\n", name, why, ran.output);
    }
  }

  bool failed() const { return failed_; }

 private:
  std::string curl_;
  std::string folder_;
  bool failed_ = false;
};

void serve(const net::Incoming& request, const ResponderPtr& out) {
  const auto& target = request.target;
  if (target == "/version") {
    return out->answer(200, "", {}, request.version == net::HttpVersion::Http2 ? "h2" : "h1");
  }
  if (target == "/reason") return out->answer(500, "no such VM 'caf\xc3\xa9'", {}, "");
  if (target == "/echo") return out->answer(200, "", {}, std::to_string(request.body.size()));
  if (target == "/repeat") return out->answer(200, "", {{"X-R", "one"}, {"X-R", "two"}}, "");
  if (target == "/large") return out->answer(200, "", {}, std::string(30'000'000, 'x'));
  if (target == "/empty") return out->answer(204, "", {}, "");
  if (target == "/cut") return out->cut();
  if (target == "/who")
    return out->answer(200, "", {}, request.peer_certificate.empty() ? "nobody" : "known");
  if (target == "/trailers") {
    out->begin(200, "", {});
    out->write("body");
    return out->finish({{"X-Trailer", "at the end"}});
  }
  out->answer(404, "", {}, "");
}

int run(const std::string& curl, const std::string& folder) {
  Suite suite{curl, folder};
  const auto authority =
      test::make_pki({.name = "peer ca", .authority = true, .key = test::KeyType::P256});
  const auto own = test::make_pki({.name = "server", .usages = {"serverAuth"}}, &authority);
  const auto client = test::make_pki({.name = "client", .usages = {"clientAuth"}}, &authority);
  const auto stranger = test::make_pki({.name = "stranger", .usages = {"clientAuth"}});
  const auto expired = test::make_pki(
      {.name = "late", .usages = {"clientAuth"}, .valid_from = -7200, .valid_to = -3600},
      &authority);
  const auto misused = test::make_pki({.name = "wrong", .usages = {"serverAuth"}}, &authority);
  const std::string ca = " --cacert " + suite.file("ca.pem", authority.certificate) + " ";
  const auto as = [&](const std::string& name, const test::Pki& pki) {
    return fmt::format(" --cert {} --key {} ", suite.file(name + ".pem", pki.certificate),
                       suite.file(name + ".key", pki.key));
  };

  net::Server server;
  const net::Identity identity{own.certificate, Secret{own.key}};
  const auto port_of = [&](net::Server::Id id) { return std::to_string(server.port(id)); };
  const std::string clear =
      "http://127.0.0.1:" + port_of(server.listen({.address = "127.0.0.1", .handler = serve}));
  const std::string tls =
      "https://127.0.0.1:" +
      port_of(server.listen(
          {.address = "127.0.0.1", .tls = net::ServerTls{.identity = identity}, .handler = serve}));
  const std::string mutual =
      "https://127.0.0.1:" +
      port_of(server.listen({.address = "127.0.0.1",
                             .tls = net::ServerTls{.identity = identity,
                                                   .clients = net::ServerTls::Clients::Require,
                                                   .client_authority_pem = authority.certificate},
                             .handler = serve}));
  const std::string proxy =
      "http://127.0.0.1:" +
      port_of(server.listen({.address = "127.0.0.1",
                             .handler = [&](const net::Incoming& request, const ResponderPtr& out) {
                               if (request.target == "nobody.home:1")
                                 return out->tunnel("127.0.0.1", 1);
                               const auto colon = tls.rfind(':');
                               out->tunnel("127.0.0.1", static_cast<unsigned>(
                                                            std::stoul(tls.substr(colon + 1))));
                             }}));
  const std::string upload =
      " --data-binary @" + suite.file("upload", std::string(5'000'000, 'u')) + " ";

  suite.expect("http1-clear", clear + "/version", 0, {"h1"});
  suite.expect("http2-prior-knowledge", "--http2-prior-knowledge " + clear + "/version", 0, {"h2"});
  suite.expect("http2-upgrade-declined", "--http2 " + clear + "/version", 0, {"h1"});
  suite.expect("http1-tls", "--http1.1" + ca + tls + "/version", 0, {"h1"});
  suite.expect("http2-alpn", "--http2" + ca + tls + "/version", 0, {"h2"});
  suite.expect("tls-1.2", "--tls-max 1.2" + ca + tls + "/version", 0, {"h2"});
  suite.expect("reason-phrase", "-i --http1.1" + ca + tls + "/reason", 0,
               {"HTTP/1.1 500 no such VM 'caf\xc3\xa9'\r\n"});
  suite.expect("repeated-headers", "-i" + ca + tls + "/repeat", 0,
               {"x-r: one\r\n", "x-r: two\r\n"});
  suite.expect("no-content", "-i" + ca + tls + "/empty", 0, {"HTTP/2 204"});
  suite.expect("head", "-I" + ca + tls + "/large", 0, {"content-length: 30000000"});
  for (const std::string version : {"--http1.1", "--http2"}) {
    const std::string name = version.substr(2);
    suite.expect("upload-" + name, version + upload + ca + tls + "/echo", 0, {"5000000"});
    suite.expect("upload-expect-" + name,
                 version + " -H 'Expect: 100-continue'" + upload + ca + tls + "/echo", 0,
                 {"5000000"});
    suite.expect("upload-chunked-" + name,
                 version + " -H 'Transfer-Encoding: chunked'" + upload + ca + tls + "/echo", 0,
                 {"5000000"});
    suite.expect("download-" + name,
                 version + " -o /dev/null -w '%{size_download}'" + ca + tls + "/large", 0,
                 {"30000000"});
    suite.expect("trailers-" + name, version + " -D -" + ca + tls + "/trailers", 0,
                 {"body", "at the end"});
    suite.expect("reuse-" + name,
                 version + " -w '%{num_connects}'" + ca + tls + "/version " + tls + "/version", 0,
                 {name == "http2" ? "h21h20" : "h11h10"});
  }
  suite.expect("cut-http1.1", "--http1.1" + ca + tls + "/cut", 56, {});
  suite.expect("cut-http2", "--http2" + ca + tls + "/cut", 92, {"INTERNAL_ERROR"});
  suite.expect("client-certificate", as("client", client) + ca + mutual + "/who", 0, {"known"});
  suite.expect("alert-no-certificate", ca + mutual + "/who", 56, {"certificate required"});
  suite.expect("alert-unknown-ca", as("stranger", stranger) + ca + mutual + "/who", 56,
               {"unknown ca"});
  suite.expect("alert-expired", as("expired", expired) + ca + mutual + "/who", 56,
               {"certificate expired"});
  suite.expect("alert-wrong-usage", as("misused", misused) + ca + mutual + "/who", 56,
               {"bad certificate"});
  suite.expect("alert-tls-1.2", "--tls-max 1.2" + as("stranger", stranger) + ca + mutual + "/who",
               35, {"unknown ca"});
  suite.expect("connect-proxy", "-x " + proxy + ca + tls + "/version", 0, {"h2"});
  suite.expect("connect-proxy-nobody", "-x " + proxy + " https://nobody.home:1/", 56, {"502"});
  return suite.failed() ? 1 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    fmt::print(stderr, "usage: peer_curl CURL FOLDER\n");
    return 2;
  }
  return run(arguments[1], arguments[2]);
}
