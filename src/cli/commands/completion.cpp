#include "base/strings.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"

#include <fmt/format.h>

#include <ostream>
#include <set>

namespace rocca::cli {

namespace {

/// In single quotes for bash and zsh.
std::string in_quotes(std::string_view text) {
  return "'" + replace_all(text, "'", R"('\'')") + "'";
}
/// In single quotes for fish, where a backslash escapes.
std::string fish_quoted(std::string_view text) {
  return "'" + replace_all(replace_all(text, R"(\)", R"(\\)"), "'", R"(\')") + "'";
}

std::vector<Flag> flags_of(const Command& command) {
  std::vector<Flag> flags = command.flags;
  flags.insert(flags.end(), common_flags().begin(), common_flags().end());
  return flags;
}

std::vector<std::string> spellings(const Flag& flag) {
  std::vector<std::string> words{"--" + flag.name};
  if (flag.letter != '\0') words.push_back(std::string{'-', flag.letter});
  return words;
}

/// Every flag of every command whose next word is its value: `--output|-o|--color`.
std::vector<std::string> words_with_value(const Catalog& catalog) {
  std::set<std::string> words;
  for (const Command& command : catalog)
    for (const Flag& flag : flags_of(command))
      if (flag.takes_value())
        for (std::string& word : spellings(flag)) words.insert(std::move(word));
  return {words.begin(), words.end()};
}

/// All commands and first words of nested ones, the top level ("") first.
std::vector<std::string> topics_of(const Catalog& catalog) {
  std::vector<std::string> topics{""};
  std::set<std::string> seen{""};
  for (const Command& command : catalog) {
    const std::string first = command.name.substr(0, command.name.find(' '));
    for (const std::string& topic : {first, command.name})
      if (seen.insert(topic).second) topics.push_back(topic);
  }
  return topics;
}

std::string summary_of(const Catalog& catalog, const std::string& verb) {
  const Command* command = find_command(catalog, verb);
  return command != nullptr ? command->summary : "a group of commands";
}

std::string joined_topic(const std::string& topic, const std::string& word) {
  return topic.empty() ? word : topic + " " + word;
}

const Argument* first_argument(const Catalog& catalog, const std::string& topic) {
  const Command* command = find_command(catalog, topic);
  return command != nullptr && !command->arguments.empty() ? &command->arguments.front() : nullptr;
}

std::string bash_values(std::string_view words) {
  return fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\"))", in_quotes(words));
}

std::string bash_place(const Catalog& catalog, const std::string& topic) {
  const auto words = words_below(catalog, topic);
  if (!words.empty()) return bash_values(join(words, " "));
  const Argument* argument = first_argument(catalog, topic);
  if (argument == nullptr) return ":";
  switch (argument->offer) {
    case Offer::Nothing:
      return ":";
    case Offer::Choices:
      return bash_values(join(argument->choices, " "));
    case Offer::Commands:
      return bash_values(join(words_below(catalog, ""), " "));
    case Offer::Files:
      return "COMPREPLY=($(compgen -f -- \"$cur\"))";
    case Offer::Clusters:
      return "COMPREPLY=($(compgen -W \"$(cd clusters 2>/dev/null && command ls -d */ | tr -d /)\" "
             "-- \"$cur\") "
             "$(compgen -f -- \"$cur\"))";
  }
  return ":";
}

std::string bash_script(const Catalog& catalog) {
  std::string verbs;
  std::string values;
  std::string flags;
  std::string places;
  for (const std::string& topic : topics_of(catalog)) {
    if (!topic.empty()) verbs += (verbs.empty() ? "" : "|") + in_quotes(topic);
    const Command none{.name = "", .group = "", .summary = ""};
    const Command* command = find_command(catalog, topic);
    std::vector<std::string> words;
    for (const Flag& flag : flags_of(command != nullptr ? *command : none)) {
      std::vector<std::string> patterns;
      for (const std::string& word : spellings(flag)) {
        words.push_back(word);
        patterns.push_back(in_quotes(topic + " " + word));
      }
      if (flag.takes_value())
        values += fmt::format("    {}) {}; return ;;\n", join(patterns, "|"),
                              flag.choices.empty() ? "COMPREPLY=($(compgen -f -- \"$cur\"))"
                                                   : bash_values(join(flag.choices, " ")));
    }
    flags += fmt::format("      {}) {} ;;\n", in_quotes(topic), bash_values(join(words, " ")));
    places += fmt::format("    {}) {} ;;\n", in_quotes(topic), bash_place(catalog, topic));
  }
  return fmt::format(R"(# bash completion for rocca; use: source <(rocca completion bash)
_rocca() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} verb='' word i
  COMPREPLY=()
  # bash breaks words at `=`: --output=json arrives as three
  if [[ $cur == '=' ]]; then
    cur=''
  elif [[ $prev == '=' ]]; then
    prev=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    case $word in
      {}) ((i++)); if [[ ${{COMP_WORDS[i]}} == '=' ]]; then ((i++)); fi ;;
      -*|=) ;;
      *)
        case "$verb${{verb:+ }}$word" in
          {}) verb="$verb${{verb:+ }}$word" ;;
        esac
        ;;
    esac
  done
  case "$verb $prev" in
{}  esac
  if [[ $cur == -* ]]; then
    case $verb in
{}    esac
    return
  fi
  case $verb in
{}  esac
}}
complete -F _rocca rocca
)",
                     join(words_with_value(catalog), "|"), verbs, values, flags, places);
}

/// `word:what it is` for zsh's _describe, where a colon in the word or text needs a backslash.
std::string zsh_item(std::string_view word, std::string_view text) {
  return in_quotes(replace_all(word, ":", "\\:") + ":" + replace_all(text, ":", "\\:"));
}

std::string zsh_place(const Catalog& catalog, const std::string& topic) {
  const auto words = words_below(catalog, topic);
  if (!words.empty()) {
    std::string items;
    for (const std::string& word : words)
      items += " " + zsh_item(word, summary_of(catalog, joined_topic(topic, word)));
    return fmt::format("items=({}); _describe verb items", items.substr(1));
  }
  const Argument* argument = first_argument(catalog, topic);
  if (argument == nullptr) return ":";
  switch (argument->offer) {
    case Offer::Nothing:
      return ":";
    case Offer::Choices:
      return "compadd -- " + join(argument->choices, " ");
    case Offer::Commands:
      return "compadd -- " + join(words_below(catalog, ""), " ");
    case Offer::Files:
      return "_files";
    case Offer::Clusters:
      return "compadd -- clusters/*(N/:t); _files";
  }
  return ":";
}

std::string zsh_script(const Catalog& catalog) {
  std::string verbs;
  std::string values;
  std::string flags;
  std::string places;
  for (const std::string& topic : topics_of(catalog)) {
    if (!topic.empty()) verbs += (verbs.empty() ? "" : "|") + in_quotes(topic);
    const Command none{.name = "", .group = "", .summary = ""};
    const Command* command = find_command(catalog, topic);
    std::string items;
    for (const Flag& flag : flags_of(command != nullptr ? *command : none)) {
      std::vector<std::string> patterns;
      for (const std::string& word : spellings(flag)) {
        items += " " + zsh_item(word, flag.help);
        patterns.push_back(in_quotes(topic + " " + word));
      }
      if (flag.takes_value())
        values +=
            fmt::format("    {}) {}; return ;;\n", join(patterns, "|"),
                        flag.choices.empty() ? "_files" : "compadd -- " + join(flag.choices, " "));
    }
    flags += fmt::format("      {}) items=({}) ;;\n", in_quotes(topic), items.substr(1));
    places += fmt::format("    {}) {} ;;\n", in_quotes(topic), zsh_place(catalog, topic));
  }
  return fmt::format(R"(#compdef rocca
# zsh completion for rocca; put it into a folder of $fpath as _rocca
_rocca() {{
  local verb='' word flag=$words[CURRENT-1]
  local -i i
  local -a items
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    case $word in
      {}) ((i++)) ;;
      -*) ;;
      *)
        case "$verb${{verb:+ }}$word" in
          {}) verb="$verb${{verb:+ }}$word" ;;
        esac
        ;;
    esac
  done
  if [[ $words[CURRENT] == --*=* ]]; then
    flag=${{words[CURRENT]%%=*}}
    compset -P '*='
  fi
  case "$verb $flag" in
{}  esac
  if [[ $words[CURRENT] == -* ]]; then
    case $verb in
{}    esac
    _describe -o flag items
    return
  fi
  case $verb in
{}  esac
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _rocca "$@"
else
  compdef _rocca rocca
fi
)",
                     join(words_with_value(catalog), "|"), verbs, values, flags, places);
}

std::string fish_place(const Catalog& catalog, const std::string& topic) {
  const std::string when =
      fmt::format("complete -c rocca -n {}", fish_quoted("__rocca_verb_is " + fish_quoted(topic)));
  std::string lines;
  for (const std::string& word : words_below(catalog, topic))
    lines += fmt::format("{} -a {} -d {}\n", when, fish_quoted(word),
                         fish_quoted(summary_of(catalog, joined_topic(topic, word))));
  const Argument* argument = first_argument(catalog, topic);
  if (argument == nullptr) return lines;
  switch (argument->offer) {
    case Offer::Nothing:
      break;
    case Offer::Choices:
      lines += fmt::format("{} -a {}\n", when, fish_quoted(join(argument->choices, " ")));
      break;
    case Offer::Commands:
      lines += fmt::format("{} -a {}\n", when, fish_quoted(join(words_below(catalog, ""), " ")));
      break;
    case Offer::Files:
      lines += when + " -F\n";
      break;
    case Offer::Clusters:
      lines += fmt::format(
          "{} -F -a {}\n", when,
          fish_quoted(
              "(command ls -d clusters/*/ 2>/dev/null | string replace -r '.*/(.+)/' '$1')"));
      break;
  }
  return lines;
}

std::string fish_script(const Catalog& catalog) {
  std::string verbs;
  std::string lines;
  for (const std::string& topic : topics_of(catalog)) {
    if (!topic.empty()) verbs += " " + fish_quoted(topic);
    lines += fish_place(catalog, topic);
    const Command* command = find_command(catalog, topic);
    if (command == nullptr) continue;
    for (const Flag& flag : command->flags) {
      lines += fmt::format("complete -c rocca -n {} -l {}",
                           fish_quoted("__rocca_verb_is " + fish_quoted(topic)), flag.name);
      if (flag.letter != '\0') lines += fmt::format(" -s {}", flag.letter);
      if (flag.takes_value())
        lines += flag.choices.empty()
                     ? " -r -F"
                     : fmt::format(" -x -a {}", fish_quoted(join(flag.choices, " ")));
      lines += fmt::format(" -d {}\n", fish_quoted(flag.help));
    }
  }
  for (const Flag& flag : common_flags()) {
    lines += fmt::format("complete -c rocca -l {}", flag.name);
    if (flag.letter != '\0') lines += fmt::format(" -s {}", flag.letter);
    if (flag.takes_value()) lines += fmt::format(" -x -a {}", fish_quoted(join(flag.choices, " ")));
    lines += fmt::format(" -d {}\n", fish_quoted(flag.help));
  }
  return fmt::format(
      R"(# fish completion for rocca; put it into ~/.config/fish/completions/rocca.fish
function __rocca_verb_is
    set -l verb ''
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
            continue
        end
        switch $word
            case {}
                set skip 1
            case '-*'
            case '*'
                set -l longer (string trim "$verb $word")
                if contains -- $longer{}
                    set verb $longer
                end
        end
    end
    test "$verb" = "$argv[1]"
end
complete -c rocca -f
{})",
      join(words_with_value(catalog), " "), verbs, lines);
}

}  // namespace

static int run_completion(Context& context, const Invocation& invocation) {
  const auto shell = invocation.argument("SHELL");
  if (shell == "bash") {
    context.out << bash_script(*context.catalog);
  } else if (shell == "zsh") {
    context.out << zsh_script(*context.catalog);
  } else {
    context.out << fish_script(*context.catalog);
  }
  return 0;
}

Command completion_command() {
  return {.name = "completion",
          .group = "About rocca",
          .summary = "print the completion script of a shell",
          .description = "Prints a script that completes rocca's commands, flags and their values.",
          .arguments = {{.name = "SHELL",
                         .offer = Offer::Choices,
                         .help = "which shell",
                         .choices = {"bash", "zsh", "fish"}}},
          .examples = {{"source <(rocca completion bash)", "for this bash"},
                       {"rocca completion zsh > \"${fpath[1]}/_rocca\"", "for every new zsh"},
                       {"rocca completion fish > ~/.config/fish/completions/rocca.fish",
                        "for every new fish"}},
          .run = run_completion};
}

}  // namespace rocca::cli
