#include "cli/terminal/output_filter.hpp"

#include "base/visible.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <string_view>

namespace rocca::cli {

namespace {

constexpr char escape = '\x1b';

/// What paint(), ink() and the help write.
constexpr std::array<std::string_view, 7> colours = {"\x1b[0m",  "\x1b[1m",  "\x1b[2m", "\x1b[31m",
                                                     "\x1b[32m", "\x1b[33m", "\x1b[36m"};

enum class Match { No, Partly, Whole };

Match match(std::string_view text, std::string_view wanted) {
  if (text.starts_with(wanted)) return Match::Whole;
  return wanted.starts_with(text) ? Match::Partly : Match::No;
}

struct Sequence {
  Match match = Match::No;
  std::size_t size = 0;
};

Sequence find_colour(std::string_view text) {
  Sequence found;
  for (const std::string_view colour : colours) {
    const Match one = match(text, colour);
    if (one == Match::Whole) return {one, colour.size()};
    if (one == Match::Partly) found.match = one;
  }
  return found;
}

/// What the live table begins a picture with: `ESC [ n A CR ESC [ J`, or the end of it alone.
Sequence find_clearing(std::string_view text) {
  constexpr std::string_view clearing = "\r\x1b[J";
  std::size_t at = 0;
  if (!text.starts_with('\r')) {
    if (const Match head = match(text, "\x1b["); head != Match::Whole) return {head, 0};
    at = 2;
    while (at < text.size() && at < 8 && text[at] >= '0' && text[at] <= '9') ++at;
    if (at == text.size()) return {Match::Partly, 0};
    if (at == 2 || text[at++] != 'A') return {};
    if (at == text.size()) return {Match::Partly, 0};
  }
  return {match(text.substr(at), clearing), at + clearing.size()};
}

bool is_plain(char c) {
  return (c >= 0x20 && c < 0x7F) || c == '\n' || c == '\t';
}

/// Is it the beginning of a character whose other bytes may still come?
bool may_grow(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0xC2   ? 1
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 1;
  return text.size() < length && std::all_of(text.begin() + 1, text.end(), [](char c) {
           return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
         });
}

}  // namespace

OutputFilter::~OutputFilter() {
  forward(/*last=*/true);
}

bool OutputFilter::forward(bool last) {
  std::string_view rest = pending_;
  std::string out;
  while (!rest.empty()) {
    const auto plain = static_cast<std::size_t>(
        std::find_if_not(rest.begin(), rest.end(), is_plain) - rest.begin());
    out += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    Sequence own;
    if (rest.front() == escape) own = find_colour(rest);
    if (cursor_ && own.match != Match::Whole && (rest.front() == escape || rest.front() == '\r'))
      if (const Sequence clearing = find_clearing(rest); clearing.match != Match::No)
        own = clearing;
    if (own.match == Match::Partly && !last) break;
    if (own.match == Match::Whole) {
      out += rest.substr(0, own.size);
      rest.remove_prefix(own.size);
      continue;
    }
    if (!last && may_grow(rest)) break;
    const Decoded character = first_character(rest);
    if (character.valid && !is_steering(character.code))
      out += rest.substr(0, character.size);
    else
      out += visible(rest.substr(0, character.size));
    rest.remove_prefix(character.size);
  }
  pending_.erase(0, pending_.size() - rest.size());
  const auto size = static_cast<std::streamsize>(out.size());
  return inner_.sputn(out.data(), size) == size;
}

OutputFilter::int_type OutputFilter::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  pending_ += traits_type::to_char_type(c);
  return forward(/*last=*/false) ? c : traits_type::eof();
}

std::streamsize OutputFilter::xsputn(const char* bytes, std::streamsize count) {
  pending_.append(bytes, static_cast<std::size_t>(count));
  return forward(/*last=*/false) ? count : 0;
}

int OutputFilter::sync() {
  return inner_.pubsync();
}

Filtered::Filtered(std::ostream& stream, bool cursor)
    : stream_(stream), before_(stream.rdbuf()), filter_(*before_, cursor) {
  stream_.rdbuf(&filter_);
}

Filtered::~Filtered() {
  const auto state = stream_.rdstate();
  stream_.rdbuf(before_);  // forgets that a write failed
  stream_.setstate(state);
}

}  // namespace rocca::cli
