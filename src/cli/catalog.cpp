#include "cli/command.hpp"
#include "cli/commands.hpp"

namespace rocca::cli {

Catalog catalog() {
  Catalog verbs;
  verbs.push_back(
      {.name = "doctor",
       .group = "From nothing to a cluster",
       .summary = "look whether a Proxmox is ready for a cluster",
       .description =
           "Asks Proxmox, with the cluster's own API token, for everything that a cluster will "
           "need: "
           "reachability and TLS, clocks, version, quorum, each privilege on each path, storages, "
           "bridges, VM ids and MACs. Nothing is changed. What is missing comes with the lines "
           "that "
           "mend it. Exit 4 when a right is missing, 1 when something else is wrong.\n\n"
           "The token is read from ROCCA_PROXMOX_TOKEN or from a file, never from the command "
           "line.",
       .arguments = {cluster_argument()},
       .flags = {{.name = "endpoint",
                  .kind = FlagKind::Text,
                  .value = "URL",
                  .help = "check this Proxmox without a spec: https://HOST:8006",
                  .repeats = true},
                 {.name = "token-file",
                  .kind = FlagKind::Text,
                  .value = "FILE",
                  .help = "file that holds USER@REALM!TOKENID=SECRET"},
                 {.name = "fingerprint",
                  .kind = FlagKind::Text,
                  .value = "SHA256",
                  .help = "the certificate to trust, with --endpoint"},
                 {.name = "ca-file",
                  .kind = FlagKind::Text,
                  .value = "FILE",
                  .help = "the authority to trust, with --endpoint"},
                 {.name = "insecure", .help = "trust any certificate, with --endpoint"},
                 {.name = "host",
                  .kind = FlagKind::Text,
                  .value = "NAME",
                  .help = "host to use, with --endpoint; by default all",
                  .repeats = true},
                 {.name = "images",
                  .kind = FlagKind::Text,
                  .value = "STORAGE",
                  .help = "storage for images, with --endpoint"},
                 {.name = "disks",
                  .kind = FlagKind::Text,
                  .value = "STORAGE",
                  .help = "storage for disks, with --endpoint",
                  .repeats = true},
                 {.name = "bridge",
                  .kind = FlagKind::Text,
                  .value = "NAME",
                  .help = "bridge for NICs, with --endpoint",
                  .repeats = true},
                 {.name = "pool",
                  .kind = FlagKind::Text,
                  .value = "NAME",
                  .help = "pool for VMs, with --endpoint"},
                 output_flag()},
       .examples =
           {{"rocca doctor blue", "is everything there for the cluster blue"},
            {"rocca doctor --endpoint https://pve.home:8006 --images local --disks local-lvm "
             "--bridge vmbr0",
             "before there is a spec"}},
       .run = run_doctor});
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
