#include "secrets/pem_cleanup.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace rocca::secrets {

namespace {

constexpr std::string_view begin_mark = "-----BEGIN ";
constexpr std::string_view end_mark = "-----END ";
constexpr std::string_view dashes = "-----";
constexpr std::size_t columns = 64;
constexpr int layers_limit = 3;

[[noreturn]] void refuse(std::string_view what, const std::string& why,
                         const std::string& hint = "") {
  Error error(Fault::Usage, fmt::format("{}: {}", what, why));
  if (!hint.empty()) error.hint(hint);
  throw error;
}

bool is_white(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

std::string without_white(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  std::copy_if(text.begin(), text.end(), std::back_inserter(result),
               [](char c) { return !is_white(c); });
  return result;
}

/// Base64 as it is found in the wild: any alphabet, with or without padding.
std::optional<std::string> decode_loosely(std::string text) {
  for (char& c : text) {
    if (c == '-') c = '+';
    if (c == '_') c = '/';
  }
  const std::size_t end = text.find_last_not_of('=');
  if (end == std::string::npos || text.size() - end - 1 > 2) return std::nullopt;
  text.resize(end + 1);
  auto bytes = from_base64(text, Padding::None);
  wipe(text);
  return bytes;
}

class Mender {
 public:
  Mender(std::string_view text, std::string_view what) : text_(text), what_(what) {}
  ~Mender() { wipe(text_); }

  void strip_quotes() {
    const std::string_view inner = trim(text_);
    if (inner.size() < 2 || inner.front() != inner.back() ||
        (inner.front() != '"' && inner.front() != '\''))
      return;
    replace(std::string(inner.substr(1, inner.size() - 2)), "quotes around it");
  }
  void expand_literals() {
    if (text_.find("\\n") == std::string::npos && text_.find("\\r") == std::string::npos) return;
    replace(replace_all(replace_all(text_, "\\r", ""), "\\n", "\n"), "literal \\n");
  }
  void unify_line_ends() {
    if (text_.find('\r') == std::string::npos) return;
    replace(replace_all(replace_all(text_, "\r\n", "\n"), "\r", "\n"), "CRLF line ends");
  }
  void replace(std::string text, const char* done) {
    wipe(text_);
    text_ = std::move(text);
    if (std::find(done_.begin(), done_.end(), done) == done_.end()) done_.emplace_back(done);
  }
  void mended(const char* done) { done_.emplace_back(done); }

  const std::string& text() const { return text_; }
  std::string_view what() const { return what_; }
  std::vector<std::string> done() && { return std::move(done_); }

 private:
  std::string text_;
  std::string_view what_;
  std::vector<std::string> done_;
};

std::size_t line_of(std::string_view text, std::size_t at) {
  return 1 + static_cast<std::size_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

/// One block, written anew; moves `text` behind it.
std::string mend_block(std::string_view whole, std::string_view& text, std::string_view what) {
  const std::size_t line = line_of(whole, static_cast<std::size_t>(text.data() - whole.data()));
  const std::size_t label_end = text.find(dashes, begin_mark.size());
  if (label_end == std::string_view::npos || label_end > begin_mark.size() + 64)
    refuse(what, fmt::format("the -----BEGIN line (line {}) does not end in five dashes", line));
  const std::string label(text.substr(begin_mark.size(), label_end - begin_mark.size()));
  std::string_view body = text.substr(label_end + dashes.size());
  const std::size_t end = body.find(end_mark);
  if (end == std::string_view::npos)
    refuse(what, fmt::format("the block `{}` (line {}) has no -----END line: it was cut off", label,
                             line));
  std::string_view rest = body.substr(end + end_mark.size());
  if (!rest.starts_with(label + std::string(dashes)))
    refuse(what, fmt::format("the block begins as `{}` (line {}) and ends as something else", label,
                             line));
  body = body.substr(0, end);
  text = rest.substr(label.size() + dashes.size());

  std::string base64 = without_white(body);
  const auto odd = std::find_if(base64.begin(), base64.end(), [](char c) {
    return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '+' || c == '/' || c == '=');
  });
  if (odd != base64.end()) {
    const std::size_t at = static_cast<std::size_t>(body.data() - whole.data()) + body.find(*odd);
    const std::string shown = *odd >= 0x21 && *odd <= 0x7e
                                  ? fmt::format("`{}`", *odd)
                                  : fmt::format("byte {:#04x}", static_cast<unsigned char>(*odd));
    wipe(base64);
    refuse(what, fmt::format("line {} of the block `{}` holds {}, which is no base64",
                             line_of(whole, at), label, shown));
  }
  const auto bytes = decode_loosely(base64);
  wipe(base64);
  if (!bytes || bytes->empty())
    refuse(what,
           fmt::format("the block `{}` (line {}) is not complete base64: characters are missing",
                       label, line));
  std::string canonical = to_base64(*bytes);
  std::string result = fmt::format("{}{}{}\n", begin_mark, label, dashes);
  for (std::size_t at = 0; at < canonical.size(); at += columns)
    result += canonical.substr(at, columns) + "\n";
  wipe(canonical);
  return result + fmt::format("{}{}{}\n", end_mark, label, dashes);
}

}  // namespace

Cleaned clean_pem(std::string_view text, std::string_view what) {
  if (trim(text).empty()) refuse(what, "it is empty");
  Mender mender(text, what);
  mender.strip_quotes();
  mender.expand_literals();
  mender.unify_line_ends();
  for (int layer = 0; mender.text().find(begin_mark) == std::string::npos; ++layer) {
    const auto inner =
        layer < layers_limit ? decode_loosely(without_white(mender.text())) : std::nullopt;
    if (!inner || inner->empty())
      refuse(what, layer == 0 ? "it is neither PEM (`-----BEGIN …`) nor base64 of it"
                              : "it is base64, but of something that is no PEM");
    mender.replace(*inner, layer == 0 ? "base64 around it" : "base64 around base64");
    mender.expand_literals();
    mender.unify_line_ends();
  }
  const std::string_view whole = mender.text();
  std::string result;
  result.reserve(2 * whole.size());
  std::string_view rest = whole;
  while (!trim(rest).empty()) {
    const std::size_t begin = rest.find(begin_mark);
    if (begin == std::string_view::npos || !trim(rest.substr(0, begin)).empty()) {
      const std::size_t line =
          line_of(whole, static_cast<std::size_t>(trim(rest).data() - whole.data()));
      refuse(what, fmt::format("line {} is text outside of the PEM blocks", line));
    }
    rest.remove_prefix(begin);
    result += mend_block(whole, rest, what);
  }
  if (result != whole) mender.mended("line breaks and blanks");
  return {Secret::take(std::move(result)), std::move(mender).done()};
}

Cleaned clean_base64(std::string_view text, std::string_view what, std::size_t size) {
  if (trim(text).empty()) refuse(what, "it is empty");
  Mender mender(text, what);
  mender.strip_quotes();
  mender.expand_literals();
  if (std::string bare = without_white(mender.text()); bare != mender.text())
    mender.replace(std::move(bare), "white space");
  auto bytes = decode_loosely(mender.text());
  if (!bytes) refuse(what, "it is not base64");
  if (size != 0 && bytes->size() != size) {
    const auto inner = decode_loosely(without_white(*bytes));
    if (!inner || inner->size() != size)
      refuse(what, fmt::format("it holds {} bytes where {} are needed", bytes->size(), size));
    bytes = inner;
    mender.mended("base64 around base64");
  } else if (to_base64(*bytes) != mender.text()) {
    mender.mended("padding or alphabet");
  }
  return {Secret::take(to_base64(*bytes)), std::move(mender).done()};
}

Cleaned clean_line(std::string_view text, std::string_view what) {
  const std::string_view line = trim(text);
  if (line.empty()) refuse(what, "it is empty");
  const auto wrong = std::find_if(line.begin(), line.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (wrong != line.end())
    refuse(what,
           fmt::format("it is one line, and {} stands at its place {}",
                       *wrong == '\n' || *wrong == '\r' ? "a line break" : "a control character",
                       wrong - line.begin() + 1));
  Cleaned cleaned{Secret{line}, {}};
  if (line.size() != text.size()) cleaned.mended.emplace_back("blanks or line breaks around it");
  return cleaned;
}

}  // namespace rocca::secrets
