// What the Accept header asks for: JSON, YAML, a Table, or metadata alone.
#include "base/strings.hpp"
#include "lab/kube/schema/columns.hpp"
#include "lab/kube/server.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

struct Wish {
  std::string type;  // application/json, application/yaml, */*
  std::string as, group, version;
};

std::vector<Wish> read_accept(const std::string& header) {
  std::vector<Wish> wishes;
  for (const std::string& part : split(header, ',')) {
    Wish wish;
    bool first = true;
    for (const std::string& piece : split(part, ';')) {
      const std::string word(trim(piece));
      if (first) wish.type = word;
      first = false;
      if (word.starts_with("as=")) wish.as = word.substr(3);
      if (word.starts_with("g=")) wish.group = word.substr(2);
      if (word.starts_with("v=")) wish.version = word.substr(2);
    }
    if (!wish.type.empty()) wishes.push_back(std::move(wish));
  }
  return wishes;
}

Value metadata_only(const Value& object) {
  Value out = Value::map();
  out.set("kind", str("PartialObjectMetadata"));
  out.set("apiVersion", str("meta.k8s.io/v1"));
  if (const Value* metadata = object.find("metadata")) out.set("metadata", *metadata);
  return out;
}

}  // namespace

Reply Server::negotiate(const Call& call, Reply reply) const {
  const std::string header = call.header("Accept");
  if (header.empty() || reply.text) return reply;
  const Value* kind = reply.body.find("kind");
  const bool status = kind != nullptr && kind->text() == "Status";
  const std::vector<Wish> wishes = read_accept(header);
  bool known = false;
  for (const Wish& wish : wishes) {
    const bool json_type =
        wish.type == "application/json" || wish.type == "*/*" || wish.type == "application/*";
    if (!json_type && wish.type != "application/yaml") continue;
    known = true;
    if (wish.as.empty()) {
      if (wish.type == "application/yaml") reply.type = "application/yaml";
      return reply;
    }
    if (wish.group != "meta.k8s.io" || (wish.version != "v1" && wish.version != "v1beta1"))
      continue;
    if (status) return reply;
    if (wish.as == "Table") {
      reply.body = table_of(*call.resource, reply.body, world_.unix_time(),
                            call.option_or("includeObject", "Metadata"));
      return reply;
    }
    const Value* items = reply.body.find("items");
    if (wish.as == "PartialObjectMetadata" && items == nullptr) {
      reply.body = metadata_only(reply.body);
      return reply;
    }
    if (wish.as == "PartialObjectMetadataList" && items != nullptr) {
      Value list = Value::list();
      for (const Value& item : items->items()) list.append(metadata_only(item));
      Value out = Value::map();
      out.set("kind", str("PartialObjectMetadataList"));
      out.set("apiVersion", str("meta.k8s.io/v1"));
      out.set("metadata", *reply.body.find("metadata"));
      // An empty list of these is a nil slice in Go.
      out.set("items", list.size() == 0 ? Value::null() : std::move(list));
      reply.body = std::move(out);
      return reply;
    }
  }
  if (known)
    throw Failure{406,
                  "NotAcceptable",
                  "only the following media types are accepted: application/json, "
                  "application/yaml, application/vnd.kubernetes.protobuf",
                  {}};
  throw Failure{406, "NotAcceptable",
                "406: Not Acceptable\n\nAvailable representations: application/json, "
                "application/yaml, application/vnd.kubernetes.protobuf, "
                "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
                Value::map()};
}

}  // namespace rocca::lab::kube
