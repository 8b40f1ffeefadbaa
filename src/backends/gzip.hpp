#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rocca::backends {

std::string gzip(std::string_view bytes);
/// Throws Error(Rejected) for what is no gzip, is cut, or grows beyond `limit`.
std::string gunzip(std::string_view bytes, std::size_t limit = 64ull * 1024 * 1024);

}  // namespace rocca::backends
