#include "lab/kube/schema/decode.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/schema/fields.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <set>

namespace rocca::lab::kube {

using text::Kind;
using text::Value;
using Form = Type::Form;
using Scalar = Type::Scalar;

namespace {

const char* json_word(const Value& value) {
  switch (value.kind()) {
    case Kind::Map:
      return "object";
    case Kind::List:
      return "array";
    case Kind::Bool:
      return "bool";
    case Kind::Int:
    case Kind::Float:
      return "number";
    default:
      return "string";
  }
}

std::string go_type(const Type& type) {
  switch (type.form) {
    case Form::Struct:
      return "v1." + type.name;
    case Form::Map:
      return "map[string]" + go_type(*type.element);
    case Form::List:
      return "[]" + go_type(*type.element);
    case Form::Any:
      return "interface {}";
    case Form::Scalar:
      break;
  }
  switch (type.scalar) {
    case Scalar::Int:
      return "int32";
    case Scalar::Number:
      return "float64";
    case Scalar::Bool:
      return "bool";
    case Scalar::Bytes:
      return "[]uint8";
    default:
      return "string";
  }
}

bool is_zero(const Value& value) {
  if (value.is_null()) return true;
  if (value.is_map() || value.is_list()) return value.size() == 0;
  if (value.is_string()) return value.text().empty();
  if (value.kind() == Kind::Bool) return value.as_bool() == false;
  if (value.kind() == Kind::Int) return value.as_int() == 0;
  return false;
}

class Decoder {
 public:
  Decoder(std::string root, std::vector<std::string>& unknown)
      : root_(std::move(root)), unknown_(unknown) {}

  Value read(const Type& type, const Value& in, const std::string& path) {
    if (type.custom) return in;
    switch (type.form) {
      case Form::Any:
        return in;
      case Form::Scalar:
        return scalar(type, in, path);
      case Form::Struct:
        return structure(type, in, path);
      case Form::Map: {
        if (!in.is_map()) refuse(type, in, path);
        Value out = Value::map();
        for (const text::Entry& entry : in.entries())
          out.set(entry.key, element(*type.element, entry.value, path));
        return out;
      }
      case Form::List: {
        if (!in.is_list()) refuse(type, in, path);
        Value out = Value::list();
        for (std::size_t i = 0; i < in.items().size(); ++i)
          out.append(element(*type.element, in.items()[i], fmt::format("{}[{}]", path, i)));
        return out;
      }
    }
    return in;
  }

 private:
  [[noreturn]] void refuse(const Type& type, const Value& in, const std::string& path) const {
    std::string shown;  // Go does not show list positions
    bool inside = false;
    for (const char c : path) {
      if (c == '[') inside = true;
      if (!inside) shown += c;
      if (c == ']') inside = false;
    }
    throw BadType{fmt::format("json: cannot unmarshal {} into Go struct field {}.{} of type {}",
                              json_word(in), root_, shown, go_type(type))};
  }

  Value element(const Type& type, const Value& in, const std::string& path) {
    if (!in.is_null()) return read(type, in, path);
    if (type.form == Form::Scalar && type.scalar == Scalar::String) return Value::string("");
    if (type.form == Form::Struct) return read(type, Value::map(), path);
    return in;
  }

  Value scalar(const Type& type, const Value& in, const std::string& path) const {
    switch (type.scalar) {
      case Scalar::String:
        if (!in.is_string()) refuse(type, in, path);
        return in;
      case Scalar::Int:
        if (in.kind() != Kind::Int) {
          if (in.kind() == Kind::Float && in.as_float() &&
              *in.as_float() == std::floor(*in.as_float()))
            return Value::integer(static_cast<std::int64_t>(*in.as_float()));
          refuse(type, in, path);
        }
        return Value::integer(in.as_int().value_or(0));
      case Scalar::Number:
        if (in.kind() != Kind::Int && in.kind() != Kind::Float) refuse(type, in, path);
        return in;
      case Scalar::Bool:
        if (in.kind() != Kind::Bool) refuse(type, in, path);
        return in;
      case Scalar::Quantity: {
        const auto canonical = canonical_quantity(in.text());
        if (!in.is_scalar() || !canonical)
          throw BadType{
              "quantities must match the regular expression "
              "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"};
        return Value::string(*canonical);
      }
      case Scalar::Time:
        if (!in.is_string()) refuse(type, in, path);
        if (!in.text().empty() && !is_time(in.text()))
          throw BadType{fmt::format(
              "parsing time {} as \"2006-01-02T15:04:05Z07:00\": cannot parse {} as \"2006\"",
              text::emit_json(in), text::emit_json(in))};
        return in;
      case Scalar::MicroTime:
        if (!in.is_string()) refuse(type, in, path);
        if (!in.text().empty() && !is_micro_time(in.text())) bad_micro_time(in.text());
        return in;
      case Scalar::IntOrString:
        if (in.kind() != Kind::Int && !in.is_string()) refuse(type, in, path);
        return in;
      case Scalar::Bytes:
        if (!in.is_string()) refuse(type, in, path);
        if (!from_base64(replace_all(in.text(), "\n", "")))
          throw BadType{fmt::format(
              "illegal base64 data at input byte {}",
              in.text().find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789+/=") == std::string::npos
                  ? in.text().size() / 4 * 4
                  : in.text().find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                                                "yz0123456789+/="))};
        return in;
    }
    return in;
  }

  [[noreturn]] static void bad_micro_time(const std::string& text) {
    if (!is_time(text))
      throw BadType{fmt::format(
          "parsing time \"{}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{}\" as "
          "\"2006\"",
          text, text)};
    const std::string rest = text.substr(19);
    throw BadType{fmt::format(
        "parsing time \"{}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{}\" as "
        "\".000000\"",
        text, rest)};
  }

  Value structure(const Type& type, const Value& in, const std::string& path) {
    if (!in.is_map()) refuse(type, in, path);
    Value out = Value::map();
    for (const Field& field : type.fields) {
      const Value* given = in.find(field.name);
      const std::string where = path.empty() ? field.name : path + "." + field.name;
      if (given == nullptr || given->is_null()) {
        if (field.type->form == Form::Struct && field.always && !field.pointer)
          out.set(field.name, read(*field.type, Value::map(), where));
        else if (field.always)
          out.set(field.name, zero(*field.type, field.pointer));
        continue;
      }
      Value read_back = read(*field.type, *given, where);
      const bool container = field.type->form == Form::Map || field.type->form == Form::List;
      if (!field.always && (!field.pointer || container) && !(field.type->form == Form::Struct) &&
          is_zero(read_back))
        continue;
      out.set(field.name, std::move(read_back));
    }
    for (const text::Entry& entry : in.entries())
      if (type.find(entry.key) == nullptr)
        unknown_.push_back(path.empty() ? entry.key : path + "." + entry.key);
    return out;
  }

  static Value zero(const Type& type, bool pointer) {
    if (pointer || type.form != Form::Scalar) return Value::null();
    switch (type.scalar) {
      case Scalar::Int:
      case Scalar::Number:
        return Value::integer(0);
      case Scalar::Bool:
        return Value::boolean(false);
      case Scalar::Time:
      case Scalar::MicroTime:
      case Scalar::Bytes:
        return Value::null();
      case Scalar::IntOrString:
        return Value::integer(0);
      default:
        return Value::string("");
    }
  }

  std::string root_;
  std::vector<std::string>& unknown_;
};

}  // namespace

void drop_empty_slices(const Type& type, Value& value) {
  if (value.is_list() && type.form == Form::List) {
    for (Value& item : value.items()) drop_empty_slices(*type.element, item);
    return;
  }
  if (!value.is_map()) return;
  for (text::Entry& entry : value.entries()) {
    if (type.form == Form::Map) {
      drop_empty_slices(*type.element, entry.value);
      continue;
    }
    const Field* field = type.form == Form::Struct ? type.find(entry.key) : nullptr;
    if (field == nullptr) continue;
    if (field->always && entry.value.is_list() && entry.value.size() == 0)
      entry.value = Value::null();
    else
      drop_empty_slices(*field->type, entry.value);
  }
}

Value decode(const Type& type, const Value& in, std::vector<std::string>& unknown) {
  return Decoder(type.name, unknown).read(type, in, "");
}

std::vector<std::string> misfits(const Type& type, const Value& in, const std::string& path) {
  std::vector<std::string> found;
  const auto add = [&](std::vector<std::string> more) {
    for (std::string& one : more) found.push_back(std::move(one));
  };
  const auto expected = [&](const char* what) {
    std::string shown = in.is_string() ? "\"" + in.text() + "\"" : text::emit_json(in);
    if (in.is_map() || in.is_list()) shown = in.is_map() ? "map[]" : "[]";
    found.push_back(fmt::format("{}: expected {}, got &value.valueUnstructured{{Value:{}}}", path,
                                what, shown));
  };
  if (in.is_null()) return found;
  switch (type.form) {
    case Form::Any:
      break;
    case Form::Scalar:
      switch (type.scalar) {
        case Scalar::String:
        case Scalar::Time:
        case Scalar::MicroTime:
        case Scalar::Bytes:
          if (!in.is_string()) expected("string");
          break;
        case Scalar::Int:
        case Scalar::Number:
          if (in.kind() != Kind::Int && in.kind() != Kind::Float)
            found.push_back(fmt::format("{}: expected numeric (int or float), got {}", path,
                                        in.is_string() ? "string" : json_word(in)));
          break;
        case Scalar::Bool:
          if (in.kind() != Kind::Bool) expected("boolean");
          break;
        default:
          if (in.is_map() || in.is_list()) expected("scalar");
      }
      break;
    case Form::Map:
      if (!in.is_map()) {
        expected("map");
        break;
      }
      for (const text::Entry& entry : in.entries())
        add(misfits(*type.element, entry.value, path + "." + entry.key));
      break;
    case Form::Struct:
      if (!in.is_map()) {
        expected("map");
        break;
      }
      for (const text::Entry& entry : in.entries()) {
        const Field* field = type.find(entry.key);
        if (field != nullptr)
          add(misfits(*field->type, entry.value, path + "." + entry.key));
        else if (!type.open)
          found.push_back(fmt::format("{}.{}: field not declared in schema", path, entry.key));
      }
      break;
    case Form::List:
      if (!in.is_list()) {
        expected("list");
        break;
      }
      if (type.lists != Type::Lists::Atomic) {
        std::set<std::string> seen;
        for (const Value& item : in.items()) {
          const std::string key = item_key(type, item);
          if (!seen.insert(key).second) {
            FieldSet one;
            one.children[key].member = true;
            found.push_back(
                fmt::format("{}: duplicate entries for key {}", path, paths_of(one).front()));
          }
        }
      }
      for (std::size_t i = 0; i < in.items().size(); ++i)
        add(misfits(*type.element, in.items()[i], fmt::format("{}[{}]", path, i)));
  }
  return found;
}

namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr std::array<Suffix, 6> binary{{{"Ki", 1024.0},
                                        {"Mi", 1048576.0},
                                        {"Gi", 1073741824.0},
                                        {"Ti", 1099511627776.0},
                                        {"Pi", 1125899906842624.0},
                                        {"Ei", 1152921504606846976.0}}};
constexpr std::array<Suffix, 10> decimal{{{"n", 1e-9},
                                          {"u", 1e-6},
                                          {"m", 1e-3},
                                          {"", 1},
                                          {"k", 1e3},
                                          {"M", 1e6},
                                          {"G", 1e9},
                                          {"T", 1e12},
                                          {"P", 1e15},
                                          {"E", 1e18}}};

struct Parts {
  double number = 0;
  std::string suffix;
  bool is_binary = false;
  double factor = 1;
};

std::optional<Parts> parts_of(std::string_view text) {
  const std::size_t end = text.find_first_not_of("+-0123456789.");
  Parts parts;
  const std::string number(text.substr(0, end));
  if (number.empty() || number.find_first_of("0123456789") == std::string::npos)
    return std::nullopt;
  parts.number = std::strtod(number.c_str(), nullptr);
  parts.suffix = end == std::string_view::npos ? "" : std::string(text.substr(end));
  for (const Suffix& one : binary)
    if (one.text == parts.suffix) {
      parts.is_binary = true;
      parts.factor = one.factor;
      return parts;
    }
  for (const Suffix& one : decimal)
    if (one.text == parts.suffix) {
      parts.factor = one.factor;
      return parts;
    }
  if ((parts.suffix[0] == 'e' || parts.suffix[0] == 'E') && parse_int(parts.suffix.substr(1))) {
    parts.factor = std::pow(10.0, static_cast<double>(*parse_int(parts.suffix.substr(1))));
    return parts;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> quantity_value(std::string_view text) {
  const auto parts = parts_of(text);
  if (!parts) return std::nullopt;
  return parts->number * parts->factor;
}

std::optional<std::string> canonical_quantity(std::string_view text) {
  const auto parts = parts_of(text);
  if (!parts) return std::nullopt;
  const double value = parts->number * parts->factor;
  if (value == 0) return "0";
  if (!parts->suffix.empty() && (parts->suffix[0] == 'e' || parts->suffix.size() > 2))
    return std::string(text);
  if (parts->is_binary) {
    for (auto one = binary.rbegin(); one != binary.rend(); ++one)
      if (std::fmod(value, one->factor) == 0)
        return fmt::format("{:.0f}{}", value / one->factor, one->text);
    return fmt::format("{:.0f}", value);
  }
  for (auto one = decimal.rbegin(); one != decimal.rend(); ++one) {
    const double shown = value / one->factor;
    if (std::abs(shown - std::round(shown)) < 1e-9 * std::max(1.0, std::abs(shown)) &&
        std::abs(std::round(shown)) >= 1)
      return fmt::format("{:.0f}{}", std::round(shown), one->text);
  }
  return std::string(text);
}

bool is_time(std::string_view text) {
  // 2006-01-02T15:04:05[.fraction](Z|±hh:mm)
  if (text.size() < 20) return false;
  static constexpr std::string_view form = "dddd-dd-ddTdd:dd:dd";
  for (std::size_t i = 0; i < form.size(); ++i)
    if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i]) return false;
  std::size_t at = form.size();
  if (text[at] == '.') do
      ++at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9');
  const std::string_view zone = text.substr(at);
  if (zone == "Z") return true;
  return zone.size() == 6 && (zone[0] == '+' || zone[0] == '-') && zone[3] == ':';
}

bool is_micro_time(std::string_view text) {
  if (!is_time(text) || text[19] != '.') return false;
  const std::size_t end = text.find_first_not_of("0123456789", 20);
  return end == 26;
}

}  // namespace rocca::lab::kube
