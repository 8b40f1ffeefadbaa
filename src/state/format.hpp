#pragma once

#include "state/state.hpp"
#include "text/value.hpp"
#include "text/yaml.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Private to this folder: how states and records are written.

namespace rocca::state {

/// What to do about a state that is empty, cut off or garbled.
inline constexpr const char* damaged_hint =
    "this is not a state as rocca writes it; restore it from a backup, or remove it: `rocca up` "
    "finds its own machines by their marks";

/// A state of a thousand nodes is a few megabytes; what is far beyond it is no state.
inline text::Limits large_limits() {
  return {.size = 64ull * 1024 * 1024, .depth = 20, .values = 8'000'000};
}

/// Text that should be a state; the error of any other text has damaged_hint.
text::Value parse_state_json(std::string_view text, const std::string& name);

text::Value to_value(const Item& item);
text::Value to_value(const Teardown& teardown);

/// Reads values and says where they are wrong. Strict: a key that this rocca does not know was
/// written by a newer one, and would be lost with the next write.
class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  [[noreturn]] void fail(const text::Value& at, const std::string& message) const;
  [[noreturn]] void future(const std::string& what) const;
  void only(const text::Value& map, std::initializer_list<std::string_view> keys) const;
  std::string text(const text::Value& map, std::string_view key) const;    // "" if absent
  std::string needed(const text::Value& map, std::string_view key) const;  // never ""
  std::uint64_t number(const text::Value& map, std::string_view key) const;
  std::optional<Instant> instant(const text::Value& map, std::string_view key) const;
  Duration duration(const text::Value& at) const;
  Fields fields(const text::Value& map, std::string_view key) const;
  std::vector<std::string> texts(const text::Value& map, std::string_view key) const;
  Item item(const text::Value& map) const;
  Teardown teardown(const text::Value& map) const;

 private:
  std::string name_;
};

}  // namespace rocca::state
