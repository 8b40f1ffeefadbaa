#include "cli/command.hpp"

#include <algorithm>

namespace rocca::cli {

std::string variable_of(const Flag& flag) {
  std::string name = "ROCCA_";
  for (const char c : flag.name)
    name += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::string spelling_of(const Flag& flag) {
  std::string text;
  if (flag.letter != '\0') text += std::string{'-', flag.letter} + ", ";
  text += "--" + flag.name;
  if (flag.takes_value()) text += " " + flag.value;
  return text;
}

const std::vector<Flag>& common_flags() {
  static const std::vector<Flag> flags{
      {.name = "color",
       .kind = FlagKind::Choice,
       .value = "WHEN",
       .choices = {"auto", "always", "never"},
       .fallback = "auto",
       .help = "colour the text; auto means on a terminal unless NO_COLOR is set"},
      {.name = "help", .letter = 'h', .value = "", .help = "show this help"},
  };
  return flags;
}

Flag output_flag() {
  return {.name = "output",
          .letter = 'o',
          .kind = FlagKind::Choice,
          .value = "FORMAT",
          .choices = {"text", "json", "yaml"},
          .fallback = "text",
          .help = "how to print the result"};
}

Flag steps_flag() {
  return {.name = "steps", .help = "show every step of the plan with its reason and order"};
}

std::vector<Flag> joined(std::vector<Flag> first, const std::vector<Flag>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Argument cluster_argument() {
  return {
      .name = "CLUSTER",
      .arity = Arity::Optional,
      .offer = Offer::Clusters,
      .help =
          "a name below clusters/, a folder or a file; by default the cluster around the working "
          "directory"};
}

const Command* find_command(const Catalog& catalog, std::string_view name) {
  const auto found = std::find_if(catalog.begin(), catalog.end(),
                                  [&](const Command& command) { return command.name == name; });
  return found == catalog.end() ? nullptr : &*found;
}

const Flag* find_flag(const Command& command, std::string_view name) {
  for (const auto* flags : {&command.flags, &common_flags()})
    for (const Flag& flag : *flags)
      if (flag.name == name) return &flag;
  return nullptr;
}

bool is_prefix(const Catalog& catalog, std::string_view name) {
  return !name.empty() && !words_below(catalog, name).empty();
}

std::vector<std::string> words_below(const Catalog& catalog, std::string_view prefix) {
  std::vector<std::string> words;
  for (const Command& command : catalog) {
    std::string_view rest = command.name;
    if (!prefix.empty()) {
      if (!rest.starts_with(prefix) || rest.size() == prefix.size() || rest[prefix.size()] != ' ')
        continue;
      rest.remove_prefix(prefix.size() + 1);
    }
    const std::string word{rest.substr(0, rest.find(' '))};
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return words;
}

}  // namespace rocca::cli
