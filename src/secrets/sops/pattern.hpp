#pragma once

#include <memory>
#include <string_view>

namespace rocca::secrets::sops {

/// A regular expression in the syntax that SOPS files and `.sops.yaml` use (Go's RE2), searched
/// unanchored in time linear in the text: the pattern comes out of a file that may be hostile.
class Pattern {
 public:
  /// Throws Error(Usage) that says what is wrong with it.
  explicit Pattern(std::string_view expression);

  /// Is there a match anywhere in the text? As in Go, a byte that is not UTF-8 is matched as
  /// U+FFFD.
  bool found_in(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace rocca::secrets::sops
