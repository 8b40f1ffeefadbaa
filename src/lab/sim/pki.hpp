#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "net/tls.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab {

/// The lab's own X.509, made from the seed alone: Ed25519 keys and signatures have no chance in
/// them, so the same seed gives the same fingerprints. Shares no code with the clients' side on
/// purpose.
class Authority {
 public:
  /// Parts of a distinguished name in their order: {"CN", "…"}, {"OU", "…"}.
  using Name = std::vector<std::pair<std::string, std::string>>;

  Authority(SeededEntropy entropy, std::string common_name, Instant now);
  Authority(SeededEntropy entropy, const Name& name, Instant now);

  const std::string& certificate_pem() const noexcept { return certificate_pem_; }

  struct Subject {
    std::string common_name;
    std::vector<std::string> names;  // DNS names and addresses, sorted out by their form
    std::string organization;
    bool client = false;
    Name before{};  // parts of the name in front of the common name
    Duration valid_for = std::chrono::hours{24 * 730};
  };
  net::Identity issue(const Subject& subject, Instant now);

 private:
  SeededEntropy entropy_;
  std::string key_;  // 32 raw bytes
  std::string certificate_pem_;
};

/// DER of the first certificate of a PEM text; nothing if there is none.
std::optional<std::string> first_certificate_der(std::string_view pem);

/// What GET certificates/info shows of a certificate.
struct CertificateFacts {
  std::string subject;
  std::string issuer;
  std::vector<std::string> names;
  std::string key_type;
  int key_bits = 0;
  std::int64_t not_before = 0;
  std::int64_t not_after = 0;
};
CertificateFacts certificate_facts(std::string_view pem);

/// Why a TLS client with this trust would break off when shown this chain under this name; nothing:
/// it goes on. Looks with OpenSSL, so that a chain a real client refuses is refused in the
/// simulation too.
std::optional<std::string> refuse_server(const std::string& chain_pem, const net::Tls& tls,
                                         std::string_view host, Instant now);

/// The same from the other side: may a client with this chain pass a server that trusts this
/// authority?
std::optional<std::string> refuse_client(const std::string& chain_pem,
                                         const std::string& authority_pem, Instant now);

/// What both sides of a handshake learn of the first certificate of a chain.
struct LeafFacts {
  std::string der;
  std::int64_t not_before = 0;
  std::int64_t not_after = 0;
  bool only_client_usage = false;  // clientAuth and no other: Talos demands exactly that
};
std::optional<LeafFacts> leaf_facts(std::string_view chain_pem);

}  // namespace rocca::lab
