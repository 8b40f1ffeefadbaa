#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocca::secrets::sops {

/// A regular expression in the syntax that SOPS files and `.sops.yaml` use (Go's RE2), searched
/// unanchored. It is run as a set of states, in time linear in the text: a pattern comes out of a
/// file that somebody else may have written, and std::regex can be made to run for ever or to
/// overflow the stack. No look-around and no back-references, as in RE2. Not known here: Unicode
/// classes (`\pL`).
class Pattern {
 public:
  /// Throws Error(Usage) that says what is wrong with it.
  explicit Pattern(std::string_view expression);

  /// Is there a match anywhere in the text? Bytes that are no UTF-8 count as characters of their
  /// own.
  bool found_in(std::string_view text) const;

 private:
  friend class PatternParser;

  struct Class {
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool negated = false;
    bool contains(char32_t c) const;
  };
  enum class Op : std::uint8_t {
    Char,
    Any,
    AnyButNewline,
    Set,
    Split,
    Jump,
    TextBegin,
    TextEnd,
    LineBegin,
    LineEnd,
    WordEdge,
    NoWordEdge,
    Match
  };
  struct Step {
    Op op = Op::Match;
    char32_t c = 0;
    bool fold = false;  // ignore case
    std::size_t x = 0;  // where to go, or the class
    std::size_t y = 0;
  };

  void follow(std::size_t step, std::size_t at, const std::vector<char32_t>& text,
              std::vector<std::size_t>& states, std::vector<bool>& seen) const;

  std::vector<Step> steps_;
  std::vector<Class> classes_;
};

}  // namespace rocca::secrets::sops
