#include "backends/kubernetes_store.hpp"

#include "backends/gzip.hpp"
#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "kube/lease.hpp"
#include "state/backend.hpp"
#include "state/leased_lock.hpp"
#include "state/server_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace rocca::backends {

namespace {

using kube::Patch;
using kube::Value;
using state::Holder;

constexpr std::string_view doing_key = "rocca.dev/doing";
constexpr std::string_view who_key = "rocca.dev/holder";

std::string text_at(const Value& object, std::initializer_list<std::string_view> path) {
  const Value* value = object.find(path);
  return value != nullptr && value->is_scalar() && !value->is_null() ? value->text() : "";
}

std::string version_of(const Value& object) {
  return text_at(object, {"metadata", "resourceVersion"});
}

Value metadata(const std::string& name, const std::string& version, const std::string& cluster) {
  Value map = Value::map();
  map.set("name", Value::string(name));
  if (!version.empty()) map.set("resourceVersion", Value::string(version));
  Value& labels = map.set("labels", Value::map());
  labels.set("app.kubernetes.io/managed-by", Value::string("rocca"));
  labels.set("rocca.dev/cluster", Value::string(cluster));
  return map;
}

struct Place {
  std::shared_ptr<kube::Client> client;
  std::string space;
  std::string cluster;
  std::string name;
};

class LeaseCell final : public state::LockCell {
 public:
  LeaseCell(Place place, std::shared_ptr<state::FarClock> clock)
      : place_(std::move(place)), clock_(std::move(clock)) {}

  Seen read() override {
    const auto lease = place_.client->find(kube::path_of(kube::leases, place_.space, place_.name));
    if (!lease) return {};
    Seen seen;
    seen.tag = tag_of(*lease);
    Holder holder;
    holder.id = text_at(*lease, {"spec", "holderIdentity"});
    if (holder.id.empty()) return seen;
    holder.who = text_at(*lease, {"metadata", "annotations", who_key});
    if (holder.who.empty()) holder.who = holder.id;
    holder.doing = text_at(*lease, {"metadata", "annotations", doing_key});
    holder.since = parse_instant(text_at(*lease, {"spec", "acquireTime"})).value_or(Instant{});
    const Instant renewed =
        parse_instant(text_at(*lease, {"spec", "renewTime"})).value_or(holder.since);
    const auto lease_seconds = parse_uint(text_at(*lease, {"spec", "leaseDurationSeconds"}));
    holder.until = renewed + std::chrono::seconds{
                                 std::min<std::uint64_t>(lease_seconds.value_or(0), 1'000'000)};
    seen.holder = holder;
    return seen;
  }

  std::optional<std::string> write(const std::optional<Holder>& holder, const Seen& over) override {
    const Instant now = clock_->now();
    Value lease = Value::map();
    lease.set("apiVersion", Value::string("coordination.k8s.io/v1"));
    lease.set("kind", Value::string("Lease"));
    const std::size_t slash = over.tag.find('/');
    const std::string version = over.tag.substr(0, slash);
    const std::uint64_t transitions =
        over.tag.empty() ? 0 : parse_uint(over.tag.substr(slash + 1)).value_or(0);
    Value& head = lease.set("metadata", metadata(place_.name, version, place_.cluster));
    Value& spec = lease.set("spec", Value::map());
    if (holder) {
      Value& notes = head.set("annotations", Value::map());
      notes.set(who_key, Value::string(holder->who));
      notes.set(doing_key, Value::string(holder->doing));
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(holder->until - now).count();
      spec.set("holderIdentity", Value::string(holder->id));
      spec.set("leaseDurationSeconds", Value::integer(std::max<std::int64_t>(seconds, 1)));
      spec.set("acquireTime", Value::string(kube::micro_time(holder->since)));
      spec.set("renewTime", Value::string(kube::micro_time(now)));
      const bool taken = !over.tag.empty() && (!over.holder || over.holder->id != holder->id);
      spec.set("leaseTransitions", Value::unsigned_integer(transitions + (taken ? 1 : 0)));
    } else {
      // As leader election gives back: nobody, for a second.
      spec.set("holderIdentity", Value::string(""));
      spec.set("leaseDurationSeconds", Value::integer(1));
      spec.set("acquireTime", Value::string(kube::micro_time(now)));
      spec.set("renewTime", Value::string(kube::micro_time(now)));
      spec.set("leaseTransitions", Value::unsigned_integer(transitions));
    }
    const auto written =
        over.tag.empty()
            ? place_.client->create(kube::path_of(kube::leases, place_.space), lease)
            : place_.client->update(kube::path_of(kube::leases, place_.space, place_.name), lease);
    if (!written) return std::nullopt;
    return tag_of(*written);
  }

  Instant now() const override { return clock_->now(); }

 private:
  /// The version, and how often it changed hands: the next writer counts on.
  static std::string tag_of(const Value& lease) {
    const auto count = parse_uint(text_at(lease, {"spec", "leaseTransitions"}));
    return fmt::format("{}/{}", version_of(lease), count.value_or(0));
  }

  Place place_;
  std::shared_ptr<state::FarClock> clock_;
};

class SecretShelf final : public state::Shelf {
 public:
  SecretShelf(Place place, std::shared_ptr<state::FarClock> clock)
      : place_(std::move(place)),
        locks_(std::make_shared<LeaseCell>(place_, std::move(clock)), describe()) {}

  std::string describe() const override {
    return fmt::format("the state in Secret {}/{}", place_.space, place_.name);
  }

  /// All of a Secret goes to etcd with every write.
  std::size_t journal_limit() const override { return std::size_t{64} * 1024; }

  Content read() override {
    const auto secret = place_.client->find(path());
    version_ = secret ? version_of(*secret) : "";
    Content content;
    const Value* data = secret ? secret->find("data") : nullptr;
    if (data == nullptr || !data->is_map()) return content;
    std::vector<std::pair<std::string, std::string>> pieces;
    for (const text::Entry& entry : data->entries()) {
      auto bytes = from_base64(entry.value.text());
      if (!bytes) throw Error(Fault::Rejected, describe() + " is damaged: no base64");
      if (entry.key == "state") {
        content.state = within("reading " + describe(), [&] { return gunzip(*bytes); });
      } else if (entry.key.starts_with("journal.")) {
        pieces.emplace_back(entry.key, std::move(*bytes));
      }
    }
    std::sort(pieces.begin(), pieces.end());
    for (auto& [key, piece] : pieces) content.journal.push_back(std::move(piece));
    return content;
  }

  void write(std::string_view text) override {
    Value secret = Value::map();
    secret.set("apiVersion", Value::string("v1"));
    secret.set("kind", Value::string("Secret"));
    secret.set("metadata", metadata(place_.name, version_, place_.cluster));
    secret.set("type", Value::string("rocca.dev/state"));
    secret.set("data", Value::map()).set("state", Value::string(fitting(gzip(text))));
    keep(version_.empty()
             ? place_.client->create(kube::path_of(kube::secrets, place_.space), secret)
             : place_.client->update(path(), secret));
  }

  void add(std::string_view piece, std::uint64_t base, std::uint64_t number) override {
    Value change = Value::map();
    change.set("metadata", Value::map()).set("resourceVersion", Value::string(version_));
    change.set("data", Value::map())
        .set(fmt::format("journal.{:016}.{:06}", base, number),
             Value::string(fitting(std::string{piece})));
    keep(place_.client->patch(path(), Patch::Merge, change, kube::Give::Metadata));
  }

  void erase() override {
    place_.client->remove(path());
    version_.clear();
  }

  std::unique_ptr<state::Lock> lock(const Holder& holder, bool force) override {
    return locks_.take(holder, force);
  }
  std::optional<Holder> holder() override { return locks_.holder(); }
  void need_lock() override { locks_.need(); }

 private:
  std::string path() const { return kube::path_of(kube::secrets, place_.space, place_.name); }

  /// A Secret's values are at most 1 MiB together.
  std::string fitting(const std::string& bytes) const {
    constexpr std::size_t most = 1024 * 1024;
    if (bytes.size() > most)
      throw Error(Fault::Rejected, fmt::format("{} does not fit into a Secret: {} of at most 1MiB",
                                               describe(), to_string(Bytes{bytes.size()})))
          .hint("keep it in S3 or behind an HTTP server instead");
    return to_base64(bytes);
  }

  void keep(const std::optional<Value>& written) {
    if (!written)
      throw Error(Fault::Conflict, describe() + " was changed by somebody else")
          .hint("somebody else worked on this cluster meanwhile; run again, it goes on from there");
    version_ = version_of(*written);
  }

  Place place_;
  state::LeasedLocks locks_;
  std::string version_;
};

}  // namespace

std::unique_ptr<state::Store> kubernetes_store(net::Transport& transport, Files& files,
                                               const Clock& clock, kube::Access access,
                                               std::string space, const std::string& cluster,
                                               state::Sealing sealing) {
  auto far = std::make_shared<state::FarClock>(clock);
  if (space.empty()) space = access.space;
  auto client = std::make_shared<kube::Client>(transport, files, std::move(access));
  client->on_answer([far](const net::Headers& answer) { far->heard(answer); });
  Place place{std::move(client), std::move(space), cluster, cluster + "-rocca-state"};
  return std::make_unique<state::JournaledStore>(
      std::make_unique<SecretShelf>(std::move(place), std::move(far)), std::move(sealing));
}

}  // namespace rocca::backends
