#pragma once

#include "text/value.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::lab::flux {

/// What a chart brings, cut to what others wait for: definitions, workloads, Services and webhook
/// configurations. Known: cilium, external-secrets, metallb, cert-manager, traefik, longhorn.
/// Nothing: the lab does not know the chart. Of the values only what Talos is particular about is
/// looked at.
std::optional<std::vector<text::Value>> chart_objects(const std::string& chart,
                                                      const std::string& release,
                                                      const std::string& space,
                                                      const text::Value* values = nullptr);

/// What `helm upgrade --install` in a Job's container is told; nothing: this Job installs nothing.
struct Installation {
  std::string chart, release, space, version;
  std::string values;  // the name of the file
  std::string config_map;
};
std::optional<Installation> installation_of(const text::Value& job);

/// A definition of a custom kind that takes anything.
text::Value open_definition(const std::string& group, const std::string& kind,
                            const std::string& plural, bool namespaced, const std::string& version);

}  // namespace rocca::lab::flux
