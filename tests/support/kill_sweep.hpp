#pragma once

#include "base/files.hpp"
#include "net/transport.hpp"
#include "state/store.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::test {

/// What a run does to the world outside happens between two edges: before it, and after it. At each
/// edge the run is killed once, and what is left is brought in order by another run.
///
/// Killing is no exception. At an edge the single-threaded simulation forks: the child is what
/// remains of the world, its old run stands still for ever where it was, with the calls of other
/// steps in flight, and a recovery runs from scratch beside it. The parent goes on to the next
/// edge.
class KillSweep {
 public:
  enum class Mode {
    Kill,        ///< the process dies at the edge
    LoseAnswer,  ///< it lives, but its exchange ends in Error(Lost): after, the far side has acted;
                 ///< before, the request never arrived
  };
  struct Options {
    Mode mode = Mode::Kill;
    /// What is to be disturbed. Runs to its end once, and in the children of LoseAnswer.
    std::function<void()> run;
    /// In the child, before recovery: what goes with a process that dies (locks, open files).
    std::function<void()> died;
    /// In the child: what the user does next. Throws when it fails.
    std::function<void()> recover;
    /// The end state, as text that is the same for the same meaning.
    std::function<std::string()> end_state;
    std::size_t children = 2;  // at once
    std::size_t every = 1;     // a sample: only every n-th edge
    unsigned patience = 120;   // seconds of real time for one child
  };

  struct Result {
    std::size_t edges = 0;                     // that the run has
    std::size_t tried = 0;                     // that were disturbed
    std::map<std::string, std::size_t> kinds;  // edges by what they are about
    std::string expected;                      // the end state of the undisturbed run
    /// One line each: the edge, and how its end differs. At most 20, and a count of the others.
    std::vector<std::string> failures;
    std::string summary() const;
  };

  explicit KillSweep(Options options);
  ~KillSweep();
  KillSweep(const KillSweep&) = delete;
  KillSweep& operator=(const KillSweep&) = delete;

  Result sweep();

  /// Called where the world is touched; `kind` groups them in the summary. Throws Error(Lost) in
  /// the one child whose answer this edge loses.
  void edge(const std::string& kind, const std::string& name, bool may_be_lost);

  /// How many edges there have been so far.
  std::size_t edges() const noexcept { return edges_; }

 private:
  struct Child;

  void reap(std::size_t allowed);
  void finish(Child& child);
  [[noreturn]] void be_killed(int pipe);
  [[noreturn]] void tell(int pipe, const std::function<std::string()>& end);
  std::string recovered();

  Options options_;
  Result result_;
  std::vector<std::unique_ptr<Child>> children_;
  std::map<std::string, std::vector<std::string>> ends_;  // end state → edges that led there
  std::vector<std::string> broken_;
  std::size_t edges_ = 0;
  bool sweeping_ = false;
  std::optional<int> pipe_;  // in a child: to the parent
};

/// A transport with an edge before and after every exchange.
class EdgeTransport final : public net::Transport {
 public:
  EdgeTransport(net::Transport& inner, KillSweep& sweep) : inner_(inner), sweep_(sweep) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override;

 private:
  net::Transport& inner_;
  KillSweep& sweep_;
};

/// Files with an edge before and after every durable write, and one in the middle of every append,
/// where only a part of it is there.
class EdgeFiles final : public Files {
 public:
  EdgeFiles(Files& inner, KillSweep& sweep) : inner_(inner), sweep_(sweep) {}
  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override;
  void write(const std::string& path, std::string_view content, unsigned mode) override;
  void append(const std::string& path, std::string_view content) override;
  bool remove(const std::string& path) override;
  bool remove_folder(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void make_folder(const std::string& path, unsigned mode) override;
  std::vector<std::string> list(const std::string& folder) override;
  std::optional<FileStatus> status(const std::string& path) override;
  std::unique_ptr<FileLock> try_lock(const std::string& path) override;

 private:
  Files& inner_;
  KillSweep& sweep_;
};

/// A store with an edge before and after every write, for one that stands on neither of the above.
class EdgeStore final : public state::Store {
 public:
  EdgeStore(state::Store& inner, KillSweep& sweep) : inner_(inner), sweep_(sweep) {}
  std::string describe() const override { return inner_.describe(); }
  std::optional<state::State> load() override { return inner_.load(); }
  void append(std::span<const state::Record> records) override;
  void replace(const state::State& state) override;
  void clear() override;
  std::unique_ptr<state::Lock> lock(const state::Holder& holder, bool force) override {
    return inner_.lock(holder, force);
  }
  std::optional<state::Holder> holder() override { return inner_.holder(); }

 private:
  state::Store& inner_;
  KillSweep& sweep_;
};

}  // namespace rocca::test
