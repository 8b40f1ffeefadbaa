#pragma once

#include "lab/kube/api.hpp"
#include "lab/kube/replay_match.hpp"
#include "lab/sim/world.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rocca::lab::kube {

/// A fresh cluster that plays one recorded scenario.
class ReplayCluster {
 public:
  explicit ReplayCluster(const text::Value& scenario);
  ~ReplayCluster();

  /// Each step with its differences (none: it agrees), in the recorded order.
  std::vector<std::pair<std::string, std::vector<std::string>>> run();

 private:
  class Exchange;
  void play(const text::Value& steps, const std::string& prefix);
  /// The differences of one step. Whatever the recording holds: a name, a principal or a set-up
  /// step that is unknown is a difference.
  std::vector<std::string> one_step(const text::Value& step, const std::string& name);
  std::vector<std::string> play_request(const text::Value& step, const std::string& name);
  /// Who a step's `as` is; nothing: a client without certificate, or an unknown name.
  static std::optional<User> principal(const std::string& who);
  /// Something that happened outside HTTP; false: unknown.
  bool happen(const std::string& what);
  std::shared_ptr<Exchange> send(const text::Value& step);
  void compare(const text::Value& step, Exchange& exchange, Matcher& matcher);
  void compare_stream(const text::Value& recorded, const std::vector<text::Value>& events,
                      Matcher& matcher);
  std::optional<WebhookAnswer> webhook(const text::Value& hook) const;

  const text::Value& scenario_;
  std::string id_;
  bool loose_ = false;  // controllers ran: how many changes were seen does not count
  bool quorum_ = true;
  std::string note_;  // of the step that is played: it says how a webhook behaves
  World world_;
  std::unique_ptr<Api> api_;
  Bindings bindings_;
  std::string last_revision_;
  std::vector<std::pair<std::string, std::vector<std::string>>> results_;
};

}  // namespace rocca::lab::kube
