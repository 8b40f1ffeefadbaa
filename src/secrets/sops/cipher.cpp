#include "secrets/sops/cipher.hpp"

#include "base/encoding.hpp"
#include "secrets/crypto.hpp"

namespace rocca::secrets::sops {
namespace {

constexpr std::string_view head = "ENC[AES256_GCM,data:";
// SOPS draws 32 bytes where GCM would take 12; other lengths are read, too.
constexpr std::size_t iv_size = 32;
constexpr std::size_t most_iv_size = 128;  // of OpenSSL

}  // namespace

std::optional<SealedValue> SealedValue::parse(std::string_view text) {
  if (!text.starts_with(head)) return std::nullopt;
  text.remove_prefix(head.size());
  SealedValue value;
  // From the end, as the greedy pattern of SOPS does; base64 has none of these marks in it.
  const std::size_t end = text.rfind(']');
  const std::size_t type = text.rfind(",type:", end);
  const std::size_t tag = text.rfind(",tag:", type);
  const std::size_t iv = text.rfind(",iv:", tag);
  if (end == std::string_view::npos || type == std::string_view::npos ||
      tag == std::string_view::npos || iv == std::string_view::npos || iv == 0)
    return std::nullopt;
  value.data = from_base64(text.substr(0, iv)).value_or("");
  value.iv = from_base64(text.substr(iv + 4, tag - iv - 4)).value_or("");
  value.tag = from_base64(text.substr(tag + 5, type - tag - 5)).value_or("");
  value.type = text.substr(type + 6, end - type - 6);
  return value;
}

std::string SealedValue::text() const {
  std::string out{head};
  out +=
      to_base64(data) + ",iv:" + to_base64(iv) + ",tag:" + to_base64(tag) + ",type:" + type + "]";
  return out;
}

std::optional<Secret> open(const SealedValue& value, const Secret& data_key, std::string_view aad) {
  if (value.data.empty() || value.iv.empty() || value.iv.size() > most_iv_size ||
      value.tag.size() != 16)
    return std::nullopt;
  return crypto::aes256_gcm_open(data_key.reveal(), value.iv, {value.data, value.tag}, aad);
}

SealedValue seal(std::string_view plaintext, std::string type, const Secret& data_key,
                 std::string_view aad, Entropy& entropy) {
  SealedValue value;
  value.iv = entropy.bytes(iv_size);
  crypto::Sealed sealed = crypto::aes256_gcm_seal(data_key.reveal(), value.iv, plaintext, aad);
  value.data = std::move(sealed.bytes);
  value.tag = std::move(sealed.tag);
  value.type = std::move(type);
  return value;
}

}  // namespace rocca::secrets::sops
