#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "machine/kinds.hpp"
#include "machine/quorum.hpp"
#include "platform/kinds.hpp"
#include "secrets/bundle.hpp"
#include "talosconfig/input.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// Certificates are for a year; whoever runs `up` now and then never sees one expire.
constexpr Duration renew_before = 30 * 24h;
constexpr const char* as_it_should_be = "as it should be";
constexpr const char* expires = "expires ";

std::string text_at(const text::Value& value, std::initializer_list<std::string_view> path) {
  const text::Value* found = value.find(path);
  return found != nullptr && found->is_scalar() ? found->text() : "";
}

/// The client certificate in either file, in base64; empty: it is none of ours.
std::string certificate_in(const text::Value& kubeconfig) {
  return text_at(kubeconfig, {"users", "0", "user", "client-certificate-data"});
}
std::string certificate_in(const text::Value& talosconfig, const std::string& cluster) {
  return text_at(talosconfig, {"contexts", cluster, "crt"});
}

/// "valid", or why the client certificate is no longer good.
std::string judge(World& world, const std::string& certificate, const std::string& authority) {
  const auto pem = from_base64(certificate);
  if (!pem) return "unreadable";
  const CertificateLooks::Look look = world.cluster.certificates->look(*pem, authority);
  if (!look.readable) return "unreadable";
  if (!look.ours) return "of another authority";
  if (look.not_after < world.clock.now()) return "expired on " + to_string(look.not_after);
  if (look.not_after - renew_before < world.clock.now()) return expires + to_string(look.not_after);
  return "valid";
}

/// kubeconfig and talosconfig, for people and their tools.
class AccessKind final : public Thing {
 public:
  AccessKind(About about, std::string folder)
      : Thing(std::move(about)), folder_(std::move(folder)) {}

  std::optional<Live> read(World& world) const override {
    // Said before anything is created, not when the keys are to be written.
    AccessStorage& storage = *world.storage.access;
    storage.check();
    const auto kube = storage.find("kubeconfig");
    const auto talos = storage.find("talosconfig");
    if (!kube && !talos) return std::nullopt;
    Live live{storage.describe(), {}, {}};
    read_kubeconfig(world, kube.value_or(""), live.fields);
    read_talosconfig(world, talos.value_or(""), live.fields);
    // What only the world knows is compared here, where it is known.
    for (const auto& [name, value] : wished(world))
      live.fields[name] = live.fields[name] == value ? as_it_should_be : live.fields[name];
    return live;
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("there are no access files yet");
    Change change;
    for (const auto& [name, value] : live->fields)
      if (value != as_it_should_be)
        change.fields.push_back(
            {name, value.empty() ? "absent" : value, "minted now", Effect::Live});
    conclude(change);
    return change;
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>&) const override {
    const auto server = server_of(world);
    secrets::KubeconfigOptions kube;
    kube.cluster = world.cluster.name();
    kube.server = server;
    secrets::TalosconfigOptions talos;
    talos.context = world.cluster.name();
    talos.endpoints = endpoints(world);
    for (const spec::Node& node : world.cluster.spec.nodes)
      if (const std::string address = address_for(world, node); !address.empty())
        talos.nodes.push_back(address);
    const Instant now = world.clock.now();
    const Secret kubeconfig =
        secrets::mint_kubeconfig(world.cluster.bundle(), kube, now, world.entropy);
    const Secret talosconfig =
        secrets::mint_talosconfig(world.cluster.bundle(), talos, now, world.entropy);
    world.storage.access->write("kubeconfig", kubeconfig);
    world.storage.access->write("talosconfig", talosconfig);
    return {"", "write"};
  }

  Progress probe(World&, const Receipt&) const override { return Ready{}; }
  Receipt destroy(World& world, const Live&) const override {
    world.storage.access->remove("kubeconfig");
    world.storage.access->remove("talosconfig");
    return {};
  }
  std::vector<Lane> lanes(const Change*) const override { return {}; }
  Duration patience(const Change&) const override { return 1min; }

 protected:
  Fields wishes() const override { return {{"folder", folder_}}; }

 private:
  /// As the spec says, where it does: a node that moves there is found there once `up` is over.
  static std::string address_for(World& world, const spec::Node& node) {
    return node.address ? to_string(**node.address) : address_of(world, node.name);
  }

  static std::string server_of(World& world) {
    const auto planes = world.cluster.spec.control_planes();
    return talos::endpoint_of(world.cluster.spec,
                              planes.empty() ? "" : address_for(world, *planes.front()));
  }

  static std::vector<std::string> endpoints(World& world) {
    std::vector<std::string> all;
    for (const spec::Node* node : world.cluster.spec.control_planes())
      if (const std::string address = address_for(world, *node); !address.empty())
        all.push_back(address);
    return all;
  }

  static Fields wished(World& world) {
    const bool known = !endpoints(world).empty();
    return {{"kubeconfig.server", known ? server_of(world) : ""},
            {"kubeconfig.certificate", "valid"},
            {"talosconfig.endpoints", join(endpoints(world), ", ")},
            {"talosconfig.certificate", "valid"}};
  }

  void read_kubeconfig(World& world, const std::string& text, Fields& fields) const {
    fields["kubeconfig.server"] = fields["kubeconfig.certificate"] = "";
    try {
      const text::Value config = text::parse_yaml(text, "kubeconfig");
      fields["kubeconfig.server"] = text_at(config, {"clusters", "0", "cluster", "server"});
      fields["kubeconfig.certificate"] =
          judge(world, certificate_in(config), world.cluster.bundle().kubernetes.crt);
    } catch (const Error& error) {
      // Not YAML, so not what rocca wrote: the file is written again.
      if (error.fault() != Fault::Usage) throw;
    }
  }

  void read_talosconfig(World& world, const std::string& text, Fields& fields) const {
    fields["talosconfig.endpoints"] = fields["talosconfig.certificate"] = "";
    try {
      const text::Value config = text::parse_yaml(text, "talosconfig");
      const text::Value* context = config.find({"contexts", world.cluster.name()});
      if (context == nullptr) return;
      std::vector<std::string> names;
      if (const text::Value* list = context->find("endpoints"))
        for (const text::Value& item : list->items()) names.push_back(item.text());
      fields["talosconfig.endpoints"] = join(names, ", ");
      fields["talosconfig.certificate"] =
          judge(world, certificate_in(config, world.cluster.name()), world.cluster.bundle().os.crt);
    } catch (const Error& error) {
      if (error.fault() != Fault::Usage) throw;  // as for the kubeconfig
    }
  }

  std::string folder_;
};

}  // namespace

std::string access_address(const std::string& cluster) {
  return "access/" + cluster;
}

std::string stale_access(World& world) {
  const auto live = AccessKind{{access_address(world.cluster.name()), {}, ""}, ""}.read(world);
  if (!live) return "";
  std::vector<std::string> wrong;
  for (const auto& [name, value] : live->fields)
    // A file that is not there was removed, and one that expires in some weeks still works.
    if (value != as_it_should_be && !value.empty() && !value.starts_with(expires))
      wrong.push_back(fmt::format("{} is {}", name, value));
  return join(wrong, "; ");
}

std::map<std::string, Instant> access_until(World& world) {
  std::map<std::string, Instant> all;
  for (const std::string name : {"kubeconfig", "talosconfig"}) try {
      const text::Value config =
          text::parse_yaml(world.storage.access->find(name).value_or(""), name);
      const bool kube = name == "kubeconfig";
      const auto pem =
          from_base64(kube ? certificate_in(config) : certificate_in(config, world.cluster.name()));
      const secrets::Bundle& bundle = world.cluster.bundle();
      if (!pem) continue;
      const auto look =
          world.cluster.certificates->look(*pem, kube ? bundle.kubernetes.crt : bundle.os.crt);
      if (look.readable) all[name] = look.not_after;
    } catch (const Error& error) {
      // Not YAML, so not what rocca wrote: the plan says so.
      if (error.fault() != Fault::Usage) throw;
    }
  return all;
}

void remove_access(World& world) {
  const secrets::Bundle& bundle = world.cluster.bundle();
  for (const std::string name : {"kubeconfig", "talosconfig"}) {
    const auto text = world.storage.access->find(name);
    // A published file that was kept begins with a remark that says so.
    if (!text || text->starts_with('#')) continue;
    bool ours = false;
    try {
      const text::Value config = text::parse_yaml(*text, name);
      const bool kube = name == "kubeconfig";
      const auto pem =
          from_base64(kube ? certificate_in(config) : certificate_in(config, world.cluster.name()));
      ours =
          pem &&
          world.cluster.certificates->look(*pem, kube ? bundle.kubernetes.crt : bundle.os.crt).ours;
    } catch (const Error& error) {
      if (error.fault() != Fault::Usage) throw;  // not YAML, so not what rocca wrote: it stays
    }
    if (ours) world.storage.access->remove(name);
  }
}

Made make_access(const Cluster& cluster) {
  std::vector<std::string> needs;
  // With addresses in the spec they can be written at once, for whoever wants to look while it
  // boots.
  for (const spec::Node* node : cluster.spec.control_planes())
    if (!node->address) needs.push_back(machine_address(node->name));
  return std::make_shared<AccessKind>(
      Thing::About{access_address(cluster.name()), std::move(needs), ""},
      cluster.spec.folder + "/configs");
}

}  // namespace rocca::resources
