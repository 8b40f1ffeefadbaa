#include "cli/invocation.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::cli {

namespace {

/// The text of a switch in its variable or behind `=`.
std::optional<bool> parse_switch(std::string_view text) {
  const std::string word = to_lower(text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

/// What is wrong with a value, or nothing.
std::optional<std::string> complaint(const Flag& flag, const std::string& value) {
  switch (flag.kind) {
    case FlagKind::Switch:
      if (!parse_switch(value)) return "true or false";
      break;
    case FlagKind::Text:
      if (value.empty()) return "a text that is not empty";
      break;
    case FlagKind::Number:
      if (!parse_int(value)) return "a whole number";
      break;
    case FlagKind::Choice:
      if (std::find(flag.choices.begin(), flag.choices.end(), value) == flag.choices.end())
        return enumerate(flag.choices, "or");
      break;
    case FlagKind::Duration:
      if (!parse_duration(value)) return "a duration such as 90s, 10m or 1h30m";
      break;
    case FlagKind::Size:
      if (!Bytes::parse(value)) return "a size such as 512MiB or 8GiB";
      break;
  }
  return std::nullopt;
}

void check(const Flag& flag, const std::string& value, const std::string& shown) {
  if (const auto wanted = complaint(flag, value))
    throw Error(Fault::Usage, fmt::format("{} takes {}, not '{}'{}", shown, *wanted, value,
                                          did_you_mean(value, flag.choices)));
}

}  // namespace

bool Invocation::is_set(std::string_view name) const {
  const auto found = flags_.find(name);
  if (flag(name).kind == FlagKind::Switch)
    return found != flags_.end() && parse_switch(found->second.back()) == true;
  return find(name).has_value();
}

std::optional<std::string> Invocation::find(std::string_view name) const {
  const Flag& known = flag(name);
  if (const auto found = flags_.find(name); found != flags_.end()) return found->second.back();
  return known.fallback.empty() ? std::nullopt : std::optional{known.fallback};
}

std::string Invocation::get(std::string_view name) const {
  auto value = find(name);
  if (!value) throw Error(Fault::Bug, fmt::format("--{} has no value and no fallback", name));
  return *std::move(value);
}

std::vector<std::string> Invocation::all(std::string_view name) const {
  flag(name);
  const auto found = flags_.find(name);
  return found == flags_.end() ? std::vector<std::string>{} : found->second;
}

std::optional<std::int64_t> Invocation::number(std::string_view name) const {
  const auto value = find(name);
  return value ? parse_int(*value) : std::nullopt;
}

std::optional<Duration> Invocation::duration(std::string_view name) const {
  const auto value = find(name);
  return value ? parse_duration(*value) : std::nullopt;
}

std::optional<Bytes> Invocation::size(std::string_view name) const {
  const auto value = find(name);
  return value ? Bytes::parse(*value) : std::nullopt;
}

std::optional<std::string> Invocation::argument(std::string_view name) const {
  const auto values = arguments(name);
  return values.empty() ? std::nullopt : std::optional{values.front()};
}

std::vector<std::string> Invocation::arguments(std::string_view name) const {
  const auto& known = command_->arguments;
  if (std::none_of(known.begin(), known.end(), [&](const auto& one) { return one.name == name; }))
    throw Error(Fault::Bug, fmt::format("`rocca {}` has no argument {}", command_->name, name));
  const auto found = arguments_.find(name);
  return found == arguments_.end() ? std::vector<std::string>{} : found->second;
}

const Flag& Invocation::flag(std::string_view name) const {
  const Flag* found = find_flag(*command_, name);
  if (found == nullptr)
    throw Error(Fault::Bug, fmt::format("`rocca {}` has no flag --{}", command_->name, name));
  return *found;
}

/// The command for a word that other tools use; nullptr if the word is not one of theirs.
const char* our_word_for(std::string_view word) {
  static constexpr std::pair<std::string_view, const char*> words[] = {
      {"create", "up"},      {"deploy", "up"},     {"bootstrap", "up"}, {"destroy", "down"},
      {"delete", "down"},    {"remove", "down"},   {"rm", "down"},      {"diff", "plan"},
      {"preview", "plan"},   {"show", "status"},   {"get", "status"},   {"health", "status"},
      {"check", "validate"}, {"lint", "validate"}, {"import", "adopt"}, {"generate", "new"}};
  for (const auto& [theirs, ours] : words)
    if (word == theirs) return ours;
  return nullptr;
}

/// Two passes: words and flags are told apart first, because a flag may stand before its command
/// and only the table says whether the next word is its value.
class Parser {
 public:
  Parser(const Catalog& catalog, const std::map<std::string, std::string>& environment)
      : catalog_(catalog), environment_(environment) {}

  Request parse(const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (rest_are_words_ || word.size() < 2 || word.front() != '-') {
        take_word(word);
      } else if (word == "--") {
        rest_are_words_ = true;
      } else if (word.starts_with("--")) {
        take_long(words, i);
      } else {
        take_letters(words, i);
      }
    }
    return finish();
  }

 private:
  struct Given {
    std::string name;   // "" if no command knows it
    std::string shown;  // as the user wrote it, without the value
    std::string value;
  };

  void take_word(const std::string& word) {
    // Words belong to the command as long as the table knows a longer one.
    const std::string longer = command_name_.empty() ? word : command_name_ + " " + word;
    const bool may_grow = arguments_.empty() &&
                          (!rest_are_words_ || find_command(catalog_, command_name_) == nullptr);
    if (may_grow && (find_command(catalog_, longer) != nullptr || is_prefix(catalog_, longer))) {
      command_name_ = longer;
      return;
    }
    if (find_command(catalog_, command_name_) == nullptr) {
      // With a mistake in the command nothing that follows can be judged; the first such word is
      // the one to name.
      if (unknown_command_.empty()) unknown_command_ = word;
      return;
    }
    arguments_.push_back(word);
  }

  void take_long(const std::vector<std::string>& words, std::size_t& i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    const std::string shown = word.substr(0, equals);
    const Flag* flag = any_flag([&](const Flag& one) { return "--" + one.name == shown; });
    if (flag == nullptr) return given_.push_back({"", shown, ""});
    if (equals != std::string::npos) {
      given_.push_back({flag->name, shown, word.substr(equals + 1)});
    } else if (flag->takes_value()) {
      given_.push_back({flag->name, shown, next_word(words, i, shown)});
    } else {
      given_.push_back({flag->name, shown, "true"});
    }
  }

  /// `-o json`, `-ojson`, `-o=json`, and switches together: `-yh`.
  void take_letters(const std::vector<std::string>& words, std::size_t& i) {
    const std::string& word = words[i];
    for (std::size_t at = 1; at < word.size(); ++at) {
      const std::string shown{'-', word[at]};
      const Flag* flag = any_flag([&](const Flag& one) { return one.letter == word[at]; });
      if (flag == nullptr) return given_.push_back({"", at == 1 ? word : shown, ""});
      if (!flag->takes_value()) {
        given_.push_back({flag->name, shown, "true"});
        continue;
      }
      std::string value = word.substr(at + 1);
      if (value.starts_with('=')) {
        value.erase(0, 1);
      } else if (value.empty()) {
        value = next_word(words, i, shown);
      }
      return given_.push_back({flag->name, shown, value});
    }
  }

  static std::string next_word(const std::vector<std::string>& words, std::size_t& i,
                               const std::string& shown) {
    const bool there = i + 1 < words.size();
    // `--output --color never` forgot a value far more often than it means the text `--color`.
    if (!there ||
        (words[i + 1].size() > 1 && words[i + 1].front() == '-' && !parse_int(words[i + 1])))
      throw Error(Fault::Usage, fmt::format("{} needs a value", shown))
          .hint(fmt::format("write {}=VALUE if the value begins with a dash", shown));
    return words[++i];
  }

  template <class Match>
  const Flag* any_flag(Match match) const {
    for (const Flag& flag : common_flags())
      if (match(flag)) return &flag;
    for (const Command& command : catalog_)
      for (const Flag& flag : command.flags)
        if (match(flag)) return &flag;
    return nullptr;
  }

  Request finish() {
    if (!unknown_command_.empty()) throw unknown_command();
    const Command* command = find_command(catalog_, command_name_);
    const bool help = std::any_of(given_.begin(), given_.end(),
                                  [](const Given& one) { return one.name == "help"; });
    if (command == nullptr) {
      if (!command_name_.empty() && !help)
        throw Error(Fault::Usage,
                    fmt::format("`rocca {}` needs one of {}", command_name_,
                                enumerate(words_below(catalog_, command_name_), "or")))
            .hint(fmt::format("rocca {} --help", command_name_));
      const Command none{.name = "", .group = "", .summary = ""};
      for (const Given& one : given_)
        if (find_flag(none, one.name) == nullptr) throw unknown_flag(one, none);
      return {.topic = command_name_};
    }

    Request request{.kind = Request::Kind::Run, .topic = command_name_};
    Invocation& invocation = request.invocation;
    invocation.command_ = command;
    for (const Given& one : given_) take_flag(invocation, one);
    if (invocation.help()) {
      request.kind = Request::Kind::Help;
      return request;
    }
    take_variables(invocation);
    take_arguments(invocation);
    return request;
  }

  void take_flag(Invocation& invocation, const Given& one) {
    const Flag* flag = find_flag(*invocation.command_, one.name);
    if (flag == nullptr) throw unknown_flag(one, *invocation.command_);
    auto& values = invocation.flags_[flag->name];
    if (!values.empty() && !flag->repeats)
      throw Error(Fault::Usage, fmt::format("--{} is given twice", flag->name));
    check(*flag, one.value, one.shown);
    values.push_back(one.value);
  }

  void take_variables(Invocation& invocation) {
    for (const auto* flags : {&invocation.command_->flags, &common_flags()}) {
      for (const Flag& flag : *flags) {
        if (flag.name == "help" || invocation.flags_.count(flag.name) > 0) continue;
        const auto found = environment_.find(variable_of(flag));
        if (found == environment_.end() || found->second.empty()) continue;
        const auto values =
            flag.repeats ? split(found->second, ',') : std::vector<std::string>{found->second};
        for (const std::string& value : values) check(flag, value, variable_of(flag));
        invocation.flags_[flag.name] = values;
      }
    }
  }

  void take_arguments(Invocation& invocation) {
    std::size_t next = 0;
    for (const Argument& argument : invocation.command_->arguments) {
      auto& values = invocation.arguments_[argument.name];
      while (next < arguments_.size() && (values.empty() || argument.arity == Arity::Any))
        values.push_back(arguments_[next++]);
      if (values.empty() && argument.arity == Arity::One)
        throw usage(
            fmt::format("`rocca {}` needs {}{}", command_name_, argument.name,
                        argument.choices.empty() ? "" : ": " + enumerate(argument.choices, "or")));
      for (const std::string& value : values)
        if (!argument.choices.empty() && std::find(argument.choices.begin(), argument.choices.end(),
                                                   value) == argument.choices.end())
          throw usage(fmt::format("{} is {}, not '{}'{}", argument.name,
                                  enumerate(argument.choices, "or"), value,
                                  did_you_mean(value, argument.choices)));
    }
    if (next < arguments_.size())
      throw usage(fmt::format("`rocca {}` has no place for '{}'", command_name_, arguments_[next]));
  }

  Error usage(std::string message) const {
    return Error(Fault::Usage, std::move(message))
        .hint(fmt::format("rocca {} --help", command_name_));
  }

  Error unknown_command() const {
    const auto known = words_below(catalog_, command_name_);
    const std::string asked =
        command_name_.empty() ? unknown_command_ : command_name_ + " " + unknown_command_;
    const char* ours = command_name_.empty() ? our_word_for(unknown_command_) : nullptr;
    return Error(Fault::Usage,
                 fmt::format("unknown command `{}`{}", asked,
                             ours != nullptr ? fmt::format(" (did you mean `{}`?)", ours)
                                             : did_you_mean(unknown_command_, known)))
        .hint(command_name_.empty() ? "rocca --help lists them"
                                    : fmt::format("rocca {} --help", command_name_));
  }

  Error unknown_flag(const Given& one, const Command& command) const {
    std::vector<std::string> known;
    for (const auto* flags : {&command.flags, &common_flags()})
      for (const Flag& flag : *flags) known.push_back("--" + flag.name);
    const std::string program = command.name.empty() ? "rocca" : "rocca " + command.name;
    return Error(Fault::Usage, fmt::format("`{}` has no flag {}{}", program, one.shown,
                                           did_you_mean(one.shown, known)))
        .hint(program + " --help");
  }

  const Catalog& catalog_;
  const std::map<std::string, std::string>& environment_;
  bool rest_are_words_ = false;
  std::string command_name_;
  std::string unknown_command_;
  std::vector<std::string> arguments_;
  std::vector<Given> given_;
};

Request parse(const Catalog& catalog, const std::vector<std::string>& words,
              const std::map<std::string, std::string>& environment) {
  return Parser{catalog, environment}.parse(words);
}

}  // namespace rocca::cli
