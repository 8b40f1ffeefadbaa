#include "lab/pve/storage.hpp"

#include "base/strings.hpp"
#include "lab/pve/failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace rocca::lab::pve {

namespace {

const char* folder_of(std::string_view content) {
  if (content == "iso") return "template/iso";
  if (content == "vztmpl") return "template/cache";
  if (content == "backup") return "dump";
  if (content == "snippets") return "snippets";
  if (content == "import") return "import";
  return "images";
}

}  // namespace

bool Storage::allows(std::string_view kind) const {
  return std::find(content.begin(), content.end(), kind) != content.end();
}

bool Storage::file_based() const {
  return type == "dir" || type == "nfs" || type == "cifs" || type == "cephfs" || type == "btrfs";
}

std::string Storage::path() const {
  const auto given = options.find("path");
  if (given != options.end()) return given->second;
  return file_based() ? "/mnt/pve/" + id : "/dev/" + id;
}

std::string Storage::path_of(std::string_view kind, std::string_view name) const {
  if (!file_based()) {
    const bool zfs = type == "zfspool";
    const auto group = options.find(zfs ? "pool" : "vgname");
    return fmt::format("/dev/{}{}/{}", zfs ? "zvol/" : "",
                       group == options.end() ? id : group->second, name);
  }
  if (kind == "images") {
    // A linked clone is named BASE/CLONE with two parts each; the file is the clone's.
    const std::vector<std::string> parts = split(name, '/');
    const std::size_t from = parts.size() > 2 ? parts.size() - 2 : 0;
    return path() + "/images/" +
           join({parts.begin() + static_cast<std::ptrdiff_t>(from), parts.end()}, "/");
  }
  const std::size_t slash = name.find('/');
  const std::string_view file = slash == std::string_view::npos ? name : name.substr(slash + 1);
  return path() + "/" + folder_of(kind) + "/" + std::string(file);
}

std::string Storage::path_of(const Volume& volume) const {
  return path_of(volume.content, volume.name);
}

const std::map<std::string, Volume>& Storage::on(const std::string& node) const {
  static const std::map<std::string, Volume> none;
  const auto found = volumes.find(shared ? "" : node);
  return found == volumes.end() ? none : found->second;
}

std::uint64_t Storage::used(const std::string& node) const {
  std::uint64_t sum = reserved;
  for (const auto& [name, volume] : on(node)) sum += volume.used;
  return std::min(sum, total);
}

std::uint64_t Storage::available(const std::string& node) const {
  return total - used(node);
}

std::uint64_t Storage::round_up(std::uint64_t bytes) const {
  std::uint64_t unit = 1024;
  if (type == "lvm" || type == "lvmthin" || type == "rbd") unit = 4ull << 20;
  if (type == "zfspool") unit = 1ull << 20;
  return (bytes + unit - 1) / unit * unit;
}

std::string Storage::default_format() const {
  const auto given = options.find("format");
  if (given != options.end() && file_based()) return given->second;
  return "raw";
}

std::vector<std::string> Storage::formats() const {
  if (type == "btrfs") return {"raw", "subvol"};
  if (file_based()) return {"raw", "qcow2", "vmdk", "subvol"};
  if (type == "zfspool") return {"raw", "subvol"};
  return {"raw"};
}

std::optional<VolumeId> VolumeId::parse(std::string_view text) {
  // ([A-Za-z][A-Za-z0-9\-_.]*[A-Za-z0-9]):(\S+)
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  const auto is_word = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  const std::size_t colon = text.find(':');
  if (colon == text.npos || colon < 2 || colon + 1 == text.size()) return std::nullopt;
  const std::string_view storage = text.substr(0, colon), name = text.substr(colon + 1);
  if (!is_letter(storage.front()) || !is_word(storage.back())) return std::nullopt;
  for (const char c : storage)
    if (!is_word(c) && c != '-' && c != '_' && c != '.') return std::nullopt;
  if (name.find_first_of(" \t\n\v\f\r") != name.npos) return std::nullopt;
  return VolumeId{std::string(storage), std::string(name)};
}

VolumeName parse_volume_name(const Storage& storage, std::string_view name) {
  const std::string text(name);
  std::smatch parts;
  VolumeName result;
  if (!storage.file_based()) {
    static const std::regex linked("((?:base)-(\\d+)-\\S+)/((vm|base)-(\\d+)-\\S+)");
    static const std::regex plain("((vm|base|subvol)-(\\d+)-\\S+)");
    if (std::regex_match(text, parts, linked)) {
      result = {"images",       parts[3].str(), static_cast<unsigned>(std::stoul(parts[5])),
                parts[1].str(), "raw",          parts[4] == "base"};
      return result;
    }
    if (std::regex_match(text, parts, plain)) {
      result = {"images", parts[1].str(), static_cast<unsigned>(std::stoul(parts[3])),
                "",       "raw",          parts[2] == "base"};
      return result;
    }
    const char* kind = storage.type == "zfspool" ? "zfs" : storage.type == "rbd" ? "rbd" : "lvm";
    die(fmt::format("unable to parse {} volume name '{}'", kind, name));
  }
  static const std::regex linked(
      "((\\d+)/([^/\\s]+\\.(?:raw|qcow2|vmdk)))/(\\d+)/([^/\\s]+\\.(raw|qcow2|vmdk))");
  static const std::regex image("(\\d+)/([^/\\s]+\\.(raw|qcow2|vmdk|subvol))");
  static const std::regex iso("iso/([^/]+\\.(?:[iI][sS][oO]|[iI][mM][gG]))");
  static const std::regex templates("vztmpl/([^/]+\\.tar(?:\\.(?:gz|xz|zst|bz2))?)");
  static const std::regex import(
      "import/([A-Za-z0-9._+=-]+\\.(ova|qcow2|raw|vmdk))(?:/"
      "([A-Za-z0-9._+=-]+\\.(?:vmdk|raw|qcow2)))?");
  static const std::regex snippets("snippets/([^/]+)");
  static const std::regex backup(
      "backup/([^/]+(?:\\.(?:tgz|tar(?:\\.(?:gz|lzo|zst))?|vma(?:\\.(?:gz|lzo|zst))?)))");
  if (std::regex_match(text, parts, linked))
    return {"images",       parts[5].str(), static_cast<unsigned>(std::stoul(parts[4])),
            parts[1].str(), parts[6].str(), parts[5].str().starts_with("base-")};
  if (std::regex_match(text, parts, image))
    return {"images", parts[2].str(), static_cast<unsigned>(std::stoul(parts[1])),
            "",       parts[3].str(), parts[2].str().starts_with("base-")};
  if (std::regex_match(text, parts, iso)) return {"iso", parts[1].str(), {}, "", "raw", false};
  if (std::regex_match(text, parts, templates))
    return {"vztmpl", parts[1].str(), {}, "", "raw", false};
  if (std::regex_match(text, parts, import))
    return {"import", parts[1].str(), {}, "", parts[2].str(), false};
  if (std::regex_match(text, parts, snippets))
    return {"snippets", parts[1].str(), {}, "", "raw", false};
  if (std::regex_match(text, parts, backup)) {
    result = {"backup", parts[1].str(), {}, "", "raw", false};
    static const std::regex of_guest("vzdump-(?:qemu|lxc)-([1-9][0-9]{2,8})-.+");
    std::smatch guest;
    if (std::regex_match(result.file, guest, of_guest))
      result.vmid = static_cast<unsigned>(std::stoul(guest[1]));
    return result;
  }
  die(fmt::format("unable to parse directory volume name '{}'", name));
}

}  // namespace rocca::lab::pve
