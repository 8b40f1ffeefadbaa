#pragma once

#include "base/entropy.hpp"
#include "base/secret.hpp"

#include <vector>

namespace rocca::secrets::shamir {

/// Splits a secret byte by byte over GF(2^8) (polynomial 0x11B): any `threshold` of the `count`
/// shares give it back, fewer tell nothing. A share is the bytes of its y values and one byte x,
/// as SOPS stores them. Throws Error(Usage) unless 2 <= threshold <= count <= 255.
std::vector<Secret> split(const Secret& secret, unsigned count, unsigned threshold,
                          Entropy& entropy);

/// Gives the secret back. Throws Error(Rejected) for shares that cannot belong together. Too few
/// shares give another secret: the format has nothing to tell.
Secret combine(const std::vector<Secret>& shares);

}  // namespace rocca::secrets::shamir
