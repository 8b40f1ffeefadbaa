#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::test {

/// ROCCA_SHARED from the environment, or the folder the build was told. The reference tier's main
/// has made sure that it is there.
std::string shared_folder();

/// Every file below ROCCA_SHARED/`folder` (sorted, with its whole path) whose name ends in
/// `ending`. README.md is never one of them.
std::vector<std::string> reference_files(std::string_view folder, std::string_view ending = "");

std::string read_file(const std::string& path);

/// Counts what was run; the main prints the sum, and a run that counted nothing fails.
void count_case(std::size_t cases = 1);
std::size_t counted_cases();

}  // namespace rocca::test
