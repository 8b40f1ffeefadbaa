#pragma once

#include "talosconfig/codec.hpp"

#include <string>
#include <vector>

namespace rocca::talos {

/// One `$patch: delete` of a patch document.
struct Deletion {
  std::string document;           // id of the document, as ConfigDocument::id
  bool whole = false;             // the document itself
  std::vector<std::string> path;  // keys; for an item of a list the last one is "[n]" in the patch
  std::string key;                // of a list: which item
  std::string value;
  text::Place place;

  std::string path_text() const;
};

/// Takes the deletions out of a patch document. Throws Error(Usage) for those that Talos does not
/// take. `document` is left with the rest; empty(): nothing but its kind and name is left.
std::vector<Deletion> take_deletions(text::Value& document, const std::string& patch);
bool is_empty_patch_document(const text::Value& document);

/// Throws Error(Usage) if the item is not there. A key that is not there counts as deleted.
void delete_from(ConfigDocument& document, const Deletion& deletion, unsigned minor,
                 const std::string& patch);

}  // namespace rocca::talos
