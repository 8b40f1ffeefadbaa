#include "lab/talos/certificates.hpp"
#include "lab/talos/node.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

TalosNode* Fleet::find(std::string_view address) const {
  const auto parsed = IpAddress::parse(address);
  for (TalosNode* node : nodes_) {
    if (!node->powered_) continue;
    if (node->address_ == address) return node;
    if (!parsed) continue;
    for (const Address& each : node->network_.addresses)
      if (each.cidr.address() == *parsed) return node;
  }
  return nullptr;
}

bool Fleet::connects(const TalosNode& from, const TalosNode& to) const {
  if (lans == nullptr || &from == &to || (from.routed() && to.routed())) return true;
  const auto wire = [](const TalosNode& node, const std::string& link) {
    for (const Link& each : node.machine_.links)
      if (each.name == link) return each.wire;
    return std::string();
  };
  for (const Address& mine : from.network_.addresses)
    for (const Address& theirs : to.network_.addresses) {
      const std::string shared = wire(from, mine.link);
      if (!shared.empty() && shared == wire(to, theirs.link) &&
          mine.cidr.contains(theirs.cidr.address()))
        return true;
    }
  return false;
}

std::shared_ptr<const Signer> Fleet::signer(const SigningAuthority& authority) {
  const auto [found, fresh] = signers_.try_emplace(authority.certificate_pem + authority.key_pem);
  if (fresh) found->second = Signer::read(authority);
  return found->second;
}

const std::vector<std::string>& Fleet::roles(const std::string& certificate_der) {
  const auto [found, fresh] = roles_.try_emplace(certificate_der);
  if (fresh) found->second = organizations(certificate_der);
  return found->second;
}

}  // namespace rocca::lab::talos
