#include "seeds/promises.hpp"

#include "base/encoding.hpp"
#include "engine/guards.hpp"
#include "proxmox/types.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::seeds {

namespace {

std::string config_of(const lab::pve::Vm& vm) {
  std::string text = fmt::format("on {}\n", vm.node);
  for (const auto* section : {&vm.config, &vm.pending})
    for (const auto& [key, value] : *section) text += fmt::format("{}: {}\n", key, value);
  return text;
}

std::string text_of(const lab::pve::Vm& vm) {
  return fmt::format("{} {}", static_cast<int>(vm.power), config_of(vm));
}

}  // namespace

void Needles::add(std::string word) {
  if (word.size() < 2) throw Error(Fault::Bug, "too short to look for");
  begins_.set(pair_at(word, 0));
  words_.push_back(std::move(word));
}

bool Needles::in(std::string_view text) const {
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    if (!begins_[pair_at(text, at)]) continue;
    for (const std::string& word : words_)
      if (text.substr(at).starts_with(word)) return true;
  }
  return false;
}

net::Response QuorumWatch::exchange(const net::Request& request, net::BodySink& sink,
                                    std::stop_token stop) {
  // Also on the way out of an exchange that failed. Catching it only to throw it once more would
  // take longer than all the rest.
  struct AtTheEnd {
    QuorumWatch& watch;
    const net::Request& of;
    ~AtTheEnd() { watch.look(of); }
  } const at_the_end{*this, request};
  return inner->exchange(request, sink, stop);
}

void QuorumWatch::look(const net::Request& request) {
  // Whoever took a host away took its members too. It may be back before an exchange has ended.
  const std::uint64_t lost = hosts_lost ? hosts_lost() : 0;
  if (lost != lost_before_ || (is_restless && is_restless())) had_ = false;
  lost_before_ = lost;
  std::shared_ptr<lab::talos::EtcdCluster> cluster;
  for (const lab::talos::TalosNode* node : rig_.home.estate.fleet().nodes())
    if (node->powered() && node->etcd()) cluster = node->etcd();
  std::size_t voters = 0;
  if (cluster)
    for (const auto& member : cluster->members()) voters += !member.learner;
  const bool has = cluster && cluster->has_quorum() && voters >= 3;
  if (watches && had_ && !has && voters >= 3 && broken.empty())
    broken = fmt::format("etcd lost its quorum at {} {}", request.method, request.url);
  had_ = has;
}

Promises::Promises(scenarios::ClusterRig& rig) : rig_(rig) {
  const secrets::Bundle& bundle = *rig.bundle;
  const auto add = [&](const Secret& secret) { secrets_.add(std::string(secret.reveal())); };
  for (const Secret* secret : {&bundle.cluster_secret, &bundle.bootstrap_token,
                               &bundle.secretbox_secret, &bundle.trustd_token})
    if (!secret->reveal().empty()) add(*secret);
  // A line out of the middle of a key is a leak as well.
  for (const secrets::AuthorityPem* authority :
       {&bundle.etcd, &bundle.kubernetes, &bundle.aggregator, &bundle.os})
    for (const std::string& line : split(authority->key.reveal(), '\n'))
      if (line.size() >= 40 && !line.starts_with("-----")) secrets_.add(line);
  secrets_.add(rig.home.token.substr(rig.home.token.find('=') + 1));
}

void Promises::add_foreign(unsigned vmid, const std::string& host, lab::pve::ConfigSection config) {
  lab::pve::Vm vm;
  vm.id = vmid;
  vm.node = host;
  vm.config = std::move(config);
  vm.broadcast = {true, vm.config["name"], "stopped", false};
  rig_.home.dc.vms[vmid] = vm;
  foreign_[vmid] = vm;
}

void Promises::remove_foreign(unsigned vmid) {
  foreign_.erase(vmid);
  rig_.home.dc.vms.erase(vmid);
}

std::vector<unsigned> Promises::ours() const {
  std::vector<unsigned> all;
  for (const auto& [vmid, vm] : rig_.home.dc.vms)
    if (!foreign_.contains(vmid) && !machines_.contains(vmid)) all.push_back(vmid);
  return all;
}

void Promises::check() {
  check_foreign();
  check_machines();
  check_marks();
  const std::size_t bootstraps = rig_.home.estate.bootstraps().size();
  if (bootstraps > lives) throw Broken{fmt::format("{} bootstraps in {} lives", bootstraps, lives)};
  check_files("/clusters/blue");
}

void Promises::check_up(const engine::Plan& second, std::size_t vms) {
  const auto left = scenarios::differences(second);
  if (!left.empty()) throw Broken{"the second plan is not empty:\n" + join(left, "\n")};
  for (const unsigned vmid : ours())
    if (is_fresh_clone(rig_.home.dc.vms.at(vmid)))
      throw Broken{fmt::format("VM {} has no mark", vmid)};
  if (ours().size() != vms) throw Broken{fmt::format("{} VMs for {} nodes", ours().size(), vms)};
  const std::size_t bootstraps = rig_.home.estate.bootstraps().size();
  if (bootstraps != lives)
    throw Broken{fmt::format("{} bootstraps in {} lives", bootstraps, lives)};
  for (const lab::Truth& truth : rig_.home.estate.truths())
    if (!is_foreign(truth.vmid) && truth.stage != lab::talos::Stage::Running &&
        (!machines_.contains(truth.vmid) || wanted_machines.contains(truth.vmid)))
      throw Broken{fmt::format("VM {} '{}' is {}", truth.vmid, truth.hostname,
                               lab::talos::to_string(truth.stage))};
  for (const auto& [vmid, node] : wanted_machines)
    if (const std::string name = rig_.home.estate.truth(vmid).hostname; name != node)
      throw Broken{fmt::format("machine {} is '{}' and should be {}", vmid, name, node)};
}

std::map<unsigned, std::string> Promises::configurations() const {
  std::map<unsigned, std::string> all;
  for (const auto& [vmid, machine] : machines_) all[vmid] = rig_.home.estate.truth(vmid).config;
  return all;
}

void Promises::check_down(const std::map<unsigned, std::string>& before, Reset reset) {
  for (const auto& [vmid, config] : configurations()) {
    const bool resets = reset != Reset::None && wanted_machines.contains(vmid);
    const bool configured = rig_.home.estate.truth(vmid).configured;
    if (reset == Reset::All && resets && configured)
      throw Broken{fmt::format("down did not reset machine {}", vmid)};
    if (config != before.at(vmid) && (!resets || configured))
      throw Broken{fmt::format("down did not leave machine {} alone", vmid)};
  }
  if (const auto left = ours(); !left.empty())
    throw Broken{fmt::format("down left VM {} behind", left.front())};
  for (const auto& [id, storage] : rig_.home.dc.storages)
    for (const auto& [host, volumes] : storage.volumes)
      for (const auto& [name, volume] : volumes)
        if (volume.vmid && !is_foreign(*volume.vmid) && !machines_.contains(*volume.vmid))
          throw Broken{fmt::format("down left volume {}:{} behind on {}", id, name, host)};
}

void Promises::check_text(const std::string& text, const std::string& what) const {
  if (secrets_.in(text)) throw Broken{fmt::format("there is a secret in {}", what)};
}

void Promises::check_foreign() const {
  for (const auto& [vmid, before] : foreign_) {
    const auto found = rig_.home.dc.vms.find(vmid);
    if (found == rig_.home.dc.vms.end())
      throw Broken{fmt::format("foreign VM {} '{}' is gone", vmid, before.config.at("name"))};
    if (text_of(found->second) != text_of(before))
      throw Broken{fmt::format("foreign VM {} was touched:\n{}before:\n{}", vmid,
                               text_of(found->second), text_of(before))};
  }
}

void Promises::check_machines() const {
  for (const auto& [vmid, before] : machines_) {
    const auto found = rig_.home.dc.vms.find(vmid);
    if (found == rig_.home.dc.vms.end())
      throw Broken{fmt::format("machine {}, which was there before, is gone", vmid)};
    if (config_of(found->second) != config_of(before))
      throw Broken{fmt::format("machine {}, which was there before, was changed:\n{}before:\n{}",
                               vmid, config_of(found->second), config_of(before))};
  }
}

bool Promises::is_fresh_clone(const lab::pve::Vm& vm) const {
  const std::string* notes = vm.find("description");
  const std::string* smbios = vm.find("smbios1");
  if (!clones || notes == nullptr ||
      (smbios != nullptr && smbios->find("sku=") != std::string::npos))
    return false;
  return std::any_of(nodes.begin(), nodes.end(), [&](const std::string& node) {
    return notes->starts_with(fmt::format("rocca is creating blue/{} from a template: ", node));
  });
}

void Promises::check_marks() const {
  std::map<std::string, unsigned> owners;
  for (const auto& [vmid, vm] : rig_.home.dc.vms) {
    if (foreign_.contains(vmid) || machines_.contains(vmid)) continue;
    const std::string* text = vm.find("smbios1");
    // While Proxmox makes one, its file says nothing but that.
    if (text == nullptr && vm.find("lock") != nullptr) continue;
    if (is_fresh_clone(vm)) continue;
    const auto smbios = text == nullptr ? std::nullopt : proxmox::Smbios::parse(*text);
    if (!smbios || smbios->family != "rocca" || !smbios->sku.starts_with("blue/"))
      throw Broken{fmt::format("VM {} has no owner: {}", vmid, text_of(vm))};
    const std::string node = smbios->sku.substr(5);
    if (!nodes.contains(node))
      throw Broken{fmt::format("VM {} is for {}, which no spec ever named", vmid, node)};
    if (smbios->uuid != engine::derive_uuid(rig_.bundle->cluster_id, node))
      throw Broken{fmt::format("VM {} has the mark of {} and another UUID", vmid, node)};
    const auto [other, is_new] = owners.emplace(node, vmid);
    if (!is_new)
      throw Broken{fmt::format("VM {} and VM {} both are {}", other->second, vmid, node)};
  }
}

void Promises::check_files(const std::string& folder) {
  for (const std::string& name : rig_.files.list(folder)) {
    const std::string path = folder + "/" + name;
    const auto status = rig_.files.status(path);
    if (status && status->folder) {
      if (name != "configs") check_files(path);
      continue;
    }
    const auto content = rig_.files.find(path);
    if (!content || looked_at_[path] == *content) continue;
    check_text(*content, path);
    looked_at_[path] = *content;
  }
  for (const char* access : {"kubeconfig", "talosconfig"}) {
    const auto status = rig_.files.status(std::string("/clusters/blue/configs/") + access);
    if (status && status->mode != 0600u)
      throw Broken{fmt::format("configs/{} has the mode {:o}", access, status->mode)};
  }
}

}  // namespace rocca::seeds
