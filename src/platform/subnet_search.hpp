#pragma once

#include "base/address.hpp"
#include "base/uuid.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// A subnet that is asked address by address, by all steps of a run together: whom one of them
/// meets, all of them know. Safe from many threads.
class Search {
 public:
  /// More addresses than these are not asked one by one.
  static constexpr std::uint64_t most = 4096;
  static bool can_be_asked(const Cidr& subnet);

  /// Where a machine was met last in this run.
  std::optional<std::string> find(const Uuid& uuid) const;
  void met(const Uuid& uuid, const std::string& address);

  /// The next addresses to ask; after the last one the first comes again.
  std::vector<IpAddress> next(const Cidr& subnet, std::size_t count);
  /// How often all addresses have been handed out.
  std::size_t rounds() const;

  /// The search for a machine is done in parts: the round in which the first of them began.
  std::size_t begin(const Uuid& uuid);
  bool begun(const Uuid& uuid) const;
  void end(const Uuid& uuid);

 private:
  mutable std::mutex mutex_;
  std::map<Uuid, std::string> met_;
  std::map<Uuid, std::size_t> begun_;  // searches under way, with their first round
  std::uint64_t next_ = 0;
  std::size_t rounds_ = 0;
};

}  // namespace rocca::resources
