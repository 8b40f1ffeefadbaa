#pragma once

#include "base/error.hpp"
#include "state/backend.hpp"
#include "state/journal.hpp"
#include "state/store.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::state {

/// Encryption on top of whatever a Store writes; empty functions: clear text. What was written in
/// clear is still read, and sealed with the next whole write.
struct Sealing {
  std::function<std::string(std::string_view clear)> seal;
  Open open;
};

/// The Store that all backends share: the format, the journal and its serials, lost answers, and
/// when a journal has become longer than it is worth. One call at a time; a Lock's renew() may run
/// beside it.
class JournaledStore final : public Store {
 public:
  explicit JournaledStore(std::unique_ptr<Shelf> shelf, Sealing sealing = {});

  std::string describe() const override;
  std::optional<State> load() override;
  void append(std::span<const Record> records) override;
  void replace(const State& state) override;
  void clear() override;
  std::unique_ptr<Lock> lock(const Holder& holder, bool force = false) override;
  std::optional<Holder> holder() override;
  /// The place itself, for those who write what this rocca does not know.
  Shelf& shelf() { return *shelf_; }

 private:
  /// What the place holds, as far as this Store has seen or written it.
  struct Seen {
    std::optional<State> state;  // journal applied
    std::string text;            // of the state alone, in clear
    std::uint64_t base = 0;
    std::uint64_t number = 0;  // batches since
    std::vector<Record> last;  // the records of the last batch
    std::size_t journal_size = 0;
  };
  /// A write whose answer was lost.
  struct Attempt {
    std::string text;  // not empty: a whole write
    std::uint64_t base = 0;
    std::uint64_t number = 0;
    std::vector<Record> records;  // that it would have made durable
  };

  Seen look();
  Seen read(const Shelf::Content& content) const;
  std::uint64_t serial() const { return seen_.base + seen_.number; }
  /// Finds out what became of a write whose answer was lost; how many of its records are there.
  std::size_t settle();
  void write_whole(State next, std::span<const Record> records);
  void add(std::span<const Record> records);
  bool journal_is_long() const;
  std::string seal_state(const State& state, const std::string& text) const;
  std::string open_state(const std::string& stored) const;
  Error conflict(std::string_view what) const;

  std::unique_ptr<Shelf> shelf_;
  Sealing sealing_;
  bool looked_ = false;
  Seen seen_;
  /// The last look, and what was there: a run looks before it has the lock and again with it.
  Shelf::Content content_;
  std::optional<Seen> in_content_;
  std::optional<Attempt> lost_;   // not yet known what became of it
  std::optional<Attempt> tried_;  // found undone; may still arrive late
};

}  // namespace rocca::state
