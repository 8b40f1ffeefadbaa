#pragma once

#include <memory>
#include <stop_token>

namespace rocca::cli {

/// Secrets live in this process's memory: from now on it leaves no core file, and no other process
/// of the same user may look into it.
void close_memory();

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
