#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace rocca::lab {

/// What a simulated process does, written top to bottom: it may wait (World::sleep, World::wait)
/// and gives a value in the end. Starts when it is awaited or spawned; an exception goes to who
/// awaits it. Move-only, owns its frame.
///
/// Parameters of a coroutine are copied into its frame, captures of a lambda are not: a lambda that
/// is a routine must outlive it (Task keeps its body for that reason).
template <class T = void>
class [[nodiscard]] Routine;

namespace detail {

struct RoutinePromiseBase {
  std::coroutine_handle<> continuation;
  std::exception_ptr error;

  struct Final {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      const std::coroutine_handle<> next = self.promise().continuation;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  void unhandled_exception() { error = std::current_exception(); }
};

template <class T>
struct RoutinePromise : RoutinePromiseBase {
  std::optional<T> value;
  Routine<T> get_return_object();
  void return_value(T result) { value = std::move(result); }
};

template <>
struct RoutinePromise<void> : RoutinePromiseBase {
  Routine<void> get_return_object();
  void return_void() const noexcept {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Routine {
 public:
  using promise_type = detail::RoutinePromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Routine(Handle handle) : handle_(handle) {}
  Routine(Routine&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Routine& operator=(Routine&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  Routine(const Routine&) = delete;
  Routine& operator=(const Routine&) = delete;
  ~Routine() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().continuation = caller;
    return handle_;
  }
  T await_resume() {
    auto& promise = handle_.promise();
    if (promise.error) std::rethrow_exception(promise.error);
    if constexpr (!std::is_void_v<T>) return std::move(*promise.value);
  }

 private:
  Handle handle_;
};

namespace detail {

template <class T>
Routine<T> RoutinePromise<T>::get_return_object() {
  return Routine<T>{std::coroutine_handle<RoutinePromise>::from_promise(*this)};
}

inline Routine<void> RoutinePromise<void>::get_return_object() {
  return Routine<void>{std::coroutine_handle<RoutinePromise>::from_promise(*this)};
}

}  // namespace detail

}  // namespace rocca::lab
