#include "talosconfig/images.hpp"

#include "base/error.hpp"
#include "talosconfig/codec.hpp"
#include "text/yaml.hpp"

#include <utility>
#include <vector>

namespace rocca::talos {

namespace {

using text::Value;

struct Place {
  std::string_view part, section;
};

Place place_of(Component component) {
  switch (component) {
    case Component::ApiServer:
      return {"cluster", "apiServer"};
    case Component::ControllerManager:
      return {"cluster", "controllerManager"};
    case Component::Scheduler:
      return {"cluster", "scheduler"};
    case Component::Proxy:
      return {"cluster", "proxy"};
    case Component::Kubelet:
      return {"machine", "kubelet"};
  }
  return {};
}

std::vector<ConfigDocument> read(std::string_view config, unsigned minor) {
  ConfigProblems problems;
  auto documents = decode_config(text::parse_yaml_stream(config, "configuration"), minor, problems);
  if (!problems.empty()) throw Error(Fault::Usage, to_string(problems.front(), "configuration"));
  return documents;
}

/// The section that names a component's image; nullptr: this configuration has none.
template <class Document>
auto section_of(Document& document, Component component) {
  const Place place = place_of(component);
  return document.value.find({place.part, place.section});
}

}  // namespace

const char* to_string(Component component) noexcept {
  switch (component) {
    case Component::ApiServer:
      return "kube-apiserver";
    case Component::ControllerManager:
      return "kube-controller-manager";
    case Component::Scheduler:
      return "kube-scheduler";
    case Component::Proxy:
      return "kube-proxy";
    case Component::Kubelet:
      return "kubelet";
  }
  return "";
}

std::string image_path(Component component) {
  const Place place = place_of(component);
  return std::string(place.part) + "." + std::string(place.section) + ".image";
}

KubernetesImages kubernetes_images(std::string_view config, unsigned minor) {
  KubernetesImages images;
  for (const ConfigDocument& document : read(config, minor)) {
    if (document.type != nullptr) continue;
    for (const Component component : components)
      if (const Value* section = section_of(document, component))
        if (const Value* image = section->find("image")) images.of(component) = image->text();
  }
  return images;
}

Secret keep_images(const Secret& config, const KubernetesImages& old,
                   const std::set<Component>& kept, unsigned minor) {
  std::vector<ConfigDocument> documents = read(config.reveal(), minor);
  for (ConfigDocument& document : documents) {
    if (document.type != nullptr) continue;
    for (const Component component : kept)
      if (Value* section = section_of(document, component))
        section->set("image", Value::string(old.of(component)));
  }
  return Secret::take(encode_config(documents, minor));
}

std::optional<Version> image_version(std::string_view image) {
  image = image.substr(0, image.find('@'));
  const auto colon = image.rfind(':');
  if (colon == std::string_view::npos || image.find('/', colon) != std::string_view::npos)
    return std::nullopt;
  std::string_view tag = image.substr(colon + 1);
  for (const std::string_view flavour : {"-fat", "-slim"})
    if (tag.ends_with(flavour)) tag.remove_suffix(flavour.size());
  return Version::parse(tag);
}

}  // namespace rocca::talos
