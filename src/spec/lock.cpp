#include "spec/lock.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/scalars.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::spec {

namespace {

using text::Value;

constexpr const char* header =
    "# Written by rocca: every version, id, URL and choice that was resolved. Keep it in Git "
    "whole.\n";
/// The last line. Half of a YAML list is a list: without this line a file that was cut off would
/// read like a whole one.
constexpr std::string_view ending = "# end of rocca.lock\n";

class LockReader {
 public:
  explicit LockReader(std::string name) : name_(std::move(name)) {}

  [[noreturn]] void fail(const Value& at, const std::string& message) const {
    throw Error(Fault::Usage,
                fmt::format("{}:{}:{}: {}", name_, at.place().line, at.place().column, message))
        .hint("restore it from Git, or take the file away and it is resolved anew");
  }

  void only(const Value& map, const std::vector<std::string>& keys) const {
    if (!map.is_map())
      fail(map, fmt::format("expected a map, found {}", text::to_string(map.kind())));
    for (const text::Entry& entry : map.entries())
      if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
        fail(entry.value,
             fmt::format("unknown key `{}`{}", entry.key, did_you_mean(entry.key, keys)));
  }

  std::string text(const Value& map, const char* key) const {
    const Value* value = map.find(key);
    if (value == nullptr) return "";
    if (!value->is_scalar() || value->is_null()) fail(*value, fmt::format("`{}` is no text", key));
    return value->text();
  }

  std::string version(const Value& map, const char* key) const {
    std::string text = this->text(map, key);
    if (!text.empty() && !Version::parse(text))
      fail(*map.find(key), fmt::format("`{}` is no version", text));
    return text;
  }

  std::string sha256(const Value& map) const {
    std::string digest = text(map, "sha256");
    if (!digest.empty() && !is_sha256_hex(digest))
      fail(*map.find("sha256"), "sha256 is not 64 hex digits");
    return digest;
  }

  std::optional<std::uint64_t> number(const Value& map, const char* key) const {
    const Value* value = map.find(key);
    if (value == nullptr) return std::nullopt;
    const auto count = value->as_uint();
    if (!count) fail(*value, fmt::format("`{}` is no number", key));
    return count;
  }

  template <class Use>
  void each(const Value& map, const char* key, Use use) const {
    const Value* section = map.find(key);
    if (section == nullptr) return;
    if (!section->is_map()) fail(*section, fmt::format("`{}` is no map", key));
    for (const text::Entry& entry : section->entries()) use(entry.key, entry.value);
  }

 private:
  std::string name_;
};

void set_text(Value& map, const char* key, const std::string& text) {
  if (!text.empty()) map.set(key, Value::string(text));
}

// Every leaf by its path: the one form in which two locks are compared.
void flatten(const Value& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (value.is_map()) {
    for (const text::Entry& entry : value.entries())
      flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, out);
    return;
  }
  if (value.is_list()) {
    std::vector<std::string> items;
    for (const Value& item : value.items()) items.push_back(item.text());
    out[path] = join(items, ", ");
    return;
  }
  out[path] = value.text();
}

Value to_value(const Lock& lock) {
  Value top = Value::map();
  top.set("format", Value::unsigned_integer(Lock::format));
  set_text(top, "cluster", lock.cluster);
  set_text(top, "talos", lock.talos);
  set_text(top, "kubernetes", lock.kubernetes);
  if (!lock.schematics.empty()) {
    Value& section = top.set("schematics", Value::map());
    for (const auto& [name, id] : lock.schematics) section.set(name, Value::string(id));
  }
  if (!lock.images.empty()) {
    Value& section = top.set("images", Value::map());
    for (const auto& [name, image] : lock.images) {
      Value one = Value::map();
      set_text(one, "url", image.url);
      if (image.size) one.set("size", Value::unsigned_integer(*image.size));
      set_text(one, "sha256", image.sha256);
      section.set(name, std::move(one));
    }
  }
  if (!lock.addons.empty()) {
    Value& section = top.set("addons", Value::map());
    for (const auto& [name, addon] : lock.addons) {
      Value one = Value::map();
      set_text(one, "version", addon.version);
      set_text(one, "url", addon.url);
      set_text(one, "sha256", addon.sha256);
      section.set(name, std::move(one));
    }
  }
  if (!lock.nodes.empty()) {
    Value& section = top.set("nodes", Value::map());
    for (const auto& [name, node] : lock.nodes) {
      Value one = Value::map();
      set_text(one, "host", node.host);
      if (node.vmid) one.set("vmid", Value::unsigned_integer(*node.vmid));
      if (node.uuid) one.set("uuid", Value::string(to_string(*node.uuid)));
      section.set(name, std::move(one));
    }
  }
  if (!lock.extensions.empty()) {
    Value& section = top.set("extensions", Value::map());
    set_text(section, "talos", lock.extensions_of);
    Value& names = section.set("names", Value::list());
    auto sorted = lock.extensions;
    std::sort(sorted.begin(), sorted.end());
    for (const std::string& name : sorted) names.append(Value::string(name));
  }
  return top;
}

}  // namespace

Lock parse_lock(std::string_view source, const std::string& name) {
  if (source.starts_with(header) && source.find(ending) == std::string_view::npos)
    throw Error(Fault::Usage,
                fmt::format("{} is cut off: its last line, `{}`, is missing", name, trim(ending)))
        .hint("restore the file from Git or from a backup");
  const LockReader reader(name);
  const Value top = text::parse_yaml(source, name);
  if (!top.is_map()) reader.fail(top, "this is no rocca.lock");
  const auto format = reader.number(top, "format");
  if (!format) reader.fail(top, "this is no rocca.lock: it has no `format`");
  if (*format == 0 || *format > Lock::format)
    throw Error(Fault::Usage, fmt::format("{} has format {}, and this rocca knows format {}", name,
                                          *format, Lock::format))
        .hint("a newer rocca wrote it: use that one");
  reader.only(top, {"format", "cluster", "talos", "kubernetes", "schematics", "images", "addons",
                    "nodes", "extensions"});
  Lock lock;
  lock.cluster = reader.text(top, "cluster");
  lock.talos = reader.version(top, "talos");
  lock.kubernetes = reader.version(top, "kubernetes");
  reader.each(top, "schematics", [&](const std::string& key, const Value& id) {
    if (!is_sha256_hex(id.text())) reader.fail(id, "a schematic's id has 64 hex digits");
    lock.schematics[key] = id.text();
  });
  reader.each(top, "images", [&](const std::string& key, const Value& image) {
    reader.only(image, {"url", "size", "sha256"});
    lock.images[key] = {reader.text(image, "url"), reader.number(image, "size"),
                        reader.sha256(image)};
  });
  reader.each(top, "addons", [&](const std::string& key, const Value& addon) {
    reader.only(addon, {"version", "url", "sha256"});
    lock.addons[key] = {reader.text(addon, "version"), reader.text(addon, "url"),
                        reader.sha256(addon)};
  });
  reader.each(top, "nodes", [&](const std::string& key, const Value& node) {
    reader.only(node, {"host", "vmid", "uuid"});
    LockedNode one{reader.text(node, "host"), reader.number(node, "vmid"), std::nullopt};
    if (const std::string text = reader.text(node, "uuid"); !text.empty()) {
      one.uuid = Uuid::parse(text);
      if (!one.uuid) reader.fail(*node.find("uuid"), fmt::format("`{}` is no UUID", text));
    }
    for (const auto& [other, known] : lock.nodes) {
      if (one.vmid && known.vmid == one.vmid)
        reader.fail(node, fmt::format("{} and {} have one VM id, {}", other, key, *one.vmid));
      if (one.uuid && known.uuid == one.uuid)
        reader.fail(node, fmt::format("{} and {} have one UUID", other, key));
    }
    lock.nodes[key] = std::move(one);
  });
  if (const Value* extensions = top.find("extensions")) {
    reader.only(*extensions, {"talos", "names"});
    lock.extensions_of = reader.version(*extensions, "talos");
    const Value* names = extensions->find("names");
    if (names == nullptr || !names->is_list()) reader.fail(*extensions, "`names` is no list");
    for (const Value& item : names->items()) lock.extensions.push_back(item.text());
    std::sort(lock.extensions.begin(), lock.extensions.end());
  }
  return lock;
}

std::string to_text(const Lock& lock) {
  return header + text::emit_yaml(to_value(lock)) + std::string{ending};
}

std::optional<Lock> find_lock(Files& files, const std::string& folder) {
  const std::string path = (folder.empty() ? "" : folder + "/") + "rocca.lock";
  const auto text = files.find(path, text::Limits{}.size);
  if (!text) return std::nullopt;
  return parse_lock(*text, path);
}

void write_lock(Files& files, const std::string& folder, const Lock& lock) {
  files.write((folder.empty() ? "" : folder + "/") + "rocca.lock", to_text(lock), 0644);
}

std::vector<LockChange> changes(const Lock& before, const Lock& after) {
  std::map<std::string, std::string> old_leaves;
  std::map<std::string, std::string> new_leaves;
  flatten(to_value(before), "", old_leaves);
  flatten(to_value(after), "", new_leaves);
  std::map<std::string, LockChange> found;
  for (const auto& [path, text] : old_leaves)
    if (const auto now = new_leaves.find(path); now == new_leaves.end() || now->second != text)
      found[path] = {path, text, now == new_leaves.end() ? "" : now->second};
  for (const auto& [path, text] : new_leaves)
    if (!old_leaves.contains(path)) found[path] = {path, "", text};
  std::vector<LockChange> list;
  for (auto& [path, change] : found) list.push_back(std::move(change));
  return list;
}

void require_unchanged(const Lock& before, const Lock& after) {
  const auto list = changes(before, after);
  if (list.empty()) return;
  std::string text = fmt::format("rocca.lock would change in {}", plural(list.size(), "place"));
  for (const LockChange& change : list)
    text += fmt::format("\n  {}: {} → {}", change.path,
                        change.before.empty() ? "(none)" : change.before,
                        change.after.empty() ? "(none)" : change.after);
  throw Error(Fault::Refused, text).hint("leave --locked out, and keep the new rocca.lock in Git");
}

}  // namespace rocca::spec
