#pragma once

#include "net/transport_test_support.hpp"

#include <string>
#include <utility>

namespace rocca::kube {

using net::ScriptedTransport;

inline net::Answer answer(int status, std::string body) {
  net::Answer made;
  made.head.status = status;
  made.head.headers.add("Content-Type", "application/json");
  made.body = std::move(body);
  return made;
}

}  // namespace rocca::kube
