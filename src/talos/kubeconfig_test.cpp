#include "base/error.hpp"
#include "talos/client.hpp"

#include <gmock/gmock.h>
#include <zlib.h>

#include <array>
#include <cstring>

namespace rocca::talos {
namespace {

/// What a node sends: a tar header, the bytes, and nothing after them, in gzip.
std::string archive(const std::string& content, std::size_t claimed) {
  std::string tar(512, '\0');
  std::memcpy(tar.data(), "kubeconfig", 10);
  const std::string size = [&] {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%011zo", claimed);
    return std::string(text.data());
  }();
  tar.replace(124, size.size(), size);
  tar += content;
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(tar.size() + 256, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(tar.data());
  stream.avail_in = static_cast<uInt>(tar.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Kubeconfig, IsReadThoughTheArchiveHasNoEnd) {
  const std::string text = "apiVersion: v1\nkind: Config\n";
  EXPECT_EQ(unpack_kubeconfig(archive(text, text.size())), text);
}

TEST(Kubeconfig, RefusesWhatIsCutShortOrNoArchive) {
  EXPECT_THROW(unpack_kubeconfig(archive("short", 4000)), Error);
  EXPECT_THROW(unpack_kubeconfig("no gzip at all"), Error);
  EXPECT_THROW(unpack_kubeconfig(""), Error);
}

}  // namespace
}  // namespace rocca::talos
