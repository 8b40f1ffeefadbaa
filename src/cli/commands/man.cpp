#include "base/strings.hpp"
#include "cli/build_info.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/help.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

namespace {

/// Text that roff must not read as its own: backslashes, dashes (else they become hyphens that
/// cannot be pasted), and dots or quotes that begin a line.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += "\\&";
      result += c;
    } else {
      result += c;
    }
  }
  return result;
}

std::string heading(std::string_view date_free_name, std::string_view summary) {
  // No date: the same source gives the same page, byte for byte.
  std::string upper{date_free_name};
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return fmt::format(".TH {} 1 \"\" \"rocca {}\" \"rocca manual\"\n.SH NAME\n{} \\- {}\n",
                     escaped(upper), build_info::version, escaped(date_free_name),
                     escaped(summary));
}

std::string entry(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", escaped(term), escaped(text));
}

std::string flag_entries(const std::vector<Flag>& flags) {
  std::string text;
  for (const Flag& flag : flags) {
    const std::string details = flag_details(flag);
    text += entry(spelling_of(flag),
                  details.empty() ? flag.help : fmt::format("{} ({})", flag.help, details));
  }
  return text;
}

std::string page_name(std::string_view command) {
  return "rocca-" + replace_all(command, " ", "-");
}

std::string command_page(const Command& command) {
  std::string text = heading(page_name(command.name), command.summary);
  text += ".SH SYNOPSIS\n\\fB" + escaped(usage_line(command)) + "\\fR\n";
  if (!command.description.empty())
    text += ".SH DESCRIPTION\n" + escaped(command.description) + "\n";
  if (!command.arguments.empty()) {
    text += ".SH ARGUMENTS\n";
    for (const Argument& argument : command.arguments)
      text += entry(argument.name,
                    argument.choices.empty()
                        ? argument.help
                        : fmt::format("{}: {}", argument.help, enumerate(argument.choices, "or")));
  }
  text += ".SH OPTIONS\n" + flag_entries(command.flags) + flag_entries(common_flags());
  if (!command.examples.empty()) {
    text += ".SH EXAMPLES\n";
    for (const Example& example : command.examples) text += entry(example.line, example.what);
  }
  return text + ".SH SEE ALSO\n.BR rocca (1)\n";
}

std::string family_page(const Catalog& catalog, const std::string& topic) {
  const bool all = topic.empty();
  std::string text =
      heading(all ? "rocca" : page_name(topic),
              all ? "Talos Linux Kubernetes clusters on Proxmox VE" : "a group of commands");
  text += ".SH SYNOPSIS\n\\fBrocca " + (all ? "" : escaped(topic) + " ") +
          "COMMAND [ARGUMENTS] [FLAGS]\\fR\n.SH DESCRIPTION\n" + escaped(tagline) + "\n";
  for (const auto& [group, commands] : groups_of(catalog)) {
    std::string entries;
    for (const Command* command : commands)
      if (all || command->name.starts_with(topic + " "))
        entries += entry(command->name, command->summary);
    if (!entries.empty()) text += fmt::format(".SH \"{}\"\n", escaped(group)) + entries;
  }
  text += ".SH OPTIONS\n" + flag_entries(common_flags());
  text += ".SH \"EXIT STATUS\"\n";
  for (const auto& [code, meaning] : exit_codes()) text += entry(std::to_string(code), meaning);
  text +=
      ".SH ENVIRONMENT\nEvery flag can be set by the variable that its help names; a flag given on "
      "the command "
      "line wins.\n";
  return text + entry("NO_COLOR", "no colour unless --color always");
}

}  // namespace

static int run_man(Context& context, const Invocation& invocation) {
  const std::string topic = topic_of(*context.catalog, invocation.arguments("COMMAND"));
  const Command* command = find_command(*context.catalog, topic);
  context.out << (command != nullptr ? command_page(*command)
                                     : family_page(*context.catalog, topic));
  return 0;
}

Command man_command() {
  return {.name = "man",
          .group = "About rocca",
          .summary = "print the manual page of rocca or a command",
          .description = "Prints the page in roff format for man(1) and packages.",
          .arguments = {{.name = "COMMAND",
                         .arity = Arity::Any,
                         .offer = Offer::Commands,
                         .help = "the command; default: rocca itself"}},
          .examples = {{"rocca man version | man -l -", "read it"}},
          .run = run_man};
}

}  // namespace rocca::cli
