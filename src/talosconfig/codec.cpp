#include "talosconfig/codec.hpp"

#include "base/diagnostics.hpp"
#include "talosconfig/scalars.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace rocca::talos {

using text::Entry;
using text::Kind;
using text::Value;

namespace {

/// A Go regular letter, for the order of keys: what is not ASCII counts as one.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Decoder {
 public:
  Decoder(unsigned minor, std::string prefix, ConfigProblems& problems)
      : minor_(minor), prefix_(std::move(prefix)), problems_(problems) {}

  Value structure(const StructType& type, const Value& value, const std::string& path) {
    Value out = Value::map();
    out.set_place(value.place());
    for (const Entry& entry : value.entries()) {
      const std::string inner = path.empty() ? entry.key : path + "." + entry.key;
      const Field* field = type.find(entry.key, minor_);
      if (field == nullptr) {
        unknown(type, entry, inner);
        continue;
      }
      auto decoded = any_shape(field->type, entry.value, inner);
      if (decoded) out.set(entry.key, std::move(*decoded));
    }
    return out;
  }

 private:
  std::optional<Value> any_shape(const Type& type, const Value& value, const std::string& path) {
    if (value.is_null()) return std::nullopt;
    switch (type.shape) {
      case Shape::Struct: {
        if (!expect(value, Kind::Map, path)) return std::nullopt;
        Value made = structure(*type.fields, value, path);
        if (made.size() == 0 && !type.pointer) return std::nullopt;
        return made;
      }
      case Shape::List:
        return list(type, value, path);
      case Shape::Map:
        return map(type, value, path);
      case Shape::Any: {
        if (!expect(value, Kind::Map, path)) return std::nullopt;
        return plain(value);
      }
      default: {
        ReadScalar read = read_scalar(type, value);
        if (!read.refusal.empty()) {
          report(value.is_scalar() && type.shape != Shape::Bool && type.shape != Shape::Integer
                     ? "bad-value"
                     : "wrong-type",
                 path, read.refusal, value.place());
          return std::nullopt;
        }
        if (!type.pointer && is_zero(type, read.value)) return std::nullopt;
        read.value.set_place(value.place());
        return read.value;
      }
    }
  }

  std::optional<Value> list(const Type& type, const Value& value, const std::string& path) {
    if (!expect(value, Kind::List, path)) return std::nullopt;
    Value out = Value::list();
    out.set_place(value.place());
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      const Value& item = value.items()[i];
      const std::string inner = fmt::format("{}[{}]", path, i);
      if (item.is_null() && type.item->pointer) {
        // Talos's own validator crashes on such an entry.
        report("empty-item", inner, "an empty entry", item.place());
        continue;
      }
      auto decoded = any_shape(*type.item, item, inner);
      if (!decoded && !refused_below(inner)) decoded = zero_of(*type.item);
      if (decoded) out.append(std::move(*decoded));
    }
    return out;
  }

  std::optional<Value> map(const Type& type, const Value& value, const std::string& path) {
    if (!expect(value, Kind::Map, path)) return std::nullopt;
    Value out = Value::map();
    out.set_place(value.place());
    for (const Entry& entry : value.entries()) {
      const std::string inner = path + "." + entry.key;
      auto decoded = any_shape(*type.item, entry.value, inner);
      if (!decoded && !refused_below(inner)) decoded = zero_of(*type.item);
      if (decoded) out.set(entry.key, std::move(*decoded));
    }
    return out;
  }

  /// Without comments and styles, as it comes out of Go.
  static Value plain(const Value& value) {
    if (value.is_map()) {
      Value out = Value::map();
      for (const Entry& entry : value.entries()) out.set(entry.key, plain(entry.value));
      return out;
    }
    if (value.is_list()) {
      Value out = Value::list();
      for (const Value& item : value.items()) out.append(plain(item));
      return out;
    }
    switch (value.kind()) {
      case Kind::String:
        return Value::string(value.text());
      case Kind::Bool:
        return Value::boolean(value.as_bool().value_or(false));
      case Kind::Int:
        if (value.as_int()) return Value::integer(*value.as_int());
        return value;
      case Kind::Float:
        return Value::floating(value.as_float().value_or(0));
      default:
        return value;
    }
  }

  bool expect(const Value& value, Kind kind, const std::string& path) {
    if (value.kind() == kind) return true;
    report("wrong-type", path,
           fmt::format("a {} stands where a {} is expected", text::to_string(value.kind()),
                       text::to_string(kind)),
           value.place());
    return false;
  }

  void unknown(const StructType& type, const Entry& entry, const std::string& path) {
    const auto later = std::find_if(type.fields.begin(), type.fields.end(),
                                    [&](const Field& f) { return f.key == entry.key; });
    std::string message = later != type.fields.end()
                              ? fmt::format("Talos 1.{} does not have this key", minor_)
                              : "unknown key" + did_you_mean(entry.key, type.keys(minor_));
    report("unknown-key", path, std::move(message), entry.key_place);
  }

  bool refused_below(const std::string& path) const {
    return std::any_of(problems_.begin(), problems_.end(), [&](const ConfigProblem& problem) {
      return problem.path.starts_with(prefix_ + path);
    });
  }

  void report(std::string code, const std::string& path, std::string message, text::Place place) {
    problems_.push_back({std::move(code), prefix_ + path, std::move(message), place});
  }

  unsigned minor_;
  std::string prefix_;
  ConfigProblems& problems_;
};

Value sorted(const Value& value) {
  if (value.is_list()) {
    Value out = Value::list();
    for (const Value& item : value.items()) out.append(sorted(item));
    return out;
  }
  if (!value.is_map()) return value;
  std::vector<const Entry*> entries;
  for (const Entry& entry : value.entries()) entries.push_back(&entry);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry* a, const Entry* b) { return go_key_less(a->key, b->key); });
  Value out = Value::map();
  for (const Entry* entry : entries) out.set(entry->key, sorted(entry->value));
  return out;
}

Value encode(const Type& type, const Value& value, unsigned minor);

Value encode_struct(const StructType& type, const Value& value, unsigned minor) {
  Value out = Value::map();
  for (const Field& field : type.fields) {
    if (type.find(field.key, minor) != &field) continue;
    const Value* found = value.find(field.key);
    if (found == nullptr) {
      if (!field.always) continue;
      out.set(field.key, field.type.shape == Shape::Struct && !field.type.pointer
                             ? encode_struct(*field.type.fields, Value::map(), minor)
                             : zero_of(field.type));
      continue;
    }
    const bool collection = field.type.shape == Shape::List || field.type.shape == Shape::Map ||
                            field.type.shape == Shape::Any;
    if (!field.always && collection && found->size() == 0) continue;
    Value encoded = encode(field.type, *found, minor);
    // Registries without a mirror left: a struct that is all zero is left out.
    if (!field.always && field.type.shape == Shape::Struct && !field.type.pointer &&
        encoded.size() == 0)
      continue;
    out.set(field.key, std::move(encoded));
  }
  return out;
}

Value encode(const Type& type, const Value& value, unsigned minor) {
  if (value.is_null()) return value;
  switch (type.shape) {
    case Shape::Struct:
      return encode_struct(*type.fields, value, minor);
    case Shape::List: {
      Value out = Value::list();
      for (const Value& item : value.items()) out.append(encode(*type.item, item, minor));
      return out;
    }
    case Shape::Map: {
      Value out = Value::map();
      const Value in_order = sorted(value);
      for (const Entry& entry : in_order.entries())
        out.set(entry.key, encode(*type.item, entry.value, minor));
      return out;
    }
    case Shape::Any:
      return sorted(value);
    default: {
      Value out = value;
      out.set_style(type.shape == Shape::Mode ? text::Style::Plain : text::Style::Any);
      return out;
    }
  }
}

std::string text_at(const Value& document, std::string_view key) {
  const Value* value = document.find(key);
  return value != nullptr && value->is_scalar() ? value->text() : std::string{};
}

/// As Talos does when it reads them.
void trim_inline_manifests(Value& config) {
  Value* manifests = config.find({"cluster", "inlineManifests"});
  if (manifests == nullptr) return;
  for (Value& manifest : manifests->items()) {
    const Value* contents = manifest.find("contents");
    if (contents == nullptr) continue;
    const auto from = contents->text().find_first_not_of("\t\n\v\f\r");
    manifest.set("contents",
                 Value::string(from == std::string::npos ? "" : contents->text().substr(from)));
  }
}

ConfigDocument decode_main(const Value& document, unsigned minor, ConfigProblems& problems) {
  ConfigDocument out;
  out.place = document.place();
  const auto known =
      std::count_if(document.entries().begin(), document.entries().end(), [&](const Entry& entry) {
        return entry.key != "version" && main_document().find(entry.key, minor) != nullptr;
      });
  if (known == 0) {
    problems.push_back({"missing-kind", "",
                        "this is neither a machine configuration (no `machine` and no `cluster`) "
                        "nor a document with a kind",
                        document.place()});
    return out;
  }
  out.value = Decoder{minor, "", problems}.structure(main_document(), document, "");
  trim_inline_manifests(out.value);
  return out;
}

}  // namespace

std::string to_string(const ConfigProblem& problem, std::string_view name) {
  std::string where{name};
  if (problem.place.line != 0)
    where += fmt::format(":{}:{}", problem.place.line, problem.place.column);
  if (problem.path.empty()) return fmt::format("{}: {}", where, problem.message);
  return fmt::format("{}: {}: {}", where, problem.path, problem.message);
}

const StructType& ConfigDocument::fields() const {
  return type != nullptr ? *type->fields : main_document();
}

std::string ConfigDocument::name() const {
  return type != nullptr && type->named ? text_at(value, "name") : std::string{};
}

std::string ConfigDocument::id() const {
  if (type == nullptr) return "v1alpha1";
  return type->named ? fmt::format("v1alpha1/{}/{}", type->kind, name()) : "v1alpha1/" + type->kind;
}

ConfigDocument decode_document(const Value& document, unsigned minor, ConfigProblems& problems) {
  ConfigDocument out;
  out.place = document.place();
  if (!document.is_map()) {
    problems.push_back(
        {"not-a-document", "",
         fmt::format("a document must be a map; this is a {}", text::to_string(document.kind())),
         document.place()});
    return out;
  }
  const Value* kind = document.find("kind");
  if (kind == nullptr) return decode_main(document, minor, problems);
  const std::string api = text_at(document, "apiVersion");
  const DocumentType* type = find_document_type(kind->text());
  const std::string prefix = kind->text() + ": ";
  if (api.empty()) {
    problems.push_back(
        {"missing-apiversion", kind->text(), "apiVersion is missing", document.place()});
    return out;
  }
  if (type == nullptr || api != "v1alpha1") {
    problems.push_back({"unknown-kind", "kind",
                        type == nullptr
                            ? fmt::format("no Talos has a document of this kind{}",
                                          did_you_mean(kind->text(), document_kinds(minor)))
                            : "documents have `apiVersion: v1alpha1`",
                        kind->place()});
    return out;
  }
  if (minor < type->since) {
    problems.push_back(
        {"unknown-kind", "kind",
         fmt::format("{} came with Talos 1.{}; this is for 1.{}", type->kind, type->since, minor),
         kind->place()});
    return out;
  }
  out.type = type;
  out.value = Decoder{minor, prefix, problems}.structure(*type->fields, document, "");
  return out;
}

std::vector<ConfigDocument> decode_config(const std::vector<Value>& documents, unsigned minor,
                                          ConfigProblems& problems) {
  std::vector<ConfigDocument> out;
  for (const Value& document : documents) {
    if (document.is_null()) continue;
    const std::size_t before = problems.size();
    ConfigDocument decoded = decode_document(document, minor, problems);
    const bool usable = problems.size() == before || decoded.value.size() != 0;
    if (!usable) continue;
    for (const ConfigDocument& other : out) {
      const bool links = other.type != nullptr && decoded.type != nullptr && other.type->link &&
                         decoded.type->link && other.name() == decoded.name();
      if (other.id() == decoded.id()) {
        problems.push_back(
            {"duplicate-document", decoded.id(),
             fmt::format("this document stands twice, first in line {}", other.place.line),
             decoded.place});
      } else if (links) {
        problems.push_back(
            {"conflicting-documents", decoded.id(),
             fmt::format("{} in line {} is about the same link", other.id(), other.place.line),
             decoded.place});
      }
    }
    out.push_back(std::move(decoded));
  }
  if (out.empty() && problems.empty())
    problems.push_back({"empty", "", "there is no configuration in it", {}});
  return out;
}

Value encode_document(const ConfigDocument& document, unsigned minor) {
  return encode_struct(document.fields(), document.value, minor);
}

std::string encode_config(const std::vector<ConfigDocument>& documents, unsigned minor) {
  std::vector<Value> values;
  for (const ConfigDocument& document : documents)
    values.push_back(encode_document(document, minor));
  return text::emit_yaml_stream(values, {.indent = 4});
}

bool go_key_less(std::string_view a, std::string_view b) {
  bool digits = false;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) {
      digits = is_digit(a[i]);
      continue;
    }
    const bool a_letter = is_letter(a[i]);
    const bool b_letter = is_letter(b[i]);
    if (a_letter && b_letter) return a[i] < b[i];
    if (a_letter || b_letter) return digits ? a_letter : b_letter;
    std::uint64_t a_number = 0;
    std::uint64_t b_number = 0;
    if (a[i] == '0' || b[i] == '0') {
      for (std::size_t j = i; j-- > 0 && is_digit(a[j]);) {
        if (a[j] == '0') continue;
        a_number = b_number = 1;
        break;
      }
    }
    std::size_t a_end = i;
    std::size_t b_end = i;
    for (; a_end < a.size() && is_digit(a[a_end]); ++a_end)
      a_number = a_number * 10 + static_cast<std::uint64_t>(a[a_end] - '0');
    for (; b_end < b.size() && is_digit(b[b_end]); ++b_end)
      b_number = b_number * 10 + static_cast<std::uint64_t>(b[b_end] - '0');
    if (a_number != b_number) return a_number < b_number;
    if (a_end != b_end) return a_end < b_end;
    return a[i] < b[i];
  }
  return a.size() < b.size();
}

std::optional<UrlParts> parse_url(std::string_view text) {
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (control) return std::nullopt;
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    const auto is_hex = [&](std::size_t i) {
      return i < text.size() && std::isxdigit(static_cast<unsigned char>(text[i])) != 0;
    };
    if (!is_hex(at + 1) || !is_hex(at + 2)) return std::nullopt;
  }
  UrlParts url;
  if (const auto hash = text.find('#'); hash != std::string_view::npos) {
    url.fragment = std::string{text.substr(hash + 1)};
    text = text.substr(0, hash);
  }
  const auto colon = text.find(':');
  const auto stop = text.find_first_of("/?");
  if (colon != std::string_view::npos && (stop == std::string_view::npos || colon < stop)) {
    const std::string_view scheme = text.substr(0, colon);
    if (scheme.empty()) return std::nullopt;
    const bool good =
        is_letter(scheme.front()) && std::all_of(scheme.begin(), scheme.end(), [](char c) {
          return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
        });
    if (!good) return std::nullopt;  // "first path segment in URL cannot contain colon"
    for (const char c : scheme) url.scheme += static_cast<char>(c | 0x20);
    text = text.substr(colon + 1);
  }
  if (const auto question = text.find('?'); question != std::string_view::npos) {
    url.query = std::string{text.substr(question + 1)};
    text = text.substr(0, question);
  }
  if (text.starts_with("//")) {
    text.remove_prefix(2);
    const auto slash = std::min(text.find('/'), text.size());
    const std::string_view host = text.substr(0, slash);
    std::string_view port;
    if (host.starts_with('[')) {
      const auto close = host.find(']');
      if (close == std::string_view::npos) return std::nullopt;
      port = host.substr(close + 1);
    } else if (const auto last = host.rfind(':'); last != std::string_view::npos) {
      port = host.substr(last);
    }
    if (!port.empty() &&
        (port.front() != ':' || !std::all_of(port.begin() + 1, port.end(), is_digit)))
      return std::nullopt;
    if (host.find(' ') != std::string_view::npos) return std::nullopt;
    url.host = std::string{host};
    text = text.substr(slash);
  }
  url.path = std::string{text};
  return url;
}

std::string to_string(const UrlParts& url) {
  std::string out;
  if (!url.scheme.empty()) out += url.scheme + ":";
  if (!url.host.empty() || (!url.scheme.empty() && url.path.starts_with('/'))) out += "//";
  out += url.host + url.path;
  if (!url.query.empty()) out += "?" + url.query;
  if (!url.fragment.empty()) out += "#" + url.fragment;
  return out;
}

}  // namespace rocca::talos
