#pragma once

#include "base/clock.hpp"
#include "base/diagnostics.hpp"
#include "base/entropy.hpp"
#include "base/secret.hpp"
#include "base/version.hpp"
#include "secrets/x509.hpp"
#include "text/value.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The secrets bundle of a Talos cluster: what `talosctl gen secrets` writes and `gen config
/// --with-secrets` reads.
namespace rocca::secrets {

/// A certificate authority as it stands in the bundle: PEM texts, byte for byte.
struct AuthorityPem {
  std::string crt;
  Secret key;
  std::shared_ptr<const CertifiedKey> read{};  // by who checked the two; nothing if nobody did

  friend bool operator==(const AuthorityPem& a, const AuthorityPem& b) {
    return a.crt == b.crt && a.key == b.key;
  }
};

struct Bundle {
  std::string cluster_id;  // also rocca's name for the cluster, for ever
  Secret cluster_secret;
  Secret bootstrap_token;
  /// Talos wants exactly one of these two; the second is the form of contracts up to 1.2. A cluster
  /// that has only that one must keep it: a newer contract rendered without it makes every Secret
  /// in etcd unreadable.
  Secret secretbox_secret;
  Secret aescbc_secret;
  Secret trustd_token;
  AuthorityPem etcd;
  AuthorityPem kubernetes;
  AuthorityPem aggregator;
  Secret service_account_key;  // PEM
  AuthorityPem os;

  const AuthorityPem& pem_of(Authority authority) const;
  /// Parsed, to sign with.
  CertifiedKey authority(Authority authority) const;

  friend bool operator==(const Bundle&, const Bundle&) = default;
};

struct BundleOptions {
  Version talos{1, 13, 0};  // the version contract
  /// Makes the service account's key; RSA-4096 takes about a second, so tests hand in another.
  /// Empty: as Talos does (RSA-4096 from 1.7 on, P-256 before).
  std::function<PrivateKey(Entropy&)> service_account_key;
};

Bundle generate_bundle(const BundleOptions& options, Instant now, Entropy& entropy);

/// Reads a `secrets.yaml`. Every problem goes to `problems` with its place and its path
/// (`certs.os.key`), never with the value; nothing is returned if one of them is an error.
std::optional<Bundle> read_bundle(std::string_view yaml, const std::string& file,
                                  Diagnostics& problems);
std::optional<Bundle> read_bundle(const text::Value& value, const std::string& file,
                                  Diagnostics& problems);

/// Reads the bundle back out of a control plane's machine config (one document, or several as from
/// Talos 1.12 and 1.14 on). Worker configs and redacted ones are refused by name.
std::optional<Bundle> read_bundle_from_config(std::string_view yaml, const std::string& file,
                                              Diagnostics& problems);

/// The file that talosctl writes, byte for byte.
Secret write_bundle(const Bundle& bundle);
text::Value to_value(const Bundle& bundle);

/// One entry of a bundle, without its value.
struct BundleItem {
  std::string name;  // "certs.os"
  std::string kind;  // "authority, Ed25519", "token", …
  std::optional<Instant> expires;
};
std::vector<BundleItem> describe(const Bundle& bundle);

struct TalosconfigOptions {
  std::string context;  // the cluster's name
  std::vector<std::string> endpoints;
  std::vector<std::string> nodes;
  std::vector<std::string> roles{"os:admin"};
  Duration lifetime = client_lifetime;
};
/// A talosconfig with a client certificate minted now.
Secret mint_talosconfig(const Bundle& bundle, const TalosconfigOptions& options, Instant now,
                        Entropy& entropy);

struct KubeconfigOptions {
  std::string cluster;
  std::string server;                // https://10.0.0.20:6443
  std::string accepted_authorities;  // PEM of older authorities that are still trusted
  Duration lifetime = client_lifetime;
};
/// The admin kubeconfig, as Talos itself would answer with.
Secret mint_kubeconfig(const Bundle& bundle, const KubeconfigOptions& options, Instant now,
                       Entropy& entropy);

}  // namespace rocca::secrets
