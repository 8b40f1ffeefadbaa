#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rocca::lab::talos {

/// A bbolt database as a value: buckets of keys, no nesting.
using Buckets = std::map<std::string, std::map<std::string, std::string>>;

/// A genuine database file: two meta pages, a free list, and one leaf page (with overflow) per
/// bucket, so that the real tools open it.
std::string write_bbolt(const Buckets& buckets);
/// Nothing for what bbolt itself would call an invalid database. Reads branch pages too.
std::optional<Buckets> read_bbolt(std::string_view file);

/// etcd's snapshot stream: the file with the SHA-256 of all that is before it behind it.
std::string with_digest(std::string file);

}  // namespace rocca::lab::talos
