// The gRPC frame reader on any bytes, cut anywhere: whole messages or Error(Rejected), never more
// memory than the limit, and the same messages however the bytes are cut.

#include "base/error.hpp"
#include "net/grpc.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr std::size_t limit = 1024;

struct Outcome {
  std::vector<std::string> messages;
  bool rejected = false;
  bool at_boundary = false;

  bool operator==(const Outcome&) const = default;
};

Outcome read(std::string_view bytes, std::size_t step) {
  Outcome outcome;
  rocca::net::GrpcFrames frames(limit);
  const auto keep = [&](std::string_view message) {
    if (message.size() > limit) std::abort();
    outcome.messages.emplace_back(message);
    return true;
  };
  try {
    while (!bytes.empty()) {
      const auto piece = bytes.substr(0, step);
      if (!frames.feed(piece, keep)) std::abort();
      bytes.remove_prefix(piece.size());
    }
    outcome.at_boundary = frames.at_boundary();
  } catch (const rocca::Error& error) {
    if (error.fault() != rocca::Fault::Rejected) std::abort();
    outcome.rejected = true;
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const Outcome whole = read(bytes, bytes.size() + 1);
  if (read(bytes, data[0] + std::size_t{1}) != whole) std::abort();

  // What was read whole, framed again, is what was read.
  if (!whole.rejected && whole.at_boundary) {
    std::string again;
    for (const auto& message : whole.messages) again += rocca::net::grpc_frame(message);
    if (again != bytes) std::abort();
  }
  return 0;
}
