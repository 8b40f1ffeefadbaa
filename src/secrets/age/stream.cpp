#include "secrets/age/stream.hpp"

#include "base/handle.hpp"
#include "secrets/crypto.hpp"

#include <openssl/evp.h>

#include <algorithm>

namespace rocca::secrets::age {

namespace {

using Cipher = Handle<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;

void must(bool worked) {
  if (!worked) throw Error(Fault::Bug, "the crypto library failed: ChaCha20-Poly1305");
}

/// Eleven bytes of counter, one that says "last".
class ChunkNonce {
 public:
  const unsigned char* data(bool last) {
    bytes_[11] = last ? 1 : 0;
    return bytes_.data();
  }
  void next() {
    for (std::size_t i = 11; i-- > 0;)
      if (++bytes_[i] != 0) return;
    throw Error(Fault::Usage, "the payload has more chunks than the age format can count");
  }
  bool first() const {
    return std::all_of(bytes_.begin(), bytes_.begin() + 11, [](unsigned char b) { return b == 0; });
  }

 private:
  std::array<unsigned char, 12> bytes_{};
};

[[noreturn]] void throw_cut_off() {
  throw AgeError(Failure::Payload, "the encrypted content is cut off",
                 "the file was not copied to its end, or it was changed");
}

unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

}  // namespace

Secret payload_key(const Secret& file_key, std::string_view nonce) {
  return crypto::hkdf_sha256(file_key.reveal(), nonce, "payload");
}

struct StreamWriter::Chunks {
  Secret key;
  Cipher cipher{EVP_CIPHER_CTX_new()};
  ChunkNonce nonce;
  std::string sealed;
};

StreamWriter::StreamWriter(const Secret& key, Sink out)
    : chunks_(std::make_unique<Chunks>()), out_(std::move(out)) {
  chunks_->key = key;
  must(chunks_->cipher != nullptr);
  must(EVP_EncryptInit_ex(chunks_->cipher.get(), EVP_chacha20_poly1305(), nullptr, nullptr,
                          nullptr) == 1);
  waiting_.reserve(chunk_size);
}

StreamWriter::~StreamWriter() {
  wipe(waiting_);
}

void StreamWriter::write(std::string_view plaintext) {
  while (!plaintext.empty()) {
    // Only when more follows is a full chunk known not to be the last one.
    if (waiting_.size() == chunk_size) seal(false);
    const std::string_view part = plaintext.substr(0, chunk_size - waiting_.size());
    waiting_ += part;
    plaintext.remove_prefix(part.size());
  }
}

void StreamWriter::finish() {
  seal(true);
}

void StreamWriter::seal(bool last) {
  Chunks& c = *chunks_;
  const auto* key = reinterpret_cast<const unsigned char*>(c.key.reveal().data());
  must(EVP_EncryptInit_ex(c.cipher.get(), nullptr, nullptr, key, c.nonce.data(last)) == 1);
  c.sealed.resize(waiting_.size() + tag_size);
  int size = 0;
  must(EVP_EncryptUpdate(c.cipher.get(), bytes_of(c.sealed), &size, bytes_of(waiting_),
                         static_cast<int>(waiting_.size())) == 1);
  int rest = 0;
  must(EVP_EncryptFinal_ex(c.cipher.get(), bytes_of(c.sealed) + size, &rest) == 1);
  must(EVP_CIPHER_CTX_ctrl(c.cipher.get(), EVP_CTRL_AEAD_GET_TAG, tag_size,
                           bytes_of(c.sealed) + waiting_.size()) == 1);
  c.nonce.next();
  wipe(waiting_.data(), waiting_.size());
  waiting_.clear();
  out_(c.sealed);
}

struct StreamReader::Chunks {
  Secret key;
  Cipher cipher{EVP_CIPHER_CTX_new()};
  ChunkNonce nonce;
  std::string opened;

  ~Chunks() { wipe(opened); }

  bool open(std::string& sealed, bool last) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(key.reveal().data());
    must(EVP_DecryptInit_ex(cipher.get(), nullptr, nullptr, bytes, nonce.data(last)) == 1);
    const std::size_t text = sealed.size() - tag_size;
    must(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_SET_TAG, tag_size, sealed.data() + text) ==
         1);
    opened.resize(text);
    int size = 0;
    must(EVP_DecryptUpdate(cipher.get(), bytes_of(opened), &size, bytes_of(sealed),
                           static_cast<int>(text)) == 1);
    int rest = 0;
    return EVP_DecryptFinal_ex(cipher.get(), bytes_of(opened) + size, &rest) == 1;
  }
};

StreamReader::StreamReader(const Secret& key, Sink out)
    : chunks_(std::make_unique<Chunks>()), out_(std::move(out)) {
  chunks_->key = key;
  must(chunks_->cipher != nullptr);
  must(EVP_DecryptInit_ex(chunks_->cipher.get(), EVP_chacha20_poly1305(), nullptr, nullptr,
                          nullptr) == 1);
  chunks_->opened.reserve(chunk_size);
  waiting_.reserve(chunk_size + tag_size);
}

StreamReader::~StreamReader() = default;

void StreamReader::write(std::string_view ciphertext) {
  while (!ciphertext.empty()) {
    if (waiting_.size() == chunk_size + tag_size) open(true);
    const std::string_view part = ciphertext.substr(0, chunk_size + tag_size - waiting_.size());
    waiting_ += part;
    ciphertext.remove_prefix(part.size());
  }
}

void StreamReader::finish() {
  open(false);
}

void StreamReader::open(bool more) {
  Chunks& c = *chunks_;
  if (waiting_.size() < tag_size) throw_cut_off();
  if (!more && waiting_.size() == tag_size && !c.nonce.first())
    throw AgeError(Failure::Payload, "the encrypted content ends in an empty chunk");
  const bool full = waiting_.size() == chunk_size + tag_size;
  if (full && c.open(waiting_, false)) {
    out_(c.opened);
    if (!more) throw_cut_off();
  } else if (c.open(waiting_, true)) {
    // A full chunk that says it is the last one is right in itself, so it goes out before what
    // follows it is refused.
    out_(c.opened);
    if (more)
      throw AgeError(Failure::Payload, "there are bytes after the end of the encrypted content");
  } else {
    throw AgeError(Failure::Payload, "the encrypted content was changed or is cut off",
                   "fetch the file again, or restore it from a backup");
  }
  c.nonce.next();
  waiting_.clear();
}

}  // namespace rocca::secrets::age
