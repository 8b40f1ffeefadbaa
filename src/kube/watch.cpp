#include "kube/watch.hpp"

#include "base/error.hpp"
#include "kube/object.hpp"
#include "text/answer.hpp"

#include <algorithm>
#include <chrono>

namespace rocca::kube {

namespace {

std::optional<WatchEvent::Type> type_of(const std::string& name) {
  if (name == "ADDED") return WatchEvent::Type::Added;
  if (name == "MODIFIED") return WatchEvent::Type::Modified;
  if (name == "DELETED") return WatchEvent::Type::Deleted;
  if (name == "BOOKMARK") return WatchEvent::Type::Bookmark;
  return std::nullopt;
}

}  // namespace

std::vector<WatchEvent> WatchLines::take(std::string_view bytes) {
  std::vector<WatchEvent> events;
  rest_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end; !failure_ && (end = rest_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string_view line = std::string_view{rest_}.substr(begin, end - begin);
    if (line.empty()) continue;
    Value event = text::parse_answer(line, "watch event", {.size = 64ull * 1024 * 1024});
    Value* object = event.find("object");
    const auto type = type_of(text_at(event, {"type"}));
    if (type && object != nullptr) {
      events.push_back({*type, std::move(*object)});
      continue;
    }
    // ERROR: a Status inside an answer that began with 200.
    const int code = object == nullptr ? 500 : static_cast<int>(int_at(*object, {"code"}));
    failure_ =
        classify(code == 0 ? 500 : code, {}, object == nullptr ? "" : text::emit_json(*object));
  }
  rest_.erase(0, begin);
  return events;
}

std::vector<Value> Watch::list() {
  std::vector<Value> items;
  for (int tries = 0;; ++tries) {
    items.clear();
    std::string next;
    bool too_old = false;
    do {
      Query asked = query_;
      asked.emplace_back("limit", "500");
      if (!next.empty()) asked.emplace_back("continue", next);
      const net::Answer answer = client_.send("GET", path_, asked);
      // The first pages are of a version that the server has forgotten.
      too_old = answer.head.status == 410 && !next.empty() && tries < 3;
      if (too_old) break;
      if (answer.head.status >= 300)
        throw classify(answer.head.status, answer.head.headers, answer.body)
            .error("listing " + path_, false);
      Value part = text::parse_answer(answer.body, path_,
                                      {.size = 64ull * 1024 * 1024, .values = 8'000'000});
      if (Value* found = part.find("items"); found != nullptr && found->is_list())
        for (Value& item : found->items()) items.push_back(std::move(item));
      version_ = text_at(part, {"metadata", "resourceVersion"});
      next = text_at(part, {"metadata", "continue"});
    } while (!next.empty());
    if (!too_old) return items;
  }
}

Watch::End Watch::follow(const std::function<bool(const WatchEvent&)>& on, Duration at_most) {
  class Sink final : public net::BodySink {
   public:
    Sink(const std::function<bool(const WatchEvent&)>& on, std::string& version)
        : on_(on), version_(version) {}
    bool write(std::string_view bytes) override {
      for (const WatchEvent& event : lines.take(bytes)) {
        if (const std::string seen = text_at(event.object, {"metadata", "resourceVersion"});
            !seen.empty())
          version_ = seen;
        if (!enough) enough = !on_(event);
        if (enough) return false;
      }
      return !lines.failure();
    }
    WatchLines lines;
    bool enough = false;

   private:
    const std::function<bool(const WatchEvent&)>& on_;
    std::string& version_;
  };
  if (version_.empty()) return End::TooOld;
  Query query = query_;
  const auto seconds =
      std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(at_most).count());
  query.insert(query.end(), {{"watch", "1"},
                             {"resourceVersion", version_},
                             {"allowWatchBookmarks", "true"},
                             {"timeoutSeconds", std::to_string(seconds)}});
  Sink sink{on, version_};
  try {
    client_.stream(path_, query, sink);
  } catch (const Error& error) {
    // Cut in the middle: what was seen was seen.
    if (error.fault() != Fault::Lost) throw;
  }
  if (sink.enough) return End::Enough;
  if (!sink.lines.failure()) return End::Closed;
  return sink.lines.failure()->remedy() == Remedy::Relist ? End::TooOld : End::Trouble;
}

}  // namespace rocca::kube
