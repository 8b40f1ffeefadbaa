#include "backends/gzip.hpp"

#include "base/error.hpp"

#include <zlib.h>

#include <array>

namespace rocca::backends {

namespace {

constexpr int with_gzip_header = MAX_WBITS + 16;

Bytef* bytes_of(std::string_view text) {
  // zlib's input is not const; it does not write there.
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
}

}  // namespace

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, with_gzip_header, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(Fault::Bug, "zlib could not begin");
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = bytes_of(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int end = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (end != Z_STREAM_END) throw Error(Fault::Bug, "zlib could not compress");
  return out;
}

std::string gunzip(std::string_view bytes, std::size_t limit) {
  z_stream stream{};
  if (inflateInit2(&stream, with_gzip_header) != Z_OK)
    throw Error(Fault::Bug, "zlib could not begin");
  stream.next_in = bytes_of(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::array<char, 64 * 1024> chunk{};
  int state = Z_OK;
  while (state == Z_OK && out.size() <= limit) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(chunk.data(), chunk.size() - stream.avail_out);
    if (state == Z_BUF_ERROR) break;
  }
  inflateEnd(&stream);
  if (out.size() > limit) throw Error(Fault::Rejected, "what was compressed is too large");
  if (state != Z_STREAM_END) throw Error(Fault::Rejected, "what was compressed is damaged");
  return out;
}

}  // namespace rocca::backends
