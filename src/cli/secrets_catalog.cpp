#include "cli/secrets_catalog.hpp"

#include "cli/commands/commands.hpp"

namespace rocca::cli {
namespace {

Argument file(const char* help) {
  return {.name = "FILE", .offer = Offer::Files, .help = help};
}
Argument path() {
  return {
      .name = "PATH",
      .help =
          "which value: `proxmox.token`, `list.0`; a dot in a key is `\\.`; or as sops writes it"};
}

Flag type_flag() {
  return {.name = "type",
          .kind = FlagKind::Choice,
          .value = "FORMAT",
          .choices = {"yaml", "json", "dotenv", "binary"},
          .help = "what the file is; by default its name says so"};
}

Flag age_flag() {
  return {.name = "age",
          .kind = FlagKind::Text,
          .value = "RECIPIENT",
          .help =
              "for whom: age1…, or an SSH public key; by default a rule of .sops.yaml or "
              "SOPS_AGE_RECIPIENTS says so",
          .repeats = true};
}

Flag rule(const char* name, const char* help) {
  return {.name = name, .kind = FlagKind::Text, .value = "RE", .help = help};
}

std::vector<Flag> rule_flags() {
  return {rule("encrypted-regex", "seal only values below keys that match"),
          rule("unencrypted-regex", "leave values below keys that match in clear"),
          rule("encrypted-suffix", "seal only values below keys that end so"),
          rule("unencrypted-suffix",
               "leave values below keys that end so in clear (default _unencrypted)"),
          rule("encrypted-comments", "seal only values below comments that match"),
          rule("unencrypted-comments", "leave values below comments that match in clear"),
          {.name = "mac-only-encrypted", .help = "let the MAC cover only the sealed values"}};
}

const char* const group = "Secrets";
const char* const keys =
    "The age identity comes from SOPS_AGE_KEY, SOPS_AGE_KEY_FILE, SOPS_AGE_KEY_CMD, "
    "~/.config/sops/age/keys.txt or your SSH key.";

}  // namespace

void add_secrets_verbs(Catalog& verbs) {
  verbs.push_back(
      {.name = "secrets init",
       .group = group,
       .summary = "give a cluster its Talos secrets",
       .description =
           "Makes the Talos secrets (authorities, tokens, keys) of a cluster whose spec was "
           "written "
           "by hand, and keeps them in its secrets.sops.yaml, encrypted as .sops.yaml says. With "
           "--from it takes over those of a cluster that runs already. Secrets that are there are "
           "never replaced: no machine of the cluster would be reached again.",
       .arguments = {cluster_argument()},
       .flags = {{.name = "from",
                  .kind = FlagKind::Text,
                  .value = "FILE",
                  .help = "the secrets.yaml of `talosctl gen secrets`, or the machine config of a "
                          "control plane"}},
       .examples = {{"rocca secrets init blue", "new ones"},
                    {"rocca secrets init blue --from controlplane.yaml",
                     "those of a cluster that "
                     "runs"}},
       .run = run_secrets_init});
  Command encrypt{
      .name = "secrets encrypt",
      .group = group,
      .summary = "make a SOPS file of a file, to stdout",
      .description =
          "Values are sealed, keys and structure stay readable. The result is a SOPS file that "
          "`sops`, Flux and "
          "rocca open.",
      .arguments = {file("the file in clear; `-` is stdin")},
      .flags = {age_flag(),
                {.name = "in-place",
                 .letter = 'i',
                 .help = "write the file itself instead of stdout"},
                type_flag()},
      .examples = {{"rocca secrets encrypt --age age1… secrets.yaml > secrets.sops.yaml",
                    "for one recipient"},
                   {"rocca secrets encrypt -i secrets.sops.yaml", "as .sops.yaml says"}},
      .run = run_secrets_encrypt};
  for (Flag& flag : rule_flags()) encrypt.flags.push_back(std::move(flag));
  verbs.push_back(std::move(encrypt));
  verbs.push_back({.name = "secrets decrypt",
                   .group = group,
                   .summary = "decrypt a SOPS file, to stdout",
                   .description = std::string{"A file whose MAC does not fit is refused. "} + keys,
                   .arguments = {file("the encrypted file; `-` is stdin")},
                   .flags = {type_flag()},
                   .examples = {{"rocca secrets decrypt secrets.sops.yaml", "read it"}},
                   .run = run_secrets_decrypt});
  Command edit{.name = "secrets edit",
               .group = group,
               .summary = "edit a SOPS file with $EDITOR",
               .description =
                   "The text in clear lies in memory (a tmpfs folder that only you may enter) "
                   "while you edit, and is overwritten afterwards, also when rocca is killed. "
                   "Values that you leave alone keep their bytes. A file "
                   "that is not there is made.",
               .arguments = {file("the encrypted file")},
               .flags = {age_flag(), type_flag()},
               .examples = {{"rocca secrets edit secrets.sops.yaml", "change values"}},
               .run = run_secrets_edit};
  for (Flag& flag : rule_flags()) edit.flags.push_back(std::move(flag));
  verbs.push_back(std::move(edit));
  verbs.push_back(
      {.name = "secrets set",
       .group = group,
       .summary = "set one value of a SOPS file from stdin",
       .description = "The value is read from stdin (or asked for on a terminal), never from the "
                      "command line, which everybody "
                      "can read. One line break at its end is dropped.",
       .arguments = {file("the encrypted file"), path()},
       .flags = {{.name = "typed", .help = "read the value as YAML: numbers, lists, maps"},
                 {.name = "verbatim", .help = "keep a line break at the end"},
                 type_flag()},
       .examples = {{"pass show pve | rocca secrets set secrets.sops.yaml proxmox.token",
                     "from a password manager"}},
       .run = run_secrets_set});
  verbs.push_back({.name = "secrets unset",
                   .group = group,
                   .summary = "take one value out of a SOPS file",
                   .arguments = {file("the encrypted file"), path()},
                   .flags = {type_flag()},
                   .examples = {{"rocca secrets unset secrets.sops.yaml old.token", "take it out"}},
                   .run = run_secrets_unset});
  verbs.push_back({.name = "secrets rotate",
                   .group = group,
                   .summary = "give a SOPS file a new data key",
                   .description = "Seals every value again under a new key for the same "
                                  "recipients: what a recipient that was taken "
                                  "away still knows no longer opens it.",
                   .arguments = {file("the encrypted file")},
                   .flags = {type_flag()},
                   .examples = {{"rocca secrets rotate secrets.sops.yaml", "after somebody left"}},
                   .run = run_secrets_rotate});
  verbs.push_back(
      {.name = "secrets updatekeys",
       .group = group,
       .summary = "change who can open a SOPS file",
       .description = "Wraps the same data key for the recipients of .sops.yaml or --age; values "
                      "stay as they are. Keys of "
                      "other kinds (PGP, cloud KMS) stay where the rule still names them.",
       .arguments = {file("the encrypted file")},
       .flags = {age_flag(), type_flag()},
       .examples = {{"rocca secrets updatekeys secrets.sops.yaml", "after a change of .sops.yaml"}},
       .run = run_secrets_updatekeys});
  verbs.push_back(
      {.name = "secrets show",
       .group = group,
       .summary = "list names and kinds, never values",
       .description = "Names, kinds, and when certificates expire: of a SOPS file, or of all the "
                      "secrets files of a cluster.",
       .arguments = {{.name = "FILE",
                      .arity = Arity::Optional,
                      .offer = Offer::Files,
                      .help = "an encrypted file or a cluster; by default the cluster around the "
                              "working directory"}},
       .flags = {type_flag(), output_flag()},
       .examples = {{"rocca secrets show secrets.sops.yaml", "what is there"},
                    {"rocca secrets show blue", "what the cluster blue has"}},
       .run = run_secrets_show});
}

}  // namespace rocca::cli
