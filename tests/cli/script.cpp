#include "script.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <optional>
#include <regex>

namespace rocca::clitest {

namespace {

constexpr std::string_view any_lines = "...";

/// The text behind `prefix`, if the line begins with it.
std::optional<std::string> behind(const std::string& line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return std::nullopt;
  return line.substr(prefix.size());
}

void drop_blank_end(std::vector<std::string>& lines) {
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
}

void finish(Step& step) {
  drop_blank_end(step.out);
  for (auto* lines : {&step.out, &step.err})
    for (std::string& line : *lines)
      if (line.starts_with('\\')) line.erase(0, 1);
}

}  // namespace

Script parse_script(std::string_view text, const std::string& name) {
  Script script;
  Step pending;  // gathers what stands before a command
  bool in_step = false;
  std::size_t number = 0;
  const auto broken = [&](std::string_view why) {
    return Error(Fault::Usage, fmt::format("{}:{}: {}", name, number, why));
  };
  for (std::string& line : split(text, '\n')) {
    ++number;
    Step* step = in_step ? &script.steps.back() : nullptr;
    const auto plain = behind(line, "$ ");
    const auto on_terminal = behind(line, "tty: $ ");
    if (plain || on_terminal) {
      Step next = pending;
      next.line = number;
      next.command = plain ? *plain : *on_terminal;
      next.terminal = on_terminal.has_value();
      script.steps.push_back(std::move(next));
      pending.files.clear();
      in_step = true;
    } else if (line.starts_with('#')) {
      continue;
    } else if (const auto program = behind(line, "needs ")) {
      script.needs.push_back(*program);
    } else if (const auto path = behind(line, "file ")) {
      pending.files.emplace_back(*path, "");
      in_step = false;
    } else if (line.starts_with('|') && !in_step) {
      if (pending.files.empty()) throw broken("content without a file");
      if (line.size() > 1 && line[1] != ' ') throw broken("`| ` begins a line of a file");
      pending.files.back().second += line.substr(std::min<std::size_t>(2, line.size())) + "\n";
    } else if (const auto setting = behind(line, "env ")) {
      const std::size_t equals = setting->find('=');
      pending.environment.erase(setting->substr(0, equals));
      if (equals != std::string::npos)
        pending.environment[setting->substr(0, equals)] = setting->substr(equals + 1);
      in_step = false;
    } else if (step == nullptr) {
      if (!trim(line).empty()) throw broken("this belongs to no command: " + line);
    } else if (const auto typed = behind(line, "input: ")) {
      step->input += *typed + "\n";
    } else if (line == "stderr:") {
      step->err.emplace_back();
    } else if (const auto err = behind(line, "stderr: ")) {
      step->err.push_back(*err);
    } else if (const auto code = behind(line, "exit ")) {
      const auto value = parse_int(*code);
      if (!value) throw broken("`exit` takes a number");
      step->exit = static_cast<int>(*value);
    } else {
      step->out.push_back(line);
    }
  }
  for (Step& step : script.steps) finish(step);
  if (script.steps.empty()) throw broken("a script without a command proves nothing");
  return script;
}

bool fits(const std::string& expected, const std::string& line) {
  if (expected.find("{{") == std::string::npos) return expected == line;
  std::string pattern;
  const auto literal = [&](std::string_view text) {
    for (const char c : text) {
      if (std::string_view{R"(\^$.|?*+()[]{})"}.find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  };
  std::string_view rest = expected;
  for (;;) {
    const std::size_t open = rest.find("{{");
    literal(rest.substr(0, open));
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find("}}", open);
    if (close == std::string_view::npos)
      throw Error(Fault::Usage, "a {{ without its }}: " + expected);
    pattern += fmt::format("(?:{})", rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  return std::regex_match(line, std::regex{pattern});
}

bool all_fit(const std::vector<std::string>& expected, const std::vector<std::string>& lines) {
  // reach[j]: the expectations so far can stand for the first j lines
  std::vector<bool> reach(lines.size() + 1, false);
  reach[0] = true;
  for (const std::string& one : expected) {
    std::vector<bool> next(lines.size() + 1, false);
    if (one == any_lines) {
      bool seen = false;
      for (std::size_t j = 0; j <= lines.size(); ++j) next[j] = seen = seen || reach[j];
    } else {
      for (std::size_t j = 0; j < lines.size(); ++j) next[j + 1] = reach[j] && fits(one, lines[j]);
    }
    reach = std::move(next);
  }
  return reach[lines.size()];
}

std::string difference(const std::vector<std::string>& expected,
                       const std::vector<std::string>& lines) {
  const std::size_t n = expected.size();
  const std::size_t m = lines.size();
  const auto same = [&](std::size_t i, std::size_t j) { return fits(expected[i], lines[j]); };
  // common[i][j]: how many lines can be kept from expectation i and line j on
  std::vector<std::vector<std::size_t>> common(n + 1, std::vector<std::size_t>(m + 1, 0));
  for (std::size_t i = n; i-- > 0;)
    for (std::size_t j = m; j-- > 0;) {
      common[i][j] = std::max(common[i + 1][j], common[i][j + 1]);
      if (expected[i] == any_lines)
        common[i][j] = std::max(common[i][j], common[i][j + 1] + 1);
      else if (same(i, j))
        common[i][j] = std::max(common[i][j], common[i + 1][j + 1] + 1);
    }
  std::string text;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < n || j < m) {
    const bool both = i < n && j < m;
    if (both && expected[i] != any_lines && same(i, j) &&
        common[i][j] == common[i + 1][j + 1] + 1) {
      text += "  " + lines[j++] + "\n";
      ++i;
    } else if (both && expected[i] == any_lines && common[i][j] == common[i][j + 1] + 1) {
      text += "  " + lines[j++] + "\n";
    } else if (i < n && (j == m || common[i + 1][j] >= common[i][j + 1])) {
      if (expected[i] != any_lines) text += "- " + expected[i] + "\n";
      ++i;
    } else {
      text += "+ " + lines[j++] + "\n";
    }
  }
  return text;
}

std::vector<std::string> to_lines(std::string_view output) {
  if (output.empty()) return {};
  auto lines = split(output, '\n');
  if (lines.back().empty()) {
    lines.pop_back();
    drop_blank_end(lines);  // as in the script, blank lines at the end do not count
  } else {
    lines.back() += " (no newline)";
  }
  return lines;
}

}  // namespace rocca::clitest
