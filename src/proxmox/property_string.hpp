#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::proxmox {

/// A Proxmox property string: `local-lvm:vm-100-disk-1,discard=on,size=32G`. What a key is called
/// decides how its string is read (which element may stand without a key, which keys are switches,
/// which are aliases) and how Proxmox prints it: the default key first, then the others sorted by
/// name, switches as 0 and 1.
class PropertyString {
 public:
  struct Property {
    std::string key;
    std::string value;

    friend bool operator==(const Property&, const Property&) = default;
  };

  /// Reads the string of the VM option `option` (`net0`, `scsi3`, `smbios1`…). Throws
  /// Error(Rejected) on what Proxmox refuses as well: a key twice, an element without key that has
  /// no default, an empty element.
  static PropertyString parse(std::string_view option, std::string_view text);
  explicit PropertyString(std::string_view option);

  const std::string* find(std::string_view key) const noexcept;
  std::string value_or(std::string_view key, std::string_view fallback) const;
  void set(std::string_view key, std::string value);
  bool erase(std::string_view key);
  const std::vector<Property>& properties() const noexcept { return properties_; }

  /// The string as Proxmox itself prints it.
  std::string print() const;

 private:
  std::string option_;
  std::vector<Property> properties_;  // in the order they came
};

/// One value in the form in which two spellings of the same meaning are equal: property strings
/// printed as Proxmox does with what equals the default left out, MACs and tags in lower case,
/// lists sorted, sizes in one unit. Works for every VM option; for an option without structure it
/// is the trimmed text.
std::string normalise(std::string_view option, std::string_view value);

/// Do two values of an option mean the same? Parts the server owns (`size`, `ms-cert`) count only
/// when both name them, so that what we never asked for is never a difference.
bool same_meaning(std::string_view option, std::string_view wanted, std::string_view found);

/// `scsi10` → `scsi`; an option without a number is its own family.
std::string_view family(std::string_view option) noexcept;
/// Is it a drive: ide, sata, scsi, virtio, efidisk, tpmstate, unused with a number.
bool is_drive(std::string_view option) noexcept;

/// `32G`, `528K`, `1246M`, `4294967296` → bytes; nothing if it is no size.
std::optional<std::uint64_t> parse_size(std::string_view text) noexcept;
/// By the largest unit that divides it exactly, as Proxmox prints sizes.
std::string print_size(std::uint64_t bytes);

}  // namespace rocca::proxmox
