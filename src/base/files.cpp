#include "base/files.hpp"

#include "base/error.hpp"

namespace rocca {

std::string Files::get(const std::string& path, std::uint64_t limit) {
  auto content = find(path, limit);
  if (!content) throw Error(Fault::NotFound, path + " is not there");
  return *std::move(content);
}

void refuse_link(Files& files, const std::string& path) {
  if (const auto status = files.status(path); status && status->link)
    throw Error(Fault::Refused,
                path + " is a symbolic link, and rocca does not write secrets through links")
        .hint("remove the link, or put the file or folder itself in its place");
}

}  // namespace rocca
