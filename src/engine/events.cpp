#include "engine/events.hpp"

namespace rocca::engine {

const char* to_string(Event::Kind kind) noexcept {
  switch (kind) {
    case Event::Kind::Started:
      return "started";
    case Event::Kind::Acted:
      return "acted";
    case Event::Kind::Waiting:
      return "waiting";
    case Event::Kind::StillWaiting:
      return "still waiting";
    case Event::Kind::Settled:
      return "settled";
    case Event::Kind::Failed:
      return "failed";
    case Event::Kind::Skipped:
      return "skipped";
    case Event::Kind::Stopping:
      return "stopping";
    case Event::Kind::Noted:
      return "noted";
  }
  return "noted";
}

}  // namespace rocca::engine
