#include "lab/services/factory.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/version.hpp"
#include "lab/services/factory_catalog.hpp"
#include "lab/services/image_bytes.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace rocca::lab {

namespace {

using text::Value;

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  // Only fetched: what EVP_sha256() names is looked for anew at each digest.
  static EVP_MD* const kind = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, kind, nullptr);
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

[[noreturn]] void reject(std::string text) {
  throw Error(Fault::Rejected, std::move(text));
}

/// Refuses keys that are not named; the factory decodes strictly.
void only(const Value& value, std::initializer_list<std::string_view> known,
          std::string_view type) {
  for (const text::Entry& entry : value.entries())
    if (std::find(known.begin(), known.end(), entry.key) == known.end())
      reject(fmt::format("yaml: construct errors:\n  line {}: field {} not found in type {}",
                         entry.key_place.line, entry.key, type));
}

Value strings(const Value& list) {
  Value out = Value::list();
  for (const Value& item : list.items())
    if (!item.is_null()) out.append(Value::string(item.text()));
  return out;
}

void copy_strings(const Value* from, std::string_view key, Value& to) {
  const Value* list = from == nullptr ? nullptr : from->find(key);
  if (list == nullptr || !list->is_list()) return;
  Value out = strings(*list);
  if (out.size() != 0) to.set(key, std::move(out));
}

void copy_text(const Value& from, std::string_view key, Value& to) {
  const Value* found = from.find(key);
  if (found != nullptr && found->is_scalar() && !found->is_null() && !found->text().empty())
    to.set(key, Value::string(found->text()));
}

Value sorted(const Value& value) {
  if (value.is_map()) {
    std::vector<const text::Entry*> entries;
    for (const text::Entry& entry : value.entries()) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(),
              [](const auto* a, const auto* b) { return a->key < b->key; });
    Value out = Value::map();
    for (const text::Entry* entry : entries) out.set(entry->key, sorted(entry->value));
    return out;
  }
  if (value.is_list()) {
    Value out = Value::list();
    for (const Value& item : value.items()) out.append(sorted(item));
    return out;
  }
  return Value::scalar(value.kind(), value.text(), text::Style::Any);
}

Value customization(const Value& given) {
  only(given,
       {"embeddedMachineConfiguration", "extraKernelArgs", "meta", "systemExtensions", "bootloader",
        "secureboot", "diskImage"},
       "schematic.Customization");
  Value out = Value::map();
  copy_text(given, "embeddedMachineConfiguration", out);
  copy_strings(&given, "extraKernelArgs", out);
  if (const Value* meta = given.find("meta"); meta != nullptr && meta->size() != 0) {
    Value list = Value::list();
    for (const Value& item : meta->items()) {
      only(item, {"key", "value"}, "schematic.MetaValue");
      const Value* key = item.find("key");
      const auto number = key == nullptr ? std::optional<std::int64_t>{0} : key->as_int();
      if (!number || *number < 0 || *number > 255)
        reject(
            fmt::format("yaml: construct errors:\n  line {}: cannot construct !!int `{}` into "
                        "uint8",
                        item.place().line, key->text()));
      const Value* value = item.find("value");
      Value entry = Value::map();
      entry.set("key", Value::integer(*number));
      entry.set("value", Value::string(value == nullptr || value->is_null() ? "" : value->text()));
      list.append(std::move(entry));
    }
    out.set("meta", std::move(list));
  }
  if (const Value* extensions = given.find("systemExtensions"); extensions != nullptr) {
    only(*extensions, {"officialExtensions"}, "schematic.SystemExtensions");
    Value inner = Value::map();
    copy_strings(extensions, "officialExtensions", inner);
    if (inner.size() != 0) out.set("systemExtensions", std::move(inner));
  }
  if (const Value* loader = given.find("bootloader"); loader != nullptr && !loader->is_null()) {
    const std::string& kind = loader->text();
    if (kind != "none" && kind != "dual-boot" && kind != "sd-boot" && kind != "grub")
      reject(fmt::format("{} does not belong to BootloaderKind values", kind));
    if (kind != "none") out.set("bootloader", Value::string(kind));
  }
  if (const Value* boot = given.find("secureboot"); boot != nullptr && boot->is_map()) {
    only(*boot, {"enrollKeys", "includeWellKnownCertificates"},
         "schematic.SecureBootCustomization");
    Value inner = Value::map();
    copy_text(*boot, "enrollKeys", inner);
    const Value* known = boot->find("includeWellKnownCertificates");
    if (known != nullptr && known->as_bool() == true)
      inner.set("includeWellKnownCertificates", Value::boolean(true));
    if (inner.size() != 0) out.set("secureboot", std::move(inner));
  }
  if (const Value* size = given.find({"diskImage", "sectorSize"});
      size != nullptr && size->as_uint().value_or(0) != 0) {
    Value inner = Value::map();
    inner.set("sectorSize", Value::unsigned_integer(*size->as_uint()));
    out.set("diskImage", std::move(inner));
  }
  return out;
}

std::string json_list(const std::vector<std::string>& items) {
  Value list = Value::list();
  for (const std::string& item : items) list.append(Value::string(item));
  return text::emit_json(list);
}

/// Of "v1.11.5".
unsigned minor_of(const std::string& version) {
  const auto parts = split(version, '.');
  return parts.size() < 2 ? 0 : static_cast<unsigned>(parse_uint(parts[1]).value_or(0));
}

}  // namespace

ImageFactory::ImageFactory(std::string origin)
    : versions(talos_releases()), origin_(std::move(origin)) {
  for (const OfferedExtension& offered : offered_extensions())
    extensions.push_back({fmt::format("siderolabs/{}", offered.name),
                          fmt::format("ghcr.io/siderolabs/{}:latest", offered.name),
                          "sha256:" + sha256_hex(offered.name), "Sidero Labs",
                          fmt::format("[official] {}", offered.name), offered.first, offered.last});
}

ImageFactory::Schematic ImageFactory::read_schematic(std::string_view text) {
  Value given;
  try {
    const std::vector<Value> documents = text::parse_yaml_stream(text, "schematic");
    if (!documents.empty()) given = documents.front();
  } catch (const Error& error) {
    reject("yaml: " + error.message());
  }
  if (!given.is_map() && !given.is_null())
    reject(
        fmt::format("yaml: construct errors:\n  line 1: cannot construct !!{} into "
                    "schematic.Schematic",
                    given.is_list() ? "seq" : "str"));
  only(given, {"owner", "overlay", "customization"}, "schematic.Schematic");
  if (const Value* owner = given.find("owner"); owner != nullptr && !owner->text().empty())
    reject("owner field is only supported in Enterprise edition");
  Value out = Value::map();
  if (const Value* overlay = given.find("overlay"); overlay != nullptr && overlay->is_map()) {
    only(*overlay, {"image", "name", "options"}, "schematic.Overlay");
    Value inner = Value::map();
    copy_text(*overlay, "image", inner);
    copy_text(*overlay, "name", inner);
    if (const Value* options = overlay->find("options"); options != nullptr && options->size() != 0)
      inner.set("options", sorted(*options));
    if (inner.size() != 0) out.set("overlay", std::move(inner));
  }
  const Value* changes = given.find("customization");
  out.set("customization",
          changes == nullptr || changes->is_null() ? Value::map() : customization(*changes));
  Schematic schematic;
  schematic.canonical = text::emit_yaml(out, {.indent = 4});
  schematic.id = sha256_hex(schematic.canonical);
  return schematic;
}

std::string ImageFactory::add(std::string_view text) {
  Schematic schematic = read_schematic(text);
  schematics_[schematic.id] = std::move(schematic.canonical);
  return schematic.id;
}

const std::string* ImageFactory::find(std::string_view id) const {
  const auto found = schematics_.find(id);
  return found == schematics_.end() ? nullptr : &found->second;
}

std::optional<ImageFactory::Image> ImageFactory::image(std::string_view path,
                                                       std::string& why) const {
  const std::vector<std::string> parts = split(path, '/');  // "", image, schematic, version, file
  if (parts.size() != 5 || parts[1] != "image") {
    why = "not found";
    return std::nullopt;
  }
  if (find(parts[2]) == nullptr) {
    why = "schematic not found";
    return std::nullopt;
  }
  if (std::find(versions.begin(), versions.end(), parts[3]) == versions.end()) {
    why = fmt::format("version {} is not available", parts[3]);
    return std::nullopt;
  }
  Image image;
  image.name = parts[4];
  std::string rest = image.name;
  for (const char* suffix : {".xz", ".zst", ".gz"})
    if (rest.ends_with(suffix)) {
      image.compression = suffix + 1;
      rest.resize(rest.size() - std::string_view(suffix).size());
    }
  const auto dot = rest.rfind('.');
  const std::string kind = dot == std::string::npos ? "" : rest.substr(dot + 1);
  if (kind != "raw" && kind != "qcow2" && kind != "iso") {
    why = fmt::format("invalid profile path: \"{}\"", image.name);
    return std::nullopt;
  }
  rest.resize(dot);
  const bool secure = rest.ends_with("-secureboot");
  if (secure) rest.resize(rest.size() - 11);
  const auto dash = rest.rfind('-');
  const std::string arch = dash == std::string::npos ? "" : rest.substr(dash + 1);
  if (dash == std::string::npos) {
    why = fmt::format("invalid platform-arch: \"{}\"", rest);
    return std::nullopt;
  }
  if (arch != "amd64" && arch != "arm64") {
    why = fmt::format("invalid architecture: \"{}\"", arch);
    return std::nullopt;
  }
  const std::string platform = rest.substr(0, dash);
  image.facts.format = kind;
  image.facts.virtual_size = kind == "iso" ? 0 : std::uint64_t{1246} << 20;
  image.facts.identity = fmt::format("talos {} {} {}{}{}", parts[3], platform, parts[2],
                                     arch == "arm64" ? " arm64" : "", secure ? " secureboot" : "");
  image.bytes =
      image_bytes(image.facts,
                  image.compression.empty() ? kind : fmt::format("{}.{}", kind, image.compression));
  return image;
}

net::Handler ImageFactory::handler() {
  return [this](net::Incoming request, std::shared_ptr<net::Responder> responder) {
    const auto plain = [&](int status, std::string text) {
      responder->answer(status, "", {{"Content-Type", "text/plain; charset=utf-8"}},
                        std::move(text));
    };
    const auto json = [&](int status, std::string text) {
      responder->answer(status, "", {{"Content-Type", "application/json"}}, std::move(text));
    };
    const std::string path = request.target.substr(0, request.target.find('?'));
    if (request.method == "POST" && path == "/schematics") {
      try {
        const Schematic schematic = read_schematic(request.body);
        schematics_[schematic.id] = schematic.canonical;
        Value answer = Value::map();
        answer.set("id", Value::string(schematic.id));
        answer.set("schematic", Value::string(schematic.canonical));
        return json(201, text::emit_json(answer));
      } catch (const Error& error) {
        return plain(400, error.message() + "\n");
      }
    }
    if (request.method != "GET" && request.method != "HEAD")
      return plain(405, "method not allowed\n");
    if (path.starts_with("/schematics/")) {
      const std::string* found = find(path.substr(12));
      if (found == nullptr) return plain(404, "schematic not found\n");
      return responder->answer(200, "", {{"Content-Type", "application/yaml"}}, *found);
    }
    if (path == "/versions") return json(200, json_list(versions));
    if (path.starts_with("/version/") && path.ends_with("/extensions/official")) {
      const std::string version = split(path, '/')[2];
      if (std::find(versions.begin(), versions.end(), version) == versions.end())
        return plain(404, fmt::format("version {} is not available\n", version));
      Value list = Value::list();
      const unsigned minor = minor_of(version);
      for (const Extension& each : extensions) {
        if (minor < each.first_minor || minor > each.last_minor) continue;
        Value item = Value::map();
        item.set("name", Value::string(each.name));
        item.set("ref", Value::string(each.ref));
        item.set("digest", Value::string(each.digest));
        item.set("author", Value::string(each.author));
        item.set("description", Value::string(each.description));
        list.append(std::move(item));
      }
      return json(200, text::emit_json(list));
    }
    if (path.starts_with("/image/")) {
      if (path.ends_with(".sha256") || path.ends_with(".sha512"))
        return plain(402, "checksums are only available in Enterprise edition\n");
      std::string why;
      auto found = image(path, why);
      if (!found) return plain(why.starts_with("invalid") ? 400 : 404, why + "\n");
      if (truncate) found->bytes.resize(9);
      net::Headers headers{
          {"Content-Type", "application/octet-stream"},
          {"Content-Disposition", fmt::format("attachment; filename=\"{}\"", found->name)},
          {"Content-Length", std::to_string(found->bytes.size())}};
      return responder->answer(200, "", std::move(headers),
                               request.method == "HEAD" ? "" : found->bytes);
    }
    plain(404, "not found\n");
  };
}

void ImageFactory::serve(Web& web, const std::string& origin) {
  web.add_host(origin);
  web.add_source([this, origin](const std::string& url) -> std::optional<WebFile> {
    if (!url.starts_with(origin + "/image/")) return std::nullopt;
    std::string why;
    auto found = image(url.substr(origin.size()), why);
    if (!found) return std::nullopt;
    if (truncate) {
      found->bytes.resize(9);
      found->facts = {};  // what is cut boots nothing
    }
    WebFile file;
    file.bytes = found->bytes;
    file.size = found->bytes.size();
    file.compression = found->compression;
    file.inner_size = found->compression.empty() ? 0 : found->facts.virtual_size;
    file.image = found->facts;
    return file;
  });
}

}  // namespace rocca::lab
