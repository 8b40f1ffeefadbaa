#include "cli/commands/help.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace rocca::cli {

namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string wrapped_line(std::string_view text, std::size_t indent, std::size_t width) {
  std::string result;
  std::size_t column = indent;
  bool first = true;
  for (const std::string& word : split(text, ' ')) {
    if (!first && column + 1 + word.size() > width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
      first = true;
    }
    if (!first) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
    first = false;
  }
  return result;
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::size_t i = 0; i < lines.size(); ++i)
    lines[i] = (i == 0 || lines[i].empty() ? "" : std::string(indent, ' ')) +
               wrapped_line(lines[i], indent, width);
  return join(lines, "\n");
}

namespace {

std::string title(std::string_view text, const HelpStyle& style) {
  return paint(style.colour, Colour::Bold, text) + ":\n";
}

/// Two columns: what, and what it does.
std::string table(const Rows& rows, const HelpStyle& style) {
  constexpr std::size_t widest_name = 26;
  std::size_t names = 0;
  for (const auto& [name, help] : rows)
    if (name.size() <= widest_name) names = std::max(names, name.size());
  std::string text;
  for (const auto& [name, help] : rows) {
    const std::size_t indent = names + 4;
    text += "  " + paint(style.colour, Colour::Cyan, name);
    text += name.size() > names ? "\n" + std::string(indent, ' ')
                                : std::string(indent - 2 - name.size(), ' ');
    text += wrapped(help, indent, style.width) + "\n";
  }
  return text;
}

Rows flag_rows(const std::vector<Flag>& flags) {
  Rows rows;
  for (const Flag& flag : flags) {
    const std::string details = flag_details(flag);
    rows.emplace_back((flag.letter == '\0' ? "    " : "") + spelling_of(flag),
                      details.empty() ? flag.help : fmt::format("{} ({})", flag.help, details));
  }
  return rows;
}

std::string command_table(const Catalog& catalog, std::string_view prefix, const HelpStyle& style) {
  // One width for all groups, so that the summaries stand in one column.
  std::size_t names = 0;
  for (const Command& command : catalog) names = std::max(names, command.name.size());
  std::string text;
  for (const auto& [group, commands] : groups_of(catalog)) {
    Rows rows;
    for (const Command* command : commands)
      if (prefix.empty() || command->name.starts_with(std::string{prefix} + " "))
        rows.emplace_back(command->name + std::string(names - command->name.size(), ' '),
                          command->summary);
    if (!rows.empty()) text += title(group, style) + table(rows, style) + "\n";
  }
  return text;
}

std::string command_help(const Command& command, const HelpStyle& style) {
  std::string text = fmt::format(
      "{}\n\n{}  {}\n\n",
      wrapped(fmt::format("rocca {}: {}", command.name, command.summary), 0, style.width),
      title("Usage", style), usage_line(command));
  if (!command.description.empty()) text += wrapped(command.description, 0, style.width) + "\n\n";
  if (!command.arguments.empty()) {
    Rows rows;
    for (const Argument& argument : command.arguments)
      rows.emplace_back(argument.name, argument.choices.empty()
                                           ? argument.help
                                           : fmt::format("{}: {}", argument.help,
                                                         enumerate(argument.choices, "or")));
    text += title("Arguments", style) + table(rows, style) + "\n";
  }
  std::vector<Flag> flags = command.flags;
  flags.insert(flags.end(), common_flags().begin(), common_flags().end());
  text += title("Flags", style) + table(flag_rows(flags), style);
  if (!command.examples.empty()) {
    text += "\n" + title("Examples", style);
    for (const Example& example : command.examples)
      text += fmt::format("  # {}\n  {}\n", example.what, example.line);
  }
  return text;
}

std::string whole_help(const Catalog& catalog, const HelpStyle& style) {
  std::string text = wrapped(tagline, 0, style.width) + "\n\n" + title("Usage", style) +
                     "  rocca COMMAND [ARGUMENTS] [FLAGS]\n\n" + command_table(catalog, "", style) +
                     title("Flags of every command", style) +
                     table(flag_rows(common_flags()), style) + "\n";
  Rows codes;
  for (const auto& [code, meaning] : exit_codes())
    codes.emplace_back(std::to_string(code), meaning);
  text += title("Exit codes", style) + table(codes, style) + "\n";
  return text +
         wrapped(
             "Data goes to stdout, everything else to stderr. Every flag can be set by its "
             "variable. "
             "`rocca COMMAND --help` shows more.",
             0, style.width) +
         "\n";
}

}  // namespace

std::string help_text(const Catalog& catalog, const std::string& topic, const HelpStyle& style) {
  if (topic.empty()) return whole_help(catalog, style);
  if (const Command* command = find_command(catalog, topic)) return command_help(*command, style);
  return fmt::format("{}  rocca {} COMMAND [ARGUMENTS] [FLAGS]\n\n", title("Usage", style), topic) +
         command_table(catalog, topic, style) +
         fmt::format("`rocca {} COMMAND --help` shows more.\n", topic);
}

std::string short_help(const Catalog& catalog, const HelpStyle& style) {
  return wrapped(tagline, 0, style.width) + "\n\n" + title("Usage", style) +
         "  rocca COMMAND [ARGUMENTS] [FLAGS]\n\n" + command_table(catalog, "", style) +
         "`rocca --help` shows more, `rocca COMMAND --help` all about one command.\n";
}

std::string usage_line(const Command& command) {
  std::string text = "rocca " + command.name;
  for (const Argument& argument : command.arguments) {
    switch (argument.arity) {
      case Arity::One:
        text += " " + argument.name;
        break;
      case Arity::Optional:
        text += fmt::format(" [{}]", argument.name);
        break;
      case Arity::Any:
        text += fmt::format(" [{}...]", argument.name);
        break;
    }
  }
  return text + " [FLAGS]";
}

std::string flag_details(const Flag& flag) {
  std::vector<std::string> details;
  if (!flag.choices.empty()) details.push_back(enumerate(flag.choices, "or"));
  if (flag.repeats) details.emplace_back("may be repeated");
  if (!flag.fallback.empty()) details.push_back("default " + flag.fallback);
  if (flag.name != "help") details.push_back(variable_of(flag));
  return join(details, "; ");
}

std::vector<std::pair<std::string, std::vector<const Command*>>> groups_of(const Catalog& catalog) {
  std::vector<std::pair<std::string, std::vector<const Command*>>> groups;
  for (const Command& command : catalog) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& one) { return one.first == command.group; });
    if (group == groups.end()) group = groups.insert(groups.end(), {command.group, {}});
    group->second.push_back(&command);
  }
  return groups;
}

const std::vector<std::pair<int, std::string>>& exit_codes() {
  static const std::vector<std::pair<int, std::string>> codes{
      {0, "done, or nothing to do"},
      {1, "error"},
      {2, "plan or drift found changes; status --exit-code found problems"},
      {3, "refused by a guard, or a question could not be asked"},
      {4, "not authorised"},
      {5, "locked by another run"},
      {130, "interrupted"}};
  return codes;
}

std::string topic_of(const Catalog& catalog, const std::vector<std::string>& words) {
  std::string topic;
  for (const std::string& word : words) {
    const auto known = words_below(catalog, topic);
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw Error(Fault::Usage,
                  fmt::format("unknown command `{}{}{}`{}", topic, topic.empty() ? "" : " ", word,
                              did_you_mean(word, known)))
          .hint("rocca --help lists them");
    topic += (topic.empty() ? "" : " ") + word;
  }
  return topic;
}

static int run_help(Context& context, const Invocation& invocation) {
  const std::string topic = topic_of(*context.catalog, invocation.arguments("COMMAND"));
  context.out << help_text(*context.catalog, topic,
                           {context.terminal.width, context.terminal.colour_out});
  return 0;
}

Command help_command() {
  return {.name = "help",
          .group = "About rocca",
          .summary = "show help for rocca or a command",
          .arguments = {{.name = "COMMAND",
                         .arity = Arity::Any,
                         .offer = Offer::Commands,
                         .help = "the command; some have two words"}},
          .examples = {{"rocca help version", "the same as rocca version --help"}},
          .run = run_help};
}

}  // namespace rocca::cli
