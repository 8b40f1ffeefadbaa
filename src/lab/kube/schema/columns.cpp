#include "lab/kube/schema/columns.hpp"

#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/selector.hpp"

#include <fmt/format.h>

#include <ctime>
#include <functional>

namespace rocca::lab::kube {

using text::Value;

namespace {

struct Column {
  std::string name, type, format, description;
  int priority = 0;
  std::function<Value(const Value&, std::int64_t)> cell;
};

constexpr const char* name_text =
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. "
    "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
    "updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names"
    "#names";
constexpr const char* age_text =
    "CreationTimestamp is a timestamp representing the server time when this object was created. "
    "It is not guaranteed to be set in happens-before order across separate operations. Clients "
    "may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the "
    "system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel"
    "/sig-architecture/api-conventions.md#metadata";
constexpr const char* data_text =
    "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', "
    "'_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys "
    "stored in Data must not overlap with the keys in the BinaryData field, this is enforced "
    "during "
    "validation process.";

Value age(const Value& object, std::int64_t now) {
  const std::string made = text_at(object, {"metadata", "creationTimestamp"});
  return str(made.empty() ? "<unknown>" : human_duration(now - seconds_of(made)));
}

Column name_column() {
  return {"Name", "string", "name", name_text, 0, [](const Value& object, std::int64_t) {
            return str(text_at(object, {"metadata", "name"}));
          }};
}

Column age_column() {
  return {"Age", "string", "", age_text, 0, age};
}

Column text_column(std::string name, std::function<std::string(const Value&)> of,
                   int priority = 0) {
  return {std::move(name),
          "string",
          "",
          "",
          priority,
          [of = std::move(of)](const Value& object, std::int64_t) { return str(of(object)); }};
}

std::string condition(const Value& object, std::string_view type) {
  if (const Value* list = object.find({"status", "conditions"}); list != nullptr && list->is_list())
    for (const Value& one : list->items())
      if (text_at(one, {"type"}) == type) return text_at(one, {"status"});
  return "";
}

std::string node_status(const Value& node) {
  const std::string ready = condition(node, "Ready");
  std::string out = ready == "True" ? "Ready" : ready.empty() ? "Unknown" : "NotReady";
  if (bool_at(node, {"spec", "unschedulable"})) out += ",SchedulingDisabled";
  return out;
}

std::string node_roles(const Value& node) {
  std::vector<std::string> roles;
  if (const Value* labels = node.find({"metadata", "labels"}))
    for (const text::Entry& label : labels->entries())
      if (label.key.starts_with("node-role.kubernetes.io/"))
        roles.push_back(label.key.substr(std::string_view("node-role.kubernetes.io/").size()));
  return roles.empty() ? "<none>" : join(roles, ",");
}

std::string node_address(const Value& node, std::string_view type) {
  if (const Value* list = node.find({"status", "addresses"}); list != nullptr && list->is_list())
    for (const Value& one : list->items())
      if (text_at(one, {"type"}) == type) return text_at(one, {"address"});
  return "<none>";
}

std::string pod_ready(const Value& pod) {
  std::size_t ready = 0;
  const Value* containers = pod.find({"spec", "containers"});
  if (const Value* list = pod.find({"status", "containerStatuses"});
      list != nullptr && list->is_list())
    for (const Value& one : list->items())
      if (bool_at(one, {"ready"})) ++ready;
  return fmt::format("{}/{}", ready, containers == nullptr ? 0 : containers->size());
}

std::string pod_status(const Value& pod) {
  std::string out = text_at(pod, {"status", "reason"});
  if (out.empty()) out = text_at(pod, {"status", "phase"});
  if (const Value* list = pod.find({"status", "containerStatuses"});
      list != nullptr && list->is_list())
    for (const Value& one : list->items()) {
      const std::string waiting = text_at(one, {"state", "waiting", "reason"});
      const std::string ended = text_at(one, {"state", "terminated", "reason"});
      if (!waiting.empty()) out = waiting;
      if (!ended.empty()) out = ended;
    }
  if (pod.find({"metadata", "deletionTimestamp"}) != nullptr) out = "Terminating";
  return out;
}

/// `.status.conditions[?(@.type=="Ready")].message`: as much of JSONPath as columns use. Nothing is
/// an empty text.
std::string by_path(const Value& object, std::string_view path) {
  const Value* at = &object;
  while (!path.empty() && at != nullptr) {
    if (path.starts_with('.')) {
      path.remove_prefix(1);
      const std::string_view key = path.substr(0, path.find_first_of(".["));
      path.remove_prefix(key.size());
      if (!key.empty()) at = at->is_map() ? at->find(key) : nullptr;
      continue;
    }
    const std::size_t end = path.find(']');
    if (!path.starts_with('[') || end == std::string_view::npos || !at->is_list()) return "";
    const std::string_view inside = path.substr(1, end - 1);
    path.remove_prefix(end + 1);
    const Value* found = nullptr;
    if (inside.starts_with("?(@.")) {
      const std::size_t equals = inside.find("==");
      const std::size_t open = inside.find_first_of("\"'");
      const std::size_t close = inside.find_last_of("\"'");
      if (equals == std::string_view::npos || close == open) return "";
      const std::string_view key = inside.substr(4, equals - 4);
      const std::string_view wanted = inside.substr(open + 1, close - open - 1);
      for (const Value& item : at->items())
        if (const Value* value = item.is_map() ? item.find(key) : nullptr;
            found == nullptr && value != nullptr && value->text() == wanted)
          found = &item;
    } else if (const auto index = parse_uint(inside); index && *index < at->size()) {
      found = &at->items()[*index];
    }
    at = found;
  }
  return at != nullptr && at->is_scalar() && !at->is_null() ? at->text() : "";
}

std::vector<Column> columns_of(const Resource& resource) {
  std::vector<Column> out{name_column()};
  const auto text = [&](std::string name, std::function<std::string(const Value&)> of,
                        int priority = 0) {
    out.push_back(text_column(std::move(name), std::move(of), priority));
  };
  const auto number = [&](std::string name, std::initializer_list<std::string_view> path) {
    std::vector<std::string> parts(path.begin(), path.end());
    out.push_back(
        {std::move(name), "integer", "", "", 0, [parts](const Value& object, std::int64_t) {
           return num(parse_int(field_text(object, join(parts, "."))).value_or(0));
         }});
  };
  const std::string key = resource.key();
  if (resource.custom()) {
    for (const Value& column : resource.columns.items()) {
      const std::string path = text_at(column, {"jsonPath"});
      const std::string type = text_at(column, {"type"});
      out.push_back(
          {text_at(column, {"name"}), type, text_at(column, {"format"}),
           text_at(column, {"description"}), static_cast<int>(int_at(column, {"priority"})),
           [path, type](const Value& object, std::int64_t now) -> Value {
             const std::string found = by_path(object, path);
             if (type == "date")
               return str(found.empty() ? "<unknown>" : human_duration(now - seconds_of(found)));
             if (found.empty()) return Value::null();
             if (type == "integer") return num(parse_int(found).value_or(0));
             return str(found);
           }});
    }
    if (resource.columns.size() == 0) out.push_back(age_column());
    return out;
  }
  if (key == "/configmaps") {
    out.push_back({"Data", "string", "", data_text, 0, [](const Value& object, std::int64_t) {
                     const Value* data = object.find("data");
                     const Value* binary = object.find("binaryData");
                     return num(
                         static_cast<std::int64_t>((data == nullptr ? 0 : data->size()) +
                                                   (binary == nullptr ? 0 : binary->size())));
                   }});
  } else if (key == "/nodes") {
    text("Status", node_status);
    text("Roles", node_roles);
    out.push_back(age_column());
    text("Version", [](const Value& node) {
      return text_at(node, {"status", "nodeInfo", "kubeletVersion"});
    });
    text(
        "Internal-IP", [](const Value& node) { return node_address(node, "InternalIP"); }, 1);
    text(
        "External-IP", [](const Value& node) { return node_address(node, "ExternalIP"); }, 1);
    text(
        "OS-Image",
        [](const Value& node) {
          return text_at(node, {"status", "nodeInfo", "osImage"});
        },
        1);
    text(
        "Kernel-Version",
        [](const Value& node) {
          return text_at(node, {"status", "nodeInfo", "kernelVersion"});
        },
        1);
    text(
        "Container-Runtime",
        [](const Value& node) {
          return text_at(node, {"status", "nodeInfo", "containerRuntimeVersion"});
        },
        1);
    return out;
  } else if (key == "/pods") {
    text("Ready", pod_ready);
    text("Status", pod_status);
    text("Restarts", [](const Value&) { return std::string("0"); });
    out.push_back(age_column());
    text(
        "IP",
        [](const Value& pod) {
          return text_at(pod, {"status", "podIP"});
        },
        1);
    text(
        "Node",
        [](const Value& pod) {
          return text_at(pod, {"spec", "nodeName"});
        },
        1);
    return out;
  } else if (key == "/namespaces") {
    text("Status", [](const Value& space) { return text_at(space, {"status", "phase"}); });
  } else if (key == "apps/deployments") {
    text("Ready", [](const Value& one) {
      return fmt::format("{}/{}", int_at(one, {"status", "readyReplicas"}),
                         int_at(one, {"spec", "replicas"}));
    });
    number("Up-to-date", {"status", "updatedReplicas"});
    number("Available", {"status", "availableReplicas"});
  } else if (key == "apps/daemonsets") {
    number("Desired", {"status", "desiredNumberScheduled"});
    number("Current", {"status", "currentNumberScheduled"});
    number("Ready", {"status", "numberReady"});
    number("Up-to-date", {"status", "updatedNumberScheduled"});
    number("Available", {"status", "numberAvailable"});
  } else if (key == "/services") {
    text("Type", [](const Value& one) { return text_at(one, {"spec", "type"}); });
    text("Cluster-IP", [](const Value& one) { return text_at(one, {"spec", "clusterIP"}); });
  } else if (key == "/secrets") {
    text("Type", [](const Value& one) { return text_at(one, {"type"}); });
    number("Data", {"data"});
  }
  out.push_back(age_column());
  return out;
}

}  // namespace

std::int64_t seconds_of(std::string_view time) {
  if (time.size() < 19) return 0;
  std::tm parts{};
  const auto digits = [&](std::size_t at, std::size_t count) {
    return static_cast<int>(parse_int(time.substr(at, count)).value_or(0));
  };
  parts.tm_year = digits(0, 4) - 1900;
  parts.tm_mon = digits(5, 2) - 1;
  parts.tm_mday = digits(8, 2);
  parts.tm_hour = digits(11, 2);
  parts.tm_min = digits(14, 2);
  parts.tm_sec = digits(17, 2);
  return timegm(&parts);
}

std::string human_duration(std::int64_t seconds) {
  if (seconds < 0) return "0s";
  if (seconds < 120) return fmt::format("{}s", seconds);
  const std::int64_t minutes = seconds / 60;
  if (minutes < 10)
    return seconds % 60 == 0 ? fmt::format("{}m", minutes)
                             : fmt::format("{}m{}s", minutes, seconds % 60);
  if (minutes < 180) return fmt::format("{}m", minutes);
  const std::int64_t hours = minutes / 60;
  if (hours < 8)
    return minutes % 60 == 0 ? fmt::format("{}h", hours)
                             : fmt::format("{}h{}m", hours, minutes % 60);
  if (hours < 48) return fmt::format("{}h", hours);
  return fmt::format("{}d", hours / 24);
}

Value table_of(const Resource& resource, const Value& body, std::int64_t now,
               const std::string& include) {
  const std::vector<Column> columns = columns_of(resource);
  Value out = Value::map();
  out.set("kind", str("Table"));
  out.set("apiVersion", str("meta.k8s.io/v1"));
  const Value* items = body.find("items");
  Value metadata = Value::map();
  if (items != nullptr)
    metadata = *body.find("metadata");
  else
    metadata.set("resourceVersion", str(text_at(body, {"metadata", "resourceVersion"})));
  out.set("metadata", std::move(metadata));
  Value definitions = Value::list();
  for (const Column& column : columns) {
    Value one = Value::map();
    one.set("name", str(column.name));
    one.set("type", str(column.type));
    one.set("format", str(column.format));
    one.set("description", str(column.description));
    one.set("priority", num(column.priority));
    definitions.append(std::move(one));
  }
  out.set("columnDefinitions", std::move(definitions));
  Value rows = Value::list();
  const auto row = [&](const Value& object) {
    Value one = Value::map();
    Value cells = Value::list();
    for (const Column& column : columns) cells.append(column.cell(object, now));
    one.set("cells", std::move(cells));
    if (include == "Object") {
      one.set("object", object);
    } else if (include != "None") {
      Value partial = Value::map();
      partial.set("kind", str("PartialObjectMetadata"));
      partial.set("apiVersion", str("meta.k8s.io/v1"));
      partial.set("metadata", *object.find("metadata"));
      one.set("object", std::move(partial));
    }
    rows.append(std::move(one));
  };
  if (items == nullptr)
    row(body);
  else
    for (const Value& item : items->items()) row(item);
  out.set("rows", std::move(rows));
  return out;
}

}  // namespace rocca::lab::kube
