#pragma once

#include "base/clock.hpp"
#include "kube/client.hpp"

#include <optional>
#include <string>

namespace rocca::kube {

/// RFC 3339 with exactly six fractional digits, the only form a Lease takes.
std::string micro_time(Instant instant);

/// One of several that want to be the only one (client-go's leader election). Whether the holder
/// has fallen silent is judged by our own clock since we last saw its record change, never by the
/// times in it: clocks of machines differ.
class LeaseClaim {
 public:
  struct About {
    std::string space;
    std::string name;
    std::string identity;  // unique: host and a random part
    Duration lasts = std::chrono::seconds{15};
  };
  LeaseClaim(Client& client, const Clock& clock, About about)
      : client_(client), clock_(clock), about_(std::move(about)) {}

  /// Takes the Lease or renews it, one try. False: somebody else holds it, or was faster.
  bool hold();
  /// Lets go of it, if it is ours.
  void release();
  /// Who had it at the last try; empty: nobody.
  const std::string& holder() const { return holder_; }

 private:
  Value spec(std::uint64_t transitions, const std::string& acquired) const;

  Client& client_;
  const Clock& clock_;
  About about_;
  std::string holder_;
  std::string seen_version_;  // of the record that somebody else wrote
  Tick seen_at_{};
};

}  // namespace rocca::kube
