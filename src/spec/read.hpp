#pragma once

#include "base/files.hpp"
#include "spec/tree.hpp"
#include "spec/validation/findings.hpp"

#include <string>
#include <string_view>

namespace rocca::spec {

/// Path arithmetic on plain strings: the folder of a path ("" for a bare name), and a path below a
/// folder with `.` and
/// `..` taken out where that is certain.
std::string folder_of(const std::string& path);
std::string path_below(const std::string& folder, const std::string& path);

/// Parses a YAML text into findings; null after a syntax error, which is then a finding with
/// `code`.
TreePtr parse_into(std::string_view text, std::uint32_t file, std::string_view code,
                   Findings& findings);

/// A spec's text and all its bases, cleaned, merged and completed; null when nothing can be made of
/// it.
TreePtr read_merged(Files& files, std::string_view text, const std::string& name,
                    const std::string& folder, Findings& findings);

}  // namespace rocca::spec
