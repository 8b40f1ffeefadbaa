#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rocca::cli {

struct Context;
class Invocation;

enum class FlagKind { Switch, Text, Number, Choice, Duration, Size };

/// One flag of a command. Everything that is said about it (parsing, help, completion, man page,
/// variable) comes from here.
struct Flag {
  std::string name;  // without `--`
  char letter = '\0';
  FlagKind kind = FlagKind::Switch;
  std::string value = "";  // what help calls its value: `FORMAT`
  std::vector<std::string> choices = {};
  std::string fallback = "";  // the value when nobody gives one; "" means absent
  std::string help;
  bool repeats = false;  // may be given more than once

  bool takes_value() const { return kind != FlagKind::Switch; }
};

/// `ROCCA_DRY_RUN` for `--dry-run`.
std::string variable_of(const Flag& flag);
/// `-o, --output FORMAT`.
std::string spelling_of(const Flag& flag);

enum class Arity { One, Optional, Any };
/// What a shell offers in an argument's place.
enum class Offer { Nothing, Choices, Files, Clusters, Commands };

struct Argument {
  std::string name;  // `CLUSTER`
  Arity arity = Arity::One;
  Offer offer = Offer::Nothing;
  std::string help;
  std::vector<std::string> choices = {};
};

struct Example {
  std::string line;
  std::string what;
};

/// One command: an entry of the table in catalog.cpp, and a function in a file of its own.
struct Command {
  std::string name;  // `version`; nested commands have a blank: `secrets encrypt`
  std::string group;
  std::string summary;  // one line, no full stop
  std::string description = "";
  std::vector<Argument> arguments = {};
  std::vector<Flag> flags = {};
  std::vector<Example> examples = {};
  int (*run)(Context&, const Invocation&) = nullptr;
};

using Catalog = std::vector<Command>;

/// The commands of rocca in the order of its help.
Catalog catalog();

/// Flags that every command takes: `--color`, `--help`.
const std::vector<Flag>& common_flags();
/// `-o, --output text|json|yaml`, for commands that print data.
Flag output_flag();
/// `--steps`, for commands that show a plan.
Flag steps_flag();
/// The flags of both lists.
std::vector<Flag> joined(std::vector<Flag> first, const std::vector<Flag>& second);
/// `[CLUSTER]`: a name, a folder or a file, by default the cluster around the working directory.
Argument cluster_argument();

/// The command, or nullptr.
const Command* find_command(const Catalog& catalog, std::string_view name);
/// The flag of that name among the command's own and the common ones, or nullptr.
const Flag* find_flag(const Command& command, std::string_view name);
/// Is it the first word of nested commands: `secrets`.
bool is_prefix(const Catalog& catalog, std::string_view name);
/// The commands below a first word, or the top level's words for "".
std::vector<std::string> words_below(const Catalog& catalog, std::string_view prefix);

}  // namespace rocca::cli
