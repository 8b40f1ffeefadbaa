#include "cli/secret_lookup.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/context.hpp"
#include "cli/terminal/program.hpp"
#include "secrets/sops/identities.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

namespace sops = secrets::sops;

namespace {

Secret run_patiently(Context& context, const std::vector<std::string>& words,
                     const std::stop_token& stop) {
  Patience patience;
  patience.tell = [&](const std::string& program) {
    context.err << fmt::format("waiting for `{}` …\n", visible(program));
  };
  return run_program(words, context.environment, stop, patience);
}

}  // namespace

const std::vector<secrets::age::Identity>& Keys::identities() {
  if (looked_) return identities_;
  Diagnostics problems;
  const auto run = [this](const std::vector<std::string>& words) {
    return run_patiently(context_, words, stop_);
  };
  sops::FoundIdentities found = sops::find_identities(context_.environment, context_.files, run,
                                                      context_.ask_secret, problems);
  context_.err << problems.render();
  identities_ = std::move(found.identities);
  searched_ = std::move(found.searched);
  looked_ = true;
  return identities_;
}

Secret Keys::data_key(const sops::File& file) {
  if (!identities().empty()) return file.data_key(identities_);
  try {
    return file.data_key(identities_);
  } catch (Error& error) {
    std::string message = error.message() + "; there is no age key here. Looked for:";
    for (const std::string& place : searched_) message += "\n  " + place;
    throw Error(error.fault(), std::move(message))
        .hint("copy the key file of the machine that made it, or set SOPS_AGE_KEY_FILE");
  }
}

std::optional<sops::Plain> open_secrets(Context& context, Keys& keys, const std::string& path) {
  const auto text = context.files.find(path);
  if (!text) return std::nullopt;
  const sops::Format format = sops::format_of(path);
  if (!sops::is_encrypted(*text, format)) {
    sops::Plain::parse(*text, format, path);  // what cannot be read at all is another problem
    throw Error(Fault::Refused, fmt::format("{} is not encrypted", path))
        .hint(fmt::format("rocca secrets encrypt {}", path));
  }
  const sops::File file = sops::File::parse(*text, format, path);
  return file.decrypt(keys.data_key(file));
}

sources::Doors secret_doors(Context& context, net::Transport& transport, std::stop_token stop) {
  const auto keys = std::make_shared<Keys>(context, stop);
  return {context.files,
          context.clock,
          transport,
          context.environment,
          [&context, keys](const std::string& path) -> std::optional<text::Value> {
            const auto plain = open_secrets(context, *keys, path);
            if (!plain) return std::nullopt;
            return plain->documents().empty() ? text::Value::map() : plain->documents().front();
          },
          [&context, stop](const std::vector<std::string>& command) {
            return run_patiently(context, command, stop);
          }};
}

}  // namespace rocca::cli
