#pragma once

#include <memory>

namespace rocca {

template <auto Free>
struct FreeWith {
  void operator()(auto* p) const noexcept { Free(p); }
};

/// Owns what a C library handed out: `using Key = Handle<EVP_PKEY, EVP_PKEY_free>;`.
template <class T, auto Free>
using Handle = std::unique_ptr<T, FreeWith<Free>>;

}  // namespace rocca
