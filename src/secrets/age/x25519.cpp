#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "secrets/age/bech32.hpp"
#include "secrets/age/keys.hpp"
#include "secrets/crypto.hpp"

namespace rocca::secrets::age {

namespace {

constexpr std::string_view stanza_type = "X25519";
constexpr std::string_view info = "age-encryption.org/v1/X25519";

Secret wrap_key(const Secret& shared, const std::string& share, const std::string& recipient) {
  return crypto::hkdf_sha256(shared.reveal(), share + recipient, info);
}

struct X25519Recipient final : Recipient::Data {
  std::string point;

  KeyKind kind() const noexcept override { return KeyKind::X25519; }
  std::string text() const override { return to_bech32("age", point); }

  Stanza wrap(const Secret& file_key, Entropy& entropy) const override {
    const Secret ephemeral = Secret::take(entropy.bytes(32));
    const std::string share = crypto::x25519_public(ephemeral.reveal());
    const auto shared = crypto::x25519(ephemeral.reveal(), point);
    if (!shared)
      throw Error(Fault::Usage,
                  "the recipient " + text() + " is a point of low order: nobody holds its key");
    return {{std::string(stanza_type), to_base64(share, Padding::None)},
            seal_file_key(wrap_key(*shared, share, point), file_key)};
  }
};

struct X25519Identity final : Identity::Data {
  Secret scalar;
  std::string point;

  KeyKind kind() const noexcept override { return KeyKind::X25519; }
  std::optional<Recipient> recipient() const override { return x25519_recipient(point); }

  Secret text() const override {
    std::string lower = to_bech32("age-secret-key-", scalar.reveal());
    for (char& c : lower)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return Secret::take(std::move(lower));
  }

  std::optional<Secret> unwrap(const std::vector<Stanza>& stanzas) const override {
    for (const Stanza& stanza : stanzas) {
      if (stanza.args.front() != stanza_type) continue;
      require_args(stanza, 1);
      const std::string share = decode_arg(stanza, 1, 32);
      const auto shared = crypto::x25519(scalar.reveal(), share);
      if (!shared)
        throw AgeError(Failure::Header, "the age header is malformed: a share of low order");
      if (auto key = open_file_key(wrap_key(*shared, share, point), stanza)) return key;
    }
    return std::nullopt;
  }
};

}  // namespace

Recipient x25519_recipient(std::string_view point) {
  auto data = std::make_shared<X25519Recipient>();
  data->point = point;
  return Recipient(std::move(data));
}

Identity x25519_identity(const Secret& scalar) {
  auto data = std::make_shared<X25519Identity>();
  data->scalar = scalar;
  data->point = crypto::x25519_public(scalar.reveal());
  return Identity(std::move(data));
}

}  // namespace rocca::secrets::age
