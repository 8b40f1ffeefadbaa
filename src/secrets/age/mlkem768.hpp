#pragma once

#include "base/secret.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

/// The reading half of ML-KEM-768 (FIPS 203), because OpenSSL 3.0 has none. No branch and no memory
/// address depends on a secret, and no division is done on one.
namespace rocca::secrets::mlkem768 {

constexpr std::size_t seed_size = 64;  // d and z
constexpr std::size_t public_size = 1184;
constexpr std::size_t ciphertext_size = 1088;
constexpr std::size_t shared_size = 32;
constexpr std::size_t message_size = 32;

/// The encapsulation key of a seed.
std::string public_key(std::string_view seed);
/// FIPS 203 7.2: the right size and every coefficient below q.
bool is_public_key(std::string_view bytes);

/// Never fails: for a ciphertext that is not ours the secret is a random one (implicit rejection).
Secret decapsulate(std::string_view seed, std::string_view ciphertext);

}  // namespace rocca::secrets::mlkem768
