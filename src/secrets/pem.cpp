#include "secrets/pem.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::secrets {

namespace {

constexpr std::string_view begin_mark = "-----BEGIN ";
constexpr std::string_view end_mark = "-----END ";
constexpr std::string_view dashes = "-----";

[[noreturn]] void refuse(std::string_view what, const std::string& why) {
  throw Error(Fault::Usage, fmt::format("{} is not valid PEM: {}", what, why));
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

std::vector<PemBlock> parse_pem(std::string_view text, std::string_view what) {
  std::vector<PemBlock> blocks;
  while (!trim(text).empty()) {
    const std::string_view first = next_line(text);
    if (trim(first).empty()) continue;
    if (!first.starts_with(begin_mark) || !first.ends_with(dashes) ||
        first.size() < begin_mark.size() + dashes.size())
      refuse(what, blocks.empty() ? "it does not begin with a -----BEGIN …----- line"
                                  : "text after its last line");
    const std::string label(
        first.substr(begin_mark.size(), first.size() - begin_mark.size() - dashes.size()));
    std::string body;
    body.reserve(text.size());
    while (true) {
      if (text.empty()) refuse(what, fmt::format("the -----END {}----- line is missing", label));
      const std::string_view line = next_line(text);
      if (line.starts_with(end_mark)) {
        if (line != fmt::format("{}{}{}", end_mark, label, dashes))
          refuse(what, fmt::format("it begins as `{}` and ends as something else", label));
        break;
      }
      body += line;
    }
    auto der = from_base64(body);
    wipe(body);
    if (!der || der->empty()) refuse(what, "the text between its marks is not base64");
    blocks.push_back({label, Secret::take(std::move(*der))});
  }
  return blocks;
}

PemBlock parse_one_pem(std::string_view text, std::string_view what) {
  auto blocks = parse_pem(text, what);
  if (blocks.empty()) refuse(what, "it is empty");
  if (blocks.size() > 1)
    refuse(what, fmt::format("it holds {} blocks where one is meant", blocks.size()));
  return std::move(blocks.front());
}

Secret to_pem(std::string_view label, std::string_view der) {
  constexpr std::size_t columns = 64;
  std::string base64 = to_base64(der);
  std::string text;
  text.reserve(base64.size() + base64.size() / columns + 2 * label.size() + 64);
  text.append(begin_mark).append(label).append(dashes).append("\n");
  for (std::size_t at = 0; at < base64.size(); at += columns)
    text.append(std::string_view(base64).substr(at, columns)).append("\n");
  text.append(end_mark).append(label).append(dashes).append("\n");
  wipe(base64);
  return Secret::take(std::move(text));
}

}  // namespace rocca::secrets
