#include "lab/kube/conditions.hpp"

#include "lab/kube/json.hpp"

namespace rocca::lab::kube {

using text::Value;

const Value* find_condition(const Value& object, std::string_view type) {
  const Value* list = object.find({"status", "conditions"});
  if (list == nullptr || !list->is_list()) return nullptr;
  for (const Value& one : list->items())
    if (text_at(one, {"type"}) == type) return &one;
  return nullptr;
}

std::string condition_status(const Value& object, std::string_view type) {
  const Value* found = find_condition(object, type);
  return found == nullptr ? "" : text_at(*found, {"status"});
}

void set_condition(Value& object, std::string_view type, std::string_view status,
                   std::string_view reason, std::string_view message, std::string_view time) {
  Value& holder = map_at(object, {"status"});
  Value* list = holder.find("conditions");
  if (list == nullptr || !list->is_list()) list = &holder.set("conditions", Value::list());
  Value* found = nullptr;
  for (Value& one : list->items())
    if (text_at(one, {"type"}) == type) found = &one;
  if (found == nullptr) {
    list->append(Value::map());
    found = &list->items().back();
    found->set("type", str(type));
  }
  const bool moves = text_at(*found, {"status"}) != status;
  found->set("status", str(status));
  if (moves) found->set("lastTransitionTime", str(time));
  found->set("reason", str(reason));
  found->set("message", str(message));
}

}  // namespace rocca::lab::kube
