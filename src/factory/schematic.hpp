#pragma once

#include "base/diagnostics.hpp"
#include "text/value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What an image of Talos is made of, and the id that the Image Factory gives to it, computed
/// offline: the SHA-256 of one canonical text (pkg/schematic of the factory). Order counts, nothing
/// is sorted and nothing is dropped twice.
namespace rocca::factory {

struct MetaValue {
  std::uint8_t key = 0;
  std::string value;

  friend bool operator==(const MetaValue&, const MetaValue&) = default;
};

struct Overlay {
  std::string image;
  std::string name;
  text::Value options;  // a map, or null

  friend bool operator==(const Overlay&, const Overlay&) = default;
};

struct Schematic {
  Overlay overlay;
  std::string embedded_config;
  std::vector<std::string> kernel_args;
  std::vector<MetaValue> meta;
  std::vector<std::string> extensions;  // full names: siderolabs/qemu-guest-agent
  std::string bootloader;               // dual-boot, sd-boot, grub; empty: the factory chooses
  std::string enroll_keys;              // off, manual, if-safe, force
  bool well_known_certificates = false;
  std::uint64_t sector_size = 0;

  /// The bytes that are hashed.
  std::string canonical() const;
  /// 64 lower-case hexadecimal digits. An id that was never sent to a factory is not known there.
  std::string id() const;

  friend bool operator==(const Schematic&, const Schematic&) = default;
};

/// `qemu-guest-agent` is short for `siderolabs/qemu-guest-agent`; a name with a slash stays as it
/// is.
std::string extension_name(std::string_view name);

/// Is this text hashed alike by every version of the factory? Those that begin with an empty line,
/// hold only a newline, or are `<<` are not, and rocca never writes one.
bool is_stable_text(std::string_view text);

/// Reads a schematic as the factory does: strict keys and types, only the first document. All
/// problems go to `problems`; nothing is returned if one of them is an error. Texts whose id
/// depends on the factory's version are warned of.
std::optional<Schematic> read_schematic(std::string_view yaml, const std::string& file,
                                        Diagnostics& problems);

/// 64 hexadecimal digits in lower case?
bool is_schematic_id(std::string_view text);

}  // namespace rocca::factory
