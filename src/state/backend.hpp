#pragma once

#include "state/store.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::state {

/// What a place must be able to do so that JournaledStore can make a Store of it: keep one text
/// and, behind it, pieces that are added one by one. It knows nothing of what they mean.
///
/// Every write is refused with Error(Conflict) when the place does not hold what this Shelf last
/// read or wrote there; Error(Lost) says that the write may have happened.
class Shelf {
 public:
  virtual ~Shelf() = default;
  virtual std::string describe() const = 0;

  struct Content {
    std::optional<std::string> state;
    /// In the order they were added; a place may give several as one. A torn end is left out. Ones
    /// of an older state may be among them.
    std::vector<std::string> journal;

    friend bool operator==(const Content&, const Content&) = default;
  };
  virtual Content read() = 0;
  /// False: there is only the text, and a journal's pieces are written with it.
  virtual bool adds() const { return true; }
  /// A journal that has become longer than this many bytes is folded into the state.
  virtual std::size_t journal_limit() const { return std::size_t{64} * 1024 * 1024; }
  /// The text in place of the one that was read, and no pieces any more. If only the first of both
  /// happens, the pieces name an older base.
  virtual void write(std::string_view state) = 0;
  /// One more piece: the `number`th since the text of serial `base` was written.
  virtual void add(std::string_view piece, std::uint64_t base, std::uint64_t number) = 0;
  virtual void erase() = 0;

  virtual std::unique_ptr<Lock> lock(const Holder& holder, bool force) = 0;
  virtual std::optional<Holder> holder() = 0;
  /// Throws Error(Locked) when the lock was lost, Error(Bug) when nobody has taken it.
  virtual void need_lock() = 0;
};

}  // namespace rocca::state
