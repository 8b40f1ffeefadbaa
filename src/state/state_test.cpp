#include "state/state.hpp"

#include "base/error.hpp"
#include "state/state_test_support.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace rocca::state {

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

State sample() {
  State state;
  state.lineage = "6f1c2d";
  state.serial = 12;
  state.cluster = "blue";
  state.cluster_id = "0123";
  state.bootstrapped = Instant{1'750'000'000s + 5ms};
  state.teardown = Teardown{Instant{1'750'000'003s}, {"cp-1", "cp-2"}, true};
  state.items["vm/cp-1"] = {{{"vmid", "101"}, {"host", "atlas"}},
                            "sha256:aa",
                            {"image/talos"},
                            "",
                            Instant{1'750'000'001s}};
  state.items["vm/cp-2"].receipt = "UPID:atlas:…";
  state.durations["vm/create"] = 42s;
  state.notes["ignore/vm/cp-1/cores"] = "8";
  return state;
}

TEST(StateText, IsStableAndReadable) {
  const std::string text = to_text(sample());
  EXPECT_EQ(text, R"({
  "format": 1,
  "serial": 12,
  "lineage": "6f1c2d",
  "cluster": "blue",
  "clusterId": "0123",
  "bootstrapped": "2025-06-15T15:06:40.005Z",
  "teardown": {
    "since": "2025-06-15T15:06:43Z",
    "controlPlanes": [
      "cp-1",
      "cp-2"
    ],
    "resetExisting": true
  },
  "items": {
    "vm/cp-1": {
      "facts": {
        "host": "atlas",
        "vmid": "101"
      },
      "applied": "sha256:aa",
      "needs": [
        "image/talos"
      ],
      "settled": "2025-06-15T15:06:41Z"
    },
    "vm/cp-2": {
      "receipt": "UPID:atlas:…"
    }
  },
  "durations": {
    "vm/create": "42s"
  },
  "notes": {
    "ignore/vm/cp-1/cores": "8"
  }
}
)");
  EXPECT_EQ(parse_state(text, "state.json"), sample());
}

// A state as it was written before teardowns were recorded.
TEST(StateText, OneWithoutATeardownIsReadAsBefore) {
  const State old = parse_state(
      R"({"format": 1, "serial": 3, "lineage": "x", "bootstrapped": "2025-06-15T15:06:40Z"})",
      "state.json");
  EXPECT_EQ(old.teardown, std::nullopt);
  EXPECT_TRUE(old.bootstrapped);
  EXPECT_THAT(to_text(old), testing::Not(HasSubstr("teardown")));
}

RC_GTEST_PROP(StateText, ReadsBackWhatItWrote, ()) {
  const State state = *test::any_state();
  const std::string text = to_text(state);
  RC_ASSERT(parse_state(text, "state.json") == state);
  RC_ASSERT(to_text(parse_state(text, "state.json")) == text);
}

struct Bad {
  std::string name;
  std::string text;
  Fault fault;
  std::string message;
};

class BadState : public testing::TestWithParam<Bad> {};

TEST_P(BadState, IsRefusedWithItsPlace) {
  try {
    parse_state(GetParam().text, "state.json");
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), GetParam().fault) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(GetParam().message));
    EXPECT_FALSE(error.hint().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    States, BadState,
    testing::Values(
        Bad{"empty", "", Fault::Usage, "state.json"},
        Bad{"torn", R"({"format": 1, "ser)", Fault::Usage, "state.json:1:"},
        Bad{"garbled", "\x01\xff garbage", Fault::Usage, "state.json:1:"},
        Bad{"list", "[]", Fault::Usage, "state.json:1:1: expected a map"},
        Bad{"no_format", R"({"serial": 1})", Fault::Usage, "`format` is missing"},
        Bad{"terraform",
            R"({"version": 4, "terraform_version": "1.10.6", "serial": 1, "lineage": "x"})",
            Fault::Refused, "state.json is a state of Terraform or OpenTofu"},
        Bad{"tofu_encrypted", R"({"serial": 1, "lineage": "x", "encrypted_data": "c2VjcmV0"})",
            Fault::Refused, "state.json is a state of Terraform or OpenTofu"},
        Bad{"format_zero", R"({"format": 0})", Fault::Usage, "there is no format 0"},
        Bad{"future_format", R"({"format": 2, "anything": []})", Fault::Refused,
            "newer rocca: its format is 2, this one knows up to 1"},
        Bad{"future_key", R"({"format": 1, "serial": 1, "lineage": "x", "fresh": 1})",
            Fault::Refused, "it holds `fresh`"},
        Bad{"future_item_key",
            R"({"format": 1, "serial": 1, "lineage": "x", "items": {"vm/a": {"lives": "9"}}})",
            Fault::Refused, "it holds `lives`"},
        Bad{"no_lineage", R"({"format": 1, "serial": 1})", Fault::Usage, "`lineage` is missing"},
        Bad{"serial_text", R"({"format": 1, "serial": "1", "lineage": "x"})", Fault::Usage,
            "`serial` is no number"},
        Bad{"fact_number",
            R"({"format": 1, "serial": 1, "lineage": "x", "items": {"vm/a": {"facts": {"vmid": 1}}}})",
            Fault::Usage, "`vmid` is no text"},
        Bad{"needs_map",
            R"({"format": 1, "serial": 1, "lineage": "x", "items": {"vm/a": {"needs": {}}}})",
            Fault::Usage, "`needs` is no list"},
        Bad{"bad_time", R"({"format": 1, "serial": 1, "lineage": "x", "bootstrapped": "today"})",
            Fault::Usage, "`today` is no time"},
        Bad{"teardown_without_time",
            R"({"format": 1, "serial": 1, "lineage": "x", "teardown": {"controlPlanes": []}})",
            Fault::Usage, "`since` is missing"},
        Bad{"teardown_of_the_future",
            R"({"format": 1, "serial": 1, "lineage": "x", "teardown": {"mood": "sad"}})",
            Fault::Refused, "it holds `mood`"},
        Bad{"bad_duration",
            R"({"format": 1, "serial": 1, "lineage": "x", "durations": {"vm/create": "42"}})",
            Fault::Usage, "`42` is no duration"}),
    [](const auto& test) { return test.param.name; });

TEST(Apply, KeepsWhatSettledWhileAnActIsInFlight) {
  State state = sample();
  Record begun;
  begun.kind = Record::Kind::Begun;
  begun.name = "vm/cp-1";
  begun.item.facts = {{"host", "hermes"}};
  begun.item.receipt = "UPID:1";
  apply(state, begun);
  const Item& item = state.items.at("vm/cp-1");
  EXPECT_EQ(item.receipt, "UPID:1");
  EXPECT_EQ(item.applied, "sha256:aa");
  EXPECT_EQ(item.facts, (Fields{{"host", "hermes"}, {"vmid", "101"}}));
  EXPECT_TRUE(item.settled);

  Record settled;
  settled.name = "vm/cp-1";
  settled.item.applied = "sha256:bb";
  settled.at = Instant{1'750'000'002s};
  apply(state, settled);
  EXPECT_EQ(state.items.at("vm/cp-1"), (Item{{}, "sha256:bb", {}, "", settled.at}));
}

TEST(Apply, BegunIsRememberedBeforeAnythingSettled) {
  State state;
  Record begun;
  begun.kind = Record::Kind::Begun;
  begun.name = "vm/cp-9";
  begun.item.receipt = "UPID:9";
  begun.item.needs = {"image/talos"};
  apply(state, begun);
  EXPECT_EQ(state.items.at("vm/cp-9").settled, std::nullopt);
  EXPECT_THAT(state.items.at("vm/cp-9").needs, testing::ElementsAre("image/talos"));
}

TEST(Apply, ATeardownIsRememberedUntilTheClusterIsKept) {
  State state = sample();
  state.teardown.reset();
  const Teardown teardown{Instant{1'750'000'009s}, {"cp-1"}, false};
  apply(state, teardown_begun(teardown));
  EXPECT_EQ(state.teardown, teardown);
  apply(state, teardown_cancelled(Instant{1'750'000'010s}));
  EXPECT_EQ(state.teardown, std::nullopt);
  EXPECT_TRUE(state.bootstrapped);
}

TEST(Apply, AnEmptyNoteIsForgotten) {
  State state = sample();
  Record forget;
  forget.kind = Record::Kind::Note;
  forget.name = "ignore/vm/cp-1/cores";
  apply(state, forget);
  EXPECT_TRUE(state.notes.empty());
}

RC_GTEST_PROP(Apply, TwiceIsTheSameAsOnce, ()) {
  State once = *test::any_state();
  const Record record = *test::any_record();
  apply(once, record);
  State twice = once;
  apply(twice, record);
  RC_ASSERT(once == twice);
}

}  // namespace

}  // namespace rocca::state
