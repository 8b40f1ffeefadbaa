#include "backends/s3_store.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "state/backend.hpp"
#include "state/holder.hpp"
#include "state/leased_lock.hpp"
#include "state/server_clock.hpp"

#include <fmt/format.h>

#include <utility>

namespace rocca::backends {

namespace {

using s3::Condition;
using state::Holder;

constexpr const char* json = "application/json";

/// The lock object: a holder, or `{}` when it was given back. It is never deleted: DELETE has no
/// condition that every server keeps, and could take somebody else's lock.
class S3LockCell final : public state::LockCell {
 public:
  S3LockCell(std::shared_ptr<s3::Client> client, std::string key,
             std::shared_ptr<state::FarClock> clock)
      : client_(std::move(client)), key_(std::move(key)), clock_(std::move(clock)) {}

  Seen read() override {
    const auto object = client_->find(key_);
    if (!object) return {};
    return {state::parse_holder(object->body), object->etag};
  }

  std::optional<std::string> write(const std::optional<Holder>& holder, const Seen& over) override {
    return client_->put(key_, holder ? state::to_text(*holder) : "{}\n",
                        over.tag.empty() ? Condition::if_absent() : Condition::if_match(over.tag),
                        json);
  }

  Instant now() const override { return clock_->now(); }

 private:
  std::shared_ptr<s3::Client> client_;
  std::string key_;
  std::shared_ptr<state::FarClock> clock_;
};

class S3Shelf final : public state::Shelf {
 public:
  S3Shelf(std::shared_ptr<s3::Client> client, std::string key,
          std::shared_ptr<state::FarClock> clock)
      : client_(std::move(client)),
        key_(std::move(key)),
        locks_(std::make_shared<S3LockCell>(client_, key_ + ".lock", std::move(clock)),
               describe()) {}

  std::string describe() const override {
    return fmt::format("the state in s3://{}/{}", client_->access().bucket, key_);
  }

  Content read() override {
    // The list first: a state that is read after it is never older than the pieces it names. Pieces
    // that vanish meanwhile say that a newer state has been written.
    for (int tries = 0; tries < 5; ++tries) {
      const std::vector<s3::Entry> pieces = client_->list(prefix());
      const auto object = client_->find(key_);
      Content content;
      bool vanished = false;
      for (const s3::Entry& piece : pieces) {
        const auto found = object ? client_->find(piece.key) : std::nullopt;
        if (object && !found) vanished = true;
        if (found) content.journal.push_back(found->body);
      }
      if (vanished) continue;
      etag_ = object ? object->etag : "";
      newest_ = pieces.empty() ? "" : pieces.back().key;
      if (object) content.state = object->body;
      return content;
    }
    throw Error(Fault::Busy, describe() + " changes faster than it can be read");
  }

  void write(std::string_view text) override {
    const std::vector<s3::Entry> pieces = client_->list(prefix());
    // Keys sort by age. The state's own condition does not see a piece that was added to it.
    if (!pieces.empty() && pieces.back().key > newest_) throw changed();
    const auto etag =
        client_->put(key_, std::string{text},
                     etag_.empty() ? Condition::if_absent() : Condition::if_match(etag_), json);
    if (!etag) throw changed();
    etag_ = *etag;
    // They name an older base by now; what stays is taken away by the next whole write.
    for (const s3::Entry& piece : pieces) try_remove(piece.key);
  }

  void add(std::string_view piece, std::uint64_t base, std::uint64_t number) override {
    // A piece of its own does not see that the state below it was replaced.
    const auto current = client_->head(key_);
    if (!current || current->etag != etag_) throw changed();
    const std::string key = fmt::format("{}{:016}-{:06}", prefix(), base, number);
    if (!client_->put(key, std::string{piece}, Condition::if_absent())) throw changed();
    newest_ = key;
  }

  void erase() override {
    client_->remove(key_);  // the state first: a journal alone continues nothing
    for (const s3::Entry& piece : client_->list(prefix())) client_->remove(piece.key);
    etag_.clear();
    newest_.clear();
  }

  std::unique_ptr<state::Lock> lock(const Holder& holder, bool force) override {
    auto lock = locks_.take(holder, force);
    // Our own lock, asked for as if it were not there: a server that keeps conditions refuses.
    if (client_->put(key_ + ".lock", state::to_text(holder), Condition::if_absent(), json))
      throw Error(Fault::Usage,
                  fmt::format("the S3 server at {} ignores conditions of writes (If-None-Match)",
                              client_->access().endpoint))
          .hint(
              "two runs could work on one cluster at once; keep the state elsewhere, or use a "
              "server with conditional writes");
    return lock;
  }

  std::optional<Holder> holder() override { return locks_.holder(); }
  void need_lock() override { locks_.need(); }

 private:
  std::string prefix() const { return key_ + ".journal/"; }

  Error changed() const {
    return Error(Fault::Conflict, describe() + " was changed by somebody else")
        .hint("somebody else worked on this cluster meanwhile; run again, it goes on from there");
  }

  void try_remove(const std::string& key) {
    try {
      client_->remove(key);
    } catch (const Error& error) {
      // ignored: a stale batch is recognised by its base. What must be written is written by now,
      // so that a stop is not reported here either.
      if (!is_external(error.fault()) && error.fault() != Fault::Interrupted) throw;
    }
  }

  std::shared_ptr<s3::Client> client_;
  std::string key_;
  state::LeasedLocks locks_;
  std::string etag_;
  std::string newest_;  // the last piece that was seen or added
};

}  // namespace

std::unique_ptr<state::Store> s3_store(net::Transport& transport, const Clock& clock,
                                       s3::Access access, std::string key, state::Sealing sealing) {
  auto far = std::make_shared<state::FarClock>(clock);
  auto client = std::make_shared<s3::Client>(transport, clock, std::move(access));
  client->on_answer([far](const net::Headers& answer) { far->heard(answer); });
  return std::make_unique<state::JournaledStore>(
      std::make_unique<S3Shelf>(std::move(client), std::move(key), std::move(far)),
      std::move(sealing));
}

}  // namespace rocca::backends
