#include "state/local_store.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "secrets/crypto.hpp"
#include "state/holder.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <atomic>
#include <utility>

namespace rocca::state {

namespace {

constexpr unsigned private_folder = 0700;

/// Who holds the lock, and which file is locked. Taking a live lock over cannot unlock the other
/// process's file; it moves on to another one, and who reads that here knows that it lost.
struct Claim {
  std::optional<Holder> holder;
  std::string lock = "lock";
};

class LocalLocks {
 public:
  LocalLocks(Files& files, std::string folder, std::string described)
      : files_(files), folder_(std::move(folder)), described_(std::move(described)) {}

  const std::string& described() const { return described_; }
  std::string path(std::string_view name) const { return fmt::format("{}/{}", folder_, name); }

  Claim claim() const {
    Claim claim;
    const auto text = files_.find(path("holder"));
    if (!text) return claim;
    claim.holder = parse_holder(*text);
    try {
      const text::Value map = text::parse_json(*text, "holder");
      const text::Value* lock = map.find("lock");
      if (lock != nullptr && lock->is_string() && lock->text().starts_with("lock"))
        claim.lock = lock->text();
    } catch (const Error& error) {
      // Damaged by another program: the file lock decides, and its holder stays unknown.
      if (error.fault() != Fault::Usage) throw;
    }
    return claim;
  }

  void write(const Claim& claim) const {
    text::Value map =
        claim.holder ? text::parse_json(to_text(*claim.holder), "holder") : text::Value::map();
    map.set("lock", text::Value::string(claim.lock));
    files_.write_private(path("holder"),
                         text::emit_json(map, {.pretty = true, .indent = "  "}) + "\n");
  }

  bool is_ours(const std::string& id) const {
    const Claim now = claim();
    return now.holder && now.holder->id == id;
  }

  Files& files() const { return files_; }

 private:
  Files& files_;
  std::string folder_;
  std::string described_;
};

struct Held {
  std::string id;
  std::atomic<bool> lost{false};
};

class LocalLock final : public Lock {
 public:
  LocalLock(std::shared_ptr<const LocalLocks> locks, std::shared_ptr<Held> held,
            std::string lock_name, std::unique_ptr<FileLock> file)
      : locks_(std::move(locks)),
        held_(std::move(held)),
        lock_name_(std::move(lock_name)),
        file_(std::move(file)) {}
  LocalLock(const LocalLock&) = delete;
  LocalLock& operator=(const LocalLock&) = delete;

  ~LocalLock() override {
    try {
      if (!locks_->is_ours(held_->id)) return;
      if (lock_name_ == "lock") {
        locks_->files().remove(locks_->path("holder"));
      } else {
        locks_->write({std::nullopt, lock_name_});
      }
    } catch (const Error&) {
      // ignored: a destructor cannot throw. The file lock is released; only its holder's name
      // stays.
    }
  }

  void renew() override {
    if (!held_->lost && locks_->is_ours(held_->id)) return;
    held_->lost = true;
    throw taken_over(locks_->described(), locks_->claim().holder);
  }

 private:
  std::shared_ptr<const LocalLocks> locks_;
  std::shared_ptr<Held> held_;
  std::string lock_name_;
  std::unique_ptr<FileLock> file_;
};

class LocalShelf final : public Shelf {
 public:
  LocalShelf(Files& files, std::string folder)
      : files_(files),
        folder_(std::move(folder)),
        locks_(std::make_shared<LocalLocks>(files_, folder_, describe())) {}

  std::string describe() const override { return "the state in " + folder_; }

  Content read() override {
    Content content;
    content.state = files_.find(state_path());
    const std::string journal = files_.find(journal_path()).value_or("");
    const std::size_t whole = whole_size(journal);
    content.journal.push_back(journal.substr(0, whole));
    seen_state_ = digest(content.state);
    seen_journal_ = journal.size();
    torn_ = whole < journal.size();
    compared_ = false;
    return content;
  }

  void write(std::string_view state) override {
    compare();
    files_.make_folder(folder_, private_folder);
    maybe_done([&] { files_.write_private(state_path(), state); });
    seen_state_ = digest(std::string{state});
    // From here on the journal is stale. Should its removal fail, it is known by its base.
    maybe_done([&] { files_.remove(journal_path()); });
    seen_journal_ = 0;
    torn_ = false;
  }

  void add(std::string_view piece, std::uint64_t, std::uint64_t number) override {
    compare();
    if (number == 1) {
      // In place of a stale one, if there is one.
      maybe_done([&] { files_.write_private(journal_path(), piece); });
      seen_journal_ = piece.size();
    } else if (torn_) {
      const std::string journal = files_.get(journal_path());
      const std::string mended = journal.substr(0, whole_size(journal)) + std::string{piece};
      maybe_done([&] { files_.write_private(journal_path(), mended); });
      seen_journal_ = mended.size();
    } else {
      maybe_done([&] { files_.append(journal_path(), piece); });
      seen_journal_ += piece.size();
    }
    torn_ = false;
  }

  void erase() override {
    // The state first: a journal alone continues nothing.
    files_.remove(state_path());
    files_.remove(journal_path());
    seen_state_ = digest(std::nullopt);
    seen_journal_ = 0;
    torn_ = false;
  }

  std::unique_ptr<Lock> lock(const Holder& holder, bool force) override {
    files_.make_folder(folder_, private_folder);
    Claim claim = locks_->claim();
    std::unique_ptr<FileLock> file = files_.try_lock(locks_->path(claim.lock));
    // Somebody may have moved on to another file between the look and the lock.
    if (file && locks_->claim().lock != claim.lock) file.reset();
    if (!file) {
      claim = locks_->claim();
      const Holder other = claim.holder.value_or(Holder{});
      const Error held = locked_by(describe(), other,
                                   "wait until that run is over, or end it: the lock goes with "
                                   "its process (`--take-over` takes it from a live one)");
      if (!force) throw held;
      claim.lock = "lock." + to_hex(secrets::crypto::sha256(holder.id).substr(0, 8));
      file = files_.try_lock(locks_->path(claim.lock));
      if (!file) throw held;
    }
    claim.holder = holder;
    locks_->write(claim);
    auto held = std::make_shared<Held>();
    held->id = holder.id;
    held_ = held;
    compared_ = false;
    return std::make_unique<LocalLock>(locks_, std::move(held), claim.lock, std::move(file));
  }

  std::optional<Holder> holder() override {
    const Claim claim = locks_->claim();
    if (!claim.holder) return std::nullopt;
    // A process that died left its name behind, but not its lock.
    if (files_.try_lock(locks_->path(claim.lock))) return std::nullopt;
    return claim.holder;
  }

  void need_lock() override {
    const auto held = held_.lock();
    if (!held) throw Error(Fault::Bug, fmt::format("{} is written without its lock", describe()));
    if (held->lost || !locks_->is_ours(held->id)) {
      held->lost = true;
      throw taken_over(describe(), locks_->claim().holder);
    }
  }

 private:
  std::string state_path() const { return folder_ + "/state.json"; }
  std::string journal_path() const { return folder_ + "/journal"; }

  /// A full disk or a failed sync leaves all, nothing or a part of what was written: whoever goes
  /// on must look first.
  template <class Write>
  static void maybe_done(Write&& write) {
    try {
      write();
    } catch (const Error& error) {
      throw Error(Fault::Lost, error.message()).hint(error.hint());
    }
  }

  static std::string digest(const std::optional<std::string>& text) {
    return text ? secrets::crypto::sha256(*text) : "";
  }

  /// Is it still what was read? Once per lock the state is read for it; after that nobody else can
  /// have written it.
  void compare() {
    const auto status = files_.status(journal_path());
    const std::uint64_t size = status ? status->size : 0;
    const bool same =
        size == seen_journal_ && (compared_ || digest(files_.find(state_path())) == seen_state_);
    if (!same)
      throw Error(Fault::Conflict, fmt::format("{} was changed by somebody else", describe()))
          .hint("somebody else worked on this cluster meanwhile; run again, it goes on from there");
    compared_ = true;
  }

  Files& files_;
  std::string folder_;
  std::shared_ptr<const LocalLocks> locks_;
  std::weak_ptr<Held> held_;
  std::string seen_state_;
  std::uint64_t seen_journal_ = 0;
  bool torn_ = false;
  bool compared_ = false;
};

}  // namespace

std::unique_ptr<Store> local_store(Files& files, std::string folder, Sealing sealing) {
  return std::make_unique<JournaledStore>(std::make_unique<LocalShelf>(files, std::move(folder)),
                                          std::move(sealing));
}

}  // namespace rocca::state
