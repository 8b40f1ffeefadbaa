#include "talos/failure.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::talos {

namespace {

using net::GrpcCode;

struct Sentence {
  std::string_view part;
  Reason reason;
};

// The first part that occurs decides; then the code does.
constexpr std::array sentences = {
    Sentence{"instead of a gRPC answer", Reason::NotTalos},
    Sentence{"certificate required", Reason::NotInMaintenance},
    Sentence{"bad certificate", Reason::WrongIdentity},
    Sentence{"unknown certificate authority", Reason::WrongIdentity},
    Sentence{"unknown ca", Reason::WrongIdentity},
    Sentence{"expired certificate", Reason::WrongIdentity},
    Sentence{"certificate has expired", Reason::WrongIdentity},
    Sentence{"not implemented in maintenance mode", Reason::InMaintenance},
    Sentence{"not supported in maintenance mode", Reason::InMaintenance},
    Sentence{"can't be generated in the maintenance mode", Reason::InMaintenance},
    Sentence{"another apply configuration is already in progress", Reason::ApplyInProgress},
    Sentence{"configuration was already applied and node is rebooting", Reason::ApplyInProgress},
    Sentence{"can't be applied in immediate mode", Reason::NeedsReboot},
    Sentence{"the REBOOT mode is not supported", Reason::NotSupported},
    Sentence{"bootstrap is not available yet", Reason::TooEarly},
    Sentence{"time is not in sync yet", Reason::TooEarly},
    Sentence{"not ready for recovery yet", Reason::TooEarly},
    Sentence{"is not running", Reason::TooEarly},
    Sentence{"etcd data directory is not empty", Reason::AlreadyBootstrapped},
    Sentence{"only available on control plane nodes", Reason::NotControlPlane},
    Sentence{"can only be performed on a control plane node", Reason::NotControlPlane},
    Sentence{"no request forwarding", Reason::NotControlPlane},
    Sentence{"no leader", Reason::NoLeader},
    Sentence{"error validating installer image", Reason::UpgradeRefused},
    Sentence{"error validating etcd for upgrade", Reason::UpgradeRefused},
    Sentence{"failed to acquire upgrade mutex", Reason::UpgradeRefused},
    Sentence{"installation/upgrade is already in progress", Reason::UpgradeRefused},
    Sentence{"machine is already installed", Reason::UpgradeRefused},
    Sentence{"machine is not installed", Reason::UpgradeRefused},
    Sentence{"method is not supported in container mode", Reason::NotSupported},
    Sentence{"configuration validation failed", Reason::BadConfig},
    Sentence{"failed to parse config", Reason::BadConfig},
    Sentence{"doesn't contain v1alpha1 config", Reason::BadConfig},
    Sentence{"not found", Reason::NotFound},
    Sentence{"wasn't found", Reason::NotFound},
    Sentence{"was not registered", Reason::NotFound},
    Sentence{"no such file or directory", Reason::NotFound},
    Sentence{"not defined", Reason::NotFound},
    Sentence{"failed to forfeit leadership", Reason::BadRequest},
    Sentence{"namespace is required", Reason::BadRequest},
    Sentence{"invalid generate request", Reason::BadRequest},
    Sentence{"must be a regular file", Reason::BadRequest},
    Sentence{"failed to parse image reference", Reason::BadRequest},
    Sentence{"error querying NTP server", Reason::TimedOut},
    Sentence{"connection refused", Reason::NotUp},
    Sentence{"connection reset", Reason::NotUp},
    Sentence{"no route to host", Reason::NotUp},
    Sentence{"doesn't support", Reason::NotSupported},
};

Reason by_code(GrpcCode code) {
  switch (code) {
    case GrpcCode::Unavailable:
      return Reason::NotUp;
    case GrpcCode::DeadlineExceeded:
    case GrpcCode::Cancelled:
      return Reason::TimedOut;
    case GrpcCode::PermissionDenied:
      return Reason::NotAuthorized;
    case GrpcCode::Unauthenticated:
      return Reason::WrongIdentity;
    case GrpcCode::Unimplemented:
      return Reason::NotSupported;
    case GrpcCode::NotFound:
      return Reason::NotFound;
    case GrpcCode::InvalidArgument:
      return Reason::BadConfig;
    case GrpcCode::FailedPrecondition:
      return Reason::TooEarly;
    case GrpcCode::Internal:
    case GrpcCode::OutOfRange:
    case GrpcCode::ResourceExhausted:
      return Reason::BadRequest;
    default:
      return Reason::Other;
  }
}

/// Argument errors that are not about a configuration.
bool is_request_error(std::string_view text) {
  constexpr std::array parts = {
      std::string_view{"one-2-many proxying"}, std::string_view{"must be single-valued"},
      std::string_view{"key must be a uint8"}, std::string_view{"crt_ttl"},
      std::string_view{"invalid target"},      std::string_view{"tail_id"}};
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

constexpr std::array secret_keys = {
    std::string_view{"key"},         std::string_view{"token"},
    std::string_view{"secret"},      std::string_view{"password"},
    std::string_view{"crt"},         std::string_view{"auth"},
    std::string_view{"secretbox"},   std::string_view{"aescbc"},
    std::string_view{"environment"}, std::string_view{"contents"},
    std::string_view{"content"},     std::string_view{"id"},
    std::string_view{"passphrase"},  std::string_view{"identitytoken"}};

bool may_hold_secret(std::string_view key) {
  const std::string lower = to_lower(key);
  return std::any_of(secret_keys.begin(), secret_keys.end(),
                     [&](std::string_view part) { return lower.find(part) != std::string::npos; });
}

/// A word long and mixed enough to be key material, whatever key it stands under.
bool looks_like_key_material(std::string_view text) {
  std::size_t run = 0;
  for (const char c : text) {
    const bool base64 = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '+' || c == '/' || c == '=' || c == '-' ||
                        c == '_';
    run = base64 ? run + 1 : 0;
    if (run >= 40) return true;
  }
  return false;
}

}  // namespace

const char* to_string(Reason reason) noexcept {
  switch (reason) {
    case Reason::NotUp:
      return "not-up";
    case Reason::NotTalos:
      return "not-talos";
    case Reason::OtherCluster:
      return "other-cluster";
    case Reason::ClockSkew:
      return "clock-skew";
    case Reason::InMaintenance:
      return "in-maintenance";
    case Reason::NotInMaintenance:
      return "not-in-maintenance";
    case Reason::NotAuthorized:
      return "not-authorized";
    case Reason::WrongIdentity:
      return "wrong-identity";
    case Reason::BadConfig:
      return "bad-config";
    case Reason::NeedsReboot:
      return "needs-reboot";
    case Reason::ApplyInProgress:
      return "apply-in-progress";
    case Reason::TooEarly:
      return "too-early";
    case Reason::AlreadyBootstrapped:
      return "already-bootstrapped";
    case Reason::NotControlPlane:
      return "not-control-plane";
    case Reason::NoLeader:
      return "no-leader";
    case Reason::NotFound:
      return "not-found";
    case Reason::UpgradeRefused:
      return "upgrade-refused";
    case Reason::NotSupported:
      return "not-supported";
    case Reason::TimedOut:
      return "timed-out";
    case Reason::BadRequest:
      return "bad-request";
    case Reason::Other:
      return "other";
  }
  return "other";
}

Failure classify(GrpcCode code, std::string_view message) {
  Failure failure;
  failure.code = code;
  failure.text = redact_config(message);
  if (code == GrpcCode::InvalidArgument && is_request_error(message)) {
    failure.reason = Reason::BadRequest;
    return failure;
  }
  for (const Sentence& sentence : sentences)
    if (message.find(sentence.part) != std::string_view::npos) {
      failure.reason = sentence.reason;
      return failure;
    }
  failure.reason = by_code(code);
  return failure;
}

std::optional<Failure> classify_connection(const Error& error, std::string_view place) {
  // OpenSSL's words come through every transport; the others are our transports' own, and the tests
  // hold both of them to these.
  struct Sign {
    std::string_view part;
    Reason reason;
    const char* meaning;
  };
  constexpr std::array signs = {
      Sign{"does not speak TLS", Reason::NotTalos, "it does not speak TLS"},
      Sign{"does not speak HTTP/2", Reason::NotTalos, "it does not speak HTTP/2"},
      Sign{"which is not gRPC", Reason::NotTalos, "its answers are not gRPC"},
      Sign{"not a gRPC message", Reason::NotTalos, "its answers are not gRPC"},
      Sign{"is not HTTP", Reason::NotTalos, "it does not speak HTTP"},
      Sign{"certificate is not yet valid", Reason::ClockSkew,
           "its certificate begins in the future, so this machine's clock is behind the node's"},
      Sign{"our client certificate: TLS alert certificate expired", Reason::ClockSkew,
           "it says that our certificate is not valid now: its clock and this machine's disagree, "
           "or the certificate has run out"},
      Sign{"refused our certificate: unable to get", Reason::OtherCluster,
           "it does not know the CA of our certificate"},
      Sign{"refused our certificate: certificate has expired", Reason::ClockSkew,
           "it says that our certificate has run out, by its clock"},
      Sign{"certificate has expired", Reason::ClockSkew,
           "its certificate has run out; Talos renews them in time, so this machine's clock is "
           "ahead of the node's"},
      Sign{"unable to get local issuer certificate", Reason::OtherCluster,
           "its certificate was not issued by this cluster's CA"},
      Sign{"self-signed certificate", Reason::OtherCluster,
           "its certificate was not issued by this cluster's CA"},
      Sign{"self signed certificate", Reason::OtherCluster,
           "its certificate was not issued by this cluster's CA"},
      Sign{"certificate signature failure", Reason::OtherCluster,
           "its certificate was signed by another key than this cluster's CA has"},
      Sign{"our client certificate: TLS alert unknown CA", Reason::OtherCluster,
           "it does not know the CA of our certificate"},
  };
  for (const Sign& sign : signs) {
    if (error.message().find(sign.part) == std::string::npos) continue;
    Failure failure;
    failure.reason = sign.reason;
    failure.code = net::GrpcCode::Unavailable;
    failure.text = sign.reason == Reason::NotTalos
                       ? fmt::format("what answers at {} is not Talos: {}", place, sign.meaning)
                       : fmt::format("{}: {}", place, sign.meaning);
    return failure;
  }
  return std::nullopt;
}

std::string redact_config(std::string_view text) {
  std::string result;
  bool in_block = false;  // inside a block scalar of a key that may hold a secret
  std::size_t block_indent = 0;
  std::size_t start = 0;
  while (start < text.size()) {
    std::size_t end = text.find('\n', start);
    const bool last = end == std::string_view::npos;
    if (last) end = text.size();
    const std::string_view line = text.substr(start, end - start);
    // A unified diff puts one sign before each line.
    const std::size_t sign =
        !line.empty() && (line[0] == '+' || line[0] == '-' || line[0] == ' ') ? 1 : 0;
    const std::size_t content = line.find_first_not_of(" \t", sign);
    const std::size_t indent = content == std::string_view::npos ? line.size() : content;
    if (in_block && (content == std::string_view::npos || indent > block_indent)) {
      if (content != std::string_view::npos) result += fmt::format("{}***", line.substr(0, indent));
    } else {
      in_block = false;
      const std::size_t colon = line.find(": ", indent);
      const bool ends_with_colon = !line.empty() && line.back() == ':';
      if (content != std::string_view::npos && colon != std::string_view::npos) {
        std::string_view key = line.substr(indent, colon - indent);
        std::size_t key_column = indent;
        if (key.starts_with("- ")) {
          key.remove_prefix(2);
          key_column += 2;
        }
        const std::string_view value = trim(line.substr(colon + 2));
        const bool block = value.starts_with("|") || value.starts_with(">");
        if (block && may_hold_secret(key)) {
          in_block = true;
          block_indent = key_column;
          result += line;
        } else if (!value.empty() && (may_hold_secret(key) || looks_like_key_material(value))) {
          result += fmt::format("{}: ***", line.substr(0, colon));
        } else {
          result += line;
        }
      } else if (ends_with_colon || !looks_like_key_material(line)) {
        result += line;
      } else {
        result += fmt::format("{}***", line.substr(0, indent));
      }
    }
    if (!last) result += '\n';
    start = end + 1;
  }
  return result;
}

Error Failure::error(std::string_view doing) const {
  const auto with = [&](Fault fault, const char* hint) {
    Error error{fault, fmt::format("{}: {}", doing, text.empty() ? net::to_string(code) : text)};
    if (*hint != '\0') error.hint(hint);
    return error;
  };
  switch (reason) {
    case Reason::NotUp:
      return with(Fault::Unreachable, "");
    case Reason::InMaintenance:
      return with(Fault::Conflict, "the node has no configuration yet; `rocca up` applies it");
    case Reason::NotInMaintenance:
      return with(Fault::Denied,
                  "the node already runs a configuration and wants a client certificate");
    case Reason::NotAuthorized:
      return with(Fault::Denied, "the certificate's role does not allow this");
    case Reason::WrongIdentity:
      return with(Fault::Denied,
                  "the node belongs to another cluster, or the certificate has expired");
    case Reason::NotTalos:
      return with(Fault::Rejected,
                  "does the machine boot a Talos image, and is the address the right one? Its "
                  "console tells");
    case Reason::OtherCluster:
      return with(Fault::Denied,
                  "it belongs to another cluster, has no configuration yet, or its secrets were "
                  "made anew; nothing was done to it");
    case Reason::ClockSkew:
      return with(Fault::Denied,
                  "compare the clocks: `timedatectl` here, `talosctl time` on the node; "
                  "certificates are valid from the moment they were made");
    case Reason::ApplyInProgress:
    case Reason::TooEarly:
    case Reason::NoLeader:
      return with(Fault::Busy, "");
    case Reason::AlreadyBootstrapped:
    case Reason::NeedsReboot:
      return with(Fault::Conflict, "");
    case Reason::NotFound:
      return with(Fault::NotFound, "");
    case Reason::TimedOut:
      return with(Fault::Timeout, "");
    default:
      return with(Fault::Rejected, "");
  }
}

}  // namespace rocca::talos
