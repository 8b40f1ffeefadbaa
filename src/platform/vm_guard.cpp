#include "platform/vm_guard.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

bool is_template(const SeenVm& vm) {
  return vm.row.is_template || vm.config.value_or("template", "0") == "1";
}

bool carries(const SeenVm& vm, const std::string& nonce) {
  if (nonce.empty()) return false;
  const std::string* notes = vm.config.find("description");
  return notes != nullptr && notes->find(nonce) != std::string::npos;
}

std::string mark_of(const engine::Identity& identity) {
  return engine::ownership_mark(identity.cluster, identity.node);
}

/// What one VM shows by itself.
struct Signs {
  engine::Shown shown;
  engine::Ownership ownership = engine::Ownership::Foreign;
  std::string reason;
  bool uuid = false;
  bool mark = false;
  bool nonce = false;
};

Signs signs_of(const SeenVm& vm, const ExpectedVm& expected) {
  Signs signs;
  signs.shown = shown_of(vm.row, vm.config);
  if (vm.row.is_container) {
    signs.reason = signs.shown.where + " is a container";
    return signs;
  }
  const engine::Proof proof = engine::prove(signs.shown, expected.identity);
  signs.ownership = proof.ownership;
  signs.reason = proof.reason;
  signs.uuid = signs.shown.uuid == expected.identity.uuid;
  signs.mark = signs.shown.family == engine::ownership_family &&
               signs.shown.sku == mark_of(expected.identity);
  signs.nonce = carries(vm, expected.nonce);
  return signs;
}

/// The nonce proves a clone only where rocca put it: at the id that it asked for, on a VM that
/// still has the template's identity.
bool is_fresh_clone(const SeenVm& vm, const Signs& signs, const ExpectedVm& expected) {
  return signs.nonce && !expected.identity.adopted_vmid && expected.vmid == vm.row.vmid &&
         !is_template(vm) && !signs.uuid && signs.shown.family.empty() && signs.shown.sku.empty();
}

std::string twins_text(const std::vector<std::string>& names, const ExpectedVm& expected) {
  const bool two = names.size() == 2;
  return fmt::format("{} {} prove to be {}: a restored backup? {} is touched", enumerate(names),
                     two ? "both" : "all", mark_of(expected.identity),
                     two ? "Neither" : "None of them");
}

}  // namespace

const char* to_string(VmStanding standing) noexcept {
  switch (standing) {
    case VmStanding::Ours:
      return "ours";
    case VmStanding::OurClone:
      return "our clone";
    case VmStanding::Twin:
      return "twin";
    case VmStanding::HasUuid:
      return "has our UUID";
    case VmStanding::HasMark:
      return "has our mark";
    case VmStanding::Foreign:
      return "foreign";
  }
  return "?";
}

std::vector<VmVerdict> VmGuard::judge(const std::vector<SeenVm>& seen, const ExpectedVm& expected) {
  std::vector<Signs> all;
  std::vector<std::string> proved, with_nonce;
  bool ours = false;
  for (const SeenVm& vm : seen) {
    const Signs& signs = all.emplace_back(signs_of(vm, expected));
    ours = ours || signs.ownership == engine::Ownership::Ours;
    // An adopted VM has no mark: a second VM with its UUID has the same proof, whatever its id is.
    if (signs.ownership == engine::Ownership::Ours ||
        (expected.identity.adopted_vmid && signs.uuid))
      proved.push_back(signs.shown.where);
    if (signs.nonce) with_nonce.push_back(signs.shown.where);
  }
  std::vector<VmVerdict> verdicts;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Signs& signs = all[i];
    const auto own = [&] { return proxmox::OwnedVm{seen[i].row.node, seen[i].row.vmid}; };
    const bool has_proof = signs.ownership == engine::Ownership::Ours ||
                           (expected.identity.adopted_vmid && signs.uuid);
    if (has_proof && proved.size() > 1)
      verdicts.push_back({VmStanding::Twin, twins_text(proved, expected)});
    else if (signs.ownership == engine::Ownership::Ours)
      verdicts.push_back({VmStanding::Ours, signs.reason, own()});
    else if (signs.uuid)
      verdicts.push_back({VmStanding::HasUuid, signs.reason});
    else if (signs.mark)
      verdicts.push_back({VmStanding::HasMark, signs.reason});
    else if (signs.nonce && with_nonce.size() > 1)
      verdicts.push_back({VmStanding::Twin, twins_text(with_nonce, expected)});
    else if (is_fresh_clone(seen[i], signs, expected) && !ours)
      verdicts.push_back({VmStanding::OurClone,
                          fmt::format("{} is the clone that was asked for as {}", signs.shown.where,
                                      mark_of(expected.identity)),
                          own()});
    else
      verdicts.push_back({VmStanding::Foreign, signs.reason});
  }
  return verdicts;
}

VmGuard::Claim VmGuard::may_claim(const std::vector<SeenVm>& seen, std::size_t index,
                                  const ExpectedVm& expected,
                                  const std::vector<engine::Identity>& others) {
  const SeenVm& vm = seen.at(index);
  const Signs signs = signs_of(vm, expected);
  const std::string& where = signs.shown.where;
  const auto refuse = [](std::string why) { return Claim{std::move(why)}; };
  if (vm.row.is_container) return refuse(where + " is not a VM");
  if (is_template(vm)) return refuse(where + " is a template, and a node runs");
  if (expected.identity.adopted_vmid)
    return refuse(
        fmt::format("{} was adopted: it is known by the UUID {} in rocca.lock and has no "
                    "mark",
                    expected.identity.node, to_string(expected.identity.uuid)));
  if (const std::string lock = vm.config.value_or("lock", ""); !lock.empty())
    return refuse(fmt::format("{} is locked ({})", where, lock));
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (const Signs other = signs_of(seen[i], expected); i != index && other.uuid)
      return refuse(fmt::format("{} already has the UUID of {}", other.shown.where,
                                mark_of(expected.identity)));
  if (signs.ownership == engine::Ownership::Ours) return {"", true, {}};
  if (!signs.mark && signs.shown.family == engine::ownership_family)
    return refuse(fmt::format("{} carries the mark {}", where, signs.shown.sku));
  for (const engine::Identity& other : others)
    if (signs.shown.uuid == other.uuid)
      return refuse(fmt::format("{} has the UUID of {}", where, mark_of(other)));
  return {"", false, proxmox::OwnedVm{vm.row.node, vm.row.vmid}};
}

std::string clone_notes(const engine::Identity& identity, const std::string& nonce) {
  return fmt::format("rocca is creating {} from a template: {}", mark_of(identity), nonce);
}

engine::Shown shown_of(const proxmox::VmRow& row, const proxmox::VmConfig& config) {
  proxmox::VmRow named = row;
  // The list's names lag; the configuration's do not.
  if (const std::string* name = config.find("name")) named.name = *name;
  return {describe(named), config.uuid(), config.smbios("family").value_or(""),
          config.smbios("sku").value_or(""), row.vmid};
}

std::string describe(const proxmox::VmRow& row) {
  return fmt::format("{} {}{} on {}", row.is_container ? "container" : "VM", row.vmid,
                     row.name.empty() ? "" : fmt::format(" '{}'", row.name), row.node);
}

}  // namespace rocca::resources
