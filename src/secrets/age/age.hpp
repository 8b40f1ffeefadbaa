#pragma once

#include "base/clock.hpp"
#include "base/diagnostics.hpp"
#include "base/entropy.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/secret.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Files in the age v1 format (C2SP age.md), read and written natively. One pass, constant memory,
/// strict: what the format's own test vectors refuse is refused here.
namespace rocca::secrets::age {

/// How reading an age file failed, in the words of the format's test vectors.
enum class Failure {
  Armor,    ///< the text around the file is damaged
  Header,   ///< it is no age file, or its header is malformed
  NoMatch,  ///< well-formed, but for none of the identities
  Hmac,     ///< an identity fits, but the header was changed
  Payload,  ///< the content was changed or cut off
};

const char* to_string(
    Failure failure) noexcept;  // "armor failure", "header failure", "no match", …

/// What an age reader throws: the one Error, plus the kind for those who branch on it.
/// Header, Armor, Hmac and Payload are Fault::Rejected, NoMatch is Fault::Denied.
class AgeError : public Error {
 public:
  AgeError(Failure failure, std::string message, std::string hint = "");
  Failure failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

/// One `-> TYPE ARG…` entry of a header, with its decoded body.
struct Stanza {
  std::vector<std::string> args;  // the first one is the type
  std::string body;

  friend bool operator==(const Stanza&, const Stanza&) = default;
};

enum class KeyKind { X25519, Passphrase, SshEd25519, SshRsa, Hybrid };

const char* to_string(
    KeyKind kind) noexcept;  // "X25519", "passphrase", "ssh-ed25519", "ssh-rsa", "post-quantum"

/// Asks the user for a passphrase; `what` names what it is for. An empty function: there is nobody
/// to ask.
using AskPassphrase = std::function<Secret(std::string_view what)>;

/// To whom a file is encrypted. A value; never secret, except for a passphrase.
class Recipient {
 public:
  /// `age1…`, `age1pq1…`, `ssh-ed25519 …` or `ssh-rsa …`. Throws Error(Usage) that says what is
  /// wrong with it; plugin recipients (`age1yubikey1…`) are named as such.
  static Recipient parse(std::string_view text);
  /// N = 2^work_factor for scrypt; age itself writes 18. Stands alone: it never mixes with other
  /// recipients.
  static Recipient passphrase(Secret passphrase, unsigned work_factor = 18);

  KeyKind kind() const noexcept;
  /// The text that parse() reads (without an SSH key's comment). Empty for a passphrase.
  std::string text() const;
  /// Wraps a file key. Fresh randomness every time.
  Stanza wrap(const Secret& file_key, Entropy& entropy) const;
  /// Recipients of one file must carry equal labels: "" for most, "postquantum", "passphrase".
  std::string_view label() const noexcept;

  friend bool operator==(const Recipient& a, const Recipient& b);

  struct Data;
  explicit Recipient(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<const Data> data_;
};

/// Who can read a file. Its secret part is wiped when the last copy dies.
class Identity {
 public:
  /// One `AGE-SECRET-KEY-1…` or `AGE-SECRET-KEY-PQ-1…` line. Throws Error(Usage); the message never
  /// repeats the text.
  static Identity parse(std::string_view text);
  /// An unencrypted OpenSSH private key, ed25519 or rsa (`-----BEGIN OPENSSH PRIVATE KEY-----`), or
  /// a PEM RSA key. Encrypted ones and other types are refused by name.
  static Identity parse_ssh(std::string_view pem);
  /// Refuses files that ask for more work than 2^max_work_factor before any work is done.
  static Identity passphrase(Secret passphrase, unsigned max_work_factor = 22);
  /// Asks only when a file needs it, once.
  static Identity passphrase(AskPassphrase ask, unsigned max_work_factor = 22);
  /// A new X25519 key.
  static Identity generate(Entropy& entropy);

  KeyKind kind() const noexcept;
  /// The recipient that encrypts to it; nothing for a passphrase that was not asked for yet.
  std::optional<Recipient> recipient() const;
  /// The `AGE-SECRET-KEY-…` line without newline; empty for SSH keys and passphrases.
  Secret text() const;
  /// The file key, or nothing if none of the stanzas is for this identity. Throws AgeError(Header)
  /// where a stanza of its type is malformed.
  std::optional<Secret> unwrap(const std::vector<Stanza>& stanzas) const;

  struct Data;
  explicit Identity(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<const Data> data_;
};

/// Every identity of an identity file: one a line, `#` comments and empty lines skipped; or an
/// OpenSSH private key; or an age file (armored or not) that holds one of these behind a
/// passphrase, for which `ask` is called. `name` stands in errors, as does the line. No identity at
/// all is an error.
std::vector<Identity> parse_identities(std::string_view text, std::string_view name,
                                       const AskPassphrase& ask = {});
/// Every recipient of a recipients file; same syntax.
std::vector<Recipient> parse_recipients(std::string_view text, std::string_view name);
/// Reads an identity file; warns in `problems` when others than its owner may read it. NotFound
/// when absent.
std::vector<Identity> load_identities(Files& files, const std::string& path,
                                      const AskPassphrase& ask, Diagnostics& problems);

/// The text `age-keygen` writes: `# created: …`, `# public key: …`, the secret line.
Secret key_file(const Identity& identity, Instant created);

/// Takes bytes as they come. A view lives only during the call.
using Sink = std::function<void(std::string_view bytes)>;

enum class Armor { Auto, Yes, No };

/// Encrypts what is written to it: `write` as often as wanted, then `finish` once. The header goes
/// out with the first byte of content. Holds one chunk (64 KiB), whatever the size.
class Encryptor {
 public:
  /// Throws Error(Usage) without recipients, or where they must not be mixed.
  Encryptor(const std::vector<Recipient>& recipients, Entropy& entropy, Sink out,
            bool armor = false);
  Encryptor(Encryptor&&) noexcept;
  Encryptor& operator=(Encryptor&&) noexcept;
  ~Encryptor();

  void write(std::string_view plaintext);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decrypts what is written to it; plaintext goes out chunk by chunk, each only after it was
/// authenticated. A chunk that has gone out is right, but the file is whole only after `finish` has
/// returned. Throws AgeError; afterwards only destroy it.
class Decryptor {
 public:
  /// Armor::Auto looks at the first bytes.
  Decryptor(std::vector<Identity> identities, Sink out, Armor armor = Armor::Auto);
  Decryptor(Decryptor&&) noexcept;
  Decryptor& operator=(Decryptor&&) noexcept;
  ~Decryptor();

  void write(std::string_view ciphertext);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// For what fits in memory.
std::string encrypt(std::string_view plaintext, const std::vector<Recipient>& recipients,
                    Entropy& entropy, bool armor = false);
Secret decrypt(std::string_view ciphertext, const std::vector<Identity>& identities,
               Armor armor = Armor::Auto);

/// Does the text begin like an age file, armored or not?
bool looks_like_age(std::string_view text) noexcept;

}  // namespace rocca::secrets::age
