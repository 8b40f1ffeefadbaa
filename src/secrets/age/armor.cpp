#include "secrets/age/armor.hpp"

#include "base/encoding.hpp"

#include <algorithm>

namespace rocca::secrets::age {

namespace {

constexpr std::string_view begin_line = "-----BEGIN AGE ENCRYPTED FILE-----";
constexpr std::string_view end_line = "-----END AGE ENCRYPTED FILE-----";
constexpr std::string_view begin_mark = "-----BEGIN";
constexpr std::string_view white = " \t\r\n\v\f";
constexpr std::size_t columns = 64;
constexpr std::size_t bytes_per_line = 48;
constexpr std::size_t blank_limit = 1024;  // what the reference reader puts up with outside
constexpr std::size_t line_limit = 2048;

[[noreturn]] void refuse(const std::string& what) {
  throw AgeError(Failure::Armor, "the age armor is malformed: " + what);
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(white) == std::string_view::npos;
}

}  // namespace

void ArmorReader::write(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    line_ += text.substr(0, end);
    if (line_.size() > line_limit) refuse("a line that never ends");
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    take_line(line_);
    line_.clear();
  }
}

void ArmorReader::take_line(std::string_view line) {
  switch (place_) {
    case Place::Before:
    case Place::After:
      if (is_blank(line)) {
        if ((blank_ += line.size() + 1) > blank_limit) refuse("too much white space around it");
        return;
      }
      if (place_ == Place::After) refuse("text after its last line");
      if (line != begin_line) refuse("its first line is not `" + std::string(begin_line) + "`");
      place_ = Place::Inside;
      blank_ = 0;
      return;
    case Place::LastLine:
      if (line != end_line) refuse("a short line before the end");
      place_ = Place::After;
      return;
    case Place::Inside: {
      if (line == end_line) {
        place_ = Place::After;
        return;
      }
      if (line.empty()) refuse("an empty line");
      if (line.size() > columns) refuse("a line over 64 columns");
      const auto bytes = from_base64(line);
      if (!bytes) refuse("a line that is not canonical base64");
      if (bytes->size() < bytes_per_line) place_ = Place::LastLine;
      out_(*bytes);
      return;
    }
  }
}

void ArmorReader::finish() {
  if (!line_.empty()) {
    const std::string last = std::move(line_);
    line_.clear();
    take_line(last.ends_with('\r') ? std::string_view(last).substr(0, last.size() - 1) : last);
  }
  if (place_ == Place::Before) refuse("there is none");
  if (place_ != Place::After) refuse("its last line is missing");
}

void ArmorWriter::write(std::string_view bytes) {
  if (!begun_) out_(std::string(begin_line).append("\n"));
  begun_ = true;
  waiting_ += bytes;
  std::string text;
  std::size_t used = 0;
  for (; waiting_.size() - used >= bytes_per_line; used += bytes_per_line)
    text += to_base64(std::string_view(waiting_).substr(used, bytes_per_line)) + "\n";
  waiting_.erase(0, used);
  if (!text.empty()) out_(text);
}

void ArmorWriter::finish() {
  write("");
  std::string text = waiting_.empty() ? "" : to_base64(waiting_) + "\n";
  out_(text.append(end_line) + "\n");
}

bool looks_armored(std::string_view text) noexcept {
  const std::size_t begin = text.find_first_not_of(white);
  return begin != std::string_view::npos && text.substr(begin).starts_with(begin_mark);
}

std::size_t armor_lookahead(std::string_view text) noexcept {
  const std::size_t begin = std::min(text.find_first_not_of(white), text.size());
  return std::min(begin, blank_limit) + begin_mark.size();
}

}  // namespace rocca::secrets::age
