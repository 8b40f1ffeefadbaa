#pragma once

#include "support/reference.hpp"
#include "text/json.hpp"

#include <functional>
#include <string>
#include <vector>

namespace rocca::proxmox {

/// One recorded step with the names a message about it needs.
struct RecordedStep {
  std::string where;  // file/scenario/step
  const text::Value& scenario;
  const text::Value& step;
};

/// A member of an object as text, empty if it is not there.
inline std::string text_at(const text::Value& object,
                           std::initializer_list<std::string_view> path) {
  const text::Value* value = object.find(path);
  return value == nullptr || !value->is_scalar() || value->is_null() ? std::string{}
                                                                     : value->text();
}

/// Calls `visit` for every step of every scenario of every recording, of 8.4 and of 9.1.
inline void for_each_recorded_step(const std::function<void(const RecordedStep&)>& visit) {
  for (const std::string folder : {"pve", "pve-more", "pve9"})
    for (const std::string& file : test::reference_files(folder, ".json")) {
      text::Limits limits;
      limits.size = 64 * 1024 * 1024;
      const text::Value root = text::parse_json(test::read_file(file), file, limits);
      const text::Value* scenarios = root.find("scenarios");
      if (scenarios == nullptr) continue;
      const std::string name = folder + file.substr(file.rfind('/'));
      for (const text::Value& scenario : scenarios->items())
        for (const text::Value& step : scenario.find("steps")->items())
          visit({name + "/" + text_at(scenario, {"name"}) + "/" + text_at(step, {"name"}), scenario,
                 step});
    }
}

}  // namespace rocca::proxmox
