#pragma once

#include "lab/services/web.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace rocca::lab {

/// The small file that stands for a large image: real bytes that differ by what is in it and by how
/// it is packed. `kind` is the end of its name ("qcow2", "raw.xz").
std::string image_bytes(const ImageFacts& facts, std::string_view kind);

/// The image that such a file stands for, for whoever gets only the bytes: a host that somebody
/// uploads it to. Nothing for anything else, and for one that is still packed: no disk is in it.
std::optional<WebFile> recognise_image(const std::string& bytes);

}  // namespace rocca::lab
