#include "secrets/sops/pattern.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

namespace rocca::secrets::sops {

namespace {

re2::StringPiece piece(std::string_view text) {
  return {text.data(), text.size()};
}

re2::RE2::Options options() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  return options;
}

/// The length of the UTF-8 sequence at the beginning of `text`; 0 if it is not one.
std::size_t sequence_length(std::string_view text) {
  for (std::size_t length = 1; length <= 4 && length <= text.size(); ++length)
    if (is_utf8(text.substr(0, length))) return length;
  return 0;
}

std::string replace_invalid(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    valid += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return valid;
}

}  // namespace

struct Pattern::Compiled {
  explicit Compiled(std::string_view expression) : re(piece(expression), options()) {}
  re2::RE2 re;
};

Pattern::Pattern(std::string_view expression)
    : compiled_(std::make_shared<const Compiled>(expression)) {
  if (!compiled_->re.ok())
    throw Error(Fault::Usage, fmt::format("invalid regular expression `{}`: {}", expression,
                                          compiled_->re.error()));
}

bool Pattern::found_in(std::string_view text) const {
  if (is_utf8(text)) return re2::RE2::PartialMatch(piece(text), compiled_->re);
  const std::string valid = replace_invalid(text);
  return re2::RE2::PartialMatch(piece(valid), compiled_->re);
}

}  // namespace rocca::secrets::sops
