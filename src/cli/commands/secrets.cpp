#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/secrets_flags.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/terminal/child.hpp"
#include "cli/terminal/private_file.hpp"
#include "secrets/sops/config.hpp"
#include "secrets/sops/identities.hpp"
#include "secrets/sops/sops.hpp"
#include "secrets/x509.hpp"
#include "spec/locate.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <iterator>
#include <ostream>

namespace rocca::cli {
namespace {

namespace sops = secrets::sops;
using text::Value;

// --- input

std::string file_argument(const Invocation& invocation) {
  return invocation.argument("FILE").value_or("");
}

std::string absolute(const Context& context, const std::string& path) {
  return path.starts_with('/')
             ? path
             : fmt::format("{}/{}", context.folder == "/" ? "" : context.folder, path);
}

sops::Format format_of(const Invocation& invocation, const std::string& path) {
  if (const auto type = invocation.find("type")) return *sops::find_format(*type);
  return sops::format_of(path);
}

Secret read_input(Context& context, const std::string& path) {
  if (path != "-") {
    std::string text = context.files.get(path);
    return Secret::take(std::move(text));
  }
  std::string text{std::istreambuf_iterator<char>(context.in), {}};
  return Secret::take(std::move(text));
}

sops::File parse_file(const Invocation& invocation, const Secret& text) {
  const std::string path = file_argument(invocation);
  return sops::File::parse(text.reveal(), format_of(invocation, path),
                           path == "-" ? "stdin" : path);
}

sops::File read_file(Context& context, const Invocation& invocation) {
  return parse_file(invocation, read_input(context, file_argument(invocation)));
}

/// `["a"]["b"][0]`, as sops writes it. Nothing if it is not of that form.
std::optional<text::Path> parse_brackets(std::string_view text) {
  text::Path path;
  while (text.starts_with('[')) {
    text.remove_prefix(1);
    std::string step;
    if (text.starts_with('"') || text.starts_with('\'')) {
      const std::size_t end = text.find(text.front(), 1);
      if (end == std::string_view::npos) return std::nullopt;
      step = text.substr(1, end - 1);
      text.remove_prefix(end + 1);
    } else {
      const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
      step = text.substr(0, end);
      text.remove_prefix(end);
    }
    if (step.empty() || !text.starts_with(']')) return std::nullopt;
    text.remove_prefix(1);
    path.push_back(std::move(step));
  }
  return text.empty() && !path.empty() ? std::optional{std::move(path)} : std::nullopt;
}

/// `a.b.0`; a dot inside of a key is written `\.`. Or as sops writes it.
text::Path parse_path(const std::string& text) {
  if (text.starts_with('[')) {
    if (auto path = parse_brackets(text)) return std::move(*path);
    throw Error(Fault::Usage, fmt::format("`{}` is no path to a value", text))
        .hint("like `proxmox.token` or `list.0`, or as sops writes it: `[\"a\"][\"b\"][0]`");
  }
  text::Path path{""};
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '.' || text[at + 1] == '\\'))
      path.back() += text[++at];
    else if (text[at] == '.')
      path.emplace_back();
    else
      path.back() += text[at];
  }
  if (std::any_of(path.begin(), path.end(), [](const std::string& step) { return step.empty(); }))
    throw Error(Fault::Usage, fmt::format("`{}` is no path to a value", text))
        .hint("like `proxmox.token` or `list.0`");
  return path;
}

// --- recipes

void take_rule(const Invocation& invocation, sops::Selection& selection) {
  std::string given;
  for (const sops::Rule rule :
       {sops::Rule::UnencryptedSuffix, sops::Rule::EncryptedSuffix, sops::Rule::UnencryptedRegex,
        sops::Rule::EncryptedRegex, sops::Rule::UnencryptedCommentRegex,
        sops::Rule::EncryptedCommentRegex}) {
    const std::string flag =
        replace_all(replace_all(to_string(rule), "comment_regex", "comments"), "_", "-");
    const auto pattern = invocation.find(flag);
    if (!pattern) continue;
    if (!given.empty())
      throw Error(Fault::Usage, fmt::format("--{} and --{} cannot both be given", given, flag));
    given = flag;
    selection.rule = rule;
    selection.pattern = *pattern;
  }
  if (invocation.is_set("mac-only-encrypted")) selection.mac_only_encrypted = true;
}

/// From the flags, the rules of `.sops.yaml`, or SOPS_AGE_RECIPIENTS.
sops::Recipe recipe_for(Context& context, const Invocation& invocation, const std::string& path) {
  sops::Recipe recipe;
  std::vector<std::string> recipients;
  const auto add = [&](const std::string& list) {
    for (const std::string& one : split(list, ','))
      if (const auto word = trim(one); !word.empty()) recipients.emplace_back(word);
  };
  for (const std::string& list : invocation.all("age")) add(list);
  const auto config = sops::Config::find(context.files, context.folder);
  bool ruled = false;
  if (config) {
    try {
      if (auto rule = config->find_rule(absolute(context, path))) {
        recipe = std::move(*rule);
        ruled = true;
      }
    } catch (const Error& error) {
      // `--age` names the recipients, so that no rule is needed.
      if (error.fault() != Fault::Usage || recipients.empty()) throw;
    }
  }
  if (!ruled && recipients.empty()) add(context.variable("SOPS_AGE_RECIPIENTS").value_or(""));
  if (!recipients.empty()) recipe.recipients = sops::Recipients::age(recipients);
  return recipe;
}

void write_result(Context& context, const Invocation& invocation, const std::string& text,
                  bool in_place) {
  const std::string path = file_argument(invocation);
  if (!in_place || path == "-") {
    context.data() << text;
    return;
  }
  const auto status = context.files.status(path);
  context.files.write_private(path, text, status ? status->mode : 0600);
}

/// Writes what was made of `before`, unless somebody else has written meanwhile.
void replace(Context& context, const Invocation& invocation, const Secret& before,
             const std::string& after) {
  const std::string path = file_argument(invocation);
  if (path != "-" && context.files.find(path) != before.reveal())
    throw Error(Fault::Conflict, fmt::format("somebody else changed {} meanwhile", path))
        .hint("nothing was written; do it again on what is there now");
  write_result(context, invocation, after, true);
}

// --- show

struct Shown {
  std::string kind;
  std::string expires;
};

Shown describe(const Value& value) {
  if (!value.is_string()) return {to_string(value.kind()), ""};
  std::string pem = value.text();
  if (!pem.starts_with("-----BEGIN"))
    if (auto decoded = from_base64(pem); decoded && decoded->starts_with("-----BEGIN"))
      pem = std::move(*decoded);
  Shown shown{"string", ""};
  if (pem.starts_with("-----BEGIN CERTIFICATE-----")) {
    shown.kind = "certificate";
    try {
      shown.expires = to_string(secrets::Certificate::parse(pem, "value").not_after);
    } catch (const Error& error) {
      if (error.fault() != Fault::Usage) throw;
      shown.kind = "certificate (damaged)";
    }
  } else if (pem.starts_with("-----BEGIN") && pem.find("PRIVATE KEY-----") != std::string::npos) {
    shown.kind = "private key";
  } else if (pem.starts_with("AGE-SECRET-KEY-")) {
    shown.kind = "age identity";
  } else if (pem.empty()) {
    shown.kind = "empty";
  }
  wipe(pem);
  return shown;
}

void collect(const Value& value, const std::string& name, Value& out, std::string& people) {
  const std::string prefix = name.empty() ? "" : name + ".";
  for (const text::Entry& entry : value.entries())
    collect(entry.value, prefix + entry.key, out, people);
  for (std::size_t i = 0; i < value.items().size(); ++i)
    collect(value.items()[i], prefix + std::to_string(i), out, people);
  if (!value.is_scalar()) return;
  const Shown shown = describe(value);
  Value row = Value::map();
  row.set("name", Value::string(name));
  row.set("kind", Value::string(shown.kind));
  if (!shown.expires.empty()) row.set("expires", Value::string(shown.expires));
  out.append(std::move(row));
  people += fmt::format("{:<40} {}{}\n", visible(name), shown.kind,
                        shown.expires.empty() ? "" : ", expires " + shown.expires);
}

}  // namespace

static int run_secrets_encrypt(Context& context, const Invocation& invocation) {
  const std::string path = file_argument(invocation);
  const Secret text = read_input(context, path);
  sops::Recipe recipe = recipe_for(context, invocation, path);
  take_rule(invocation, recipe.selection);
  const auto plain =
      sops::Plain::parse(text.reveal(), format_of(invocation, path), path == "-" ? "stdin" : path);
  write_result(context, invocation, sops::encrypt(plain, recipe, context.clock, context.entropy),
               invocation.is_set("in-place"));
  return 0;
}

Command secrets_encrypt_command() {
  Command command{
      .name = "secrets encrypt",
      .group = "Secrets",
      .summary = "encrypt a file with SOPS, to stdout",
      .description =
          "Values are encrypted, keys and structure stay readable. `sops`, Flux and rocca can open "
          "the result.",
      .arguments = {file_argument("the file in clear text; `-` reads stdin")},
      .flags = {age_flag(),
                {.name = "in-place", .letter = 'i', .help = "replace the file instead of printing"},
                type_flag()},
      .examples = {{"rocca secrets encrypt --age age1… secrets.yaml > secrets.sops.yaml",
                    "for one recipient"},
                   {"rocca secrets encrypt -i secrets.sops.yaml", "as .sops.yaml says"}},
      .run = run_secrets_encrypt};
  for (Flag& flag : rule_flags()) command.flags.push_back(std::move(flag));
  return command;
}

static int run_secrets_decrypt(Context& context, const Invocation& invocation) {
  const sops::File file = read_file(context, invocation);
  const Secret key = keys_of(context)->data_key(file);
  context.data() << file.decrypt(key).text().reveal();
  return 0;
}

Command secrets_decrypt_command() {
  return {
      .name = "secrets decrypt",
      .group = "Secrets",
      .summary = "decrypt a SOPS file, to stdout",
      .description = std::string{"A file whose MAC does not match is refused. "} + identity_help,
      .arguments = {file_argument("the encrypted file; `-` reads stdin")},
      .flags = {type_flag()},
      .examples = {{"rocca secrets decrypt secrets.sops.yaml", "read it"}},
      .run = run_secrets_decrypt};
}

static int run_secrets_show(Context& context, const Invocation& invocation) {
  const std::string named = file_argument(invocation);
  const auto status = named == "-" ? std::nullopt : context.files.status(absolute(context, named));
  const bool is_file = named == "-" || (!named.empty() && status && !status->folder &&
                                        !named.ends_with(spec::spec_file_name));
  if (!is_file) return show_cluster_secrets(context, invocation, invocation.argument("FILE"));
  const sops::File file = read_file(context, invocation);
  const Secret key = keys_of(context)->data_key(file);
  const sops::Plain plain = file.decrypt(key);
  Value values = Value::list();
  std::string people;
  for (const Value& document : plain.documents()) collect(document, "", values, people);
  Value keys = Value::list();
  for (const auto& group : file.recipients().groups)
    for (const sops::MasterKey& one : group) keys.append(Value::string(one.shown()));
  people += "\nfor ";
  for (std::size_t i = 0; i < keys.items().size(); ++i)
    people += (i > 0 ? "\n    " : "") + visible(keys.items()[i].text());
  people += fmt::format("\nchanged {}\n", visible(file.last_modified()));
  Value all = Value::map();
  all.set("values", std::move(values));
  all.set("recipients", std::move(keys));
  all.set("lastModified", Value::string(file.last_modified()));
  print(context, invocation, all, people);
  return 0;
}

Command secrets_show_command() {
  return {
      .name = "secrets show",
      .group = "Secrets",
      .summary = "list names and kinds, never values",
      .description =
          "Names, kinds, and when certificates expire: of a SOPS file, or of all the secrets files "
          "of a cluster.",
      .arguments =
          {{.name = "FILE",
            .arity = Arity::Optional,
            .offer = Offer::Files,
            .help =
                "an encrypted file or a cluster; default: the cluster in the working directory"}},
      .flags = {type_flag(), output_flag()},
      .examples = {{"rocca secrets show secrets.sops.yaml", "list a file"},
                   {"rocca secrets show blue", "all files of the cluster blue"}},
      .run = run_secrets_show};
}

static int run_secrets_set(Context& context, const Invocation& invocation) {
  const text::Path path = parse_path(*invocation.argument("PATH"));
  if (file_argument(invocation) == "-")
    throw Error(Fault::Usage, "a value is set in a file: stdin is where the value comes from");
  session::Keys& keys = *keys_of(context);
  keys.data_key(read_file(context, invocation));  // before anybody types a value in vain
  Secret input;
  if (context.ask_secret) {
    input = context.ask_secret(fmt::format("value of {}", join(path, ".")));
  } else {
    input = read_input(context, "-");
    // `echo x |` adds a line break that nobody means.
    if (input.reveal().ends_with('\n') && !invocation.is_set("verbatim"))
      input = Secret{input.reveal().substr(0, input.size() - 1)};
  }
  Value value = invocation.is_set("typed") ? text::parse_yaml(input.reveal(), "value")
                                           : Value::string(std::string{input.reveal()});
  // Read anew: typing takes its time, and others may have set something meanwhile.
  const Secret before = read_input(context, file_argument(invocation));
  const sops::File file = parse_file(invocation, before);
  const Secret key = keys.data_key(file);
  const std::string text = file.set(path, value, key, context.clock, context.entropy);
  value.wipe();
  replace(context, invocation, before, text);
  return 0;
}

Command secrets_set_command() {
  return {.name = "secrets set",
          .group = "Secrets",
          .summary = "set one value of a SOPS file from stdin",
          .description =
              "The value is read from stdin (or asked for on a terminal), never from the command "
              "line, which other users can see. One line break at its end is dropped.",
          .arguments = {file_argument("the encrypted file"), path_argument()},
          .flags = {{.name = "typed", .help = "read the value as YAML: numbers, lists, maps"},
                    {.name = "verbatim", .help = "keep a line break at the end"},
                    type_flag()},
          .examples = {{"pass show pve | rocca secrets set secrets.sops.yaml proxmox.token",
                        "from a password manager"}},
          .run = run_secrets_set};
}

static int run_secrets_unset(Context& context, const Invocation& invocation) {
  const Secret before = read_input(context, file_argument(invocation));
  const sops::File file = parse_file(invocation, before);
  const Secret key = keys_of(context)->data_key(file);
  replace(
      context, invocation, before,
      file.unset(parse_path(*invocation.argument("PATH")), key, context.clock, context.entropy));
  return 0;
}

Command secrets_unset_command() {
  return {.name = "secrets unset",
          .group = "Secrets",
          .summary = "remove one value from a SOPS file",
          .arguments = {file_argument("the encrypted file"), path_argument()},
          .flags = {type_flag()},
          .examples = {{"rocca secrets unset secrets.sops.yaml old.token", "remove a value"}},
          .run = run_secrets_unset};
}

static int run_secrets_rotate(Context& context, const Invocation& invocation) {
  const Secret before = read_input(context, file_argument(invocation));
  const sops::File file = parse_file(invocation, before);
  const Secret key = keys_of(context)->data_key(file);
  replace(context, invocation, before, file.rotate(key, context.clock, context.entropy));
  return 0;
}

Command secrets_rotate_command() {
  return {.name = "secrets rotate",
          .group = "Secrets",
          .summary = "replace the data key of a SOPS file",
          .description =
              "Encrypts every value again with a new key for the same recipients, so that the data "
              "key a removed recipient may have kept no longer opens it.",
          .arguments = {file_argument("the encrypted file")},
          .flags = {type_flag()},
          .examples = {{"rocca secrets rotate secrets.sops.yaml", "after a person left"}},
          .run = run_secrets_rotate};
}

static int run_secrets_updatekeys(Context& context, const Invocation& invocation) {
  const std::string path = file_argument(invocation);
  const Secret before = read_input(context, path);
  const sops::File file = parse_file(invocation, before);
  const sops::Recipe recipe = recipe_for(context, invocation, path);
  if (recipe.recipients.groups.empty())
    throw Error(Fault::Usage, "no recipients are given")
        .hint("name them with `--age age1…`, or write a rule into `.sops.yaml`");
  session::Keys& keys = *keys_of(context);
  const Secret key = keys.data_key(file);
  const std::string text = file.with_recipients(recipe.recipients, key, context.entropy);
  try {
    sops::File::parse(text, format_of(invocation, path), path).data_key(keys.identities());
  } catch (const Error& error) {
    if (error.fault() != Fault::Denied) throw;
    context.err << fmt::format(
        "warning: none of the keys here opens {} any more: only its new recipients do\n",
        visible(path));
  }
  replace(context, invocation, before, text);
  return 0;
}

Command secrets_updatekeys_command() {
  return {
      .name = "secrets updatekeys",
      .group = "Secrets",
      .summary = "change who can open a SOPS file",
      .description =
          "Encrypts the same data key for the recipients of .sops.yaml or --age; values stay as "
          "they are. Keys of other kinds (PGP, cloud KMS) stay if the rule still names them.",
      .arguments = {file_argument("the encrypted file")},
      .flags = {age_flag(), type_flag()},
      .examples = {{"rocca secrets updatekeys secrets.sops.yaml", "after a change of .sops.yaml"}},
      .run = run_secrets_updatekeys};
}

static int run_secrets_edit(Context& context, const Invocation& invocation) {
  const std::string path = file_argument(invocation);
  const sops::Format format = format_of(invocation, path);
  const bool fresh = !context.files.status(path);
  std::optional<sops::File> file;
  Secret key;
  Secret there;  // the file as it was read
  Secret before;
  if (!fresh) {
    there = read_input(context, path);
    file = parse_file(invocation, there);
    key = keys_of(context)->data_key(*file);
    before = file->decrypt(key).text();
  }
  std::string command =
      context.variable("SOPS_EDITOR")
          .value_or(context.variable("VISUAL").value_or(context.variable("EDITOR").value_or("vi")));
  auto words = sops::shell_words(command);
  if (words.empty()) throw Error(Fault::Usage, "EDITOR names no command");
  HeldSignals signals;  // before the draft, which is wiped before a signal ends us
  const PrivateFile draft(context.environment, path.substr(path.rfind('/') + 1), before.reveal());
  words.push_back(draft.path());
  for (;;) {
    const int code = run_on_terminal(words, signals);
    if (signals.caught() != 0) return 128 + signals.caught();
    if (code != 0)
      throw Error(Fault::Rejected, fmt::format("`{}` ended with exit code {}; nothing was changed",
                                               words.front(), code));
    const Secret after = draft.read();
    if (after == before) {
      context.err << "nothing was changed\n";
      return 0;
    }
    try {
      const auto plain = sops::Plain::parse(after.reveal(), format, path);
      std::string text;
      if (fresh) {
        sops::Recipe recipe = recipe_for(context, invocation, path);
        take_rule(invocation, recipe.selection);
        text = sops::encrypt(plain, recipe, context.clock, context.entropy);
      } else {
        text = file->with_content(plain, key, context.clock, context.entropy);
        if (!context.terminal.in || !context.terminal.err) {
          replace(context, invocation, there, text);
          return 0;
        }
        if (context.files.find(path) != there.reveal())
          confirm(context, fmt::format("Somebody else changed {} meanwhile. Overwrite that?", path),
                  false);
      }
      write_result(context, invocation, text, true);
      return 0;
    } catch (const Error& error) {
      // What was typed must not be lost to a missing quote.
      if (!context.terminal.in || !context.terminal.err) throw;
      context.err << error.render();
      confirm(context, "Edit it again?", false, "a text that is right");
    }
  }
}

Command secrets_edit_command() {
  Command command{.name = "secrets edit",
                  .group = "Secrets",
                  .summary = "edit a SOPS file with $EDITOR",
                  .description =
                      "While you edit, the clear text is in memory only (a tmpfs folder that only "
                      "you can enter); it is removed afterwards, also when rocca is killed. Values "
                      "that you do not change keep their ciphertext. A missing file is created.",
                  .arguments = {file_argument("the encrypted file")},
                  .flags = {age_flag(), type_flag()},
                  .examples = {{"rocca secrets edit secrets.sops.yaml", "change values"}},
                  .run = run_secrets_edit};
  for (Flag& flag : rule_flags()) command.flags.push_back(std::move(flag));
  return command;
}

}  // namespace rocca::cli
