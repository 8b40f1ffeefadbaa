#include "state/journal.hpp"

#include "base/error.hpp"
#include "state/state_test_support.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace rocca::state {

namespace {

using testing::HasSubstr;

std::string lines_of(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += to_line(record);
  return text;
}

Record note(std::string key, std::string value) {
  Record record;
  record.kind = Record::Kind::Note;
  record.name = std::move(key);
  record.value = std::move(value);
  return record;
}

RC_GTEST_PROP(Journal, ReadsBackWhatItWrote, ()) {
  const std::vector<Record> records = *test::any_records();
  const std::string text = lines_of(records);
  RC_ASSERT(parse_journal(text, "journal") == records);
  RC_ASSERT(std::count(text.begin(), text.end(), '\n') ==
            static_cast<std::ptrdiff_t>(records.size()));
}

RC_GTEST_PROP(Journal, AnyPrefixIsAPrefixOfTheRecords, ()) {
  const std::vector<Record> records = *test::any_records();
  const std::string text = lines_of(records);
  const std::size_t cut = *rc::gen::inRange<std::size_t>(0, text.size() + 1);
  const std::vector<Record> found = parse_journal(text.substr(0, cut), "journal");
  RC_ASSERT(found.size() <= records.size());
  RC_ASSERT(std::equal(found.begin(), found.end(), records.begin()));
  RC_ASSERT(found.size() ==
            static_cast<std::size_t>(
                std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(cut), '\n')));
}

RC_GTEST_PROP(Journal, AFlippedByteIsNeverReadAsSomethingElse, ()) {
  std::vector<Record> records = *test::any_records();
  records.push_back(note("last", "one"));
  std::string text = lines_of(records);
  const std::size_t at = *rc::gen::inRange<std::size_t>(0, text.size());
  text[at] = static_cast<char>(text[at] ^ (1 << *rc::gen::inRange(0, 8)));
  try {
    // Only at the very end can damage look like a power cut.
    const std::vector<Record> found = parse_journal(text, "journal");
    RC_ASSERT(found.size() < records.size());
    RC_ASSERT(std::equal(found.begin(), found.end(), records.begin()));
  } catch (const Error& error) {
    RC_ASSERT(error.fault() == Fault::Rejected);
  }
}

TEST(Journal, DamageBeforeTheEndNamesItsLine) {
  std::string text = lines_of({note("a", "1"), note("b", "2"), note("c", "3")});
  text[text.find("\"b\"") + 1] = 'x';
  try {
    parse_journal(text, ".rocca/journal");
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Rejected);
    EXPECT_THAT(error.message(), HasSubstr(".rocca/journal:2 is damaged"));
  }
}

TEST(Journal, AFileOfZeroesAtTheEndIsATornTail) {
  const std::string whole = lines_of({note("a", "1")});
  EXPECT_THAT(parse_journal(whole + std::string(64, '\0'), "journal"),
              testing::ElementsAre(note("a", "1")));
}

TEST(Journal, RecordsOfTheFutureAreRefused) {
  // Whole lines with their right checksums, as a newer rocca would write them.
  for (const char* line :
       {"e165cfbd0c9f6db9 {\"record\":\"dreamt\"}\n",
        "d35b27f013e295ab {\"record\":\"note\",\"name\":\"a\",\"mood\":\"fine\"}\n"}) {
    try {
      parse_journal(line, "journal");
      ADD_FAILURE() << "was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Refused);
      EXPECT_THAT(error.message(), HasSubstr("newer rocca"));
    }
  }
}

TEST(Journal, BatchesKeepTheirHeads) {
  const Batch one{"abc", 7, 1, {note("a", "1")}};
  const Batch two{"abc", 7, 2, {note("b", "2"), note("c", "3")}};
  const Journal journal = parse_batches(to_lines(one) + to_lines(two), "journal");
  EXPECT_THAT(journal.batches, testing::ElementsAre(one, two));
  EXPECT_FALSE(journal.torn);
  EXPECT_EQ(two.serial(), 9u);
  EXPECT_THAT(parse_journal(to_lines(one) + to_lines(two), "journal"),
              testing::ElementsAre(note("a", "1"), note("b", "2"), note("c", "3")));
}

}  // namespace

}  // namespace rocca::state
