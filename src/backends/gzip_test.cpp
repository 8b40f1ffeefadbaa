#include "backends/gzip.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace rocca::backends {

namespace {

RC_GTEST_PROP(Gzip, ReadsBackWhatItWrote, (const std::string& bytes)) {
  RC_ASSERT(gunzip(gzip(bytes)) == bytes);
}

TEST(Gzip, HoldsLargeTexts) {
  const std::string large(3'000'000, 'x');
  EXPECT_LT(gzip(large).size(), 10'000u);
  EXPECT_EQ(gunzip(gzip(large)), large);
}

TEST(Gzip, RefusesWhatIsNone) {
  const std::string whole = gzip("a state");
  for (const std::string& bad :
       {std::string{}, std::string{"{}"}, whole.substr(0, whole.size() / 2),
        whole.substr(0, whole.size() - 1)})
    EXPECT_THROW(gunzip(bad), Error) << bad.size();
  EXPECT_THROW(gunzip(gzip(std::string(100'000, 'x')), 99'999), Error);
}

}  // namespace

}  // namespace rocca::backends
