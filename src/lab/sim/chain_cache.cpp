#include "lab/sim/chain_cache.hpp"

#include "lab/sim/pki.hpp"

namespace rocca::lab {

ChainCache::Known& ChainCache::known() {
  thread_local Known all;
  return all;
}

std::pair<std::optional<std::string>&, bool> ChainCache::verdict_of(std::string asked) {
  auto& verdicts = known().verdicts;
  if (verdicts.size() >= most && !verdicts.contains(asked)) verdicts.clear();
  const auto [found, fresh] = verdicts.try_emplace(std::move(asked));
  return {found->second, fresh};
}

const ChainCache::Look& ChainCache::look(const std::string& pem) {
  auto& looks = known().looks;
  if (looks.size() >= most && !looks.contains(pem)) looks.clear();
  const auto [found, fresh] = looks.try_emplace(pem);
  Look& look = found->second;
  if (!fresh) return look;
  auto facts = leaf_facts(pem);
  if (!facts) return look;
  look.fingerprint = net::Fingerprint::of_der(facts->der);
  look.der = std::move(facts->der);
  look.from = Instant{std::chrono::seconds{facts->not_before}};
  look.until = Instant{std::chrono::seconds{facts->not_after}};
  look.only_client_usage = facts->only_client_usage;
  return look;
}

/// One certificate, and it is valid now. Bundles are not remembered: any part may run out.
bool ChainCache::current(const std::string& pem, Instant now) {
  const std::string begin = "BEGIN CERTIFICATE";
  const std::size_t first = pem.find(begin);
  if (first == std::string::npos || pem.find(begin, first + 1) != std::string::npos) return false;
  const Look& it = look(pem);
  return it.from <= now && now <= it.until;
}

std::optional<std::string> ChainCache::refuse_server(const std::string& chain, const net::Tls& tls,
                                                     const std::string& host, Instant now) {
  if (tls.trust == net::Tls::Trust::Pinned && look(chain).fingerprint == tls.pin)
    return std::nullopt;
  const bool lasting = tls.trust == net::Tls::Trust::Authority && current(chain, now) &&
                       current(tls.authority_pem, now);
  if (!lasting) return lab::refuse_server(chain, tls, host, now);
  const auto [verdict, fresh] =
      verdict_of(chain + tls.authority_pem + host + " " + tls.server_name);
  if (fresh) verdict = lab::refuse_server(chain, tls, host, now);
  return verdict;
}

std::optional<std::string> ChainCache::refuse_client(const std::string& chain,
                                                     const std::string& authority, Instant now) {
  if (!current(chain, now) || !current(authority, now))
    return lab::refuse_client(chain, authority, now);
  const auto [verdict, fresh] = verdict_of("client " + chain + authority);
  if (fresh) verdict = lab::refuse_client(chain, authority, now);
  return verdict;
}

}  // namespace rocca::lab
