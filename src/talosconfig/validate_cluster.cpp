#include "base/address.hpp"
#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/x509.hpp"
#include "talosconfig/check.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::talos {

using text::Value;

namespace {

void check_endpoint(ConfigCheck& check) {
  const Value& cluster = *check.main().find("cluster");
  const Value* endpoint = cluster.find({"controlPlane", "endpoint"});
  const std::string path = "cluster.controlPlane.endpoint";
  if (endpoint == nullptr || endpoint->is_null()) {
    check.refuse("endpoint-required", path, "this is missing", &cluster);
    return;
  }
  const auto url = parse_url(endpoint->text());
  std::string host = url ? url->host : "";
  std::string port;
  if (host.starts_with('[')) {
    const auto close = host.find(']');
    port = host.substr(std::min(close + 1, host.size()));
    host = host.substr(1, close - 1);
  } else {
    if (std::count(host.begin(), host.end(), ':') > 1) {
      check.refuse("endpoint-invalid", path, "an IPv6 address stands in brackets", endpoint);
      return;
    }
    const auto colon = std::min(host.find(':'), host.size());
    port = host.substr(colon);
    host = host.substr(0, colon);
  }
  if (host.empty()) {
    check.refuse("endpoint-invalid", path, "there is no host in it", endpoint);
    return;
  }
  if (!port.empty() &&
      (port.size() > 6 || std::atoi(port.c_str() + 1) < 1 || std::atoi(port.c_str() + 1) > 65535)) {
    check.refuse("endpoint-invalid", path, "the port is none", endpoint);
    return;
  }
  if (url->scheme != "https")
    check.ours("endpoint-odd", path, "Kubernetes answers with https only", endpoint);
  if (port.empty())
    check.ours("endpoint-odd", path, "the port is missing; Kubernetes answers on 6443", endpoint);
  const bool digits = host.find_first_not_of("0123456789.") == std::string::npos;
  if (digits ? !IpAddress::parse(host) : !IpAddress::parse(host) && !is_host_name(host))
    check.ours("endpoint-odd", path, "the host is neither a name nor an address", endpoint);
}

void check_cni(ConfigCheck& check) {
  const Value* cni = check.main().find({"cluster", "network", "cni"});
  if (cni == nullptr) return;
  const std::string name = text_below(*cni, {"name"});
  const Value* urls = cni->find("urls");
  const bool has_urls = urls != nullptr && urls->size() != 0;
  const std::string path = "cluster.network.cni";
  const auto refuse = [&](std::string code, std::string message) {
    if (check.control_plane())
      check.refuse(std::move(code), path, std::move(message), cni);
    else
      check.ours(std::move(code), path, std::move(message), cni);
  };
  if (name != "flannel" && name != "custom" && name != "none" && !name.empty())
    refuse("cni-name", "not one of flannel, custom, none");
  else if (name != "custom" && has_urls)
    refuse("cni-urls", "only a custom CNI has urls");
  if (name == "custom" && !has_urls) check.ours("cni-urls", path, "a custom CNI needs urls", cni);
  if (name != "flannel" && !name.empty() && cni->find({"flannel", "extraArgs"}) != nullptr)
    refuse("cni-flannel", "only flannel has arguments");
}

void check_subnets(ConfigCheck& check) {
  const Value* network = check.main().find({"cluster", "network"});
  if (network == nullptr) return;
  std::vector<Cidr> all;
  for (const std::string_view key : {"podSubnets", "serviceSubnets"}) {
    const Value* subnets = network->find(key);
    if (subnets == nullptr) continue;
    std::set<bool> families;
    for (const Value& text : subnets->items()) {
      const std::string path = fmt::format("cluster.network.{}", key);
      const auto subnet = Cidr::parse(text.text());
      if (!subnet || !subnet->is_network()) {
        check.ours("bad-subnet", path, subnet ? "bits of a host stand in it" : "this is no subnet",
                   &text);
        continue;
      }
      if (!families.insert(subnet->address().is_v4()).second)
        check.ours("bad-subnet", path, "Kubernetes takes one subnet of a family", &text);
      for (const Cidr& other : all)
        if (other.overlaps(*subnet)) check.ours("bad-subnet", path, "two subnets overlap", &text);
      all.push_back(*subnet);
    }
  }
  const std::string domain = text_below(*network, {"dnsDomain"});
  if (!domain.empty() && !is_host_name(domain))
    check.refuse("dns-domain", "cluster.network.dnsDomain", "this is no DNS name",
                 network->find("dnsDomain"));
}

void check_discovery(ConfigCheck& check) {
  const Value& cluster = *check.main().find("cluster");
  const Value* discovery = cluster.find("discovery");
  if (discovery == nullptr || !is_on(*discovery, {"enabled"})) return;
  const Value* service = discovery->find({"registries", "service"});
  if (service != nullptr && is_on(*service, {"disabled"})) return;
  for (const std::string_view key : {"id", "secret"})
    if (text_below(cluster, {key}).empty())
      check.refuse("discovery-identity", fmt::format("cluster.{}", key),
                   "the discovery service needs it", discovery);
  const Value* endpoint = service != nullptr ? service->find("endpoint") : nullptr;
  if (endpoint == nullptr) return;
  const auto url = parse_url(endpoint->text());
  const std::string path = "cluster.discovery.registries.service.endpoint";
  if (!url || url->scheme.empty() || url->host.empty())
    check.refuse("discovery-endpoint", path, "this is not a URL", endpoint);
  else if (!url->path.empty() && url->path != "/")
    check.refuse("discovery-endpoint", path, "there must be no path in it", endpoint);
}

void check_manifests(ConfigCheck& check) {
  const Value& cluster = *check.main().find("cluster");
  std::set<std::string> names;
  if (const Value* manifests = cluster.find("inlineManifests"))
    for (const Value& manifest : manifests->items()) {
      const std::string name = text_below(manifest, {"name"});
      if (name.empty())
        check.refuse("manifest-name", "cluster.inlineManifests", "a manifest needs a name",
                     &manifest);
      else if (!names.insert(name).second)
        check.refuse("manifest-twice", "cluster.inlineManifests",
                     fmt::format("the name '{}' stands twice", name), &manifest);
      const std::string contents = text_below(manifest, {"contents"});
      if (trim(contents) == secret_stand_in) continue;
      try {
        for (const Value& object : text::parse_yaml_stream(contents, name))
          if (!object.is_null() && !object.is_map())
            check.ours("bad-manifest", "cluster.inlineManifests", "this is no Kubernetes object",
                       &manifest);
      } catch (const Error& error) {
        if (error.fault() != Fault::Usage) throw;
        check.ours("bad-manifest", "cluster.inlineManifests", "the contents are not YAML",
                   &manifest);
      }
    }
  const Value* provider = cluster.find("externalCloudProvider");
  const Value* urls = provider != nullptr ? provider->find("manifests") : nullptr;
  if (urls != nullptr && urls->size() != 0 && !is_on(*provider, {"enabled"}))
    check.refuse("cloud-provider", "cluster.externalCloudProvider",
                 "it has manifests and is not enabled", provider);
}

void check_control_plane_parts(ConfigCheck& check) {
  const Value& cluster = *check.main().find("cluster");
  const Value* etcd = cluster.find("etcd");
  const Value* advertised = etcd != nullptr ? etcd->find("advertisedSubnets") : nullptr;
  if (etcd != nullptr && !check.control_plane())
    check.refuse("etcd-on-worker", "cluster.etcd", "only control planes have etcd", etcd);
  if (advertised != nullptr && !text_below(*etcd, {"subnet"}).empty())
    check.refuse("etcd-subnets", "cluster.etcd.subnet", "advertisedSubnets has taken its place",
                 etcd);
  for (std::size_t i = 0; advertised != nullptr && i < advertised->size(); ++i) {
    const std::string& text = advertised->items()[i].text();
    if (!Cidr::parse(std::string_view{text}.substr(text.starts_with('!'))))
      check.ours("bad-subnet", "cluster.etcd.advertisedSubnets", "this is no subnet",
                 &advertised->items()[i]);
  }
  if (const Value* authorizers = cluster.find({"apiServer", "authorizationConfig"}))
    for (const Value& authorizer : authorizers->items()) {
      const std::string type = text_below(authorizer, {"type"});
      if (type != "Node" && type != "RBAC" && type != "Webhook")
        check.refuse("authorizer", "cluster.apiServer.authorizationConfig",
                     "an authorizer is Node, RBAC or Webhook", &authorizer);
    }
  if (const Value* plugins = cluster.find({"apiServer", "admissionControl"}))
    for (const Value& plugin : plugins->items())
      if (text_below(plugin, {"name"}).empty())
        check.ours("admission-name", "cluster.apiServer.admissionControl",
                   "a plugin needs its name", &plugin);
}

bool is_token(const std::string& token) {
  if (token.size() != 23 || token[6] != '.') return false;
  return std::all_of(token.begin(), token.end(), [](char c) {
    return c == '.' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  });
}

/// A PEM text out of its base64, or the reason why there is none.
std::optional<std::string> pem_of(ConfigCheck& check, const Value& value, const std::string& path) {
  const std::string& text = value.text();
  if (text.find('*') != std::string::npos) {
    check.ours("redacted", path, "this was redacted: the key itself is not here any more", &value);
    return std::nullopt;
  }
  const auto pem = from_base64(text);
  if (!pem) {
    check.ours("not-pem", path, "this is not base64", &value);
    return std::nullopt;
  }
  if (pem->find("-----BEGIN") == std::string::npos) {
    const auto inner = from_base64(*pem);
    const bool twice = inner && inner->find("-----BEGIN") != std::string::npos;
    check.ours(twice ? "base64-twice" : "not-pem", path,
               twice ? "this is base64 of base64: encode the PEM text once"
                     : "inside the base64 there is no PEM text",
               &value);
    return std::nullopt;
  }
  return pem;
}

std::string reason(const Error& error, const std::string& path) {
  std::string text = error.message();
  if (text.starts_with(path)) text.erase(0, path.size());
  while (!text.empty() && (text.front() == ':' || text.front() == ' ')) text.erase(0, 1);
  return text;
}

void check_authority(ConfigCheck& check, const Value* owner, const std::string& path) {
  if (owner == nullptr || owner->is_null()) return;
  std::optional<secrets::Certificate> certificate;
  std::optional<secrets::PrivateKey> key;
  const Value* crt = owner->find("crt");
  const Value* key_value = owner->find("key");
  if (crt == nullptr && path != "cluster.serviceAccount")
    check.ours("missing-secret", path + ".crt", "there is no certificate", owner);
  if (crt != nullptr) {
    if (const auto pem = pem_of(check, *crt, path + ".crt")) {
      try {
        certificate = secrets::Certificate::parse(*pem, path + ".crt");
        if (!certificate->authority)
          check.ours("not-an-authority", path + ".crt", "this certificate is no authority's", crt);
        else if (certificate->issuer == certificate->subject &&
                 !certificate->issued_by(*certificate))
          check.ours("bad-certificate", path + ".crt",
                     "it is damaged: its signature does not fit its content", crt);
      } catch (const Error& error) {
        check.ours("bad-certificate", path + ".crt", reason(error, path + ".crt"), crt);
      }
    }
  }
  if (key_value != nullptr && !key_value->text().empty()) {
    if (const auto pem = pem_of(check, *key_value, path + ".key")) {
      try {
        key = secrets::PrivateKey::parse(*pem, path + ".key");
        if (pem->find("-----BEGIN " + key->pem_label()) == std::string::npos)
          check.ours(
              "key-label", path + ".key",
              fmt::format("Talos reads this key only with the PEM label '{}'", key->pem_label()),
              key_value);
      } catch (const Error& error) {
        check.ours("bad-key", path + ".key", reason(error, path + ".key"), key_value);
      }
    }
  }
  if (certificate && key && !certificate->belongs_to(*key))
    check.ours("key-mismatch", path, "key and certificate do not belong together", owner);
}

void require(ConfigCheck& check, const Value& cluster, std::string_view key,
             const std::string& message) {
  const Value* value = cluster.find(key);
  if (value == nullptr || value->is_null() || (value->is_scalar() && value->text().empty()))
    check.ours("missing-secret", fmt::format("cluster.{}", key), message, &cluster);
}

void check_cluster_secrets(ConfigCheck& check, const Value& cluster) {
  const std::string token = text_below(cluster, {"token"});
  if (token.empty())
    check.ours("missing-token", "cluster.token", "without it no kubelet can join", &cluster);
  else if (!is_token(token))
    check.ours("bad-token", "cluster.token",
               "a bootstrap token is six and sixteen small letters and digits with a dot between",
               cluster.find("token"));
  require(check, cluster, "ca", "without it Kubernetes has no authority");
  if (!check.control_plane()) return;
  require(check, cluster, "aggregatorCA", "extension servers cannot be asked without it");
  require(check, cluster, "serviceAccount", "no pod gets a token without it");
  if (cluster.find({"etcd", "ca"}) == nullptr)
    check.ours("missing-secret", "cluster.etcd.ca", "etcd cannot start without it", &cluster);
  const bool aes = !text_below(cluster, {"aescbcEncryptionSecret"}).empty();
  const bool box = !text_below(cluster, {"secretboxEncryptionSecret"}).empty();
  if (!aes && !box)
    check.ours("missing-secret", "cluster.secretboxEncryptionSecret",
               "Secrets would stand in etcd in clear, and those that are encrypted be lost",
               &cluster);
  if (aes && box)
    check.ours("two-secrets", "cluster.aescbcEncryptionSecret",
               "only one of aescbcEncryptionSecret and secretboxEncryptionSecret", &cluster);
}

}  // namespace

void check_cluster(ConfigCheck& check) {
  check_endpoint(check);
  check_cni(check);
  check_subnets(check);
  check_discovery(check);
  check_manifests(check);
  check_control_plane_parts(check);
  const Value& cluster = *check.main().find("cluster");
  if (text_below(cluster, {"clusterName"}).empty())
    check.ours("missing-name", "cluster.clusterName", "the cluster has no name", &cluster);
}

void check_authorities(ConfigCheck& check) {
  const Value& machine = *check.main().find("machine");
  const Value* ca = machine.find("ca");
  const Value* accepted = machine.find("acceptedCAs");
  if (ca == nullptr && (accepted == nullptr || accepted->size() == 0))
    check.refuse("ca-required", "machine.ca", "neither ca nor acceptedCAs is given", &machine);
  if (check.control_plane()) {
    if (ca == nullptr)
      check.refuse("ca-required", "machine.ca", "a control plane needs it", &machine);
    else if (text_below(*ca, {"key"}).empty())
      check.refuse("ca-key-required", "machine.ca.key", "a control plane needs it", ca);
  } else if (ca != nullptr && !text_below(*ca, {"key"}).empty()) {
    check.refuse("ca-key-on-worker", "machine.ca.key", "a worker must not have it", ca);
  }
  check_authority(check, ca, "machine.ca");
  for (std::size_t i = 0; accepted != nullptr && i < accepted->size(); ++i)
    check_authority(check, &accepted->items()[i], fmt::format("machine.acceptedCAs[{}]", i));
  const Value* cluster = check.main().find("cluster");
  if (cluster == nullptr) return;
  const Value* kubernetes = cluster->find("ca");
  if (kubernetes != nullptr && !check.control_plane() && !text_below(*kubernetes, {"key"}).empty())
    check.refuse("ca-key-on-worker", "cluster.ca.key", "a worker must not have it", kubernetes);
  check_authority(check, kubernetes, "cluster.ca");
  check_authority(check, cluster->find("aggregatorCA"), "cluster.aggregatorCA");
  check_authority(check, cluster->find("serviceAccount"), "cluster.serviceAccount");
  check_authority(check, cluster->find({"etcd", "ca"}), "cluster.etcd.ca");
  check_cluster_secrets(check, *cluster);
}

}  // namespace rocca::talos
