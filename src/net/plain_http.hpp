#pragma once

#include "net/transport.hpp"

#include <string_view>

/// A credential crosses a network only over TLS, unless the user has said otherwise for that
/// address (`plainHttp: true`, Request::plain_http). Plain HTTP to this machine itself crosses no
/// network.
namespace rocca::net {

/// Throws Error(Refused) for a request with a credential (Authorization, Cookie) that would cross a
/// network in clear. `proxy`: the one it goes through, or empty.
void refuse_clear_credential(const Request& request, const Url& url, std::string_view proxy = "");
/// The same for a credential that is not in a header.
void refuse_plain_http(const Url& url, bool allowed);

}  // namespace rocca::net
