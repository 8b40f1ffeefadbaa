#pragma once

#include "lab/pve/http.hpp"

#include <optional>
#include <string_view>

namespace rocca::lab::pve {

/// Is it the one call that takes a file: POST /nodes/{node}/storage/{storage}/upload?
bool is_upload(std::string_view target);

/// Reads a multipart body as pveproxy does: an unquoted boundary, the file part named `filename`
/// last. Nothing: the connection is closed without an answer.
std::optional<Body> read_upload(const net::Incoming& request);

}  // namespace rocca::lab::pve
