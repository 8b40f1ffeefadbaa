// The lab's own reading of SOPS files for age recipients: X25519, HKDF and ChaCha20-Poly1305 for
// the data key, AES-256-GCM for each value.
#include "lab/flux/sops.hpp"

#include "base/encoding.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"
#include "lab/kube/json.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>

#include <algorithm>
#include <array>

namespace rocca::lab::flux {

using kube::text_at;
using text::Value;

namespace {

using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using KeyContext = Handle<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using Cipher = Handle<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;

const unsigned char* bytes_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

// Bech32 (BIP 173) without its limit of 90 characters.
constexpr std::string_view letters = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";

std::uint32_t polymod(const std::vector<unsigned>& values) {
  std::uint32_t check = 1;
  for (const unsigned value : values) {
    const std::uint32_t top = check >> 25;
    check = ((check & 0x1ffffff) << 5) ^ value;
    constexpr std::array<std::uint32_t, 5> generator{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd,
                                                     0x2a1462b3};
    for (unsigned i = 0; i < 5; ++i)
      if (((top >> i) & 1) != 0) check ^= generator[i];
  }
  return check;
}

std::vector<unsigned> expanded(std::string_view prefix) {
  std::vector<unsigned> out;
  for (const char c : prefix) out.push_back(static_cast<unsigned char>(c) >> 5);
  out.push_back(0);
  for (const char c : prefix) out.push_back(static_cast<unsigned char>(c) & 31);
  return out;
}

std::string bech32(const std::string& prefix, const std::string& data) {
  std::vector<unsigned> values;
  unsigned held = 0, bits = 0;
  for (const char c : data) {
    held = (held << 8) | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 5;) {
      bits -= 5;
      values.push_back((held >> bits) & 31);
    }
  }
  if (bits != 0) values.push_back((held << (5 - bits)) & 31);
  std::vector<unsigned> all = expanded(prefix);
  all.insert(all.end(), values.begin(), values.end());
  all.insert(all.end(), 6, 0);
  const std::uint32_t check = polymod(all) ^ 1;
  for (unsigned i = 0; i < 6; ++i) values.push_back((check >> (5 * (5 - i))) & 31);
  std::string out = prefix + "1";
  for (const unsigned value : values) out += letters[value];
  return out;
}

std::optional<std::string> from_bech32(const std::string& text, const std::string& prefix) {
  const std::string lower = to_lower(text);
  if (!lower.starts_with(prefix + "1")) return std::nullopt;
  std::vector<unsigned> all = expanded(prefix);
  std::string out;
  unsigned held = 0, bits = 0;
  for (std::size_t i = prefix.size() + 1; i < lower.size(); ++i) {
    const std::size_t value = letters.find(lower[i]);
    if (value == std::string_view::npos) return std::nullopt;
    all.push_back(static_cast<unsigned>(value));
    if (i + 6 >= lower.size()) continue;
    held = (held << 5) | static_cast<unsigned>(value);
    if ((bits += 5) >= 8) out += static_cast<char>((held >> (bits -= 8)) & 0xff);
  }
  if (polymod(all) != 1) return std::nullopt;
  return out;
}

std::string hkdf(const std::string& secret, const std::string& salt, const std::string& info) {
  const KeyContext context{EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr)};
  std::string out(32, '\0');
  std::size_t size = out.size();
  EVP_PKEY_derive_init(context.get());
  EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256());
  EVP_PKEY_CTX_set1_hkdf_salt(context.get(), bytes_of(salt), static_cast<int>(salt.size()));
  EVP_PKEY_CTX_set1_hkdf_key(context.get(), bytes_of(secret), static_cast<int>(secret.size()));
  EVP_PKEY_CTX_add1_hkdf_info(context.get(), bytes_of(info), static_cast<int>(info.size()));
  EVP_PKEY_derive(context.get(), bytes_of(out), &size);
  return out;
}

/// AEAD: the tag stands at the end of `sealed`.
std::optional<std::string> open(const EVP_CIPHER* kind, const std::string& key,
                                const std::string& nonce, const std::string& sealed,
                                const std::string& besides) {
  if (sealed.size() < 16) return std::nullopt;
  const std::string body = sealed.substr(0, sealed.size() - 16);
  std::string tag = sealed.substr(body.size());
  const Cipher context{EVP_CIPHER_CTX_new()};
  std::string out(body.size(), '\0');
  int size = 0;
  EVP_DecryptInit_ex(context.get(), kind, nullptr, nullptr, nullptr);
  EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_IVLEN, static_cast<int>(nonce.size()),
                      nullptr);
  EVP_DecryptInit_ex(context.get(), nullptr, nullptr, bytes_of(key), bytes_of(nonce));
  EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, 16, bytes_of(tag));
  if (!besides.empty())
    EVP_DecryptUpdate(context.get(), nullptr, &size, bytes_of(besides),
                      static_cast<int>(besides.size()));
  if (EVP_DecryptUpdate(context.get(), bytes_of(out), &size, bytes_of(body),
                        static_cast<int>(body.size())) != 1)
    return std::nullopt;
  unsigned char rest[16];
  if (EVP_DecryptFinal_ex(context.get(), rest, &size) != 1) return std::nullopt;
  return out;
}

std::string public_key(const std::string& secret) {
  const Key key{
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, bytes_of(secret), secret.size())};
  std::string out(32, '\0');
  std::size_t size = out.size();
  if (!key || EVP_PKEY_get_raw_public_key(key.get(), bytes_of(out), &size) != 1) return "";
  return out;
}

std::string agree(const std::string& secret, const std::string& other) {
  const Key mine{
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, bytes_of(secret), secret.size())};
  const Key theirs{
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, bytes_of(other), other.size())};
  if (!mine || !theirs) return "";
  const KeyContext context{EVP_PKEY_CTX_new(mine.get(), nullptr)};
  std::string out(32, '\0');
  std::size_t size = out.size();
  if (EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), theirs.get()) != 1 ||
      EVP_PKEY_derive(context.get(), bytes_of(out), &size) != 1)
    return "";
  return out;
}

std::string unpadded(std::string text) {
  while (text.size() % 4 != 0) text += '=';
  return from_base64(text).value_or("");
}

/// An age file with one chunk, which a data key always is.
std::optional<std::string> open_age(const std::string& file, const std::string& secret) {
  const std::size_t end = file.find("\n---");
  if (end == std::string::npos) return std::nullopt;
  const std::size_t line = file.find('\n', end + 1);
  const std::vector<std::string> lines = split(file.substr(0, end), '\n');
  std::string file_key;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const std::vector<std::string> words = split(lines[i], ' ');
    if (words.size() != 3 || words[0] != "->" || words[1] != "X25519") continue;
    const std::string share = unpadded(words[2]), sealed = unpadded(lines[i + 1]);
    if (share.size() != 32) continue;
    const std::string wrap =
        hkdf(agree(secret, share), share + public_key(secret), "age-encryption.org/v1/X25519");
    if (auto opened = open(EVP_chacha20_poly1305(), wrap, std::string(12, '\0'), sealed, ""))
      file_key = *opened;
  }
  if (file_key.empty() || line == std::string::npos) return std::nullopt;
  const std::string payload = file.substr(line + 1);
  if (payload.size() < 32) return std::nullopt;
  const std::string key = hkdf(file_key, payload.substr(0, 16), "payload");
  std::string nonce(12, '\0');
  nonce.back() = '\1';  // the last chunk
  return open(EVP_chacha20_poly1305(), key, nonce, payload.substr(16), "");
}

std::optional<std::string> unarmor(const std::string& text) {
  std::string inside;
  for (const std::string& line : split(text, '\n'))
    if (!line.starts_with("-----")) inside += line;
  std::erase_if(inside, [](char c) { return c == '\r' || c == ' '; });
  return from_base64(inside);
}

/// ENC[AES256_GCM,data:…,iv:…,tag:…,type:str]
bool decrypt_value(Value& value, const std::string& key, const std::string& path) {
  const std::string text = value.text();
  if (!text.starts_with("ENC[AES256_GCM,")) return true;
  const auto field = [&](const std::string& name) {
    const std::size_t at = text.find(name + ":");
    if (at == std::string::npos) return std::string();
    const std::size_t begin = at + name.size() + 1;
    return text.substr(begin, text.find_first_of(",]", begin) - begin);
  };
  const auto raw = [&](const char* name) { return from_base64(field(name)).value_or(""); };
  const auto opened = open(EVP_aes_256_gcm(), key, raw("iv"), raw("data") + raw("tag"), path);
  if (!opened) return false;
  const std::string type = field("type");
  value = type == "str" || type == "bytes" ? kube::str(*opened) : Value::plain(to_lower(*opened));
  return true;
}

bool decrypt_below(Value& value, const std::string& key, const std::string& path) {
  if (value.is_map()) {
    for (text::Entry& entry : value.entries())
      if (!decrypt_below(entry.value, key, path + entry.key + ":")) return false;
    return true;
  }
  if (value.is_list())
    return std::all_of(value.items().begin(), value.items().end(),
                       [&](Value& item) { return decrypt_below(item, key, path); });
  return !value.is_string() || decrypt_value(value, key, path);
}

}  // namespace

AgePair age_pair(const std::string& seed) {
  std::string identity = bech32("age-secret-key-", seed);
  for (char& c : identity)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return {identity, bech32("age", public_key(seed))};
}

std::optional<std::string> decrypt_object(Value& object,
                                          const std::vector<std::string>& identities) {
  std::vector<std::string> secrets;
  for (const std::string& file : identities)
    for (const std::string& line : split(file, '\n'))
      if (auto secret = from_bech32(std::string(trim(line)), "age-secret-key-"))
        secrets.push_back(*secret);
  std::string key, failed;
  const Value* recipients = object.find({"sops", "age"});
  if (recipients != nullptr && recipients->is_list())
    for (const Value& one : recipients->items()) {
      const auto file = unarmor(text_at(one, {"enc"}));
      for (const std::string& secret : secrets)
        if (file && key.empty()) key = open_age(*file, secret).value_or("");
      failed += fmt::format(
          "  {}: FAILED\n    - | failed to create reader for decrypting sops data key with\n      "
          "| age: identity did not match any of the recipients: incorrect\n      | identity for "
          "recipient block\n",
          text_at(one, {"recipient"}));
    }
  if (key.empty())
    return fmt::format(
        "cannot get sops data key: Failed to get the data key required to decrypt the SOPS "
        "file.\n\nGroup 0: FAILED\n{}\nRecovery failed because no master key was able to decrypt "
        "the file. In\norder for SOPS to recover the file, at least one key has to be "
        "successful,\nbut none were.",
        failed);
  object.erase("sops");
  if (!decrypt_below(object, key, ""))
    return "error decrypting sops tree: Error decrypting value: cipher: message authentication "
           "failed";
  return std::nullopt;
}

}  // namespace rocca::lab::flux
