#pragma once

#include "cli/command.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocca::cli {

struct HelpStyle {
  std::size_t width = 80;
  bool colour = false;
};

/// Breaks `text` at blanks so that lines end before `width`; every line but the first begins with
/// `indent` blanks. The first starts at column `indent` already. Line breaks of the text stay.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

/// The help of a command, of a family of nested commands (`secrets`), or of rocca itself ("").
std::string help_text(const Catalog& catalog, const std::string& topic, const HelpStyle& style);
/// What `rocca` alone prints: the commands and where to read on.
std::string short_help(const Catalog& catalog, const HelpStyle& style);

/// `rocca secrets encrypt FILE [FLAGS]`.
std::string usage_line(const Command& command);
/// What a flag's help adds of itself: choices, default, variable.
std::string flag_details(const Flag& flag);
/// The groups in the order of the table, each with its commands.
std::vector<std::pair<std::string, std::vector<const Command*>>> groups_of(const Catalog& catalog);
/// The exit codes, each with what it means.
const std::vector<std::pair<int, std::string>>& exit_codes();

/// Joins the words of an argument COMMAND… and checks that the table has such a topic: Error(Usage)
/// with the nearest.
std::string topic_of(const Catalog& catalog, const std::vector<std::string>& words);

constexpr std::string_view tagline =
    "rocca creates, repairs, changes and destroys Talos Linux Kubernetes clusters on Proxmox VE "
    "from one file per cluster.";

}  // namespace rocca::cli
