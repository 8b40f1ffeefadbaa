#include "adopt/proof.hpp"

#include "base/uuid.hpp"
#include "base/visible.hpp"
#include "platform/proxmox/desired_vm.hpp"
#include "state/local_store.hpp"

#include <fmt/format.h>

namespace rocca::adopt {

FirstPlan judge(const engine::Plan& plan) {
  FirstPlan first;
  for (const auto& [address, why] : plan.failed)
    first.differs.push_back(fmt::format("{} could not be read: {}", address, why));
  for (const engine::Planned& step : plan.steps) {
    const std::string kind = engine::kind_of(step.address);
    if (kind == "access" && step.change.action == engine::Action::Create) continue;
    const bool only_values = kind == "vm" && !step.change.fields.empty() &&
                             step.change.action != engine::Action::Create &&
                             step.change.action != engine::Action::Destroy;
    if (!only_values) {
      std::string line =
          fmt::format("{} {}: {}", engine::sign_of(step.change.action), step.address,
                      step.change.refusal.empty() ? step.change.reason : step.change.refusal);
      for (const engine::FieldChange& field : step.change.fields)
        line += fmt::format("\n      {}: {}", field.field, engine::to_string(field.effect));
      first.differs.push_back(std::move(line));
      continue;
    }
    for (const engine::FieldChange& field : step.change.fields) {
      if (field.field == "power")
        first.differs.push_back(step.address + " is off");
      else
        first.leave.push_back({step.address, field.field, field.before, field.after});
    }
  }
  return first;
}

state::Fields notes_for(const std::vector<FirstPlan::Value>& leave) {
  state::Fields notes;
  for (const FirstPlan::Value& value : leave)
    notes[resources::left_key(value.address, value.field)] =
        resources::left_value(value.found, value.declared);
  return notes;
}

void remember(Files& files, const Clock& clock, Entropy& entropy, const std::string& folder,
              state::State state, const std::vector<FirstPlan::Value>& leave) {
  state.lineage = to_string(Uuid::v4(entropy));
  state.notes = notes_for(leave);
  files.make_folder(folder, 0700);
  const auto store = state::local_store(files, folder);
  state::Holder holder;
  holder.id = to_string(Uuid::v4(entropy));
  holder.who = "rocca adopt";
  holder.doing = "adopt";
  holder.since = clock.now();
  holder.until = holder.since + std::chrono::minutes{1};
  const auto lock = store->lock(holder);  // no store is written without one
  store->load();
  store->replace(state);
}

std::string render(const std::vector<Left>& left, const std::vector<FirstPlan::Value>& leave) {
  std::string text;
  if (!left.empty()) text += "not taken over:\n";
  for (const Left& one : left)
    text += fmt::format("  {}: {}\n", visible(one.where), visible(one.why));
  if (!leave.empty()) text += "left as it is, because no spec can say it so:\n";
  for (const FirstPlan::Value& value : leave)
    text += fmt::format("  {} {}: {} (rocca would have {})\n", visible(value.address),
                        visible(value.field), value.found.empty() ? "absent" : visible(value.found),
                        value.declared.empty() ? "none" : visible(value.declared));
  return text;
}

}  // namespace rocca::adopt
