#include "secrets/age/age.hpp"

#include "base/strings.hpp"
#include "secrets/age/armor.hpp"
#include "secrets/age/format.hpp"
#include "secrets/age/keys.hpp"
#include "secrets/age/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::secrets::age {

namespace {

Fault fault_of(Failure failure) {
  return failure == Failure::NoMatch ? Fault::Denied : Fault::Rejected;
}

void check_labels(const std::vector<Recipient>& recipients) {
  if (recipients.empty()) throw Error(Fault::Usage, "an age file needs at least one recipient");
  const std::string_view label = recipients.front().label();
  for (const Recipient& recipient : recipients) {
    if (recipient.kind() == KeyKind::Passphrase && recipients.size() > 1)
      throw Error(Fault::Usage, "a passphrase cannot be combined with other recipients");
    if (recipient.label() != label)
      throw Error(Fault::Usage, "post-quantum and other recipients cannot be mixed in one file")
          .hint(
              "the file would be as weak as its weakest recipient; use only `age1pq1…` recipients, "
              "or none");
  }
}

/// Why nobody could open it: what the header offers, and what was held against it.
AgeError no_match(const std::vector<Stanza>& stanzas, const std::vector<Identity>& identities) {
  std::vector<std::string> types;
  for (const Stanza& stanza : stanzas)
    if (std::find(types.begin(), types.end(), stanza.args.front()) == types.end())
      types.push_back(stanza.args.front());
  const bool by_passphrase = types == std::vector<std::string>{"scrypt"};
  const bool has_passphrase =
      std::any_of(identities.begin(), identities.end(),
                  [](const Identity& identity) { return identity.kind() == KeyKind::Passphrase; });
  if (by_passphrase && has_passphrase)
    return {Failure::NoMatch, "the passphrase does not open the file"};
  if (by_passphrase)
    return {Failure::NoMatch, "the file is protected by a passphrase, and none was given"};
  return {Failure::NoMatch,
          fmt::format("none of {} opens the file (it is encrypted to {} of type {})",
                      plural(identities.size(), "identity", "identities"),
                      plural(stanzas.size(), "recipient"), enumerate(types)),
          "use the key it was encrypted to, or have it encrypted again to yours"};
}

}  // namespace

const char* to_string(Failure failure) noexcept {
  switch (failure) {
    case Failure::Armor:
      return "armor failure";
    case Failure::Header:
      return "header failure";
    case Failure::NoMatch:
      return "no match";
    case Failure::Hmac:
      return "HMAC failure";
    case Failure::Payload:
      return "payload failure";
  }
  return "";
}

const char* to_string(KeyKind kind) noexcept {
  switch (kind) {
    case KeyKind::X25519:
      return "X25519";
    case KeyKind::Passphrase:
      return "passphrase";
    case KeyKind::SshEd25519:
      return "ssh-ed25519";
    case KeyKind::SshRsa:
      return "ssh-rsa";
    case KeyKind::Hybrid:
      return "post-quantum";
  }
  return "";
}

AgeError::AgeError(Failure failure, std::string message, std::string hint)
    : Error(fault_of(failure), std::move(message)), failure_(failure) {
  if (!hint.empty()) Error::hint(std::move(hint));
}

struct Encryptor::State {
  Sink out;
  std::optional<ArmorWriter> armor;
  std::string head;  // header and nonce, until the first byte goes out
  std::optional<StreamWriter> stream;

  void send(std::string_view bytes) {
    if (armor)
      armor->write(bytes);
    else
      out(bytes);
  }
  void send_head() {
    if (!head.empty()) send(head);
    head.clear();
  }
};

Encryptor::Encryptor(const std::vector<Recipient>& recipients, Entropy& entropy, Sink out,
                     bool armor)
    : state_(std::make_unique<State>()) {
  check_labels(recipients);
  State& state = *state_;
  state.out = std::move(out);
  if (armor) state.armor.emplace(state.out);

  const Secret file_key = Secret::take(entropy.bytes(file_key_size));
  Header header;
  for (const Recipient& recipient : recipients)
    header.stanzas.push_back(recipient.wrap(file_key, entropy));
  header.mac = header_mac(file_key, encode_signed_part(header.stanzas));
  const std::string nonce = entropy.bytes(nonce_size);
  state.head = encode_header(header) + nonce;
  state.stream.emplace(payload_key(file_key, nonce),
                       [&state](std::string_view bytes) { state.send(bytes); });
}

Encryptor::Encryptor(Encryptor&&) noexcept = default;
Encryptor& Encryptor::operator=(Encryptor&&) noexcept = default;
Encryptor::~Encryptor() = default;

void Encryptor::write(std::string_view plaintext) {
  state_->send_head();
  state_->stream->write(plaintext);
}

void Encryptor::finish() {
  state_->send_head();
  state_->stream->finish();
  if (state_->armor) state_->armor->finish();
}

struct Decryptor::State {
  std::vector<Identity> identities;
  Sink out;
  Armor mode = Armor::Auto;
  std::optional<ArmorReader> armor;
  std::string begin;  // while Auto has not seen enough
  HeaderReader header;
  std::optional<Secret> file_key;
  std::string nonce;
  std::optional<StreamReader> stream;

  void decide(Armor armored) {
    mode = armored;
    if (armored == Armor::Yes) armor.emplace([this](std::string_view bytes) { take(bytes); });
    const std::string first = std::move(begin);
    begin.clear();
    if (!first.empty()) feed(first);
  }

  void feed(std::string_view bytes) {
    if (armor)
      armor->write(bytes);
    else
      take(bytes);
  }

  void take(std::string_view bytes) {
    if (!header.done()) {
      bytes.remove_prefix(header.write(bytes));
      if (!header.done()) return;
      open_header();
    }
    if (!stream) {
      const std::string_view part = bytes.substr(0, nonce_size - nonce.size());
      nonce += part;
      bytes.remove_prefix(part.size());
      if (nonce.size() < nonce_size) return;
      stream.emplace(payload_key(*file_key, nonce), out);
      file_key.reset();
    }
    stream->write(bytes);
  }

  void open_header() {
    const Header parsed = parse_header(header.text());
    const auto is_passphrase = [](const Stanza& stanza) { return stanza.args.front() == "scrypt"; };
    if (parsed.stanzas.size() > 1 &&
        std::any_of(parsed.stanzas.begin(), parsed.stanzas.end(), is_passphrase))
      throw AgeError(Failure::Header,
                     "the age header is malformed: a passphrase beside other recipients");
    for (const Identity& identity : identities)
      if (!file_key) file_key = identity.unwrap(parsed.stanzas);
    if (!file_key) throw no_match(parsed.stanzas, identities);
    if (!equal_in_constant_time(header_mac(*file_key, parsed.signed_part), parsed.mac))
      throw AgeError(Failure::Hmac, "the header of the age file was changed",
                     "restore the file from a backup");
  }
};

Decryptor::Decryptor(std::vector<Identity> identities, Sink out, Armor armor)
    : state_(std::make_unique<State>()) {
  state_->identities = std::move(identities);
  state_->out = std::move(out);
  if (armor != Armor::Auto) state_->decide(armor);
}

Decryptor::Decryptor(Decryptor&&) noexcept = default;
Decryptor& Decryptor::operator=(Decryptor&&) noexcept = default;
Decryptor::~Decryptor() = default;

void Decryptor::write(std::string_view ciphertext) {
  if (state_->mode != Armor::Auto) return state_->feed(ciphertext);
  state_->begin += ciphertext;
  if (state_->begin.size() >= armor_lookahead(state_->begin))
    state_->decide(looks_armored(state_->begin) ? Armor::Yes : Armor::No);
}

void Decryptor::finish() {
  State& state = *state_;
  if (state.mode == Armor::Auto) state.decide(looks_armored(state.begin) ? Armor::Yes : Armor::No);
  if (state.armor) state.armor->finish();
  if (!state.header.done())
    throw AgeError(Failure::Header, "the file ends before its age header does");
  if (!state.stream) throw AgeError(Failure::Header, "the file ends right after its age header");
  state.stream->finish();
}

std::string encrypt(std::string_view plaintext, const std::vector<Recipient>& recipients,
                    Entropy& entropy, bool armor) {
  std::string result;
  Encryptor encryptor(
      recipients, entropy, [&](std::string_view bytes) { result += bytes; }, armor);
  encryptor.write(plaintext);
  encryptor.finish();
  return result;
}

Secret decrypt(std::string_view ciphertext, const std::vector<Identity>& identities, Armor armor) {
  std::string result;
  result.reserve(
      ciphertext.size());  // plaintext is shorter: it never moves, so no copy of it is left behind
  try {
    Decryptor decryptor(
        identities, [&](std::string_view bytes) { result += bytes; }, armor);
    decryptor.write(ciphertext);
    decryptor.finish();
  } catch (...) {
    wipe(result);
    throw;
  }
  return Secret::take(std::move(result));
}

bool looks_like_age(std::string_view text) noexcept {
  constexpr std::string_view armored = "-----BEGIN AGE ENCRYPTED FILE-----";
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return text.starts_with("age-encryption.org/") ||
         (begin != std::string_view::npos && text.substr(begin).starts_with(armored));
}

}  // namespace rocca::secrets::age
