#include "base/faults.hpp"

#include <gtest/gtest.h>

namespace rocca {
namespace {

TEST(Faults, EachFaultHasItsPlaceInThePolicy) {
  struct Row {
    Fault fault;
    bool retry, silence, external;
  };
  const Row rows[] = {
      {Fault::Usage, false, false, false},    {Fault::NotFound, false, false, true},
      {Fault::Conflict, false, false, true},  {Fault::Rejected, false, false, true},
      {Fault::Denied, false, false, true},    {Fault::Refused, false, false, false},
      {Fault::Busy, true, false, true},       {Fault::Locked, false, false, false},
      {Fault::Unreachable, true, true, true}, {Fault::Lost, true, true, true},
      {Fault::Timeout, false, true, true},    {Fault::Interrupted, false, false, false},
      {Fault::Bug, false, false, false}};
  for (const Row& row : rows) {
    EXPECT_EQ(may_retry(row.fault), row.retry) << to_string(row.fault);
    EXPECT_EQ(is_silence(row.fault), row.silence) << to_string(row.fault);
    EXPECT_EQ(is_external(row.fault), row.external) << to_string(row.fault);
  }
}

}  // namespace
}  // namespace rocca
