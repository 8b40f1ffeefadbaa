#include "base/encoding.hpp"
#include "secrets/age/keys.hpp"
#include "secrets/age/ssh_key.hpp"
#include "secrets/crypto.hpp"

namespace rocca::secrets::age {

namespace {

constexpr std::string_view ed25519_label = "age-encryption.org/v1/ssh-ed25519";
constexpr std::string_view rsa_label = "age-encryption.org/v1/ssh-rsa";

/// These stanzas are not anonymous: a reader sees at once whether one is for it.
std::string fingerprint(const SshPublicKey& key) {
  return to_base64(crypto::sha256(key.wire).substr(0, 4), Padding::None);
}

std::string montgomery(const SshPublicKey& key) {
  const auto point = crypto::ed25519_to_x25519(key.point);
  if (!point) throw Error(Fault::Usage, "the SSH key is no valid ed25519 key");
  return *point;
}

/// The shared point is multiplied once more by a number that stands for the SSH key, so that one
/// ed25519 key and an age key of the same number are different recipients.
Secret wrap_key(const SshPublicKey& key, const Secret& shared, const std::string& share,
                const std::string& point) {
  const Secret tweak = crypto::hkdf_sha256("", key.wire, ed25519_label);
  const auto tweaked = crypto::x25519(tweak.reveal(), shared.reveal());
  if (!tweaked)
    throw AgeError(Failure::Header, "the age header is malformed: a share of low order");
  return crypto::hkdf_sha256(tweaked->reveal(), share + point, ed25519_label);
}

struct SshRecipient final : Recipient::Data {
  SshPublicKey key;

  bool is_rsa() const noexcept { return key.type == "ssh-rsa"; }
  KeyKind kind() const noexcept override {
    return is_rsa() ? KeyKind::SshRsa : KeyKind::SshEd25519;
  }
  std::string text() const override { return key.text(); }

  Stanza wrap(const Secret& file_key, Entropy& entropy) const override {
    if (is_rsa())
      return {{key.type, fingerprint(key)}, rsa_oaep_seal(key, rsa_label, file_key.reveal())};
    const std::string point = montgomery(key);
    const Secret ephemeral = Secret::take(entropy.bytes(32));
    const std::string share = crypto::x25519_public(ephemeral.reveal());
    const auto shared = crypto::x25519(ephemeral.reveal(), point);
    if (!shared)
      throw Error(Fault::Usage, "the SSH key is a point of low order: nobody holds its secret");
    return {{key.type, fingerprint(key), to_base64(share, Padding::None)},
            seal_file_key(wrap_key(key, *shared, share, point), file_key)};
  }
};

struct SshIdentity final : Identity::Data {
  SshPrivateKey key;

  bool is_rsa() const noexcept { return key.public_key.type == "ssh-rsa"; }
  KeyKind kind() const noexcept override {
    return is_rsa() ? KeyKind::SshRsa : KeyKind::SshEd25519;
  }

  std::optional<Recipient> recipient() const override {
    auto data = std::make_shared<SshRecipient>();
    data->key = key.public_key;
    return Recipient(std::move(data));
  }

  std::optional<Secret> unwrap(const std::vector<Stanza>& stanzas) const override {
    for (const Stanza& stanza : stanzas) {
      if (stanza.args.front() != key.public_key.type) continue;
      require_args(stanza, is_rsa() ? 1 : 2);
      decode_arg(stanza, 1, 4);
      if (stanza.args[1] != fingerprint(key.public_key)) continue;
      if (auto file_key = is_rsa() ? open_rsa(stanza) : open_ed25519(stanza)) return file_key;
    }
    return std::nullopt;
  }

  std::optional<Secret> open_rsa(const Stanza& stanza) const {
    auto file_key = rsa_oaep_open(key, rsa_label, stanza.body);
    if (file_key && file_key->size() != file_key_size)
      throw AgeError(Failure::Header,
                     "the age header is malformed: a wrapped file key of the wrong size");
    return file_key;
  }

  std::optional<Secret> open_ed25519(const Stanza& stanza) const {
    const std::string share = decode_arg(stanza, 2, 32);
    const Secret hash = Secret::take(crypto::sha512(key.seed.reveal()));
    const std::string_view scalar = hash.reveal().substr(0, 32);
    const auto shared = crypto::x25519(scalar, share);
    if (!shared)
      throw AgeError(Failure::Header, "the age header is malformed: a share of low order");
    return open_file_key(wrap_key(key.public_key, *shared, share, montgomery(key.public_key)),
                         stanza);
  }
};

}  // namespace

Recipient ssh_recipient(std::string_view text) {
  auto data = std::make_shared<SshRecipient>();
  data->key = parse_ssh_public(text);
  if (!data->is_rsa()) montgomery(data->key);
  return Recipient(std::move(data));
}

Identity ssh_identity(std::string_view pem) {
  auto data = std::make_shared<SshIdentity>();
  data->key = parse_ssh_private(pem);
  return Identity(std::move(data));
}

}  // namespace rocca::secrets::age
