#include "lab/services/image_bytes.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"

#include <openssl/evp.h>

#include <array>

namespace rocca::lab {

namespace {

constexpr std::size_t length = 4096;
constexpr std::uint64_t disk_size = std::uint64_t{1246} << 20;

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha256(), nullptr);
  return to_hex({reinterpret_cast<const char*>(out.data()), size});
}

}  // namespace

std::string image_bytes(const ImageFacts& facts, std::string_view kind) {
  // It names what it is, then comes a block that no other image has.
  std::string bytes = facts.identity + "\n" + std::string(kind) + "\n";
  while (bytes.size() < length) bytes += sha256_hex(bytes) + "\n";
  bytes.resize(length);
  return bytes;
}

std::optional<WebFile> recognise_image(const std::string& bytes) {
  const std::vector<std::string> lines = split(bytes, '\n');
  if (lines.size() < 3 || !lines[0].starts_with("talos v")) return std::nullopt;
  const std::string& kind = lines[1];
  if (kind != "qcow2" && kind != "raw" && kind != "iso") return std::nullopt;
  WebFile file;
  file.image.format = kind;
  file.image.virtual_size = kind == "iso" ? 0 : disk_size;
  file.image.identity = lines[0];
  // Cut or changed it is no image.
  if (bytes != image_bytes(file.image, kind)) return std::nullopt;
  file.bytes = bytes;
  file.size = bytes.size();
  return file;
}

}  // namespace rocca::lab
