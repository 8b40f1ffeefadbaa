#include "net/transport.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

namespace rocca::net {

bool MemorySink::write(std::string_view bytes) {
  if (bytes.size() > limit_ - text_.size())
    throw Error(Fault::Rejected, fmt::format("the answer is longer than {} bytes", limit_));
  text_ += bytes;
  return true;
}

Answer fetch(Transport& transport, const Request& request, std::stop_token stop) {
  MemorySink sink;
  Answer answer;
  answer.head = transport.exchange(request, sink, std::move(stop));
  answer.body = std::move(sink.text());
  return answer;
}

}  // namespace rocca::net
