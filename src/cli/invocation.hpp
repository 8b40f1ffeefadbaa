#pragma once

#include "base/clock.hpp"
#include "base/units.hpp"
#include "cli/command.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::cli {

/// One command line, understood: every value is already checked against the table, so that the
/// getters only throw (Bug) for a name that the table does not have.
class Invocation {
 public:
  const Command& command() const { return *command_; }
  bool help() const { return is_set("help"); }

  /// A switch that was given, or any flag that has a value.
  bool is_set(std::string_view flag) const;
  /// The flag's value: given, from its variable, or its fallback.
  std::optional<std::string> find(std::string_view flag) const;
  std::string get(std::string_view flag) const;  // for flags with a fallback
  std::vector<std::string> all(std::string_view flag) const;
  std::optional<std::int64_t> number(std::string_view flag) const;
  std::optional<Duration> duration(std::string_view flag) const;
  std::optional<Bytes> size(std::string_view flag) const;

  std::optional<std::string> argument(std::string_view name) const;
  std::vector<std::string> arguments(std::string_view name) const;

 private:
  friend class Parser;

  const Flag& flag(std::string_view name) const;

  const Command* command_ = nullptr;
  std::map<std::string, std::vector<std::string>, std::less<>> flags_;
  std::map<std::string, std::vector<std::string>, std::less<>> arguments_;
};

/// What a command line asks for: run a command, show the help of a command or of a family of
/// commands, or (nothing given) the short help.
struct Request {
  enum class Kind { Run, Help };
  Kind kind = Kind::Help;
  std::string topic;  // of the help: "", a command, or the first word of nested commands
  Invocation invocation = {};
};

/// Reads the words after the program's name. Error(Usage) with the nearest spelling for what the
/// table does not know.
Request parse(const Catalog& catalog, const std::vector<std::string>& words,
              const std::map<std::string, std::string>& environment);

}  // namespace rocca::cli
