// Custom kinds: from a CustomResourceDefinition to what is served, pruned, defaulted and checked.
#include "base/strings.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers/controllers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using namespace std::chrono_literals;
using text::Value;
using Form = Type::Form;

namespace {

std::vector<std::string> words(const Value* list) {
  std::vector<std::string> out;
  if (list != nullptr && list->is_list())
    for (const Value& one : list->items()) out.push_back(one.text());
  return out;
}

bool is_served(const Value& crd) {
  return condition_status(crd, "NamesAccepted") == "True" &&
         condition_status(crd, "Established") == "True";
}

void prune(const Type& type, Value& value, const std::string& path,
           std::vector<std::string>& unknown) {
  if (value.is_map() && type.form == Form::Struct) {
    std::vector<std::string> gone;
    for (text::Entry& entry : value.entries()) {
      const Field* field = type.find(entry.key);
      const std::string where = path.empty() ? entry.key : path + "." + entry.key;
      if (field != nullptr)
        prune(*field->type, entry.value, where, unknown);
      else if (!type.open)
        gone.push_back(entry.key);
    }
    for (const std::string& key : gone) {
      unknown.push_back(path.empty() ? key : path + "." + key);
      value.erase(key);
    }
  } else if (value.is_map() && type.form == Form::Map) {
    for (text::Entry& entry : value.entries())
      prune(*type.element, entry.value, path + "." + entry.key, unknown);
  } else if (value.is_list() && type.form == Form::List) {
    for (std::size_t i = 0; i < value.items().size(); ++i)
      prune(*type.element, value.items()[i], fmt::format("{}[{}]", path, i), unknown);
  }
}

void fill(const Type& type, Value& value) {
  if (value.is_map() && type.form == Form::Struct) {
    for (const Field& field : type.fields) {
      if (!field.type->custom) continue;
      const Value* standard = field.type->rules.find("default");
      Value* found = value.find(field.name);
      // A null that may not be one is as good as absent; with no default it goes.
      if (found != nullptr && found->is_null() && !field.type->nullable) {
        if (standard == nullptr) {
          value.erase(field.name);
          continue;
        }
        *found = *standard;
      }
      if (found == nullptr && standard != nullptr) found = &value.set(field.name, *standard);
      if (found != nullptr) fill(*field.type, *found);
    }
  } else if (value.is_map() && type.form == Form::Map) {
    for (text::Entry& entry : value.entries()) fill(*type.element, entry.value);
  } else if (value.is_list() && type.form == Form::List) {
    for (Value& item : value.items()) fill(*type.element, item);
  }
}

}  // namespace

void Server::prune_custom(const Resource& resource, Value& object,
                          std::vector<std::string>& unknown) const {
  std::vector<std::string> gone;
  for (const text::Entry& entry : object.entries())
    if (!resource.type->open && resource.type->find(entry.key) == nullptr)
      gone.push_back(entry.key);
  for (const std::string& key : gone) {
    unknown.push_back(key);
    object.erase(key);
  }
  for (text::Entry& entry : object.entries()) {
    if (entry.key == "metadata" || entry.key == "kind" || entry.key == "apiVersion") continue;
    if (const Field* field = resource.type->find(entry.key))
      prune(*field->type, entry.value, entry.key, unknown);
  }
}

void Server::default_custom(const Resource& resource, Value& object) const {
  fill(*resource.type, object);
}

void Server::serve_custom(const Value& crd) {
  const std::string name = text_at(crd, {"metadata", "name"});
  kinds_.remove_crd(name);
  if (!is_served(crd)) return;
  const Value* versions = crd.find({"spec", "versions"});
  std::string stored;
  for (const Value& version : versions->items())
    if (bool_at(version, {"storage"})) stored = text_at(version, {"name"});
  for (const Value& version : versions->items()) {
    if (!bool_at(version, {"served"})) continue;
    Resource one;
    one.crd = name;
    one.group = text_at(crd, {"spec", "group"});
    one.version = text_at(version, {"name"});
    one.stored = stored;
    one.plural = text_at(crd, {"spec", "names", "plural"});
    one.singular = text_at(crd, {"spec", "names", "singular"});
    one.kind = text_at(crd, {"spec", "names", "kind"});
    one.list_kind = text_at(crd, {"spec", "names", "listKind"});
    one.namespaced = text_at(crd, {"spec", "scope"}) == "Namespaced";
    one.verbs = {"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"};
    one.short_names = words(crd.find({"spec", "names", "shortNames"}));
    one.categories = words(crd.find({"spec", "names", "categories"}));
    if (bool_at(version, {"deprecated"})) {
      one.deprecation = text_at(version, {"deprecationWarning"});
      if (one.deprecation.empty()) {
        one.deprecation = fmt::format("{} {} is deprecated", one.api_version(), one.kind);
        if (stored != one.version)
          one.deprecation += fmt::format("; use {}/{} {}", one.group, stored, one.kind);
      }
    }
    one.generation = true;
    one.conditional = true;
    const Value* rules = version.find({"schema", "openAPIV3Schema"});
    one.type = custom_type(rules == nullptr ? json(R"({"type":"object"})") : *rules, schemas_);
    if (version.find({"subresources", "status"}) != nullptr)
      one.subresources.push_back({"status", "", "", one.kind, {"get", "patch", "update"}});
    if (const Value* scale = version.find({"subresources", "scale"})) {
      one.scale = *scale;
      one.subresources.push_back(
          {"scale", "autoscaling", "v1", "Scale", {"get", "patch", "update"}});
    }
    if (const Value* columns = version.find("additionalPrinterColumns")) one.columns = *columns;
    if (const Value* fields = version.find("selectableFields"))
      for (const Value& field : fields->items())
        one.selectable.push_back(text_at(field, {"jsonPath"}).substr(1));
    if (const Value* conversion = crd.find({"spec", "conversion"})) one.conversion = *conversion;
    kinds_.add(std::move(one));
  }
}

void Server::crd_changed(const Value* before, const Value* after) {
  if (after == nullptr) {
    kinds_.remove_crd(text_at(*before, {"metadata", "name"}));
    return;
  }
  const std::string name = text_at(*after, {"metadata", "name"});
  if (after->find({"metadata", "deletionTimestamp"}) != nullptr) {
    if (before == nullptr || before->find({"metadata", "deletionTimestamp"}) == nullptr)
      controllers_->later(50ms, [this, name] { clean_custom(name); });
    return;
  }
  if (is_served(*after)) {
    const bool was = before != nullptr && is_served(*before);
    // Established does not mean served: the handlers come a moment later.
    if (was)
      serve_custom(*after);
    else
      controllers_->later(100ms, [this, name] {
        if (const Object crd =
                storage_.find("apiextensions.k8s.io/customresourcedefinitions", {"", name}))
          serve_custom(*crd);
      });
    return;
  }
  if (condition_status(*after, "NamesAccepted") != "") return;
  controllers_->later(20ms, [this, name] { accept_names(name); });
}

void Server::clean_custom(const std::string& name) {
  static constexpr std::string_view key = "apiextensions.k8s.io/customresourcedefinitions";
  const Object crd = storage_.find(key, {"", name});
  if (!crd) return;
  const Resource& crds = *kinds_.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
  const Write write{
      "kube-apiserver", {"system:apiserver", {"system:masters"}}, false, "status", nullptr, true};
  const Value* condition = find_condition(*crd, "Terminating");
  if (condition == nullptr || text_at(*condition, {"reason"}) != "InstanceDeletionInProgress")
    update(
        crds, {"", name},
        [&](const Value& live) {
          Value out = live;
          set_condition(out, "Terminating", "True", "InstanceDeletionInProgress",
                        "CustomResource deletion is in progress", timestamp());
          return out;
        },
        write);
  bool left = false;
  const Resource* kind =
      kinds_.find_any(text_at(*crd, {"spec", "group"}), text_at(*crd, {"spec", "names", "plural"}));
  if (kind != nullptr) {
    std::vector<ObjectKey> keys;
    for (const auto& [of, object] : storage_.all(kind->key())) keys.push_back(of);
    for (const ObjectKey& of : keys) {
      const Object object = storage_.find(kind->key(), of);
      if (object && object->find({"metadata", "deletionTimestamp"}) == nullptr)
        remove(*kind, of, {}, write);
      left = left || storage_.find(kind->key(), of) != nullptr;
    }
  }
  if (left) {
    controllers_->later(200ms, [this, name] { clean_custom(name); });
    return;
  }
  const std::string group = text_at(*crd, {"spec", "group"});
  storage_.remove(key, {"", name});
  // Its names are free: whoever wanted one of them may have it now.
  std::vector<std::string> refused;
  for (const auto& [other, object] : storage_.all(key))
    if (text_at(*object, {"spec", "group"}) == group &&
        condition_status(*object, "NamesAccepted") == "False")
      refused.push_back(other.name);
  for (const std::string& one : refused)
    controllers_->later(20ms, [this, one] { accept_names(one); });
}

void Server::accept_names(const std::string& name) {
  static constexpr std::string_view key = "apiextensions.k8s.io/customresourcedefinitions";
  const Object found = storage_.find(key, {"", name});
  if (!found || condition_status(*found, "NamesAccepted") == "True") return;
  const Resource& crds = *kinds_.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
  const Write write{
      "kube-apiserver", {"system:apiserver", {"system:masters"}}, false, "status", nullptr, true};
  const Value& names = *found->find({"spec", "names"});
  std::vector<std::pair<std::string, std::string>> clashes;  // reason, message
  const std::string group = text_at(*found, {"spec", "group"});
  for (const auto& stored : storage_.all(key)) {
    const auto& other = stored.second;
    if (stored.first.name == name || text_at(*other, {"spec", "group"}) != group) continue;
    const auto clash = [&](const char* field, const char* reason) {
      const std::string mine = text_at(names, {field});
      if (!mine.empty() && mine == text_at(*other, {"status", "acceptedNames", field}))
        clashes.emplace_back(reason, fmt::format("{} is already in use", in_quotes(mine)));
    };
    clash("plural", "PluralConflict");
    clash("singular", "SingularConflict");
    clash("kind", "KindConflict");
    clash("listKind", "ListKindConflict");
    for (const std::string& mine : words(names.find("shortNames")))
      for (const std::string& theirs :
           words(other->find({"status", "acceptedNames", "shortNames"})))
        if (mine == theirs)
          clashes.emplace_back("ShortNamesConflict",
                               fmt::format("{} is already in use", in_quotes(mine)));
  }
  Value accepted = names;
  if (!clashes.empty()) {
    for (const auto& [reason, message] : clashes) {
      if (reason == "PluralConflict") accepted.set("plural", str(""));
      if (reason == "SingularConflict") accepted.erase("singular");
      if (reason == "KindConflict") accepted.set("kind", str(""));
      if (reason == "ListKindConflict") accepted.erase("listKind");
      if (reason == "ShortNamesConflict") accepted.erase("shortNames");
    }
  }
  update(
      crds, {"", name},
      [&](const Value& live) {
        Value crd = live;
        set_at(crd, {"status", "acceptedNames"}, accepted);
        set_at(crd, {"status", "conditions"}, Value::list());
        if (clashes.empty()) {
          set_condition(crd, "NamesAccepted", "True", "NoConflicts", "no conflicts found",
                        timestamp());
          set_condition(crd, "Established", "False", "Installing",
                        "the initial names have been accepted", timestamp());
        } else {
          set_condition(crd, "NamesAccepted", "False", clashes.back().first, clashes.back().second,
                        timestamp());
          set_condition(crd, "Established", "False", "NotAccepted", "not all names are accepted",
                        timestamp());
        }
        return crd;
      },
      write);
  if (!clashes.empty()) return;
  controllers_->later(50ms, [this, name, &crds, write] {
    if (!storage_.find(key, {"", name})) return;
    update(
        crds, {"", name},
        [&](const Value& live) {
          Value crd = live;
          set_condition(crd, "Established", "True", "InitialNamesAccepted",
                        "the initial names have been accepted", timestamp());
          return crd;
        },
        write);
  });
}

}  // namespace rocca::lab::kube
