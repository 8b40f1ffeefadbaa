#include "state/journal.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "secrets/crypto.hpp"
#include "state/format.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace rocca::state {

namespace {

using text::Value;

constexpr std::array<std::pair<Record::Kind, std::string_view>, 8> kinds{{
    {Record::Kind::Begun, "begun"},
    {Record::Kind::Settled, "settled"},
    {Record::Kind::Gone, "gone"},
    {Record::Kind::Bootstrapped, "bootstrapped"},
    {Record::Kind::Took, "took"},
    {Record::Kind::Note, "note"},
    {Record::Kind::Teardown, "teardown"},
    {Record::Kind::Kept, "kept"},
}};

std::string_view name_of(Record::Kind kind) {
  for (const auto& [known, name] : kinds)
    if (known == kind) return name;
  throw Error(Fault::Bug, "a journal record of no kind");
}

/// Half of a SHA-256 is more than a disk's errors need, and short enough to read past.
std::string checksum(std::string_view text) {
  return to_hex(secrets::crypto::sha256(text).substr(0, 8));
}
constexpr std::size_t checksum_size = 16;

std::string with_checksum(const Value& value) {
  const std::string text = text::emit_json(value);
  return fmt::format("{} {}\n", checksum(text), text);
}

Record read_record(const Reader& read, const Value& line) {
  read.only(line, {"record", "name", "item", "took", "value", "at", "teardown"});
  Record record;
  const std::string kind = read.needed(line, "record");
  bool known = false;
  for (const auto& [value, name] : kinds) {
    if (name != kind) continue;
    record.kind = value;
    known = true;
  }
  if (!known) read.future(fmt::format("it holds a record `{}`", kind));
  record.name = read.text(line, "name");
  if (const Value* item = line.find("item")) record.item = read.item(*item);
  if (const Value* took = line.find("took")) record.took = read.duration(*took);
  record.value = read.text(line, "value");
  record.at = read.instant(line, "at").value_or(Instant{});
  if (const Value* teardown = line.find("teardown")) record.teardown = read.teardown(*teardown);
  return record;
}

/// Is this a line as we write them, without its newline?
bool is_whole(std::string_view line) {
  return line.size() > checksum_size && line[checksum_size] == ' ' &&
         line.substr(0, checksum_size) == checksum(line.substr(checksum_size + 1));
}

}  // namespace

std::string to_line(const Record& record) {
  Value line = Value::map();
  line.set("record", Value::string(std::string{name_of(record.kind)}));
  if (!record.name.empty()) line.set("name", Value::string(record.name));
  if (record.item != Item{}) line.set("item", to_value(record.item));
  if (record.took > Duration{}) line.set("took", Value::string(to_string(record.took)));
  if (!record.value.empty()) line.set("value", Value::string(record.value));
  if (record.at != Instant{}) line.set("at", Value::string(to_string(record.at)));
  if (record.teardown) line.set("teardown", to_value(*record.teardown));
  return with_checksum(line);
}

std::string to_lines(const Batch& batch) {
  Value head = Value::map();
  head.set("batch", Value::unsigned_integer(batch.number));
  head.set("base", Value::unsigned_integer(batch.base));
  head.set("lineage", Value::string(batch.lineage));
  std::string lines = with_checksum(head);
  for (const Record& record : batch.records) lines += to_line(record);
  return lines;
}

std::string to_sealed_line(std::string_view sealed) {
  Value line = Value::map();
  line.set("age", Value::string(to_base64(sealed)));
  return with_checksum(line);
}

std::string open_sealed(const std::string& base64, const std::string& name, const Open& open) {
  const auto sealed = from_base64(base64);
  if (!sealed) throw Error(Fault::Rejected, name + " is damaged: what is sealed is no base64");
  if (!open)
    throw Error(Fault::Denied, name + " is encrypted with age")
        .hint("give the state's recipients under `state.encrypt` and an identity that opens it");
  return within("opening " + name, [&] { return open(*sealed); });
}

std::size_t whole_size(std::string_view text) {
  const std::size_t last = text.rfind('\n');
  if (last == std::string_view::npos) return 0;
  if (last + 1 < text.size()) return last + 1;
  const std::size_t before = last == 0 ? std::string_view::npos : text.rfind('\n', last - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return is_whole(text.substr(begin, last - begin)) ? text.size() : begin;
}

Journal parse_batches(std::string_view text, const std::string& name, const Open& open) {
  Journal journal;
  // A power cut leaves a prefix of what was being written, or, on some file systems, its length
  // without its bytes. Nothing whole comes after it; anything else is damage.
  const std::size_t size = whole_size(text);
  journal.torn = size < text.size();
  journal.whole = text.substr(0, size);
  std::size_t at = 0;
  for (std::size_t number = 1; at < size; ++number) {
    const std::size_t end = text.find('\n', at);
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::string place = fmt::format("{}:{}", name, number);
    if (!is_whole(line))
      throw Error(Fault::Rejected, fmt::format("{} is damaged: its checksum is wrong", place))
          .hint(
              "restore the journal from a backup, or take it away: `rocca up` finds its own "
              "things by their marks");
    const Value value = text::parse_json(line.substr(checksum_size + 1), place, large_limits());
    const Reader read{place};
    if (value.find("age") != nullptr) {
      read.only(value, {"age"});
      const std::string inner = open_sealed(read.needed(value, "age"), place, open);
      for (Batch& batch : parse_batches(inner, place).batches)
        journal.batches.push_back(std::move(batch));
    } else if (value.find("batch") != nullptr) {
      read.only(value, {"batch", "base", "lineage"});
      journal.batches.push_back({read.needed(value, "lineage"),
                                 read.number(value, "base"),
                                 read.number(value, "batch"),
                                 {}});
    } else {
      if (journal.batches.empty()) journal.batches.emplace_back();
      journal.batches.back().records.push_back(read_record(read, value));
    }
  }
  return journal;
}

std::vector<Record> parse_journal(std::string_view text, const std::string& name) {
  std::vector<Record> records;
  for (Batch& batch : parse_batches(text, name).batches)
    for (Record& record : batch.records) records.push_back(std::move(record));
  return records;
}

}  // namespace rocca::state
