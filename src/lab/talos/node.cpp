#include "lab/talos/node.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "base/uuid.hpp"
#include "lab/sim/pki.hpp"
#include "lab/talos/certificates.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace {

std::string pem_of(const std::string& base64) {
  return from_base64(base64).value_or("");
}

std::string random_hex(Entropy& entropy, std::size_t bytes) {
  return to_hex(entropy.bytes(bytes));
}

/// For keys of certificates. Few seeds share them, so that they need not be made for every life: a
/// node shows what one of its name has shown within the hour.
SeededEntropy shared_chance(const World& world, const std::string& name) {
  return SeededEntropy{world.seed() % 8}.fork(name);
}

Instant hour_of(Instant now) {
  return std::chrono::floor<std::chrono::hours>(now);
}

}  // namespace

const char* to_string(Stage stage) {
  constexpr const char* names[] = {"unknown",       "booting",   "installing",
                                   "maintenance",   "running",   "rebooting",
                                   "shutting down", "resetting", "upgrading"};
  return names[static_cast<std::size_t>(stage)];
}

TalosNode::TalosNode(Fleet& fleet, Machine machine, NodeTiming timing)
    : fleet_(fleet),
      world_(fleet.world()),
      machine_(std::move(machine)),
      timing_(timing),
      entropy_(world_.fork(fmt::format("talos/{}", fleet.nodes_.size()))),
      member_lists_(world_.fork(fmt::format("talos/{}/member lists", fleet.nodes_.size()))),
      release_(Version::parse(machine_.version).value_or(Version{})),
      store_(world_),
      host_(world_.network().new_host()) {
  disk_.meta = machine_.meta;
  disk_.version = machine_.version;
  disk_.platform = machine_.platform;
  disk_.schematic = machine_.schematic;
  // An image on a disk is Talos installed; an ISO still has to be.
  disk_.installed = !machine_.boot_disk.empty() && machine_.platform != "container";
  disk_.installed_disk = machine_.boot_disk;
  disk_.node_id = to_base64url(entropy_.bytes(32));
  fleet_.nodes_.push_back(this);
}

TalosNode::~TalosNode() {
  release_addresses();
  std::erase(fleet_.nodes_, this);
}

std::string TalosNode::platform() const {
  return disk_.installed ? disk_.platform : machine_.platform;
}

std::string TalosNode::mode() const {
  const std::string name = platform();
  return name == "nocloud" ? "cloud" : name;
}

TalosNode::Stop TalosNode::new_stop() {
  processes_.push_back(std::make_shared<Interrupt>());
  return processes_.back();
}

Routine<void> TalosNode::contained(Routine<void> inner) {
  try {
    co_await inner;
  } catch (const Interrupted&) {
    // The machine went down under it.
  }
}

void TalosNode::power_on() {
  if (powered_) return;
  powered_ = true;
  world_.spawn(contained(run(new_stop())));
}

void TalosNode::power_on(Machine machine, SystemDisk disk, bool warm) {
  if (powered_) return;
  machine_ = std::move(machine);
  disk_ = std::move(disk);
  if (disk_.node_id.empty()) disk_.node_id = to_base64url(entropy_.bytes(32));
  warm_ = warm;
  power_on();
}

void TalosNode::power_off() {
  if (!powered_) return;
  powered_ = false;
  stop_all();
}

void TalosNode::press_power_button() {
  if (powered_) start_down(Stage::ShuttingDown, "shutdown", false, {}, "");
}

/// Ends this boot: nothing of it runs or answers afterwards.
void TalosNode::stop_all() {
  for (const Stop& process : processes_) process->raise("the machine stopped");
  processes_.clear();
  apiserver_ = wedged_ = false;
  served_.clear();
  owned_.clear();
  held_.clear();
  release_addresses();
  for (const auto& weak : calls_)
    if (const auto call = weak.lock()) {
      // A client of a machine that ends sees its connection close. The listener does that a moment
      // later; a call that is let go before would only reset its own stream.
      world_.after(std::chrono::milliseconds{20}, [call] { call->reply->cut(); });
      call->interrupt.raise("the machine stopped");
    }
  calls_.clear();
  if (disk_.etcd) disk_.etcd->set_started(disk_.etcd_member, false);
  services_.clear();
  order_.clear();
  stage_ = Stage::Unknown;
  config_.reset();
  partial_.reset();
  events_.clear();
  bootstrapped_ = recover_ = going_down_ = upgrading_ = false;
  const bool left = std::exchange(node_registered_, false);
  node_ready_ = unschedulable_ = pods_up_ = time_synced_ = network_ready_ = false;
  try_before_.reset();
  stale_ = true;
  told_.reset();
  store_.clear();
  if (left && fleet_.kubelet_changed) fleet_.kubelet_changed(*this);
}

void TalosNode::set_node_object(bool ready, bool unschedulable) {
  if (node_ready_ == ready && unschedulable_ == unschedulable) return;
  node_ready_ = ready;
  unschedulable_ = unschedulable;
  changed_.wake_all();
  publish();
}

Routine<void> TalosNode::run(Stop stop) {
  boot_id_ = fmt::format("{}-{}-{}-{}-{}", random_hex(entropy_, 4), random_hex(entropy_, 2),
                         random_hex(entropy_, 2), random_hex(entropy_, 2), random_hex(entropy_, 6));
  release_ = Version::parse(disk_.installed ? disk_.version : machine_.version).value_or(Version{});
  if (!std::exchange(warm_, false)) co_await world_.sleep(timing_.firmware, stop.get());
  if (disk_.staged) {
    disk_.config = std::move(disk_.staged);
    disk_.staged.reset();
  }
  if (disk_.config) {
    try {
      config_ = MachineConfig::parse(*disk_.config, release_);
    } catch (const ConfigError&) {
      // What is on STATE was checked when it was applied; a downgrade may not read it any more.
    }
  }
  publish();
  stage_ = Stage::Booting;
  sequence_event("initialize", 1);
  world_.spawn(contained(start_service("machined", "", "Service started as goroutine",
                                       std::chrono::milliseconds{50}, new_stop())));
  world_.spawn(contained(start_service(
      "containerd", "",
      fmt::format("Process Process([\"/bin/containerd\" \"--address\" "
                  "\"/system/run/containerd/containerd.sock\" \"--state\" "
                  "\"/system/run/containerd\" \"--root\" \"/system/var/lib/containerd\"]) started "
                  "with PID {}",
                  ++pid_),
      std::chrono::milliseconds{300}, new_stop())));
  publish();
  co_await world_.sleep(timing_.network, stop.get());
  apply_network();
  network_ready_ = !network_.addresses.empty();
  time_synced_ = true;
  sequence_event("initialize", 2);
  start_extensions(true);
  publish();
  if (machine_.halts) {
    // "Talos is already installed to disk but booted from another media": it says so on the
    // console and waits for somebody to take the medium out.
    release_addresses();
    Signal never;
    co_await world_.wait(never, {}, stop.get());
  }
  // A user-data drive may bring the whole config; Proxmox's own is a cloud-config and is not one.
  if (!config_ && machine_.cloud_init.there && platform() == "nocloud" &&
      !machine_.cloud_init.user_data.empty() &&
      !machine_.cloud_init.user_data.starts_with("#cloud-config")) {
    if (const auto include = nocloud_include(machine_.cloud_init.user_data))
      network_.problems.push_back(
          include->error.empty() ? fmt::format("failed to fetch {}: nobody answers", include->url)
                                 : include->error);
    try {
      MachineConfig given = MachineConfig::parse(machine_.cloud_init.user_data, release_);
      if (given.complete()) {
        disk_.config = given.text();
        config_ = std::move(given);
        apply_network();
      }
    } catch (const ConfigError&) {
    }
  }
  if (!config_) {
    stage_ = Stage::Maintenance;
    task_event("runningMaintenance", 0);
    co_await world_.sleep(timing_.maintenance, stop.get());
    if (!address_.empty()) {
      std::vector<std::string> names{"127.0.0.1", "::1", hostname_};
      for (const Address& each : network_.addresses)
        names.push_back(to_string(each.cidr.address()));
      const auto mint = [entropy = shared_chance(world_, "talos/maintenance/" + address_), names,
                         now = hour_of(world_.outside())]() mutable {
        Leaf leaf;
        leaf.common_name = "maintenance-service.talos.dev";
        leaf.names = names;
        net::ServerTls tls;
        tls.identity = sign_by_nobody(leaf, entropy, now);
        return tls;
      };
      if (release_.minor() >= 13)
        co_await start_service("apid",
                               "service \"containerd\" to be \"up\", api certificates, config to "
                               "be ready",
                               fmt::format("Started task apid (PID {}) for container apid", ++pid_),
                               timing_.service, stop);
      open_port(mint, true);
    }
    publish();
    while (!config_) co_await world_.wait(config_given_, {}, stop.get());
    // The maintenance service ends before apid begins: nobody listens in between.
    co_await world_.sleep(std::chrono::milliseconds{50}, stop.get());
    close_port();
    // The maintenance server waits for a handler that never ends.
    Signal never;
    if (wedged_) co_await world_.wait(never, {}, stop.get());
    services_.erase("apid");
    std::erase(order_, "apid");
    co_await world_.sleep(timing_.transition, stop.get());
    apply_network();
  }
  if (!disk_.installed && !in_container()) {
    co_await install(stop);
    co_return;
  }
  stage_ = Stage::Booting;
  sequence_event("boot", 1);
  publish();
  co_await boot_services(stop);
}

Routine<void> TalosNode::install(Stop stop) {
  stage_ = Stage::Installing;
  sequence_event("install", 1);
  phase_event("install", 0);
  publish();
  co_await world_.sleep(timing_.install, stop.get());
  std::string wanted = config_->get({"machine", "install", "disk"});
  const text::Value* selector =
      config_->main()->find({"machine", "install", "diskSelector", "serial"});
  const auto disk =
      std::find_if(machine_.disks.begin(), machine_.disks.end(), [&](const Disk& each) {
        if (each.cdrom || each.readonly) return false;
        return selector != nullptr ? each.serial == selector->text()
                                   : "/dev/" + each.name == wanted;
      });
  if (disk == machine_.disks.end()) {
    // The sequence fails and the machine keeps its stage: nothing was installed.
    add_event("ConfigValidationErrorEvent", "");
    sequence_event("install", 0);
    publish();
    co_return;
  }
  disk_.installed = true;
  disk_.installed_disk = disk->name;
  disk_.version = machine_.version;
  disk_.platform = machine_.platform;
  disk_.schematic = machine_.schematic;
  take_image(config_->get({"machine", "install", "image"}));
  sequence_event("install", 2);
  start_down(Stage::Rebooting, "reboot", true, {}, "");
}

bool TalosNode::open_apid() {
  SigningAuthority authority{pem_of(config_->get({"machine", "ca", "crt"})),
                             pem_of(config_->get({"machine", "ca", "key"}))};
  if (!config_->is_control_plane()) {
    const auto signer = find_trustd();
    if (!signer) return false;
    authority.key_pem = *signer;
  }
  Leaf leaf;
  leaf.common_name =
      network_.domain.empty() ? hostname_ : fmt::format("{}.{}", hostname_, network_.domain);
  for (const Address& each : network_.addresses)
    leaf.names.push_back(to_string(each.cidr.address()));
  leaf.names.push_back(hostname_);
  if (const text::Value* sans = config_->main()->find({"machine", "certSANs"}))
    for (const text::Value& san : sans->items()) leaf.names.push_back(san.text());
  const auto signer = fleet_.signer(authority);
  if (!signer) return false;
  std::string clients = authority.certificate_pem;
  if (const text::Value* accepted = config_->main()->find({"machine", "acceptedCAs"}))
    for (const text::Value& each : accepted->items())
      if (const text::Value* crt = each.find("crt")) clients += pem_of(crt->text());
  const bool exact = release_.minor() >= 12 ||
                     config_->get({"machine", "features", "apidCheckExtKeyUsage"}) == "true";
  open_port(
      [signer, leaf, clients, exact, now = hour_of(world_.outside()),
       entropy = shared_chance(world_, "talos/apid/" + hostname_)]() mutable {
        net::ServerTls tls;
        if (auto identity = signer->sign(leaf, entropy, now)) tls.identity = std::move(*identity);
        tls.clients = net::ServerTls::Clients::Require;
        tls.client_authority_pem = clients;
        tls.exact_client_usage = exact;
        return tls;
      },
      false);
  return true;
}

/// The key with which some control plane of the same cluster signs for workers.
std::optional<std::string> TalosNode::find_trustd() const {
  for (const TalosNode* node : fleet_.nodes())
    if (node != this && node->powered_ && node->is_control_plane() &&
        node->service_running("trustd") && fleet_.connects(*this, *node) &&
        node->config_->get({"machine", "token"}) == config_->get({"machine", "token"}) &&
        node->config_->get({"machine", "ca", "crt"}) == config_->get({"machine", "ca", "crt"}))
      return pem_of(node->config_->get({"machine", "ca", "key"}));
  return std::nullopt;
}

Routine<void> TalosNode::renew_certificates(Stop stop) {
  while (true) {
    co_await world_.sleep(std::chrono::hours{12}, stop.get());
    if (listening_ && config_) open_apid();
  }
}

void TalosNode::start_down(Stage stage, std::string sequence, bool again,
                           std::function<void()> between, std::string actor) {
  if (going_down_) return;
  going_down_ = true;
  world_.spawn(
      contained(go_down(stage, std::move(sequence), again, std::move(between), std::move(actor))));
}

Routine<void> TalosNode::go_down(Stage stage, std::string sequence, bool again,
                                 std::function<void()> between, std::string actor) {
  const Stop stop = new_stop();
  stage_ = stage;
  resign();
  sequence_event(sequence, 1, actor);
  publish();
  // talosctl follows these: a reset and a shutdown are over for it when all services stop.
  const bool gentle = stage == Stage::Upgrading || stage == Stage::ShuttingDown;
  if (gentle && config_) walk("drain", "cordonAndDrainNode", actor);
  walk("cleanup", "stopAllPods", actor);
  walk("dbus", "stopDBus", actor);
  if (stage == Stage::Resetting) walk("preReset", "sendResetSignal", actor);
  walk("stopServices", "stopServicesEphemeral", actor);
  walk("volumeFinalize", "teardownVolumeLifecycle", actor);
  co_await world_.sleep(timing_.shutdown / 2, stop.get());
  if (stage == Stage::Upgrading) {
    phase_event("upgrade", 0, actor);
    co_await world_.sleep(timing_.upgrade, stop.get());
    phase_event("upgrade", 1, actor);
  }
  walk("stopEverything", "stopAllServices", actor);
  co_await world_.sleep(timing_.shutdown / 2, stop.get());
  if (between) between();
  // Out of this boot's routines: the next boot must not end with them.
  world_.after(std::chrono::milliseconds{1}, [this, again] {
    stop_all();
    powered_ = false;
    if (!again) {
      if (on_power_off) on_power_off();
    } else if (on_reboot) {
      on_reboot(disk_.installed);
    } else {
      power_on();
    }
  });
}

namespace {

const text::Value* api_server_of(const MachineConfig& config) {
  const text::Value* cluster = config.main() == nullptr ? nullptr : config.main()->find("cluster");
  return cluster == nullptr ? nullptr : cluster->find("apiServer");
}

bool differ(const text::Value* a, const text::Value* b) {
  return (a == nullptr) != (b == nullptr) || (a != nullptr && !(*a == *b));
}

}  // namespace

void TalosNode::use_config(const MachineConfig& config) {
  // Its static pod is written anew, and comes back after a while.
  if (config_ && apiserver_ && differ(api_server_of(*config_), api_server_of(config))) {
    apiserver_ = false;
    listen_apiserver();
  }
  config_ = config;
  apply_network();
  if (listening_) open_apid();
  changed_.wake_all();
  publish();
  if (node_registered_ && fleet_.kubelet_changed) fleet_.kubelet_changed(*this);
}

/// "factory.talos.dev/nocloud-installer/<schematic>:v1.11.6" becomes what boots next.
void TalosNode::take_image(const std::string& image) {
  const auto colon = image.rfind(':');
  if (colon == std::string::npos) return;
  const std::string tag = image.substr(colon + 1);
  if (!Version::parse(tag)) return;
  disk_.version = tag;
  const std::vector<std::string> parts = split(image.substr(0, colon), '/');
  if (parts.size() >= 2 && parts.back().size() == 64) {
    disk_.schematic = parts.back();
    const std::string& kind = parts[parts.size() - 2];
    // From 1.10 on `installer` means metal, whatever the machine was before.
    if (kind.starts_with("nocloud-"))
      disk_.platform = "nocloud";
    else if (kind.starts_with("metal-") || Version::parse(tag)->minor() >= 10)
      disk_.platform = "metal";
  }
}

std::string TalosNode::upgrade_refusal(const std::string& image) const {
  const auto colon = image.rfind(':');
  const auto target = Version::parse(image.substr(colon == std::string::npos ? 0 : colon + 1));
  if (!target) return "";
  const std::string from = to_string(release_), to = to_string(*target);
  if (target->minor() > 13 || target->minor() < 9)
    return fmt::format("upgrades to version {} are not supported", to);
  if (release_.minor() + 2 < target->minor() || release_.minor() < 8)
    return fmt::format("host version {} is too old to upgrade to Talos {}", from, to);
  if (release_.minor() >= target->minor() + 2)
    return fmt::format("host version {} is too new to downgrade to Talos {}", from, to);
  return "";
}

}  // namespace rocca::lab::talos
