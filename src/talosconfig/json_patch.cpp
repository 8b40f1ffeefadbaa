#include "base/error.hpp"
#include "talosconfig/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace rocca::talos {

using text::Value;

namespace {

/// RFC 6901: `~1` is a slash, `~0` a tilde.
std::vector<std::string> pointer_parts(std::string_view pointer) {
  std::vector<std::string> parts;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const auto end = std::min(pointer.find('/'), pointer.size());
    std::string part;
    for (std::size_t i = 0; i < end; ++i) {
      if (pointer[i] == '~' && i + 1 < end && (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
        part += pointer[i + 1] == '0' ? '~' : '/';
        ++i;
      } else {
        part += pointer[i];
      }
    }
    parts.push_back(std::move(part));
    pointer.remove_prefix(end);
  }
  return parts;
}

class Operation {
 public:
  Operation(const Value& operation, std::size_t number, const std::string& patch)
      : operation_(operation), number_(number), patch_(patch) {
    if (!operation.is_map()) refuse("an operation must be a map with `op` and `path`");
  }

  void apply(Value& document) {
    const std::string op = text("op");
    const std::string path = pointer("path");
    if (op == "add") {
      add(document, path, value());
    } else if (op == "remove") {
      take(document, path);
    } else if (op == "replace") {
      replace(document, path, value());
    } else if (op == "test") {
      const Value* at = find(document, path);
      const Value wanted = value();
      if (at == nullptr ? !wanted.is_null() : !(*at == wanted))
        refuse(fmt::format("the test of {} failed: another value stands there", path));
    } else if (op == "move") {
      Value moved = take(document, pointer("from"));
      add(document, path, std::move(moved));
    } else if (op == "copy") {
      const std::string from = pointer("from");
      const Value* at = find(document, from);
      if (at == nullptr) refuse(fmt::format("there is no {} to copy", from));
      add(document, path, Value{*at});
    } else {
      refuse(fmt::format("there is no operation `{}`", op));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    const auto& place = operation_.place();
    throw Error(Fault::Usage, fmt::format("{}:{}:{}: operation {}: {}", patch_, place.line,
                                          place.column, number_, why));
  }

  std::string text(std::string_view key) const {
    const Value* found = operation_.find(key);
    if (found == nullptr || !found->is_string())
      refuse(fmt::format("`{}` is missing or no text", key));
    return found->text();
  }

  std::string pointer(std::string_view key) const {
    std::string path = text(key);
    if (!path.empty() && path.front() != '/') refuse(fmt::format("`{}` must begin with /", key));
    return path;
  }

  Value value() const {
    const Value* found = operation_.find("value");
    return found != nullptr ? *found : Value::null();
  }

  std::optional<std::size_t> index(std::string_view part, std::size_t size) const {
    std::size_t at = 0;
    const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), at);
    if (part.empty() || failed != std::errc{} || end != part.data() + part.size() || at > size)
      return std::nullopt;
    return at;
  }

  Value* step(Value& at, const std::string& part) const {
    if (!at.is_list()) return at.find(part);
    const auto i = index(part, at.items().size());
    return i && *i < at.items().size() ? &at.items()[*i] : nullptr;
  }

  Value* find(Value& document, std::string_view path) const {
    Value* at = &document;
    for (const std::string& part : pointer_parts(path)) {
      at = step(*at, part);
      if (at == nullptr) return nullptr;
    }
    return at;
  }

  Value& parent(Value& document, std::string_view path) const {
    const auto slash = path.rfind('/');
    Value* at = find(document, path.substr(0, slash));
    if (at == nullptr || at->is_scalar())
      refuse(fmt::format("there is nothing at {} to change in", path.substr(0, slash)));
    return *at;
  }

  static std::string last(std::string_view path) {
    return pointer_parts(path.substr(path.rfind('/'))).front();
  }

  void add(Value& document, const std::string& path, Value added) const {
    if (path.empty()) {
      document = std::move(added);
      return;
    }
    Value& in = parent(document, path);
    const std::string key = last(path);
    if (in.is_map()) {
      in.set(key, std::move(added));
    } else if (key == "-") {
      in.append(std::move(added));
    } else if (const auto at = index(key, in.items().size())) {
      in.items().insert(in.items().begin() + static_cast<std::ptrdiff_t>(*at), std::move(added));
    } else {
      refuse(fmt::format("{} is no place in a list of {}", path, in.items().size()));
    }
  }

  void replace(Value& document, const std::string& path, Value added) const {
    if (path.empty()) {
      document = std::move(added);
      return;
    }
    Value& in = parent(document, path);
    if (in.is_map()) {
      in.set(last(path), std::move(added));
    } else if (Value* at = step(in, last(path))) {
      *at = std::move(added);
    } else {
      refuse(fmt::format("there is nothing at {} to replace", path));
    }
  }

  Value take(Value& document, const std::string& path) const {
    Value* at = path.empty() ? nullptr : find(document, path);
    if (at == nullptr) refuse(fmt::format("there is nothing at {} to remove", path));
    Value taken = std::move(*at);
    Value& in = parent(document, path);
    if (in.is_map()) {
      in.erase(last(path));
    } else {
      const auto i = index(last(path), in.items().size());
      in.items().erase(in.items().begin() + static_cast<std::ptrdiff_t>(i.value_or(0)));
    }
    return taken;
  }

  const Value& operation_;
  std::size_t number_;
  const std::string& patch_;
};

}  // namespace

Value json_patched(Value document, const ConfigPatch& patch) {
  std::size_t number = 0;
  for (const Value& list : patch.documents)
    for (const Value& operation : list.items())
      Operation{operation, ++number, patch.name}.apply(document);
  return document;
}

}  // namespace rocca::talos
