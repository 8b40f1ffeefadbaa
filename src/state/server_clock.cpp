#include "state/server_clock.hpp"

#include "net/date.hpp"

namespace rocca::state {

void FarClock::heard(const net::Headers& answer) {
  const auto written = answer.find("Date");
  const auto date = written ? net::parse_http_date(*written) : std::nullopt;
  if (!date) return;
  // A Date has whole seconds: within one the own clock is the finer one.
  const Duration ahead = *date - own_.now();
  if (ahead > std::chrono::seconds{1} || ahead < -std::chrono::seconds{2}) {
    ahead_ = ahead.count();
  } else {
    ahead_ = 0;
  }
}

}  // namespace rocca::state
