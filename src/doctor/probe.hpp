#pragma once

#include "base/entropy.hpp"
#include "doctor/checkup.hpp"
#include "proxmox/client.hpp"

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::doctor {

/// What a probe does on a real Proxmox: one throw-away VM with our mark.
struct ProbePlan {
  std::string host;
  std::string image_storage;
  std::string disk_storage;
  std::string bridge;
  std::string pool;
  std::string image_url;  // a small disk image (.qcow2 or .raw)
  std::string address;    // CIDR for the cloud-init drive; empty: DHCP
  std::string gateway;
  Duration boot_wait = std::chrono::seconds{60};  // how long it may take to show life
  Duration task_wait = std::chrono::minutes{10};  // the longest any task may take
};

struct ProbeStep {
  std::string name;
  bool ok = false;
  Duration took{};
  std::string text;
};

struct Probe {
  std::vector<ProbeStep> steps;
  bool clean = false;  // nothing of ours is left behind

  bool ok() const;
};

/// Waits for a while, or until somebody wants to stop: real time for a user, virtual time in the
/// lab. Throws Interrupted once when somebody does; after that it waits, for the cleaning up.
using Pause = std::function<void(Duration)>;

/// Downloads the image, imports it into a VM, gives it a cloud-init drive, starts it, looks for
/// life, stops and destroys it, each step timed. Whatever fails, what was made is taken away again,
/// and only what proves to be ours by UUID and mark. Changes the world: only when asked.
Probe probe(proxmox::Client& client, const Clock& clock, Entropy& entropy, const ProbePlan& plan,
            const Pause& pause, const std::function<void(const ProbeStep&)>& told = {});

/// One line a step.
std::string render_text(const ProbeStep& step);
/// The steps and the verdict.
std::string render_text(const Probe& probe);
std::string verdict(const Probe& probe);
text::Value to_value(const Probe& probe);

}  // namespace rocca::doctor
