#pragma once

#include <string>
#include <string_view>

namespace rocca::test {

/// Compares text that a user reads with tests/golden/NAME. With UPDATE_GOLDEN=1 the file is
/// rewritten and the test counts as skipped, never as passed.
void expect_golden(std::string_view name, std::string_view text);

/// The root of the source tree, for fixtures.
std::string source_folder();

}  // namespace rocca::test
