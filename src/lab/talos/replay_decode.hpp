#pragma once

#include "text/value.hpp"

#include <string>
#include <string_view>

namespace rocca::lab::talos {

/// Messages as protobuf JSON (proto field names), read by Talos's own descriptors and not by our
/// .proto files: the third opinion between the lab and the recordings.
class Descriptors {
 public:
  explicit Descriptors(text::Value value) : value_(std::move(value)) {}

  /// The response type of a method ("/machine.MachineService/Version"); "" if it is not known.
  std::string response_of(const std::string& path) const;
  text::Value decode(const std::string& type, std::string_view message) const;

 private:
  text::Value scalar(const std::string& type, std::uint64_t number) const;
  text::Value value_;
};

/// Recorded and own JSON brought to what must agree: times, ids, counters and numbers of one run
/// become marks, and `proto_spec` the set of its fields without zeros.
text::Value comparable(const text::Value& json, std::string_view key = {});

}  // namespace rocca::lab::talos
