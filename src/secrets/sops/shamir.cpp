#include "secrets/sops/shamir.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace rocca::secrets::shamir {
namespace {

// Multiplication without tables or branches on secret bits, so that it takes the same time for all.
std::uint8_t multiply(std::uint8_t a, std::uint8_t b) {
  unsigned result = 0;
  unsigned x = a;
  for (unsigned bit = 0; bit < 8; ++bit) {
    result ^= x & (0u - ((static_cast<unsigned>(b) >> bit) & 1u));
    x = (x << 1) ^ (0x11Bu & (0u - (x >> 7)));
  }
  return static_cast<std::uint8_t>(result);
}

std::uint8_t inverse(std::uint8_t a) {
  // a^254: the group has 255 elements.
  std::uint8_t result = 1;
  for (int i = 0; i < 254; ++i) result = multiply(result, a);
  return result;
}

std::uint8_t byte_at(const Secret& secret, std::size_t at) {
  return static_cast<std::uint8_t>(secret.reveal()[at]);
}

}  // namespace

std::vector<Secret> split(const Secret& secret, unsigned count, unsigned threshold,
                          Entropy& entropy) {
  if (threshold < 2 || threshold > count || count > 255)
    throw Error(Fault::Usage,
                fmt::format("a secret cannot be split into {} shares of which {} are needed", count,
                            threshold));
  std::vector<std::string> shares(count, std::string(secret.size() + 1, '\0'));
  for (unsigned i = 0; i < count; ++i) shares[i].back() = static_cast<char>(i + 1);
  for (std::size_t at = 0; at < secret.size(); ++at) {
    std::string coefficients = entropy.bytes(threshold - 1);
    for (unsigned i = 0; i < count; ++i) {
      const auto x = static_cast<std::uint8_t>(i + 1);
      std::uint8_t y = 0;
      for (std::size_t k = coefficients.size(); k-- > 0;)
        y = multiply(static_cast<std::uint8_t>(y ^ static_cast<std::uint8_t>(coefficients[k])), x);
      shares[i][at] = static_cast<char>(y ^ byte_at(secret, at));
    }
    wipe(coefficients);
  }
  std::vector<Secret> out;
  for (std::string& share : shares) out.push_back(Secret::take(std::move(share)));
  return out;
}

Secret combine(const std::vector<Secret>& shares) {
  if (shares.size() < 2)
    throw Error(Fault::Rejected, "two shares at least are needed to put a secret together");
  const std::size_t size = shares.front().size();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].size() != size || size < 2)
      throw Error(Fault::Rejected, "the shares of a secret have different sizes");
    for (std::size_t j = 0; j < i; ++j)
      if (byte_at(shares[i], size - 1) == byte_at(shares[j], size - 1))
        throw Error(Fault::Rejected, "two shares of a secret are the same one");
  }
  std::string secret(size - 1, '\0');
  for (std::size_t i = 0; i < shares.size(); ++i) {
    // Lagrange at 0: the product of x_j / (x_j - x_i), and minus is xor.
    std::uint8_t weight = 1;
    const std::uint8_t xi = byte_at(shares[i], size - 1);
    for (std::size_t j = 0; j < shares.size(); ++j) {
      if (j == i) continue;
      const std::uint8_t xj = byte_at(shares[j], size - 1);
      weight = multiply(weight, multiply(xj, inverse(static_cast<std::uint8_t>(xj ^ xi))));
    }
    for (std::size_t at = 0; at + 1 < size; ++at)
      secret[at] = static_cast<char>(static_cast<std::uint8_t>(secret[at]) ^
                                     multiply(weight, byte_at(shares[i], at)));
  }
  return Secret::take(std::move(secret));
}

}  // namespace rocca::secrets::shamir
