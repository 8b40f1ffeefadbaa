#pragma once

#include "base/secret.hpp"

#include <string>
#include <string_view>
#include <vector>

/// Keys and certificates travel through environment variables, YAML folds, Windows editors and two
/// layers of base64. What can be mended without guessing is mended, and said; the rest is refused
/// with the exact reason.
namespace rocca::secrets {

struct Cleaned {
  Secret text;
  std::vector<std::string>
      mended;  // what was done, e.g. "CRLF line ends"; empty: it was right as it came
};

/// A PEM text: literal `\n`, CRLF, blanks around and inside lines, lines joined by blanks, a
/// missing last newline, base64 of the whole (once or twice). Throws Error(Usage) naming `what` and
/// the place. The result ends in a newline and has lines of 64 columns where any had to be mended.
Cleaned clean_pem(std::string_view text, std::string_view what);

/// A base64 value: white space and literal `\n` inside, missing padding, the URL alphabet, and
/// base64 of base64 when `size` says how many bytes there should be (0: any number, one layer). The
/// result is canonical base64 on one line.
Cleaned clean_base64(std::string_view text, std::string_view what, std::size_t size = 0);

/// A token or password that is one line: blanks and line breaks around it are taken away, as stores
/// and editors add them. Throws Error(Usage) when nothing is left or a line break stands inside.
Cleaned clean_line(std::string_view text, std::string_view what);

}  // namespace rocca::secrets
