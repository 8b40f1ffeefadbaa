#pragma once

#include "lab/kube/schema/kinds.hpp"

#include <cstdint>
#include <string>

namespace rocca::lab::kube {

/// The rows kubectl prints. `include` is None, Metadata or Object.
text::Value table_of(const Resource& resource, const text::Value& body, std::int64_t now,
                     const std::string& include);
/// `5m`, `3h20m`, `12d`: how kubectl shows how old something is.
std::string human_duration(std::int64_t seconds);
/// Seconds since 1970 of an RFC 3339 time; 0 for none.
std::int64_t seconds_of(std::string_view time);

}  // namespace rocca::lab::kube
