#include "secrets/age/keys.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "secrets/age/bech32.hpp"
#include "secrets/crypto.hpp"

#include <fmt/format.h>

namespace rocca::secrets::age {

namespace {

constexpr std::size_t key_file_limit = 16 * 1024 * 1024;
constexpr std::size_t hybrid_point_size = 1216;

constexpr std::string_view zero_nonce("\0\0\0\0\0\0\0\0\0\0\0\0", 12);

/// The name between `age1` and the last `1` of a plugin recipient, or nothing.
std::string_view plugin_name(std::string_view text) {
  const std::size_t end = text.rfind('1');
  return end > 3 && end != std::string_view::npos ? text.substr(4, end - 4) : std::string_view();
}

std::string decode_bech32(std::string_view text, std::string_view prefix, std::size_t size,
                          const char* what) {
  auto parts = from_bech32(text);
  if (!parts)
    throw Error(Fault::Usage, fmt::format("the {} is damaged: its checksum does not fit", what))
        .hint("copy the whole line again");
  if (parts->prefix != prefix || parts->data.size() != size) {
    wipe(parts->data);
    throw Error(Fault::Usage, fmt::format("the {} has the wrong length", what));
  }
  return std::move(parts->data);
}

bool is_upper_form(std::string_view text) {
  return text.find_first_of("abcdefghijklmnopqrstuvwxyz") == text.npos;
}
bool is_lower_form(std::string_view text) {
  return text.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == text.npos;
}

/// Calls `take` with every line that is neither empty nor a comment, and its number.
template <class Take>
void each_line(std::string_view text, Take&& take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    if (!line.empty() && line.front() != '#') take(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

template <class Parse>
auto parse_lines(std::string_view text, std::string_view name, Parse parse) {
  std::vector<decltype(parse(text))> found;
  each_line(text, [&](std::string_view line, std::size_t number) {
    within(fmt::format("reading {}:{}", name, number), [&] { found.push_back(parse(line)); });
  });
  return found;
}

void check_size(std::string_view text, std::string_view name) {
  if (text.size() > key_file_limit)
    throw Error(Fault::Usage, fmt::format("{} is too large for a key file", name));
}

Secret open_key_file(std::string_view text, std::string_view name, const AskPassphrase& ask) {
  const auto asked = [&](std::string_view) {
    if (!ask)
      throw Error(
          Fault::Refused,
          fmt::format("{} is protected by a passphrase, and there is no terminal to ask for it",
                      name))
          .hint("run it on a terminal, or give a key file without a passphrase");
    return ask(name);
  };
  try {
    return decrypt(text, {Identity::passphrase(AskPassphrase(asked))});
  } catch (const AgeError& error) {
    if (error.failure() != Failure::NoMatch) throw;
    throw AgeError(Failure::NoMatch, fmt::format("the passphrase does not open {}", name));
  }
}

}  // namespace

KeyKind Recipient::kind() const noexcept {
  return data_->kind();
}
std::string Recipient::text() const {
  return data_->text();
}
Stanza Recipient::wrap(const Secret& file_key, Entropy& entropy) const {
  return data_->wrap(file_key, entropy);
}
std::string_view Recipient::label() const noexcept {
  return data_->label();
}
bool operator==(const Recipient& a, const Recipient& b) {
  return a.data_ == b.data_ || (a.kind() != KeyKind::Passphrase && a.text() == b.text());
}

Recipient Recipient::parse(std::string_view text) {
  text = trim(text);
  if (text.starts_with("ssh-")) return ssh_recipient(text);
  if (!text.starts_with("age1")) {
    if (equal_ignoring_case(text.substr(0, 15), "AGE-SECRET-KEY-"))
      throw Error(Fault::Usage, "this is a secret key, not a recipient")
          .hint("the recipient is the `age1…` line that stands above it in the key file");
    throw Error(Fault::Usage, "this is no age recipient")
        .hint("one looks like `age1…` or `ssh-ed25519 AAAA…`");
  }
  if (!is_lower_form(text)) throw Error(Fault::Usage, "an age recipient is written in lower case");
  const std::string_view plugin = plugin_name(text);
  if (plugin == "pq")
    return hybrid_recipient(decode_bech32(text, "age1pq", hybrid_point_size, "recipient"));
  if (!plugin.empty())
    throw Error(Fault::Usage,
                fmt::format("recipients of the age plugin `{}` are not supported", plugin))
        .hint("use an X25519 (`age1…`) or an SSH recipient");
  return x25519_recipient(decode_bech32(text, "age", 32, "recipient"));
}

Recipient Recipient::passphrase(Secret passphrase, unsigned work_factor) {
  return passphrase_recipient(std::move(passphrase), work_factor);
}

KeyKind Identity::kind() const noexcept {
  return data_->kind();
}
std::optional<Recipient> Identity::recipient() const {
  return data_->recipient();
}
Secret Identity::text() const {
  return data_->text();
}
std::optional<Secret> Identity::unwrap(const std::vector<Stanza>& stanzas) const {
  return data_->unwrap(stanzas);
}

Identity Identity::parse(std::string_view text) {
  text = trim(text);
  if (text.starts_with("AGE-PLUGIN-"))
    throw Error(Fault::Usage, "identities of age plugins are not supported")
        .hint("use an X25519 identity (`AGE-SECRET-KEY-1…`) or an SSH key");
  const bool hybrid = text.starts_with("AGE-SECRET-KEY-PQ-1");
  if (!hybrid && !text.starts_with("AGE-SECRET-KEY-1")) {
    if (text.starts_with("age1"))
      throw Error(Fault::Usage, "this is a recipient, not a secret key")
          .hint("the secret key begins with AGE-SECRET-KEY-1");
    throw Error(Fault::Usage, "this is no age identity")
        .hint("one begins with AGE-SECRET-KEY-1, in capitals");
  }
  if (!is_upper_form(text)) throw Error(Fault::Usage, "an age identity is written in capitals");
  const char* prefix = hybrid ? "age-secret-key-pq-" : "age-secret-key-";
  const Secret bytes = Secret::take(decode_bech32(text, prefix, 32, "identity"));
  return hybrid ? hybrid_identity(bytes) : x25519_identity(bytes);
}

Identity Identity::parse_ssh(std::string_view pem) {
  return ssh_identity(pem);
}

Identity Identity::passphrase(Secret passphrase, unsigned max_work_factor) {
  return passphrase_identity([passphrase](std::string_view) { return passphrase; },
                             max_work_factor);
}

Identity Identity::passphrase(AskPassphrase ask, unsigned max_work_factor) {
  return passphrase_identity(std::move(ask), max_work_factor);
}

Identity Identity::generate(Entropy& entropy) {
  return x25519_identity(Secret::take(entropy.bytes(32)));
}
std::vector<Identity> parse_identities(std::string_view text, std::string_view name,
                                       const AskPassphrase& ask) {
  check_size(text, name);
  if (looks_like_age(text)) {
    const Secret inner = open_key_file(text, name, ask);
    if (looks_like_age(inner.reveal()))
      throw Error(Fault::Usage, fmt::format("{} holds an age file inside an age file", name));
    return parse_identities(inner.reveal(), name);
  }
  if (trim(text).starts_with("-----BEGIN"))
    return {within(fmt::format("reading {}", name), [&] { return ssh_identity(text); })};
  auto found = parse_lines(text, name, [](std::string_view line) { return Identity::parse(line); });
  if (found.empty())
    throw Error(Fault::Usage, fmt::format("{} holds no identity", name))
        .hint("`age-keygen` makes one; its line begins with AGE-SECRET-KEY-1");
  return found;
}

std::vector<Recipient> parse_recipients(std::string_view text, std::string_view name) {
  check_size(text, name);
  auto found =
      parse_lines(text, name, [](std::string_view line) { return Recipient::parse(line); });
  if (found.empty()) throw Error(Fault::Usage, fmt::format("{} holds no recipient", name));
  return found;
}

std::vector<Identity> load_identities(Files& files, const std::string& path,
                                      const AskPassphrase& ask, Diagnostics& problems) {
  const Secret text = Secret::take(files.get(path, key_file_limit));
  const auto status = files.status(path);
  if (status && (status->mode & 0077) != 0) {
    Problem& problem = problems.warning(
        {path, 0, 0},
        fmt::format("the key file may be read by others (mode {:04o})", status->mode));
    problem.hint = "chmod 600 " + path;
    problem.code = "key-file-readable";
  }
  return parse_identities(text.reveal(), path, ask);
}

Secret key_file(const Identity& identity, Instant created) {
  const auto recipient = identity.recipient();
  const Secret line = identity.text();
  if (!recipient || line.empty())
    throw Error(Fault::Bug, "only age keys can be written to a key file");
  const auto seconds = std::chrono::floor<std::chrono::seconds>(created);
  return Secret::take(fmt::format("# created: {}\n# public key: {}\n{}\n",
                                  rocca::to_string(Instant(seconds)), recipient->text(),
                                  line.reveal()));
}

std::string seal_file_key(const Secret& key, const Secret& file_key) {
  return crypto::chacha_seal(key.reveal(), zero_nonce, file_key.reveal());
}

void require_body(const Stanza& stanza) {
  if (stanza.body.size() != file_key_size + 16)
    throw AgeError(Failure::Header,
                   "the age header is malformed: a wrapped file key of the wrong size");
}

std::optional<Secret> open_file_key(const Secret& key, const Stanza& stanza) {
  require_body(stanza);
  return crypto::chacha_open(key.reveal(), zero_nonce, stanza.body);
}

std::string decode_arg(const Stanza& stanza, std::size_t index, std::size_t size) {
  auto bytes = from_base64(stanza.args.at(index), Padding::None);
  if (!bytes || bytes->size() != size)
    throw AgeError(
        Failure::Header,
        fmt::format(
            "the age header is malformed: an argument of an {} stanza is not {} bytes of canonical "
            "base64",
            stanza.args.front(), size));
  return std::move(*bytes);
}

void require_args(const Stanza& stanza, std::size_t count) {
  if (stanza.args.size() != count + 1)
    throw AgeError(Failure::Header,
                   fmt::format("the age header is malformed: an {} stanza has {} arguments, not {}",
                               stanza.args.front(), stanza.args.size() - 1, count));
}

}  // namespace rocca::secrets::age
