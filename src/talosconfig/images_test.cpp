#include "talosconfig/images.hpp"

#include "talosconfig/effects.hpp"

#include <gmock/gmock.h>

namespace rocca::talos {
namespace {

constexpr const char* plane = R"(version: v1alpha1
machine:
  type: controlplane
  kubelet: { image: "ghcr.io/siderolabs/kubelet:v1.33.1-slim" }
cluster:
  apiServer: { image: "registry.k8s.io/kube-apiserver:v1.33.1" }
  controllerManager: { image: "registry.k8s.io/kube-controller-manager:v1.33.1" }
  proxy: { disabled: true, image: "registry.k8s.io/kube-proxy:v1.33.1" }
  scheduler: { image: "registry.k8s.io/kube-scheduler:v1.33.1" }
---
apiVersion: v1alpha1
kind: HostnameConfig
hostname: cp-1
)";

TEST(Images, AreReadAndKept) {
  const Secret whole = keep_images(Secret{plane}, {}, {}, 13);  // as Talos writes it
  const KubernetesImages images = kubernetes_images(whole.reveal(), 13);
  EXPECT_EQ(images.of(Component::ApiServer), "registry.k8s.io/kube-apiserver:v1.33.1");
  EXPECT_EQ(images.of(Component::Kubelet), "ghcr.io/siderolabs/kubelet:v1.33.1-slim");
  KubernetesImages old = images;
  for (std::string& image : old.images) image = image.substr(0, image.rfind(':')) + ":v1.32.0";
  const Secret kept = keep_images(whole, old, {Component::Kubelet, Component::Scheduler}, 13);
  const KubernetesImages after = kubernetes_images(kept.reveal(), 13);
  for (const Component component : components) {
    const bool held = component == Component::Kubelet || component == Component::Scheduler;
    EXPECT_EQ(after.of(component), (held ? old : images).of(component)) << to_string(component);
  }
  // Nothing else differs.
  EXPECT_EQ(keep_images(whole, old, {}, 13).reveal(), whole.reveal());
  for (const ConfigChange& change : effects_of_change(whole.reveal(), kept.reveal(), 13))
    EXPECT_THAT(change.path, testing::AnyOf("machine.kubelet", "cluster.scheduler"));
}

TEST(Images, OfAWorkerAreItsKubelets) {
  const KubernetesImages images = kubernetes_images(
      "version: v1alpha1\nmachine: { type: worker, kubelet: { image: 'a/b:v1.33.1' } }\n", 13);
  for (const Component component : components)
    EXPECT_EQ(images.of(component), component == Component::Kubelet ? "a/b:v1.33.1" : "");
}

TEST(Images, NameTheirVersionInTheirTag) {
  struct Row {
    const char* image;
    const char* version;  // empty: none
  };
  for (const Row& row :
       {Row{"registry.k8s.io/kube-apiserver:v1.33.1", "1.33.1"},
        Row{"ghcr.io/siderolabs/kubelet:v1.33.1-fat", "1.33.1"},
        Row{"ghcr.io/siderolabs/kubelet:v1.33.1-slim", "1.33.1"},
        Row{"a:1.2.3@sha256:abc", "1.2.3"}, Row{"mirror.home:5000/a:v1.2.3", "1.2.3"},
        Row{"a:v1.34.0-rc.1", "1.34.0-rc.1"}, Row{"mirror.home:5000/a", ""}, Row{"a:latest", ""},
        Row{"a@sha256:abc", ""}, Row{"", ""}}) {
    const auto version = image_version(row.image);
    EXPECT_EQ(version ? to_string(*version) : "", row.version) << row.image;
  }
}

}  // namespace
}  // namespace rocca::talos
