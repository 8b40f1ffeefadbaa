#include "backends/backends_test_support.hpp"
#include "backends/kubernetes_store.hpp"
#include "backends/s3_store.hpp"
#include "base/files.hpp"
#include "state/store_contract_test_support.hpp"

#include <utility>

namespace rocca::state::test {

namespace {

using backends::test::FarSide;
using backends::test::MemoryKube;
using backends::test::MemoryS3;

/// Another machine's clock: hours off, and going on with the same time.
class OtherClock final : public Clock {
 public:
  OtherClock(const Clock& right, Duration off) : right_(right), off_(off) {}
  Instant now() const override { return right_.now() + off_; }
  Tick tick() const override { return right_.tick(); }

 private:
  const Clock& right_;
  Duration off_;
};

template <class Far>
class FarPlace : public Place {
 public:
  Instant now() override { return clock_.now(); }
  void advance(Duration by) override {
    clock_.advance(by);
    far_.clock.advance(by);
  }
  void lose_next_answer() override { far_.trick = FarSide::Trick::LoseAnswer; }
  void lose_next_request() override { far_.trick = FarSide::Trick::LoseRequest; }
  void die_at(std::uint64_t edge) override { far_.die_at = edge; }
  bool revive() override {
    far_.die_at.reset();
    return std::exchange(far_.trick, FarSide::Trick::None) == FarSide::Trick::Deaf;
  }
  void go_dark_after_next_write() override { far_.trick = FarSide::Trick::GoDark; }
  void light() override { far_.trick = FarSide::Trick::None; }
  std::uint64_t written() override { return far_.written; }
  void kill(std::unique_ptr<Lock> lock) override {
    far_.trick = FarSide::Trick::Deaf;
    lock.reset();
    far_.trick = FarSide::Trick::None;
  }

 protected:
  /// Every process runs on a machine of its own, and no two clocks agree.
  const Clock& next_clock() {
    const Duration off = (static_cast<int>(clocks_.size()) % 5 - 2) * 2h;
    return *clocks_.emplace_back(std::make_unique<OtherClock>(clock_, off));
  }

  MemoryFiles files_;
  Far far_;

 private:
  VirtualClock clock_;
  std::vector<std::unique_ptr<OtherClock>> clocks_;
};

class S3Place final : public FarPlace<MemoryS3> {
 public:
  S3Place() { far_.page = 7; }
  std::unique_ptr<Store> open() override {
    return backends::s3_store(
        far_, next_clock(),
        {"http://nas.home:9000", "us-east-1", "state", "key", Secret{"secret"}, {}},
        "clusters/blue.json");
  }
};

class KubePlace final : public FarPlace<MemoryKube> {
 public:
  std::unique_ptr<Store> open() override {
    kube::Access access;
    access.server = "https://10.0.0.20:6443";
    return backends::kubernetes_store(far_, files_, next_clock(), access, "rocca", "blue");
  }
};

INSTANTIATE_TEST_SUITE_P(
    Places, StoreContract,
    testing::Values(NamedPlace{"s3", [] { return std::make_unique<S3Place>(); }},
                    NamedPlace{"kubernetes", [] { return std::make_unique<KubePlace>(); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace

}  // namespace rocca::state::test
