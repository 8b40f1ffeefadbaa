#pragma once

#include "spec/spec.hpp"

namespace rocca::spec {

/// Does `plainHttp: true` stand beside this address? Then credentials may go there in clear.
bool allows_plain_http(const Spec& spec, const Placed<std::string>& address);

}  // namespace rocca::spec
