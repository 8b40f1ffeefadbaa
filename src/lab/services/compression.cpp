#include "lab/services/compression.hpp"

#include "base/error.hpp"
#include "base/handle.hpp"

#include <zlib.h>
#include <zstd.h>

#include <array>

namespace rocca::lab {

namespace {

constexpr int gzip_window = 15 + 16;  // zlib: 16 more means a gzip header
constexpr int deflate_memory = 8;     // zlib's own default

class Gunzip final : public Decompressor {
 public:
  Gunzip() {
    if (inflateInit2(&stream_, gzip_window) != Z_OK)
      throw Error(Fault::Bug, "zlib cannot be started");
  }
  ~Gunzip() override { inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  bool feed(std::string_view bytes, const Out& out) override {
    std::string input{bytes};
    stream_.next_in = reinterpret_cast<Bytef*>(input.data());
    stream_.avail_in = static_cast<uInt>(input.size());
    while (stream_.avail_in > 0) {
      // Several members in a row are one file.
      if (complete_ && inflateReset(&stream_) != Z_OK) return false;
      std::array<char, 64 * 1024> block{};
      stream_.next_out = reinterpret_cast<Bytef*>(block.data());
      stream_.avail_out = static_cast<uInt>(block.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code != Z_OK && code != Z_STREAM_END) return false;
      out({block.data(), block.size() - stream_.avail_out});
      complete_ = code == Z_STREAM_END;
    }
    return true;
  }
  bool complete() const override { return complete_; }

 private:
  z_stream stream_{};
  bool complete_ = false;
};

class Unzstd final : public Decompressor {
 public:
  bool feed(std::string_view bytes, const Out& out) override {
    ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
    bool full = false;
    while (input.pos < input.size || full) {
      std::array<char, 64 * 1024> block{};
      ZSTD_outBuffer output{block.data(), block.size(), 0};
      const std::size_t left = ZSTD_decompressStream(context_.get(), &output, &input);
      if (ZSTD_isError(left) != 0) return false;
      out({block.data(), output.pos});
      complete_ = left == 0;
      full = !complete_ && output.pos == output.size;
    }
    return true;
  }
  bool complete() const override { return complete_; }

 private:
  Handle<ZSTD_DCtx, ZSTD_freeDCtx> context_{ZSTD_createDCtx()};
  bool complete_ = false;
};

}  // namespace

std::string gzip(std::string_view bytes, const std::string& name, std::int64_t time) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, deflate_memory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(Fault::Bug, "zlib cannot be started");
  std::string own_name = name;
  gz_header header{};
  header.name = reinterpret_cast<Bytef*>(own_name.data());
  header.time = static_cast<uLong>(time);
  header.os = 3;  // Unix
  deflateSetHeader(&stream, &header);
  std::string input{bytes};
  std::string out(deflateBound(&stream, static_cast<uLong>(input.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw Error(Fault::Bug, "zlib did not compress");
  return out;
}

std::unique_ptr<Decompressor> Decompressor::make(std::string_view kind) {
  if (kind == "gz") return std::make_unique<Gunzip>();
  if (kind == "zst") return std::make_unique<Unzstd>();
  return nullptr;
}

}  // namespace rocca::lab
