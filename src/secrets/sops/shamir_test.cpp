#include "secrets/sops/shamir.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::secrets::shamir {
namespace {

TEST(Shamir, AnyThresholdOfSharesGiveTheSecretBack) {
  SeededEntropy entropy(1);
  const Secret secret{"0123456789abcdef0123456789abcdef"};
  const auto shares = split(secret, 5, 3, entropy);
  ASSERT_EQ(shares.size(), 5u);
  EXPECT_EQ(shares[0].size(), 33u);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < i; ++j)
      for (std::size_t k = 0; k < j; ++k)
        EXPECT_TRUE(combine({shares[i], shares[j], shares[k]}) == secret);
  EXPECT_FALSE(combine({shares[0], shares[1]}) == secret);
}

TEST(Shamir, CombinesByTheFieldOfTheFormat) {
  // y = 0x42 + 0x53·x over 0x11B: 0x53 at x=1, 2·0x53 = 0xA6 at x=2.
  const Secret one{std::string{static_cast<char>(0x42 ^ 0x53), '\x01'}};
  const Secret two{std::string{static_cast<char>(0x42 ^ 0xA6), '\x02'}};
  EXPECT_EQ(combine({one, two}).reveal(), "\x42");
  // 3·0x80 = 0x80 ^ (0x100 ^ 0x11B) = 0x9B.
  const Secret three{std::string{static_cast<char>(0x10 ^ 0x9B), '\x03'}};
  const Secret first{std::string{static_cast<char>(0x10 ^ 0x80), '\x01'}};
  EXPECT_EQ(combine({three, first}).reveal(), "\x10");
}

TEST(Shamir, RefusesWhatCannotBe) {
  SeededEntropy entropy(1);
  EXPECT_THROW(split(Secret{"x"}, 2, 1, entropy), Error);
  EXPECT_THROW(split(Secret{"x"}, 2, 3, entropy), Error);
  EXPECT_THROW(combine({Secret{"ab"}}), Error);
  EXPECT_THROW(combine({Secret{"ab"}, Secret{"cb"}}), Error);
  EXPECT_THROW(combine({Secret{"ab"}, Secret{"cbd"}}), Error);
}

}  // namespace
}  // namespace rocca::secrets::shamir
