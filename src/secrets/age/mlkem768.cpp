#include "secrets/age/mlkem768.hpp"

#include "base/error.hpp"
#include "secrets/crypto.hpp"

#include <array>
#include <cstdint>

// Names of steps and numbers of algorithms are those of FIPS 203.
namespace rocca::secrets::mlkem768 {

namespace {

constexpr std::size_t n = 256;
constexpr std::size_t k = 3;
constexpr std::uint32_t q = 3329;
constexpr unsigned du = 10;
constexpr unsigned dv = 4;
constexpr std::size_t poly_bytes = 384;  // 256 coefficients of 12 bits

/// v / q for v below 2^28, as a product: a division's time may depend on its operands.
constexpr std::uint32_t quotient(std::uint32_t v) {
  constexpr std::uint64_t reciprocal = ((std::uint64_t{1} << 40) + q - 1) / q;
  return static_cast<std::uint32_t>((v * reciprocal) >> 40);
}
constexpr std::uint32_t reduce(std::uint32_t v) {
  return v - q * quotient(v);
}
constexpr std::uint32_t times(std::uint32_t a, std::uint32_t b) {
  return reduce(a * b);
}
constexpr std::uint32_t plus(std::uint32_t a, std::uint32_t b) {
  return reduce(a + b);
}
constexpr std::uint32_t minus(std::uint32_t a, std::uint32_t b) {
  return reduce(a + q - b);
}

using Poly = std::array<std::uint32_t, n>;
using Vector = std::array<Poly, k>;
using Matrix = std::array<Vector, k>;

/// Clears a polynomial that was secret when its block ends.
template <class Value>
struct Wiped {
  Value value{};
  ~Wiped() { wipe(&value, sizeof value); }
};

constexpr std::uint32_t power_of_17(unsigned exponent) {
  std::uint32_t result = 1;
  for (unsigned i = 0; i < exponent; ++i) result = result * 17 % q;
  return result;
}

constexpr unsigned reversed7(unsigned value) {
  unsigned result = 0;
  for (unsigned bit = 0; bit < 7; ++bit) result |= ((value >> bit) & 1) << (6 - bit);
  return result;
}

constexpr auto zetas = [] {
  std::array<std::uint32_t, 128> table{};
  for (unsigned i = 0; i < 128; ++i) table[i] = power_of_17(reversed7(i));
  return table;
}();

constexpr auto gammas = [] {
  std::array<std::uint32_t, 128> table{};
  for (unsigned i = 0; i < 128; ++i) table[i] = power_of_17(2 * reversed7(i) + 1);
  return table;
}();

void ntt(Poly& f) {  // algorithm 9
  std::size_t i = 1;
  for (std::size_t length = 128; length >= 2; length /= 2)
    for (std::size_t start = 0; start < n; start += 2 * length) {
      const std::uint32_t zeta = zetas[i++];
      for (std::size_t j = start; j < start + length; ++j) {
        const std::uint32_t t = times(zeta, f[j + length]);
        f[j + length] = minus(f[j], t);
        f[j] = plus(f[j], t);
      }
    }
}

void inverse_ntt(Poly& f) {  // algorithm 10
  std::size_t i = 127;
  for (std::size_t length = 2; length <= 128; length *= 2)
    for (std::size_t start = 0; start < n; start += 2 * length) {
      const std::uint32_t zeta = zetas[i--];
      for (std::size_t j = start; j < start + length; ++j) {
        const std::uint32_t t = f[j];
        f[j] = plus(t, f[j + length]);
        f[j + length] = times(zeta, minus(f[j + length], t));
      }
    }
  for (std::uint32_t& c : f) c = times(c, 3303);  // 1/128
}

void add_product(Poly& sum, const Poly& a, const Poly& b) {  // algorithms 11 and 12
  for (std::size_t i = 0; i < n / 2; ++i) {
    const std::uint32_t a0 = a[2 * i], a1 = a[2 * i + 1], b0 = b[2 * i], b1 = b[2 * i + 1];
    sum[2 * i] = reduce(sum[2 * i] + a0 * b0 + times(a1, b1) * gammas[i]);
    sum[2 * i + 1] = reduce(sum[2 * i + 1] + a0 * b1 + a1 * b0);
  }
}

void add(Poly& sum, const Poly& other) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = plus(sum[i], other[i]);
}

std::uint32_t compress(std::uint32_t x, unsigned d) {
  return quotient((x << d) + q / 2) & ((1u << d) - 1);
}
std::uint32_t decompress(std::uint32_t y, unsigned d) {
  return (y * q + (1u << (d - 1))) >> d;
}

void encode(std::string& out, const Poly& f, unsigned d) {  // algorithm 5, bits from the lowest
  std::uint64_t bits = 0;
  unsigned waiting = 0;
  for (const std::uint32_t c : f) {
    bits |= std::uint64_t{c} << waiting;
    for (waiting += d; waiting >= 8; waiting -= 8, bits >>= 8)
      out += static_cast<char>(bits & 0xff);
  }
}

Poly decode(std::string_view bytes, unsigned d) {  // algorithm 6
  Poly f{};
  std::uint64_t bits = 0;
  unsigned waiting = 0;
  std::size_t at = 0;
  for (std::uint32_t& c : f) {
    for (; waiting < d; waiting += 8)
      bits |= std::uint64_t{static_cast<unsigned char>(bytes[at++])} << waiting;
    c = static_cast<std::uint32_t>(bits & ((1u << d) - 1));
    bits >>= d;
    waiting -= d;
  }
  return f;
}

Poly sample_uniform(std::string_view rho, std::size_t i,
                    std::size_t j) {  // algorithm 7; its input is public
  const std::string seed = std::string(rho) + static_cast<char>(j) + static_cast<char>(i);
  for (std::size_t size = 6 * 168;; size *= 2) {
    const std::string stream = crypto::shake128(seed, size);
    Poly f{};
    std::size_t found = 0;
    for (std::size_t at = 0; at + 3 <= size && found < n; at += 3) {
      const auto byte = [&](std::size_t offset) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(stream[at + offset]));
      };
      const std::uint32_t d1 = byte(0) | ((byte(1) & 15) << 8);
      const std::uint32_t d2 = (byte(1) >> 4) | (byte(2) << 4);
      if (d1 < q) f[found++] = d1;
      if (d2 < q && found < n) f[found++] = d2;
    }
    if (found == n) return f;
  }
}

Poly sample_small(std::string_view sigma, unsigned nonce) {  // algorithm 8 with eta = 2
  std::string input(sigma);
  input += static_cast<char>(nonce);
  std::string stream = crypto::shake256(input, 128);
  Poly f{};
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned bits = (static_cast<unsigned char>(stream[i / 2]) >> (4 * (i % 2))) & 15;
    f[i] = minus((bits & 1) + ((bits >> 1) & 1), ((bits >> 2) & 1) + (bits >> 3));
  }
  wipe(stream);
  wipe(input);
  return f;
}

Matrix sample_matrix(std::string_view rho) {
  Matrix a{};
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j < k; ++j) a[i][j] = sample_uniform(rho, i, j);
  return a;
}

struct Keys {
  Wiped<Vector> secret;  // in NTT form
  std::string public_key;
};

Keys generate(std::string_view d) {  // algorithm 13
  const Secret input = Secret::take(std::string(d) + static_cast<char>(k));
  const Secret hash = Secret::take(crypto::sha3_512(input.reveal()));
  const std::string_view rho = hash.reveal().substr(0, 32);
  const std::string_view sigma = hash.reveal().substr(32);
  const Matrix a = sample_matrix(rho);
  Keys keys;
  Wiped<Vector> noise;
  for (std::size_t i = 0; i < k; ++i) {
    keys.secret.value[i] = sample_small(sigma, static_cast<unsigned>(i));
    noise.value[i] = sample_small(sigma, static_cast<unsigned>(i + k));
    ntt(keys.secret.value[i]);
    ntt(noise.value[i]);
  }
  for (std::size_t i = 0; i < k; ++i) {
    Poly t = noise.value[i];
    for (std::size_t j = 0; j < k; ++j) add_product(t, a[i][j], keys.secret.value[j]);
    encode(keys.public_key, t, 12);
  }
  keys.public_key += rho;
  return keys;
}

std::string encrypt(std::string_view public_key, std::string_view message,
                    std::string_view r) {  // algorithm 14
  const Matrix a = sample_matrix(public_key.substr(k * poly_bytes));
  Wiped<Vector> y;
  for (std::size_t i = 0; i < k; ++i) {
    y.value[i] = sample_small(r, static_cast<unsigned>(i));
    ntt(y.value[i]);
  }
  std::string ciphertext;
  ciphertext.reserve(ciphertext_size);
  for (std::size_t i = 0; i < k; ++i) {
    Wiped<Poly> u;
    for (std::size_t j = 0; j < k; ++j) add_product(u.value, a[j][i], y.value[j]);
    inverse_ntt(u.value);
    add(u.value, sample_small(r, static_cast<unsigned>(k + i)));
    for (std::uint32_t& c : u.value) c = compress(c, du);
    encode(ciphertext, u.value, du);
  }
  Wiped<Poly> v;
  for (std::size_t j = 0; j < k; ++j)
    add_product(v.value, decode(public_key.substr(j * poly_bytes, poly_bytes), 12), y.value[j]);
  inverse_ntt(v.value);
  add(v.value, sample_small(r, 2 * k));
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bit = (static_cast<unsigned char>(message[i / 8]) >> (i % 8)) & 1;
    v.value[i] = plus(v.value[i], (0 - bit) & ((q + 1) / 2));
  }
  for (std::uint32_t& c : v.value) c = compress(c, dv);
  encode(ciphertext, v.value, dv);
  return ciphertext;
}

Secret decrypt(const Vector& secret, std::string_view ciphertext) {  // algorithm 15
  constexpr std::size_t u_bytes = n * du / 8;
  Wiped<Poly> product;
  for (std::size_t i = 0; i < k; ++i) {
    Poly u = decode(ciphertext.substr(i * u_bytes, u_bytes), du);
    for (std::uint32_t& c : u) c = decompress(c, du);
    ntt(u);
    add_product(product.value, secret[i], u);
  }
  inverse_ntt(product.value);
  const Poly v = decode(ciphertext.substr(k * u_bytes), dv);
  std::string message(message_size, '\0');
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bit = compress(minus(decompress(v[i], dv), product.value[i]), 1);
    message[i / 8] =
        static_cast<char>(static_cast<unsigned char>(message[i / 8]) | (bit << (i % 8)));
  }
  return Secret::take(std::move(message));
}

void must(bool right) {
  if (!right) throw Error(Fault::Bug, "ML-KEM-768 was called with bytes of the wrong size");
}

}  // namespace

std::string public_key(std::string_view seed) {
  must(seed.size() == seed_size);
  return generate(seed.substr(0, 32)).public_key;
}

bool is_public_key(std::string_view bytes) {
  if (bytes.size() != public_size) return false;
  for (std::size_t i = 0; i < k; ++i)
    for (const std::uint32_t c : decode(bytes.substr(i * poly_bytes, poly_bytes), 12))
      if (c >= q) return false;
  return true;
}

Secret decapsulate(std::string_view seed, std::string_view ciphertext) {  // algorithm 18
  must(seed.size() == seed_size && ciphertext.size() == ciphertext_size);
  const Keys keys = generate(seed.substr(0, 32));
  const Secret message = decrypt(keys.secret.value, ciphertext);
  const Secret input =
      Secret::take(std::string(message.reveal()) + crypto::sha3_256(keys.public_key));
  const Secret hash = Secret::take(crypto::sha3_512(input.reveal()));
  const Secret rejection_input =
      Secret::take(std::string(seed.substr(32)) + std::string(ciphertext));
  const Secret rejection = Secret::take(crypto::shake256(rejection_input.reveal(), shared_size));
  const std::string again = encrypt(keys.public_key, message.reveal(), hash.reveal().substr(32));
  // All ones where both are equal; which of the two secrets is given out shows in no branch.
  const auto mask =
      static_cast<unsigned char>(0u - (equal_in_constant_time(again, ciphertext) ? 1u : 0u));
  std::string shared(shared_size, '\0');
  for (std::size_t i = 0; i < shared_size; ++i) {
    const auto right = static_cast<unsigned char>(hash.reveal()[i]);
    const auto wrong = static_cast<unsigned char>(rejection.reveal()[i]);
    shared[i] = static_cast<char>((right & mask) | (wrong & static_cast<unsigned char>(~mask)));
  }
  return Secret::take(std::move(shared));
}

}  // namespace rocca::secrets::mlkem768
