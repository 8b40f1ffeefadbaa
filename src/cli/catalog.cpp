#include "cli/command.hpp"
#include "cli/commands.hpp"

namespace rocca::cli {

Catalog catalog() {
  Catalog verbs;
  verbs.push_back(
      {.name = "version",
       .group = "About rocca",
       .summary = "show which rocca this is",
       .description = "Shows the version, the commit it was built from, the kind of build and the "
                      "compiler.",
       .flags = {output_flag()},
       .examples = {{"rocca version", "for people"}, {"rocca version -o json", "for programs"}},
       .run = run_version});
  verbs.push_back({.name = "help",
                   .group = "About rocca",
                   .summary = "explain rocca or one of its verbs",
                   .arguments = {{.name = "VERB",
                                  .arity = Arity::Any,
                                  .offer = Offer::Verbs,
                                  .help = "the verb to explain; nested verbs are two words"}},
                   .examples = {{"rocca help version", "the same as rocca version --help"}},
                   .run = run_help});
  verbs.push_back(
      {.name = "completion",
       .group = "About rocca",
       .summary = "print the completion script of a shell",
       .description =
           "Prints a script that teaches the shell rocca's verbs, flags and their values.",
       .arguments = {{.name = "SHELL",
                      .offer = Offer::Choices,
                      .help = "which shell",
                      .choices = {"bash", "zsh", "fish"}}},
       .examples = {{"source <(rocca completion bash)", "for this bash"},
                    {"rocca completion zsh > \"${fpath[1]}/_rocca\"", "for every zsh from now on"},
                    {"rocca completion fish > ~/.config/fish/completions/rocca.fish",
                     "for every fish from now on"}},
       .run = run_completion});
  verbs.push_back({.name = "man",
                   .group = "About rocca",
                   .summary = "print the manual page of rocca or of a verb",
                   .description = "Prints the page in roff, as man(1) and packages take it.",
                   .arguments = {{.name = "VERB",
                                  .arity = Arity::Any,
                                  .offer = Offer::Verbs,
                                  .help = "the verb; without it the page of rocca itself"}},
                   .examples = {{"rocca man version | man -l -", "read it"}},
                   .run = run_man});
  return verbs;
}

}  // namespace rocca::cli
