#include "kubernetes/node_prerequisites.hpp"

#include "base/address.hpp"
#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "machine/kinds.hpp"
#include "machine/quorum.hpp"
#include "talos/client.hpp"
#include "talosconfig/input.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* tailnet = "100.64.0.0/10";
constexpr const char* tailscale_link = "tailscale0";

bool has(const std::vector<std::string>& list, const std::string& wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

bool runs(const std::vector<talos::Service>& services, const std::string& id) {
  return std::any_of(services.begin(), services.end(), [&](const talos::Service& service) {
    return service.id == id && service.state == "Running";
  });
}

std::string state_of(const std::vector<talos::Service>& services, const std::string& id) {
  for (const talos::Service& service : services)
    if (service.id == id)
      return service.last_message.empty() ? service.state
                                          : service.state + ": " + service.last_message;
  return "it is not there";
}

/// The folders that its kubelet shares, and its volumes, as its own configuration has them.
void read_config(const Secret& config, NodeFacts& facts) {
  for (const text::Value& document :
       text::parse_yaml_stream(config.reveal(), "the node's configuration")) {
    if (const text::Value* mounts = document.find({"machine", "kubelet", "extraMounts"}))
      for (const text::Value& mount : mounts->items())
        if (const text::Value* target = mount.find("destination"))
          facts.mounts.push_back(target->text());
    const text::Value* kind = document.find("kind");
    const text::Value* name = document.find("name");
    if (kind != nullptr && name != nullptr && kind->text() == "UserVolumeConfig")
      facts.volumes.push_back(name->text());
  }
}

class PreparedKind final : public Thing {
 public:
  PreparedKind(About about, std::string node, Duration timeout)
      : Thing(std::move(about)), node_(std::move(node)), timeout_(timeout) {}

  std::optional<Live> read(World& world) const override {
    if (!world.known(machine_address(node_))) return std::nullopt;
    Live live{node_, {{"lacks", ""}}, {{"node", node_}}};
    try {
      const Lacks lacks = look(world);
      std::vector<std::string> all = lacks.for_good;
      all.insert(all.end(), lacks.yet.begin(), lacks.yet.end());
      live.fields["lacks"] = join(all, "; ");
    } catch (const Error& error) {
      if (!is_external(error.fault())) throw;
      live.fields["lacks"] = error.message();
    }
    return live;
  }
  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("the node is not there yet");
    Change change;
    if (live->fields.at("lacks").empty()) return change;
    change.action = Action::Update;
    change.effect = Effect::Live;
    change.reason = "it lacks " + live->fields.at("lacks");
    change.waits = true;
    return change;
  }
  Receipt apply(World& world, const Change&, const std::optional<Live>&) const override {
    const Lacks lacks = look(world);
    if (!lacks.for_good.empty())
      throw Error(Fault::Rejected, fmt::format("{} lacks {}", node_, join(lacks.for_good, "; ")))
          .hint("`rocca explain talos.extensions`; a node gets extensions when it is installed");
    return {"prepared", "wait"};
  }
  Progress probe(World& world, const Receipt&) const override {
    const Lacks lacks = look(world);
    if (lacks.yet.empty()) return Ready{};
    return NotYet{join(lacks.yet, "; "), 2s};
  }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override {
    return {{"talos/" + node_, 1, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return timeout_; }
  bool goes_with(const std::string& needed) const override {
    return needed == machine_address(node_);
  }

 protected:
  Fields wishes() const override { return {{"node", node_}}; }

 private:
  Lacks look(World& world) const {
    const std::string where = address_of(world, node_);
    talos::Client client = world.talos(where);
    client.set_deadline(5s);
    NodeFacts facts;
    for (const talos::Extension& extension : client.extensions())
      facts.extensions.push_back(extension.name);
    facts.services = client.services();
    for (const talos::Disk& disk : client.disks()) facts.disks.push_back(disk.serial);
    facts.addresses = client.addresses();
    if (const auto config = client.find_config()) read_config(*config, facts);
    const spec::Spec& spec = world.cluster.spec;
    if (!spec.talos.modules.empty())
      for (const std::string& line : split(client.read_file("/proc/modules"), '\n'))
        facts.modules.push_back(line.substr(0, line.find(' ')));
    Lacks all;
    const auto add = [&](const Lacks& more) {
      all.for_good.insert(all.for_good.end(), more.for_good.begin(), more.for_good.end());
      all.yet.insert(all.yet.end(), more.yet.begin(), more.yet.end());
    };
    add(lacks_of_modules(spec, facts));
    if (*spec.addons.longhorn) add(lacks_for_longhorn(spec, *spec.find_node(node_), facts));
    if (spec.tailscale) add(lacks_for_tailscale(facts));
    return all;
  }

  std::string node_;
  Duration timeout_;
};

}  // namespace

Lacks lacks_of_modules(const spec::Spec& spec, const NodeFacts& facts) {
  Lacks lacks;
  // The kernel spells them with a _.
  for (const spec::KernelModule& module : spec.talos.modules)
    if (!has(facts.modules, replace_all(*module.name, "-", "_")))
      lacks.yet.push_back(fmt::format("the kernel module {} to be loaded", *module.name));
  return lacks;
}

Lacks lacks_for_longhorn(const spec::Spec& spec, const spec::Node& node, const NodeFacts& facts) {
  Lacks lacks;
  for (const char* name : {"iscsi-tools", "util-linux-tools"})
    if (!has(facts.extensions, name))
      lacks.for_good.push_back(fmt::format("the extension {}, for Longhorn", name));
  if (has(facts.extensions, "iscsi-tools") && !runs(facts.services, "ext-iscsid"))
    lacks.yet.push_back(fmt::format("ext-iscsid to run, for Longhorn ({})",
                                    state_of(facts.services, "ext-iscsid")));
  bool disk = false;
  if (node.machine)
    for (const spec::Disk& one : node.machine->disks) {
      if (*one.use != spec::DiskUse::Longhorn) continue;
      disk = true;
      if (!has(facts.disks, talos::disk_serial(one)))
        lacks.for_good.push_back(fmt::format("the disk {}, for Longhorn", one.name));
    }
  // A volume of its own is mounted below /var/mnt, which the kubelet sees by itself.
  const std::string& path = *spec.addons.longhorn_path;
  if (!disk && path.starts_with("/var/lib/") && !has(facts.mounts, path))
    lacks.for_good.push_back(fmt::format("the kubelet's mount {}, for Longhorn", path));
  if (disk && facts.volumes.empty())
    lacks.for_good.push_back("a volume on its data disk, for Longhorn");
  return lacks;
}

Lacks lacks_for_tailscale(const NodeFacts& facts) {
  Lacks lacks;
  if (!has(facts.extensions, "tailscale")) {
    lacks.for_good.push_back("the extension tailscale");
    return lacks;
  }
  if (!runs(facts.services, "ext-tailscale")) {
    lacks.yet.push_back(
        fmt::format("ext-tailscale to run ({})", state_of(facts.services, "ext-tailscale")));
    return lacks;
  }
  const auto range = Cidr::parse(tailnet);
  // A provider may give a node an address of that range on its ordinary link, too.
  const bool joined = std::any_of(facts.addresses.begin(), facts.addresses.end(),
                                  [&](const talos::Address& address) {
                                    return address.link == tailscale_link && range &&
                                           range->contains(address.address.address());
                                  });
  if (!joined)
    lacks.yet.push_back(
        fmt::format("an address of {} on {}: the node has not joined the tailnet "
                    "(is its auth key still good?)",
                    tailnet, tailscale_link));
  return lacks;
}

void make_prepared(const Cluster& cluster, const std::function<void(const Made&)>& add) {
  if (!*cluster.spec.addons.longhorn && !cluster.spec.tailscale &&
      cluster.spec.talos.modules.empty())
    return;
  for (const spec::Node& node : cluster.spec.nodes)
    add(std::make_shared<PreparedKind>(
        Thing::About{"prepared/" + node.name,
                     {machine_address(node.name), member_address(node.name)},
                     to_string(cluster.spec.position(node.where))},
        node.name, cluster.spec.timeouts.boot));
}

}  // namespace rocca::resources
