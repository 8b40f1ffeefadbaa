#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca {

/// A place in a file a user wrote; line and column count from 1, column in characters. Line 0: the
/// whole file.
struct Position {
  std::string file;
  std::size_t line = 0;
  std::size_t column = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

std::string to_string(const Position& position);  // "cluster.yaml:18:5"

enum class Severity { Error, Warning, Note };

/// One thing that is wrong (or doubtful) in a user's file.
struct Problem {
  Severity severity = Severity::Error;
  Position where;
  std::size_t length = 1;  // characters the caret line underlines
  std::string message;
  std::string hint;
  std::string code;  // short stable name for `explain`, e.g. "unknown-key"
};

/// All problems of one look at a user's files. A stage adds to it and goes on as far as it can.
class Diagnostics {
 public:
  Problem& error(Position where, std::string message);
  Problem& warning(Position where, std::string message);
  Problem& note(Position where, std::string message);
  void add(Problem problem) { problems_.push_back(std::move(problem)); }

  bool has_errors() const noexcept;
  bool empty() const noexcept { return problems_.empty(); }
  std::size_t count(Severity severity) const noexcept;
  const std::vector<Problem>& problems() const noexcept { return problems_; }

  /// Remembers a file's text, so that render() can show the line with a caret under the place.
  void remember(std::string file, std::string text);

  /// Every problem by file and line: `file:line:column: error: message`, the line, a caret, the
  /// hint.
  std::string render() const;

  /// Throws an Error(Usage) that says how many problems there are, if any of them is an error.
  void throw_if_errors(std::string_view what) const;

 private:
  struct Source {
    std::string file;
    std::string text;
  };
  const std::string* find_source(std::string_view file) const noexcept;

  std::vector<Problem> problems_;
  std::vector<Source> sources_;
};

/// The candidate a mistyped word most likely meant, if one is near enough to be worth saying.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

/// " (did you mean `x`?)" or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rocca
