#include "proxmox/property_string.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::proxmox {

namespace {

using Words = std::vector<std::string_view>;

/// How the string of one family of options is built.
struct Shape {
  std::string_view family;
  std::string_view default_key;  // the element that may stand without its key
  Words switches;                // printed as 0 and 1
  Words defaults;                // `key=value` that means the same as no key
  Words servers;                 // written by Proxmox, not by us
};

// Sources: the option formats of qemu-server (Drive, Network, CPUConfig, Agent, Machine, OVMF…).
const std::vector<Shape>& shapes() {
  static const Words drive_switches = {"backup",    "detect_zeroes", "iothread", "replicate", "ro",
                                       "scsiblock", "shared",        "snapshot", "ssd"};
  static const Words drive_defaults = {"backup=1",       "replicate=1", "iothread=0", "ssd=0",
                                       "ro=0",           "snapshot=0",  "shared=0",   "scsiblock=0",
                                       "discard=ignore", "media=disk",  "cache=none"};
  static const std::vector<Shape> table = {
      {"net", "model", {"firewall", "link_down", "host-tunnel"}, {"firewall=0", "link_down=0"}, {}},
      {"ide", "file", drive_switches, drive_defaults, {"size", "format"}},
      {"sata", "file", drive_switches, drive_defaults, {"size", "format"}},
      {"scsi", "file", drive_switches, drive_defaults, {"size", "format"}},
      {"virtio", "file", drive_switches, drive_defaults, {"size", "format"}},
      {"unused", "file", {}, {}, {"size", "format"}},
      {"efidisk",
       "file",
       {"pre-enrolled-keys"},
       {"pre-enrolled-keys=0", "efitype=2m"},
       {"size", "format", "ms-cert"}},
      {"tpmstate", "file", {}, {"version=v1.2"}, {"size", "format"}},
      {"agent",
       "enabled",
       {"enabled", "fstrim_cloned_disks", "freeze-fs-on-backup", "freeze-fs"},
       {"enabled=0", "fstrim_cloned_disks=0", "freeze-fs-on-backup=1", "freeze-fs=1",
        "type=virtio"},
       {}},
      {"cpu", "cputype", {"hidden"}, {"hidden=0"}, {}},
      {"machine", "type", {"enable-s3", "enable-s4"}, {}, {}},
      {"vga", "type", {}, {}, {}},
      {"memory", "current", {}, {}, {}},
      {"startup", "order", {}, {}, {}},
      {"smbios", "", {"base64"}, {"base64=0"}, {}},
      {"ipconfig", "", {}, {}, {}},
      {"cicustom", "", {}, {}, {}},
      {"numa", "", {}, {}, {}},
      {"rng", "source", {}, {}, {}},
      {"hostpci",
       "host",
       {"pcie", "rombar", "x-vga", "legacy-igd"},
       {"pcie=0", "rombar=1", "x-vga=0", "legacy-igd=0"},
       {}},
      {"usb", "host", {"usb3"}, {"usb3=0"}, {}},
      {"boot", "legacy", {}, {}, {}},
      {"watchdog", "model", {}, {}, {}},
      {"audio", "", {}, {}, {}},
      {"meta", "", {}, {}, {}},
  };
  return table;
}

const Shape* find_shape(std::string_view option) noexcept {
  const std::string_view wanted = family(option);
  // `numa` alone is a switch, `numa0` a property string.
  if (option == "numa") return nullptr;
  for (const Shape& shape : shapes())
    if (shape.family == wanted) return &shape;
  return nullptr;
}

bool has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Does the key with this value mean the same as no key?
bool is_default(const Shape& shape, std::string_view key, std::string_view value) {
  return std::any_of(shape.defaults.begin(), shape.defaults.end(), [&](std::string_view each) {
    return each.size() == key.size() + 1 + value.size() && each.starts_with(key) &&
           each[key.size()] == '=' && each.ends_with(value);
  });
}

constexpr std::array<std::string_view, 15> nic_models = {
    "virtio",   "e1000",  "e1000-82540em", "e1000-82544gc", "e1000-82545em",
    "e1000e",   "i82551", "i82557b",       "i82559er",      "ne2k_isa",
    "ne2k_pci", "pcnet",  "rtl8139",       "vmxnet3",       "vmxnet"};

bool is_nic_model(std::string_view key) {
  return std::find(nic_models.begin(), nic_models.end(), key) != nic_models.end();
}

/// `on`, `yes`, `True` → `1`; anything else as it is (Proxmox then refuses or keeps it).
std::string switch_value(std::string_view value) {
  const std::string lower = to_lower(value);
  if (lower == "1" || lower == "on" || lower == "yes" || lower == "true") return "1";
  if (lower == "0" || lower == "off" || lower == "no" || lower == "false") return "0";
  return std::string(value);
}

std::string sorted_list(std::string_view text, std::string_view separators, char joiner) {
  std::vector<std::string> words;
  std::string word;
  const auto take = [&] {
    if (const auto trimmed = trim(word); !trimmed.empty()) words.emplace_back(trimmed);
    word.clear();
  };
  for (const char c : text)
    if (separators.find(c) == std::string_view::npos)
      word += c;
    else
      take();
  take();
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return join(words, std::string(1, joiner));
}

constexpr std::array<std::string_view, 19> switch_options = {
    "acpi",      "autostart", "kvm",    "localtime", "numa",   "onboot",    "protection",
    "reboot",    "tablet",    "tdf",    "template",  "freeze", "ciupgrade", "keephugepages",
    "allow-ksm", "start",     "unique", "force",     "full"};

/// Keys are words of ASCII without blanks, also those of other Proxmox releases.
bool is_word(std::string_view key) {
  return std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::string_view family(std::string_view option) noexcept {
  std::size_t end = option.size();
  while (end > 0 && option[end - 1] >= '0' && option[end - 1] <= '9') --end;
  return end == 0 ? option : option.substr(0, end);
}

bool is_drive(std::string_view option) noexcept {
  constexpr std::array<std::string_view, 7> drives = {"ide",     "sata",     "scsi",  "virtio",
                                                      "efidisk", "tpmstate", "unused"};
  const std::string_view name = family(option);
  return name.size() < option.size() &&
         std::find(drives.begin(), drives.end(), name) != drives.end();
}

std::optional<std::uint64_t> parse_size(std::string_view text) noexcept {
  if (text.empty()) return std::nullopt;
  unsigned shift = 0;
  switch (text.back()) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    case 'T':
      shift = 40;
      break;
    default:
      break;
  }
  if (shift != 0) text.remove_suffix(1);
  const auto number = parse_uint(text);
  if (!number || *number > (UINT64_MAX >> shift)) return std::nullopt;
  return *number << shift;
}

std::string print_size(std::uint64_t bytes) {
  constexpr std::array<std::pair<unsigned, char>, 4> units = {
      {{40, 'T'}, {30, 'G'}, {20, 'M'}, {10, 'K'}}};
  for (const auto& [shift, letter] : units) {
    const std::uint64_t unit = std::uint64_t{1} << shift;
    if (bytes % unit == 0) return fmt::format("{}{}", bytes / unit, letter);
  }
  return std::to_string(bytes);
}

PropertyString::PropertyString(std::string_view option) : option_(option) {}

PropertyString PropertyString::parse(std::string_view option, std::string_view text) {
  PropertyString result{option};
  const Shape* shape = find_shape(option);
  const auto refuse = [&](std::string_view why) -> Error {
    return {Fault::Rejected, fmt::format("option '{}': {} in '{}'", option, why, text)};
  };
  if (trim(text).empty()) return result;
  for (const std::string& element : split(text, ',')) {
    // Proxmox takes a stray comma (bpg sends one behind ide2), blanks between two as well.
    if (trim(element).empty()) continue;
    const std::size_t equals = element.find('=');
    std::string key = equals == std::string::npos ? "" : element.substr(0, equals);
    std::string value = equals == std::string::npos ? element : element.substr(equals + 1);
    if (equals == 0 || !is_word(key)) throw refuse("a key that is no word");
    if (family(option) == "net" && (is_nic_model(key) || is_nic_model(element))) {
      // `virtio=MAC` is short for model=virtio,macaddr=MAC; `virtio` alone is only the model.
      if (key.empty()) {
        key = "model";
      } else {
        if (result.find("macaddr") != nullptr) throw refuse("two models");
        result.properties_.push_back({"macaddr", value});
        value = key;
        key = "model";
      }
    } else if (key.empty()) {
      if (shape == nullptr || shape->default_key.empty())
        throw refuse("a value without key, and no default key");
      key = std::string(shape->default_key);
    } else if (key == "volume" && is_drive(option)) {
      key = "file";
    }
    if (shape != nullptr && has(shape->switches, key)) value = switch_value(value);
    if (result.find(key) != nullptr) throw refuse(fmt::format("the key '{}' twice", key));
    result.properties_.push_back({std::move(key), std::move(value)});
  }
  return result;
}

const std::string* PropertyString::find(std::string_view key) const noexcept {
  for (const Property& property : properties_)
    if (property.key == key) return &property.value;
  return nullptr;
}

std::string PropertyString::value_or(std::string_view key, std::string_view fallback) const {
  const std::string* value = find(key);
  return value != nullptr ? *value : std::string(fallback);
}

void PropertyString::set(std::string_view key, std::string value) {
  for (Property& property : properties_) {
    if (property.key != key) continue;
    property.value = std::move(value);
    return;
  }
  properties_.push_back({std::string(key), std::move(value)});
}

bool PropertyString::erase(std::string_view key) {
  return std::erase_if(properties_, [&](const Property& p) { return p.key == key; }) > 0;
}

std::string PropertyString::print() const {
  const Shape* shape = find_shape(option_);
  const std::string_view default_key = shape != nullptr ? shape->default_key : "";
  const std::string* model = family(option_) == "net" ? find("model") : nullptr;
  const bool short_form = model != nullptr && is_nic_model(*model);  // virtio=MAC
  std::vector<const Property*> rest;
  std::string text;
  for (const Property& property : properties_) {
    if (!default_key.empty() && property.key == default_key) {
      // Without its key a value that holds `=` would be read as another key.
      const bool bare = property.value.find('=') == std::string::npos;
      text = bare ? property.value : fmt::format("{}={}", property.key, property.value);
      if (const std::string* mac = short_form ? find("macaddr") : nullptr) text += "=" + *mac;
    } else if (!short_form || property.key != "macaddr") {
      rest.push_back(&property);
    }
  }
  std::sort(rest.begin(), rest.end(),
            [](const Property* a, const Property* b) { return a->key < b->key; });
  for (const Property* property : rest) {
    if (!text.empty()) text += ',';
    text.append(property->key).append(1, '=').append(property->value);
  }
  return text;
}

std::string normalise(std::string_view option, std::string_view value) {
  const std::string_view trimmed = trim(value);
  if (option == "tags") return sorted_list(to_lower(trimmed), ";, \t", ';');
  if (option == "nameserver" || option == "searchdomain") {
    // An ordered list: the first server is asked first. Only the separators are free.
    std::vector<std::string> words;
    for (std::string& word : split(replace_all(replace_all(trimmed, ",", " "), ";", " "), ' '))
      if (!word.empty()) words.push_back(std::move(word));
    return join(words, " ");
  }
  if (option == "hotplug") return sorted_list(trimmed, ",; ", ',');
  if (option == "description") {
    std::string text{value};
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
  }
  if (std::find(switch_options.begin(), switch_options.end(), option) != switch_options.end())
    return switch_value(trimmed);
  const Shape* shape = find_shape(option);
  if (shape == nullptr) {
    // Plain integers may come as `02` or, from JSON, as 2.
    if (const auto number = parse_int(trimmed)) return std::to_string(*number);
    return std::string(trimmed);
  }
  PropertyString properties = PropertyString::parse(option, trimmed);
  PropertyString canonical{option};
  for (const auto& [key, raw] : properties.properties()) {
    std::string text{trim(raw)};
    if (key == "macaddr") text = to_lower(text);
    if (key == "size")
      if (const auto bytes = parse_size(text)) text = print_size(*bytes);
    if (key == "uuid") text = to_lower(text);
    if (key == "flags" || key == "trunks") text = sorted_list(text, ";", ';');
    if (is_default(*shape, key, text)) continue;
    canonical.set(key, std::move(text));
  }
  return canonical.print();
}

bool same_meaning(std::string_view option, std::string_view wanted, std::string_view found) {
  // `1` asks for a generated one.
  if (option == "vmgenid" && trim(wanted) == "1") return true;
  if (wanted == found) return true;
  const Shape* shape = find_shape(option);
  if (shape == nullptr) return normalise(option, wanted) == normalise(option, found);
  PropertyString a = PropertyString::parse(option, normalise(option, wanted));
  PropertyString b = PropertyString::parse(option, normalise(option, found));
  for (const std::string_view key : shape->servers) {
    if (a.find(key) == nullptr) b.erase(key);
    if (b.find(key) == nullptr) a.erase(key);
  }
  if (family(option) == "net" && a.find("macaddr") == nullptr) b.erase("macaddr");
  if (family(option) == "smbios" && a.find("uuid") == nullptr) b.erase("uuid");
  return a.print() == b.print();
}

}  // namespace rocca::proxmox
