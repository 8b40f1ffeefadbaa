#pragma once

#include "net/transport_test_support.hpp"

#include <string>
#include <utility>

namespace rocca::proxmox {

using net::ScriptedTransport;

inline net::Answer json_answer(int status, std::string reason, std::string body) {
  net::Answer answer;
  answer.head.status = status;
  answer.head.reason = std::move(reason);
  answer.head.headers.add("Content-Type", "application/json;charset=UTF-8");
  answer.head.headers.add("Server", "pve-api-daemon/3.0");
  answer.body = std::move(body);
  return answer;
}

}  // namespace rocca::proxmox
