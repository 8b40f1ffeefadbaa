#pragma once

#include "secrets/age/age.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::secrets::age {

/// The text part of an age file.
struct Header {
  std::vector<Stanza> stanzas;
  std::string mac;  // 32 bytes
  std::string
      signed_part;  // the bytes the MAC covers, as they were read: up to and with the three dashes
};

/// Everything up to and with the three dashes: what the MAC is computed over.
std::string encode_signed_part(const std::vector<Stanza>& stanzas);
std::string encode_header(const Header& header);
/// `text` is a whole header with its last newline. Throws AgeError(Header) on anything the grammar
/// does not allow.
Header parse_header(std::string_view text);

/// Collects bytes until a header is whole.
class HeaderReader {
 public:
  /// Takes what belongs to the header and returns how many bytes that were; done() says whether it
  /// is whole. Throws AgeError(Header) when it cannot become a header.
  std::size_t write(std::string_view bytes);
  bool done() const noexcept { return done_; }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  std::size_t line_ = 0;  // where the current line begins
  bool done_ = false;
};

/// HMAC key and check: the MAC of a header under a file key.
std::string header_mac(const Secret& file_key, std::string_view signed_part);

}  // namespace rocca::secrets::age
