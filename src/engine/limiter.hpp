#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace rocca::engine {

/// Limits that hold over all runs of a process: three requests in flight per Proxmox host, two
/// imports per storage.
///
/// Each run takes slots through a Share of its own. Runs that find no free slot queue, first come,
/// first served, one slot per turn: a run with a thousand steps delays another run by one slot.
/// Safe from many threads.
class Limiter {
 public:
  class Share;

  unsigned in_use(const std::string& name) const;

 private:
  struct Slots {
    unsigned width = 1;
    unsigned taken = 0;
    std::deque<Share*> queue;
    std::set<Share*> offered;  // one slot is set aside for each of these
    unsigned free() const;
  };

  /// Sets free slots aside for the runs that queue. With the lock.
  static void offer(const std::string& name, Slots& slots);

  mutable std::mutex mutex_;
  std::map<std::string, Slots> slots_;
};

/// What one run has of the slots. Destroying it gives everything back, also while an exception
/// ends the run.
class Limiter::Share {
 public:
  /// `wake` is called from any thread when a slot was set aside for this run. The limiter's lock is
  /// held then: `wake` must not call the limiter.
  Share(Limiter& limiter, std::function<void()> wake);
  ~Share();
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  /// Takes one slot of `name`, of which there are `width`; the narrowest width that any run names
  /// counts. False: none is free. This run queues then, until `take` succeeds or `leave`.
  bool take(const std::string& name, unsigned width);
  void give_back(const std::string& name);
  /// Leaves the queue; a slot that was set aside goes to the next run.
  void leave(const std::string& name);
  /// The slots that were set aside since this was last called.
  std::vector<std::string> take_offers();

 private:
  friend class Limiter;
  void leave_queue(const std::string& name, Slots& slots);

  Limiter& limiter_;
  std::function<void()> wake_;
  std::map<std::string, unsigned> held_;
  std::vector<std::string> offers_;
};

}  // namespace rocca::engine
