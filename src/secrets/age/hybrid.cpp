#include "base/encoding.hpp"
#include "secrets/age/bech32.hpp"
#include "secrets/age/keys.hpp"
#include "secrets/age/mlkem768.hpp"
#include "secrets/crypto.hpp"

// mlkem768x25519: HPKE (RFC 9180, base mode, one message) over X-Wing, HKDF-SHA-256 and
// ChaCha20-Poly1305. Read-only: rocca opens what age or sops sealed and seals nothing itself,
// because its ML-KEM is its own and not audited.
namespace rocca::secrets::age {

namespace {

constexpr std::string_view stanza_type = "mlkem768x25519";
constexpr std::string_view info = "age-encryption.org/mlkem768x25519";
constexpr std::string_view combiner_label = "\\.//^\\";
constexpr std::string_view suite("HPKE\x64\x7a\x00\x01\x00\x03", 10);
constexpr std::size_t point_size = mlkem768::public_size + 32;
constexpr std::size_t share_size = mlkem768::ciphertext_size + 32;

std::string labeled(std::string_view label) {
  return "HPKE-v1" + std::string(suite) + std::string(label);
}

std::string labeled_extract(std::string_view salt, std::string_view label, std::string_view key) {
  return crypto::hkdf_extract_sha256(labeled(label).append(key), salt);
}

Secret labeled_expand(std::string_view key, std::string_view label, std::string_view context,
                      std::size_t size) {
  return crypto::hkdf_expand_sha256(
      key, std::string(1, '\0') + static_cast<char>(size) + labeled(label).append(context), size);
}

struct Schedule {
  Secret key;
  Secret nonce;
};

Schedule key_schedule(const Secret& shared) {
  const std::string context = std::string(1, '\0') + labeled_extract("", "psk_id_hash", "") +
                              labeled_extract("", "info_hash", info);
  const Secret secret = Secret::take(labeled_extract(shared.reveal(), "secret", ""));
  return {labeled_expand(secret.reveal(), "key", context, 32),
          labeled_expand(secret.reveal(), "base_nonce", context, 12)};
}

Secret combine(const Secret& lattice, const Secret& curve, std::string_view curve_share,
               std::string_view curve_point) {
  std::string joined(lattice.reveal());
  joined.append(curve.reveal()).append(curve_share).append(curve_point).append(combiner_label);
  const Secret input = Secret::take(std::move(joined));
  return Secret::take(crypto::sha3_256(input.reveal()));
}

struct HybridRecipient final : Recipient::Data {
  std::string point;

  KeyKind kind() const noexcept override { return KeyKind::Hybrid; }
  std::string text() const override { return to_bech32("age1pq", point); }
  std::string_view label() const noexcept override { return "postquantum"; }

  Stanza wrap(const Secret&, Entropy&) const override {
    throw Error(Fault::Usage, "rocca does not encrypt to post-quantum recipients (age1pq1…)")
        .hint(
            "give an X25519 recipient (age1…), or encrypt with `age` or `sops`: rocca reads that");
  }
};

struct HybridIdentity final : Identity::Data {
  Secret seed;      // as it stands in the key's text
  Secret expanded;  // 64 bytes for ML-KEM, 32 for X25519
  std::string point;

  std::string_view lattice_seed() const { return expanded.reveal().substr(0, mlkem768::seed_size); }
  std::string_view scalar() const { return expanded.reveal().substr(mlkem768::seed_size); }
  std::string_view curve_point() const {
    return std::string_view(point).substr(mlkem768::public_size);
  }

  KeyKind kind() const noexcept override { return KeyKind::Hybrid; }
  std::optional<Recipient> recipient() const override { return hybrid_recipient(point); }

  Secret text() const override {
    std::string lower = to_bech32("age-secret-key-pq-", seed.reveal());
    for (char& c : lower)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return Secret::take(std::move(lower));
  }

  std::optional<Secret> unwrap(const std::vector<Stanza>& stanzas) const override {
    for (const Stanza& stanza : stanzas) {
      if (stanza.args.front() != stanza_type) continue;
      require_args(stanza, 1);
      require_body(stanza);
      const std::string share = decode_arg(stanza, 1, share_size);
      const std::string_view curve_share =
          std::string_view(share).substr(mlkem768::ciphertext_size);
      const Secret lattice = mlkem768::decapsulate(
          lattice_seed(), std::string_view(share).substr(0, mlkem768::ciphertext_size));
      const auto curve = crypto::x25519(scalar(), curve_share);
      if (!curve) continue;
      const Schedule schedule = key_schedule(combine(lattice, *curve, curve_share, curve_point()));
      if (auto key =
              crypto::chacha_open(schedule.key.reveal(), schedule.nonce.reveal(), stanza.body))
        return key;
    }
    return std::nullopt;
  }
};

}  // namespace

Recipient hybrid_recipient(std::string_view point) {
  if (point.size() != point_size ||
      !mlkem768::is_public_key(point.substr(0, mlkem768::public_size)))
    throw Error(Fault::Usage, "the post-quantum recipient is damaged: its ML-KEM part is no key");
  auto data = std::make_shared<HybridRecipient>();
  data->point = point;
  return Recipient(std::move(data));
}

Identity hybrid_identity(const Secret& seed) {
  auto data = std::make_shared<HybridIdentity>();
  data->seed = seed;
  data->expanded = Secret::take(crypto::shake256(seed.reveal(), mlkem768::seed_size + 32));
  data->point = mlkem768::public_key(data->lattice_seed()) + crypto::x25519_public(data->scalar());
  return Identity(std::move(data));
}

}  // namespace rocca::secrets::age
