#include "kube/lease.hpp"

#include "base/units.hpp"
#include "kube/object.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

namespace rocca::kube {

std::string micro_time(Instant instant) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(instant);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(instant - whole).count();
  const std::time_t seconds = whole.time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     micros);
}

Value LeaseClaim::spec(std::uint64_t transitions, const std::string& acquired) const {
  const std::string now = micro_time(clock_.now());
  Value made = Value::map();
  made.set("holderIdentity", Value::string(about_.identity));
  made.set("leaseDurationSeconds",
           Value::integer(std::chrono::duration_cast<std::chrono::seconds>(about_.lasts).count()));
  made.set("acquireTime", Value::string(acquired.empty() ? now : acquired));
  made.set("renewTime", Value::string(now));
  made.set("leaseTransitions", Value::unsigned_integer(transitions));
  return made;
}

bool LeaseClaim::hold() {
  const std::string path = path_of(leases, about_.space, about_.name);
  auto lease = client_.find(path);
  if (!lease) {
    Value object = Value::map();
    object.set("apiVersion", Value::string("coordination.k8s.io/v1"));
    object.set("kind", Value::string("Lease"));
    object.set("metadata", Value::map()).set("name", Value::string(about_.name));
    object.set("spec", spec(0, ""));
    const bool made = client_.create(path_of(leases, about_.space), object).has_value();
    holder_ = made ? about_.identity : "";
    return made;
  }
  holder_ = text_at(*lease, {"spec", "holderIdentity"});
  const auto transitions = static_cast<std::uint64_t>(int_at(*lease, {"spec", "leaseTransitions"}));
  const bool ours = holder_ == about_.identity;
  if (!ours && !holder_.empty()) {
    const std::string version = text_at(*lease, {"metadata", "resourceVersion"});
    if (version != seen_version_) {
      seen_version_ = version;
      seen_at_ = clock_.tick();
      return false;
    }
    const Duration promised =
        std::chrono::seconds{int_at(*lease, {"spec", "leaseDurationSeconds"})};
    if (clock_.tick() - seen_at_ < promised) return false;
  }
  lease->set("spec", ours ? spec(transitions, text_at(*lease, {"spec", "acquireTime"}))
                          : spec(transitions + 1, ""));
  if (!client_.update(path, *lease)) return false;  // somebody was faster
  holder_ = about_.identity;
  return true;
}

void LeaseClaim::release() {
  const std::string path = path_of(leases, about_.space, about_.name);
  auto lease = client_.find(path);
  if (!lease || text_at(*lease, {"spec", "holderIdentity"}) != about_.identity) return;
  Value free = spec(static_cast<std::uint64_t>(int_at(*lease, {"spec", "leaseTransitions"})), "");
  free.set("holderIdentity", Value::string(""));
  free.set("leaseDurationSeconds", Value::integer(1));
  lease->set("spec", std::move(free));
  client_.update(path, *lease);
  holder_.clear();
}

}  // namespace rocca::kube
