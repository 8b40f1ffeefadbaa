#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "secrets/age/keys.hpp"
#include "secrets/crypto.hpp"

#include <algorithm>
#include <mutex>

namespace rocca::secrets::age {

namespace {

constexpr std::string_view stanza_type = "scrypt";
constexpr std::string_view salt_prefix = "age-encryption.org/v1/scrypt";
constexpr std::size_t salt_size = 16;

Secret wrap_key(const Secret& passphrase, const std::string& salt, unsigned work_factor) {
  return crypto::scrypt(passphrase.reveal(), std::string(salt_prefix) + salt, work_factor);
}

unsigned parse_work_factor(const std::string& text, unsigned limit) {
  const bool plain =
      !text.empty() && text.front() != '0' &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!plain)
    throw AgeError(Failure::Header,
                   "the age header is malformed: the work factor is not a plain number");
  const auto number = parse_uint(text);
  if (!number || *number > limit)
    throw AgeError(
        Failure::Header,
        "the file asks for a passphrase work factor over the limit of " + std::to_string(limit),
        "it would take minutes and gigabytes to open; encrypt it again with a smaller one");
  return static_cast<unsigned>(*number);
}

struct PassphraseRecipient final : Recipient::Data {
  Secret passphrase;
  unsigned work_factor = 18;

  KeyKind kind() const noexcept override { return KeyKind::Passphrase; }
  std::string text() const override { return ""; }
  std::string_view label() const noexcept override { return "passphrase"; }

  Stanza wrap(const Secret& file_key, Entropy& entropy) const override {
    const std::string salt = entropy.bytes(salt_size);
    return {{std::string(stanza_type), to_base64(salt, Padding::None), std::to_string(work_factor)},
            seal_file_key(wrap_key(passphrase, salt, work_factor), file_key)};
  }
};

struct PassphraseIdentity final : Identity::Data {
  AskPassphrase ask;
  unsigned max_work_factor = 22;
  mutable std::mutex mutex;
  mutable std::optional<Secret> answer;

  KeyKind kind() const noexcept override { return KeyKind::Passphrase; }

  std::optional<Recipient> recipient() const override {
    const std::lock_guard lock(mutex);
    if (!answer) return std::nullopt;
    return passphrase_recipient(*answer, 18);
  }

  std::optional<Secret> unwrap(const std::vector<Stanza>& stanzas) const override {
    for (const Stanza& stanza : stanzas) {
      if (stanza.args.front() != stanza_type) continue;
      require_args(stanza, 2);
      require_body(stanza);
      const std::string salt = decode_arg(stanza, 1, salt_size);
      const unsigned work_factor = parse_work_factor(stanza.args[2], max_work_factor);
      if (auto key = open_file_key(wrap_key(passphrase(), salt, work_factor), stanza)) return key;
    }
    return std::nullopt;
  }

  Secret passphrase() const {
    const std::lock_guard lock(mutex);
    if (!answer) {
      if (!ask)
        throw Error(Fault::Refused,
                    "a passphrase is needed, and there is no terminal to ask for it")
            .hint("run it on a terminal, or use a key file without a passphrase");
      answer = ask("the age file");
    }
    return *answer;
  }
};

}  // namespace

Recipient passphrase_recipient(Secret passphrase, unsigned work_factor) {
  if (passphrase.empty()) throw Error(Fault::Usage, "an empty passphrase protects nothing");
  if (work_factor < 1 || work_factor > 22)
    throw Error(Fault::Usage, "a passphrase work factor is a number from 1 to 22");
  auto data = std::make_shared<PassphraseRecipient>();
  data->passphrase = std::move(passphrase);
  data->work_factor = work_factor;
  return Recipient(std::move(data));
}

Identity passphrase_identity(AskPassphrase ask, unsigned max_work_factor) {
  auto data = std::make_shared<PassphraseIdentity>();
  data->ask = std::move(ask);
  data->max_work_factor = max_work_factor;
  return Identity(std::move(data));
}

}  // namespace rocca::secrets::age
