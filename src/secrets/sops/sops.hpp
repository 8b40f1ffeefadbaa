#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/secret.hpp"
#include "secrets/age/age.hpp"
#include "text/edit.hpp"
#include "text/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// SOPS files: structure in clear, values sealed, the data key wrapped for age recipients. What is
/// written here is read by `sops` itself and the other way round.
namespace rocca::secrets::sops {

enum class Format { Yaml, Json, Dotenv, Binary };

const char* to_string(Format format) noexcept;  // "yaml", "json", "dotenv", "binary"
std::optional<Format> find_format(std::string_view name);
/// By the ending of a file's name, as sops does; everything unknown is binary.
Format format_of(std::string_view path);

/// Which values are sealed. One rule a file; a hit on any key of a value's path counts.
enum class Rule {
  UnencryptedSuffix,
  EncryptedSuffix,
  UnencryptedRegex,
  EncryptedRegex,
  UnencryptedCommentRegex,
  EncryptedCommentRegex,
};

const char* to_string(Rule rule) noexcept;  // "unencrypted_suffix"

struct Selection {
  Rule rule = Rule::UnencryptedSuffix;
  std::string pattern = "_unencrypted";
  bool mac_only_encrypted = false;

  friend bool operator==(const Selection&, const Selection&) = default;
};

/// A key that a file's data key is wrapped for. Only `age` is opened and wrapped here; all other
/// kinds (pgp, kms, gcp_kms, azure_kv, hc_vault, hckms) are kept as they are.
struct MasterKey {
  std::string kind = "age";
  std::string id;     // recipient, fingerprint, ARN, …
  text::Value entry;  // as it stands in the metadata; null for one that is not wrapped yet

  /// "age age1…", "PGP key 35C1…".
  std::string shown() const;
};

/// Any key of a group opens it. With more than one group the data key is split (Shamir), and
/// `threshold` groups are needed.
struct Recipients {
  std::vector<std::vector<MasterKey>> groups;
  unsigned threshold = 0;  // 0: all groups

  static Recipients age(const std::vector<std::string>& recipients);
};

/// What a file is encrypted with.
struct Recipe {
  Recipients recipients;
  Selection selection;
  unsigned yaml_indent = 4;
  std::string json_indent = "\t";
};

/// A document in clear. Its texts are wiped when it dies; it can be moved, not copied.
class Plain {
 public:
  /// Reads a text in clear. Refuses (Usage) what SOPS cannot hold: a list or scalar as root, keys
  /// that are no strings, and a file that is encrypted already.
  static Plain parse(std::string_view text, Format format, std::string_view name);
  Plain(Format format, std::vector<text::Value> documents);
  Plain(Plain&&) noexcept = default;
  Plain& operator=(Plain&& other) noexcept;
  ~Plain();

  Format format() const noexcept { return format_; }
  /// YAML has any number of documents, the others one. Binary: one map with `data`.
  const std::vector<text::Value>& documents() const noexcept { return documents_; }
  std::vector<text::Value>& documents() noexcept { return documents_; }
  /// As a file; comments and order are kept.
  Secret text(unsigned yaml_indent = 4, const std::string& json_indent = "\t") const;

 private:
  Format format_;
  std::vector<text::Value> documents_;
};

/// Encrypts with a new data key. Throws Error(Usage) for a recipient that is not age.
std::string encrypt(const Plain& plain, const Recipe& recipe, const Clock& clock, Entropy& entropy);

/// An encrypted file. A value: changes give the text of a new file.
class File {
 public:
  /// Throws Error(Usage) `name: …` for a text that is no SOPS file, or whose metadata cannot be
  /// read.
  static File parse(std::string_view text, Format format, std::string_view name);

  const std::string& name() const noexcept { return name_; }
  const Recipients& recipients() const noexcept { return recipients_; }
  const Selection& selection() const noexcept { return selection_; }
  const std::string& version() const noexcept { return version_; }
  const std::string& last_modified() const noexcept { return last_modified_; }
  /// The names of its values, sealed or not: `a.b`, `list.0`.
  std::vector<std::string> names() const;

  /// Throws Error(Denied) that names every key the file is for when none of the identities opens
  /// it.
  Secret data_key(const std::vector<age::Identity>& identities) const;

  /// Opens all values and checks the MAC. Throws Error(Rejected) that names the first value that
  /// was changed, or says that the MAC does not fit.
  Plain decrypt(const Secret& data_key) const;

  /// New content under the same data key; values that did not change keep their bytes.
  std::string with_content(const Plain& plain, const Secret& data_key, const Clock& clock,
                           Entropy& entropy) const;
  /// One value. An existing one is changed in place, with every other byte left alone but the MAC
  /// and the date.
  std::string set(const text::Path& path, const text::Value& value, const Secret& data_key,
                  const Clock& clock, Entropy& entropy) const;
  /// Throws Error(NotFound) if there is none.
  std::string unset(const text::Path& path, const Secret& data_key, const Clock& clock,
                    Entropy& entropy) const;
  /// A new data key for the same recipients. Throws Error(Usage) naming keys that are not age: they
  /// cannot be wrapped for here.
  std::string rotate(const Secret& data_key, const Clock& clock, Entropy& entropy) const;
  /// The same data key for other recipients; values, MAC and date stay. Other keys than age stay if
  /// the file has them already.
  std::string with_recipients(const Recipients& recipients, const Secret& data_key,
                              Entropy& entropy) const;

 private:
  friend class Sealer;

  File() = default;
  std::string write(std::vector<text::Value> documents, const text::Value& metadata) const;
  std::string with_metadata(const text::Value& metadata) const;
  std::string sealed_again(const Plain& plain, const Secret& old_key, const Secret& new_key,
                           const text::Value& metadata, const Clock& clock, Entropy& entropy) const;

  std::string name_;
  std::string source_;
  Format format_ = Format::Yaml;
  std::vector<text::Value> documents_;  // without the metadata
  text::Value metadata_;
  Recipients recipients_;
  Selection selection_;
  std::string version_;
  std::string last_modified_;  // RFC 3339, seconds: the MAC is bound to it
  unsigned yaml_indent_ = 4;
  std::string json_indent_ = "\t";
};

/// Does it have SOPS metadata? Cheap; says nothing about whether they can be read.
bool is_encrypted(std::string_view text, Format format);

}  // namespace rocca::secrets::sops
