#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::test {

/// Reference data beside the tree: ROCCA_SHARED from the environment, or the folder the build was
/// told. It holds what is not ours to distribute, and may hold newer recordings than the tree.
std::string shared_folder();

/// The folder of `name` ("pve", "talos/patches/cases") or the file of that name: in ROCCA_SHARED's
/// `vectors/` if it is there, otherwise in the tree's own `tests/reference/`.
std::string reference_path(std::string_view name);

/// Every file below `folder` whose name ends in `ending`, sorted by its name below the folder, from
/// the tree and from ROCCA_SHARED together. A file that both have is taken from ROCCA_SHARED.
/// README.md is never one of them. Without data for `folder` the test is skipped (see
/// reference_missing).
std::vector<std::string> reference_files(std::string_view folder, std::string_view ending = "");

/// A file below ROCCA_SHARED that is never part of the tree, such as Proxmox's own API schema.
std::optional<std::string> find_shared(std::string_view name);

/// Folders and files that were asked for and exist nowhere; the main says so.
const std::vector<std::string>& reference_missing();

std::string read_file(const std::string& path);

/// Counts what was run; the main prints the sum, and a run that counted nothing fails.
void count_case(std::size_t cases = 1);
std::size_t counted_cases();

}  // namespace rocca::test
