#include "base/error.hpp"

#include "base/handle.hpp"

#include <gmock/gmock.h>

namespace rocca {
namespace {

TEST(Error, RendersTheTrailAndTheHint) {
  try {
    within("creating vm/prod/cp-1 (cluster.yaml:18:5)", [] {
      within("asking for an id", [] {
        throw Error(Fault::Conflict, "VM id 104 is taken by 'db-1'")
            .hint("remove `id:` from the node");
      });
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Conflict);
    EXPECT_EQ(error.render(),
              "error: VM id 104 is taken by 'db-1'\n"
              "  while asking for an id\n"
              "  while creating vm/prod/cp-1 (cluster.yaml:18:5)\n"
              "hint: remove `id:` from the node\n");
    EXPECT_STREQ(error.what(), "VM id 104 is taken by 'db-1'");
  }
}

TEST(Error, TheFirstHintWins) {
  Error error{Fault::Usage, "m"};
  error.hint("near the cause").hint("far from it");
  EXPECT_EQ(error.hint(), "near the cause");
}

TEST(Error, WithinPassesValuesAndReferences) {
  int number = 1;
  int& same = within("x", [&]() -> int& { return number; });
  EXPECT_EQ(&same, &number);
}

TEST(Error, FaultsHaveTheExitCodesOfTheManual) {
  const std::pair<Fault, int> rows[] = {
      {Fault::Usage, 1},    {Fault::NotFound, 1}, {Fault::Conflict, 1},
      {Fault::Rejected, 1}, {Fault::Denied, 4},   {Fault::Refused, 3},
      {Fault::Busy, 1},     {Fault::Locked, 5},   {Fault::Unreachable, 1},
      {Fault::Lost, 1},     {Fault::Timeout, 1},  {Fault::Interrupted, 130},
      {Fault::Bug, 1}};
  for (const auto& [fault, code] : rows) EXPECT_EQ(exit_code(fault), code) << to_string(fault);
}

int freed = 0;
void free_int(int* number) {
  ++freed;
  delete number;
}

TEST(Handle, FreesOnceAndOnlyWhatItHolds) {
  freed = 0;
  {
    Handle<int, free_int> handle{new int{1}};
    const Handle<int, free_int> other = std::move(handle);
    EXPECT_EQ(*other, 1);
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
  static_assert(sizeof(Handle<int, free_int>) == sizeof(int*));
}

}  // namespace
}  // namespace rocca
