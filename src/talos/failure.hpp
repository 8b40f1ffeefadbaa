#pragma once

#include "base/error.hpp"
#include "net/grpc.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace rocca::talos {

/// What a refusal of the Talos API means for us. Codes alone do not say it: `Unavailable` is a
/// rebooting node and a broken forward alike, `AlreadyExists` from Bootstrap is no proof of a
/// bootstrapped cluster.
enum class Reason {
  NotUp,                ///< nobody listens, or the connection broke: rebooting, booting, off
  InMaintenance,        ///< the call is not for a node without configuration
  NotInMaintenance,     ///< it wants a client certificate: it has a configuration
  NotAuthorized,        ///< the certificate's role is too small
  WrongIdentity,        ///< our certificate is not of its CA, expired, or of the wrong usage
  BadConfig,            ///< the configuration was read and refused
  NeedsReboot,          ///< the change cannot be applied without a reboot in the mode asked for
  ApplyInProgress,      ///< another apply runs, or one that reboots has been taken
  TooEarly,             ///< not yet: CRI, time, /var or etcd are not ready; ask again
  AlreadyBootstrapped,  ///< etcd has data; look at etcd itself before believing anything
  NotControlPlane,      ///< the call is for control planes only
  NoLeader,             ///< etcd has no leader: quorum is lost or not there yet
  NotFound,
  UpgradeRefused,  ///< bad image, unhealthy etcd, or another upgrade runs
  NotSupported,    ///< this version or platform does not have it
  TimedOut,
  BadRequest,
  NotTalos,      ///< something answers on the port, and it is not the Talos API
  OtherCluster,  ///< its certificate is of another CA: another cluster, or maintenance mode
  ClockSkew,     ///< a certificate is not valid now: the clocks disagree, or it has run out
  Other,
};

const char* to_string(Reason reason) noexcept;

struct Failure {
  Reason reason = Reason::Other;
  net::GrpcCode code = net::GrpcCode::Unknown;
  std::string text;  // as the node said it, configuration lines redacted

  Error error(std::string_view doing) const;
};

Failure classify(net::GrpcCode code, std::string_view message);

/// What a connection that never became a call means: the far side is not Talos, belongs to another
/// cluster, or its clock is another. Nothing for what has no such meaning (nobody listens there).
std::optional<Failure> classify_connection(const Error& error, std::string_view place);

/// Apply answers and dry runs show configuration lines in clear, keys and tokens included. What is
/// left of them here is the shape: which lines changed, never the value of one that can hold a
/// secret.
std::string redact_config(std::string_view text);

}  // namespace rocca::talos
