#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rocca::lab {

/// A real program that runs beside the lab. It is killed with this object, and also when the thread
/// that started it is no more, however that ended: a lab never leaves anything behind.
class Child {
 public:
  /// Both of its outputs go to the end of the file `log`. Throws Error(NotFound) if it cannot be
  /// started.
  Child(std::vector<std::string> words, const std::string& log);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool running();

 private:
  pid_t id_ = -1;
  bool over_ = false;
};

}  // namespace rocca::lab
