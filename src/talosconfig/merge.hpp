#pragma once

#include "talosconfig/codec.hpp"
#include "text/value.hpp"

#include <string>
#include <string_view>
#include <vector>

/// Patches of machine configurations, with Talos's own rules: what a merge appends, replaces,
/// ignores or loses is what Talos appends, replaces, ignores and loses.
namespace rocca::talos {

struct ConfigPatch {
  enum class Form { Merge, Json };
  Form form = Form::Merge;
  std::string name;  // for messages
  std::vector<text::Value> documents;
};

/// A list is a JSON patch (RFC 6902), everything else documents to merge. Nothing at all is a JSON
/// patch without operations, as in Talos.
ConfigPatch read_patch(std::string_view text, std::string name);

/// Throws Error(Usage) that names the patch, the place and the reason: an unknown key or kind, a
/// value of the wrong type, a `$patch: delete` of something that is not there.
std::vector<ConfigDocument> merged(std::vector<ConfigDocument> config, const ConfigPatch& patch,
                                   unsigned minor);

/// RFC 6902 as Talos applies it: only to a configuration of one document, and `replace` of a key
/// that is not there adds it.
text::Value json_patched(text::Value document, const ConfigPatch& patch);

/// All patches in order. Without any, the text stays as it is, byte for byte; after a strategic
/// merge it is in Talos's order of keys, after a JSON patch in alphabetical order.
std::string patched_config(std::string_view config, std::string_view name,
                           const std::vector<ConfigPatch>& patches, unsigned minor);

}  // namespace rocca::talos
