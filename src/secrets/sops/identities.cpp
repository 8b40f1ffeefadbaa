#include "secrets/sops/identities.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

namespace rocca::secrets::sops {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr const char* hybrid_switch = "ROCCA_AGE_HYBRID";

std::string variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

/// Since SOPS 3.13 identities may also stand on one line. Comments keep theirs.
Secret one_a_line(std::string_view text) {
  std::string out;
  bool comment = false;
  bool fresh = true;
  for (const char c : text) {
    if (c == '\n') {
      comment = false;
      fresh = true;
    } else if (fresh && c == '#') {
      comment = true;
    }
    if (c != '\n' && c != ' ' && c != '\t' && c != '\r') fresh = false;
    out += !comment && (c == ' ' || c == '\t' || c == '\r') ? '\n' : c;
  }
  return Secret::take(std::move(out));
}

}  // namespace

std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = '\0';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote == '\'') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (c == '\\' && at + 1 < text.size() &&
               (quote == '\0' || text[at + 1] == '"' || text[at + 1] == '\\')) {
      word += text[++at];
      inside = true;
    } else if (quote == '"') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (inside) words.push_back(std::move(word));
      word.clear();
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != '\0') throw Error(Fault::Usage, "a quote in a command has no end");
  if (inside) words.push_back(std::move(word));
  return words;
}

FoundIdentities find_identities(const Environment& environment, Files& files, const RunCommand& run,
                                const age::AskPassphrase& ask, Diagnostics& problems) {
  FoundIdentities found;
  // rocca's ML-KEM is its own and not audited: secret keys reach it only if the user says so.
  const bool take_hybrid = variable(environment, hybrid_switch) == "1";
  bool left_out = false;
  const auto add = [&](std::vector<age::Identity> identities) {
    for (age::Identity& identity : identities)
      if (identity.kind() != age::KeyKind::Hybrid || take_hybrid)
        found.identities.push_back(std::move(identity));
      else
        left_out = true;
  };
  const auto named = [&](const std::string& name) {
    std::string text = variable(environment, name);
    found.searched.push_back(text.empty() ? name + " (not set)" : name);
    return text;
  };

  if (std::string key = named("SOPS_AGE_KEY"); !key.empty()) {
    add(age::parse_identities(one_a_line(key).reveal(), "SOPS_AGE_KEY", ask));
    wipe(key);
  }
  if (const std::string file = named("SOPS_AGE_KEY_FILE"); !file.empty())
    within("reading SOPS_AGE_KEY_FILE",
           [&] { add(age::load_identities(files, file, ask, problems)); });
  if (const std::string command = named("SOPS_AGE_KEY_CMD"); !command.empty())
    within("running SOPS_AGE_KEY_CMD", [&] {
      const auto words = shell_words(command);
      if (words.empty()) throw Error(Fault::Usage, "SOPS_AGE_KEY_CMD names no command");
      if (!run) throw Error(Fault::Usage, "commands cannot be run here");
      add(age::parse_identities(run(words).reveal(), "the output of SOPS_AGE_KEY_CMD", ask));
    });
  if (const std::string file = named("SOPS_AGE_SSH_PRIVATE_KEY_FILE"); !file.empty())
    within("reading SOPS_AGE_SSH_PRIVATE_KEY_FILE",
           [&] { add(age::load_identities(files, file, ask, problems)); });

  const std::string home = variable(environment, "HOME");
  std::string configuration = variable(environment, "XDG_CONFIG_HOME");
  if (configuration.empty() && !home.empty()) configuration = home + "/.config";
  if (!configuration.empty()) {
    const std::string file = configuration + "/sops/age/keys.txt";
    found.searched.push_back(file);
    if (files.status(file)) add(age::load_identities(files, file, ask, problems));
  }
  if (!home.empty()) {
    for (const char* name : {"/.ssh/id_ed25519", "/.ssh/id_rsa"}) {
      const std::string file = home + name;
      found.searched.push_back(file);
      auto text = files.find(file);
      if (!text) continue;
      try {
        found.identities.push_back(age::Identity::parse_ssh(*text));
      } catch (const Error& error) {
        // The user's own SSH key is only a guess: one with a passphrase, or of a kind that age does
        // not take, is left out.
        if (error.fault() != Fault::Usage) throw;
      }
      wipe(*text);
    }
  }
  if (left_out) {
    found.searched.push_back(std::string("a post-quantum key was left out: it is read with ") +
                             hybrid_switch + "=1");
  }
  return found;
}

}  // namespace rocca::secrets::sops
