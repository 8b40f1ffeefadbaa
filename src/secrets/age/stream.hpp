#pragma once

#include "base/secret.hpp"
#include "secrets/age/age.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace rocca::secrets::age {

constexpr std::size_t chunk_size = 65536;
constexpr std::size_t tag_size = 16;
constexpr std::size_t nonce_size = 16;

/// The key of a payload, from the file key and the nonce in front of the payload.
Secret payload_key(const Secret& file_key, std::string_view nonce);

/// STREAM: chunks of 64 KiB, each sealed with its number and whether it is the last.
class StreamWriter {
 public:
  StreamWriter(const Secret& key, Sink out);
  ~StreamWriter();
  void write(std::string_view plaintext);
  void finish();

 private:
  void seal(bool last);

  struct Chunks;
  std::unique_ptr<Chunks> chunks_;
  Sink out_;
  std::string waiting_;  // plaintext of the chunk being filled
};

/// Gives a chunk out once it is authenticated. Throws AgeError(Payload).
class StreamReader {
 public:
  StreamReader(const Secret& key, Sink out);
  ~StreamReader();
  void write(std::string_view ciphertext);
  void finish();

 private:
  void open(bool more);

  struct Chunks;
  std::unique_ptr<Chunks> chunks_;
  Sink out_;
  std::string waiting_;  // ciphertext of the chunk being filled
};

}  // namespace rocca::secrets::age
