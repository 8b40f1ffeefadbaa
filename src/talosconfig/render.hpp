#pragma once

#include "base/secret.hpp"
#include "base/version.hpp"
#include "secrets/bundle.hpp"
#include "talosconfig/merge.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Machine configurations, as `talosctl gen config` would write them for the same wishes and the
/// node's version of Talos.
namespace rocca::talos {

/// The whole of a node's configuration before it is text. Everything that has a default here has
/// the one of `gen config`.
struct ConfigInput {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  using Texts = std::vector<std::string>;

  Version talos{1, newest_minor, 0};
  std::string kubernetes;  // 1.32.1, without v
  bool control_plane = false;
  std::string cluster;
  std::string endpoint;  // https://10.0.0.20:6443
  secrets::Bundle bundle;

  // install
  std::string installer;     // image
  std::string install_disk;  // a path; or
  std::string disk_serial;   // the disk with that serial number
  bool wipe = false;

  // who it is
  std::optional<std::string> hostname;  // absent: a name made of its hardware's identity
  Texts cert_sans;                      // further names and addresses, for Talos and Kubernetes
  Pairs labels;
  Pairs taints;  // key, `value:Effect` or `Effect`

  // network
  struct Link {
    std::string name;  // empty: the one with the hardware address below, else the only physical one
    std::string mac;   // in lower case, as Talos compares it
    Texts addresses;   // with prefix length
    std::string gateway;
    bool dhcp = false;
    std::optional<std::int64_t> mtu;
    std::string vip;
  };
  std::optional<Link> link;  // absent: the platform (nocloud, META) or DHCP does it
  std::string vip;           // shared address, when `link` is absent
  std::string vip_link;
  Texts nameservers;
  Texts ntp;
  Texts node_subnets;  // which of its addresses the kubelet shows
  Texts etcd_subnets;
  std::optional<bool> kubespan;

  // system
  Pairs sysctls;
  struct Module {
    std::string name;
    Texts parameters;
  };
  std::vector<Module> modules;
  std::vector<std::pair<std::string, Texts>> mirrors;
  struct Volume {
    std::string name;
    std::string disk_serial;
  };
  std::vector<Volume> volumes;
  Texts shared_mounts;  // folders of the host that pods mount things in
  struct Service {      // of an extension
    std::string name;
    std::vector<std::pair<std::string, Secret>> environment;
  };
  std::vector<Service> services;

  // Kubernetes
  std::string dns_domain = "cluster.local";
  Texts pod_subnets{"10.244.0.0/16"};
  Texts service_subnets{"10.96.0.0/12"};
  std::string cni;  // empty: flannel by default; none, custom
  Texts cni_urls;
  bool proxy = true;
  bool forward_dns_to_host = true;
  bool discovery = true;
  bool rotate_server_certificates = false;
  bool external_cloud_provider = false;
  std::optional<bool> schedule_on_control_planes;

  std::vector<ConfigPatch> patches;  // in order
  std::vector<Secret> hidden;        // secrets in them, wherever they stand
};

/// A machine configuration: its text holds keys and tokens.
struct MachineConfig {
  Secret text;
  std::string masked;  // the same with `***` for every secret
};

/// Throws Error(Usage) for what this Talos cannot do (a user volume on 1.9) and for a patch that it
/// would refuse. The same input is the same text.
MachineConfig render_config(const ConfigInput& input);
/// Only the text, for those who show it to nobody.
Secret render_text(const ConfigInput& input);

/// A rendered configuration with one more patch, of either form. Throws Error(Usage) as `merged`.
std::vector<ConfigDocument> patched(std::vector<ConfigDocument> config, const ConfigPatch& patch,
                                    unsigned minor);

/// A value of a configuration, the same way; `key`: what it stands under.
text::Value mask_value(const text::Value& value, std::string_view key,
                       const std::vector<Secret>& hidden);

/// A configuration with `***` in place of everything that is or may be a secret, and of the texts
/// in `hidden`.
std::string mask_config(const std::vector<ConfigDocument>& config, unsigned minor,
                        const std::vector<Secret>& hidden = {});

}  // namespace rocca::talos
