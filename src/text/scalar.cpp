#include "text/scalar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace rocca::text {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) noexcept {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string without_underscores(std::string_view text) {
  std::string plain{text};
  std::erase(plain, '_');
  return plain;
}

std::optional<std::uint64_t> digits(std::string_view text, int base) noexcept {
  // from_chars would take a sign that Go refuses here.
  if (text.empty() || text.front() == '-' || text.front() == '+') return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// strconv.ParseInt with a given base: a sign and digits, in the range of int64.
std::optional<Integer> signed_digits(std::string_view text, int base) noexcept {
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const auto value = digits(text, base);
  constexpr auto most = std::uint64_t{1} << 63;
  if (!value || *value > most || (*value == most && !negative)) return std::nullopt;
  return Integer{negative && *value != 0, *value};
}

struct Based {
  std::string_view rest;
  int base;
};

/// Go's base 0: the prefix decides, and a lone leading 0 means octal.
Based split_base(std::string_view text) noexcept {
  if (text.size() >= 2 && text[0] == '0') {
    switch (text[1]) {
      case 'x':
      case 'X':
        return {text.substr(2), 16};
      case 'b':
      case 'B':
        return {text.substr(2), 2};
      case 'o':
      case 'O':
        return {text.substr(2), 8};
      default:
        return {text.substr(1), 8};
    }
  }
  return {text, 10};
}

/// ^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$
bool looks_like_float(std::string_view text) noexcept {
  std::size_t at = 0;
  const auto run = [&] {
    const auto start = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - start;
  };
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  const auto whole = run();
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (run() == 0 && whole == 0) return false;
  } else if (whole == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (run() == 0) return false;
  }
  return at == text.size();
}

/// A decimal number; nothing when it is beyond the range of a double (Go then leaves the text a
/// string).
std::optional<double> decimal(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // from_chars does not say on which side; strtod does, and Go takes a number that is too small
    // as 0.
    value = std::strtod(std::string{text}.c_str(), nullptr);
    if (std::isinf(value)) return std::nullopt;
  } else if (error != std::errc{}) {
    return std::nullopt;
  }
  return value;
}

/// Go's rule for underscores in a float literal without a base prefix: each stands between two
/// digits.
bool underscores_fit(std::string_view text) noexcept {
  char before = '^';
  for (const char c : text) {
    if (is_digit(c)) {
      before = '0';
    } else if (c == '_') {
      if (before != '0') return false;
      before = '_';
    } else {
      if (before == '_') return false;
      before = '!';
    }
  }
  return before != '_';
}

struct Moment {
  unsigned year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  std::string fraction;  // digits, at most nine
  bool negative_offset = false;
  unsigned offset = 0;  // minutes
};

/// Reads a timestamp in the four layouts that go-yaml tries with Go's time.Parse, whose fields may
/// be one digit.
class TimestampReader {
 public:
  explicit TimestampReader(std::string_view text) : text_(text) {}

  std::optional<Moment> read() {
    if (text_.size() < 5 || text_[4] != '-') return std::nullopt;
    if (!std::all_of(text_.begin(), text_.begin() + 4, is_digit)) return std::nullopt;
    std::from_chars(text_.data(), text_.data() + 4, moment_.year);
    at_ = 5;
    if (!number(moment_.month) || !take('-') || !number(moment_.day)) return std::nullopt;
    if (moment_.month < 1 || moment_.month > 12 || moment_.day < 1 || moment_.day > days())
      return std::nullopt;
    if (at_ == text_.size()) return moment_;
    const char separator = text_[at_++];
    if (separator != 'T' && separator != 't' && separator != ' ') return std::nullopt;
    while (separator == ' ' && take(' ')) {  // a blank in a layout stands for any number of them
    }
    if (!number(moment_.hour) || !take(':') || !number(moment_.minute) || !take(':') ||
        !number(moment_.second))
      return std::nullopt;
    if (moment_.hour > 23 || moment_.minute > 59 || moment_.second > 59) return std::nullopt;
    fraction();
    if (separator != ' ' && !zone()) return std::nullopt;
    if (at_ != text_.size()) return std::nullopt;
    return moment_;
  }

 private:
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool number(unsigned& value) {
    if (at_ >= text_.size() || !is_digit(text_[at_])) return false;
    value = static_cast<unsigned>(text_[at_++] - '0');
    if (at_ < text_.size() && is_digit(text_[at_]))
      value = value * 10 + static_cast<unsigned>(text_[at_++] - '0');
    return true;
  }
  void fraction() {
    if (at_ + 1 >= text_.size() || (text_[at_] != '.' && text_[at_] != ',') ||
        !is_digit(text_[at_ + 1]))
      return;
    for (++at_; at_ < text_.size() && is_digit(text_[at_]); ++at_)
      if (moment_.fraction.size() < 9) moment_.fraction += text_[at_];
    while (!moment_.fraction.empty() && moment_.fraction.back() == '0') moment_.fraction.pop_back();
  }
  bool zone() {
    if (take('Z')) return true;
    if (text_.size() - at_ < 6) return false;
    const char sign = text_[at_];
    if ((sign != '+' && sign != '-') || text_[at_ + 3] != ':') return false;
    const auto two = [&](std::size_t from) -> std::optional<unsigned> {
      if (!is_digit(text_[from]) || !is_digit(text_[from + 1])) return std::nullopt;
      return static_cast<unsigned>(text_[from] - '0') * 10 +
             static_cast<unsigned>(text_[from + 1] - '0');
    };
    const auto hours = two(at_ + 1);
    const auto minutes = two(at_ + 4);
    // Go lets people write an offset of 24 hours or 60 minutes.
    if (!hours || !minutes || *hours > 24 || *minutes > 60) return false;
    moment_.negative_offset = sign == '-';
    moment_.offset = *hours * 60 + *minutes;
    at_ += 6;
    return true;
  }
  unsigned days() const {
    static constexpr std::array<unsigned, 13> most{0,  31, 28, 31, 30, 31, 30,
                                                   31, 31, 30, 31, 30, 31};
    const bool leap = moment_.year % 4 == 0 && (moment_.year % 100 != 0 || moment_.year % 400 == 0);
    return moment_.month == 2 && leap ? 29 : most[moment_.month];
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Moment moment_;
};

}  // namespace

std::optional<bool> read_bool(std::string_view text) noexcept {
  if (one_of(text, {"true", "True", "TRUE"})) return true;
  if (one_of(text, {"false", "False", "FALSE"})) return false;
  return std::nullopt;
}

std::optional<Integer> read_integer(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (!is_digit(text.front()) && text.front() != '-' && text.front() != '+') return std::nullopt;
  const std::string plain = without_underscores(text);
  std::string_view rest = plain;
  bool is_signed = false;
  bool negative = false;
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) {
    is_signed = true;
    negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  const auto [number, base] = split_base(rest);
  if (const auto value = digits(number, base)) {
    constexpr auto most = std::uint64_t{1} << 63;
    if (*value < most || (*value == most && negative))
      return Integer{negative && *value != 0, *value};
    if (!is_signed) return Integer{false, *value};  // ParseUint takes no sign
  }
  // What is left of go-yaml's own prefixes: `0b-1` and `0o-7` are numbers to it.
  const std::string_view all = plain;
  if (all.starts_with("0b")) return signed_digits(all.substr(2), 2);
  if (all.starts_with("-0b")) return signed_digits("-" + std::string{all.substr(3)}, 2);
  if (all.starts_with("0o")) return signed_digits(all.substr(2), 8);
  if (all.starts_with("-0o")) return signed_digits("-" + std::string{all.substr(3)}, 8);
  return std::nullopt;
}

std::optional<double> read_float(std::string_view text) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (one_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
  if (one_of(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"})) return infinity;
  if (one_of(text, {"-.inf", "-.Inf", "-.INF"})) return -infinity;
  if (text.empty()) return std::nullopt;
  if (text.front() == '.') {
    // go-yaml hands these to ParseFloat as they are, so Go's own rule for underscores holds.
    if (!underscores_fit(text)) return std::nullopt;
  } else if (!is_digit(text.front()) && text.front() != '-' && text.front() != '+') {
    return std::nullopt;
  }
  const std::string plain = without_underscores(text);
  if (!looks_like_float(plain) || read_integer(text)) return std::nullopt;
  return decimal(plain);
}

std::optional<std::string> normal_timestamp(std::string_view text) {
  const auto moment = TimestampReader{text}.read();
  if (!moment) return std::nullopt;
  std::string out = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", moment->year, moment->month,
                                moment->day, moment->hour, moment->minute, moment->second);
  if (!moment->fraction.empty()) out += "." + moment->fraction;
  if (moment->offset == 0) return out + "Z";
  return out + fmt::format("{}{:02}:{:02}", moment->negative_offset ? '-' : '+',
                           moment->offset / 60, moment->offset % 60);
}

Kind resolve_plain(std::string_view text) {
  if (one_of(text, {"", "~", "null", "Null", "NULL"})) return Kind::Null;
  if (read_bool(text)) return Kind::Bool;
  const char first = text.front();
  if (!is_digit(first) && first != '-' && first != '+' && first != '.') return Kind::String;
  if (TimestampReader{text}.read()) return Kind::Timestamp;
  if (read_integer(text)) return Kind::Int;
  if (read_float(text)) return Kind::Float;
  return Kind::String;
}

std::string float_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  std::array<char, 64> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool is_misread_elsewhere(std::string_view text) {
  if (text.empty()) return false;
  if (one_of(text, {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO",
                    "off", "Off", "OFF"}))
    return true;
  // Base 60: ^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$
  std::size_t at = text[0] == '-' || text[0] == '+' ? 1 : 0;
  if (at >= text.size() || !is_digit(text[at])) return false;
  while (at < text.size() && (is_digit(text[at]) || text[at] == '_')) ++at;
  bool parts = false;
  while (at < text.size() && text[at] == ':') {
    const auto start = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    if (at == start || at - start > 2 || (at - start == 2 && text[start] > '5')) return false;
    parts = true;
  }
  if (at < text.size() && text[at] == '.')
    for (++at; at < text.size() && (is_digit(text[at]) || text[at] == '_');) ++at;
  return parts && at == text.size();
}

}  // namespace rocca::text
