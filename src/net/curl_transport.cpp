#include "net/curl_transport.hpp"

#include "base/error.hpp"
#include "net/curl_exchange_internal.hpp"
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
constexpr std::size_t idle_in_all = 12;

// Everything that two exchanges must have in common to share a connection. Hashed, so that no key
// stands in it.
class KeyText {
 public:
  KeyText() = default;
  KeyText(const KeyText&) = delete;
  KeyText& operator=(const KeyText&) = delete;
  ~KeyText() { wipe(text_); }

  void add(std::string_view part) { text_ += fmt::format("{}:", part.size()).append(part); }
  void add_material(const Tls& tls) {
    add(std::to_string(static_cast<int>(tls.trust)));
    add(tls.authority_pem);
    if (!tls.identity) return;
    add(tls.identity->certificate_pem);
    add(tls.identity->key_pem.reveal());
  }
  Fingerprint hash() const { return Fingerprint::of_der(text_); }

 private:
  std::string text_;
};

Fingerprint line_key(const Request& request, const Url& url, const std::string& proxy) {
  KeyText text;
  text.add(url.origin());
  text.add(proxy);
  text.add(std::to_string(static_cast<int>(request.version)));
  text.add(to_string(request.tls.pin));
  text.add(request.tls.server_name);
  text.add_material(request.tls);
  return text.hash();
}

Fingerprint material_key(const Tls& tls) {
  KeyText text;
  text.add_material(tls);
  return text.hash();
}

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

  std::unique_ptr<CurlLine> take(const Fingerprint& key) {
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
    const Fingerprint key = material_key(tls);
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find(materials_, key, &Known::key);
      if (found != materials_.end()) return found->material;
    }
    auto fresh = std::make_shared<const TlsMaterial>(tls);
    const std::lock_guard lock(mutex_);
    if (materials_.size() >= many) materials_.pop_back();
    materials_.push_front({key, fresh});
    return fresh;
  }

  void give_back(const Fingerprint& key, std::unique_ptr<CurlLine> line) {
    std::list<Idle> surplus;  // closed without the lock: that talks to the far side
    const std::lock_guard lock(mutex_);
    idle_.push_front({key, std::move(line)});
    const auto same = static_cast<std::size_t>(std::ranges::count(idle_, key, &Idle::key));
    if (same > options_.idle_per_endpoint) {
      const auto oldest = std::ranges::find(idle_.rbegin(), idle_.rend(), key, &Idle::key);
      surplus.splice(surplus.end(), idle_, std::prev(oldest.base()));
    } else if (idle_.size() > idle_in_all) {
      surplus.splice(surplus.end(), idle_, std::prev(idle_.end()));
    }
  }

 private:
  struct Idle {
    Fingerprint key;
    std::unique_ptr<CurlLine> line;
  };

  struct Known {
    Fingerprint key;
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
  // curl would run our certificate hooks on the proxy's connection too, and check a pin against the
  // wrong side.
  if (proxy.starts_with("https://"))
    throw Error(Fault::Usage, "a proxy that is itself asked over TLS (https://…) cannot be used")
        .hint("give an http:// or socks5:// proxy in HTTPS_PROXY, or name this host in NO_PROXY");

  const Fingerprint key = line_key(request, *url, proxy);
  auto line = pool_->take(key);
  if (!line) line = std::make_unique<CurlLine>(request.tls, pool_->material(request.tls));
  // A line on which an exchange failed is not kept: what stands on it is not known.
  Response response = [&] {
    CurlExchange exchange(*line, request, *url, sink);
    return exchange.run(pool_->surroundings(), proxy, stop);
  }();
  pool_->give_back(key, std::move(line));
  return response;
}

}  // namespace rocca::net
