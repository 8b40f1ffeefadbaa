#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace rocca::engine {

/// A stack of its own on the caller's thread, used for one body after the other. Knows nothing of
/// who runs when.
///
/// A switch saves what the C++ runtime keeps per thread about exceptions (else `throw;` in one
/// fiber would rethrow another's) and tells the sanitizers. On x86-64 it is a few instructions of
/// our own: swapcontext asks the kernel for the signal mask each time (245 ns against 20 ns).
class Fiber {
 public:
  /// With a page below the stack that nobody may touch: running over it is a fault, not a riddle.
  explicit Fiber(std::size_t stack_size);
  /// A body that has not ended is dropped, without unwinding.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Gives an idle fiber something to do. It must not throw.
  void assign(std::function<void()> body);
  /// Outside: lets the body go on until it yields or ends.
  void resume();
  /// Inside: back to who resumed it.
  void yield();
  bool idle() const noexcept;  // its body has ended, or it never had one

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace rocca::engine
