#pragma once

#include "net/transport_test_support.hpp"

#include <string>
#include <utility>

namespace rocca::s3 {

using net::ScriptedTransport;

inline net::Answer answer(int status, std::string body, std::string etag = "") {
  net::Answer made;
  made.head.status = status;
  if (!etag.empty()) made.head.headers.add("ETag", std::move(etag));
  made.body = std::move(body);
  return made;
}

}  // namespace rocca::s3
