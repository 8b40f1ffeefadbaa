// Our HTTP client against nginx: connections counted by nginx itself, pins, client certificates,
// HTTP/2, slow and broken answers, and a large download that is never held in memory.
//
//   peer_nginx [/usr/sbin/nginx]

#include "base/strings.hpp"
#include "checks.hpp"
#include "net/curl_transport.hpp"
#include "net/net_test_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace {

using namespace std::chrono_literals;
using namespace rocca;
using namespace rocca::peers;
using net::Answer;
using net::fetch;
using net::HttpVersion;
using net::Request;
using net::Tls;
using net::test::Authority;
using net::test::Issued;
using net::test::KeyKind;

constexpr std::uint64_t big_size = 512U << 20U;

/// A folder that goes away with us.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rocca-nginx-XXXXXX").string();
    expect(mkdtemp(name.data()) != nullptr, "no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A listening socket on 127.77.0.1. nginx inherits it (as in its upgrade of a running binary), so
/// nobody has to guess a free port or to wait until nginx is up: what connects early stands in the
/// queue.
struct Listener {
  Listener() {
    fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = inet_addr("127.77.0.1");
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    expect(bind(fd, where, size) == 0 && listen(fd, 128) == 0, "cannot listen on 127.77.0.1");
    getsockname(fd, where, &size);
    name = fmt::format("127.77.0.1:{}", ntohs(address.sin_port));
  }
  ~Listener() { close(fd); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd = -1;
  std::string name;
};

class Nginx {
 public:
  Nginx(const char* program, const Issued& identity, const std::string& client_authority) {
    const std::string common = fmt::format("ssl_certificate {}; ssl_certificate_key {};",
                                           folder_.file("server.pem", identity.certificate_pem),
                                           folder_.file("server.key", identity.key_pem));
    const std::string clients = folder_.file("clients.pem", client_authority);
    folder_.file("big", "");
    std::filesystem::resize_file(folder_.path() / "big", big_size);
    const std::string locations = fmt::format(R"(
      root {0};
      location = /who {{ return 200 "$connection $connection_requests $server_protocol"; }}
      location = /cut {{ return 444; }}
      location = /trickle {{ limit_rate 1k; try_files /big =404; }}
      location = /sink {{ client_max_body_size 0; return 200 "taken"; }}
      location = /upstream {{ proxy_pass http://127.77.0.1:1; }})",
                                              folder_.path().string());
    const std::string config = fmt::format(
        R"(daemon off;
{9}
worker_processes 1;
pid {0}/pid;
error_log {0}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u;
  scgi_temp_path {0}/s;
  server {{ listen {1}; {5} }}
  server {{ listen {2} ssl; {6} {5} }}
  server {{ listen {3} ssl http2; {6} {5} }}
  server {{ listen {4} ssl; {6} {5} ssl_client_certificate {7}; ssl_verify_client on;
            location = /me {{ return 200 $ssl_client_verify; }} }}
  server {{ listen {8}; keepalive_requests 3; {5} }}
}}
)",
        folder_.path().string(), plain_.name, tls_.name, two_.name, mutual_.name, locations, common,
        clients, few_.name,
        geteuid() == 0 ? "user root root;" : "");  // our folder is for our own user
    const std::string path = folder_.file("nginx.conf", config);
    process_ = fork();
    if (process_ > 0) setpgid(process_, process_);
    if (process_ == 0) {
      // A group of its own: nginx's worker must die with its master, also when we do.
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      setenv(
          "NGINX",
          fmt::format("{};{};{};{};{};", plain_.fd, tls_.fd, two_.fd, mutual_.fd, few_.fd).c_str(),
          1);
      const std::string log = (folder_.path() / "error.log").string();
      execl(program, program, "-c", path.c_str(), "-p", folder_.path().c_str(), "-e", log.c_str(),
            static_cast<char*>(nullptr));
      _exit(127);
    }
  }
  ~Nginx() { kill(); }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;

  void kill() {
    if (process_ <= 0) return;
    ::kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }

  std::string log() const {
    std::ifstream in(folder_.path() / "error.log");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string plain() const { return "http://" + plain_.name; }
  std::string tls() const { return "https://" + tls_.name; }
  std::string two() const { return "https://" + two_.name; }
  std::string mutual() const { return "https://" + mutual_.name; }
  std::string few() const { return "http://" + few_.name; }

 private:
  Folder folder_;
  Listener plain_, tls_, two_, mutual_, few_;
  pid_t process_ = -1;
};

Request ask(std::string url, Tls tls = {}) {
  Request request;
  request.url = std::move(url);
  request.tls = std::move(tls);
  return request;
}

std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  throw Failure("/proc/self/status has no VmHWM");
}

struct Counter final : net::BodySink {
  bool write(std::string_view bytes) override {
    count += bytes.size();
    return !at_half || count < big_size / 2 || (at_half(), true);
  }
  std::uint64_t count = 0;
  std::function<void()> at_half;
};

class Zeros final : public net::BodySource {
 public:
  Zeros(std::uint64_t size, bool tell)
      : left_(size), size_(tell ? std::optional(size) : std::nullopt) {}
  std::optional<std::uint64_t> size() const override { return size_; }
  std::size_t read(std::span<char> out) override {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, out.size()));
    std::fill_n(out.begin(), count, '\0');
    left_ -= count;
    return count;
  }

 private:
  std::uint64_t left_;
  std::optional<std::uint64_t> size_;
};

/// nginx's own words: which connection it was, how many requests came on it, and in which version.
struct Who {
  explicit Who(const std::string& text) {
    const auto words = split(text, ' ');
    expect(words.size() == 3, "nginx said '" + text + "'");
    connection = words[0];
    requests = words[1];
    protocol = words[2];
  }
  std::string connection, requests, protocol;
};

void check_reuse(Checks& checks, net::CurlTransport& transport, const Nginx& nginx,
                 const Tls& trusted) {
  for (const std::string& origin : {nginx.plain(), nginx.tls(), nginx.two()}) {
    const std::string kind = origin == nginx.two()   ? "http2"
                             : origin == nginx.tls() ? "tls"
                                                     : "clear";
    checks.run(("nginx.reuse_counted_" + kind).c_str(), [&] {
      const Who first(fetch(transport, ask(origin + "/who", trusted)).body);
      for (int i = 2; i <= 20; ++i) {
        const Who next(fetch(transport, ask(origin + "/who", trusted)).body);
        expect_equal(next.connection, first.connection, "the connection");
        expect_equal(next.requests, std::to_string(i), "its number of requests");
      }
    });
    checks.run(("nginx.post_is_fresh_" + kind).c_str(), [&] {
      std::set<std::string> connections;
      Request request = ask(origin + "/who", trusted);
      for (const char* method : {"POST", "PUT", "DELETE", "POST"}) {
        request.method = method;
        const Who who(fetch(transport, request).body);
        expect_equal(who.requests, "1", "the connection's number of requests");
        connections.insert(who.connection);
      }
      expect(connections.size() == 4, "a connection was used twice");
    });
  }
  checks.run("nginx.connection_closed_by_server_between_gets", [&] {
    std::set<std::string> connections;
    for (int i = 0; i < 9; ++i)
      connections.insert(Who(fetch(transport, ask(nginx.few() + "/who")).body).connection);
    expect(connections.size() == 3,
           fmt::format("{} connections in place of 3", connections.size()));
  });
}

void check_tls(Checks& checks, net::CurlTransport& transport, const Nginx& nginx,
               const Issued& server, const Authority& authority, const Tls& trusted) {
  checks.run("nginx.http2", [&] {
    const Answer answer = fetch(transport, ask(nginx.two() + "/who", trusted));
    expect_equal(Who(answer.body).protocol, "HTTP/2.0", "the version nginx saw");
    expect(answer.head.version == HttpVersion::Http2, "the version we saw is another");
    Request request = ask(nginx.tls() + "/who", trusted);
    request.version = HttpVersion::Http2;
    expect_fault(Fault::Rejected, [&] { fetch(transport, request); });
    request = ask(nginx.two() + "/who", trusted);
    request.version = HttpVersion::Http1;
    expect_equal(Who(fetch(transport, request).body).protocol, "HTTP/1.1", "the version asked for");
  });
  checks.run("nginx.pin", [&] {
    const Answer answer =
        fetch(transport, ask(nginx.tls() + "/who", Tls::pinned(server.fingerprint)));
    expect(answer.head.peer == server.fingerprint, "the fingerprint is another");
  });
  checks.run("nginx.pin_mismatch_refused", [&] {
    const auto pin = net::Fingerprint::of_der("another");
    const Error error = expect_fault(
        Fault::Denied, [&] { fetch(transport, ask(nginx.tls() + "/who", Tls::pinned(pin))); });
    expect(error.message().find(to_string(pin)) != std::string::npos, "the pin is not shown");
    expect(error.message().find(to_string(server.fingerprint)) != std::string::npos,
           "the certificate is not shown");
    expect(!error.hint().empty(), "there is no hint");
  });
  checks.run("nginx.foreign_ca_refused", [&] {
    const Authority other("other CA");
    expect_fault(Fault::Denied,
                 [&] { fetch(transport, ask(nginx.tls() + "/who", Tls::authority(other.pem()))); });
  });
  checks.run("nginx.client_certificate", [&] {
    for (const KeyKind kind : {KeyKind::Ed25519, KeyKind::Ecdsa, KeyKind::Rsa}) {
      Tls tls = trusted;
      tls.identity = authority.issue({}, kind).identity();
      expect_equal(fetch(transport, ask(nginx.mutual() + "/me", tls)).body, "SUCCESS",
                   "what nginx found");
    }
    // nginx ends the handshake well and refuses in HTTP.
    expect(fetch(transport, ask(nginx.mutual() + "/me", trusted)).head.status == 400,
           "it did without one");
    Tls tls = trusted;
    tls.identity = Authority("other CA").issue({}).identity();
    expect(fetch(transport, ask(nginx.mutual() + "/me", tls)).head.status == 400,
           "it took another CA's");
  });
  checks.run("nginx.http_on_https_port", [&] {
    expect(fetch(transport, ask("http" + nginx.tls().substr(5))).head.status == 400, "no 400 came");
    const Error error = expect_fault(Fault::Unreachable, [&] {
      fetch(transport, ask("https" + nginx.plain().substr(4), Tls::unverified()));
    });
    expect(error.message().find("does not speak TLS") != std::string::npos, error.message());
  });
}

void check_answers(Checks& checks, net::CurlTransport& transport, const Nginx& nginx,
                   const Tls& trusted) {
  checks.run("nginx.errors_are_answers", [&] {
    expect(fetch(transport, ask(nginx.plain() + "/missing")).head.status == 404, "no 404");
    const Answer answer = fetch(transport, ask(nginx.plain() + "/upstream"));
    expect(answer.head.status == 502, "no 502");
    expect_equal(answer.head.reason, "Bad Gateway", "the reason");
  });
  checks.run("nginx.closed_without_answer", [&] {
    expect_fault(Fault::Lost, [&] { fetch(transport, ask(nginx.plain() + "/cut")); });
    expect_fault(Fault::Lost, [&] { fetch(transport, ask(nginx.tls() + "/cut", trusted)); });
    expect_fault(Fault::Lost, [&] { fetch(transport, ask(nginx.two() + "/cut", trusted)); });
    Request request = ask(nginx.plain() + "/cut");
    request.method = "POST";
    request.body = "x";
    expect_fault(Fault::Lost, [&] { fetch(transport, request); });
  });
  checks.run("nginx.slow_answer", [&] {
    Request request = ask(nginx.plain() + "/trickle");
    request.timeout = 300ms;
    Counter sink;
    const Error error = expect_fault(Fault::Lost, [&] { transport.exchange(request, sink, {}); });
    expect(error.message().find("did not end within 300ms") != std::string::npos, error.message());
    request.timeout.reset();
    request.idle_timeout = 200ms;
    expect_fault(Fault::Lost, [&] { transport.exchange(request, sink, {}); });
  });
  checks.run("nginx.stop_within_a_slow_answer", [&] {
    std::stop_source stop;
    struct Stopper final : net::BodySink {
      bool write(std::string_view) override {
        source.request_stop();
        return true;
      }
      std::stop_source source;
    } sink;
    sink.source = stop;
    Request request = ask(nginx.plain() + "/trickle");
    request.timeout.reset();
    expect_fault(Fault::Interrupted, [&] { transport.exchange(request, sink, stop.get_token()); });
  });
  for (const std::string& origin : {nginx.plain(), nginx.tls(), nginx.two()}) {
    const std::string kind = origin == nginx.two()   ? "http2"
                             : origin == nginx.tls() ? "tls"
                                                     : "clear";
    checks.run(("nginx.large_download_in_bounded_memory_" + kind).c_str(), [&] {
      const std::uint64_t before = peak_memory();
      Counter sink;
      transport.exchange(ask(origin + "/big", trusted), sink, {});
      expect(sink.count == big_size, fmt::format("{} bytes came", sink.count));
      const std::uint64_t grown = peak_memory() - before;
      expect(grown < (16U << 20U), fmt::format("the peak grew by {} bytes", grown));
    });
    checks.run(("nginx.large_upload_in_bounded_memory_" + kind).c_str(), [&] {
      const std::uint64_t before = peak_memory();
      for (const bool tell : {true, false}) {
        Request request = ask(origin + "/sink", trusted);
        request.method = "PUT";
        request.body = std::make_shared<Zeros>(128U << 20U, tell);
        expect(fetch(transport, request).head.status == 200, "it was not taken");
      }
      const std::uint64_t grown = peak_memory() - before;
      expect(grown < (16U << 20U), fmt::format("the peak grew by {} bytes", grown));
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const program = argc > 1 ? argv[1] : "/usr/sbin/nginx";
  const Authority authority;
  const Issued server = authority.issue({"127.77.0.1"});
  const Tls trusted = Tls::authority(authority.pem());
  Nginx nginx(program, server, authority.pem());
  net::CurlTransport transport;
  Checks checks;
  check_reuse(checks, transport, nginx, trusted);
  check_tls(checks, transport, nginx, server, authority, trusted);
  check_answers(checks, transport, nginx, trusted);
  checks.run("nginx.killed_mid_download", [&] {
    Counter sink;
    sink.at_half = [&] { nginx.kill(); };
    expect_fault(Fault::Lost,
                 [&] { transport.exchange(ask(nginx.tls() + "/big", trusted), sink, {}); });
    expect(sink.count < big_size, "everything came");
  });
  checks.run("nginx.gone_is_unreachable", [&] {
    // Our own copies of the listening sockets still take connections, but nobody answers on them.
    Request request = ask(nginx.tls() + "/who", trusted);
    request.method = "POST";
    request.connect_timeout = 200ms;
    expect_fault(Fault::Unreachable, [&] { fetch(transport, request); });
  });
  if (checks.exit_code() != 0) std::printf("nginx's log:\n%s\n", nginx.log().c_str());
  return checks.exit_code();
}
