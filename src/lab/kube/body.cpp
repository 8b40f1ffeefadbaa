// What a request's body becomes: decoded, checked against its place, defaulted.
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

std::string media_type(const std::string& header) {
  return std::string(trim(std::string_view(header).substr(0, header.find(';'))));
}

/// How Go shows the beginning of a body it cannot read.
std::string excerpt(const std::string& body) {
  if (body.empty()) return "<empty>";
  if (body[0] == '{') return body.size() > 30 ? body.substr(0, 30) + " ..." : body;
  return to_hex(body);
}

bool is_strict(const Call& call) {
  return call.option_or("fieldValidation") == "Strict";
}

std::string version_of(std::string_view api_version) {
  const std::size_t slash = api_version.find('/');
  return std::string(slash == std::string_view::npos ? api_version : api_version.substr(slash + 1));
}

}  // namespace

void Server::check_options(const Call& call, std::string_view kind) const {
  std::vector<Cause> causes;
  const bool apply = media_type(call.header("Content-Type")).starts_with("application/apply-patch");
  const std::string manager = call.option_or("fieldManager");
  if (call.verb == "patch") {
    const auto force = call.option("force");
    if (!apply && force)
      causes.push_back(Cause::forbidden("force", "may not be specified for non-apply patch"));
    if (apply && manager.empty())
      causes.push_back(Cause::required("fieldManager", "is required for apply patch"));
  }
  if (manager.size() > 128)
    causes.push_back(Cause::too_long("fieldManager", "may not be more than 128 bytes"));
  for (const char c : manager)
    if (c < 0x20 || c == 0x7f) {
      // As Go's %q shows it.
      causes.push_back(
          Cause::invalid("fieldManager",
                         fmt::format("\"{}\\x{:02x}{}\"", manager.substr(0, manager.find(c)),
                                     static_cast<unsigned>(c), manager.substr(manager.find(c) + 1)),
                         fmt::format("invalid character U+{:04X} (at position {})",
                                     static_cast<unsigned>(c), manager.find(c))));
      break;
    }
  std::vector<std::string> dry;
  for (const auto& [key, value] : call.query)
    if (key == "dryRun") dry.push_back(value);
  for (const std::string& one : dry)
    if (one != "All") {
      std::vector<std::string> all;
      for (const std::string& each : dry) all.push_back(in_quotes(each));
      causes.push_back(Cause::unsupported("dryRun", "[" + join(all, " ") + "]", {"All"}));
      break;
    }
  const std::string validation = call.option_or("fieldValidation");
  if (!validation.empty() && validation != "Ignore" && validation != "Strict" &&
      validation != "Warn")
    causes.push_back(Cause::unsupported("fieldValidation", in_quotes(validation),
                                        {"", "Ignore", "Strict", "Warn"}));
  if (!causes.empty()) throw invalid("meta.k8s.io", kind, "", causes);
}

Write Server::write_of(Call& call) const {
  Write write;
  write.user = call.user;
  write.manager = call.option_or("fieldManager");
  if (write.manager.empty()) {
    const std::string agent = call.header("User-Agent");
    write.manager = agent.substr(0, agent.find('/'));
    if (write.manager.empty()) write.manager = "unknown";
  }
  write.dry_run = call.option("dryRun").has_value();
  write.subresource = call.subresource;
  write.warnings = &call.warnings;
  return write;
}

Value Server::read_body(Call& call, const Resource& resource) {
  const std::string type = media_type(call.header("Content-Type"));
  const bool yaml = type == "application/yaml";
  if (!type.empty() && type != "application/json" && !yaml)
    throw Failure{415,
                  "UnsupportedMediaType",
                  "the body of the request was in an unknown format - accepted media types "
                  "include: application/json, application/yaml, "
                  "application/vnd.kubernetes.protobuf",
                  {}};
  Body body;
  const auto unrecognized = [&](const std::string& why) {
    return bad_request(fmt::format(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json "
        "parse error: {} ({})",
        resource.kind, why, excerpt(call.body)));
  };
  try {
    body = yaml ? read_yaml(call.body) : read_json(call.body);
  } catch (const BadJson& bad) {
    throw unrecognized(bad.message);
  }
  if (body.value.is_null() && !resource.custom()) body.value = Value::map();
  if (!body.value.is_map())
    throw unrecognized(fmt::format(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string "
        "\"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        body.value.is_list() ? "array" : "string"));
  return read_object(resource, body.value, call, call.warnings, body.duplicates);
}

Value Server::read_object(const Resource& resource, const Value& sent, const Call& call,
                          std::vector<std::string>& warnings,
                          const std::vector<std::string>& duplicates) const {
  const std::string kind = text_at(sent, {"kind"});
  const std::string api_version = text_at(sent, {"apiVersion"});
  const std::string place = fmt::format(
      "{} in version \"{}\" cannot be handled as a {}: ", kind.empty() ? resource.kind : kind,
      api_version.empty() ? resource.version : version_of(api_version), resource.kind);
  if (resource.custom()) {
    if (kind.empty())
      throw bad_request(fmt::format(
          "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in "
          "'{}' ({})",
          resource.kind, call.body, excerpt(call.body)));
    if (api_version != resource.api_version()) {
      if (api_version.starts_with(resource.group + "/"))
        warnings.emplace_back("unknown field \"spec\"");
      throw bad_request(fmt::format(
          "the API version in the data ({}) does not match the expected API version ({})",
          api_version, resource.api_version()));
    }
    if (kind != resource.kind) {
      const std::vector<Cause> causes{
          Cause::invalid("kind", in_quotes(kind), "must be " + resource.kind)};
      throw invalid(resource.group, kind, text_at(sent, {"metadata", "name"}), causes);
    }
  } else if ((!kind.empty() && kind != resource.kind) ||
             (!api_version.empty() && api_version != resource.api_version())) {
    const Resource* other = kinds_.find_kind(api_version, kind.empty() ? resource.kind : kind);
    const bool eviction = kind == "Eviction" || kind == "DeleteOptions";
    if (other == nullptr && !eviction)
      throw bad_request(place + fmt::format("no kind \"{}\" is registered for version \"{}\" in "
                                            "scheme \"pkg/runtime/scheme.go:110\"",
                                            kind, api_version));
    if (!eviction)
      throw bad_request(place +
                        fmt::format("converting (v1.{}) to ({}.{}): unknown conversion", kind,
                                    resource.group.empty() ? "core" : split(resource.group, '.')[0],
                                    resource.kind));
  }
  std::vector<std::string> unknown;
  Value object;
  try {
    object = decode(*resource.type, sent, unknown);
  } catch (const BadType& bad) {
    throw bad_request(place + bad.message);
  }
  if (resource.custom()) {
    std::vector<std::string> nothing;
    if (const Value* metadata = sent.find("metadata"); metadata != nullptr && metadata->is_map()) {
      try {
        object.set("metadata", decode(*schemas_.object_meta(), *metadata, unknown));
      } catch (const BadType& bad) {
        throw bad_request(place + bad.message);
      }
      for (std::string& one : unknown) one = "metadata." + one;
    }
    prune_custom(resource, object, unknown);
  }
  const std::string validation = call.option_or("fieldValidation", "Warn");
  std::vector<std::string> problems;
  for (const std::string& one : duplicates) problems.push_back("duplicate field " + in_quotes(one));
  for (const std::string& one : unknown) problems.push_back("unknown field " + in_quotes(one));
  if (!problems.empty() && is_strict(call)) {
    if (call.verb == "patch") {
      std::map<std::string, Value> by_key;
      for (const text::Entry& entry : sent.entries()) by_key[entry.key] = entry.value;
      Value shown_object = Value::map();
      for (auto& [key, value] : by_key) shown_object.set(key, std::move(value));
      std::vector<Cause> causes{Cause::invalid("patch", in_quotes(text::emit_json(shown_object)),
                                               "strict decoding error: " + join(problems, ", "))};
      throw invalid("", "", "", causes);
    }
    if (resource.custom())
      throw bad_request(
          fmt::format("{} in version \"{}\" cannot be handled as a {}: strict "
                      "decoding error: {}",
                      resource.kind, resource.version, resource.kind, join(problems, ", ")));
    throw bad_request(place + "strict decoding error: " + join(problems, ", "));
  }
  if (validation != "Ignore")
    for (std::string& one : problems) warnings.push_back(std::move(one));
  object.erase("kind");
  object.erase("apiVersion");
  set_defaults(resource, object);
  return object;
}

}  // namespace rocca::lab::kube
