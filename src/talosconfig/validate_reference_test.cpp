#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/version.hpp"
#include "support/reference.hpp"
#include "talosconfig/validate.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

namespace rocca::talos {
namespace {

using text::Value;

struct Reason {
  std::string_view text;  // in what Talos says
  std::string_view code;  // of ours
};

// What Talos says, and which of our problems is the same.
constexpr Reason reasons[] = {
    {"unknown keys found", "unknown-key"},
    {"unknown keys found", "missing-kind"},
    {"not registered", "unknown-kind"},
    {"not registered", "missing-apiversion"},
    {"missing apiVersion", "missing-apiversion"},
    {"missing kind", "missing-kind"},
    {"conflicting documents", "conflicting-documents"},
    {"duplicate document", "duplicate-document"},
    {"expected a mapping node", "not-a-document"},
    {"expected a mapping node", "empty"},
    {"expected a YAML document", "not-a-document"},
    {"config not found", "empty"},
    {"decode error", "yaml"},
    {"already defined", "yaml"},
    {"cannot unmarshal", "wrong-type"},
    {"cannot construct", "wrong-type"},
    {"cannot unmarshal", "bad-value"},
    {"cannot construct", "bad-value"},
    {"illegal base64", "bad-value"},
    {"private key is invalid", "wireguard-key"},
    {"does not belong to AddressSortAlgorithm", "sort-algorithm"},
    {"does not belong to", "bad-value"},
    {"netip.ParsePrefix", "bad-value"},
    {"name must be a valid address prefix", "name-prefix"},
    {"strconv.ParseFloat", "bad-value"},
    {"unhandled size name", "bad-value"},
    {"first path segment", "bad-value"},
    {"invalid URL escape", "bad-value"},
    {"invalid port", "endpoint-invalid"},
    {"panic", "empty-item"},
    {"machine instructions", "machine-required"},
    {"cluster instructions", "cluster-required"},
    {"endpoint is required", "endpoint-required"},
    {"invalid controlplane endpoint", "endpoint-invalid"},
    {"unknown machine type", "machine-type"},
    {"some accepted CAs are required", "ca-required"},
    {"issuing CA is required", "ca-required"},
    {"CA key is required", "ca-key-required"},
    {"CA key is not allowed", "ca-key-on-worker"},
    {"etcd config is only allowed", "etcd-on-worker"},
    {"install instructions", "install-required"},
    {"either install disk", "install-disk"},
    {"install disk selector is invalid", "install-selector"},
    {"duplicate system extension", "duplicate-extension"},
    {"extraKernelArgs and install.grub", "install-kernel-args"},
    {"required either config section", "link-unnamed"},
    {"interface has both bridge and bond", "bond-and-bridge"},
    {"deviceSelector]: config sections are mutually", "link-named-twice"},
    {"invalid CIDR address", "bad-address"},
    {"failed to parse IP address", "bad-address"},
    {"device.route[0]", "bad-route"},
    {"virtual (shared) IP is not allowed", "vip-on-worker"},
    {"device.vip] failed to parse", "bad-vip"},
    {"shouldn't have any addressing", "enslaved-address"},
    {"lacpRate is only available", "bond-lacp"},
    {"kubespan link MTU", "kubespan-mtu"},
    {"cni name should be", "cni-name"},
    {"\"urls\" field should be empty", "cni-urls"},
    {"flanneldExtraArgs", "cni-flannel"},
    {"is not a valid DNS name", "dns-domain"},
    {"service requires .cluster", "discovery-identity"},
    {"registry endpoint is invalid", "discovery-endpoint"},
    {"discovery service path", "discovery-endpoint"},
    {"manifest name can't be empty", "manifest-name"},
    {"is duplicate", "manifest-twice"},
    {"external cloud provider is disabled", "cloud-provider"},
    {"etcd subnet can't be set", "etcd-subnets"},
    {"authorizer type", "authorizer"},
    {".persist should be", "persist"},
    {"can't be overridden", "kubelet-config"},
    {"invalid machine node labels", "bad-label"},
    {"invalid machine node annotations", "bad-annotation"},
    {"invalid machine node taints", "bad-taint"},
    {"is null", "empty-registry"},
    {"not the last partition", "partition-order"},
    {"no encryption keys provided", "encryption-keys"},
    {"key slot 0 is already in use", "encryption-slot"},
    {"hostDNS.forwardKubeDNSToHost requires", "host-dns"},
    {"Talos API Access can only", "talos-api-access"},
    {"url is required", "url-required"},
    {"scheme must be", "url-scheme"},
    {"unsupported scheme", "url-scheme"},
    {"url port is required", "url-port"},
    {"watchdog timeout", "timeout-short"},
    {"watchdog device", "device-required"},
    {"name is required", "name-required"},
    {"name is required", "volume-name"},
    {"no config files found", "extension-empty"},
    {"extension mount path", "mount-path"},
    {"invalid port range", "port-range"},
    {"volumes are supported", "volume-name"},
    {"provisioning config is not allowed", "volume-provisioning"},
    {"provisioning spec is invalid", "volume-provisioning"},
    {"disk selector is invalid", "bad-expression"},
    {"trigger expression is invalid", "bad-expression"},
    {"encryption keys are required", "encryption-keys"},
    {"name must be between", "volume-name"},
    {"name can only contain", "volume-name"},
    {"min size or max size", "size-required"},
    {"min size is greater", "size-order"},
    {"static hostname is already set", "hostname-conflict"},
    {"stable hostname is already set", "hostname-conflict"},
    {"cannot be set at the same time", "hostname-both"},
    {"either 'auto' or 'hostname'", "hostname-required"},
    {"invalid hostname", "hostname-invalid"},
    {"is already set in v1alpha1 config", "resolver-conflict"},
    {"name must be a valid IP address", "name-address"},
    {"link must be specified", "link-required"},
    {"link selector is required", "selector-required"},
    {"invalid format verb", "alias-name"},
    {"vlanID must be specified", "vlan-id"},
    {"at least one link", "links-required"},
    {"bond mode must be", "bond-mode"},
    {"time servers cannot be specified in both", "time-conflict"},
    {"only one of ntp or ptp", "time-both"},
    {"invalid environment variable name", "variable-name"},
    {"kubespan is already configured", "kubespan-conflict"},
    {"event sink endpoint", "endpoint-port"},
    {"HostDNS should be enabled in container mode", "container-dns"},
    {"HostDNS should forward kube-dns to host in container mode", "container-dns"},
};

// What Talos takes with a warning. Two of them cannot work, and are errors of ours.
constexpr Reason warned[] = {
    {".machine.install.extensions is deprecated", "deprecated"},
    {"machine.network.interface.cidr is deprecated", "deprecated"},
    {"was not specified for 802.3ad bond", "bond-timing"},
    {"\"urls\" field should not be empty for \"custom\" CNI", "cni-urls"},
    {"use \"worker\" instead of \"\" for machine type", "machine-type"},
};

// The kinds of mistakes that Talos does not look for.
const std::set<std::string> only_ours{
    "redacted",        "not-pem",         "base64-twice",       "not-an-authority",
    "bad-certificate", "bad-key",         "key-label",          "key-mismatch",
    "missing-secret",  "two-secrets",     "missing-token",      "bad-token",
    "missing-name",    "bad-version",     "bad-hostname",       "bad-nameserver",
    "bad-host-entry",  "bad-subnet",      "cni-name",           "cni-urls",
    "bad-address",     "bad-mount",       "image-tag",          "bad-module",
    "bad-file",        "bad-mtu",         "bad-vlan",           "vip-is-address",
    "link-twice",      "bad-environment", "vip-on-worker",      "endpoint-odd",
    "bad-time",        "bad-url",         "machine-type",       "admission-name",
    "bad-selector",    "bad-manifest",    "kubernetes-version", "bad-sysctl"};

struct Counts {
  std::size_t warnings = 0;
  std::size_t alike = 0;
  std::size_t clean = 0;
  std::size_t ours = 0;
};

std::string list(const ConfigProblems& problems) {
  std::string out;
  for (const ConfigProblem& problem : problems)
    out += problem.code + "  " + to_string(problem, "config.yaml") + "\n";
  return out;
}

void check_refused(const std::string& text, const ConfigProblems& problems) {
  bool known = false;
  for (const Reason& reason : reasons) {
    if (text.find(reason.text) == std::string::npos) continue;
    known = true;
    for (const ConfigProblem& problem : problems)
      if (problem.code == reason.code && !problem.ours && !problem.warning) return;
  }
  ADD_FAILURE() << (known ? "another reason" : "no such reason in the table") << "\nTalos: " << text
                << "\nwe:\n"
                << list(problems);
}

void check_accepted(const ConfigProblems& problems, Counts& counts) {
  bool ours = false;
  for (const ConfigProblem& problem : problems) {
    if (problem.warning) continue;
    ours = true;
    EXPECT_TRUE(problem.ours && only_ours.contains(problem.code))
        << "Talos takes it: " << problem.code << "  " << to_string(problem, "config.yaml");
  }
  ++(ours ? counts.ours : counts.clean);
}

/// The warnings of a run: those it printed, and those that `--strict` made errors of.
std::vector<std::string> warnings_of(const Value& result) {
  std::vector<std::string> all;
  if (const Value* list = result.find("warnings"); list != nullptr && list->is_list())
    for (const Value& item : list->items()) all.push_back(item.text());
  constexpr std::string_view mark = "* warning: ";
  if (const Value* error = result.find("error"); error != nullptr && error->is_scalar())
    for (const std::string& line : split(error->text(), '\n'))
      if (const auto at = line.find(mark); at != std::string::npos)
        all.push_back(line.substr(at + mark.size()));
  return all;
}

/// Errors of a run beside its warnings?
bool refused_anyway(const std::string& error) {
  for (const std::string& line : split(error, '\n'))
    if (line.find("* ") != std::string::npos && line.find("* warning: ") == std::string::npos &&
        !line.ends_with("occurred:"))
      return true;
  return error.find("* warning: ") == std::string::npos;
}

void check_warnings(const std::vector<std::string>& recorded, const ConfigProblems& problems,
                    Counts& counts) {
  // What cannot be read is told alone, by both.
  std::multiset<std::string> wanted, said;
  for (const std::string& text : recorded) {
    ++counts.warnings;
    const auto reason = std::find_if(std::begin(warned), std::end(warned), [&](const Reason& row) {
      return text.find(row.text) != std::string::npos;
    });
    ASSERT_NE(reason, std::end(warned)) << "no such warning in the table: " << text;
    const bool refused = std::any_of(problems.begin(), problems.end(), [&](const auto& problem) {
      return problem.code == reason->code && problem.ours;
    });
    if (!refused) wanted.emplace(reason->code);
  }
  for (const ConfigProblem& problem : problems)
    if (problem.warning) said.insert(problem.code);
  EXPECT_EQ(said, wanted) << list(problems);
}

/// Mode and version to the result of that run, for the newest release of each minor.
std::map<std::pair<std::string, std::string>, const Value*> runs_of(const Value& results) {
  std::map<std::uint64_t, Version> newest;
  std::map<std::pair<std::string, std::string>, const Value*> all;
  for (const Value& result : results.items()) {
    for (const text::Entry& run : result.find("runs")->entries()) {
      for (const Value& item : run.value.items()) {
        const Version version = *Version::parse(item.text());
        auto& known = newest[version.minor()];
        if (known < version) known = version;
        for (const std::string mode :
             {"metal", "metal+strict", "cloud", "cloud+strict", "container", "container+strict"}) {
          const std::string modes = "," + run.key + ",";
          if (run.key == "all" || modes.find("," + mode + ",") != std::string::npos)
            all[{mode, item.text()}] = &result;
        }
      }
    }
  }
  std::erase_if(all, [&](const auto& entry) {
    const Version version = *Version::parse(entry.first.second);
    return version != newest[version.minor()];
  });
  return all;
}

TEST(Validate, FindsWhatTalosFinds) {
  Counts counts;
  for (const std::string& file : test::reference_files("talos/validate", ".json")) {
    const Value recorded = text::parse_json(test::read_file(file), file);
    for (const Value& entry : recorded.items()) {
      const std::string& config = entry.find("config")->text();
      for (const auto& [run, result] : runs_of(*entry.find("results"))) {
        SCOPED_TRACE(entry.find("name")->text() + " " + run.first + " " + run.second);
        test::count_case();
        const auto minor = static_cast<unsigned>(Version::parse(run.second)->minor());
        const ConfigMode mode = run.first.starts_with("metal")   ? ConfigMode::Metal
                                : run.first.starts_with("cloud") ? ConfigMode::Cloud
                                                                 : ConfigMode::Container;
        const ConfigProblems problems = validate_config(config, "config.yaml", minor, mode);
        check_warnings(warnings_of(*result), problems, counts);
        if (result->find("exit")->as_int() == 0) {
          check_accepted(problems, counts);
        } else {
          ++counts.alike;
          if (refused_anyway(result->find("error")->text()))
            check_refused(result->find("error")->text(), problems);
        }
      }
    }
  }
  EXPECT_GT(counts.warnings, 0u);
  std::cout << counts.warnings << " warnings alike, " << counts.alike << " refused alike, "
            << counts.clean << " accepted alike, " << counts.ours
            << " accepted by Talos and refused by us\n";
}

}  // namespace
}  // namespace rocca::talos
