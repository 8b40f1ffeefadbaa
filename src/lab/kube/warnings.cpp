#include "lab/kube/warnings.hpp"

#include "base/encoding.hpp"
#include "lab/kube/json.hpp"

#include <fmt/format.h>

namespace rocca::lab::kube {

using text::Value;

namespace {

void service_warnings(const Value& spec, std::vector<std::string>& out) {
  const std::string type = text_at(spec, {"type"});
  if (text_at(spec, {"clusterIP"}) == "None") {
    if (!text_at(spec, {"loadBalancerIP"}).empty())
      out.emplace_back("spec.loadBalancerIP is ignored for headless services");
    if (!is_empty(spec.find("externalIPs")))
      out.emplace_back("spec.externalIPs is ignored for headless services");
    if (text_at(spec, {"sessionAffinity"}) != "None")
      out.emplace_back("spec.SessionAffinity is ignored for headless services");
  }
  if (type == "ExternalName" && !is_empty(spec.find("externalIPs")))
    out.emplace_back("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
  if (type != "ExternalName" && !text_at(spec, {"externalName"}).empty())
    out.emplace_back("spec.externalName is ignored when spec.type is not \"ExternalName\"");
}

/// What Go's tls.X509KeyPair says first. Whether the key fits its certificate is not checked.
void secret_warnings(const Value& object, std::vector<std::string>& out) {
  if (text_at(object, {"type"}) != "kubernetes.io/tls") return;
  for (const auto& [key, name] : {std::pair{"tls.crt", "certificate"}, {"tls.key", "key"}}) {
    const std::string bytes = from_base64(text_at(object, {"data", key})).value_or("");
    if (bytes.find("-----BEGIN ") != std::string::npos) continue;
    out.push_back(fmt::format("tls: failed to find any PEM data in {} input", name));
    return;
  }
}

void template_warnings(const Value& object, std::vector<std::string>& out) {
  for (const auto& [path, spec] :
       {std::pair{"spec.template.spec", object.find({"spec", "template", "spec"})},
        {"spec.jobTemplate.spec.template.spec",
         object.find({"spec", "jobTemplate", "spec", "template", "spec"})}})
    if (spec != nullptr && int_at(*spec, {"terminationGracePeriodSeconds"}) < 0)
      out.push_back(fmt::format(
          "{}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "
          "treated as 1",
          path));
}

}  // namespace

std::vector<std::string> warnings_of(const Resource& resource, const Value& object) {
  std::vector<std::string> out;
  if (resource.key() == "/services")
    if (const Value* spec = object.find("spec")) service_warnings(*spec, out);
  if (resource.key() == "discovery.k8s.io/endpointslices" &&
      text_at(object, {"addressType"}) == "FQDN")
    out.emplace_back("spec.addressType: FQDN endpoints are deprecated");
  if (resource.group == "apps" || resource.group == "batch") template_warnings(object, out);
  if (resource.key() == "/secrets") secret_warnings(object, out);
  return out;
}

}  // namespace rocca::lab::kube
