#pragma once

#include "base/version.hpp"
#include "text/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::talos {

/// Why a text is no machine config, in Talos's words.
struct ConfigError {
  std::string text;
};

/// A machine config as a node of some release reads it: the v1alpha1 document and the others.
class MachineConfig {
 public:
  struct Document {
    std::string api, kind, name;  // kind "v1alpha1" for the one without
    text::Value value;
    std::size_t line = 1;
  };

  /// Throws ConfigError for what the release cannot decode.
  static MachineConfig parse(std::string text, const Version& release);

  const std::string& text() const noexcept { return text_; }  // as it was submitted
  /// Re-encoded as Talos does it: keys in the order of its structs, no comments.
  std::string canonical() const;
  const text::Value* main() const;  // nullptr: a fragment
  bool complete() const { return main() != nullptr; }
  const Document* find(std::string_view kind, std::string_view name = {}) const;
  const std::vector<Document>& documents() const noexcept { return documents_; }

  /// Text of a scalar of the v1alpha1 document, or "".
  std::string get(std::initializer_list<std::string_view> path) const;
  bool is_control_plane() const;

  /// What Talos finds wrong, as its one error text; nothing if all is well. `mode` is metal, cloud
  /// or container.
  enum class Images {
    Check,
    Any
  };  // a node looks at the versions of its images, talosctl does not
  std::optional<std::string> validate(std::string_view mode, bool installed, const Version& release,
                                      Images images = Images::Check) const;

  /// What it takes and says should not be so.
  std::vector<std::string> warnings(const Version& release) const;

  /// May it follow `before` without a reboot (up to 1.13)?
  bool can_follow(const MachineConfig& before) const;

 private:
  std::string text_;
  std::vector<Document> documents_;
};

/// `diff -u` of two texts with three lines of context, headed `--- a` and `+++ b`; "" if equal.
std::string unified_diff(const std::string& before, const std::string& after);

/// "1 error occurred:\n\t* …\n\n", as the Go library prints a list of errors.
std::string errors_text(const std::vector<std::string>& errors);

}  // namespace rocca::lab::talos
