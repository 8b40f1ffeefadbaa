#include "lab/talos/etcd.hpp"

#include "lab/talos/bbolt.hpp"
#include "lab/talos/grpc.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace rocca::lab::talos {

namespace {

std::string big_endian(std::uint64_t value) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
  return out;
}

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Bytes as Go prints a slice of them.
std::string go_bytes(std::string_view bytes) {
  std::vector<unsigned> numbers;
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return fmt::format("[{}]", fmt::join(numbers, " "));
}

}  // namespace

const EtcdCluster::Member* EtcdCluster::find(std::uint64_t id) const {
  for (const Member& member : members_)
    if (member.id == id) return &member;
  return nullptr;
}

bool EtcdCluster::reach(const Member& a, const Member& b) {
  if (a.id == b.id) return true;
  const bool connected = (a.routed && b.routed) || (!a.wire.empty() && a.wire == b.wire);
  return connected && (a.at_home() || b.at_home());
}

bool EtcdCluster::can_lead(const Member& member) const {
  if (!member.started || member.learner) return false;
  std::size_t voters = 0, reached = 0;
  for (const Member& other : members_) {
    if (other.learner) continue;
    ++voters;
    reached += other.started && reach(member, other);
  }
  return reached > voters / 2;
}

bool EtcdCluster::has_quorum() const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return can_lead(member); });
}

bool EtcdCluster::has_quorum(std::uint64_t id) const {
  const Member* self = find(id);
  return self != nullptr &&
         std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
           return can_lead(member) && reach(*self, member);
         });
}

void EtcdCluster::place(std::uint64_t id, bool routed, std::string wire) {
  for (Member& member : members_)
    if (member.id == id) {
      member.routed = routed;
      member.wire = std::move(wire);
      break;
    }
  elect();
}

void EtcdCluster::elect() {
  const Member* now = find(leader_);
  if (now != nullptr && can_lead(*now)) return;
  for (const Member& member : members_)
    if (can_lead(member)) {
      leader_ = member.id;
      ++term_;
      ++index_;
      return;
    }
}

void EtcdCluster::move(std::uint64_t id, const std::string& address) {
  for (Member& member : members_)
    if (member.id == id) member.at = address;
  elect();
}

bool EtcdCluster::update_peer(std::uint64_t id) {
  if (!has_quorum(id)) return false;
  for (Member& member : members_) {
    if (member.id != id || member.at_home()) continue;
    member.peer_url = fmt::format("https://{}:2380", member.at);
    member.client_url = fmt::format("https://{}:2379", member.at);
    ++index_;
  }
  return true;
}

std::optional<std::uint64_t> EtcdCluster::add(std::string name, const std::string& address,
                                              std::uint64_t id) {
  const bool first = members_.empty();
  if (!first && !has_quorum()) return std::nullopt;
  std::erase_if(members_, [&](const Member& member) { return member.name == name; });
  members_.push_back({id, std::move(name), fmt::format("https://{}:2380", address),
                      fmt::format("https://{}:2379", address), !first, first, address});
  // etcd lists its members by id.
  std::sort(members_.begin(), members_.end(),
            [](const Member& a, const Member& b) { return a.id < b.id; });
  ++index_;
  elect();
  return id;
}

bool EtcdCluster::promote(std::uint64_t id) {
  if (!has_quorum()) return false;
  for (Member& member : members_)
    if (member.id == id && member.learner && member.started) {
      member.learner = false;
      ++index_;
      return true;
    }
  return false;
}

EtcdCluster::Removal EtcdCluster::remove(std::uint64_t id) {
  if (!has_quorum()) return Removal::NoLeader;
  if (std::erase_if(members_, [&](const Member& member) { return member.id == id; }) == 0)
    return Removal::NotFound;
  ++index_;
  elect();
  return Removal::Removed;
}

void EtcdCluster::set_started(std::uint64_t id, bool started) {
  for (Member& member : members_)
    if (member.id == id) member.started = started;
  elect();
}

std::optional<std::string> EtcdCluster::transfer() {
  for (const Member& member : members_)
    if (member.id != leader_ && can_lead(member)) {
      leader_ = member.id;
      ++term_;
      ++index_;
      return member.name;
    }
  return std::nullopt;
}

bool EtcdCluster::campaign(const std::string& key, const std::string& candidate, Instant now,
                           Duration lease) {
  if (!has_quorum()) return false;
  Holder& holder = elections_[key];
  if (holder.who != candidate && holder.until > now) return false;
  holder = {candidate, now + lease};
  return true;
}

void EtcdCluster::resign(const std::string& key, const std::string& candidate) {
  const auto found = elections_.find(key);
  if (found != elections_.end() && found->second.who == candidate) elections_.erase(found);
}

std::optional<Instant> EtcdCluster::held_until(const std::string& key) const {
  const auto found = elections_.find(key);
  if (found == elections_.end()) return std::nullopt;
  return found->second.until;
}

bool EtcdCluster::put(const std::string& key, std::string value) {
  if (!has_quorum()) return false;
  data_[key] = std::move(value);
  ++revision_;
  ++index_;
  return true;
}

std::string EtcdCluster::snapshot() const {
  std::map<std::string, std::string> all = data_;
  if (tenant)
    for (auto& [key, value] : tenant->data()) all.insert_or_assign(key, value);
  return database(all);
}

std::size_t EtcdCluster::size() const {
  return database(data_).size() - 32;
}

std::string EtcdCluster::database(const std::map<std::string, std::string>& data) const {
  Buckets buckets;
  for (const char* name :
       {"alarm", "auth", "authRoles", "authUsers", "cluster", "lease", "members_removed"})
    buckets[name];
  buckets["cluster"]["clusterVersion"] = "3.6.0";
  auto& meta = buckets["meta"];
  meta["consistent_index"] = big_endian(index_);
  meta["term"] = big_endian(term_);
  meta["storageVersion"] = "3.6.0";
  auto& members = buckets["members"];
  for (const Member& member : members_)
    members[fmt::format("{:x}", member.id)] =
        fmt::format(R"({{"id":{},"peerURLs":["{}"],"name":"{}","clientURLs":["{}"]}})", member.id,
                    member.peer_url, member.name, member.client_url);
  auto& keys = buckets["key"];
  std::uint64_t revision = 1;
  for (const auto& [key, value] : data) {
    ++revision;
    std::string pair;  // mvccpb.KeyValue
    put_bytes(pair, 1, key);
    put_varint(pair, 2, revision);
    put_varint(pair, 3, revision);
    put_varint(pair, 4, 1);
    put_bytes(pair, 5, value);
    keys[big_endian(revision) + "_" + big_endian(0)] = pair;
  }
  return with_digest(write_bbolt(buckets));
}

EtcdCluster::Restored EtcdCluster::restore(const std::string& snapshot, bool skip_hash_check) {
  const auto buckets = read_bbolt(snapshot);
  if (!buckets) return {nullptr, "error verifying snapshot: invalid database", false};
  if (!skip_hash_check) {
    // Like etcdutl: what the last 32 bytes say against the rest. A cut file has data there.
    const std::size_t split = snapshot.size() < 32 ? 0 : snapshot.size() - 32;
    const std::string said = snapshot.substr(split);
    const std::string is = sha256(std::string_view(snapshot).substr(0, split));
    if (said != is)
      return {nullptr,
              fmt::format("error recovering from the snapshot: expected sha256 {}, got {}",
                          go_bytes(said), go_bytes(is)),
              true};
  }
  auto cluster = std::make_shared<EtcdCluster>();
  if (const auto keys = buckets->find("key"); keys != buckets->end())
    for (const auto& [revision, pair] : keys->second) {
      const auto key = fields(pair, 1);
      const auto value = fields(pair, 5);
      if (key && key->size() == 1)
        cluster->data_[key->front()] = value && !value->empty() ? value->front() : "";
      if (revision.size() >= 8) {
        std::uint64_t number = 0;
        for (std::size_t i = 0; i < 8; ++i)
          number = number << 8 | static_cast<unsigned char>(revision[i]);
        cluster->revision_ = std::max(cluster->revision_, number);
      }
    }
  return {std::move(cluster), "", false};
}

}  // namespace rocca::lab::talos
