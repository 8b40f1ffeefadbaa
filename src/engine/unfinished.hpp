#pragma once

#include "base/error.hpp"

#include <string>

namespace rocca::engine {

/// Thrown by Resource::read when it has done a part of a long search. It is called again, and goes
/// on where it was; meanwhile its thread and its lanes are free for others. Not a failed try.
class Unfinished final : public Error {
 public:
  explicit Unfinished(std::string what) : Error(Fault::Busy, std::move(what)) {}
};

}  // namespace rocca::engine
