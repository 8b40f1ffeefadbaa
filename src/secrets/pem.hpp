#pragma once

#include "base/secret.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::secrets {

/// One `-----BEGIN LABEL-----` block.
struct PemBlock {
  std::string label;
  Secret der;
};

/// Every block of a text, strictly: lines of base64 between matching marks, no headers; white space
/// around blocks is all that may stand outside. Throws Error(Usage) that says what is wrong; `what`
/// names the value.
std::vector<PemBlock> parse_pem(std::string_view text, std::string_view what);
/// Exactly one block.
PemBlock parse_one_pem(std::string_view text, std::string_view what);

/// Lines of 64 columns and a newline at the end, as Go and OpenSSL write it.
Secret to_pem(std::string_view label, std::string_view der);

}  // namespace rocca::secrets
