#include "state/journaled_store.hpp"

#include "base/error.hpp"
#include "state/format.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rocca::state {

namespace {

using text::Value;

/// After these nothing was written. Anything else leaves that open.
bool nothing_happened(Fault fault) {
  switch (fault) {
    case Fault::Lost:
    case Fault::Timeout:
    case Fault::Interrupted:
      return false;
    default:
      return true;
  }
}

bool starts_with(std::span<const Record> records, std::span<const Record> prefix) {
  return records.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), records.begin());
}

}  // namespace

JournaledStore::JournaledStore(std::unique_ptr<Shelf> shelf, Sealing sealing)
    : shelf_(std::move(shelf)), sealing_(std::move(sealing)) {}

std::string JournaledStore::describe() const {
  return shelf_->describe();
}

Error JournaledStore::conflict(std::string_view what) const {
  return Error(Fault::Conflict, fmt::format("{} {}", describe(), what))
      .hint("somebody else worked on this cluster meanwhile; run again, it goes on from there");
}

std::string JournaledStore::seal_state(const State& state, const std::string& text) const {
  if (!sealing_.seal) return text;
  // Serial and lineage stay readable: servers of Terraform's protocol ask for them.
  Value envelope = Value::map();
  envelope.set("format", Value::unsigned_integer(State::format));
  envelope.set("serial", Value::unsigned_integer(state.serial));
  envelope.set("lineage", Value::string(state.lineage));
  const std::string line = to_sealed_line(sealing_.seal(text));
  envelope.set("age", *text::parse_json(line.substr(line.find('{')), "age").find("age"));
  return text::emit_json(envelope, {.pretty = true, .indent = "  "}) + "\n";
}

std::string JournaledStore::open_state(const std::string& stored) const {
  const std::string name = describe();
  const Value root = parse_state_json(stored, name);
  if (root.find("age") == nullptr) return stored;
  const Reader read{name};
  if (const std::uint64_t format = read.number(root, "format"); format > State::format)
    read.future(fmt::format("its format is {}, this one knows up to {}", format, State::format));
  std::string text = open_sealed(read.needed(root, "age"), name, sealing_.open);
  const State inside = parse_state(text, name);
  if (inside.serial != read.number(root, "serial") || inside.lineage != read.text(root, "lineage"))
    throw Error(Fault::Rejected,
                name + " is damaged: what is sealed is not what its envelope says");
  return text;
}

JournaledStore::Seen JournaledStore::look() {
  Shelf::Content content = shelf_->read();
  if (!in_content_ || content != content_) {
    in_content_ = read(content);
    content_ = std::move(content);
  }
  return *in_content_;
}

JournaledStore::Seen JournaledStore::read(const Shelf::Content& content) const {
  Seen seen;
  if (!content.state) return seen;  // a journal alone continues nothing
  seen.text = open_state(*content.state);
  State state = parse_state(seen.text, describe());
  seen.base = state.serial;
  for (const std::string& piece : content.journal) {
    for (Batch& batch :
         parse_batches(piece, "the journal of " + describe(), sealing_.open).batches) {
      if (batch.lineage != state.lineage || batch.base < seen.base) continue;  // outlived its state
      if (batch.base > seen.base || batch.number != seen.number + 1)
        throw Error(Fault::Rejected,
                    fmt::format("the journal of {} does not continue it: batch {} of serial {} "
                                "follows batch {} of serial {}",
                                describe(), batch.number, batch.base, seen.number, seen.base))
            .hint("an older state was put in place of a newer one; take the journal away too");
      for (const Record& record : batch.records) apply(state, record);
      seen.number = batch.number;
      seen.last = std::move(batch.records);
    }
    seen.journal_size += piece.size();
  }
  if (seen.number == 0) seen.journal_size = 0;
  state.serial = seen.base + seen.number;
  seen.state = std::move(state);
  return seen;
}

std::optional<State> JournaledStore::load() {
  seen_ = look();
  looked_ = true;
  lost_.reset();
  tried_.reset();
  return seen_.state;
}

std::size_t JournaledStore::settle() {
  if (!lost_) return 0;
  Seen now = look();
  std::size_t written = 0;
  const bool unchanged = now.text == seen_.text && now.number == seen_.number;
  if (!lost_->text.empty() && now.text == lost_->text && now.number == 0) {
    written = lost_->records.size();
  } else if (!unchanged && lost_->text.empty() && now.text == seen_.text &&
             now.number == lost_->number && starts_with(lost_->records, now.last)) {
    written = now.last.size();
  } else if (!unchanged) {
    throw conflict("was changed by somebody else");
  }
  if (unchanged) tried_ = std::move(lost_);
  lost_.reset();
  seen_ = std::move(now);
  return written;
}

bool JournaledStore::journal_is_long() const {
  // Rewriting when the journal has become as long as the state: each byte is written twice in all,
  // and a load never reads more than twice what is there. The count is for places where each piece
  // is an object of its own.
  constexpr std::size_t short_enough = 64 * 1024;
  constexpr std::uint64_t few_enough = 200;
  return seen_.number >= few_enough ||
         seen_.journal_size >
             std::min(shelf_->journal_limit(), std::max(short_enough, seen_.text.size()));
}

void JournaledStore::append(std::span<const Record> records) {
  if (records.empty()) return;
  shelf_->need_lock();
  if (lost_) {
    const std::vector<Record> attempted = lost_->records;
    const std::size_t written = settle();
    if (starts_with(records, std::span(attempted).first(written)))
      records = records.subspan(written);
    if (records.empty()) return;
  }
  if (!seen_.state)
    throw Error(Fault::Conflict, fmt::format("{} does not exist yet", describe()))
        .hint("a journal only continues a state that was loaded or written whole");
  if (shelf_->adds() && !journal_is_long()) return add(records);
  State next = *seen_.state;
  for (const Record& record : records) apply(next, record);
  write_whole(std::move(next), records);
}

void JournaledStore::add(std::span<const Record> records) {
  for (bool again = false;; again = true) {
    const Batch batch{
        seen_.state->lineage, seen_.base, seen_.number + 1, {records.begin(), records.end()}};
    std::string piece = to_lines(batch);
    if (sealing_.seal) piece = to_sealed_line(sealing_.seal(piece));
    try {
      shelf_->add(piece, batch.base, batch.number);
    } catch (const Error& error) {
      if (error.fault() == Fault::Conflict && tried_ && !again) {
        // An earlier try that was found undone may have arrived after all, late.
        lost_ = std::exchange(tried_, std::nullopt);
        const std::vector<Record> attempted = lost_->records;
        const std::size_t written = settle();
        if (starts_with(records, std::span(attempted).first(written)))
          records = records.subspan(written);
        if (records.empty()) return;
        continue;
      }
      if (nothing_happened(error.fault())) throw;
      lost_ = Attempt{"", batch.base, batch.number, batch.records};
      if (error.fault() != Fault::Lost) throw;
      std::size_t written = 0;
      try {
        written = settle();
      } catch (const Error& second) {
        if (second.fault() == Fault::Conflict) throw;
        throw Error(error);  // still not known; the next write looks again
      }
      if (written == 0) throw Error(error);
      records = records.subspan(written);
      if (records.empty()) return;
      continue;
    }
    for (const Record& record : records) apply(*seen_.state, record);
    seen_.number = batch.number;
    seen_.state->serial = serial();
    seen_.last = batch.records;
    seen_.journal_size += piece.size();
    tried_.reset();
    return;
  }
}

void JournaledStore::write_whole(State next, std::span<const Record> records) {
  next.serial = serial() + 1;
  const std::string text = to_text(next);
  try {
    shelf_->write(seal_state(next, text));
  } catch (const Error& error) {
    if (nothing_happened(error.fault())) throw;
    lost_ = Attempt{text, next.serial, 0, {records.begin(), records.end()}};
    if (error.fault() != Fault::Lost) throw;
    try {
      settle();
    } catch (const Error& second) {
      if (second.fault() == Fault::Conflict) throw;
      throw Error(error);
    }
    if (seen_.text != text) throw Error(error);
    return;
  }
  seen_ = Seen{};
  seen_.text = text;
  seen_.base = next.serial;
  seen_.state = std::move(next);
  tried_.reset();
}

void JournaledStore::replace(const State& state) {
  if (state.lineage.empty()) throw Error(Fault::Bug, "a state without a lineage");
  shelf_->need_lock();
  if (!looked_) {
    load();
    if (seen_.state) throw conflict("exists already and was not read");
  }
  settle();
  if (seen_.state && seen_.state->lineage != state.lineage)
    throw conflict(
        fmt::format("is of another lineage ({}, not {})", seen_.state->lineage, state.lineage));
  write_whole(state, {});
}

void JournaledStore::clear() {
  shelf_->need_lock();
  shelf_->erase();
  seen_ = {};
  looked_ = true;
  lost_.reset();
  tried_.reset();
}

std::unique_ptr<Lock> JournaledStore::lock(const Holder& holder, bool force) {
  return shelf_->lock(holder, force);
}

std::optional<Holder> JournaledStore::holder() {
  return shelf_->holder();
}

}  // namespace rocca::state
