#include "lab/kube/storage.hpp"

#include "lab/kube/json.hpp"

namespace rocca::lab::kube {

using text::Value;

namespace {
// What a watch can go back to; older ones are told that they are too old.
constexpr std::size_t remembered = 20'000;
}  // namespace

Object Storage::find(std::string_view resource, const ObjectKey& key) const {
  const auto kind = objects_.find(resource);
  if (kind == objects_.end()) return nullptr;
  const auto found = kind->second.find(key);
  return found == kind->second.end() ? nullptr : found->second;
}

const Storage::Objects& Storage::all(std::string_view resource) const {
  static const Objects none;
  const auto kind = objects_.find(resource);
  return kind == objects_.end() ? none : kind->second;
}

Storage::Objects Storage::at(std::string_view resource, std::uint64_t revision) const {
  Objects out = all(resource);
  for (auto change = history_.rbegin(); change != history_.rend(); ++change) {
    if (change->revision <= revision) break;
    if (change->resource != resource) continue;
    if (change->before)
      out[change->key] = change->before;
    else
      out.erase(change->key);
  }
  return out;
}

Object Storage::put(std::string_view resource, const ObjectKey& key, Value value) {
  ++revision_;
  set_at(value, {"metadata", "resourceVersion"}, str(std::to_string(revision_)));
  Object stored = std::make_shared<const Value>(std::move(value));
  Objects& kind = objects_[std::string(resource)];
  Object& slot = kind[key];
  Object before = std::exchange(slot, stored);
  tell({revision_, std::string(resource), key, std::move(before), stored, nullptr});
  return stored;
}

void Storage::remove(std::string_view resource, const ObjectKey& key) {
  const auto kind = objects_.find(resource);
  if (kind == objects_.end()) return;
  const auto found = kind->second.find(key);
  if (found == kind->second.end()) return;
  Object before = std::move(found->second);
  kind->second.erase(found);
  ++revision_;
  Value last = *before;
  set_at(last, {"metadata", "resourceVersion"}, str(std::to_string(revision_)));
  tell({revision_, std::string(resource), key, std::move(before), nullptr,
        std::make_shared<const Value>(std::move(last))});
}

void Storage::compact(std::uint64_t revision) {
  if (revision > compacted_) compacted_ = revision;
  while (!history_.empty() && history_.front().revision <= revision) history_.pop_front();
}

void Storage::tell(Change change) {
  history_.push_back(change);
  if (history_.size() > remembered) {
    compacted_ = history_.front().revision;
    history_.pop_front();
  }
  for (const auto& observer : observers_) observer(change);
}

}  // namespace rocca::lab::kube
