#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

#include <cmath>
#include <regex>
#include <unordered_map>

namespace rocca::lab::pve {

namespace {

bool indexed(std::string_view key, std::string_view bus, unsigned count) {
  if (!key.starts_with(bus)) return false;
  const std::string_view index = key.substr(bus.size());
  const auto number = parse_uint(index);
  return number && *number < count && (index == "0" || index[0] != '0');
}

/// The format that describes a drive key: `scsi10` -> "scsi".
std::string format_of(std::string_view key) {
  if (key == "efidisk0" || key == "tpmstate0") return std::string(key);
  return std::string(key.substr(0, key.find_first_of("0123456789")));
}

}  // namespace

bool Drive::is_cloudinit() const {
  static const std::regex form("(.*[:/])?(?:vm-\\d+-)?cloudinit(\\..*)?");
  const std::string name = file();
  return name.find(':') != std::string::npos && std::regex_match(name, form);
}

bool is_drive_key(std::string_view key) {
  return indexed(key, "ide", 4) || indexed(key, "sata", 6) || indexed(key, "scsi", 31) ||
         indexed(key, "virtio", 16) || key == "efidisk0" || key == "tpmstate0";
}

bool is_unused_key(std::string_view key) {
  return indexed(key, "unused", 256);
}

bool is_net_key(std::string_view key) {
  return indexed(key, "net", 32);
}

Keys parse_keys(const Schema& schema, std::string_view format, const std::string& text) {
  const Format* known = schema.find_format(format);
  if (known == nullptr) return {};
  try {
    return schema.parse(*known, text, format);
  } catch (const std::string&) {
    return {};
  }
}

std::string print_keys(const Schema& schema, std::string_view format, const Keys& keys) {
  return schema.print(*schema.find_format(format), keys);
}

std::optional<Drive> parse_drive(const Schema& schema, const std::string& key,
                                 const std::string& text) {
  // Whoever looks at a VM looks at its drives, and these are hardly ever other ones.
  struct Known {
    const Schema* schema;
    std::optional<Drive> drive;
  };
  thread_local std::unordered_map<std::string, Known> lately;
  constexpr std::size_t many = 1024;
  std::string asked;
  asked.reserve(key.size() + 1 + text.size());
  asked.append(key).append(1, ' ').append(text);
  const auto known = lately.find(asked);
  if (known != lately.end() && known->second.schema == &schema) return known->second.drive;
  std::optional<Drive> drive;
  Keys options = parse_keys(schema, format_of(key), text);
  if (!options.empty() && !options["file"].empty()) drive = Drive{key, std::move(options)};
  if (lately.size() >= many) lately.clear();
  lately.insert_or_assign(std::move(asked), Known{&schema, drive});
  return drive;
}

std::string print_drive(const Schema& schema, const Drive& drive) {
  return print_keys(schema, format_of(drive.key), drive.options);
}

std::string print_size(std::uint64_t bytes) {
  if (bytes % 1024 != 0) return std::to_string(bytes);
  std::uint64_t value = bytes / 1024;
  for (const char* unit : {"K", "M", "G"}) {
    if (value % 1024 != 0) return fmt::format("{}{}", value, unit);
    value /= 1024;
  }
  return fmt::format("{}T", value);
}

std::uint64_t parse_size(std::string_view text) {
  double factor = 1;
  if (!text.empty()) {
    const std::size_t unit = std::string_view("KMGT").find(text.back());
    if (unit != std::string_view::npos) {
      factor = std::pow(1024.0, static_cast<double>(unit + 1));
      text.remove_suffix(1);
    }
  }
  if (const auto whole = parse_uint(text)) return *whole * static_cast<std::uint64_t>(factor);
  return static_cast<std::uint64_t>(std::strtod(std::string(text).c_str(), nullptr) * factor);
}

std::optional<NewDisk> parse_new_disk(const std::string& file) {
  static const std::regex form("(?:([^/:\\s]+):)?(\\d+(?:\\.\\d+)?)");
  std::smatch parts;
  if (!std::regex_match(file, parts, form)) return std::nullopt;
  // GiB, rounded up to whole KiB.
  const double kib = std::strtod(parts[2].str().c_str(), nullptr) * 1024 * 1024;
  return NewDisk{parts[1].str(), static_cast<std::uint64_t>(std::ceil(kib)) * 1024};
}

std::vector<std::string> boot_order(const Schema& schema, const Keys& config) {
  const auto boot = config.find("boot");
  if (boot == config.end()) return {};
  return split_list(parse_keys(schema, "pve-qm-boot", boot->second)["order"]);
}

std::vector<std::string> boot_disks(const Schema& schema, const Keys& config) {
  std::vector<std::string> disks;
  for (const std::string& device : boot_order(schema, config))
    if (is_drive_key(device)) disks.push_back(device);
  if (disks.empty())
    if (const auto legacy = config.find("bootdisk"); legacy != config.end())
      disks.push_back(legacy->second);
  return disks;
}

std::string print_boot_order(const std::vector<std::string>& devices) {
  return devices.empty() ? "" : "order=" + join(devices, ";");
}

std::vector<std::string> default_boot_devices(const Schema& schema, const Keys& config) {
  std::vector<std::string> devices;
  const auto first = [&](bool cdrom) {
    for (const char* bus : {"ide", "scsi", "virtio", "sata"})
      for (unsigned i = 0; i < 31; ++i) {
        const std::string key = bus + std::to_string(i);
        const auto value = config.find(key);
        if (value == config.end()) continue;
        const auto drive = parse_drive(schema, key, value->second);
        if (drive && drive->is_cdrom() == cdrom) return devices.push_back(key);
      }
  };
  first(false);
  first(true);
  for (unsigned i = 0; i < 32; ++i)
    if (const std::string key = "net" + std::to_string(i); config.contains(key)) {
      devices.push_back(key);
      break;
    }
  return devices;
}

std::optional<std::string> find_cloudinit(const Schema& schema, const Keys& config,
                                          std::string_view except) {
  for (const auto& [key, value] : config) {
    if (key == except || !is_drive_key(key)) continue;
    const auto drive = parse_drive(schema, key, value);
    if (drive && drive->is_cloudinit()) return key;
  }
  return std::nullopt;
}

}  // namespace rocca::lab::pve
