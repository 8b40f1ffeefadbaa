#pragma once

#include "text/value.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::lab::flux {

/// What a chart brings, cut to what others wait for: definitions, workloads, Services and webhook
/// configurations. Known: external-secrets, metallb, cert-manager, traefik, longhorn. Nothing: the
/// lab does not know the chart.
std::optional<std::vector<text::Value>> chart_objects(const std::string& chart,
                                                      const std::string& release,
                                                      const std::string& space);

/// A definition of a custom kind that takes anything.
text::Value open_definition(const std::string& group, const std::string& kind,
                            const std::string& plural, bool namespaced, const std::string& version);

}  // namespace rocca::lab::flux
