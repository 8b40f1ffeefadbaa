#pragma once

#include "lab/data_centre.hpp"
#include "lab/sim/wire.hpp"
#include "proxmox/client.hpp"

#include <memory>
#include <string>

namespace rocca::scenarios {

/// A simulated home, two clients of it (one with the cluster's token, one that may do anything),
/// and an image to fetch. Time is the lab's own.
struct LabRig {
  explicit LabRig(const lab::pve::Release& release,
                  std::vector<std::string> hosts = {"pve1", "pve2"}, std::uint64_t seed = 1)
      : home({.release = release, .hosts = std::move(hosts), .seed = seed}), wire(home.world) {
    lab::WebFile image;
    image.size = 80u << 20;
    image.image.format = "qcow2";
    image.image.virtual_size = 4ull << 30;
    image.image.identity = "talos v1.11.5 nocloud probe";
    home.dc.web.put(image_url, image);
  }

  static constexpr const char* image_url = "https://factory.home/talos.qcow2";

  proxmox::Access access(const std::string& token) const {
    return {{home.endpoint()}, Secret{token}, net::Tls::pinned(home.first().fingerprint)};
  }

  void pause(Duration duration) { lab::pause(home.world, parker, duration); }

  /// The task's end; throws its failure.
  void finish(proxmox::Client& client, const proxmox::Upid& upid) {
    for (int i = 0; i < 2000; ++i) {
      const auto task = client.find_task(upid);
      if (task && !task->running) {
        if (const auto failure = task->failure()) throw failure->error("task " + upid.type);
        return;
      }
      pause(std::chrono::seconds{1});
    }
    throw Error(Fault::Timeout, "task " + upid.type + " does not end");
  }

  lab::Home home;
  lab::InlineParker parker;
  lab::Wire wire;
};

}  // namespace rocca::scenarios
