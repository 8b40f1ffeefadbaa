#include "secrets/sops/format.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace rocca::secrets::sops {
namespace {

using text::Value;

constexpr std::string_view metadata_key = "sops";
constexpr std::string_view dotenv_prefix = "sops_";
const text::Limits limits{64u << 20, 100, 1'000'000};

struct KindOfKey {
  const char* list;
  const char* id;
  const char* shown;
};
// Where each kind of key stands in the metadata, and which of its fields names it.
constexpr std::array<KindOfKey, 7> kinds{{{"age", "recipient", "age"},
                                          {"pgp", "fp", "PGP key"},
                                          {"kms", "arn", "AWS KMS key"},
                                          {"gcp_kms", "resource_id", "GCP KMS key"},
                                          {"azure_kv", "vault_url", "Azure Key Vault key"},
                                          {"hc_vault", "vault_address", "HashiCorp Vault key"},
                                          {"hckms", "key_id", "Huawei Cloud KMS key"}}};

constexpr std::array<Rule, 6> rules{Rule::UnencryptedSuffix,       Rule::EncryptedSuffix,
                                    Rule::UnencryptedRegex,        Rule::EncryptedRegex,
                                    Rule::UnencryptedCommentRegex, Rule::EncryptedCommentRegex};

Value read_dotenv(std::string_view text, std::string_view name) {
  Value map = Value::map();
  std::vector<std::string> comments;
  std::size_t line_number = 0;
  std::map<std::string, std::size_t> seen;
  for (const std::string& line : split(text, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    if (line.front() == '#') {
      comments.push_back(line.substr(1));
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos)
      throw Error(Fault::Usage,
                  fmt::format("{}:{}:1: a line of a dotenv file needs a `=`", name, line_number));
    const std::string key = line.substr(0, equals);
    const auto [first, fresh] = seen.emplace(key, line_number);
    if (!fresh)
      throw Error(Fault::Usage,
                  fmt::format("{}:{}:1: key `{}` stands twice; the first is in line {}", name,
                              line_number, key, first->second));
    text::Entry& entry = map.entries().emplace_back();
    entry.key = key;
    entry.value =
        Value::string(replace_all(std::string_view{line}.substr(equals + 1), "\\n", "\n"));
    if (!comments.empty()) entry.comments().before = std::exchange(comments, {});
  }
  map.comments().after = std::move(comments);
  return map;
}

void write_lines(std::string& out, const std::vector<std::string>& comments) {
  for (const std::string& comment : comments) out += "#" + replace_all(comment, "\n", " ") + "\n";
}

std::string write_dotenv(const Value& map) {
  std::string out;
  write_lines(out, map.comments().before);
  for (const text::Entry& entry : map.entries()) {
    if (!entry.value.is_scalar())
      throw Error(Fault::Usage, fmt::format("a dotenv file cannot hold `{}`, which is a {}",
                                            entry.key, to_string(entry.value.kind())));
    if (entry.key.find_first_of("=\n") != std::string::npos || entry.key.starts_with('#') ||
        entry.key.empty())
      throw Error(Fault::Usage, fmt::format("a dotenv file cannot hold a key `{}`", entry.key));
    write_lines(out, entry.comments().before);
    if (entry.comments().beside) write_lines(out, {*entry.comments().beside});
    out += entry.key + "=" + replace_all(entry.value.text(), "\n", "\\n") + "\n";
    write_lines(out, entry.comments().after);
  }
  write_lines(out, map.comments().after);
  return out;
}

void flatten(const Value& value, const std::string& key, Value& out) {
  if (value.is_map()) {
    for (const text::Entry& entry : value.entries())
      flatten(entry.value, key + "__map_" + entry.key, out);
  } else if (value.is_list()) {
    for (std::size_t i = 0; i < value.items().size(); ++i)
      flatten(value.items()[i], key + "__list_" + std::to_string(i), out);
  } else if (!value.is_null()) {
    out.set(key, Value::string(value.text()));
  }
}

/// One `a__list_0__map_b` of dotenv metadata.
void unflatten(Value& at, std::string_view key, Value leaf, std::string_view name) {
  const auto fail = [&]() -> Error {
    return Error(Fault::Usage, fmt::format("{}: the SOPS metadata `{}` cannot be read", name, key));
  };
  Value* place = &at;
  std::string_view rest = key;
  bool list = false;
  for (bool first = true; first || !rest.empty(); first = false) {
    if (!first) {
      list = rest.starts_with("__list_");
      if (!list && !rest.starts_with("__map_")) throw fail();
      rest.remove_prefix(list ? 7 : 6);
    }
    const std::size_t end = std::min({rest.find("__list_"), rest.find("__map_"), rest.size()});
    const std::string step{rest.substr(0, end)};
    rest.remove_prefix(end);
    if (list) {
      if (place->is_null()) *place = Value::list();
      const auto index = parse_uint(step);
      // Gapless: this also bounds what a wild index could make us allocate.
      if (!place->is_list() || !index || *index > place->items().size()) throw fail();
      if (*index == place->items().size()) place->append({});
      place = &place->items()[*index];
    } else {
      if (place->is_null()) *place = Value::map();
      if (!place->is_map()) throw fail();
      Value* next = place->find(step);
      place = next != nullptr ? next : &place->set(step, {});
    }
  }
  if (!place->is_null()) throw fail();
  *place = std::move(leaf);
}

bool is_true(const Value* value) {
  return value != nullptr &&
         (value->as_bool().value_or(false) || value->text() == "true" || value->text() == "True");
}

std::vector<MasterKey> read_group(const Value& group) {
  std::vector<MasterKey> keys;
  for (const KindOfKey& kind : kinds) {
    const Value* list = group.find(kind.list);
    if (list == nullptr) continue;
    for (const Value& entry : list->items()) {
      MasterKey key;
      key.kind = kind.list;
      if (const Value* id = entry.find(kind.id)) key.id = id->text();
      key.entry = entry;
      keys.push_back(std::move(key));
    }
  }
  return keys;
}

void write_group(const std::vector<MasterKey>& keys, Value& out) {
  for (const KindOfKey& kind : kinds) {
    Value list = Value::list();
    for (const MasterKey& key : keys)
      if (key.kind == kind.list) list.append(key.entry);
    if (list.size() > 0) out.set(kind.list, std::move(list));
  }
}

void require_string_keys(const Value& value, std::string_view name) {
  for (const text::Entry& entry : value.entries()) {
    const bool plain = entry.key_value().is_null() && entry.key_value().style() == text::Style::Any;
    if (!plain && !entry.key_value().is_string())
      throw Error(Fault::Usage,
                  fmt::format("{}:{}:{}: key `{}` is a {}; SOPS files have only strings as keys",
                              name, entry.key_place.line, entry.key_place.column, entry.key,
                              to_string(entry.key_value().kind())))
          .hint("put it in quotes");
    require_string_keys(entry.value, name);
  }
  for (const Value& item : value.items()) require_string_keys(item, name);
}

}  // namespace

std::string MasterKey::shown() const {
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const KindOfKey& k) { return kind == k.list; });
  return (found == kinds.end() ? kind : found->shown) + std::string{" "} +
         (id.empty() ? "(no name)" : id);
}

Recipients Recipients::age(const std::vector<std::string>& recipients) {
  Recipients out;
  auto& group = out.groups.emplace_back();
  for (const std::string& recipient : recipients)
    if (std::none_of(group.begin(), group.end(),
                     [&](const MasterKey& key) { return key.id == recipient; }))
      group.push_back({"age", recipient, {}});
  return out;
}

const char* to_string(Rule rule) noexcept {
  switch (rule) {
    case Rule::UnencryptedSuffix:
      return "unencrypted_suffix";
    case Rule::EncryptedSuffix:
      return "encrypted_suffix";
    case Rule::UnencryptedRegex:
      return "unencrypted_regex";
    case Rule::EncryptedRegex:
      return "encrypted_regex";
    case Rule::UnencryptedCommentRegex:
      return "unencrypted_comment_regex";
    case Rule::EncryptedCommentRegex:
      return "encrypted_comment_regex";
  }
  return "";
}

const char* to_string(Format format) noexcept {
  switch (format) {
    case Format::Yaml:
      return "yaml";
    case Format::Json:
      return "json";
    case Format::Dotenv:
      return "dotenv";
    case Format::Binary:
      return "binary";
  }
  return "";
}

std::optional<Format> find_format(std::string_view name) {
  for (const Format format : {Format::Yaml, Format::Json, Format::Dotenv, Format::Binary})
    if (name == to_string(format)) return format;
  return std::nullopt;
}

Format format_of(std::string_view path) {
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return Format::Yaml;
  if (path.ends_with(".json")) return Format::Json;
  if (path.ends_with(".env")) return Format::Dotenv;
  return Format::Binary;
}

std::vector<Value> read_documents(std::string_view text, Format format, std::string_view name) {
  if (text.size() > limits.size)
    throw Error(Fault::Usage, fmt::format("{}: a SOPS file has 64 MiB at the most", name));
  std::vector<Value> documents;
  switch (format) {
    case Format::Yaml:
      if (text.empty())  // as SOPS itself; a file of blanks or comments is an empty document
        throw Error(Fault::Usage, fmt::format("{}: the file is empty", name))
            .hint("a document without values is `{}`");
      documents = text::parse_yaml_stream(text, name, limits);
      if (documents.empty()) documents.push_back(text::parse_yaml(text, name, limits));
      // An empty document is an empty map to SOPS.
      for (Value& document : documents)
        if (document.is_null()) {
          Value map = Value::map();
          map.comments() = document.comments();
          document = std::move(map);
        }
      return documents;
    case Format::Json:
    case Format::Binary:
      documents.push_back(text::parse_json(text, name, limits));
      return documents;
    case Format::Dotenv:
      documents.push_back(read_dotenv(text, name));
      return documents;
  }
  return documents;
}

std::string write_documents(const std::vector<Value>& documents, Format format,
                            unsigned yaml_indent, const std::string& json_indent) {
  switch (format) {
    case Format::Yaml:
      return text::emit_yaml_stream(documents, {yaml_indent});
    case Format::Json:
    case Format::Binary:
      return text::emit_json(documents.front(), {true, json_indent}) + "\n";
    case Format::Dotenv:
      return write_dotenv(documents.front());
  }
  return "";
}

Value take_metadata(std::vector<Value>& documents, Format format, std::string_view name) {
  Value metadata;
  if (format == Format::Dotenv) {
    Value& map = documents.front();
    std::vector<text::Entry> rest;
    for (text::Entry& entry : map.entries()) {
      if (entry.key.starts_with(dotenv_prefix)) {
        unflatten(metadata, std::string_view{entry.key}.substr(dotenv_prefix.size()),
                  std::move(entry.value), name);
      } else {
        rest.push_back(std::move(entry));
      }
    }
    map.entries() = std::move(rest);
    return metadata;
  }
  bool first = true;
  for (Value& document : documents) {
    auto& entries = document.entries();
    const auto found = std::find_if(entries.begin(), entries.end(), [](const text::Entry& entry) {
      return entry.key == metadata_key;
    });
    if (found != entries.end()) {
      if (first) metadata = std::move(found->value);
      // Comments above the metadata are about what stands before them.
      auto& comments =
          found == entries.begin() ? document.comments().after : std::prev(found)->comments().after;
      const auto& orphans = std::as_const(*found).comments().before;
      comments.insert(comments.end(), orphans.begin(), orphans.end());
      entries.erase(found);
    }
    first = false;
  }
  return metadata;
}

void put_metadata(std::vector<Value>& documents, Format format, const Value& metadata) {
  if (format == Format::Dotenv) {
    Value flat = Value::map();
    for (const text::Entry& entry : metadata.entries())
      flatten(entry.value, std::string{dotenv_prefix} + entry.key, flat);
    for (text::Entry& entry : flat.entries())
      documents.front().set(entry.key, std::move(entry.value));
    return;
  }
  for (Value& document : documents) {
    document.set(metadata_key, metadata);
    // In flow style everything would stand on one line.
    if (document.style() == text::Style::Flow) document.set_style(text::Style::Block);
  }
}

void require_sops_shape(const std::vector<Value>& documents, std::string_view name) {
  for (const Value& document : documents) {
    if (!document.is_map())
      throw Error(Fault::Usage, fmt::format("{}: the root of a SOPS file must be a map, not a {}",
                                            name, to_string(document.kind())));
    require_string_keys(document, name);
  }
}

Recipients read_recipients(const Value& metadata, std::string_view name) {
  Recipients recipients;
  std::vector<MasterKey> flat = read_group(metadata);
  if (!flat.empty()) {
    recipients.groups.push_back(std::move(flat));
  } else if (const Value* groups = metadata.find("key_groups")) {
    for (const Value& group : groups->items()) recipients.groups.push_back(read_group(group));
  }
  if (const Value* threshold = metadata.find("shamir_threshold");
      threshold != nullptr && !threshold->is_null()) {
    const auto number = parse_uint(threshold->text());
    if (!number || *number > 255)
      throw Error(
          Fault::Usage,
          fmt::format("{}: the SOPS metadata `shamir_threshold` is no number of groups", name));
    recipients.threshold = static_cast<unsigned>(*number);
  }
  const bool any = std::any_of(recipients.groups.begin(), recipients.groups.end(),
                               [](const auto& group) { return !group.empty(); });
  if (!any)
    throw Error(Fault::Usage, fmt::format("{}: the SOPS metadata name no key at all", name));
  return recipients;
}

void write_recipients(const Recipients& recipients, Value& metadata) {
  for (const KindOfKey& kind : kinds) metadata.erase(kind.list);
  metadata.erase("key_groups");
  metadata.erase("shamir_threshold");
  if (recipients.groups.size() == 1) {
    write_group(recipients.groups.front(), metadata);
  } else {
    Value groups = Value::list();
    for (const auto& keys : recipients.groups) {
      Value group = Value::map();
      write_group(keys, group);
      groups.append(std::move(group));
    }
    metadata.set("key_groups", std::move(groups));
    metadata.set("shamir_threshold", Value::integer(recipients.threshold));
  }
  sort_metadata(metadata);
}

Selection read_selection(const Value& metadata, std::string_view name) {
  Selection selection;
  bool found = false;
  for (const Rule rule : rules) {
    const Value* pattern = metadata.find(to_string(rule));
    if (pattern == nullptr || pattern->text().empty()) continue;
    if (found)
      throw Error(Fault::Usage,
                  fmt::format("{}: the SOPS metadata have both `{}` and `{}`; one rule is allowed",
                              name, to_string(selection.rule), to_string(rule)));
    found = true;
    selection.rule = rule;
    selection.pattern = pattern->text();
  }
  selection.mac_only_encrypted = is_true(metadata.find("mac_only_encrypted"));
  return selection;
}

void write_selection(const Selection& selection, Value& metadata) {
  for (const Rule rule : rules) metadata.erase(to_string(rule));
  metadata.set(to_string(selection.rule), Value::string(selection.pattern));
  metadata.erase("mac_only_encrypted");
  if (selection.mac_only_encrypted) metadata.set("mac_only_encrypted", Value::boolean(true));
  sort_metadata(metadata);
}

void sort_metadata(Value& metadata) {
  std::stable_sort(metadata.entries().begin(), metadata.entries().end(),
                   [](const text::Entry& a, const text::Entry& b) { return a.key < b.key; });
}

bool is_encrypted(std::string_view text, Format format) {
  try {
    auto documents = read_documents(text, format, "text");
    return !documents.empty() && !take_metadata(documents, format, "text").is_null();
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;  // it cannot be read in this format
    return false;
  }
}

}  // namespace rocca::secrets::sops
