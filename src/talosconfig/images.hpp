#pragma once

#include "base/secret.hpp"
#include "base/version.hpp"

#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace rocca::talos {

/// The parts of Kubernetes whose versions a machine configuration names, in the order in which
/// `talosctl upgrade-k8s` changes them.
enum class Component { ApiServer, ControllerManager, Scheduler, Proxy, Kubelet };
constexpr std::array components{Component::ApiServer, Component::ControllerManager,
                                Component::Scheduler, Component::Proxy, Component::Kubelet};
const char* to_string(Component component) noexcept;  // "kube-apiserver"
/// "cluster.apiServer.image".
std::string image_path(Component component);

/// The images of one configuration; empty where it names none. A worker has only a kubelet's.
struct KubernetesImages {
  std::array<std::string, components.size()> images;

  std::string& of(Component component) { return images[static_cast<std::size_t>(component)]; }
  const std::string& of(Component component) const {
    return images[static_cast<std::size_t>(component)];
  }
  friend bool operator==(const KubernetesImages&, const KubernetesImages&) = default;
};

/// Throws Error(Usage) for a text that is not a configuration of this Talos.
KubernetesImages kubernetes_images(std::string_view config, unsigned minor);
/// The configuration with the images of these components as they are in `old`.
Secret keep_images(const Secret& config, const KubernetesImages& old,
                   const std::set<Component>& kept, unsigned minor);

/// The version in an image's tag, without the kubelet's `-fat` and `-slim`; nothing: the tag is not
/// a version.
std::optional<Version> image_version(std::string_view image);

}  // namespace rocca::talos
