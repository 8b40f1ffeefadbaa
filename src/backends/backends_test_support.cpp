#include "backends/backends_test_support.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "net/date.hpp"
#include "s3/signature.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <utility>

namespace rocca::backends::test {

namespace {

using text::Value;

net::Answer make(int status, std::string body, std::string etag = "") {
  net::Answer answer;
  answer.head.status = status;
  if (!etag.empty()) answer.head.headers.add("ETag", std::move(etag));
  answer.body = std::move(body);
  return answer;
}

net::Answer s3_error(int status, std::string_view code) {
  return make(status, fmt::format("<?xml version=\"1.0\"?>\n<Error><Code>{}</Code></Error>", code));
}

/// Any function of the content will do: equal content, equal tag.
std::string etag_of(const std::string& body) {
  return fmt::format("\"{}\"", s3::sha256_hex(body).substr(0, 32));
}

net::Answer kube_error(int status, std::string_view reason) {
  return make(status, fmt::format(R"({{"kind":"Status","status":"Failure","reason":"{}",)"
                                  R"("message":"{}","code":{}}})",
                                  reason, reason, status));
}

std::string version_of(const Value& object) {
  const Value* version = object.find({"metadata", "resourceVersion"});
  return version != nullptr ? version->text() : "";
}

void merge(Value& into, const Value& change) {
  for (const text::Entry& entry : change.entries()) {
    Value* old = into.find(entry.key);
    if (entry.value.is_null()) {
      into.erase(entry.key);
    } else if (entry.value.is_map() && old != nullptr && old->is_map()) {
      merge(*old, entry.value);
    } else {
      into.set(entry.key, entry.value);
    }
  }
}

/// `2026-11-16T00:00:00.000000Z`, with exactly six digits.
bool is_micro_time(const Value* time) {
  return time != nullptr && time->is_string() && time->text().size() == 27 &&
         time->text()[19] == '.' && time->text().back() == 'Z';
}

bool is_valid(const Value& object) {
  const Value* kind = object.find("kind");
  if (kind == nullptr) return false;
  if (kind->text() == "Secret") return true;
  return is_micro_time(object.find({"spec", "acquireTime"})) &&
         is_micro_time(object.find({"spec", "renewTime"})) &&
         object.find({"spec", "leaseDurationSeconds"})->as_int().value_or(0) > 0;
}

}  // namespace

net::Response FarSide::exchange(const net::Request& request, net::BodySink& sink, std::stop_token) {
  const std::string target = net::Url::parse(request.url)->target;
  seen.push_back(request.method + " " + target);
  const auto* text = std::get_if<std::string>(&request.body);
  const std::string body = text != nullptr ? *text : "";
  if (die_at && *die_at < 2 && trick != Trick::Deaf) {
    if (*die_at == 1) answer(request, target, body);
    trick = Trick::Deaf;
  } else if (die_at && *die_at >= 2) {
    *die_at -= 2;
  }
  if (trick == Trick::Deaf) throw Error(Fault::Unreachable, "nobody is there");
  const bool writes = writes_state(request, target);
  const Trick now = writes ? std::exchange(trick, Trick::None) : Trick::None;
  if (now == Trick::LoseRequest) throw Error(Fault::Lost, "no answer came");
  if (writes) written += body.size();
  net::Answer made = answer(request, target, body);
  if (now == Trick::GoDark) trick = Trick::Deaf;
  if (now == Trick::LoseAnswer || now == Trick::GoDark) throw Error(Fault::Lost, "no answer came");
  made.head.headers.add("Date", net::to_http_date(clock.now()));
  sink.begin(made.head);
  if (!made.body.empty()) sink.write(made.body);
  return made.head;
}

bool MemoryS3::writes_state(const net::Request& request, const std::string& target) const {
  return request.method == "PUT" && !target.ends_with(".lock");
}

net::Answer MemoryS3::answer(const net::Request& request, const std::string& target,
                             const std::string& body) {
  const std::string prefix = "/state";
  if (!target.starts_with(prefix)) return s3_error(404, "NoSuchBucket");
  if (target.starts_with(prefix + "?")) {
    std::string wanted;
    std::string after;
    for (const std::string& pair : split(target.substr(prefix.size() + 1), '&')) {
      const std::size_t equals = pair.find('=');
      const std::string value = percent_decode(pair.substr(equals + 1));
      if (pair.starts_with("prefix=")) wanted = value;
      if (pair.starts_with("continuation-token=")) after = value;
    }
    std::string contents;
    std::string last;
    unsigned count = 0;
    bool truncated = false;
    for (const auto& [key, content] : objects) {
      if (!key.starts_with(wanted) || key <= after) continue;
      truncated = count == page;
      if (truncated) break;
      contents += fmt::format("<Contents><Key>{}</Key><ETag>{}</ETag><Size>{}</Size></Contents>",
                              key, replace_all(etag_of(content), "\"", "&#34;"), content.size());
      last = key;
      ++count;
    }
    return make(200, fmt::format("<ListBucketResult><IsTruncated>{}</IsTruncated>{}{}"
                                 "</ListBucketResult>",
                                 truncated,
                                 truncated ? fmt::format("<NextContinuationToken>{}"
                                                         "</NextContinuationToken>",
                                                         last)
                                           : "",
                                 contents));
  }
  const std::string key = percent_decode(target.substr(prefix.size() + 1));
  const auto found = objects.find(key);
  const bool there = found != objects.end();
  if (request.method == "PUT") {
    const auto none = request.headers.find("If-None-Match");
    const auto match = request.headers.find("If-Match");
    if (!ignores_conditions) {
      if (none && there) return s3_error(412, "PreconditionFailed");
      if (match && !there) return s3_error(404, "NoSuchKey");
      if (match && etag_of(found->second) != *match) return s3_error(412, "PreconditionFailed");
    }
    objects[key] = body;
    return make(200, "", etag_of(body));
  }
  if (request.method == "DELETE") {
    objects.erase(key);
    return make(204, "");
  }
  if (!there) return request.method == "HEAD" ? make(404, "") : s3_error(404, "NoSuchKey");
  return make(200, request.method == "HEAD" ? "" : found->second, etag_of(found->second));
}

bool MemoryKube::writes_state(const net::Request& request, const std::string& target) const {
  return request.method != "GET" && request.method != "DELETE" &&
         target.find("/secrets") != std::string::npos;
}

net::Answer MemoryKube::answer(const net::Request& request, const std::string& target,
                               const std::string& body) {
  const std::string path = target.substr(0, target.find('?'));
  const auto store = [&](const std::string& where, Value object) {
    object.find("metadata")->set("resourceVersion", Value::string(std::to_string(++version_)));
    objects[where] = object;
    return text::emit_json(object);
  };
  if (request.method == "POST") {
    Value object = text::parse_json(body, "object");
    const std::string where = path + "/" + object.find({"metadata", "name"})->text();
    if (objects.contains(where)) return kube_error(409, "AlreadyExists");
    if (!is_valid(object)) return kube_error(400, "BadRequest");
    if (!version_of(object).empty()) return kube_error(400, "BadRequest");
    return make(201, store(where, std::move(object)));
  }
  const auto found = objects.find(path);
  if (found == objects.end()) return kube_error(404, "NotFound");
  if (request.method == "GET") return make(200, text::emit_json(found->second));
  if (request.method == "DELETE") {
    objects.erase(found);
    return make(200, R"({"kind":"Status","status":"Success"})");
  }
  Value change = text::parse_json(body, "object");
  const std::string version = version_of(change);
  if (version.empty()) return kube_error(422, "Invalid");
  if (version != version_of(found->second)) return kube_error(409, "Conflict");
  if (request.method == "PUT") {
    if (!is_valid(change)) return kube_error(400, "BadRequest");
    return make(200, store(path, std::move(change)));
  }
  Value object = found->second;
  merge(object, change);
  std::string whole = store(path, std::move(object));
  const bool brief = request.headers.find("Accept").value_or("").find("PartialObjectMetadata") !=
                     std::string_view::npos;
  if (!brief) return make(200, std::move(whole));
  Value only = Value::map();
  only.set("kind", Value::string("PartialObjectMetadata"));
  only.set("metadata", *objects.at(path).find("metadata"));
  return make(200, text::emit_json(only));
}

}  // namespace rocca::backends::test
