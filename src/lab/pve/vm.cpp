#include "lab/pve/vm.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace rocca::lab::pve {

namespace {

/// A description's line as the file has it: `:`, `%`, control characters and what is not ASCII are
/// escaped.
std::string encode_line(std::string_view line) {
  std::string text;
  for (const char raw : line) {
    const auto c = static_cast<unsigned char>(raw);
    if (c < 0x20 || c > 0x7E || raw == ':' || raw == '%')
      text += fmt::format("%{:02X}", c);
    else
      text += raw;
  }
  return text;
}

std::string section_text(const ConfigSection& section) {
  std::string text;
  if (const auto description = section.find("description"); description != section.end())
    for (const std::string& line : split(description->second, '\n'))
      text += "#" + encode_line(line) + "\n";
  for (const auto& [key, value] : section)
    if (key != "description") text += fmt::format("{}: {}\n", key, value);
  return text;
}

}  // namespace

std::string config_file_text(const Vm& vm) {
  std::string text = section_text(vm.config);
  if (!vm.pending.empty() || !vm.pending_delete.empty()) {
    ConfigSection pending = vm.pending;
    std::vector<std::string> gone;
    for (const auto& [key, forced] : vm.pending_delete) gone.push_back((forced ? "!" : "") + key);
    if (!gone.empty()) pending["delete"] = join(gone, ",");
    text += "\n[PENDING]\n" + section_text(pending);
  }
  if (!vm.cloudinit.empty()) text += "\n[special:cloudinit]\n" + section_text(vm.cloudinit);
  for (const auto& [name, section] : vm.snapshots)
    text += fmt::format("\n[{}]\n", name) + section_text(section);
  return text;
}

std::string config_digest(const Vm& vm) {
  const std::string text = config_file_text(vm);
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  // Only fetched: what EVP_sha1() names is looked for anew at each digest.
  static EVP_MD* const kind = EVP_MD_fetch(nullptr, "SHA1", nullptr);
  EVP_Digest(text.data(), text.size(), out.data(), &size, kind, nullptr);
  return to_hex({reinterpret_cast<const char*>(out.data()), size});
}

}  // namespace rocca::lab::pve
