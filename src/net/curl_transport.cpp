#include "net/curl_transport.hpp"

#include "base/error.hpp"
#include "net/curl_exchange_internal.hpp"
#include "net/plain_http.hpp"
#include "net/proxy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <mutex>

namespace rocca::net {

namespace {

// More open sockets than this bring nothing: an endpoint that was not asked for so long reconnects.
// Each holds some 200 KiB, most of it TLS.
constexpr std::size_t idle_in_all = 24;

bool same_identity(const std::shared_ptr<const Identity>& a,
                   const std::shared_ptr<const Identity>& b) {
  if (a == b) return true;
  return a && b && a->certificate_pem == b->certificate_pem && a->key_pem == b->key_pem;
}

bool same_material(const Tls& a, const Tls& b) {
  return a.trust == b.trust && a.authority_pem == b.authority_pem &&
         same_identity(a.identity, b.identity);
}

/// Everything that two exchanges must have in common to share a connection.
struct LineKey {
  std::string origin;
  std::string proxy;
  HttpVersion version;
  Tls tls;

  friend bool operator==(const LineKey& a, const LineKey& b) {
    return a.origin == b.origin && a.proxy == b.proxy && a.version == b.version &&
           a.tls.pin == b.tls.pin && a.tls.server_name == b.tls.server_name &&
           same_material(a.tls, b.tls);
  }
};

Proxies everything_through(const std::string& proxy) {
  return Proxies([&](const char* name) {
    return std::string_view{name} == "all_proxy" ? std::optional{proxy} : std::nullopt;
  });
}

}  // namespace

/// The lines that nobody uses at the moment, newest first.
class CurlTransport::Pool {
 public:
  explicit Pool(Options options)
      : options_(std::move(options)),
        proxies_(options_.proxy.empty() ? Proxies::from_environment()
                                        : everything_through(options_.proxy)) {
    const char* const roots = std::getenv("SSL_CERT_FILE");
    if (roots != nullptr) surroundings_.roots = roots;
    surroundings_.user_agent = options_.user_agent;
  }

  const Proxies& proxies() const { return proxies_; }
  const CurlSurroundings& surroundings() const { return surroundings_; }

  std::unique_ptr<CurlLine> take(const LineKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(idle_, key, &Idle::key);
    if (found == idle_.end()) return nullptr;
    auto line = std::move(found->line);
    idle_.erase(found);
    return line;
  }

  /// As few identities are shown to many endpoints.
  std::shared_ptr<const TlsMaterial> material(const Tls& tls) {
    constexpr std::size_t many = 16;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find_if(
          materials_, [&](const Known& known) { return same_material(known.tls, tls); });
      if (found != materials_.end()) return found->material;
    }
    auto fresh = std::make_shared<const TlsMaterial>(tls);
    const std::lock_guard lock(mutex_);
    if (materials_.size() >= many) materials_.pop_back();
    materials_.push_front({tls, fresh});
    return fresh;
  }

  void give_back(LineKey key, std::unique_ptr<CurlLine> line) {
    std::list<Idle> surplus;  // closed without the lock: that talks to the far side
    const std::lock_guard lock(mutex_);
    idle_.push_front({std::move(key), std::move(line)});
    const LineKey& kept = idle_.front().key;
    const auto same = static_cast<std::size_t>(std::ranges::count(idle_, kept, &Idle::key));
    if (same > options_.idle_per_endpoint) {
      const auto oldest = std::ranges::find(idle_.rbegin(), idle_.rend(), kept, &Idle::key);
      surplus.splice(surplus.end(), idle_, std::prev(oldest.base()));
    } else if (idle_.size() > idle_in_all) {
      surplus.splice(surplus.end(), idle_, std::prev(idle_.end()));
    }
  }

 private:
  struct Idle {
    LineKey key;
    std::unique_ptr<CurlLine> line;
  };

  struct Known {
    Tls tls;
    std::shared_ptr<const TlsMaterial> material;
  };

  const Options options_;
  const Proxies proxies_;
  CurlSurroundings surroundings_;
  std::mutex mutex_;
  std::list<Idle> idle_;
  std::list<Known> materials_;
};

CurlTransport::CurlTransport() : CurlTransport(Options{}) {}
CurlTransport::CurlTransport(Options options) : pool_(std::make_unique<Pool>(std::move(options))) {}
CurlTransport::~CurlTransport() = default;

Response CurlTransport::exchange(const Request& request, BodySink& sink, std::stop_token stop) {
  const auto url = Url::parse(request.url);
  if (!url)
    throw Error(Fault::Usage, fmt::format("'{}' is not a URL that can be asked", request.url))
        .hint("write it like https://host:port/path, without user name and #fragment");
  const std::string proxy = pool_->proxies().choose(*url);
  refuse_clear_credential(request, *url, proxy);
  // curl would run our certificate hooks on the proxy's connection too, and check a pin against the
  // wrong side.
  if (proxy.starts_with("https://"))
    throw Error(Fault::Usage, "a proxy that is itself asked over TLS (https://…) cannot be used")
        .hint("give an http:// or socks5:// proxy in HTTPS_PROXY, or name this host in NO_PROXY");

  LineKey key{url->origin(), proxy, request.version, request.tls};
  auto line = pool_->take(key);
  if (!line) line = std::make_unique<CurlLine>(request.tls, pool_->material(request.tls));
  // A line on which an exchange failed is not kept: what stands on it is not known.
  Response response = [&] {
    CurlExchange exchange(*line, request, *url, sink);
    return exchange.run(pool_->surroundings(), proxy, stop);
  }();
  pool_->give_back(std::move(key), std::move(line));
  return response;
}

}  // namespace rocca::net
