#include "net/proxy.hpp"

#include "base/address.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace rocca::net {

Proxies::Proxies(const Lookup& lookup) {
  const auto first = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names)
      if (auto value = lookup(name); value && !trim(*value).empty())
        return std::string(trim(*value));
    return {};
  };
  http_ = first({"http_proxy", "all_proxy", "ALL_PROXY"});
  https_ = first({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"});
  std::string list = to_lower(first({"no_proxy", "NO_PROXY"}));
  std::ranges::replace(list, ' ', ',');
  for (const auto& entry : split(list, ','))
    if (!entry.empty()) except_.push_back(entry);
}

Proxies Proxies::from_environment() {
  return Proxies([](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

bool Proxies::bypassed(const Url& url) const {
  const std::string host = to_lower(url.host);
  const auto address = IpAddress::parse(host);
  return std::ranges::any_of(except_, [&](std::string_view entry) {
    if (entry == "*") return true;
    if (address) {
      if (entry.starts_with('[') && entry.ends_with(']')) entry = entry.substr(1, entry.size() - 2);
      if (const auto network = Cidr::parse(entry)) return network->contains(*address);
      return IpAddress::parse(entry) == address;
    }
    if (entry.starts_with("*.")) entry.remove_prefix(1);
    if (entry.starts_with('.')) entry.remove_prefix(1);
    return host == entry || (host.size() > entry.size() && host.ends_with(entry) &&
                             host[host.size() - entry.size() - 1] == '.');
  });
}

std::string Proxies::choose(const Url& url) const {
  const std::string& proxy = url.scheme == "https" ? https_ : http_;
  return proxy.empty() || bypassed(url) ? std::string() : proxy;
}

}  // namespace rocca::net
