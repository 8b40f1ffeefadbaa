#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "base/secret.hpp"

#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace rocca::engine {
class Runner;
}
namespace rocca::net {
class Transport;
}
namespace rocca::session {
class Keys;
}
namespace rocca::text {
class Value;
}

namespace rocca::cli {

class Invocation;
struct Command;

/// What the process stands on: which of its streams are terminals, how wide, and whether colour is
/// wanted.
struct Terminal {
  bool in = false;
  bool out = false;
  bool err = false;
  unsigned width = 80;
  bool resizable = false;  // a window of a person: its size is asked for anew at every picture
  bool colour_out = false;
  bool colour_err = false;
};

/// All that a command may touch. Data goes to `out`, everything else to `err`; both are filtered
/// (cli/terminal/output_filter.hpp) while a command runs.
struct Context {
  Files& files;
  Clock& clock;
  Entropy& entropy;
  std::function<std::unique_ptr<net::Transport>()> transport;  // made by who needs one
  std::map<std::string, std::string> environment;
  std::string folder;  // the working directory
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Terminal terminal;
  const std::vector<Command>* catalog = nullptr;  // for the commands that speak of commands
  /// Asks for a passphrase without showing it; empty where there is no terminal.
  std::function<Secret(std::string_view what)> ask_secret = {};
  /// From the first call on, a first SIGINT or SIGTERM asks for a stop and a second leaves at once.
  /// For commands that have something to settle; until it is called a signal simply ends the
  /// process, so that a prompt can be left with Ctrl-C.
  std::function<std::stop_token()> settle_on_signals = {};
  /// Standard output for the user's own data, byte for byte; empty where that is a terminal.
  std::ostream* exact_out = nullptr;
  /// What a run's calls run on, at most so many at once; nothing: a pool of threads.
  std::function<std::unique_ptr<engine::Runner>(unsigned calls)> runner = {};
  /// The age identities of the command, once they were asked for (cli/cluster_secrets.hpp).
  std::shared_ptr<session::Keys> keys = {};

  /// Where decrypted files and the like go: nothing in them is escaped, unless a person reads it.
  std::ostream& data() const { return exact_out != nullptr ? *exact_out : out; }
  /// The variable's text; nothing when it is absent or empty.
  std::optional<std::string> variable(const std::string& name) const;
  /// Calls settle_on_signals; a token that never stops where there is nobody to ask.
  std::stop_token stop() const {
    return settle_on_signals ? settle_on_signals() : std::stop_token{};
  }
};

enum class Colour { Red, Green, Yellow, Cyan, Bold, Dim };
/// The text in that colour if `on`, else as it is.
std::string paint(bool on, Colour colour, std::string_view text);

/// One line from the user at the terminal; Error(Refused), exit 3, where there is none. `flag` is
/// what a script passes instead.
std::string ask_line(Context& context, std::string_view question, std::string_view flag);

/// Goes on if `yes` or if the user at the terminal says so; Error(Refused), exit 3, in every other
/// case. `flag` is what a script passes instead: `--yes`.
void confirm(Context& context, std::string_view question, bool yes,
             std::string_view flag = "--yes");
/// The same for what cannot be undone: the name itself must be typed, or given by `flag`.
void confirm_name(Context& context, std::string_view question, std::string_view name,
                  const std::optional<std::string>& given, std::string_view flag = "--confirm");

/// Prints data as `--output` asks: the value as JSON or YAML, or the text made for people.
void print(Context& context, const Invocation& invocation, const text::Value& value,
           std::string_view for_people);

/// The file of the cluster that a command was given (`[CLUSTER]`): a file; a folder that holds
/// cluster.yaml; a name NAME for the nearest clusters/NAME upward; nothing given: the nearest
/// cluster.yaml from the working directory upward. Error(NotFound) says where it was looked for.
std::string cluster_file(Context& context, const std::optional<std::string>& given);

}  // namespace rocca::cli
