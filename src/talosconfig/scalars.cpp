#include "talosconfig/scalars.hpp"

#include "base/address.hpp"
#include "talosconfig/codec.hpp"
#include "talosconfig/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace rocca::talos {

using text::Kind;
using text::Value;

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

struct Unit {
  std::string_view name;
  double scale;
};

constexpr std::array<Unit, 8> duration_units{{{"ns", 1},
                                              {"us", 1e3},
                                              {"µs", 1e3},
                                              {"μs", 1e3},
                                              {"ms", 1e6},
                                              {"s", 1e9},
                                              {"m", 60e9},
                                              {"h", 3600e9}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Digits with at most one point, from the front; the number and how long it was.
std::optional<std::pair<double, std::size_t>> leading_number(std::string_view text) {
  std::size_t at = 0;
  bool digits = false;
  while (at < text.size() && (is_digit(text[at]) || text[at] == '.' || text[at] == ',')) {
    digits = digits || is_digit(text[at]);
    ++at;
  }
  if (!digits) return std::nullopt;
  std::string number{text.substr(0, at)};
  number.erase(std::remove(number.begin(), number.end(), ','), number.end());
  if (std::count(number.begin(), number.end(), '.') > 1) return std::nullopt;
  return std::pair{std::stod(number), at};
}

bool is_base64(std::string_view text) {
  std::string clean;
  for (const char c : text)
    if (c != '\n' && c != '\r') clean += c;
  if (clean.size() % 4 != 0) return false;
  std::size_t padding = 0;
  for (const char c : clean) {
    if (c == '=') {
      ++padding;
      continue;
    }
    if (padding != 0) return false;
    const bool known =
        (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || is_digit(c) || c == '+' || c == '/';
    if (!known) return false;
  }
  return padding <= 2;
}

/// What humanize.Bytes prints for a whole number of thousands, if it loses nothing.
std::optional<std::string> short_bytes(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> units{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes % 1000 != 0) return std::nullopt;
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  value = std::floor(value * 10 + 0.5) / 10;
  std::string text = value < 10 && bytes >= 10 ? fmt::format("{:.1f} {}", value, units[unit])
                                               : fmt::format("{:.0f} {}", value, units[unit]);
  if (human_bytes(text) != bytes) return std::nullopt;
  return text;
}

std::optional<std::string> address_port(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::parse(host);
  unsigned port = 0;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (!address || address->is_v4() == bracketed || failed != std::errc{} ||
      end != digits.data() + digits.size() || port > 65535)
    return std::nullopt;
  return std::string{text};
}

std::optional<std::string> hardware(std::string_view text) {
  std::string out;
  std::size_t digits = 0;
  for (const char c : lower(text)) {
    if (c == ':' || c == '-') {
      if (digits == 0 || digits % 2 != 0) return std::nullopt;
      out += ':';
    } else if (is_digit(c) || (c >= 'a' && c <= 'f')) {
      out += c;
      ++digits;
    } else {
      return std::nullopt;
    }
  }
  if (digits == 0 || digits % 2 != 0) return std::nullopt;
  return out;
}

std::optional<Value> ports(const Value& value) {
  const auto one = [](std::string_view text) -> std::optional<unsigned> {
    unsigned port = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (text.empty() || failed != std::errc{} || end != text.data() + text.size() || port > 65535)
      return std::nullopt;
    return port;
  };
  const std::string& text = value.text();
  const auto dash = text.find('-');
  if (dash == std::string::npos) {
    if (const auto port = one(text)) return Value::integer(*port);
    return std::nullopt;
  }
  const auto low = one(std::string_view{text}.substr(0, dash));
  const auto high = one(std::string_view{text}.substr(dash + 1));
  if (!low || !high) return std::nullopt;
  return Value::string(text);
}

ReadScalar refused(std::string why) {
  return {Value::null(), std::move(why)};
}

ReadScalar wrong(const Value& value, std::string_view wanted) {
  return refused(
      fmt::format("a {} stands where {} is expected", text::to_string(value.kind()), wanted));
}

ReadScalar read_bool(const Value& value) {
  if (const auto known = value.as_bool()) return {Value::boolean(*known), {}};
  if (value.is_string()) {  // go-yaml still takes the words of YAML 1.1 where a bool is wanted
    const std::string word = lower(value.text());
    if (word == "y" || word == "yes" || word == "on") return {Value::boolean(true), {}};
    if (word == "n" || word == "no" || word == "off") return {Value::boolean(false), {}};
  }
  return wrong(value, "true or false");
}

ReadScalar read_integer(const Type& type, const Value& value) {
  std::optional<std::int64_t> number = value.as_int();
  if (!number && value.kind() == Kind::Float) {
    if (const auto real = value.as_float(); real && std::floor(*real) == *real)
      number = static_cast<std::int64_t>(*real);
  }
  if (!number && !type.is_signed && type.bits == 64 && value.as_uint())
    return {Value::unsigned_integer(*value.as_uint()), {}};
  if (!number) return wrong(value, "a whole number");
  if (!type.is_signed && *number < 0) return refused("the number may not be negative");
  if (!type.is_signed && type.bits < 64 && *number >= (std::int64_t{1} << type.bits))
    return refused(
        fmt::format("the number may not be over {}", (std::int64_t{1} << type.bits) - 1));
  return {Value::integer(*number), {}};
}

ReadScalar read_mode(const Value& value) {
  const auto number = value.as_int();
  if (!number || *number < 0 || *number > std::numeric_limits<std::uint32_t>::max())
    return wrong(value, "file permissions such as 0o644");
  return {Value::scalar(Kind::Int, fmt::format("0o{:o}", *number), text::Style::Plain), {}};
}

ReadScalar read_word(const Type& type, const Value& value) {
  // Unquoted `off` is a word to go-yaml 3; a reader of YAML 1.1 before it has made `false` of it.
  const std::string& word = value.text();
  if (value.kind() != Kind::Bool)
    for (const std::string& known : type.words)
      if (known != "-" && lower(known) == lower(word)) return {Value::string(known), {}};
  std::string list;
  for (const std::string& known : type.words) {
    if (known == "-") continue;
    if (list.size() > 60) {
      list += ", …";
      break;
    }
    list += (list.empty() ? "" : ", ") + known;
  }
  return refused(fmt::format("not one of {}", list));
}

ReadScalar from(std::optional<std::string> text, std::string_view wanted) {
  if (!text) return refused(fmt::format("this is not {}", wanted));
  return {Value::string(std::move(*text)), {}};
}

ReadScalar read_text_shape(const Type& type, const Value& value) {
  const std::string& text = value.text();
  const bool may_be_secret = type.shape == Shape::Url || type.shape == Shape::AddressPort;
  if (may_be_secret && text == secret_stand_in) return {Value::string(text), {}};
  switch (type.shape) {
    case Shape::Duration:
      if (!value.is_string()) return wrong(value, "a duration such as 2m or 10s");
      return from(go_duration(text), "a duration such as 2m or 10s");
    case Shape::Url: {
      const auto url = parse_url(text);
      if (!url) return refused("this is not a URL");
      return {Value::string(to_string(*url)), {}};
    }
    case Shape::Prefix: {
      const auto cidr = Cidr::parse(text);
      if (!cidr) return refused("this is not an address with a prefix length");
      return {Value::string(to_string(*cidr)), {}};
    }
    case Shape::Address: {
      const auto address = IpAddress::parse(text);
      if (!address) return refused("this is not an IP address");
      return {Value::string(to_string(*address)), {}};
    }
    case Shape::AddressPort:
      return from(address_port(text), "an address with a port");
    case Shape::Hardware:
      return from(hardware(text), "a hardware address");
    case Shape::Base64:
      // Talos lets what it redacts itself pass; whoever applies it is in for a surprise.
      if (text != "******" && !is_base64(text)) return refused("this is not base64");
      return {Value::string(text), {}};
    case Shape::Size:
    case Shape::MaxSize: {
      std::string_view rest = text;
      if (rest.starts_with('-')) rest.remove_prefix(1);
      if (type.shape == Shape::MaxSize && rest.ends_with('%')) {
        const auto number = leading_number(rest.substr(0, rest.size() - 1));
        if (!number || number->first > 100) return refused("this is not a part of a hundred");
      } else if (!human_bytes(rest)) {
        return refused("this is not a size such as 10GiB");
      }
      return {Value::string(text), {}};
    }
    case Shape::DiskSize: {
      const auto bytes = human_bytes(text);
      if (!bytes) return refused("this is not a size such as 10GiB");
      if (auto shorter = short_bytes(*bytes)) return {Value::string(std::move(*shorter)), {}};
      return {Value::unsigned_integer(*bytes), {}};
    }
    case Shape::SizeMatch: {
      std::string_view rest = trimmed(text);
      for (const std::string_view op : {">=", "<=", "==", ">", "<"}) {
        if (!rest.starts_with(op)) continue;
        rest.remove_prefix(op.size());
        break;
      }
      if (!human_bytes(trimmed(rest))) return refused("this is not a size with a comparison");
      return {Value::string(std::string{trimmed(text)}), {}};
    }
    default:
      return {Value::string(text), {}};
  }
}

}  // namespace

std::optional<std::int64_t> go_duration_nanoseconds(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (text == "0") return 0;
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const auto number = leading_number(text);
    if (!number || text.substr(0, number->second).find(',') != std::string_view::npos)
      return std::nullopt;
    text.remove_prefix(number->second);
    std::size_t end = 0;
    while (end < text.size() && !is_digit(text[end]) && text[end] != '.') ++end;
    const std::string_view name = text.substr(0, end);
    const auto unit = std::find_if(duration_units.begin(), duration_units.end(),
                                   [&](const Unit& u) { return u.name == name; });
    if (unit == duration_units.end()) return std::nullopt;
    sum += number->first * unit->scale;
    text.remove_prefix(end);
  }
  if (sum > 9.2e18) return std::nullopt;
  const auto nanoseconds = static_cast<std::int64_t>(std::llround(sum));
  return negative ? -nanoseconds : nanoseconds;
}

std::optional<std::string> go_duration(std::string_view text) {
  const auto parsed = go_duration_nanoseconds(text);
  if (!parsed) return std::nullopt;
  const std::string sign = *parsed < 0 ? "-" : "";
  const std::int64_t ns = std::abs(*parsed);
  const auto with_fraction = [](std::int64_t whole, std::int64_t rest, int digits) {
    std::string out = std::to_string(whole);
    if (rest == 0) return out;
    out += fmt::format(".{:0{}}", rest, digits);
    while (out.back() == '0') out.pop_back();
    return out;
  };
  if (ns == 0) return "0s";
  if (ns < 1000) return fmt::format("{}{}ns", sign, ns);
  if (ns < 1'000'000) return sign + with_fraction(ns / 1000, ns % 1000, 3) + "µs";
  if (ns < second_ns) return sign + with_fraction(ns / 1'000'000, ns % 1'000'000, 6) + "ms";
  const std::int64_t seconds = ns / second_ns;
  std::string out = sign;
  if (seconds >= 3600) out += fmt::format("{}h", seconds / 3600);
  if (seconds >= 60) out += fmt::format("{}m", seconds / 60 % 60);
  return out + with_fraction(seconds % 60, ns % second_ns, 9) + "s";
}

std::optional<std::uint64_t> human_bytes(std::string_view text) {
  static constexpr std::array<std::string_view, 6> letters{"k", "m", "g", "t", "p", "e"};
  const auto number = leading_number(text);
  if (!number) return std::nullopt;
  std::string unit = lower(trimmed(text.substr(number->second)));
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    const auto letter = std::find(letters.begin(), letters.end(), unit.substr(0, 1));
    const std::string rest = unit.substr(1);
    if (letter == letters.end() || (rest != "" && rest != "b" && rest != "i" && rest != "ib"))
      return std::nullopt;
    const double base = rest.starts_with('i') ? 1024 : 1000;
    scale = std::pow(base, static_cast<double>(letter - letters.begin() + 1));
  }
  const double bytes = number->first * scale;
  if (bytes >= 1.8446744073709552e19) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

ReadScalar read_scalar(const Type& type, const Value& value) {
  if (value.is_null()) return {Value::null(), {}};
  if (!value.is_scalar()) {
    const bool list_of_texts = type.shape == Shape::Argument && value.is_list() &&
                               std::all_of(value.items().begin(), value.items().end(),
                                           [](const Value& item) { return item.is_scalar(); });
    if (list_of_texts) {
      Value list = Value::list();
      for (const Value& item : value.items()) list.append(Value::string(item.text()));
      return {list, {}};
    }
    return wrong(value, "a single value");
  }
  switch (type.shape) {
    case Shape::Bool:
      return read_bool(value);
    case Shape::Integer:
      return read_integer(type, value);
    case Shape::Mode:
      return read_mode(value);
    case Shape::Word:
      return read_word(type, value);
    case Shape::Port: {
      auto port = ports(value);
      if (!port) return refused("this is neither a port nor a range of ports");
      return {*port, {}};
    }
    case Shape::Text:
    case Shape::Argument:
      return {Value::string(value.text()), {}};
    default:
      if (value.text().empty()) return {Value::string(""), {}};
      return read_text_shape(type, value);
  }
}

bool is_zero(const Type& type, const Value& value) {
  switch (type.shape) {
    case Shape::Bool:
      return !value.as_bool().value_or(false);
    case Shape::Integer:
      return value.as_int() == 0;
    case Shape::Mode:
      return value.text() == "0o0";
    case Shape::Word:
      return value.text() == type.words.front();
    case Shape::DiskSize:
      return value.text() == "0 B" || value.text() == "0";
    case Shape::Duration:
      return value.text().empty() || value.text() == "0s";
    case Shape::List:
    case Shape::Map:
    case Shape::Any:
      return value.size() == 0;
    default:
      return value.is_scalar() && value.text().empty();
  }
}

Value zero_of(const Type& type) {
  if (type.pointer) return Value::null();
  switch (type.shape) {
    case Shape::Bool:
      return Value::boolean(false);
    case Shape::Integer:
    case Shape::DiskSize:
      return Value::integer(0);
    case Shape::Mode:
      return Value::scalar(Kind::Int, "0o0", text::Style::Plain);
    case Shape::Word:
      return Value::string(type.words.front());
    case Shape::Duration:
      return Value::string("0s");
    case Shape::List:
      return Value::list();
    case Shape::Map:
    case Shape::Any:
    case Shape::Struct:
      return Value::map();
    default:
      return Value::string("");
  }
}

}  // namespace rocca::talos
