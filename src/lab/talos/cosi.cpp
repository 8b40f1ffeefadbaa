#include "lab/talos/cosi.hpp"

#include "base/strings.hpp"
#include "proto/cosi.pb.h"
#include "proto/cosi_meta.pb.h"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace rocca::lab::talos {

namespace pb = rocca::proto::cosi;

namespace {

constexpr std::size_t events_kept = 1000;

const std::vector<std::string>& namespaces() {
  static const std::vector<std::string> all{
      "cluster",  "config", "controlplane", "cri",  "etcd",    "files",   "hardware",  "k8s",
      "kubespan", "meta",   "network",      "perf", "runtime", "secrets", "siderolink"};
  return all;
}

void fill(const Resource& resource, pb::Resource& out) {
  pb::Metadata& metadata = *out.mutable_metadata();
  metadata.set_namespace_(resource.space);
  metadata.set_type(resource.type);
  metadata.set_id(resource.id);
  metadata.set_version(resource.version == 0 ? "undefined" : std::to_string(resource.version));
  metadata.set_owner(resource.owner);
  metadata.set_phase("running");
  const auto stamp = [](Instant when, google::protobuf::Timestamp& to) {
    const auto nanos = when.time_since_epoch().count();
    to.set_seconds(nanos / 1'000'000'000);
    to.set_nanos(static_cast<int>(nanos % 1'000'000'000));
  };
  stamp(resource.created, *metadata.mutable_created());
  stamp(resource.updated, *metadata.mutable_updated());
  for (const auto& [key, value] : resource.labels) (*metadata.mutable_labels())[key] = value;
  // From 1.12 on a configuration is one YAML string, and this tells talosctl so.
  if (resource.type == "MachineConfigs.config.talos.dev" &&
      (resource.yaml.starts_with('|') || resource.yaml.starts_with('"')))
    (*metadata.mutable_annotations())["talos.dev/yaml-spec"] = "1";
  out.mutable_spec()->set_proto_spec(resource.proto);
  out.mutable_spec()->set_yaml_spec(resource.yaml);
}

/// Who may see this at all; the order of the checks is Talos's.
void admit(const Call& call, const std::string& space, const std::string& type) {
  const auto& all = resource_kinds();
  const auto kind = std::find_if(all.begin(), all.end(),
                                 [&](const ResourceKind& each) { return each.type == type; });
  if (std::find(namespaces().begin(), namespaces().end(), space) == namespaces().end())
    refuse(Code::PermissionDenied, fmt::format("namespace \"{}\" is not supported", space));
  if (kind == all.end())
    refuse(Code::PermissionDenied, fmt::format("resource type \"{}\" is not supported", type));
  if (kind->sensitive &&
      std::find(call.roles.begin(), call.roles.end(), "os:admin") == call.roles.end())
    refuse(Code::PermissionDenied, "not authorized");
}

bool matches(const Resource& resource, const pb::LabelQuery& query) {
  for (const pb::LabelTerm& term : query.terms()) {
    const auto found = resource.labels.find(term.key());
    bool met = false;
    switch (term.op()) {
      case pb::LabelTerm::EXISTS:
        met = found != resource.labels.end();
        break;
      case pb::LabelTerm::NOT_EXISTS:
        met = found == resource.labels.end();
        break;
      default:
        met = found != resource.labels.end() && std::find(term.value().begin(), term.value().end(),
                                                          found->second) != term.value().end();
    }
    if (met == term.invert()) return false;
  }
  return true;
}

bool matches(const Resource& resource,
             const google::protobuf::RepeatedPtrField<pb::LabelQuery>& any,
             const std::optional<std::regex>& id) {
  if (id && !std::regex_search(resource.id, *id)) return false;
  return any.empty() || std::any_of(any.begin(), any.end(), [&](const pb::LabelQuery& query) {
           return matches(resource, query);
         });
}

std::optional<std::regex> id_query(bool asked, const pb::IDQuery& query) {
  if (!asked) return std::nullopt;
  try {
    return std::regex(query.regexp(), std::regex::ECMAScript);
  } catch (const std::regex_error&) {
    // Go's words for the one mistake that can be told apart without its parser.
    refuse(Code::InvalidArgument,
           fmt::format("failed to compile regexp: error parsing regexp: missing closing ): `{}`",
                       query.regexp()));
  }
}

}  // namespace

std::string yaml_string(const std::string& text) {
  std::string emitted = text::emit_yaml(text::Value::string(text), {.indent = 4});
  while (!emitted.empty() && emitted.back() == '\n') emitted.pop_back();
  return emitted;
}

bool ResourceStore::watched_besides(std::string_view type) const noexcept {
  return watched_.size() != watched_.count(type);
}

ResourceStore::Kind& ResourceStore::kind(const std::string& space, const std::string& type) {
  const auto found = kinds_.find(ByName::Names{space, type});
  return found != kinds_.end() ? found->second : kinds_[{space, type}];
}

void ResourceStore::record(Kind& kind, Event event) {
  event.number = ++number_;
  kind.events.push_back(std::move(event));
  if (kind.events.size() > events_kept) kind.events.pop_front();
  kind.changed.wake_all();
}

void ResourceStore::set(const std::string& space, const std::string& type, const std::string& id,
                        const std::string& owner, std::string proto, std::string yaml) {
  Kind& all = kind(space, type);
  const auto found = all.resources.find(id);
  if (found == all.resources.end()) {
    Resource made{space,           type, id,           owner,        std::move(proto),
                  std::move(yaml), 1,    world_.now(), world_.now(), {}};
    all.resources.emplace(id, made);
    record(all, {Event::Created, std::move(made), std::nullopt, 0});
    return;
  }
  Resource& resource = found->second;
  if (resource.proto == proto && resource.yaml == yaml) return;
  Resource old = resource;
  resource.proto = std::move(proto);
  resource.yaml = std::move(yaml);
  ++resource.version;
  resource.updated = world_.now();
  record(all, {Event::Updated, resource, std::move(old), 0});
}

void ResourceStore::remove(const std::string& space, const std::string& type,
                           const std::string& id) {
  Kind& all = kind(space, type);
  const auto found = all.resources.find(id);
  if (found == all.resources.end()) return;
  Resource gone = std::move(found->second);
  all.resources.erase(found);
  record(all, {Event::Destroyed, std::move(gone), std::nullopt, 0});
}

void ResourceStore::clear() {
  for (auto& [key, kind] : kinds_) {
    kind.resources.clear();
    kind.events.clear();
  }
}

const Resource* ResourceStore::find(const std::string& space, const std::string& type,
                                    const std::string& id) const {
  const auto kind = kinds_.find(ByName::Names{space, type});
  if (kind == kinds_.end()) return nullptr;
  const auto found = kind->second.resources.find(id);
  return found == kind->second.resources.end() ? nullptr : &found->second;
}

std::string ResourceStore::encode(const Event& event, bool bookmark) const {
  pb::WatchResponse response;
  pb::Event& out = *response.add_event();
  fill(event.resource, *out.mutable_resource());
  out.set_event_type(static_cast<pb::EventType>(event.type));
  if (event.old) fill(*event.old, *out.mutable_old());
  if (bookmark) {
    std::string mark(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) mark[i] = static_cast<char>(event.number >> (56 - 8 * i));
    out.set_bookmark(mark);
  }
  return response.SerializeAsString();
}

Routine<void> ResourceStore::serve(std::shared_ptr<Call> call, bool options_required) {
  if (call->method == "Get") {
    const auto request = call->parse<pb::GetRequest>();
    admit(*call, request.namespace_(), request.type());
    const Resource* found = find(request.namespace_(), request.type(), request.id());
    if (found == nullptr)
      refuse(Code::NotFound, fmt::format("resource {}({}/{}@undefined) doesn't exist",
                                         request.type(), request.namespace_(), request.id()));
    pb::GetResponse response;
    fill(*found, *response.mutable_resource());
    call->reply->send(response.SerializeAsString());
    co_return;
  }
  if (call->method == "List") {
    const auto request = call->parse<pb::ListRequest>();
    admit(*call, request.namespace_(), request.type());
    const auto ids = id_query(request.options().has_id_query(), request.options().id_query());
    for (const auto& [id, resource] : kind(request.namespace_(), request.type()).resources) {
      if (!matches(resource, request.options().label_query(), ids)) continue;
      pb::ListResponse response;
      fill(resource, *response.mutable_resource());
      call->reply->send(response.SerializeAsString());
    }
    co_return;
  }
  if (call->method == "Watch") {
    co_await watch(call, options_required);
    co_return;
  }
  refuse(Code::PermissionDenied, "write access is not allowed");
}

Routine<void> ResourceStore::watch(std::shared_ptr<Call> call, bool options_required) {
  const auto request = call->parse<pb::WatchRequest>();
  // Without anything the role matrix saw an empty answer end well: nothing to watch.
  if (request.namespace_().empty() && request.type().empty()) co_return;
  if (!request.has_options() && options_required)
    refuse(Code::Internal, "runtime error: invalid memory address or nil pointer dereference");
  admit(*call, request.namespace_(), request.type());
  struct Watcher {
    std::multiset<std::string, std::less<>>& all;
    std::multiset<std::string, std::less<>>::iterator own;
    Watcher(std::multiset<std::string, std::less<>>& watched, const std::string& type)
        : all(watched), own(watched.insert(type)) {}
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;
    ~Watcher() { all.erase(own); }
  };
  const Watcher counted{watched_, request.type()};
  const pb::WatchOptions& options = request.options();
  Kind& all = kind(request.namespace_(), request.type());
  const auto ids = id_query(options.has_id_query(), options.id_query());
  const bool one = request.has_id();
  if (one && options.bootstrap_contents())
    refuse(Code::Unimplemented, "bootstrap contents is not implemented for resource watch");
  if (one && (options.label_query_size() != 0 || options.has_id_query()))
    refuse(Code::Unimplemented, "label query is not implemented for resource watch");
  const auto wanted = [&](const Resource& resource) {
    return one ? resource.id == request.id() : matches(resource, options.label_query(), ids);
  };
  call->reply->send("");
  std::uint64_t seen = number_;
  std::vector<std::string> first;
  const auto marker = [&](Event::Type type) {
    Event event;
    event.type = type;
    event.resource.space = request.namespace_();
    event.resource.type = request.type();
    event.resource.version = 0;
    event.resource.created = event.resource.updated = world_.now();
    event.number = number_;
    return event;
  };
  if (options.has_start_from_bookmark() && options.start_from_bookmark().size() == 8) {
    seen = 0;
    for (const char c : options.start_from_bookmark())
      seen = seen << 8 | static_cast<unsigned char>(c);
  } else if (options.tail_events() > 0) {
    std::vector<const Event*> past;
    for (const Event& event : all.events)
      if (wanted(event.resource)) past.push_back(&event);
    const auto tail = static_cast<std::size_t>(options.tail_events());
    for (std::size_t i = past.size() > tail ? past.size() - tail : 0; i < past.size(); ++i)
      first.push_back(encode(*past[i], true));
  } else if (one) {
    const auto found = all.resources.find(request.id());
    Event event = marker(found == all.resources.end() ? Event::Destroyed : Event::Created);
    event.resource.id = request.id();
    if (found != all.resources.end()) event.resource = found->second;
    first.push_back(encode(event, false));
  } else if (options.bootstrap_contents()) {
    for (const auto& [id, resource] : all.resources)
      if (wanted(resource)) {
        Event event;
        event.resource = resource;
        first.push_back(encode(event, false));
      }
    if (request.api_version() >= 1) first.push_back(encode(marker(Event::Bootstrapped), true));
  } else if (options.bootstrap_bookmark()) {
    first.push_back(encode(marker(Event::Noop), true));
  }
  if (options.aggregated()) {
    std::string together;
    for (const std::string& each : first) together += each;  // repeated fields concatenate
    if (!first.empty()) call->reply->send(together);
  } else {
    for (const std::string& each : first) call->reply->send(each);
  }
  while (true) {
    // The deque may grow while a message is on its way: look it up again by number.
    bool sent = true;
    while (sent) {
      sent = false;
      for (const Event& event : all.events)
        if (event.number > seen) {
          seen = event.number;
          if (wanted(event.resource)) call->reply->send(encode(event, true));
          sent = true;
          break;
        }
    }
    co_await world_.wait(all.changed, {}, &call->interrupt);
  }
}

const std::vector<ResourceKind>& resource_kinds() {
  static const std::vector<ResourceKind> kinds{
      {"MachineStatuses.runtime.talos.dev",
       "runtime",
       false,
       {{"Stage", "{.stage}"}, {"Ready", "{.status.ready}"}}},
      {"MachineConfigs.config.talos.dev", "config", true},
      {"MachineTypes.config.talos.dev", "config", false, {{"Type", "{}"}}},
      {"Members.cluster.talos.dev",
       "cluster",
       false,
       {{"Hostname", "{.hostname}"},
        {"Machine Type", "{.machineType}"},
        {"OS", "{.operatingSystem}"},
        {"Addresses", "{.addresses}"}}},
      {"Affiliates.cluster.talos.dev", "cluster", false},
      {"Identities.cluster.talos.dev", "cluster", false, {{"ID", "{.nodeId}"}}},
      {"Infos.cluster.talos.dev", "cluster", false},
      {"Configs.cluster.talos.dev", "config", true},
      {"Disks.block.talos.dev",
       "runtime",
       false,
       {{"Size", "{.pretty_size}"}, {"Model", "{.model}"}, {"Serial", "{.serial}"}}},
      {"SystemDisks.block.talos.dev", "runtime", false, {{"Disk", "{.diskID}"}}},
      {"DiscoveredVolumes.block.talos.dev", "runtime", false},
      {"VolumeStatuses.block.talos.dev", "runtime", false},
      {"MountStatuses.block.talos.dev", "runtime", false},
      {"MountStatuses.runtime.talos.dev",
       "runtime",
       false,
       {{"Source", "{.source}"},
        {"Target", "{.target}"},
        {"Filesystem Type", "{.filesystemType}"}}},
      {"VolumeConfigs.block.talos.dev", "runtime", true},
      {"Nodenames.kubernetes.talos.dev", "k8s", false, {{"Nodename", "{.nodename}"}}},
      {"NodeStatuses.kubernetes.talos.dev",
       "k8s",
       false,
       {{"Ready", "{.nodeReady}"}, {"Unschedulable", "{.unschedulable}"}}},
      {"StaticPods.kubernetes.talos.dev", "k8s", false},
      {"StaticPodStatuses.kubernetes.talos.dev", "k8s", false},
      {"KubePrismEndpoints.kubernetes.talos.dev", "k8s", false},
      {"KubeletConfigs.kubernetes.talos.dev", "k8s", true},
      {"KubeletSpecs.kubernetes.talos.dev", "k8s", true},
      {"APIServerConfigs.kubernetes.talos.dev", "controlplane", true},
      {"BootstrapManifestsConfigs.kubernetes.talos.dev", "controlplane", false},
      {"Manifests.kubernetes.talos.dev", "controlplane", false},
      {"ManifestStatuses.kubernetes.talos.dev", "controlplane", false},
      {"NodeAddresses.net.talos.dev", "network", false, {{"Addresses", "{.addresses}"}}},
      {"AddressStatuses.net.talos.dev",
       "network",
       false,
       {{"Address", "{.address}"}, {"Link", "{.linkName}"}}},
      {"LinkStatuses.net.talos.dev",
       "network",
       false,
       {{"Type", "{.type}"},
        {"Kind", "{.kind}"},
        {"Hw Addr", "{.hardwareAddr}"},
        {"Oper State", "{.operationalState}"},
        {"Link State", "{.linkState}"}}},
      {"RouteStatuses.net.talos.dev", "network", false},
      {"HostnameStatuses.net.talos.dev",
       "network",
       false,
       {{"Hostname", "{.hostname}"}, {"Domainname", "{.domainname}"}}},
      {"ResolverStatuses.net.talos.dev", "network", false, {{"Resolvers", "{.dnsServers}"}}},
      {"TimeServerStatuses.net.talos.dev", "network", false},
      {"NetworkStatuses.net.talos.dev", "network", false},
      {"ProbeStatuses.net.talos.dev", "network", false},
      {"DNSUpstreams.net.talos.dev", "network", false},
      {"LinkSpecs.net.talos.dev", "network", true},
      {"OperatorSpecs.net.talos.dev", "network", true},
      {"TimeStatuses.v1alpha1.talos.dev", "runtime", false, {{"Synced", "{.synced}"}}},
      {"Services.v1alpha1.talos.dev",
       "runtime",
       false,
       {{"Running", "{.running}"}, {"Healthy", "{.healthy}"}, {"Health Unknown", "{.unknown}"}}},
      {"EtcdMembers.etcd.talos.dev", "etcd", false, {{"Member ID", "{.memberID}"}}},
      {"EtcdSpecs.etcd.talos.dev", "etcd", false},
      {"EtcdConfigs.etcd.talos.dev", "etcd", false},
      {"ExtensionStatuses.runtime.talos.dev",
       "runtime",
       false,
       {{"Name", "{.metadata.name}"}, {"Version", "{.metadata.version}"}}},
      {"ExtensionServiceConfigs.runtime.talos.dev", "runtime", true},
      {"MetaKeys.runtime.talos.dev", "runtime", false, {{"Value", "{.value}"}}},
      {"PlatformMetadatas.talos.dev", "runtime", false, {{"Platform", "{.platform}"}}},
      {"SystemInformations.hardware.talos.dev", "hardware", false, {{"UUID", "{.uuid}"}}},
      {"Diagnostics.runtime.talos.dev", "runtime", false, {{"Message", "{.message}"}}},
      {"SecurityStates.talos.dev", "runtime", false},
      {"Versions.runtime.talos.dev", "runtime", false, {{"Version", "{.version}"}}},
      {"MaintenanceServiceRequests.runtime.talos.dev", "runtime", false},
      {"KernelParamStatuses.runtime.talos.dev", "runtime", false},
      {"KernelParamSpecs.runtime.talos.dev", "runtime", false},
      {"UniqueMachineTokens.runtime.talos.dev", "runtime", false},
      {"SeccompProfiles.cri.talos.dev", "cri", false},
      {"KubeSpanIdentities.kubespan.talos.dev", "kubespan", true},
      {"OSRootSecrets.secrets.talos.dev", "secrets", true},
      {"CertSANs.secrets.talos.dev", "secrets", true},
      {"ResourceDefinitions.meta.cosi.dev", "meta", false, {{"Aliases", "{.aliases[:]}"}}},
      {"Namespaces.meta.cosi.dev", "meta", false},
  };
  return kinds;
}

}  // namespace rocca::lab::talos
