#pragma once

#include "talosconfig/schema.hpp"
#include "text/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Machine configurations between text and the form in which they are merged and checked.
namespace rocca::talos {

/// Something that Talos (or we) would not take. It never repeats a value that could be a secret.
struct ConfigProblem {
  std::string code;  // "unknown-key", "wrong-type", …
  std::string path;  // "machine.network.interfaces[0].mtu", "HostnameConfig: auto"
  std::string message;
  text::Place place;
  bool ours = false;     // Talos itself would take it, and be wrong
  bool warning = false;  // Talos takes it, and says that it should not be so
};
using ConfigProblems = std::vector<ConfigProblem>;

/// `name:line:column: path: message`.
std::string to_string(const ConfigProblem& problem, std::string_view name);

/// One document in the form Talos has in memory: only keys it knows, numbers where text is wanted
/// made into text, empty fields left out unless Talos tells empty and absent apart.
struct ConfigDocument {
  const DocumentType* type = nullptr;  // nullptr: the main document
  text::Value value = text::Value::map();
  text::Place place;

  const StructType& fields() const;
  std::string kind() const { return type != nullptr ? type->kind : ""; }
  std::string name() const;
  /// "v1alpha1/LinkConfig/eth0", "v1alpha1" for the main document.
  std::string id() const;
};

/// Reads one document as a Talos of that minor version does; all problems at once. What is wrong is
/// left out of the result.
ConfigDocument decode_document(const text::Value& document, unsigned minor,
                               ConfigProblems& problems);
/// A whole file: also documents that stand twice, and links that two documents make.
std::vector<ConfigDocument> decode_config(const std::vector<text::Value>& documents, unsigned minor,
                                          ConfigProblems& problems);
/// As Talos writes it: its order of keys, nothing that is empty and need not be there.
text::Value encode_document(const ConfigDocument& document, unsigned minor);
std::string encode_config(const std::vector<ConfigDocument>& documents, unsigned minor);

/// Keys in the order of go-yaml: letters by code, digits by their number.
bool go_key_less(std::string_view a, std::string_view b);
/// `2m` → `2m0s`; nothing for what Go does not read.
std::optional<std::string> go_duration(std::string_view text);
std::optional<std::int64_t> go_duration_nanoseconds(std::string_view text);
/// `10GB`, `2.5GiB`, `100`: bytes.
std::optional<std::uint64_t> human_bytes(std::string_view text);

struct UrlParts {
  std::string scheme;
  std::string host;  // with its port, as written
  std::string path;
  std::string query;
  std::string fragment;
};
/// What Go's url.Parse makes of it; nothing where it refuses.
std::optional<UrlParts> parse_url(std::string_view text);
std::string to_string(const UrlParts& url);

}  // namespace rocca::talos
