#include "machine/kubernetes_upgrade.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

std::string name_of(const Version& version) {
  return "v" + to_string(version);
}

std::string minor_of(const Version& version) {
  return fmt::format("v{}.{}", version.major(), version.minor());
}

/// By how many minor versions `old` is older; negative: it is newer.
std::int64_t minors_older(const Version& old, const Version& than) {
  constexpr std::int64_t other_major = 1000;  // never supported
  if (old.major() != than.major()) return old < than ? other_major : -other_major;
  return static_cast<std::int64_t>(than.minor()) - static_cast<std::int64_t>(old.minor());
}

/// How many minor versions a component may be older than an API server.
std::int64_t may_be_older(Component component) {
  return component == Component::Kubelet || component == Component::Proxy ? 3 : 1;
}

VersionRefusal unknown_version(const std::string& node, Component component,
                               const std::string& image) {
  return {fmt::format("the image of {} on {} names no version ('{}'), so that rocca cannot tell "
                      "whether this is a supported upgrade",
                      to_string(component), node, image),
          fmt::format("name a version in the tag of {}", talos::image_path(component))};
}

}  // namespace

engine::Verdict may_step(const Version& from, const Version& to) {
  if (to < from)
    return {false, fmt::format("{} → {} is a downgrade, which Kubernetes does not support",
                               name_of(from), name_of(to))};
  const std::int64_t minors = minors_older(from, to);
  if (minors > 1)
    return {false,
            fmt::format("{} → {} skips {}: Kubernetes is upgraded one minor version at a "
                        "time",
                        name_of(from), name_of(to),
                        minors == 2 ? fmt::format("v{}.{}", from.major(), from.minor() + 1)
                                    : fmt::format("v{}.{} to v{}.{}", from.major(),
                                                  from.minor() + 1, to.major(), to.minor() - 1))};
  return {true, ""};
}

engine::Verdict may_run_beside(Component component, const Version& version,
                               const Version& api_server) {
  const std::int64_t older = minors_older(version, api_server);
  if (component == Component::ApiServer) {
    if (older <= 1 && older >= -1) return {true, ""};
    return {false, fmt::format("API servers {} and {} are more than one minor version apart",
                               name_of(version), name_of(api_server))};
  }
  if (older < 0)
    return {false, fmt::format("{} {} is newer than the API server {}", to_string(component),
                               name_of(version), name_of(api_server))};
  if (older > may_be_older(component))
    return {false, fmt::format("{} {} is more than {} older than the API server {}",
                               to_string(component), name_of(version),
                               may_be_older(component) == 1
                                   ? "one minor version"
                                   : fmt::format("{} minor versions", may_be_older(component)),
                               name_of(api_server))};
  return {true, ""};
}

std::optional<VersionRefusal> refuse_step(const std::string& node, const KubernetesImages& live,
                                          const KubernetesImages& desired) {
  for (const Component component : talos::components) {
    const std::string& before = live.of(component);
    const std::string& after = desired.of(component);
    if (before == after || after.empty()) continue;
    const auto from = talos::image_version(before), to = talos::image_version(after);
    if (!from || !to) return unknown_version(node, component, from ? after : before);
    const engine::Verdict verdict = may_step(*from, *to);
    if (verdict.allowed) continue;
    const std::string hint =
        *to < *from
            ? fmt::format("set kubernetes.version to {}, or finish the upgrade that was begun",
                          name_of(*from))
            : fmt::format(
                  "set kubernetes.version to a release of v{}.{}, run `rocca up`, then go "
                  "on to {} in the same way",
                  from->major(), from->minor() + 1, minor_of(*to));
    return VersionRefusal{fmt::format("{} of {}: {}", to_string(component), node, verdict.reason),
                          hint};
  }
  return std::nullopt;
}

std::optional<VersionRefusal> refuse_images(const std::string& node,
                                            const KubernetesImages& desired,
                                            const Version& kubernetes) {
  for (const Component component : talos::components) {
    const std::string& image = desired.of(component);
    if (image.empty()) continue;
    const auto version = talos::image_version(image);
    if (!version) return unknown_version(node, component, image);
    const std::string hint = fmt::format(
        "take {} out of talos.patches, or name a version there that kubernetes.version "
        "{} supports",
        talos::image_path(component), name_of(kubernetes));
    if (component == Component::ApiServer && *version != kubernetes)
      return VersionRefusal{
          fmt::format("a patch sets {} of {} to {}, and kubernetes.version is {}",
                      to_string(component), node, name_of(*version), name_of(kubernetes)),
          hint};
    engine::Verdict verdict = may_run_beside(component, *version, kubernetes);
    if (verdict.allowed && *version > kubernetes)
      verdict = {false, fmt::format("{} {} is newer than kubernetes.version {}",
                                    to_string(component), name_of(*version), name_of(kubernetes))};
    if (!verdict.allowed)
      return VersionRefusal{
          fmt::format("a patch of {} is not supported by Kubernetes: {}", node, verdict.reason),
          hint};
  }
  return std::nullopt;
}

std::string wait_before(Component component, bool worker, const KubernetesImages& live,
                        const KubernetesImages& desired, const std::vector<Plane>& planes) {
  const auto from = talos::image_version(live.of(component));
  const auto to = talos::image_version(desired.of(component));
  if (!to || (from && *to <= *from)) return "";
  if (component == Component::ApiServer) {
    for (const Plane& plane : planes)
      if (const auto other = talos::image_version(plane.live.of(component));
          other && !may_run_beside(component, *to, *other).allowed)
        return fmt::format("the API server of {} to leave {}", plane.node, name_of(*other));
    return "";
  }
  for (const Component earlier : talos::components) {
    if (earlier == component && !(worker && component == Component::Kubelet)) break;
    for (const Plane& plane : planes) {
      const std::string& wanted = plane.desired.of(earlier);
      if (!wanted.empty() && plane.live.of(earlier) != wanted)
        return fmt::format("{} of {} to be upgraded first", to_string(earlier), plane.node);
      if (earlier != Component::ApiServer) continue;
      // Its configuration is there before its pod: what it says itself counts.
      const auto declared = talos::image_version(plane.live.of(earlier));
      if (!plane.serves) return fmt::format("the API server of {} to answer", plane.node);
      if (declared && *plane.serves != *declared)
        return fmt::format("the API server of {} to become {} (it is {})", plane.node,
                           name_of(*declared), name_of(*plane.serves));
      if (!may_run_beside(component, *to, *plane.serves).allowed)
        return fmt::format("the API server of {} to leave {}", plane.node, name_of(*plane.serves));
    }
  }
  return "";
}

}  // namespace rocca::resources
