#include "cli/commands/secrets_flags.hpp"

namespace rocca::cli {

namespace {

Flag rule(const char* name, const char* help) {
  return {.name = name, .kind = FlagKind::Text, .value = "RE", .help = help};
}

}  // namespace

Argument file_argument(const char* help) {
  return {.name = "FILE", .offer = Offer::Files, .help = help};
}
Argument path_argument() {
  return {
      .name = "PATH",
      .help =
          "the value: `proxmox.token`, `list.0`; a dot in a key is `\\.`; or in sops's notation"};
}

Flag type_flag() {
  return {.name = "type",
          .kind = FlagKind::Choice,
          .value = "FORMAT",
          .choices = {"yaml", "json", "dotenv", "binary"},
          .help = "the file's format; default: by its name"};
}

Flag age_flag() {
  return {.name = "age",
          .kind = FlagKind::Text,
          .value = "RECIPIENT",
          .help =
              "recipient: age1…, or an SSH public key; default: the rules of .sops.yaml, or "
              "SOPS_AGE_RECIPIENTS",
          .repeats = true};
}

std::vector<Flag> rule_flags() {
  return {rule("encrypted-regex", "encrypt only values below keys that match"),
          rule("unencrypted-regex", "do not encrypt values below keys that match"),
          rule("encrypted-suffix", "encrypt only values below keys with this suffix"),
          rule("unencrypted-suffix",
               "do not encrypt values below keys with this suffix (default _unencrypted)"),
          rule("encrypted-comments", "encrypt only values below comments that match"),
          rule("unencrypted-comments", "do not encrypt values below comments that match"),
          {.name = "mac-only-encrypted", .help = "let the MAC cover only encrypted values"}};
}

}  // namespace rocca::cli
