#pragma once

#include "base/secret.hpp"

#include <memory>
#include <stop_token>
#include <string_view>

namespace rocca::cli {

/// Secrets live in this process's memory: from now on it leaves no core file, and no other process
/// of the same user may look into it.
void close_memory();

/// Reads one line from the terminal without showing it. Throws Refused when there is no terminal.
Secret ask_secret_on_terminal(std::string_view what);

/// While it lives, the first SIGINT or SIGTERM asks for a stop, so that what is in flight can be
/// settled; the second leaves at once with 130. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  std::stop_token token() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rocca::cli
