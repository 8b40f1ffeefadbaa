#pragma once

#include "engine/resource.hpp"
#include "platform/world.hpp"
#include "proxmox/upid.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rocca::resources {

using engine::Action;
using engine::Change;
using engine::Effect;
using engine::FieldChange;
using engine::Fields;
using engine::Lane;
using engine::Live;
using engine::NotYet;
using engine::Progress;
using engine::Ready;
using engine::Receipt;
using engine::Resource;

/// What every kind has: a name, arrows, a place, and a digest of what is wanted.
class Thing : public Resource {
 public:
  struct About {
    std::string address;
    std::vector<std::string> needs;
    std::string place;
  };
  explicit Thing(About about) : about_(std::move(about)) {}

  const std::string& address() const final { return about_.address; }
  std::vector<std::string> needs() const final { return about_.needs; }
  std::string place() const final { return about_.place; }
  std::string wanted() const override;

 protected:
  /// All that is wanted, by name; secrets by digest only.
  virtual Fields wishes() const = 0;

 private:
  About about_;
};

/// Lower-case hex of SHA-256.
std::string digest(std::string_view text);
std::string digest(const Fields& fields);

Change create(std::string reason);
Change refuse(std::string reason, std::string hint = "");
/// Wanted against found, field by field; only what is wanted counts. `effect_of` says what a
/// difference costs.
Change compare(const Fields& wanted, const Fields& found,
               const std::map<std::string, Effect>& effects, Effect otherwise);
/// Action, reason and costliest effect from its fields.
void conclude(Change& change);

std::string fact(const std::optional<Fields>& facts, const std::string& name);

// ---- what many kinds do with Proxmox

/// The lane of a host's API: its daemon has three workers, for all clusters together. A host is
/// known by its name alone: two Proxmox clusters with a host of one name share the three, because
/// nothing that is read anyway tells them apart.
Lane host_lane(const std::string& host);
/// What disturbs a control plane holds it: etcd can do without one of them, not two.
Lane disturbing_lane();
/// What may silence a worker holds these: `what` is the same for those that go through the same.
/// One of them goes first, and only when it is well again the others, a quarter of all at a time.
std::vector<Lane> worker_lanes(std::size_t workers, const std::string& what);

/// The user or token whose tasks are ours.
std::string our_name(const World& world);

/// How a task of Proxmox stands: over, or what it waits for. A failed one throws what Proxmox said.
Progress follow_task(World& world, const std::string& upid, const std::string& doing);

}  // namespace rocca::resources
