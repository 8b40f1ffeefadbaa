#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace rocca::lab {

/// What `gzip -c FILE` prints: with the file's name and time.
std::string gzip(std::string_view bytes, const std::string& name, std::int64_t time);

/// Takes a compressed file apart as its pieces come.
class Decompressor {
 public:
  using Out = std::function<void(std::string_view)>;

  /// For gz and zst; nothing for what the lab cannot unpack.
  static std::unique_ptr<Decompressor> make(std::string_view kind);
  virtual ~Decompressor() = default;
  /// False: this is no such file.
  virtual bool feed(std::string_view bytes, const Out& out) = 0;
  /// The last byte came, and the file was whole.
  virtual bool complete() const = 0;
};

}  // namespace rocca::lab
