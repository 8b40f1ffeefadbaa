#include "engine/fiber.hpp"

#include "base/error.hpp"

#include <cxxabi.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ROCCA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROCCA_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ROCCA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROCCA_TSAN 1
#endif
#endif
#if defined(ROCCA_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(ROCCA_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

// What the System V ABI says a callee keeps: rbx, rbp, r12–r15, the control words of x87 and SSE.
// rdi: where the old stack pointer goes; rsi: the new one.
#if defined(__x86_64__)
extern "C" void rocca_fiber_switch(void** from, void* to) noexcept;
extern "C" void rocca_fiber_begin() noexcept;
__asm__(
    ".text\n"
    ".globl rocca_fiber_switch\n"
    ".hidden rocca_fiber_switch\n"
    ".type rocca_fiber_switch,@function\n"
    "rocca_fiber_switch:\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  subq $8, %rsp\n"
    "  stmxcsr (%rsp)\n"
    "  fnstcw 4(%rsp)\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  ldmxcsr (%rsp)\n"
    "  fldcw 4(%rsp)\n"
    "  addq $8, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n"
    ".size rocca_fiber_switch,.-rocca_fiber_switch\n"
    // Where a new stack begins: r12 is the function, r13 its argument. No return address above it:
    // whoever walks the stack stops here.
    ".globl rocca_fiber_begin\n"
    ".hidden rocca_fiber_begin\n"
    ".type rocca_fiber_begin,@function\n"
    "rocca_fiber_begin:\n"
    "  .cfi_startproc\n"
    "  .cfi_undefined rip\n"
    "  movq %r13, %rdi\n"
    "  xorl %ebp, %ebp\n"
    "  callq *%r12\n"
    "  ud2\n"
    "  .cfi_endproc\n"
    ".size rocca_fiber_begin,.-rocca_fiber_begin\n");
#endif

namespace rocca::engine {

namespace {

/// What __cxa_get_globals points to (Itanium C++ ABI, 2.2.2).
struct ExceptionGlobals {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

void exchange_globals(ExceptionGlobals& kept) noexcept {
  ExceptionGlobals now;
  void* const place = abi::__cxa_get_globals();
  std::memcpy(&now, place, sizeof now);
  std::memcpy(place, &kept, sizeof kept);
  kept = now;
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// Stacks that nobody uses any more: the next fibers of this thread find them mapped and touched.
class Stacks {
 public:
  static Stacks& mine() {
    thread_local Stacks stacks;
    return stacks;
  }

  void* take(std::size_t size) {
    if (size == size_ && !free_.empty()) {
      void* const base = free_.back();
      free_.pop_back();
      return base;
    }
    // Only the pages that are touched cost memory.
    void* const base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (base == MAP_FAILED)
      throw Error(Fault::Busy, fmt::format("no memory for a stack: {}", std::strerror(errno)));
    if (::mprotect(base, page_size(), PROT_NONE) != 0) {
      ::munmap(base, size);
      throw Error(Fault::Busy, fmt::format("no guard for a stack: {}", std::strerror(errno)));
    }
    return base;
  }

  void give(void* base, std::size_t size) noexcept {
    constexpr std::size_t many = 32;  // all that a small run needs; a large one gives the rest back
    if (free_.empty()) size_ = size;
    if (size == size_ && free_.size() < many)
      free_.push_back(base);
    else
      ::munmap(base, size);
  }

  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() {
    for (void* const base : free_) ::munmap(base, size_);
  }

 private:
  Stacks() { free_.reserve(32); }

  std::size_t size_ = 0;
  std::vector<void*> free_;
};

}  // namespace

struct Fiber::Context {
  explicit Context(std::size_t wanted) {
#if defined(ROCCA_ASAN) || defined(ROCCA_TSAN)
    wanted *= 4;  // red zones and spilled registers make frames several times as large
#endif
    const std::size_t page = page_size();
    size = (wanted + page - 1) / page * page;
    mapped = size + page;
    base = Stacks::mine().take(mapped);
    stack = static_cast<char*>(base) + page;
#if defined(ROCCA_ASAN)
    // The kernel may give the place of a stack that was dropped with its frames still marked.
    __asan_unpoison_memory_region(stack, size);
#endif
#if defined(ROCCA_TSAN)
    tsan = __tsan_create_fiber(0);
#endif
    prepare();
  }

  ~Context() {
#if defined(ROCCA_TSAN)
    __tsan_destroy_fiber(tsan);
#endif
    Stacks::mine().give(base, mapped);
  }

  static void enter(void* self) noexcept {
    auto* const context = static_cast<Context*>(self);
    context->arrived_inside();
    while (true) {
      context->body();
      context->body = nullptr;
      context->switch_out();
    }
  }

#if defined(__x86_64__)
  void prepare() {
    // As rocca_fiber_switch leaves a stack. A function begins 8 above a multiple of 16.
    auto top = reinterpret_cast<std::uintptr_t>(stack + size) & ~std::uintptr_t{15};
    auto* at = reinterpret_cast<std::uint64_t*>(top);
    *--at = 0;
    *--at = 0;
    *--at = reinterpret_cast<std::uint64_t>(&rocca_fiber_begin);
    *--at = 0;                                                 // rbp
    *--at = 0;                                                 // rbx
    *--at = reinterpret_cast<std::uint64_t>(&Context::enter);  // r12
    *--at = reinterpret_cast<std::uint64_t>(this);             // r13
    *--at = 0;                                                 // r14
    *--at = 0;                                                 // r15
    --at;
    std::uint32_t words[2] = {0, 0};
    __asm__ volatile("stmxcsr %0" : "=m"(words[0]));
    __asm__ volatile("fnstcw %0" : "=m"(words[1]));
    std::memcpy(at, words, sizeof words);
    inside_sp = at;
  }
  void jump_in() noexcept {
    rocca_fiber_switch(&outside_sp, inside_sp);
  }
  void jump_out() noexcept {
    rocca_fiber_switch(&inside_sp, outside_sp);
  }

  void* inside_sp = nullptr;
  void* outside_sp = nullptr;
#else
  static void enter_halves(unsigned high, unsigned low) noexcept {
    enter(reinterpret_cast<void*>(static_cast<std::uintptr_t>(high) << 32 | low));
  }
  void prepare() {
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = size;
    inside.uc_link = nullptr;
    const auto self = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(this));
    makecontext(&inside, reinterpret_cast<void (*)()>(&Context::enter_halves), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
  void jump_in() noexcept {
    swapcontext(&outside, &inside);
  }
  void jump_out() noexcept {
    swapcontext(&inside, &outside);
  }

  ucontext_t inside{};
  ucontext_t outside{};
#endif

  void switch_in() noexcept {
    exchange_globals(globals);
#if defined(ROCCA_TSAN)
    tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan, 0);
#endif
#if defined(ROCCA_ASAN)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack, size);
#endif
    jump_in();
#if defined(ROCCA_ASAN)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    exchange_globals(globals);
  }

  void switch_out() noexcept {
#if defined(ROCCA_TSAN)
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
#if defined(ROCCA_ASAN)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, outside_stack, outside_size);
#endif
    jump_out();
#if defined(ROCCA_ASAN)
    __sanitizer_finish_switch_fiber(fake, &outside_stack, &outside_size);
#endif
  }

  void arrived_inside() noexcept {
#if defined(ROCCA_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &outside_stack, &outside_size);
#endif
  }

  void* base = nullptr;
  char* stack = nullptr;
  std::size_t size = 0;
  std::size_t mapped = 0;
  std::function<void()> body;
  ExceptionGlobals globals;
#if defined(ROCCA_ASAN)
  const void* outside_stack = nullptr;
  std::size_t outside_size = 0;
#endif
#if defined(ROCCA_TSAN)
  void* tsan = nullptr;
  void* tsan_outside = nullptr;
#endif
};

Fiber::Fiber(std::size_t stack_size) : context_(std::make_unique<Context>(stack_size)) {}
Fiber::~Fiber() = default;

void Fiber::assign(std::function<void()> body) {
  if (!idle()) throw Error(Fault::Bug, "a fiber that runs was given something else to do");
  context_->body = std::move(body);
}
void Fiber::resume() {
  context_->switch_in();
}
void Fiber::yield() {
  context_->switch_out();
}
bool Fiber::idle() const noexcept {
  return context_->body == nullptr;
}

}  // namespace rocca::engine
