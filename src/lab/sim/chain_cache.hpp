#pragma once

#include "base/clock.hpp"
#include "net/tls.hpp"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace rocca::lab {

/// Reads and verifies certificate chains once. The same few come with every exchange, and looking
/// at them with OpenSSL costs more than all the rest of a simulated request. What was found out
/// about a text is true in every simulated world, and all of a thread share it.
class ChainCache {
 public:
  struct Look {
    std::string der;  // of the first certificate
    std::optional<net::Fingerprint> fingerprint;
    Instant from{}, until{};
    bool only_client_usage = false;
  };
  const Look& look(const std::string& pem);

  /// As in pki.hpp. What was said of a chain is said again while nothing of it runs out: whoever
  /// waits for a node knocks often at a door that refuses it.
  std::optional<std::string> refuse_server(const std::string& chain, const net::Tls& tls,
                                           const std::string& host, Instant now);
  std::optional<std::string> refuse_client(const std::string& chain, const std::string& authority,
                                           Instant now);

 private:
  bool current(const std::string& pem, Instant now);

  struct Known {
    std::unordered_map<std::string, Look> looks;
    std::unordered_map<std::string, std::optional<std::string>> verdicts;
  };
  static constexpr std::size_t most = 1024;  // texts that are remembered
  static Known& known();
  /// What was said, and whether nobody has asked before.
  static std::pair<std::optional<std::string>&, bool> verdict_of(std::string asked);
};

}  // namespace rocca::lab
