#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "lab/data_centre.hpp"
#include "lab/machines/clusters.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/sim/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rocca::lab {

namespace {

/// The hardware addresses of a VM's cards, as its config has them.
std::vector<std::string> cards_of(const pve::Datacenter& dc, const pve::Vm& vm) {
  std::vector<std::string> all;
  for (const auto& [key, value] : vm.config)
    if (key.starts_with("net"))
      if (pve::Keys keys = pve::parse_keys(dc.schema, "net", value); !keys["macaddr"].empty())
        all.push_back(keys["macaddr"]);
  return all;
}

pve::Vm* vm_of(pve::Datacenter& dc, const std::string& id, SeededEntropy& chance) {
  if (id != "any") return dc.find_vm(static_cast<unsigned>(parse_uint(id).value_or(0)));
  if (dc.vms.empty()) return nullptr;
  return &std::next(dc.vms.begin(), static_cast<std::ptrdiff_t>(chance.below(dc.vms.size())))
              ->second;
}

}  // namespace

bool Faults::do_at_home(Home& home, const TimedRule& rule, SeededEntropy& chance) {
  const std::string& what = rule.action;
  if (what == "dhcp") {
    home.lans.dhcp_answers = rule.value.as_bool().value_or(true);
  } else if (what == "foreign") {
    Service page;
    page.name = "foreign";
    page.handler = [](const net::Incoming&, const std::shared_ptr<net::Responder>& to) {
      to->answer(200, "", {}, "a printer");
    };
    home.lans.add_foreign(rule.value.text(), {{80, page}});
  } else if (what == "unpullable") {
    home.estate.clusters().refused_images[rule.value.text()] =
        "failed to pull and unpack image: failed to resolve reference: not found";
  } else if (what == "webhooks") {
    const auto late = parse_lateness(rule.value.text());
    home.estate.clusters().webhooks_late = late->first;
    home.estate.clusters().webhooks_latest = late->second;
  } else if (what == "crashing") {
    home.estate.clusters().crashing_images[rule.value.text()] =
        "back-off 40s restarting failed container";
  } else if (what == "working") {
    home.estate.clusters().crashing_images.erase(rule.value.text());
    home.estate.clusters().refused_images.erase(rule.value.text());
  } else if (what == "lease" && rule.value.text() == "all") {
    home.lans.change_all_leases();
  } else if (what == "lease" || what == "crash") {
    const pve::Vm* vm = vm_of(home.dc, rule.value.text(), chance);
    if (vm == nullptr) return true;
    if (what == "crash")
      home.estate.crash(vm->id);
    else
      for (const std::string& card : cards_of(home.dc, *vm)) home.lans.change_lease(card);
  } else {
    return false;
  }
  home.world.note("fault: " + what);
  return true;
}

void Faults::require_known(const pve::Datacenter& dc) const {
  std::vector<std::string> hosts, storages, problems;
  for (const auto& [name, node] : dc.nodes()) hosts.push_back(name);
  for (const auto& [name, storage] : dc.storages) storages.push_back(name);
  const auto want = [&](const char* what, const std::string& name,
                        const std::vector<std::string>& known) {
    if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) return;
    problems.push_back(fmt::format("a fault names the {} '{}', which is not there{}", what, name,
                                   did_you_mean(name, known)));
  };
  for (const RequestRule& rule : requests_)
    if (rule.host != "infisical") want("host", rule.host, hosts);
  for (const MachineRule& rule : machines_) want("host", rule.host, hosts);
  for (const TimedRule& rule : timed_) {
    if (rule.action == "down" || rule.action == "up") want("host", rule.value.text(), hosts);
    if (rule.action == "fill" || rule.action == "free")
      want("storage", rule.value.text(), storages);
    if (const text::Value* host = rule.action == "create" ? rule.value.find("host") : nullptr)
      want("host", host->text(), hosts);
  }
  if (!problems.empty())
    throw Error(Fault::Usage, join(problems, "\n"))
        .hint(fmt::format("hosts: {}; storages: {}", join(hosts, ", "), join(storages, ", ")));
}

void Faults::arm(Home& home) const {
  require_known(home.dc);
  arm(home.dc, [&home](const TimedRule& rule, SeededEntropy& chance) {
    return do_at_home(home, rule, chance);
  });
  arm(home.internet.infisical, home.world);
  home.estate.end_troubles();
  for (const MachineRule& rule : machines_) {
    const Trouble what = *parse_trouble(rule.trouble);
    if (rule.vmid != 0)
      home.estate.trouble(rule.vmid, what);
    else if (!rule.host.empty())
      home.estate.trouble_host(rule.host, what);
    else
      home.estate.trouble_all(what);
  }
}

}  // namespace rocca::lab
