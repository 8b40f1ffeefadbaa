#include "base/files.hpp"

#include "base/error.hpp"

namespace rocca {

std::string Files::get(const std::string& path, std::uint64_t limit) {
  auto content = find(path, limit);
  if (!content) throw Error(Fault::NotFound, path + " is not there");
  return *std::move(content);
}

}  // namespace rocca
