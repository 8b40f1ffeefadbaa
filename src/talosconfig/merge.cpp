#include "talosconfig/merge.hpp"

#include "base/error.hpp"
#include "talosconfig/delete.hpp"
#include "talosconfig/scalars.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::talos {

using text::Entry;
using text::Kind;
using text::Value;

namespace {

using Maybe = std::optional<Value>;

Maybe copy(const Value* value) {
  return value != nullptr ? Maybe{*value} : std::nullopt;
}

std::string text_of(const Value& item, std::string_view key) {
  const Value* value = item.find(key);
  return value != nullptr && value->is_scalar() ? value->text() : std::string{};
}

class Merger {
 public:
  Merger(unsigned minor, const std::string& patch) : minor_(minor), patch_(patch) {}

  Value structure(const StructType& type, const Value& left, const Value& right,
                  const std::string& path) {
    Value out = Value::map();
    for (const Field& field : type.fields) {
      if (type.find(field.key, minor_) != &field) continue;
      const std::string inner = path.empty() ? field.key : path + "." + field.key;
      Maybe value =
          any_shape(field.type, left.find(field.key), right.find(field.key), field.replace, inner);
      if (value) out.set(field.key, std::move(*value));
    }
    return out;
  }

 private:
  /// A field of a struct or the value under a key. nullptr is Go's zero or nil.
  Maybe any_shape(const Type& type, const Value* left, const Value* right, bool replace,
                  const std::string& path) {
    if (type.pointer) {
      if (right == nullptr || right->is_null()) return copy(left);
      if (left == nullptr || left->is_null()) return *right;
    }
    switch (type.shape) {
      case Shape::Struct: {
        const Value nothing = Value::map();
        Value out = structure(*type.fields, left != nullptr ? *left : nothing,
                              right != nullptr ? *right : nothing, path);
        if (!type.pointer && out.size() == 0) return std::nullopt;
        return out;
      }
      case Shape::List:
        if (type.keyed) return keyed_list(*type.item, left, right, path);
        return list(left, right, replace);
      case Shape::Map:
        return map(type, left, right, replace, path);
      case Shape::Any:
        if (right == nullptr) return copy(left);
        if (left == nullptr || replace) return *right;
        return free_map(*left, *right, path);
      case Shape::Expression:
      case Shape::Size:
      case Shape::Bool:
        // Types with a merge of their own take the patch's value even if it is none, and a plain
        // bool cannot tell false from absent: what the patch does not repeat is lost.
        return copy(right);
      case Shape::MaxSize: {
        // Both kinds of size are kept side by side, and bytes are what is written.
        if (left != nullptr && right != nullptr && right->text().ends_with('%') &&
            !left->text().ends_with('%'))
          return *left;
        return right != nullptr ? *right : copy(left);
      }
      case Shape::Url:
        if (left != nullptr && right != nullptr) return url(*left, *right);
        return right != nullptr ? *right : copy(left);
      default:
        if (right == nullptr || (!type.pointer && is_zero(type, *right))) return copy(left);
        return *right;
    }
  }

  static Maybe list(const Value* left, const Value* right, bool replace) {
    if (right == nullptr) return copy(left);
    if (left == nullptr || replace) return *right;
    Value out = *left;
    for (const Value& item : right->items()) out.append(item);
    return out;
  }

  Maybe keyed_list(const Type& item, const Value* left, const Value* right,
                   const std::string& path) {
    if (right == nullptr) return copy(left);
    Value out = left != nullptr ? *left : Value::list();
    for (const Value& added : right->items()) {
      Value* existing = find_same(item, out, added);
      if (existing == nullptr) {
        out.append(added);
      } else if (item.fields->name == "SecurityImageVerificationRule") {
        *existing = added;
      } else {
        *existing = structure(*item.fields, *existing, added, path);
      }
    }
    if (left == nullptr && out.size() == 0) return std::nullopt;
    return out;
  }

  static Value* find_same(const Type& item, Value& list, const Value& added) {
    const std::string& type = item.fields->name;
    const auto same = [&](const Value& candidate) {
      if (type == "Device") {
        const std::string name = text_of(added, "interface");
        if (!name.empty()) return text_of(candidate, "interface") == name;
        const Value* selector = added.find("deviceSelector");
        const Value* other = candidate.find("deviceSelector");
        return selector != nullptr && other != nullptr && *selector == *other;
      }
      const std::string_view key = type == "Vlan"                            ? "vlanId"
                                   : type == "ExtensionConfigFile"           ? "mountPath"
                                   : type == "SecurityImageVerificationRule" ? "image"
                                                                             : "name";
      return text_of(candidate, key) == text_of(added, key);
    };
    for (Value& candidate : list.items())
      if (same(candidate)) return &candidate;
    return nullptr;
  }

  Maybe map(const Type& type, const Value* left, const Value* right, bool replace,
            const std::string& path) {
    if (right == nullptr) return copy(left);
    if (left == nullptr || replace) return *right;
    Value out = *left;
    for (const Entry& entry : right->entries()) {
      Value* existing = out.find(entry.key);
      if (existing == nullptr || existing->is_null() || type.item->shape == Shape::Argument) {
        out.set(entry.key, entry.value);
        continue;
      }
      const Value before = *existing;
      Maybe value = any_shape(*type.item, &before, &entry.value, false, path + "." + entry.key);
      if (value) out.set(entry.key, std::move(*value));
    }
    return out;
  }

  /// Free content: kinds must agree, zeros are ignored, lists append.
  Value free_map(const Value& left, const Value& right, const std::string& path) {
    Value out = left;
    for (const Entry& entry : right.entries()) {
      const std::string inner = path + "." + entry.key;
      Value* existing = out.find(entry.key);
      if (existing == nullptr || existing->is_null()) {
        out.set(entry.key, entry.value);
        continue;
      }
      if (existing->kind() != entry.value.kind())
        throw Error(Fault::Usage, fmt::format("{}: {}: a {} cannot be merged into a {}", patch_,
                                              inner, text::to_string(entry.value.kind()),
                                              text::to_string(existing->kind())))
            .hint("delete the key with `$patch: delete` in a patch before this one");
      if (existing->is_map()) {
        out.set(entry.key, free_map(Value{*existing}, entry.value, inner));
      } else if (existing->is_list()) {
        for (const Value& item : entry.value.items()) existing->append(item);
      } else if (entry.value.kind() == Kind::Bool || !is_nothing(entry.value)) {
        out.set(entry.key, entry.value);
      }
    }
    return out;
  }

  static bool is_nothing(const Value& value) {
    if (value.is_string()) return value.text().empty();
    return value.as_float() == 0.0;
  }

  /// Go merges the parts of a URL: a path or query that the patch does not have stays.
  static Value url(const Value& left, const Value& right) {
    const auto old_parts = parse_url(left.text());
    auto parts = parse_url(right.text());
    if (!old_parts || !parts) return right;
    const auto keep = [](std::string& part, const std::string& old) {
      if (part.empty()) part = old;
    };
    keep(parts->scheme, old_parts->scheme);
    keep(parts->host, old_parts->host);
    keep(parts->path, old_parts->path);
    keep(parts->query, old_parts->query);
    keep(parts->fragment, old_parts->fragment);
    return Value::string(to_string(*parts));
  }

  unsigned minor_;
  const std::string& patch_;
};

void throw_first(const ConfigProblems& problems, const std::string& name) {
  if (problems.empty()) return;
  std::string message = to_string(problems.front(), name);
  if (problems.size() > 1) message += fmt::format(" (and {} more)", problems.size() - 1);
  throw Error(Fault::Usage, std::move(message));
}

void apply_deletions(std::vector<ConfigDocument>& config, const std::vector<Deletion>& deletions,
                     unsigned minor, const std::string& patch) {
  for (const Deletion& deletion : deletions) {
    const auto at = std::find_if(config.begin(), config.end(), [&](const ConfigDocument& document) {
      return document.id() == deletion.document;
    });
    if (at == config.end())
      throw Error(Fault::Usage,
                  fmt::format("{}:{}:{}: there is no document {} to delete from", patch,
                              deletion.place.line, deletion.place.column, deletion.document))
          .hint("a named kind needs its `name`");
    if (deletion.whole) {
      config.erase(at);
    } else {
      delete_from(*at, deletion, minor, patch);
    }
  }
}

void merge_document(std::vector<ConfigDocument>& config, ConfigDocument&& document, unsigned minor,
                    const std::string& patch) {
  const std::string id = document.id();
  for (ConfigDocument& existing : config) {
    if (existing.id() != id) continue;
    existing.value =
        Merger{minor, patch}.structure(existing.fields(), existing.value, document.value, "");
    return;
  }
  config.push_back(std::move(document));
}

/// `kind` without a version of Talos that has it must fail even when the document is only deleted.
void check_kind(const Value& document, unsigned minor, ConfigProblems& problems) {
  if (document.find("kind") == nullptr) return;
  Value bare = Value::map();
  for (const std::string_view key : {"apiVersion", "kind"})
    if (const Value* value = document.find(key)) bare.set(key, *value);
  decode_document(bare, minor, problems);
}

Value sorted_by_key(const Value& value) {
  if (value.is_list()) {
    Value out = Value::list();
    for (const Value& item : value.items()) out.append(sorted_by_key(item));
    return out;
  }
  if (!value.is_map()) {
    if (value.is_string()) return Value::string(value.text());
    if (value.kind() == Kind::Float) return Value::floating(value.as_float().value_or(0));
    return value;
  }
  std::vector<const Entry*> entries;
  for (const Entry& entry : value.entries()) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const Entry* a, const Entry* b) { return a->key < b->key; });
  Value out = Value::map();
  for (const Entry* entry : entries) out.set(entry->key, sorted_by_key(entry->value));
  return out;
}

}  // namespace

ConfigPatch read_patch(std::string_view text, std::string name) {
  ConfigPatch patch;
  std::vector<Value> documents = text::parse_yaml_stream(text, name);
  std::erase_if(documents, [](const Value& document) { return document.is_null(); });
  if (documents.empty()) {
    patch.form = ConfigPatch::Form::Json;
    documents.push_back(Value::list());
  } else if (documents.size() == 1 && documents.front().is_list()) {
    patch.form = ConfigPatch::Form::Json;
  }
  patch.name = std::move(name);
  patch.documents = std::move(documents);
  return patch;
}

std::vector<ConfigDocument> merged(std::vector<ConfigDocument> config, const ConfigPatch& patch,
                                   unsigned minor) {
  // Everything is read before anything is merged, as a patch is refused as a whole.
  struct Step {
    std::vector<Deletion> deletions;
    std::optional<ConfigDocument> document;
  };
  std::vector<Step> steps;
  ConfigProblems problems;
  std::vector<Value> rest;
  bool anything = false;
  for (const Value& source : patch.documents) {
    Step step;
    Value document = source;
    step.deletions = take_deletions(document, patch.name);
    anything = anything || !step.deletions.empty();
    if (!step.deletions.empty()) check_kind(source, minor, problems);
    if (!is_empty_patch_document(document) &&
        !(document.size() == 2 && document.find("apiVersion") && document.find("kind") &&
          !step.deletions.empty())) {
      anything = true;
      ConfigDocument decoded = decode_document(document, minor, problems);
      for (const Step& other : steps)
        if (other.document && other.document->id() == decoded.id() && problems.empty())
          problems.push_back({"duplicate-document", decoded.id(),
                              "the patch has this document twice", decoded.place});
      step.document = std::move(decoded);
    }
    steps.push_back(std::move(step));
  }
  if (!anything)
    throw Error(Fault::Usage,
                fmt::format("{}: there is no configuration in this patch", patch.name));
  throw_first(problems, patch.name);
  for (Step& step : steps) {
    apply_deletions(config, step.deletions, minor, patch.name);
    if (step.document) merge_document(config, std::move(*step.document), minor, patch.name);
  }
  return config;
}

std::string patched_config(std::string_view config, std::string_view name,
                           const std::vector<ConfigPatch>& patches, unsigned minor) {
  if (patches.empty()) return std::string{config};
  const std::string file{name};
  std::vector<Value> values = text::parse_yaml_stream(config, name);
  std::erase_if(values, [](const Value& value) { return value.is_null(); });
  bool json_last = false;
  for (const ConfigPatch& patch : patches) {
    json_last = patch.form == ConfigPatch::Form::Json;
    if (json_last) {
      if (values.size() != 1)
        throw Error(Fault::Usage,
                    fmt::format("{}: a JSON patch cannot be applied to a configuration of {} "
                                "documents",
                                patch.name, values.size()))
            .hint("write it as a merge patch");
      values.front() = sorted_by_key(json_patched(values.front(), patch));
      continue;
    }
    ConfigProblems problems;
    std::vector<ConfigDocument> documents = decode_config(values, minor, problems);
    throw_first(problems, file);
    documents = merged(std::move(documents), patch, minor);
    values.clear();
    for (const ConfigDocument& document : documents)
      values.push_back(encode_document(document, minor));
  }
  return text::emit_yaml_stream(values, {.indent = json_last ? 2U : 4U});
}

}  // namespace rocca::talos
