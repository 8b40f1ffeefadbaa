#include "cli/slow_answers.hpp"

#include <gmock/gmock.h>

#include <atomic>

namespace rocca::cli {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class Sleepy final : public net::Transport {
 public:
  explicit Sleepy(std::chrono::milliseconds takes) : takes_(takes) {}
  net::Response exchange(const net::Request&, net::BodySink&, std::stop_token) override {
    std::this_thread::sleep_for(takes_);
    return {};
  }

 private:
  std::chrono::milliseconds takes_;
};

std::vector<std::string> said_during(std::chrono::milliseconds takes, bool quiet) {
  std::vector<std::string> lines;
  std::mutex mutex;
  {
    SlowAnswers::Options options;
    options.first = 40ms;
    options.again = 10s;
    options.is_quiet = [quiet] { return quiet; };
    options.say = [&](const std::string& line) {
      const std::lock_guard lock{mutex};
      lines.push_back(line);
    };
    SlowAnswers transport{std::make_unique<Sleepy>(takes), options};
    net::Request request;
    request.url = "https://pve:8006/api2/json/nodes/pve1/qemu/104/pending?secret=1";
    net::MemorySink sink;
    transport.exchange(request, sink, {});
  }
  return lines;
}

TEST(SlowAnswers, SaysWhoseAnswerIsWaitedForOnceInAWhile) {
  const auto lines = said_during(400ms, false);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), StartsWith("waiting for pve:8006 to answer GET "
                                        "/api2/json/nodes/pve1/qemu/104/pending ("));
}

TEST(SlowAnswers, SaysNothingOfQuickAnswersNorBesideAScreen) {
  EXPECT_THAT(said_during(1ms, false), IsEmpty());
  EXPECT_THAT(said_during(200ms, true), IsEmpty());
}

}  // namespace
}  // namespace rocca::cli
