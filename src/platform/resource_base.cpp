#include "platform/resource_base.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "platform/survey.hpp"
#include "proxmox/task_cause.hpp"
#include "secrets/crypto.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

using namespace std::chrono_literals;

std::string digest(std::string_view text) {
  return to_hex(secrets::crypto::sha256(text));
}

std::string digest(const Fields& fields) {
  std::string all;
  for (const auto& [name, value] : fields)
    all += fmt::format("{}:{}={}:{}\n", name.size(), name, value.size(), value);
  return digest(all);
}

std::string Thing::wanted() const {
  Fields all = wishes();
  all["address"] = address();
  return digest(all);
}

Change create(std::string reason) {
  Change change;
  change.action = Action::Create;
  change.reason = std::move(reason);
  change.effect = Effect::Live;
  return change;
}

Change refuse(std::string reason, std::string hint) {
  Change change;
  change.refusal = std::move(reason);
  change.hint = std::move(hint);
  return change;
}

void conclude(Change& change) {
  if (change.fields.empty()) return;
  std::vector<std::string> names;
  for (const FieldChange& field : change.fields) {
    names.push_back(field.field);
    change.effect = std::max(change.effect, field.effect);
  }
  change.action = change.effect >= Effect::Replace ? Action::Replace : Action::Update;
  if (change.reason.empty())
    change.reason =
        fmt::format("{} {}", enumerate(names), names.size() == 1 ? "differs" : "differ");
}

Change compare(const Fields& wanted, const Fields& found,
               const std::map<std::string, Effect>& effects, Effect otherwise) {
  Change change;
  for (const auto& [name, value] : wanted) {
    const auto other = found.find(name);
    const std::string before = other == found.end() ? "" : other->second;
    if (before == value) continue;
    const auto effect = effects.find(name);
    change.fields.push_back(
        {name, before, value, effect == effects.end() ? otherwise : effect->second});
  }
  conclude(change);
  return change;
}

std::string fact(const std::optional<Fields>& facts, const std::string& name) {
  if (!facts) return "";
  const auto found = facts->find(name);
  return found == facts->end() ? "" : found->second;
}

Lane host_lane(const std::string& host) {
  Lane lane{"pve/" + host, proxmox::Lanes::per_host, Lane::Hold::Call};
  lane.shared = true;
  return lane;
}

Lane disturbing_lane() {
  return {"disturb", 1, Lane::Hold::Act, "one control plane at a time", false, /*in_plan=*/true};
}

std::vector<Lane> worker_lanes(std::size_t workers, const std::string& what) {
  if (workers < 2) return {};
  constexpr std::size_t most_workers = 10;
  const auto width = static_cast<unsigned>(std::clamp<std::size_t>(workers / 4, 1, most_workers));
  const std::string turn = width == 1 ? "one worker at a time"
                                      : fmt::format("one worker first, then {} at a time", width);
  return {{"disturb/workers", width, Lane::Hold::Step, turn, false, /*in_plan=*/true},
          {"disturb/workers/" + what, width, Lane::Hold::Step, turn, /*one_first=*/true}};
}

std::string our_name(const World& world) {
  const std::string token{world.cluster.proxmox->token.reveal()};
  return token.substr(0, token.find('='));
}

Progress follow_task(World& world, const std::string& upid, const std::string& doing) {
  const auto parsed = proxmox::Upid::parse(upid);
  if (!parsed) return Ready{};
  const auto task = world.survey.task(world.proxmox(), *parsed);
  const std::string waiting = fmt::format("Proxmox task {} on {}", parsed->type, parsed->node);
  if (!task || task->running) return NotYet{waiting, world.survey.ask_again(*parsed)};
  if (!task->ok()) throw proxmox::explain_failure(world.proxmox(), *task).error(doing);
  return Ready{};
}

}  // namespace rocca::resources
