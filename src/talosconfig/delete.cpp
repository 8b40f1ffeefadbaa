#include "talosconfig/delete.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::talos {

using text::Entry;
using text::Value;

namespace {

bool is_directive(const Entry& entry) {
  return entry.key == "$patch" && entry.value.is_scalar() && entry.value.text() == "delete";
}

bool has_directive(const Value& value) {
  return value.is_map() &&
         std::any_of(value.entries().begin(), value.entries().end(), is_directive);
}

std::string scalar_at(const Value& document, std::string_view key) {
  const Value* value = document.find(key);
  return value != nullptr && value->is_scalar() ? value->text() : std::string{};
}

[[noreturn]] void refuse(const std::string& patch, const text::Place& place,
                         const std::string& what) {
  throw Error(Fault::Usage, fmt::format("{}:{}:{}: {}", patch, place.line, place.column, what));
}

class Taker {
 public:
  Taker(const Value& document, const std::string& patch) : patch_(patch) {
    kind_ = scalar_at(document, "kind");
    api_ = scalar_at(document, "apiVersion");
    name_ = scalar_at(document, "name");
  }

  /// True: the value is to go.
  bool walk(Value& value, std::vector<std::string>& path, bool in_list) {
    if (value.is_map()) return walk_map(value, path, in_list);
    if (!value.is_list()) return false;
    for (std::size_t i = 0; i < value.items().size();) {
      path.push_back(fmt::format("[{}]", i));
      const bool gone = walk(value.items()[i], path, true);
      path.pop_back();
      if (!gone) {
        ++i;
        continue;
      }
      value.items().erase(value.items().begin() + static_cast<std::ptrdiff_t>(i));
      if (value.items().empty()) return true;
    }
    return false;
  }

  std::vector<Deletion> found;

 private:
  bool walk_map(Value& value, std::vector<std::string>& path, bool in_list) {
    if (has_directive(value)) {
      add(value, path, in_list);
      return true;
    }
    for (std::size_t i = 0; i < value.entries().size();) {
      Entry& entry = value.entries()[i];
      path.push_back(entry.key);
      const bool gone = walk(entry.value, path, false);
      path.pop_back();
      if (!gone) {
        ++i;
        continue;
      }
      value.entries().erase(value.entries().begin() + static_cast<std::ptrdiff_t>(i));
      if (value.entries().empty()) return true;
    }
    return false;
  }

  void add(const Value& value, const std::vector<std::string>& path, bool in_list) {
    Deletion deletion;
    deletion.path = path;
    deletion.place = value.place();
    deletion.whole = path.empty();
    if (!in_list && std::any_of(path.begin(), path.end(),
                                [](const std::string& part) { return part.starts_with('['); }))
      refuse(patch_, value.place(),
             fmt::format("{}: a key inside a list's item cannot be deleted, only the whole item",
                         deletion.path_text()));
    if (deletion.whole && (api_.empty() || kind_.empty()))
      refuse(patch_, value.place(),
             "the main document cannot be deleted; name the key that is to go, or a document by "
             "its apiVersion and kind");
    if (api_.empty() != kind_.empty())
      refuse(patch_, value.place(), "apiVersion and kind must stand together");
    deletion.document = kind_.empty() ? "v1alpha1" : api_ + "/" + kind_;
    if (!kind_.empty() && !name_.empty()) deletion.document += "/" + name_;
    if (in_list) select(value, deletion);
    found.push_back(std::move(deletion));
  }

  void select(const Value& value, Deletion& deletion) const {
    for (const Entry& entry : value.entries()) {
      if (is_directive(entry)) continue;
      deletion.key = entry.key;
      if (entry.value.is_scalar()) deletion.value = entry.value.text();
      return;
    }
    refuse(patch_, value.place(),
           fmt::format("{}: say which item is to go, by one of its keys", deletion.path_text()));
  }

  const std::string& patch_;
  std::string kind_;
  std::string api_;
  std::string name_;
};

[[noreturn]] void not_found(const Deletion& deletion, const std::string& patch) {
  const std::string which =
      deletion.key.empty() ? "" : fmt::format(" (no item has the `{}` it names)", deletion.key);
  throw Error(Fault::Usage,
              fmt::format("{}:{}:{}: {}: there is nothing to delete{}", patch, deletion.place.line,
                          deletion.place.column, deletion.path_text(), which))
      .hint("an item of a list is named by its first key, which must be a plain value");
}

}  // namespace

std::string Deletion::path_text() const {
  std::string out;
  for (const std::string& part : path) {
    if (!out.empty() && !part.starts_with('[')) out += ".";
    out += part;
  }
  return out.empty() ? document : out;
}

std::vector<Deletion> take_deletions(Value& document, const std::string& patch) {
  Taker taker{document, patch};
  std::vector<std::string> path;
  if (taker.walk(document, path, false)) document = Value::map();
  return std::move(taker.found);
}

bool is_empty_patch_document(const Value& document) {
  if (document.is_null()) return true;
  if (!document.is_map()) return false;
  return std::all_of(document.entries().begin(), document.entries().end(), [](const Entry& entry) {
    return entry.value.is_scalar() &&
           (entry.key == "version" || entry.key == "kind" || entry.key == "name");
  });
}

void delete_from(ConfigDocument& document, const Deletion& deletion, unsigned minor,
                 const std::string& patch) {
  Value* at = &document.value;
  const StructType* fields = &document.fields();
  const Type* type = nullptr;  // of `at`, once it is no struct
  for (std::size_t i = 0; i < deletion.path.size(); ++i) {
    const std::string& part = deletion.path[i];
    const bool last = i + 1 == deletion.path.size();
    if (part.starts_with('[')) {
      if (!at->is_list()) not_found(deletion, patch);
      auto& items = at->items();
      const auto item = std::find_if(items.begin(), items.end(), [&](const Value& candidate) {
        const Value* value = candidate.find(deletion.key);
        return value != nullptr && value->is_scalar() && value->text() == deletion.value;
      });
      if (!last || item == items.end()) not_found(deletion, patch);
      items.erase(item);
      return;
    }
    if (fields != nullptr) {
      const Field* field = fields->find(part, minor);
      if (field == nullptr)
        throw Error(Fault::Usage,
                    fmt::format("{}:{}:{}: {}: unknown key", patch, deletion.place.line,
                                deletion.place.column, deletion.path_text()));
      type = &field->type;
      fields = type->shape == Shape::Struct ? type->fields : nullptr;
    } else if (type != nullptr && type->shape == Shape::Map) {
      type = type->item.get();
      fields = type->shape == Shape::Struct ? type->fields : nullptr;
    } else {
      type = nullptr;
    }
    if (last) {
      at->erase(part);
      return;
    }
    Value* next = at->find(part);
    if (next == nullptr) {
      // Talos: a missing key on the way is an error too, except as the last part.
      not_found(deletion, patch);
    }
    at = next;
  }
}

}  // namespace rocca::talos
