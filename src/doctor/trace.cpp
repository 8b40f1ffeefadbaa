#include "doctor/trace.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/json.hpp"
#include "text/valid.hpp"

#include <fmt/format.h>

namespace rocca::doctor {

namespace {

constexpr std::string_view api = "/api2/json";

/// Keeps a copy of what goes by.
class Tee final : public net::BodySink {
 public:
  explicit Tee(net::BodySink& inner) : inner_(inner) {}
  void begin(const net::Response& head) override { inner_.begin(head); }
  bool write(std::string_view bytes) override {
    copy_ += bytes;
    return inner_.write(bytes);
  }
  const std::string& copy() const { return copy_; }

 private:
  net::BodySink& inner_;
  std::string copy_;
};

std::string path_of(const std::string& url) {
  const auto parsed = net::Url::parse(url);
  std::string target = parsed ? parsed->target : "/";
  if (target.starts_with(api)) target.erase(0, api.size());
  return target;
}

}  // namespace

Tracing::Tracing(net::Transport& inner, const Clock& clock, std::string token_id,
                 std::function<void(std::string_view)> write)
    : inner_(inner), clock_(clock), token_id_(std::move(token_id)), write_(std::move(write)) {}

std::string Tracing::redact(std::string text) const {
  if (token_id_.empty()) return text;
  const std::string user = token_id_.substr(0, token_id_.find('!'));
  constexpr const char* somebody = "user@pve";
  constexpr const char* some_token = "user@pve!token";
  // Encoded names stay encoded: a replay compares paths as they are sent.
  for (const auto& [name, instead] :
       {std::pair{token_id_, some_token}, std::pair{user, somebody}}) {
    text = replace_all(text, name, instead);
    text = replace_all(text, percent_encode(name), percent_encode(instead));
  }
  return text;
}

net::Response Tracing::exchange(const net::Request& request, net::BodySink& sink,
                                std::stop_token stop) {
  const Tick start = clock_.tick();
  Tee tee{sink};
  text::Value line = text::Value::map();
  line.set("method", text::Value::string(request.method));
  line.set("path", text::Value::string(redact(path_of(request.url))));
  if (const auto* body = std::get_if<std::string>(&request.body))
    line.set("form", text::Value::string(redact(*body)));
  const auto took = [&] {
    return text::Value::integer(
        std::chrono::duration_cast<std::chrono::milliseconds>(clock_.tick() - start).count());
  };
  try {
    net::Response response = inner_.exchange(request, tee, stop);
    line.set("status", text::Value::integer(response.status));
    line.set("reason", text::Value::string(redact(response.reason)));
    line.set("type",
             text::Value::string(std::string(response.headers.find("content-type").value_or(""))));
    line.set("body", text::Value::string(redact(tee.copy())));
    line.set("ms", took());
    write_(text::emit_json(text::with_valid_text(line)) + "\n");
    return response;
  } catch (const Error& error) {
    line.set("fault", text::Value::string(to_string(error.fault())));
    line.set("ms", took());
    write_(text::emit_json(text::with_valid_text(line)) + "\n");
    throw;
  }
}

Replaying::Replaying(std::string_view trace) {
  std::size_t number = 0;
  for (const std::string& text : split(trace, '\n')) {
    ++number;
    if (trim(text).empty()) continue;
    const text::Value line = text::parse_json(text, fmt::format("trace line {}", number));
    const auto field = [&](const char* key) {
      const text::Value* value = line.find(key);
      return value != nullptr && value->is_scalar() ? value->text() : std::string{};
    };
    if (line.find("status") == nullptr) continue;  // an exchange that had no answer
    exchanges_.push_back({field("method"), field("path"), field("reason"), field("type"),
                          field("body"),
                          static_cast<int>(line.find("status")->as_int().value_or(0))});
  }
}

net::Response Replaying::exchange(const net::Request& request, net::BodySink& sink,
                                  std::stop_token) {
  if (exchanges_.empty()) throw Error(Fault::NotFound, "the trace has no more answers");
  const Exchange next = exchanges_.front();
  if (next.method != request.method || next.path != path_of(request.url))
    throw Error(Fault::Conflict,
                fmt::format("the trace goes on with {} {}, not with {} {}", next.method, next.path,
                            request.method, path_of(request.url)));
  exchanges_.pop_front();
  net::Response response;
  response.status = next.status;
  response.reason = next.reason;
  response.headers.add("Server", "pve-api-daemon/3.0");
  if (!next.content_type.empty()) response.headers.add("Content-Type", next.content_type);
  sink.begin(response);
  if (!next.body.empty()) sink.write(next.body);
  return response;
}

}  // namespace rocca::doctor
