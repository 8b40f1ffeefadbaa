#include "base/entropy.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"

#include <gmock/gmock.h>

#include <map>

namespace rocca {
namespace {

TEST(Entropy, ASeedIsARun) {
  SeededEntropy a{7};
  SeededEntropy b{7};
  SeededEntropy c{8};
  EXPECT_EQ(a.bytes(100), b.bytes(100));
  EXPECT_NE(a.bytes(100), c.bytes(100));
  EXPECT_EQ(a.bytes(0), "");
}

// By another implementation of xoshiro256** and SplitMix64: a seed that once showed a bug must show
// it on every machine and in every later version.
TEST(Entropy, ASeedMeansTheSameForEver) {
  SeededEntropy entropy{42};
  EXPECT_EQ(to_hex(entropy.bytes(16)), "16c72e0c2e0b78157e3a116d86d90461");
}

TEST(Entropy, AForkDoesNotDependOnWhatOthersDraw) {
  SeededEntropy root{7};
  const std::string before = root.fork("vm/cp-1").bytes(32);
  root.bytes(1000);
  EXPECT_EQ(root.fork("vm/cp-1").bytes(32), before);
  EXPECT_NE(root.fork("vm/cp-2").bytes(32), before);
  EXPECT_NE(SeededEntropy{8}.fork("vm/cp-1").bytes(32), before);
}

TEST(Entropy, BelowIsInRangeAndReachesAll) {
  SeededEntropy entropy{3};
  std::map<std::uint64_t, int> seen;
  for (int i = 0; i < 1000; ++i) ++seen[entropy.below(6)];
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_LT(seen.rbegin()->first, 6u);
  EXPECT_EQ(entropy.below(1), 0u);
  EXPECT_THROW(entropy.below(0), Error);
}

/// Hands out words that were written down.
class Scripted final : public Entropy {
 public:
  explicit Scripted(std::vector<std::uint64_t> words) : words_(std::move(words)) {}
  void fill(std::span<std::byte> out) override {
    std::uint64_t word = words_.at(next_++);
    for (std::byte& byte : out) {
      byte = static_cast<std::byte>(word);
      word >>= 8;
    }
  }
  std::size_t drawn() const { return next_; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t next_ = 0;
};

TEST(Entropy, BelowDrawsAgainWhatWouldMakeSmallResultsLikelier) {
  // 2^64 = 3k + 1: one word too many, which must not count.
  Scripted entropy{{0, 5}};
  EXPECT_EQ(entropy.below(3), 2u);
  EXPECT_EQ(entropy.drawn(), 2u);
  Scripted even{{0}};
  EXPECT_EQ(even.below(4), 0u);
}

TEST(Entropy, TheSystemsDiffersEachTime) {
  SystemEntropy entropy;
  EXPECT_NE(entropy.bytes(32), entropy.bytes(32));
  EXPECT_EQ(entropy.bytes(100'000).size(), 100'000u);
}

}  // namespace
}  // namespace rocca
