// Services, NetworkPolicies, Ingresses, IngressClasses and EndpointSlices.
#include "base/strings.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/schema/validate.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::lab::kube {

using text::Value;

namespace {

constexpr const char* bad_address = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
constexpr const char* bad_cidr = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

const Value& list_of(const Value& map, std::string_view key) {
  static const Value none = Value::list();
  const Value* found = map.find(key);
  return found != nullptr && found->is_list() ? *found : none;
}

Cause duplicate(std::string path, const std::string& shown) {
  return {"FieldValueDuplicate", "Duplicate value: " + shown, std::move(path)};
}

void check_endpoint_address(const std::string& address, const std::string& path, Causes& causes) {
  const std::string shown = in_quotes(address);
  if (address == "0.0.0.0" || address == "::")
    causes.push_back(
        Cause::invalid(path, shown, fmt::format("may not be unspecified ({})", address)));
  if (address.starts_with("127.") || address == "::1")
    causes.push_back(
        Cause::invalid(path, shown, "may not be in the loopback range (127.0.0.0/8, ::1/128)"));
  if (address.starts_with("169.254.") || to_lower(address).starts_with("fe80:"))
    causes.push_back(Cause::invalid(
        path, shown, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
  if (address.starts_with("224.0.0.") || to_lower(address).starts_with("ff02:"))
    causes.push_back(Cause::invalid(
        path, shown, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"));
}

void check_service_ports(const Value& spec, const std::string& type, Causes& causes) {
  const Value& ports = list_of(spec, "ports");
  std::set<std::string> names;
  for (std::size_t i = 0; i < ports.items().size(); ++i) {
    const Value& port = ports.items()[i];
    const std::string where = fmt::format("spec.ports[{}]", i);
    const std::string name = text_at(port, {"name"});
    if (name.empty()) {
      if (ports.size() > 1) causes.push_back(Cause::required(where + ".name"));
    } else {
      check_text(wrong_label(name), where + ".name", name, causes);
      if (!names.insert(name).second) causes.push_back(duplicate(where + ".name", in_quotes(name)));
    }
    check_port(int_at(port, {"port"}), where + ".port", causes);
    check_word(text_at(port, {"protocol"}), where + ".protocol", {"SCTP", "TCP", "UDP"}, causes);
    check_port_reference(port.find("targetPort"), where + ".targetPort", causes);
    if (const std::string application = text_at(port, {"appProtocol"}); !application.empty())
      check_text(wrong_qualified_name(application), where + ".appProtocol", application, causes);
  }
  if (type == "ClusterIP")
    for (std::size_t i = 0; i < ports.items().size(); ++i)
      if (int_at(ports.items()[i], {"nodePort"}) != 0)
        causes.push_back(Cause::forbidden(fmt::format("spec.ports[{}].nodePort", i),
                                          "may not be used when `type` is 'ClusterIP'"));
  std::set<std::pair<std::string, std::int64_t>> used;
  for (std::size_t i = 0; i < ports.items().size(); ++i) {
    const Value& port = ports.items()[i];
    const std::string protocol = text_at(port, {"protocol"});
    const std::int64_t number = int_at(port, {"port"});
    if (!used.emplace(protocol, number).second)
      causes.push_back(duplicate(
          fmt::format("spec.ports[{}]", i),
          fmt::format(
              R"({{"Name":"","Protocol":"{}","AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}})",
              protocol, number)));
  }
}

/// The fields that say which addresses a Service has.
void check_service_addresses(const Value& spec, const Value* live, const std::string& type,
                             Causes& causes) {
  const Value& addresses = list_of(spec, "clusterIPs");
  if (type != "ExternalName") {
    const Value& families = list_of(spec, "ipFamilies");
    for (std::size_t i = 0; i < families.items().size(); ++i) {
      const std::string& family = families.items()[i].text();
      if (family != "IPv4" && family != "IPv6")
        causes.push_back(Cause::unsupported(fmt::format("spec.ipFamilies[{}]", i),
                                            in_quotes(family), {"IPv4", "IPv6"}));
    }
    const std::string policy = text_at(spec, {"ipFamilyPolicy"});
    const bool any_family =
        text_at(spec, {"clusterIP"}) == "None" && is_empty(spec.find("selector"));
    if (policy == "RequireDualStack" && !any_family)
      causes.push_back(Cause::invalid("spec.ipFamilyPolicy", in_quotes(policy),
                                      "this cluster is not configured for dual-stack services"));
    for (std::size_t i = 0; i < addresses.items().size(); ++i) {
      const std::string& address = addresses.items()[i].text();
      if (address != "None" && !address.empty() && !is_address(address))
        causes.push_back(
            Cause::invalid(fmt::format("spec.clusterIPs[{}]", i), in_quotes(address), bad_address));
      if (!is_address(address) || i >= families.items().size()) continue;
      const bool six = address.find(':') != std::string::npos;
      const std::string& family = families.items()[i].text();
      if ((family == "IPv6" && !six) || (family == "IPv4" && six))
        causes.push_back(Cause::invalid(
            fmt::format("spec.clusterIPs[{}]", i), in_quotes(address),
            fmt::format("expected an {} value as indicated by `ipFamilies[{}]`", family, i)));
    }
  }
  if (live == nullptr) return;
  const std::string before = text_at(*live, {"spec", "clusterIP"});
  const std::string now = text_at(spec, {"clusterIP"});
  const std::string before_type = text_at(*live, {"spec", "type"});
  if (!before.empty() && before != now && type != "ExternalName" && before_type != "ExternalName")
    causes.push_back(Cause::invalid("spec.clusterIPs[0]", shown_json(spec.find("clusterIPs")),
                                    "may not change once set"));
}

void check_service(const Value& object, const Value* live, Causes& causes) {
  const Value& spec = *object.find("spec");
  const std::string type = text_at(spec, {"type"});
  const bool headless = text_at(spec, {"clusterIP"}) == "None";
  if (list_of(spec, "ports").size() == 0 && !headless && type != "ExternalName")
    causes.push_back(Cause::required("spec.ports"));
  if (headless && (type == "LoadBalancer" || type == "NodePort"))
    causes.push_back(Cause::invalid("spec.clusterIPs[0]", "\"None\"",
                                    fmt::format("may not be set to 'None' for {} services", type)));
  if (type == "ExternalName") {
    for (const char* field : {"clusterIPs", "ipFamilies", "ipFamilyPolicy"})
      if (!is_empty(spec.find(field)))
        causes.push_back(Cause::forbidden(fmt::format("spec.{}", field),
                                          "may not be set for ExternalName services"));
    std::string name = text_at(spec, {"externalName"});
    if (name.ends_with(".")) name.pop_back();
    if (name.empty())
      causes.push_back(Cause::required("spec.externalName"));
    else
      check_text(wrong_subdomain(name), "spec.externalName", name, causes);
  }
  check_service_ports(spec, type, causes);
  check_label_map(spec.find("selector"), "spec.selector", causes);
  check_word(text_at(spec, {"sessionAffinity"}), "spec.sessionAffinity", {"ClientIP", "None"},
             causes);
  check_service_addresses(spec, live, type, causes);
  const Value& outside = list_of(spec, "externalIPs");
  for (std::size_t i = 0; i < outside.items().size(); ++i) {
    const std::string& address = outside.items()[i].text();
    const std::string path = fmt::format("spec.externalIPs[{}]", i);
    if (!is_address(address))
      causes.push_back(Cause::invalid(path, in_quotes(address), bad_address));
    else
      check_endpoint_address(address, path, causes);
  }
  check_word(type, "spec.type", {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"}, causes);
  const Value& ranges = list_of(spec, "loadBalancerSourceRanges");
  if (ranges.size() != 0 && type != "LoadBalancer")
    causes.push_back(Cause::forbidden("spec.LoadBalancerSourceRanges",
                                      "may only be used when `type` is 'LoadBalancer'"));
  for (std::size_t i = 0; i < ranges.items().size(); ++i)
    if (!is_cidr(ranges.items()[i].text()))
      causes.push_back(Cause::invalid(fmt::format("spec.LoadBalancerSourceRanges[{}]", i),
                                      in_quotes(ranges.items()[i].text()), bad_cidr));
  if (spec.find("allocateLoadBalancerNodePorts") != nullptr && type != "LoadBalancer")
    causes.push_back(Cause::forbidden("spec.allocateLoadBalancerNodePorts",
                                      "may only be used when `type` is 'LoadBalancer'"));
  if (live != nullptr && text_at(*live, {"spec", "type"}) == "LoadBalancer" &&
      type == "LoadBalancer" &&
      !same_values(live->find({"spec", "loadBalancerClass"}), spec.find("loadBalancerClass")))
    causes.push_back(Cause::invalid("spec.loadBalancerClass",
                                    shown_json(spec.find("loadBalancerClass")),
                                    "may not change once set"));
  if (spec.find("loadBalancerClass") != nullptr && type != "LoadBalancer")
    causes.push_back(Cause::forbidden("spec.loadBalancerClass",
                                      "may only be used when `type` is 'LoadBalancer'"));
  const std::string policy = text_at(spec, {"externalTrafficPolicy"});
  const bool reachable =
      type == "LoadBalancer" || type == "NodePort" || (type == "ClusterIP" && outside.size() != 0);
  if (!reachable && !policy.empty())
    causes.push_back(Cause::invalid("spec.externalTrafficPolicy", in_quotes(policy),
                                    "may only be set for externally-accessible services"));
  if (reachable) check_word(policy, "spec.externalTrafficPolicy", {"Cluster", "Local"}, causes);
  const std::string wanted = text_at(spec, {"clusterIP"});
  // Allocated when everything else is right.
  if (causes.empty() && live == nullptr && is_address(wanted) && !wanted.starts_with("10."))
    causes.push_back(Cause::invalid(
        "spec.clusterIPs", shown_json(spec.find("clusterIPs")),
        fmt::format("failed to allocate IP {}: the provided network does not match the current "
                    "range",
                    wanted)));
  if (const Value* inside = spec.find("internalTrafficPolicy"))
    if (inside->text() != "Cluster" && inside->text() != "Local")
      causes.push_back(Cause::unsupported("spec.internalTrafficPolicy", in_quotes(inside->text()),
                                          {"Cluster", "Local"}));
}

void check_load_balancer(const Value& object, bool is_service, Causes& causes) {
  const Value* ingress = object.find({"status", "loadBalancer", "ingress"});
  if (ingress == nullptr || !ingress->is_list()) return;
  if (is_service && ingress->size() != 0 && text_at(object, {"spec", "type"}) != "LoadBalancer") {
    causes.push_back(Cause::forbidden("status.loadBalancer.ingress",
                                      "may only be used when `spec.type` is 'LoadBalancer'"));
    return;
  }
  for (std::size_t i = 0; i < ingress->items().size(); ++i) {
    const std::string where = fmt::format("status.loadBalancer.ingress[{}]", i);
    const std::string address = text_at(ingress->items()[i], {"ip"});
    const std::string host = text_at(ingress->items()[i], {"hostname"});
    if (!address.empty() && !is_address(address))
      causes.push_back(Cause::invalid(where + ".ip", in_quotes(address), bad_address));
    if (is_service && !address.empty() && ingress->items()[i].find("ipMode") == nullptr)
      causes.push_back(Cause::required(where + ".ipMode", "must be specified when `ip` is set"));
    if (!host.empty()) check_text(wrong_subdomain(host), where + ".hostname", host, causes);
  }
}

void check_policy_peers(const Value& rule, const char* field, const std::string& path,
                        Causes& causes) {
  const Value& ports = list_of(rule, "ports");
  for (std::size_t i = 0; i < ports.items().size(); ++i) {
    const Value& port = ports.items()[i];
    const std::string where = fmt::format("{}.ports[{}]", path, i);
    const std::string protocol = text_at(port, {"protocol"});
    if (!protocol.empty() && protocol != "TCP" && protocol != "UDP" && protocol != "SCTP")
      causes.push_back(
          Cause::unsupported(where + ".protocol", in_quotes(protocol), {"TCP", "UDP", "SCTP"}));
    check_port_reference(port.find("port"), where + ".port", causes);
  }
  const Value& peers = list_of(rule, field);
  for (std::size_t i = 0; i < peers.items().size(); ++i) {
    const Value& peer = peers.items()[i];
    const std::string where = fmt::format("{}.{}[{}]", path, field, i);
    std::size_t count = 0;
    for (const char* selector : {"podSelector", "namespaceSelector"})
      if (const Value* found = peer.find(selector)) {
        ++count;
        check_label_selector(found, fmt::format("{}.{}", where, selector), causes);
      }
    if (const Value* block = peer.find("ipBlock")) {
      if (count > 0)
        causes.push_back(Cause::forbidden(where, "may not specify both ipBlock and another peer"));
      ++count;
      const std::string cidr = text_at(*block, {"cidr"});
      if (cidr.empty())
        causes.push_back(Cause::required(where + ".ipBlock.cidr"));
      else if (!is_cidr(cidr))
        causes.push_back(Cause::invalid(where + ".ipBlock.cidr", in_quotes(cidr), bad_cidr));
    }
    if (count == 0) causes.push_back(Cause::required(where, "must specify a peer"));
  }
}

void check_policy(const Value& spec, Causes& causes) {
  check_label_selector(spec.find("podSelector"), "spec.podSelector", causes);
  for (const auto& [list, peers] : {std::pair{"ingress", "from"}, {"egress", "to"}}) {
    const Value& rules = list_of(spec, list);
    for (std::size_t i = 0; i < rules.items().size(); ++i)
      check_policy_peers(rules.items()[i], peers, fmt::format("spec.{}[{}]", list, i), causes);
  }
  const Value& types = list_of(spec, "policyTypes");
  for (std::size_t i = 0; i < types.items().size(); ++i)
    if (const std::string& type = types.items()[i].text(); type != "Ingress" && type != "Egress")
      causes.push_back(Cause::unsupported(fmt::format("spec.policyTypes[{}]", i), in_quotes(type),
                                          {"Ingress", "Egress"}));
}

std::vector<std::string> wrong_wildcard(std::string_view name) {
  if (wrong_subdomain(name.substr(2)).empty()) return {};
  return {
      "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
      "which must consist of lower case alphanumeric characters, '-' or '.' and end with an "
      "alphanumeric character (e.g. '*.example.com', regex used for validation is "
      "'\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"};
}

void check_backend(const Value* backend, const std::string& path, Causes& causes) {
  if (backend == nullptr) return;
  const Value* service = backend->find("service");
  if (service == nullptr) {
    if (backend->find("resource") == nullptr)
      causes.push_back(Cause::invalid(path, "\"\"", "resource or service backend is required"));
    return;
  }
  const std::string name = text_at(*service, {"name"});
  if (name.empty())
    causes.push_back(Cause::required(path + ".service.name"));
  else
    check_text(wrong_old_label(name), path + ".service.name", name, causes);
  const std::string port_name = text_at(*service, {"port", "name"});
  const std::int64_t number = int_at(*service, {"port", "number"});
  if (!port_name.empty() && number != 0)
    causes.push_back(Cause::invalid(path, "\"\"", "cannot set both port name & port number"));
  else if (!port_name.empty())
    check_text(wrong_port_name(port_name), path + ".service.port.name", port_name, causes);
  else if (number != 0)
    check_port(number, path + ".service.port.number", causes);
  else
    causes.push_back(Cause::required(path, "port name or number is required"));
}

void check_ingress(const Value& spec, Causes& causes) {
  const Value& rules = list_of(spec, "rules");
  if (rules.size() == 0 && is_empty(spec.find("defaultBackend")))
    causes.push_back(Cause::invalid("spec", shown_json(spec.find("rules")),
                                    "either `defaultBackend` or `rules` must be specified"));
  check_backend(spec.find("defaultBackend"), "spec.defaultBackend", causes);
  for (std::size_t i = 0; i < rules.items().size(); ++i) {
    const std::string where = fmt::format("spec.rules[{}]", i);
    const std::string host = text_at(rules.items()[i], {"host"});
    if (!host.empty()) {
      if (is_address(host))
        causes.push_back(Cause::invalid(where + ".host", in_quotes(host),
                                        "must be a DNS name, not an IP address"));
      else
        check_text(host.starts_with("*.") ? wrong_wildcard(host) : wrong_subdomain(host),
                   where + ".host", host, causes);
    }
    const Value* http = rules.items()[i].find("http");
    if (http == nullptr) continue;
    const Value& paths = list_of(*http, "paths");
    if (paths.size() == 0) causes.push_back(Cause::required(where + ".http.paths"));
    for (std::size_t j = 0; j < paths.items().size(); ++j) {
      const Value& path = paths.items()[j];
      const std::string place = fmt::format("{}.http.paths[{}]", where, j);
      const std::string type = text_at(path, {"pathType"});
      const std::string text = text_at(path, {"path"});
      if (path.find("pathType") == nullptr) {
        causes.push_back(Cause::required(place + ".pathType", "pathType must be specified"));
        continue;
      }
      if (type == "Exact" || type == "Prefix") {
        if (!text.starts_with("/"))
          causes.push_back(
              Cause::invalid(place + ".path", in_quotes(text), "must be an absolute path"));
      } else if (type == "ImplementationSpecific") {
        if (!text.empty() && !text.starts_with("/"))
          causes.push_back(
              Cause::invalid(place + ".path", in_quotes(text), "must be an absolute path"));
      } else {
        causes.push_back(Cause::unsupported(place + ".pathType", in_quotes(type),
                                            {"Exact", "ImplementationSpecific", "Prefix"}));
      }
      check_backend(path.find("backend"), place + ".backend", causes);
    }
  }
  const Value& tls = list_of(spec, "tls");
  for (std::size_t i = 0; i < tls.items().size(); ++i) {
    const Value& hosts = list_of(tls.items()[i], "hosts");
    for (std::size_t j = 0; j < hosts.items().size(); ++j) {
      const std::string& host = hosts.items()[j].text();
      check_text(host.starts_with("*.") ? wrong_wildcard(host) : wrong_subdomain(host),
                 fmt::format("spec.tls[{}].hosts[{}]", i, j), host, causes);
    }
  }
  if (const Value* name = spec.find("ingressClassName"))
    check_text(wrong_subdomain(name->text()), "spec.ingressClassName", name->text(), causes);
}

std::vector<std::string> wrong_domain_path(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size())
    return {"must be a domain-prefixed path (such as \"acme.io/foo\")"};
  return wrong_subdomain(text.substr(0, slash));
}

void check_ingress_class(const Value& spec, const Value* live, Causes& causes) {
  const std::string controller = text_at(spec, {"controller"});
  if (live != nullptr && text_at(*live, {"spec", "controller"}) != controller)
    causes.push_back(
        Cause::invalid("spec.controller", in_quotes(controller), "field is immutable"));
  if (controller.size() > 250)
    causes.push_back(Cause::too_long("spec.controller", "may not be more than 250 bytes"));
  if (controller.empty())
    causes.push_back(Cause::required("spec.controller"));
  else
    check_text(wrong_domain_path(controller), "spec.controller", controller, causes);
  const Value* parameters = spec.find("parameters");
  if (parameters == nullptr || !parameters->is_map()) return;
  for (const char* field : {"kind", "name"})
    if (text_at(*parameters, {field}).empty())
      causes.push_back(Cause::required(fmt::format("spec.parameters.{}", field)));
}

void check_slice(const Value& object, const Value* live, Causes& causes) {
  const std::string family = text_at(object, {"addressType"});
  check_word(family, "addressType", {"FQDN", "IPv4", "IPv6"}, causes);
  const Value& ports = list_of(object, "ports");
  std::set<std::string> names;
  for (std::size_t i = 0; i < ports.items().size(); ++i) {
    const std::string where = fmt::format("ports[{}]", i);
    const std::string name = text_at(ports.items()[i], {"name"});
    if (!name.empty()) check_text(wrong_label(name), where + ".name", name, causes);
    if (!names.insert(name).second) causes.push_back(duplicate(where + ".name", in_quotes(name)));
    check_word(text_at(ports.items()[i], {"protocol"}), where + ".protocol", {"SCTP", "TCP", "UDP"},
               causes);
  }
  Causes wrong;
  const Value& endpoints = list_of(object, "endpoints");
  for (std::size_t i = 0; i < endpoints.items().size(); ++i) {
    const Value& endpoint = endpoints.items()[i];
    const std::string where = fmt::format("endpoints[{}]", i);
    const Value& addresses = list_of(endpoint, "addresses");
    if (addresses.size() == 0)
      wrong.push_back(Cause::required(where + ".addresses", "must contain at least 1 address"));
    for (std::size_t j = 0; j < addresses.items().size(); ++j) {
      const std::string& address = addresses.items()[j].text();
      const std::string path = fmt::format("{}.addresses[{}]", where, j);
      if (family == "FQDN") {
        check_text(wrong_subdomain(address), path, address, wrong);
        if (split(address, '.').size() < 2)
          wrong.push_back(Cause::invalid(path, in_quotes(address),
                                         "should be a domain with at least two segments separated "
                                         "by dots"));
        continue;
      }
      if (family != "IPv4" && family != "IPv6") continue;
      if (!is_address(address)) {
        wrong.push_back(Cause::invalid(path, in_quotes(address), bad_address));
        continue;
      }
      const bool six = address.find(':') != std::string::npos;
      if (six != (family == "IPv6"))
        wrong.push_back(Cause::invalid(where + ".addresses", in_quotes(address),
                                       fmt::format("must be an {} address", family)));
      check_endpoint_address(address, path, wrong);
    }
    if (const Value* node = endpoint.find("nodeName"))
      check_text(wrong_subdomain(node->text()), where + ".nodeName", node->text(), wrong);
    if (const Value* host = endpoint.find("hostname"))
      check_text(wrong_label(host->text()), where + ".hostname", host->text(), wrong);
  }
  const bool unchanged =
      live != nullptr && same_values(live->find("endpoints"), object.find("endpoints"));
  if (!unchanged)
    for (Cause& one : wrong) causes.push_back(std::move(one));
  if (live != nullptr && text_at(*live, {"addressType"}) != family)
    causes.push_back(Cause::invalid("addressType", in_quotes(family), "field is immutable"));
}

}  // namespace

void check_network(const Resource& resource, const Value& object, const Value* live,
                   const std::string& subresource, Causes& causes) {
  const std::string key = resource.key();
  if (key == "discovery.k8s.io/endpointslices") return check_slice(object, live, causes);
  const Value* spec = object.find("spec");
  if (spec == nullptr || !spec->is_map()) return;
  if (subresource == "status") {
    if (key == "/services" || key == "networking.k8s.io/ingresses")
      check_load_balancer(object, key == "/services", causes);
    return;
  }
  if (key == "/services") check_service(object, live, causes);
  if (key == "networking.k8s.io/networkpolicies") check_policy(*spec, causes);
  if (key == "networking.k8s.io/ingresses") check_ingress(*spec, causes);
  if (key == "networking.k8s.io/ingressclasses") check_ingress_class(*spec, live, causes);
}

}  // namespace rocca::lab::kube
