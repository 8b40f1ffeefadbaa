#include "cli/command.hpp"
#include "cli/commands/help.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace rocca::cli {
namespace {

// The parser tells flags from words before it knows the command; the scripts of the shells do so
// too.
TEST(Catalog, AFlagOfOneNameTakesAValueEverywhereOrNowhere) {
  std::map<std::string, bool> takes_value;
  std::map<char, std::string> letters;
  for (const Command& command : catalog()) {
    std::vector<Flag> flags = command.flags;
    flags.insert(flags.end(), common_flags().begin(), common_flags().end());
    for (const Flag& flag : flags) {
      EXPECT_EQ(takes_value.emplace(flag.name, flag.takes_value()).first->second,
                flag.takes_value())
          << command.name << " --" << flag.name;
      if (flag.letter == '\0') continue;
      EXPECT_EQ(letters.emplace(flag.letter, flag.name).first->second, flag.name)
          << command.name << " -" << flag.letter;
    }
  }
}

TEST(Catalog, EveryEntryIsWhole) {
  std::set<std::string> names;
  for (const Command& command : catalog()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name << " stands twice";
    EXPECT_NE(command.run, nullptr) << command.name;
    EXPECT_FALSE(command.summary.empty() || command.summary.ends_with('.')) << command.name;
    EXPECT_FALSE(command.group.empty()) << command.name;
    bool open_end = false;
    for (const Argument& argument : command.arguments) {
      EXPECT_FALSE(open_end) << command.name << ": nothing can follow " << argument.name;
      open_end = argument.arity != Arity::One && argument.arity != Arity::Optional;
      EXPECT_FALSE(argument.help.empty()) << command.name << " " << argument.name;
      EXPECT_EQ(argument.offer == Offer::Choices, !argument.choices.empty()) << command.name;
    }
    std::set<std::string> flags{"color", "help"};
    for (const Flag& flag : command.flags) {
      EXPECT_TRUE(flags.insert(flag.name).second) << command.name << " --" << flag.name;
      EXPECT_FALSE(flag.help.empty()) << command.name << " --" << flag.name;
      EXPECT_EQ(flag.takes_value(), !flag.value.empty()) << command.name << " --" << flag.name;
      EXPECT_EQ(flag.kind == FlagKind::Choice, !flag.choices.empty())
          << command.name << " --" << flag.name;
    }
    // A command that is also the first word of others cannot take their second word as its
    // argument: a cluster named `accept` is given to `drift` as a folder.
    EXPECT_TRUE(command.name == "drift" || !is_prefix(catalog(), command.name)) << command.name;
  }
}

TEST(Help, KeepsToTheWidth) {
  for (const Command& command : catalog()) {
    std::string text = help_text(catalog(), command.name, {.width = 60});
    text.resize(text.find("Examples:") == std::string::npos ? text.size() : text.find("Examples:"));
    std::size_t start = 0;
    for (std::size_t end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
      EXPECT_LE(end - start, 60u) << text.substr(start, end - start);
  }
}

TEST(Help, NamesEveryVerbAndFlag) {
  const std::string all = help_text(catalog(), "", {});
  for (const Command& command : catalog()) {
    EXPECT_THAT(all, testing::HasSubstr("  " + command.name)) << command.name;
    EXPECT_THAT(short_help(catalog(), {}), testing::HasSubstr(command.summary));
    const std::string one = help_text(catalog(), command.name, {});
    for (const Flag& flag : command.flags) {
      EXPECT_THAT(one, testing::HasSubstr(spelling_of(flag)));
      EXPECT_THAT(one, testing::HasSubstr(variable_of(flag)));
    }
  }
}

}  // namespace
}  // namespace rocca::cli
