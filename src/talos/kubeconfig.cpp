#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"
#include "talos/client.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>

namespace rocca::talos {

namespace {

constexpr std::size_t most = 4u * 1024 * 1024;
constexpr std::size_t tar_block = 512;

std::string inflate_gzip(std::string_view bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
    throw Error(Fault::Bug, "zlib cannot be started");
  const Handle<z_stream, inflateEnd> guard{&stream};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::array<char, 16384> buffer{};
  int state = Z_OK;
  while (state == Z_OK && out.size() < most) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = buffer.size();
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer.data(), buffer.size() - stream.avail_out);
    // The writer may be cut short: what came is what there is.
    if (state == Z_BUF_ERROR || (state == Z_OK && stream.avail_in == 0 && stream.avail_out > 0))
      break;
  }
  wipe(buffer.data(), buffer.size());
  if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
    throw Error(Fault::Rejected, "the kubeconfig the node sent is no gzip");
  return out;
}

}  // namespace

std::string unpack_kubeconfig(std::string_view archive) {
  std::string tar = inflate_gzip(archive);
  const auto refuse = [&](const char* why) {
    wipe(tar);
    return Error(Fault::Rejected,
                 fmt::format("the kubeconfig the node sent cannot be read: {}", why));
  };
  if (tar.size() < tar_block) throw refuse("the archive is too short");
  std::size_t size = 0;
  // Octal text, padded with blanks or NULs, at bytes 124 to 135 of a tar header.
  for (const char c : std::string_view(tar).substr(124, 12)) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7') throw refuse("its header is damaged");
    size = size * 8 + static_cast<std::size_t>(c - '0');
    if (size > most) throw refuse("it is too large");
  }
  // Talos never closes the archive: no padding, no end block. Only the content must be whole.
  if (tar.size() - tar_block < size) throw refuse("it is cut short");
  std::string content = tar.substr(tar_block, size);
  wipe(tar);
  return content;
}

}  // namespace rocca::talos
