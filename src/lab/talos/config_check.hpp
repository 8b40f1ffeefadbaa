#pragma once

#include "lab/talos/config.hpp"

#include <string>
#include <string_view>
#include <vector>

/// What Talos finds wrong in a configuration that it could read, in its words and in its order.
/// Private to config*.cpp.
namespace rocca::lab::talos {

/// Of the v1alpha1 document.
std::vector<std::string> check_main(const MachineConfig& config, std::string_view mode,
                                    bool installed, const Version& release);
/// Versions of Kubernetes that this Talos does not run; only nodes look at them.
void check_images(const MachineConfig& config, const Version& release,
                  std::vector<std::string>& errors);
/// Of any other document by itself.
std::vector<std::string> check_document(const MachineConfig::Document& document,
                                        const Version& release);
/// Documents that say what the v1alpha1 one says already.
std::vector<std::string> check_conflicts(const MachineConfig& config);
bool is_named_kind(std::string_view kind);

/// A scalar's text, or "".
std::string text_at(const text::Value& value, std::string_view key);
/// There, and neither null nor (for lists and maps) empty.
bool is_set(const text::Value& value, std::string_view key);

}  // namespace rocca::lab::talos
