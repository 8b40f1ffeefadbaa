#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "engine/resource.hpp"

#include <functional>
#include <optional>
#include <string>

namespace rocca::engine {

/// Something that happened while a plan was carried out; what live tables, plain lines and NDJSON
/// are made of.
struct Event {
  enum class Kind {
    Started,       ///< a step begins
    Acted,         ///< an act was begun: `text` says which ("create", "resize", "start")
    Waiting,       ///< `text` is what it waits for; sent when it changes
    StillWaiting,  ///< the same wait goes on: `text`, `took` since it began, `limit`
    Settled,
    Failed,    ///< `error`
    Skipped,   ///< `text` is the address whose failure is the cause
    Stopping,  ///< the user asked to stop; steps in flight settle
    Noted,     ///< a word for people
  };
  Kind kind = Kind::Started;
  Instant at{};
  std::string address;
  std::string text;
  Action action = Action::None;
  std::optional<Error> error;
  std::optional<Duration> took;
  std::optional<Duration> estimate;
  std::optional<Duration> limit{};  ///< StillWaiting: after so long it fails
};

const char* to_string(Event::Kind kind) noexcept;
using EventSink = std::function<void(const Event&)>;

}  // namespace rocca::engine
