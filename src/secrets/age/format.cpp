#include "secrets/age/format.hpp"

#include "base/encoding.hpp"
#include "secrets/crypto.hpp"

#include <algorithm>

namespace rocca::secrets::age {

namespace {

constexpr std::string_view version_line = "age-encryption.org/v1\n";
constexpr std::size_t columns = 64;
// A thousand post-quantum recipients fit; a stream of garbage without a last line does not fill the
// memory.
constexpr std::size_t header_limit = 2 * 1024 * 1024;

[[noreturn]] void refuse(const std::string& what) {
  throw AgeError(Failure::Header, "the age header is malformed: " + what);
}

/// Reads a text line by line; every line must end in LF.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  bool done() const { return text_.empty(); }
  std::string_view next() {
    const std::size_t end = text_.find('\n');
    if (end == std::string_view::npos) refuse("its last line is cut off");
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return line;
  }

 private:
  std::string_view text_;
};

std::vector<std::string> parse_args(std::string_view line) {
  std::vector<std::string> args;
  for (std::string_view rest = line;;) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view arg = rest.substr(0, end);
    if (arg.empty()) refuse("an empty argument");
    if (!std::all_of(arg.begin(), arg.end(), [](char c) { return c >= 0x21 && c <= 0x7e; }))
      refuse("an argument with a byte that is not printable ASCII");
    args.emplace_back(arg);
    if (end == rest.size()) return args;
    rest.remove_prefix(end + 1);
  }
}

std::string parse_body(Lines& lines) {
  std::string body;
  while (true) {
    if (lines.done()) refuse("a stanza without its last line");
    const std::string_view line = lines.next();
    if (line.size() > columns) refuse("a line over 64 columns");
    const auto bytes = from_base64(line, Padding::None);
    if (!bytes) refuse("a stanza's body is not canonical base64");
    body += *bytes;
    if (line.size() < columns) return body;
  }
}

}  // namespace

std::string encode_signed_part(const std::vector<Stanza>& stanzas) {
  std::string text(version_line);
  for (const Stanza& stanza : stanzas) {
    text += "->";
    for (const std::string& arg : stanza.args) text += " " + arg;
    text += '\n';
    const std::string body = to_base64(stanza.body, Padding::None);
    // The last line is always shorter than the rest, even when that makes it empty.
    for (std::size_t at = 0; at <= body.size(); at += columns)
      text += body.substr(at, columns) + '\n';
  }
  return text + "---";
}

std::string encode_header(const Header& header) {
  return encode_signed_part(header.stanzas) + " " + to_base64(header.mac, Padding::None) + "\n";
}

Header parse_header(std::string_view text) {
  if (!text.starts_with(version_line)) refuse("it does not begin with `age-encryption.org/v1`");
  Lines lines(text.substr(version_line.size()));
  Header header;
  while (true) {
    if (lines.done()) refuse("no line with the MAC");
    const std::string_view line = lines.next();
    if (line.starts_with("---")) {
      if (line.size() < 4 || line[3] != ' ') refuse("no blank before the MAC");
      const auto mac = from_base64(line.substr(4), Padding::None);
      if (!mac || mac->size() != 32) refuse("the MAC is not 32 bytes of canonical base64");
      if (!lines.done()) refuse("text after the MAC");
      if (header.stanzas.empty()) refuse("no recipient");
      header.mac = *mac;
      header.signed_part = text.substr(0, static_cast<std::size_t>(line.data() - text.data()) + 3);
      return header;
    }
    if (!line.starts_with("-> ")) refuse("a line that is neither a stanza nor the MAC");
    Stanza stanza{parse_args(line.substr(3)), ""};
    stanza.body = parse_body(lines);
    header.stanzas.push_back(std::move(stanza));
  }
}

std::size_t HeaderReader::write(std::string_view bytes) {
  for (std::size_t used = 0; used < bytes.size();) {
    const std::size_t end = bytes.find('\n', used);
    const std::size_t until = end == std::string_view::npos ? bytes.size() : end + 1;
    text_ += bytes.substr(used, until - used);
    used = until;
    const std::string_view begin = std::string_view(text_).substr(0, version_line.size());
    if (!version_line.starts_with(begin)) refuse("it does not begin with `age-encryption.org/v1`");
    if (text_.size() > header_limit) refuse("it is over 2 MiB");
    if (end == std::string_view::npos) return used;
    // A body is base64, so a line that begins with dashes can only be the last one.
    done_ = std::string_view(text_).substr(line_).starts_with("---");
    line_ = text_.size();
    if (done_) return used;
  }
  return bytes.size();
}

std::string header_mac(const Secret& file_key, std::string_view signed_part) {
  const Secret key = crypto::hkdf_sha256(file_key.reveal(), "", "header");
  return crypto::hmac_sha256(key.reveal(), signed_part);
}

}  // namespace rocca::secrets::age
