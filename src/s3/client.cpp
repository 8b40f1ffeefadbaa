#include "s3/client.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <utility>

namespace rocca::s3 {

namespace {

constexpr int not_found = 404;

std::string etag_of(const net::Answer& answer) {
  return std::string{answer.head.headers.find("ETag").value_or("")};
}

}  // namespace

Client::Client(net::Transport& transport, const Clock& clock, Access access, std::stop_token stop)
    : transport_(transport), clock_(clock), access_(std::move(access)), stop_(std::move(stop)) {
  while (access_.endpoint.ends_with('/')) access_.endpoint.pop_back();
  const auto url = net::Url::parse(access_.endpoint);
  if (!url || url->target != "/")
    throw Error(Fault::Usage, fmt::format("'{}' is no S3 endpoint", access_.endpoint))
        .hint("write it as https://HOST or http://HOST:PORT, without the bucket");
  url_ = *url;
}

net::Answer Client::send(const std::string& method, const std::string& key, const Query& query,
                         net::Headers headers, std::optional<std::string> body) {
  const Instant now = clock_.now();
  Unsigned plain;
  plain.method = method;
  plain.path = encode_path(fmt::format("/{}{}{}", access_.bucket, key.empty() ? "" : "/", key));
  plain.query = encode_query(query);
  plain.payload_sha256 = sha256_hex(body.value_or(""));
  headers.add("x-amz-date", amz_date(now));
  headers.add("x-amz-content-sha256", plain.payload_sha256);

  net::Request request;
  request.method = method;
  request.url = url_.origin() + plain.path + (plain.query.empty() ? "" : "?" + plain.query);
  request.tls = access_.tls;
  request.plain_http = access_.plain_http;
  request.headers = headers;
  if (body) request.body = std::move(*body);
  // Host is written as it is sent: without the scheme's own port.
  const bool own_port = url_.port == (url_.scheme == "https" ? 443u : 80u);
  const bool ipv6 = url_.host.find(':') != std::string::npos;
  const std::string host = ipv6 ? fmt::format("[{}]", url_.host) : url_.host;
  plain.headers = std::move(headers);
  plain.headers.add("host", own_port ? host : fmt::format("{}:{}", host, url_.port));
  request.authorization =
      Secret(sign(plain, {access_.access_key, access_.secret_key, access_.region}, now));

  net::Answer answer = net::fetch(transport_, request, stop_);
  if (heard_) heard_(answer.head.headers);
  return answer;
}

std::optional<Object> Client::find(const std::string& key) {
  net::Answer answer = send("GET", key, {}, {}, std::nullopt);
  if (answer.head.status == 200) return Object{std::move(answer.body), etag_of(answer)};
  const Failure failure = classify(answer.head.status, answer.body);
  if (failure.reason == Reason::NoSuchKey) return std::nullopt;
  throw failure.error("reading " + key, /*writing=*/false);
}

std::optional<Entry> Client::head(const std::string& key) {
  const net::Answer answer = send("HEAD", key, {}, {}, std::nullopt);
  if (answer.head.status == 200)
    return Entry{key, etag_of(answer),
                 parse_uint(answer.head.headers.find("Content-Length").value_or("")).value_or(0)};
  // A HEAD's refusal has no body: a missing bucket looks like a missing key.
  if (answer.head.status == not_found) return std::nullopt;
  throw classify(answer.head.status, "").error("looking at " + key, /*writing=*/false);
}

std::optional<std::string> Client::put(const std::string& key, std::string body,
                                       const Condition& condition,
                                       const std::string& content_type) {
  net::Headers headers{{"Content-Type", content_type}};
  if (!condition.header.empty()) headers.add(condition.header, condition.value);
  const net::Answer answer = send("PUT", key, {}, std::move(headers), std::move(body));
  if (answer.head.status == 200) {
    std::string etag = etag_of(answer);
    if (etag.empty())
      throw Error(Fault::Rejected,
                  fmt::format("{} did not answer like an S3 server: no ETag", access_.endpoint));
    return etag;
  }
  const Failure failure = classify(answer.head.status, answer.body);
  const bool refused = failure.reason == Reason::ConditionFailed ||
                       failure.reason == Reason::ConditionRaced ||
                       (failure.reason == Reason::NoSuchKey && condition.header == "If-Match");
  if (refused) return std::nullopt;
  throw failure.error("writing " + key, /*writing=*/true);
}

void Client::remove(const std::string& key) {
  const net::Answer answer = send("DELETE", key, {}, {}, std::nullopt);
  if (answer.head.status == 204 || answer.head.status == 200) return;
  const Failure failure = classify(answer.head.status, answer.body);
  if (failure.reason == Reason::NoSuchKey) return;
  throw failure.error("removing " + key, /*writing=*/true);
}

std::vector<Entry> Client::list(const std::string& prefix, unsigned page) {
  std::vector<Entry> entries;
  std::string token;
  for (;;) {
    Query query{{"list-type", "2"}, {"prefix", prefix}};
    if (page != 1000) query.emplace_back("max-keys", std::to_string(page));
    if (!token.empty()) query.emplace_back("continuation-token", token);
    const net::Answer answer = send("GET", "", query, {}, std::nullopt);
    if (answer.head.status != 200)
      throw classify(answer.head.status, answer.body).error("listing " + prefix, false);
    for (const std::string& item : elements(answer.body, "Contents"))
      entries.push_back({find_element(item, "Key").value_or(""),
                         find_element(item, "ETag").value_or(""),
                         parse_uint(find_element(item, "Size").value_or("")).value_or(0)});
    if (find_element(answer.body, "IsTruncated").value_or("false") != "true") return entries;
    const std::string next = find_element(answer.body, "NextContinuationToken").value_or("");
    if (next.empty() || next == token)
      throw Error(Fault::Rejected, fmt::format("{} cut a list short and did not say how to go on",
                                               access_.endpoint));
    token = next;
  }
}

}  // namespace rocca::s3
