#pragma once

#include "base/error.hpp"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

// What a program that talks to a foreign tool prints: one line `ok NAME` or `FAIL NAME: why` per
// check.

namespace rocca::peers {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void expect(bool good, const std::string& why) {
  if (!good) throw Failure(why);
}

template <class A, class B>
void expect_equal(const A& seen, const B& wanted, const std::string& what) {
  if (!(seen == wanted)) throw Failure(what + " is another");
}

inline void expect_equal(const std::string& seen, const std::string& wanted,
                         const std::string& what) {
  if (seen != wanted)
    throw Failure(what + " is '" + seen.substr(0, 200) + "', not '" + wanted.substr(0, 200) + "'");
}

/// Runs `body` and gives back the Error that it must throw, with this fault.
inline Error expect_fault(Fault fault, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.fault() != fault)
      throw Failure(std::string("the fault is ") + to_string(error.fault()) + ": " +
                    error.message());
    return error;
  }
  throw Failure(std::string("no error came, but ") + to_string(fault) + " was expected");
}

class Checks {
 public:
  void run(const char* name, const std::function<void()>& body) {
    try {
      body();
      std::printf("ok %s\n", name);
    } catch (const Error& error) {
      fail(name, error.render());
    } catch (const std::exception& error) {
      fail(name, error.what());
    }
    std::fflush(stdout);
  }

  int exit_code() const { return failed_ == 0 ? 0 : 1; }

 private:
  void fail(const char* name, const std::string& why) {
    ++failed_;
    std::printf("FAIL %s: %s\n", name, why.c_str());
  }

  int failed_ = 0;
};

}  // namespace rocca::peers
