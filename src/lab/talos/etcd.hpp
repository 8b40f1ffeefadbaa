#pragma once

#include "base/clock.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::talos {

/// One etcd cluster of the simulation: who its members are, who of them runs, and its data. All
/// arithmetic of quorum is here; nodes only say whether their process runs.
class EtcdCluster {
 public:
  struct Member {
    std::uint64_t id = 0;
    std::string name;
    std::string peer_url, client_url;
    bool learner = false;
    bool started = false;  // its process runs and can be reached
    std::string at{};      // where it is now; others look for it at its peer URL
    bool routed = true;    // reaches whoever is routed, too…
    std::string wire{};    // …and whoever is on the same wire
    bool at_home() const { return at.empty() || peer_url == "https://" + at + ":2380"; }
  };

  explicit EtcdCluster(std::uint64_t term = 1) : term_(term) {}

  /// What lives on its data and is gone with them: the cluster's Kubernetes.
  class Tenant {
   public:
    virtual ~Tenant() = default;
    /// What it keeps here, for a snapshot.
    virtual std::map<std::string, std::string> data() const = 0;
  };
  std::shared_ptr<Tenant> tenant;

  const std::vector<Member>& members() const noexcept { return members_; }
  const Member* find(std::uint64_t id) const;
  /// The first member makes the cluster; later ones come as learners and need quorum. A member of
  /// the same name is removed first, as Talos does. Nothing: no quorum.
  std::optional<std::uint64_t> add(std::string name, const std::string& address, std::uint64_t id);
  /// A learner that has caught up; nothing happens without quorum.
  bool promote(std::uint64_t id);
  enum class Removal { Removed, NotFound, NoLeader };
  Removal remove(std::uint64_t id);
  void set_started(std::uint64_t id, bool started);
  /// Its machine has another address. Two members find each other as long as one of them is where
  /// its peer URL says; when all have moved at once, nobody finds anybody.
  void move(std::uint64_t id, const std::string& address);
  /// Writes the new address down, as Talos does for its own member. False without quorum.
  bool update_peer(std::uint64_t id);

  /// Where in the network its machine is: members on other wires find each other only through the
  /// router.
  void place(std::uint64_t id, bool routed, std::string wire);

  /// Is there a leader, or could there be one?
  bool has_quorum() const;
  /// And does this member reach it?
  bool has_quorum(std::uint64_t id) const;
  std::uint64_t leader() const noexcept { return has_quorum() ? leader_ : 0; }
  /// Hands leadership on; the new leader's name, or nothing if nobody else can take it.
  std::optional<std::string> transfer();

  /// Elections as etcd's clients hold them: a key belongs to who took it for as long as the lease
  /// is kept alive. False: somebody else has it, or there is no quorum.
  bool campaign(const std::string& key, const std::string& candidate, Instant now, Duration lease);
  void resign(const std::string& key, const std::string& candidate);
  /// When the present holder's lease ends.
  std::optional<Instant> held_until(const std::string& key) const;

  std::uint64_t term() const noexcept { return term_; }
  std::uint64_t index() const noexcept { return index_; }
  std::uint64_t revision() const noexcept { return revision_; }

  /// False without quorum.
  bool put(const std::string& key, std::string value);
  const std::map<std::string, std::string>& data() const noexcept { return data_; }
  /// About as many bytes as the database has, without what the tenant keeps.
  std::size_t size() const;

  /// A snapshot as `etcdctl snapshot save` writes it: bbolt file and digest. Any member can make
  /// one, with or without quorum.
  std::string snapshot() const;
  struct Restored {
    std::shared_ptr<EtcdCluster> cluster;
    std::string error;   // in Talos's words; then there is no cluster
    bool dirty = false;  // the data directory is not empty although it failed
  };
  /// A new cluster of nobody from a snapshot.
  static Restored restore(const std::string& snapshot, bool skip_hash_check);

 private:
  void elect();
  /// Could it lead: does it reach more than half of the voters?
  bool can_lead(const Member& member) const;
  static bool reach(const Member& a, const Member& b);
  std::string database(const std::map<std::string, std::string>& data) const;

  struct Holder {
    std::string who;
    Instant until;
  };

  std::vector<Member> members_;
  std::map<std::string, std::string> data_;
  std::map<std::string, Holder> elections_;
  std::uint64_t leader_ = 0;
  std::uint64_t term_;
  std::uint64_t index_ = 3;
  std::uint64_t revision_ = 1;
};

}  // namespace rocca::lab::talos
