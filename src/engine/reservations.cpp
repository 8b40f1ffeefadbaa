#include "engine/reservations.hpp"

#include <utility>

namespace rocca::engine {

Reservations::Holder::Holder(Reservations& all, std::string owner)
    : all_(all), owner_(std::move(owner)) {
  const std::lock_guard lock{all_.mutex_};
  ++all_.holders_[owner_];
  for (auto& [id, reserved] : all_.reserved_)
    if (reserved.owner == owner_) reserved.until.reset();
}

Reservations::Holder::~Holder() {
  const std::lock_guard lock{all_.mutex_};
  const auto count = all_.holders_.find(owner_);
  if (--count->second > 0) return;
  all_.holders_.erase(count);
  const Tick until = all_.clock_.tick() + all_.keep_;
  for (auto& [id, reserved] : all_.reserved_)
    if (reserved.owner == owner_) reserved.until = until;
}

void Reservations::Holder::reserve(const std::function<Ids(const Ids& of_others)>& choice) {
  const std::lock_guard lock{all_.mutex_};
  const Tick now = all_.clock_.tick();
  std::erase_if(all_.reserved_, [&](const auto& entry) {
    return entry.second.until && *entry.second.until <= now;
  });
  Ids others;
  for (const auto& [id, reserved] : all_.reserved_)
    if (reserved.owner != owner_) others.insert(id);
  // An id that another owner has reserved as well (both had it in their lock) stays with that one.
  for (const std::uint64_t id : choice(others))
    all_.reserved_.try_emplace(id, Reserved{owner_, std::nullopt});
}

}  // namespace rocca::engine
