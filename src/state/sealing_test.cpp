#include "state/sealing.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "state/local_store.hpp"

#include <gmock/gmock.h>

namespace rocca::state {

namespace {

using secrets::age::Identity;
using testing::HasSubstr;
using testing::Not;

const std::string folder = "c/.rocca";

class SealedStore : public testing::Test {
 protected:
  Sealing sealing(const Identity& of, int* asked = nullptr) {
    return age_sealing(
        {*of.recipient()},
        [of, asked] {
          if (asked != nullptr) ++*asked;
          return std::vector{of};
        },
        entropy);
  }
  static Holder run(std::string id) { return {id, id, "up", Instant{}, Instant{}}; }
  static Record note(std::string key, std::string value) {
    Record record;
    record.kind = Record::Kind::Note;
    record.name = std::move(key);
    record.value = std::move(value);
    return record;
  }
  static State fresh() {
    State state;
    state.lineage = "6f1c";
    state.cluster = "a-name-that-nobody-should-see";
    return state;
  }

  SeededEntropy entropy{7};
  MemoryFiles files;
  Identity identity = Identity::generate(entropy);
};

TEST_F(SealedStore, LeavesNothingReadableButSerialAndLineage) {
  int asked = 0;
  const auto store = local_store(files, folder, sealing(identity, &asked));
  const auto lock = store->lock(run("a"));
  store->replace(fresh());
  store->append(std::vector{note("secret-key", "secret-value")});
  store->append(std::vector{note("other-key", "other-value")});
  EXPECT_EQ(asked, 0) << "writing needs no identity";
  for (const char* name : {"/state.json", "/journal"}) {
    const std::string text = files.get(folder + name);
    for (const char* word : {"nobody-should-see", "secret-key", "secret-value", "other-value"})
      EXPECT_THAT(text, Not(HasSubstr(word))) << name;
  }
  EXPECT_THAT(files.get(folder + "/state.json"), HasSubstr("\"lineage\": \"6f1c\""));
  EXPECT_THAT(files.get(folder + "/state.json"), HasSubstr("\"serial\": 1"));
  const auto reader = local_store(files, folder, sealing(identity, &asked));
  const auto found = reader->load();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cluster, fresh().cluster);
  EXPECT_EQ(found->notes.size(), 2u);
  reader->load();
  EXPECT_EQ(asked, 1) << "asked once for all of it";
}

TEST_F(SealedStore, NeedsTheRightIdentity) {
  {
    const auto store = local_store(files, folder, sealing(identity));
    const auto lock = store->lock(run("a"));
    store->replace(fresh());
  }
  for (const bool none : {true, false}) {
    const auto store =
        local_store(files, folder, none ? Sealing{} : sealing(Identity::generate(entropy)));
    try {
      store->load();
      ADD_FAILURE() << "was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Denied);
    }
  }
}

TEST_F(SealedStore, ReadsWhatWasWrittenInClearAndSealsItWithTheNextWholeWrite) {
  {
    const auto store = local_store(files, folder);
    const auto lock = store->lock(run("a"));
    store->replace(fresh());
    store->append(std::vector{note("k", "v")});
  }
  const auto store = local_store(files, folder, sealing(identity));
  const auto lock = store->lock(run("b"));
  const auto found = store->load();
  ASSERT_TRUE(found);
  store->append(std::vector{note("l", "w")});
  EXPECT_EQ(local_store(files, folder, sealing(identity))->load()->notes,
            (Fields{{"k", "v"}, {"l", "w"}}));
  store->replace(*found);
  EXPECT_THAT(files.get(folder + "/state.json"), Not(HasSubstr("nobody-should-see")));
}

TEST_F(SealedStore, AnEnvelopeThatLiesIsNoticed) {
  const auto store = local_store(files, folder, sealing(identity));
  const auto lock = store->lock(run("a"));
  store->replace(fresh());
  std::string text = files.get(folder + "/state.json");
  text.replace(text.find("\"serial\": 1"), 11, "\"serial\": 9");
  files.write(folder + "/state.json", text);
  try {
    store->load();
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Rejected);
    EXPECT_THAT(error.message(), HasSubstr("is not what its envelope says"));
  }
}

}  // namespace

}  // namespace rocca::state
