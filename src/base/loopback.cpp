#include "base/loopback.hpp"

#include "base/address.hpp"
#include "base/strings.hpp"

namespace rocca {

bool is_loopback_host(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string name = to_lower(host);
  if (name == "localhost" || name.ends_with(".localhost")) return true;
  const auto address = IpAddress::parse(name);
  return address && address->is_loopback();
}

}  // namespace rocca
