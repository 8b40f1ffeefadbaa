#include "talosconfig/manifest_secrets.hpp"

#include "base/error.hpp"
#include "text/yaml.hpp"

#include <algorithm>

namespace rocca::talos {

using text::Value;

namespace {

bool is_secret_kind(std::string_view kind) {
  return kind == "Secret" || kind == "SecretList";
}

/// A manifest inside of a text of another one (a ConfigMap of templates, an add-on's manifests),
/// where quotes may be escaped: `kind: Secret`, `"kind":"Secret"`, `\"kind\": \"Secret\"`.
bool mentions_secret(std::string_view text) {
  constexpr std::string_view around = " \t\\\"'";
  for (auto at = text.find("kind"); at != std::string_view::npos; at = text.find("kind", at + 1)) {
    const auto colon = text.find_first_not_of(around, at + 4);
    if (colon == std::string_view::npos || text[colon] != ':') continue;
    const auto kind = text.find_first_not_of(around, colon + 1);
    if (kind == std::string_view::npos) continue;
    const auto end = text.find_first_not_of(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", kind);
    if (is_secret_kind(text.substr(kind, end == std::string_view::npos ? end : end - kind)))
      return true;
  }
  return false;
}

bool gives_away(std::string_view text) {
  return text.find("PRIVATE KEY-----") != std::string_view::npos || mentions_secret(text);
}

bool holds(const Value& value) {
  if (value.is_list())
    return std::any_of(value.items().begin(), value.items().end(),
                       [](const Value& item) { return holds(item); });
  if (!value.is_map()) return gives_away(value.text());
  return std::any_of(value.entries().begin(), value.entries().end(), [](const text::Entry& entry) {
    return (entry.key == "kind" && is_secret_kind(entry.value.text())) || holds(entry.value);
  });
}

}  // namespace

bool manifests_hold_secret(std::string_view manifests) {
  if (gives_away(manifests)) return true;
  try {
    std::vector<Value> documents = text::parse_yaml_stream(manifests, "manifests");
    const bool found = std::any_of(documents.begin(), documents.end(), [](const Value& document) {
      return (!document.is_map() && !document.is_null() && !document.is_list()) || holds(document);
    });
    for (Value& document : documents) document.wipe();
    return found;
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;  // not YAML: it may hold anything
    return true;
  }
}

}  // namespace rocca::talos
