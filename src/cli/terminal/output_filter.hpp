#pragma once

#include <iosfwd>
#include <streambuf>
#include <string>

namespace rocca::cli {

/// The last line of defence between untrusted text and a terminal or log: passes UTF-8 text, tabs,
/// newlines and the colours that rocca itself paints with; everything else that could steer a
/// terminal is shown as an escape. Values are escaped before they are laid out (base/visible.hpp);
/// this catches what was forgotten, except for newlines, which only the layout can know.
class OutputFilter final : public std::streambuf {
 public:
  /// `cursor`: the live table may also move the cursor up and clear what is below it.
  OutputFilter(std::streambuf& inner, bool cursor) : inner_(inner), cursor_(cursor) {}
  /// What is left of a sequence that never ended is shown.
  ~OutputFilter() override;

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;
  int sync() override;

 private:
  /// Filters what is pending; `last`: nothing follows that could complete it.
  bool forward(bool last);

  std::streambuf& inner_;
  bool cursor_;
  std::string pending_;
};

/// While it lives, what is written to the stream goes through a filter.
class Filtered {
 public:
  Filtered(std::ostream& stream, bool cursor);
  ~Filtered();
  Filtered(const Filtered&) = delete;
  Filtered& operator=(const Filtered&) = delete;

 private:
  std::ostream& stream_;
  std::streambuf* before_;
  OutputFilter filter_;
};

}  // namespace rocca::cli
