#pragma once

#include "spec/fields.hpp"
#include "spec/tree.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace rocca::spec {

/// Why a scalar is not what its field takes.
struct Complaint {
  std::string_view code;
  std::string message;
  std::string hint;
};

/// Checks one scalar against the field's type; nothing when it is right.
std::optional<Complaint> check_scalar(const Field& field, const Tree& scalar);

/// The five fields of cron: numbers, `*`, lists, ranges, steps.
bool is_cron(std::string_view text);
/// scheme://host…, or git's user@host:path.
bool is_url(std::string_view text);
/// A password written into a URL: https://ann:secret@host.
bool has_password(std::string_view url);
bool is_sha256_hex(std::string_view text);

}  // namespace rocca::spec
