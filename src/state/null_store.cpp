#include "state/null_store.hpp"

namespace rocca::state {

namespace {

class NoLock final : public Lock {
 public:
  void renew() override {}
};

class ForgetfulStore final : public Store {
 public:
  std::string describe() const override { return "no state"; }
  std::optional<State> load() override { return std::nullopt; }
  void append(std::span<const Record>) override {}
  void replace(const State&) override {}
  void clear() override {}
  std::unique_ptr<Lock> lock(const Holder&, bool) override { return std::make_unique<NoLock>(); }
  std::optional<Holder> holder() override { return std::nullopt; }
};

}  // namespace

std::unique_ptr<Store> forgetful_store() {
  return std::make_unique<ForgetfulStore>();
}

}  // namespace rocca::state
