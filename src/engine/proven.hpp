#pragma once

#include "base/error.hpp"

#include <utility>

namespace rocca::engine {

/// A read cannot be done, and that was looked into: another try a moment later is in vain.
class Proven final : public Error {
 public:
  explicit Proven(Error error) : Error(std::move(error)) {}
};

}  // namespace rocca::engine
