#include "secrets/sops/config.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/sops/format.hpp"
#include "secrets/sops/pattern.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::secrets::sops {
namespace {

using text::Value;

constexpr int most_levels = 100;

struct Spelling {
  const char* key;   // in a rule or group of `.sops.yaml`
  const char* kind;  // in the metadata
};
constexpr std::array<Spelling, 9> spellings{{{"age", "age"},
                                             {"pgp", "pgp"},
                                             {"kms", "kms"},
                                             {"gcp_kms", "gcp_kms"},
                                             {"azure_keyvault", "azure_kv"},
                                             {"azure_kv", "azure_kv"},
                                             {"hc_vault_transit_uri", "hc_vault"},
                                             {"hc_vault", "hc_vault"},
                                             {"hckms", "hckms"}}};

[[noreturn]] void refuse(std::string_view name, const Value& at, const std::string& why) {
  throw Error(Fault::Usage,
              fmt::format("{}:{}:{}: {}", name, at.place().line, at.place().column, why));
}

/// A comma list, or a list of strings (or of maps for key services: their first text names them).
std::vector<std::string> words(const Value& value, std::string_view name) {
  std::vector<std::string> out;
  const auto add = [&](std::string_view text) {
    for (const std::string& part : split(text, ','))
      if (const auto word = trim(part); !word.empty()) out.emplace_back(word);
  };
  if (value.is_list()) {
    for (const Value& item : value.items()) {
      if (item.is_map())
        out.push_back(item.entries().empty() ? "" : item.entries().front().value.text());
      else if (item.is_scalar())
        add(item.text());
      else
        refuse(name, item, "a key must be a text");
    }
  } else if (value.is_scalar()) {
    add(value.text());
  } else {
    refuse(name, value, "keys must be a text or a list");
  }
  return out;
}

void read_keys(const Value& from, std::string_view name, std::vector<MasterKey>& out) {
  for (const Spelling& spelling : spellings) {
    const Value* list = from.find(spelling.key);
    if (list == nullptr || list->is_null()) continue;
    for (std::string& id : words(*list, name)) {
      const bool known = std::any_of(out.begin(), out.end(), [&](const MasterKey& k) {
        return k.kind == spelling.kind && k.id == id;
      });
      if (!known) out.push_back({spelling.kind, std::move(id), {}});
    }
  }
  if (const Value* merge = from.find("merge"))
    for (const Value& group : merge->items()) read_keys(group, name, out);
}

Recipients read_rule_keys(const Value& rule, std::string_view name) {
  Recipients recipients;
  if (const Value* groups = rule.find("key_groups"); groups != nullptr && groups->size() > 0) {
    for (const Value& group : groups->items())
      read_keys(group, name, recipients.groups.emplace_back());
  } else {
    read_keys(rule, name, recipients.groups.emplace_back());
  }
  if (const Value* threshold = rule.find("shamir_threshold")) {
    const auto number = threshold->as_uint();
    if (!number || *number > 255)
      refuse(name, *threshold, "`shamir_threshold` must be a number of groups");
    recipients.threshold = static_cast<unsigned>(*number);
  }
  return recipients;
}

}  // namespace

Config Config::parse(std::string_view text, std::string_view name) {
  const Value root = text::parse_yaml(text, name);
  Config config;
  config.name_ = name;
  const auto slash = name.rfind('/');
  config.folder_ = slash == std::string_view::npos ? "" : std::string{name.substr(0, slash)};
  if (const Value* indent = root.find({"stores", "yaml", "indent"})) {
    const auto number = indent->as_uint();
    if (!number || *number < 1 || *number > 9)
      refuse(name, *indent, "an indentation of YAML is 1 to 9");
    config.yaml_indent_ = static_cast<unsigned>(*number);
  }
  if (const Value* indent = root.find({"stores", "json", "indent"})) {
    const auto number = indent->as_int();
    if (!number || *number < -1 || *number > 32)
      refuse(name, *indent, "an indentation of JSON is -1 (tab) to 32");
    config.json_indent_ = *number < 0 ? "\t" : std::string(static_cast<std::size_t>(*number), ' ');
  }
  const Value* rules = root.find("creation_rules");
  if (rules == nullptr || rules->is_null()) return config;
  if (!rules->is_list()) refuse(name, *rules, "`creation_rules` must be a list");
  config.has_rules_ = true;
  for (const Value& rule : rules->items()) {
    if (!rule.is_map()) refuse(name, rule, "a creation rule must be a map");
    CreationRule out;
    if (const Value* regex = rule.find("path_regex")) {
      out.path_regex = regex->text();
      try {
        const Pattern checked(out.path_regex);
      } catch (const Error& error) {
        refuse(name, *regex, error.message());
      }
    }
    out.recipients = read_rule_keys(rule, name);
    out.selection = read_selection(rule, fmt::format("{}:{}", name, rule.place().line));
    config.rules_.push_back(std::move(out));
  }
  return config;
}

std::optional<Config> Config::find(Files& files, const std::string& folder) {
  std::string at = folder;
  for (int level = 0; level < most_levels; ++level) {
    const std::string path = (at == "/" ? "" : at) + "/.sops.yaml";
    if (const auto text = files.find(path, 4u << 20)) return parse(*text, path);
    const auto slash = at.rfind('/');
    if (at.empty() || at == "/" || slash == std::string::npos) break;
    at = slash == 0 ? "/" : at.substr(0, slash);
  }
  return std::nullopt;
}

std::optional<Recipe> Config::find_rule(const std::string& path) const {
  if (!has_rules_) return std::nullopt;
  std::string_view below = path;
  if (below.starts_with(folder_ + "/")) below.remove_prefix(folder_.size() + 1);
  for (const CreationRule& rule : rules_) {
    if (!rule.path_regex.empty() && !Pattern(rule.path_regex).found_in(below)) continue;
    return Recipe{rule.recipients, rule.selection, yaml_indent_, json_indent_};
  }
  throw Error(Fault::Usage, fmt::format("{}: no creation rule fits `{}`", name_, below))
      .hint("add a rule with a `path_regex` that fits, or name the recipient with `--age`");
}

}  // namespace rocca::secrets::sops
