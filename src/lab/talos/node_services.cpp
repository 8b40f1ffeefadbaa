#include "base/strings.hpp"
#include "lab/talos/node.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

Routine<void> TalosNode::boot_services(Stop stop) {
  const bool control_plane = config_->is_control_plane();
  if (!in_container())
    for (const char* id : {"auditd", "syslogd", "udevd", "dashboard"})
      world_.spawn(contained(start_service(id, "", "Service started as goroutine",
                                           std::chrono::milliseconds{100}, new_stop())));
  if (control_plane)
    world_.spawn(contained(
        start_service("trustd", "service \"containerd\" to be \"up\", time sync, network",
                      fmt::format("Started task trustd (PID {}) for container trustd", ++pid_),
                      timing_.service, new_stop())));
  set_service("apid", "Starting", "Starting service");
  set_service("apid", "Waiting",
              release_.minor() >= 13
                  ? "Waiting for service \"containerd\" to be \"up\", api certificates, config to "
                    "be ready"
                  : "Waiting for service \"containerd\" to be \"up\", api certificates");
  if (control_plane) world_.spawn(contained(run_etcd(new_stop())));
  world_.spawn(contained(run_kubelet(new_stop())));
  world_.spawn(contained(start_service(
      "cri",
      "volume \"/var/lib\" to be mounted, volume \"/var/lib/cni\" to be mounted, volume "
      "\"/var/lib/containerd\" to be mounted, volume \"/var/run\" to be mounted, volume "
      "\"/var/run/lock\" to be mounted, network",
      fmt::format("Process Process([\"/bin/containerd\" \"--address\" "
                  "\"/run/containerd/containerd.sock\" \"--config\" "
                  "\"/etc/cri/containerd.toml\"]) started with PID {}",
                  ++pid_),
      timing_.service, new_stop())));
  if (control_plane) {
    world_.spawn(contained(run_shared_addresses(new_stop())));
    world_.spawn(contained(run_apiserver(new_stop())));
  }
  start_extensions(false);
  co_await world_.sleep(timing_.service, stop.get());
  while (!open_apid()) co_await world_.sleep(std::chrono::seconds{2}, stop.get());
  set_service("apid", "Preparing", "Running pre state");
  set_service("apid", "Preparing", "Creating service runner");
  set_service("apid", "Running",
              fmt::format("Started task apid (PID {}) for container apid", ++pid_));
  set_health("apid", true);
  world_.spawn(contained(renew_certificates(new_stop())));
  publish();
  // Members of the cluster appear and leave without a call to this node; who watches is told.
  while (true) {
    update_stage();
    co_await world_.wait(
        changed_,
        world_.now() + std::chrono::seconds{store_.watched_besides(machine_status) ? 2 : 60},
        stop.get());
  }
}

/// Those that need no network come up before a config is there.
void TalosNode::start_extensions(bool maintenance) {
  for (const Extension& extension : machine_.extensions)
    if (extension.service && extension.needs_device == maintenance)
      world_.spawn(contained(run_extension(extension, new_stop())));
}

Routine<void> TalosNode::run_extension(Extension extension, Stop stop) {
  const std::string id =
      "ext-" + (extension.service_name.empty() ? extension.name : extension.service_name);
  set_service(id, "Starting", "Starting service");
  set_service(id, "Waiting", "Waiting for service \"containerd\" to be \"up\"");
  if (extension.needs_device && !machine_.agent_device) {
    set_service(id, "Waiting",
                "Waiting for file \"/dev/virtio-ports/org.qemu.guest_agent.0\" to exist");
    Signal never;
    co_await world_.wait(never, {}, stop.get());
  }
  while (extension.needs_config &&
         config_->find("ExtensionServiceConfig", extension.name) == nullptr)
    co_await world_.wait(changed_, {}, stop.get());
  co_await world_.sleep(timing_.service, stop.get());
  for (auto why = fleet_.failing_services.find(id); why != fleet_.failing_services.end();
       why = fleet_.failing_services.find(id)) {
    // The runner of extensions never gives up.
    set_service(id, "Waiting", why->second);
    co_await world_.sleep(std::chrono::seconds{5}, stop.get());
  }
  set_service(id, "Preparing", "Running pre state");
  set_service(id, "Preparing", "Creating service runner");
  set_service(id, "Running",
              fmt::format("Started task {} (PID {}) for container {}", id, ++pid_, id));
}

Routine<void> TalosNode::run_kubelet(Stop stop) {
  const std::string volumes =
      "volume \"/var/lib\" to be mounted, volume \"/var/lib/kubelet\" to be mounted, volume "
      "\"/var/log\" to be mounted, volume \"/var/log/audit\" to be mounted, volume "
      "\"/var/log/containers\" to be mounted, volume \"/var/log/pods\" to be mounted, volume "
      "\"/var/lib/kubelet/seccomp\" to be mounted, volume \"/var/lib/kubelet/seccomp/profiles\" to "
      "be mounted, volume \"/var/log/audit/kube\" to be mounted, volume \"/var/mnt\" to be "
      "mounted, service \"cri\" ";
  set_service("kubelet", "Starting", "Starting service");
  set_service("kubelet", "Waiting", "Waiting for " + volumes + "to be \"up\", time sync, network");
  set_service("kubelet", "Waiting", "Waiting for " + volumes + "to be registered");
  set_service("kubelet", "Waiting", "Waiting for service \"cri\" to be \"up\"");
  while (!service_running("cri")) co_await world_.wait(changed_, {}, stop.get());
  set_service("kubelet", "Preparing", "Running pre state");
  // Without an image to pull it stays here, as a node without its registry does.
  while (!machine_.kubernetes) co_await world_.wait(changed_, {}, stop.get());
  co_await world_.sleep(timing_.kubelet, stop.get());
  set_service("kubelet", "Preparing", "Creating service runner");
  set_service("kubelet", "Running",
              fmt::format("Started task kubelet (PID {}) for container kubelet", ++pid_));
  co_await world_.sleep(std::chrono::seconds{2}, stop.get());
  set_health("kubelet", true);
  // The node object appears once an API server of the cluster answers.
  while (true) {
    const std::shared_ptr<EtcdCluster> cluster = find_cluster();
    const bool api = machine_.api_server && cluster && cluster->has_quorum();
    if (api && !node_registered_) {
      co_await world_.sleep(timing_.static_pods, stop.get());
      node_registered_ = true;
      // What the API server writes for it; a snapshot then has something in it.
      cluster->put("/registry/minions/" + hostname_, fmt::format("k8s node {}", hostname_));
      pods_up_ = true;
      publish();
      bool told = fleet_.kubelet_changed && fleet_.kubelet_changed(*this);
      co_await world_.sleep(timing_.node_ready, stop.get());
      told = told || (fleet_.kubelet_changed && fleet_.kubelet_changed(*this));
      const text::Value* cni = config_->main()->find({"cluster", "network", "cni", "name"});
      if (!told) node_ready_ = cni == nullptr || cni->text() != "none";
      publish();
    }
    std::optional<Instant> look_again;
    if (!node_registered_) look_again = world_.now() + std::chrono::seconds{5};
    co_await world_.wait(changed_, look_again, stop.get());
  }
}

bool TalosNode::service_running(const std::string& id) const {
  const auto found = services_.find(id);
  return found != services_.end() && found->second.state == "Running";
}

/// Boot is over when every service runs; a service whose health is not known yet counts.
void TalosNode::update_stage() {
  if (stage_ == Stage::Booting && config_ && !going_down_) {
    const bool all = service_running("apid") && service_running("kubelet") &&
                     service_running("machined") &&
                     std::all_of(services_.begin(), services_.end(), [](const auto& each) {
                       return each.second.state == "Running" || each.second.state == "Finished";
                     });
    if (all) {
      stage_ = Stage::Running;
      sequence_event("boot", 2);
    }
  }
  publish();
}

}  // namespace rocca::lab::talos
