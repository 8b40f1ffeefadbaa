#include "engine/limiter.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace rocca::engine {

unsigned Limiter::Slots::free() const {
  const std::size_t used = taken + offered.size();
  return used >= width ? 0 : static_cast<unsigned>(width - used);
}

void Limiter::offer(const std::string& name, Slots& slots) {
  while (slots.free() > 0 && !slots.queue.empty()) {
    Share* next = slots.queue.front();
    slots.queue.pop_front();
    slots.offered.insert(next);
    next->offers_.push_back(name);
    next->wake_();
  }
}

unsigned Limiter::in_use(const std::string& name) const {
  const std::lock_guard lock{mutex_};
  const auto found = slots_.find(name);
  return found == slots_.end() ? 0 : found->second.taken;
}

Limiter::Share::Share(Limiter& limiter, std::function<void()> wake)
    : limiter_(limiter), wake_(std::move(wake)) {}

Limiter::Share::~Share() {
  const std::lock_guard lock{limiter_.mutex_};
  for (const auto& [name, count] : held_) limiter_.slots_.at(name).taken -= count;
  for (auto& [name, slots] : limiter_.slots_) leave_queue(name, slots);
  std::erase_if(limiter_.slots_, [](const auto& entry) {
    const Slots& slots = entry.second;
    return slots.taken == 0 && slots.offered.empty() && slots.queue.empty();
  });
}

bool Limiter::Share::take(const std::string& name, unsigned width) {
  const std::lock_guard lock{limiter_.mutex_};
  const auto [found, fresh] = limiter_.slots_.try_emplace(name);
  Slots& slots = found->second;
  width = std::max(1u, width);
  slots.width = fresh ? width : std::min(slots.width, width);
  const bool offered = slots.offered.erase(this) > 0;
  if (offered || slots.free() > 0) {
    ++slots.taken;
    ++held_[name];
    return true;
  }
  if (std::find(slots.queue.begin(), slots.queue.end(), this) == slots.queue.end())
    slots.queue.push_back(this);
  return false;
}

void Limiter::Share::give_back(const std::string& name) {
  const std::lock_guard lock{limiter_.mutex_};
  const auto held = held_.find(name);
  if (held == held_.end()) throw Error(Fault::Bug, "a slot of " + name + " is given back twice");
  if (--held->second == 0) held_.erase(held);
  Slots& slots = limiter_.slots_.at(name);
  --slots.taken;
  offer(name, slots);
}

void Limiter::Share::leave_queue(const std::string& name, Slots& slots) {
  std::erase(slots.queue, this);
  slots.offered.erase(this);
  offer(name, slots);
}

void Limiter::Share::leave(const std::string& name) {
  const std::lock_guard lock{limiter_.mutex_};
  const auto found = limiter_.slots_.find(name);
  if (found != limiter_.slots_.end()) leave_queue(name, found->second);
}

std::vector<std::string> Limiter::Share::take_offers() {
  const std::lock_guard lock{limiter_.mutex_};
  return std::exchange(offers_, {});
}

}  // namespace rocca::engine
