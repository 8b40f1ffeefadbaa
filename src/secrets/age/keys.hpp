#pragma once

#include "secrets/age/age.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The kinds of keys behind Recipient and Identity; one .cpp file each.
namespace rocca::secrets::age {

struct Recipient::Data {
  virtual ~Data() = default;
  virtual KeyKind kind() const noexcept = 0;
  virtual std::string text() const = 0;
  virtual Stanza wrap(const Secret& file_key, Entropy& entropy) const = 0;
  virtual std::string_view label() const noexcept { return ""; }
};

struct Identity::Data {
  virtual ~Data() = default;
  virtual KeyKind kind() const noexcept = 0;
  virtual std::optional<Recipient> recipient() const = 0;
  virtual Secret text() const { return {}; }
  virtual std::optional<Secret> unwrap(const std::vector<Stanza>& stanzas) const = 0;
};

constexpr std::size_t file_key_size = 16;

Recipient x25519_recipient(std::string_view point);
Identity x25519_identity(const Secret& scalar);
Recipient passphrase_recipient(Secret passphrase, unsigned work_factor);
Identity passphrase_identity(AskPassphrase ask, unsigned max_work_factor);
Recipient ssh_recipient(std::string_view text);
Identity ssh_identity(std::string_view pem);
Recipient hybrid_recipient(std::string_view point);
Identity hybrid_identity(const Secret& seed);

/// Wraps a file key under a key that is used once: the nonce is zero.
std::string seal_file_key(const Secret& key, const Secret& file_key);
/// AgeError(Header) unless the body can hold a sealed file key. Looked at before anything is
/// opened, so that one long text cannot be made to open under many keys.
void require_body(const Stanza& stanza);
/// Nothing if the key is another one.
std::optional<Secret> open_file_key(const Secret& key, const Stanza& stanza);
/// The decoded argument of a stanza; AgeError(Header) if it is not `size` bytes of canonical
/// base64.
std::string decode_arg(const Stanza& stanza, std::size_t index, std::size_t size);
/// AgeError(Header) unless the stanza has `count` arguments beside its type.
void require_args(const Stanza& stanza, std::size_t count);

}  // namespace rocca::secrets::age
