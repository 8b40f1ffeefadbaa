#include "base/error.hpp"
#include "base/strings.hpp"
#include "factory/schematic.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::factory {

namespace {

using text::Kind;
using text::Value;

/// The factory reads one document and never looks at what follows. For a document in braces that is
/// everything behind the closing one, valid or not.
std::string_view first_document(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || text[begin] != '{') return text;
  int depth = 0;
  char quote = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == '\\' && quote == '"') ++at;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return text.substr(0, at + 1);
    }
  }
  return text;
}

class Reader {
 public:
  Reader(const std::string& file, Diagnostics& problems) : file_(file), problems_(problems) {}

  std::optional<Schematic> read(const Value& root) {
    Schematic schematic;
    if (root.is_null()) return schematic;
    if (!is_map(root, "a schematic")) return std::nullopt;
    each(root, "", {"owner", "overlay", "customization"},
         [&](const std::string& key, const Value& value) {
           if (key == "owner" && !string(value, "owner").empty())
             complain(value, "owner is only for the factory's Enterprise edition", "leave it out");
           if (key == "overlay") read_overlay(value, schematic.overlay);
           if (key == "customization") read_customization(value, schematic);
         });
    if (failed_) return std::nullopt;
    return schematic;
  }

  void complain(const Value& value, const std::string& message, const std::string& hint = "") {
    Problem& problem = problems_.error({file_, value.place().line, value.place().column}, message);
    problem.hint = hint;
    problem.code = "schematic";
    failed_ = true;
  }

 private:
  bool is_map(const Value& value, const std::string& path) {
    if (!value.is_map())
      complain(value, fmt::format("{} must be a map, not a {}", path, to_string(value.kind())));
    return value.is_map();
  }

  template <class Take>
  void each(const Value& map, const std::string& path, const std::vector<std::string>& known,
            Take&& take) {
    for (const text::Entry& entry : map.entries()) {
      if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
        take(entry.key, entry.value);
        continue;
      }
      Problem& problem = problems_.error({file_, entry.key_place.line, entry.key_place.column},
                                         fmt::format("a schematic has no `{}{}`{}", path, entry.key,
                                                     did_you_mean(entry.key, known)));
      problem.length = entry.key.size();
      problem.code = "unknown-key";
      failed_ = true;
    }
  }

  /// Numbers and booleans stand for their text, as the factory takes them.
  std::string string(const Value& value, const std::string& path) {
    if (value.is_null()) return "";
    if (!value.is_scalar()) {
      complain(value, fmt::format("{} must be a string, not a {}", path, to_string(value.kind())));
      return "";
    }
    if (!is_stable_text(value.text())) {
      Problem& problem =
          problems_.warning({file_, value.place().line, value.place().column},
                            path +
                                " begins with an empty line (or is `<<`): its id depends on the "
                                "version of the factory");
      problem.hint = "take the leading empty lines away";
      problem.code = "schematic";
    }
    return value.text();
  }

  std::vector<std::string> list_of_strings(const Value& value, const std::string& path) {
    std::vector<std::string> texts;
    if (value.is_null()) return texts;
    if (!value.is_list()) {
      complain(value, fmt::format("{} must be a list, not a {}", path, to_string(value.kind())));
      return texts;
    }
    for (const Value& item : value.items())
      if (!item.is_null()) texts.push_back(string(item, path));
    return texts;
  }

  std::uint64_t number(const Value& value, const std::string& path, std::uint64_t limit) {
    if (value.is_null()) return 0;
    const auto found = value.kind() == Kind::Int ? value.as_uint() : std::nullopt;
    if (!found || *found > limit) {
      complain(value, limit == 255 ? path + " must be a number from 0 to 255"
                                   : path + " must be a whole number");
      return 0;
    }
    return *found;
  }

  bool boolean(const Value& value, const std::string& path) {
    if (value.is_null()) return false;
    const auto found = value.as_bool();
    if (value.kind() != Kind::Bool || !found) complain(value, path + " must be true or false");
    return found.value_or(false);
  }

  void read_overlay(const Value& value, Overlay& overlay) {
    if (value.is_null() || !is_map(value, "overlay")) return;
    each(value, "overlay.", {"image", "name", "options"},
         [&](const std::string& key, const Value& inner) {
           if (key == "image") overlay.image = string(inner, "overlay.image");
           if (key == "name") overlay.name = string(inner, "overlay.name");
           if (key == "options" && !inner.is_null() && is_map(inner, "overlay.options"))
             overlay.options = inner;
         });
  }

  void read_customization(const Value& value, Schematic& schematic) {
    if (value.is_null() || !is_map(value, "customization")) return;
    const std::vector<std::string> known{"embeddedMachineConfiguration",
                                         "extraKernelArgs",
                                         "meta",
                                         "systemExtensions",
                                         "bootloader",
                                         "secureboot",
                                         "diskImage"};
    each(value, "customization.", known, [&](const std::string& key, const Value& inner) {
      const std::string path = "customization." + key;
      if (key == "embeddedMachineConfiguration") schematic.embedded_config = string(inner, path);
      if (key == "extraKernelArgs") schematic.kernel_args = list_of_strings(inner, path);
      if (key == "meta") read_meta(inner, schematic);
      if (key == "bootloader") read_bootloader(inner, schematic);
      if (inner.is_null()) return;
      if (key == "systemExtensions" && is_map(inner, path))
        each(inner, path + ".", {"officialExtensions"},
             [&](const std::string& name, const Value& list) {
               schematic.extensions = list_of_strings(list, path + "." + name);
             });
      if (key == "secureboot" && is_map(inner, path)) read_secureboot(inner, schematic);
      if (key == "diskImage" && is_map(inner, path))
        each(inner, path + ".", {"sectorSize"}, [&](const std::string& name, const Value& size) {
          schematic.sector_size = number(size, path + "." + name, ~std::uint64_t{0});
        });
    });
  }

  void read_meta(const Value& value, Schematic& schematic) {
    if (value.is_null()) return;
    if (!value.is_list()) {
      complain(value,
               fmt::format("customization.meta must be a list, not a {}", to_string(value.kind())));
      return;
    }
    for (const Value& item : value.items()) {
      MetaValue meta;
      if (!item.is_null() && is_map(item, "an item of customization.meta"))
        each(item, "customization.meta.", {"key", "value"},
             [&](const std::string& key, const Value& inner) {
               if (key == "key")
                 meta.key = static_cast<std::uint8_t>(number(inner, "customization.meta.key", 255));
               if (key == "value") meta.value = string(inner, "customization.meta.value");
             });
      if (!item.is_null()) schematic.meta.push_back(std::move(meta));
    }
  }

  void read_bootloader(const Value& value, Schematic& schematic) {
    if (value.is_null()) return;
    const std::vector<std::string> kinds{"dual-boot", "sd-boot", "grub", "none"};
    const std::string kind = string(value, "customization.bootloader");
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
      complain(value, fmt::format("customization.bootloader is none of {}{}",
                                  enumerate(kinds, "or"), did_you_mean(kind, kinds)));
    else if (kind != "none")
      schematic.bootloader = kind;
  }

  void read_secureboot(const Value& value, Schematic& schematic) {
    each(value, "customization.secureboot.", {"enrollKeys", "includeWellKnownCertificates"},
         [&](const std::string& key, const Value& inner) {
           const std::string path = "customization.secureboot." + key;
           if (key == "enrollKeys") schematic.enroll_keys = string(inner, path);
           if (key == "includeWellKnownCertificates")
             schematic.well_known_certificates = boolean(inner, path);
         });
  }

  const std::string& file_;
  Diagnostics& problems_;
  bool failed_ = false;
};

}  // namespace

std::optional<Schematic> read_schematic(std::string_view yaml, const std::string& file,
                                        Diagnostics& problems) {
  Reader reader(file, problems);
  std::vector<Value> documents;
  try {
    documents = text::parse_yaml_stream(first_document(yaml), file);
  } catch (const Error& error) {
    reader.complain(Value(), error.message(), error.hint());
    return std::nullopt;
  }
  if (documents.empty()) {
    reader.complain(Value(), "the schematic is empty", "`customization: {}` is the smallest one");
    return std::nullopt;
  }
  return reader.read(documents.front());
}

}  // namespace rocca::factory
