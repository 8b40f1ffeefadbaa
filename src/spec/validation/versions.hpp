#pragma once

#include "base/version.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::spec {

/// A Talos line that rocca renders configs for.
struct TalosLine {
  std::uint64_t minor;             // of 1.x
  std::uint64_t first_kubernetes;  // minors of 1.x, both included
  std::uint64_t last_kubernetes;
  std::string_view default_kubernetes;
};

std::span<const TalosLine> talos_lines();
const TalosLine* find_talos_line(const Version& version);

/// `siderolabs/x` for `x`; a name with a slash stays.
std::string full_extension_name(std::string_view name);

struct KnownExtension {
  std::string_view name;    // without siderolabs/
  std::uint64_t first = 9;  // Talos minors, both included
  std::uint64_t last = 13;
};
const KnownExtension* find_extension(std::string_view short_name);
std::vector<std::string> extension_names();

/// A name that people write and that never existed, or not any more, and what is meant.
struct WrongExtension {
  std::string_view wrong;
  std::string_view right;
};
const WrongExtension* find_wrong_extension(std::string_view short_name);

struct KnownModule {
  std::string_view name;
  std::uint64_t first = 9;
  std::uint64_t last = 13;
  std::string_view extension = {};  // where it comes from; empty: Talos itself
};
/// `-` and `_` are the same in a module's name.
const KnownModule* find_module(std::string_view name);
std::vector<std::string> module_names();

/// The first Talos minor that knows a config document's kind; nothing for a kind that no line
/// knows.
std::optional<std::uint64_t> first_minor_of_kind(std::string_view kind);
std::vector<std::string> document_kinds();

}  // namespace rocca::spec
