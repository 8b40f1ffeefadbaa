#include "platform/subnet_search.hpp"

namespace rocca::resources {

bool Search::can_be_asked(const Cidr& subnet) {
  return AddressRange(subnet.network(), subnet.last()).size() <= most;
}

std::optional<std::string> Search::find(const Uuid& uuid) const {
  const std::lock_guard lock{mutex_};
  const auto found = met_.find(uuid);
  return found == met_.end() ? std::nullopt : std::optional{found->second};
}

void Search::met(const Uuid& uuid, const std::string& address) {
  const std::lock_guard lock{mutex_};
  met_[uuid] = address;
}

std::vector<IpAddress> Search::next(const Cidr& subnet, std::size_t count) {
  const AddressRange all{subnet.network(), subnet.last()};
  const std::lock_guard lock{mutex_};
  std::vector<IpAddress> addresses;
  while (addresses.size() < count) {
    const auto address = all.at(next_);
    if (!address) {
      ++rounds_;
      next_ = 0;
      break;
    }
    ++next_;
    if (subnet.usable(*address)) addresses.push_back(*address);
  }
  return addresses;
}

std::size_t Search::begin(const Uuid& uuid) {
  const std::lock_guard lock{mutex_};
  return begun_.try_emplace(uuid, rounds_).first->second;
}

bool Search::begun(const Uuid& uuid) const {
  const std::lock_guard lock{mutex_};
  return begun_.contains(uuid);
}

void Search::end(const Uuid& uuid) {
  const std::lock_guard lock{mutex_};
  begun_.erase(uuid);
}

std::size_t Search::rounds() const {
  const std::lock_guard lock{mutex_};
  return rounds_;
}

}  // namespace rocca::resources
