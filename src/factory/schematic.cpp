#include "factory/schematic.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "factory/go_yaml.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace rocca::factory {

using text::Value;

namespace {

Value strings(const std::vector<std::string>& texts) {
  Value list = Value::list();
  for (const std::string& text : texts) list.append(Value::string(text));
  return list;
}

Value overlay_value(const Overlay& overlay) {
  Value value = Value::map();
  value.set("image", Value::string(overlay.image));
  value.set("name", Value::string(overlay.name));
  if (overlay.options.is_map() && overlay.options.size() > 0) value.set("options", overlay.options);
  return value;
}

Value customization_value(const Schematic& schematic) {
  Value value = Value::map();
  if (!schematic.embedded_config.empty())
    value.set("embeddedMachineConfiguration", Value::string(schematic.embedded_config));
  if (!schematic.kernel_args.empty()) value.set("extraKernelArgs", strings(schematic.kernel_args));
  if (!schematic.meta.empty()) {
    Value meta = Value::list();
    for (const MetaValue& item : schematic.meta) {
      Value entry = Value::map();
      entry.set("key", Value::integer(item.key));
      entry.set("value", Value::string(item.value));
      meta.append(std::move(entry));
    }
    value.set("meta", std::move(meta));
  }
  if (!schematic.extensions.empty()) {
    Value extensions = Value::map();
    extensions.set("officialExtensions", strings(schematic.extensions));
    value.set("systemExtensions", std::move(extensions));
  }
  if (!schematic.bootloader.empty()) value.set("bootloader", Value::string(schematic.bootloader));
  if (!schematic.enroll_keys.empty() || schematic.well_known_certificates) {
    Value secureboot = Value::map();
    if (!schematic.enroll_keys.empty())
      secureboot.set("enrollKeys", Value::string(schematic.enroll_keys));
    if (schematic.well_known_certificates)
      secureboot.set("includeWellKnownCertificates", Value::boolean(true));
    value.set("secureboot", std::move(secureboot));
  }
  if (schematic.sector_size != 0) {
    Value disk = Value::map();
    disk.set("sectorSize", Value::unsigned_integer(schematic.sector_size));
    value.set("diskImage", std::move(disk));
  }
  return value;
}

}  // namespace

std::string Schematic::canonical() const {
  Value root = Value::map();
  const bool has_options = overlay.options.is_map() && overlay.options.size() > 0;
  if (!overlay.image.empty() || !overlay.name.empty() || has_options)
    root.set("overlay", overlay_value(overlay));
  root.set("customization", customization_value(*this));
  return emit_as_go(root);
}

std::string Schematic::id() const {
  const std::string text = canonical();
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  // EVP_sha256() only names it: OpenSSL 3 would look for the code behind it at each digest.
  static const EVP_MD* const kind = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, kind, nullptr) != 1)
    throw Error(Fault::Bug, "the crypto library failed: SHA-256");
  return to_hex({reinterpret_cast<const char*>(digest.data()), size});
}

std::string extension_name(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return std::string(name);
  return fmt::format("siderolabs/{}", name);
}

bool is_stable_text(std::string_view text) {
  return !text.starts_with('\n') && text != "<<";
}

bool is_schematic_id(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace rocca::factory
