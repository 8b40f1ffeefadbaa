#pragma once

#include <string_view>

namespace rocca {

/// Does a URL's host name this machine itself: localhost, 127.0.0.0/8, ::1? What goes there crosses
/// no network.
bool is_loopback_host(std::string_view host);

}  // namespace rocca
