#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::clitest {

/// One command of a script with everything that is expected of it.
struct Step {
  std::size_t line = 0;
  std::string command;
  bool terminal = false;
  std::string input;
  std::vector<std::string> out;  // with {{…}} and `...`
  std::vector<std::string> err;
  int exit = 0;
  std::vector<std::pair<std::string, std::string>> files;  // to be made before it
  std::map<std::string, std::string> environment;
};

struct Script {
  std::vector<std::string> needs;
  std::vector<Step> steps;
};

/// Throws Error(Usage) with the line for what is not in the format (README.md).
Script parse_script(std::string_view text, const std::string& name);

/// Does the line fit the expectation, whose {{…}} parts are regular expressions?
bool fits(const std::string& expected, const std::string& line);
/// Do the lines fit, where `...` stands for any number of them?
bool all_fit(const std::vector<std::string>& expected, const std::vector<std::string>& lines);

/// `-` expected, `+` what came, blank for what fits.
std::string difference(const std::vector<std::string>& expected,
                       const std::vector<std::string>& lines);

/// The lines of an output; a last line without its newline says so.
std::vector<std::string> to_lines(std::string_view output);

}  // namespace rocca::clitest
