#pragma once

#include "spec/fields.hpp"
#include "spec/tree.hpp"
#include "spec/validation/findings.hpp"

#include <string>

namespace rocca::spec {

/// Checks one file's tree against the table: unknown keys, types, units, secrets in clear. Returns
/// the tree without what is wrong, shorthands written out, and paths made relative to the spec's
/// folder by putting `base` before them.
TreePtr clean(const TreePtr& tree, const FieldNode& field, const std::string& path,
              const std::string& base, Findings& findings);

/// Checks what can only be said once everything is merged: keys that are missing, and keys that
/// exclude each other. Drops nulls. Machines and images are left alone unless `heirs` is set: they
/// inherit first.
TreePtr complete(const TreePtr& tree, const FieldNode& field, const std::string& path,
                 const Where& where, bool heirs, Findings& findings);

/// Adds the table's defaults to a tree, in the table's order of keys.
TreePtr with_defaults(const TreePtr& tree, const FieldNode& field);

/// Does a key's name say that a credential stands behind it? A key that nobody knows may still hold
/// what its name says, and must not come up in the line that is shown.
bool sounds_secret(std::string_view key);

/// Does the text look like a credential (an age key, an API token, a PEM block)?
bool looks_like_secret(std::string_view text);

}  // namespace rocca::spec
