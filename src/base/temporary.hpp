#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace rocca {

/// The file beside `name` that a write fills before it takes the name over. list() never shows one:
/// a process that died in the middle of a write leaves it behind.
inline std::string temporary_name(std::string_view name, std::uint64_t unique) {
  return fmt::format(".{}.{:016x}.rocca-tmp", name.substr(0, 200), unique);
}

inline bool is_temporary_name(std::string_view name) {
  return name.starts_with('.') && name.ends_with(".rocca-tmp");
}

}  // namespace rocca
