#include "base/secret.hpp"

#include <cstring>
#include <ostream>
#include <utility>

namespace rocca {

void wipe(void* data, std::size_t size) noexcept {
  if (size == 0) return;
  explicit_bzero(data, size);
}

void wipe(std::string& text) noexcept {
  // capacity, not size: a string that was shortened still holds its old tail.
  wipe(text.data(), text.capacity());
  text.clear();
}

bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<unsigned char>(a[i]);
    const auto y = static_cast<unsigned char>(b[i]);
    difference = static_cast<unsigned char>(difference | (x ^ y));
  }
  return difference == 0;
}

Secret::Secret(std::string_view text) : size_(text.size()) {
  if (size_ == 0) return;
  bytes_ = std::make_unique<char[]>(size_);
  std::memcpy(bytes_.get(), text.data(), size_);
}

Secret Secret::take(std::string&& text) {
  Secret secret{text};
  rocca::wipe(text);
  return secret;
}

Secret::Secret(const Secret& other) : Secret(other.reveal()) {}

Secret::Secret(Secret&& other) noexcept
    : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}

Secret& Secret::operator=(const Secret& other) {
  if (this != &other) *this = Secret{other};
  return *this;
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this == &other) return *this;
  wipe();
  bytes_ = std::move(other.bytes_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Secret::~Secret() {
  wipe();
}

void Secret::wipe() noexcept {
  if (bytes_) rocca::wipe(bytes_.get(), size_);
  bytes_.reset();
  size_ = 0;
}

bool operator==(const Secret& a, const Secret& b) noexcept {
  return equal_in_constant_time(a.reveal(), b.reveal());
}

std::ostream& operator<<(std::ostream& out, const Secret&) {
  return out << "***";
}

}  // namespace rocca
