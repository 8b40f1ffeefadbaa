#pragma once

#include "state/state.hpp"

#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

namespace rocca::state::test {

/// Short texts made of what a format could trip over.
inline rc::Gen<std::string> any_text() {
  return rc::gen::exec([] {
    std::string text;
    const int parts = *rc::gen::inRange(0, 4);
    for (int i = 0; i < parts; ++i)
      text += *rc::gen::element<std::string>("a", "vm/", "cp-1", "\"", "\\", "\n", "ö", "\x01", "😀",
                                             " ", "{}", "age", "ffffffffffffffff ");
    return text;
  });
}

inline rc::Gen<Fields> any_fields() {
  return rc::gen::exec([] {
    Fields fields;
    const int count = *rc::gen::inRange(0, 4);
    for (int i = 0; i < count; ++i) fields[*any_text()] = *any_text();
    return fields;
  });
}

inline rc::Gen<Instant> any_instant() {
  return rc::gen::map(rc::gen::inRange<std::int64_t>(1, 4'000'000'000'000'000'000),
                      [](std::int64_t ns) { return Instant{Duration{ns}}; });
}

inline rc::Gen<Duration> any_duration() {
  return rc::gen::map(rc::gen::inRange<std::int64_t>(0, 10'000'000'000'000),
                      [](std::int64_t ns) { return Duration{ns}; });
}

inline rc::Gen<Item> any_item() {
  return rc::gen::exec([] {
    Item item;
    item.facts = *any_fields();
    item.applied = *any_text();
    const int needs = *rc::gen::inRange(0, 3);
    for (int i = 0; i < needs; ++i) item.needs.push_back(*any_text());
    item.receipt = *any_text();
    if (*rc::gen::arbitrary<bool>()) item.settled = *any_instant();
    return item;
  });
}

inline rc::Gen<Teardown> any_teardown() {
  return rc::gen::exec([] {
    Teardown teardown;
    teardown.since = *any_instant();
    const int nodes = *rc::gen::inRange(0, 4);
    for (int i = 0; i < nodes; ++i) teardown.control_planes.push_back(*any_text());
    teardown.reset_existing = *rc::gen::arbitrary<bool>();
    return teardown;
  });
}

inline rc::Gen<Record> any_record() {
  return rc::gen::exec([] {
    Record record;
    record.kind = *rc::gen::element(Record::Kind::Begun, Record::Kind::Settled, Record::Kind::Gone,
                                    Record::Kind::Bootstrapped, Record::Kind::Took,
                                    Record::Kind::Note, Record::Kind::Teardown, Record::Kind::Kept);
    record.name = *any_text();
    record.item = *any_item();
    record.took = *any_duration();
    record.value = *any_text();
    record.at = *any_instant();
    if (*rc::gen::arbitrary<bool>()) record.teardown = *any_teardown();
    return record;
  });
}

inline rc::Gen<std::vector<Record>> any_records(int at_most = 6) {
  return rc::gen::exec([at_most] {
    std::vector<Record> records;
    const int count = *rc::gen::inRange(0, at_most + 1);
    for (int i = 0; i < count; ++i) records.push_back(*any_record());
    return records;
  });
}

inline rc::Gen<State> any_state() {
  return rc::gen::exec([] {
    State state;
    state.lineage = "l" + *any_text();
    state.serial = *rc::gen::arbitrary<std::uint64_t>();
    state.cluster = *any_text();
    state.cluster_id = *any_text();
    if (*rc::gen::arbitrary<bool>()) state.bootstrapped = *any_instant();
    for (const Record& record : *any_records()) apply(state, record);
    return state;
  });
}

}  // namespace rocca::state::test
