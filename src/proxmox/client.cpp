#include "proxmox/client.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "proxmox/reading.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::proxmox {

namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

std::string form(const Parameters& parameters) {
  std::string text;
  for (const auto& [key, value] : parameters) {
    if (!text.empty()) text += '&';
    text += percent_encode(key) + "=" + percent_encode(value);
  }
  return text;
}

/// What an answer that is no JSON of Proxmox most likely is. The body is not repeated: it may be
/// anything.
Error not_proxmox(std::string_view endpoint, const net::Answer& answer, std::string_view why) {
  const std::string type{answer.head.headers.find("content-type").value_or("")};
  Error error{
      Fault::Rejected,
      fmt::format("{} did not answer like a Proxmox VE API: {} (status {} {}, content type '{}')",
                  endpoint, why, answer.head.status, answer.head.reason, type)};
  if (answer.body.find("<html") != std::string::npos || type.starts_with("text/html"))
    error.hint(
        "a web page came back: is there a reverse proxy or another service on that port? "
        "The API is https://HOST:8006");
  else
    error.hint("the endpoint should be https://HOST:8006 of a Proxmox VE node");
  return error;
}

bool looks_truncated(std::string_view body) {
  const std::string_view text = trim(body);
  return !text.empty() && text.front() == '{' && text.back() != '}';
}

std::string vm_path(const std::string& node, Vmid vmid, std::string_view rest = "") {
  return fmt::format("/nodes/{}/qemu/{}{}", percent_encode(node), vmid, rest);
}

std::string task_path(const Upid& upid, std::string_view rest = "") {
  return fmt::format("/nodes/{}/tasks/{}{}", percent_encode(upid.node), percent_encode(upid.text),
                     rest);
}

Instant from_epoch(std::uint64_t seconds) {
  return Instant{std::chrono::seconds{static_cast<std::int64_t>(seconds)}};
}

std::vector<text::Value> rows(text::Value data) {
  return data.is_list() ? std::move(data.items()) : std::vector<text::Value>{};
}

/// `Sun, 16 Nov 2026 00:12:11 GMT`.
std::optional<Instant> parse_http_date(std::string_view text) {
  static constexpr std::array<std::string_view, 12> months = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (text.size() != 29 || !text.ends_with(" GMT")) return std::nullopt;
  const auto month = std::find(months.begin(), months.end(), text.substr(8, 3));
  if (month == months.end()) return std::nullopt;
  return parse_instant(fmt::format("{}-{:02}-{}T{}Z", text.substr(12, 4),
                                   month - months.begin() + 1, text.substr(5, 2),
                                   text.substr(17, 8)));
}

Parameters update_parameters(const VmUpdate& update) {
  Parameters parameters;
  for (const auto& [key, value] : update.set) parameters.emplace_back(key, value);
  if (!update.erase.empty()) parameters.emplace_back("delete", join(update.erase, ","));
  if (!update.revert.empty()) parameters.emplace_back("revert", join(update.revert, ","));
  if (!update.digest.empty()) parameters.emplace_back("digest", update.digest);
  return parameters;
}

/// The shape only: who it is and whether it is right, Proxmox knows.
void check_token(std::string_view token) {
  constexpr const char* form = "USER@REALM!TOKENID=SECRET";
  const std::size_t at = token.find('@');
  const std::size_t bang = token.find('!');
  const std::size_t equals = token.find('=');
  const bool ordered = at > 0 && at < bang && bang < equals && equals != std::string_view::npos;
  const bool whole = ordered && bang > at + 1 && equals > bang + 1 && equals + 1 < token.size();
  const bool plain = token.find_first_of(" \t\r\n") == std::string_view::npos;
  if (whole && plain && !token.starts_with("PVE")) return;
  if (token.starts_with("PVE:"))
    throw Error(Fault::Usage, "what is given as the API token is a login ticket")
        .hint(fmt::format("a ticket expires after two hours; make a token (pveum user token add "
                          "USER@REALM TOKENID) and give it as {}",
                          form));
  if (token.starts_with("PVEAPIToken"))
    throw Error(Fault::Usage, "the API token is given with the name of its header")
        .hint(fmt::format("leave out PVEAPIToken=, only {}", form));
  // The text is not repeated: some of it may be the secret.
  throw Error(Fault::Usage, "the API token has not the form of one")
      .hint(fmt::format("{}, in one line; pveum shows the secret once, when the token is made",
                        form));
}

bool absent(const Failure& failure) {
  return failure.reason == Reason::DoesNotExist;
}

}  // namespace

Client::Client(net::Transport& transport, Access access, std::stop_token stop)
    : transport_(transport), access_(std::move(access)), stop_(std::move(stop)) {
  if (access_.endpoints.empty()) throw Error(Fault::Usage, "no Proxmox endpoint is named");
  check_token(access_.token.reveal());
  for (std::string& endpoint : access_.endpoints) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    const auto url = net::Url::parse(endpoint);
    if (!url || url->target != "/")
      throw Error(Fault::Usage, fmt::format("'{}' is no Proxmox endpoint", endpoint))
          .hint("write it as https://HOST:8006");
    if (url->scheme != "https")
      throw Error(Fault::Usage, fmt::format("the Proxmox endpoint '{}' is not https", endpoint))
          .hint("Proxmox serves its API by https only, and the token must not travel in clear");
  }
}

net::Answer Client::send(const std::string& method, const std::string& path,
                         const Parameters& parameters) {
  net::Request request;
  request.method = method;
  request.tls = access_.tls;
  request.version = net::HttpVersion::Http1;  // Proxmox speaks no HTTP/2
  request.authorization = Secret(fmt::format("PVEAPIToken={}", access_.token.reveal()));
  std::string target = "/api2/json" + path;
  const bool in_body = method == "POST" || method == "PUT";
  if (!in_body && !parameters.empty()) target += "?" + form(parameters);
  if (in_body) {
    request.headers.add("Content-Type", "application/x-www-form-urlencoded");
    request.body = form(parameters);
  }
  const std::size_t first = access_.reach->last();
  for (std::size_t tried = 0;; ++tried) {
    const std::size_t index = (first + tried) % access_.endpoints.size();
    request.url = access_.endpoints[index] + target;
    try {
      net::Answer answer = net::fetch(transport_, request, stop_);
      endpoint_ = index;
      access_.reach->answered(index);
      return answer;
    } catch (const Error& error) {
      // Unreachable: nothing was sent, so another door of the same cluster may be tried.
      if (error.fault() != Fault::Unreachable || tried + 1 >= access_.endpoints.size()) throw;
    }
  }
}

Client::Reply Client::call(const std::string& method, const std::string& path,
                           const Parameters& parameters) {
  const net::Answer answer = send(method, path, parameters);
  const std::string& endpoint = access_.endpoints[endpoint_];
  const int status = answer.head.status;
  if (const auto date = answer.head.headers.find("date")) server_time_ = parse_http_date(*date);
  if (status >= 300 && status < 400) throw not_proxmox(endpoint, answer, "it sent us elsewhere");
  if (status >= 595 && status <= 599) return classify(status, answer.head.reason);
  const bool json =
      answer.head.headers.find("content-type").value_or("").find("application/json") !=
      std::string_view::npos;
  if (status >= 400 && !json) {
    const auto server = answer.head.headers.find("server").value_or("");
    const bool from_proxmox = server.find("pve-api-daemon") != std::string_view::npos;
    const bool web_page = answer.head.headers.find("content-type").value_or("").find("html") !=
                          std::string_view::npos;
    // Refusals of Proxmox's own HTTP server come without JSON: 401 with nothing, 501 and 506 as
    // plain text.
    if (web_page || (!from_proxmox && status != 401 && status != 403 && !answer.body.empty()))
      throw not_proxmox(endpoint, answer, "an error page came back");
    return classify(status, answer.head.reason);
  }
  text::Value body;
  try {
    body = text::parse_json(answer.body, "answer");
  } catch (const Error&) {
    // Proxmox did answer: what was asked for may have been done.
    if (looks_truncated(answer.body))
      throw Error(Fault::Lost,
                  fmt::format("{} {}/api2/json{}: the answer is cut short after {} bytes", method,
                              endpoint, path, answer.body.size()))
          .hint(method == "GET"
                    ? "something between here and Proxmox cuts answers: a proxy, a broken network"
                    : "something between here and Proxmox cuts answers, and it may have happened; "
                      "running again looks first");
    throw not_proxmox(endpoint, answer, "it is no JSON");
  }
  // Refusals of Proxmox have it too, as null.
  if (!body.is_map() || body.find("data") == nullptr)
    throw not_proxmox(endpoint, answer, "it has no `data`");
  if (status >= 400) {
    std::map<std::string, std::string> errors;
    if (const text::Value* map = body.find("errors"))
      for (const text::Entry& entry : map->entries()) errors[entry.key] = scalar_text(entry.value);
    // The reason phrase holds only the first line; `message` (since 8.4) all of it.
    const std::string message = read_text_or(body, "message", answer.head.reason);
    return classify(status, message, std::move(errors));
  }
  return std::move(*body.find("data"));
}

text::Value Client::require(const std::string& doing, const std::string& method,
                            const std::string& path, const Parameters& parameters) {
  Reply reply = call(method, path, parameters);
  if (const auto* failure = std::get_if<Failure>(&reply)) throw failure->error(doing);
  return std::get<text::Value>(std::move(reply));
}

Upid Client::require_task(const std::string& doing, const std::string& method,
                          const std::string& path, const Parameters& parameters) {
  const text::Value data = require(doing, method, path, parameters);
  const auto upid = Upid::parse(data.is_scalar() ? data.text() : "");
  if (!upid)
    throw Error(Fault::Rejected,
                fmt::format("{}: Proxmox answered without the name of a task", doing));
  return *upid;
}

VersionInfo Client::version() {
  const text::Value data = require("asking Proxmox for its version", "GET", "/version");
  const std::string text = read_text_or(data, "version");
  const auto parsed = Version::parse_loose(split(text, '-').front());
  if (!parsed)
    throw Error(Fault::Rejected,
                fmt::format("Proxmox calls itself version '{}', which is none", text))
        .hint("is the endpoint a Proxmox VE (not a Backup Server or Mail Gateway)?");
  return {*parsed, read_text_or(data, "release"), read_text_or(data, "repoid")};
}

std::vector<NodeInfo> Client::nodes() {
  std::vector<NodeInfo> nodes;
  for (const text::Value& row : rows(require("listing the hosts", "GET", "/nodes"))) {
    NodeInfo node;
    node.name = read_text_or(row, "node");
    node.online = read_text_or(row, "status") == "online";
    node.fingerprint = read_text(row, "ssl_fingerprint");
    node.cores = read_number(row, "maxcpu");
    if (const auto total = read_number(row, "maxmem")) node.memory_total = Bytes{*total};
    if (const auto used = read_number(row, "mem")) node.memory_used = Bytes{*used};
    if (const auto uptime = read_number(row, "uptime")) node.uptime = std::chrono::seconds{*uptime};
    nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const NodeInfo& a, const NodeInfo& b) { return a.name < b.name; });
  return nodes;
}

ClusterStatus Client::cluster_status() {
  ClusterStatus status;
  for (const text::Value& row : rows(require("asking for the quorum", "GET", "/cluster/status"))) {
    if (read_text_or(row, "type") == "cluster") {
      status.name = read_text_or(row, "name");
      status.quorate = read_switch(row, "quorate");
    } else {
      status.members.push_back(
          {read_text_or(row, "name"), read_switch(row, "online"), read_text_or(row, "ip")});
    }
  }
  return status;
}

Options Client::options() {
  const text::Value data = require("reading the datacenter's options", "GET", "/cluster/options");
  Options options;
  if (const text::Value* next = data.find("next-id")) {
    options.next_id_lower = read_text_or(*next, "lower");
    options.next_id_upper = read_text_or(*next, "upper");
  }
  if (const text::Value* style = data.find("tag-style"))
    options.tags_case_sensitive = read_switch(*style, "case-sensitive");
  if (const text::Value* access = data.find("user-tag-access"))
    options.tag_access = read_text_or(*access, "user-allow", "free");
  options.registered_tags = read_list(data, "registered-tags");
  options.mac_prefix = read_text_or(data, "mac_prefix");
  return options;
}

std::vector<VmRow> Client::vms() {
  std::vector<VmRow> vms;
  for (const text::Value& row :
       rows(require("listing all VMs", "GET", "/cluster/resources", {{"type", "vm"}}))) {
    VmRow vm;
    vm.vmid = static_cast<Vmid>(read_number(row, "vmid").value_or(0));
    vm.node = read_text_or(row, "node");
    vm.name = read_text_or(row, "name");
    vm.status = read_text_or(row, "status", "unknown");
    vm.is_template = read_switch(row, "template");
    vm.is_container = read_text_or(row, "type") == "lxc";
    vm.pool = read_text_or(row, "pool");
    vm.lock = read_text_or(row, "lock");
    vm.ha_state = read_text_or(row, "hastate");
    vm.tags = read_list(row, "tags");
    vms.push_back(std::move(vm));
  }
  std::sort(vms.begin(), vms.end(), [](const VmRow& a, const VmRow& b) { return a.vmid < b.vmid; });
  return vms;
}

std::vector<Bridge> Client::bridges(const std::string& node) {
  std::vector<Bridge> bridges;
  for (const text::Value& row : rows(require(fmt::format("listing the bridges of {}", node), "GET",
                                             fmt::format("/nodes/{}/network", percent_encode(node)),
                                             {{"type", "any_bridge"}})))
    bridges.push_back({read_text_or(row, "iface"), read_text_or(row, "type"),
                       read_switch(row, "active"), read_switch(row, "bridge_vlan_aware")});
  return bridges;
}

std::map<std::string, std::string> Client::vnet_zones() {
  std::map<std::string, std::string> zones;
  for (const text::Value& row : rows(require("listing VNets", "GET", "/cluster/sdn/vnets")))
    zones[read_text_or(row, "vnet")] = read_text_or(row, "zone");
  return zones;
}

std::vector<std::string> Client::machine_types(const std::string& node) {
  std::vector<std::string> types;
  for (const text::Value& row :
       rows(require("listing machine types", "GET",
                    fmt::format("/nodes/{}/capabilities/qemu/machines", percent_encode(node)))))
    types.push_back(read_text_or(row, "id"));
  return types;
}

std::vector<std::string> Client::cpu_models(const std::string& node) {
  std::vector<std::string> models;
  for (const text::Value& row :
       rows(require("listing CPU models", "GET",
                    fmt::format("/nodes/{}/capabilities/qemu/cpu", percent_encode(node)))))
    models.push_back(read_text_or(row, "name"));
  return models;
}

std::vector<CertificateInfo> Client::certificates(const std::string& node) {
  std::vector<CertificateInfo> certificates;
  for (const text::Value& row :
       rows(require("reading the host's certificates", "GET",
                    fmt::format("/nodes/{}/certificates/info", percent_encode(node))))) {
    CertificateInfo info{read_text_or(row, "filename"), read_text_or(row, "fingerprint"),
                         read_text_or(row, "subject"), read_text_or(row, "issuer"), std::nullopt};
    if (const auto end = read_number(row, "notafter")) info.not_after = from_epoch(*end);
    certificates.push_back(std::move(info));
  }
  return certificates;
}

Vmid Client::next_free_vmid() {
  const text::Value data = require("asking for a free VM id", "GET", "/cluster/nextid");
  const auto id = parse_uint(scalar_text(data));
  if (!id) throw Error(Fault::Rejected, "Proxmox answered without a VM id");
  return static_cast<Vmid>(*id);
}

bool Client::vmid_is_free(Vmid vmid) {
  const Reply reply = call("GET", "/cluster/nextid", {{"vmid", std::to_string(vmid)}});
  const auto* failure = std::get_if<Failure>(&reply);
  if (failure == nullptr) return true;
  if (failure->reason == Reason::AlreadyExists) return false;
  throw failure->error(fmt::format("asking whether VM id {} is free", vmid));
}

Permissions Client::permissions(const std::string& path) {
  const text::Value data =
      require(fmt::format("reading our privileges on {}", path), "GET", "/access/permissions",
              path.empty() ? Parameters{} : Parameters{{"path", path}});
  Permissions permissions;
  for (const text::Entry& entry : data.entries()) {
    std::vector<std::string>& names = permissions[entry.key];
    for (const text::Entry& privilege : entry.value.entries()) names.push_back(privilege.key);
    std::sort(names.begin(), names.end());
  }
  return permissions;
}

std::vector<std::string> Client::pools() {
  std::vector<std::string> pools;
  for (const text::Value& row : rows(require("listing pools", "GET", "/pools")))
    pools.push_back(read_text_or(row, "poolid"));
  return pools;
}

std::vector<StorageInfo> Client::storages(const std::string& node) {
  std::vector<StorageInfo> storages;
  for (const text::Value& row :
       rows(require(fmt::format("listing the storages of {}", node), "GET",
                    fmt::format("/nodes/{}/storage", percent_encode(node))))) {
    StorageInfo storage;
    storage.name = read_text_or(row, "storage");
    storage.type = read_text_or(row, "type");
    storage.content = read_list(row, "content");
    std::sort(storage.content.begin(), storage.content.end());
    storage.enabled = read_switch(row, "enabled");
    storage.active = read_switch(row, "active");
    storage.shared = read_switch(row, "shared");
    storage.total = Bytes{read_number(row, "total").value_or(0)};
    storage.used = Bytes{read_number(row, "used").value_or(0)};
    storage.available = Bytes{read_number(row, "avail").value_or(0)};
    storages.push_back(std::move(storage));
  }
  std::sort(storages.begin(), storages.end(),
            [](const StorageInfo& a, const StorageInfo& b) { return a.name < b.name; });
  return storages;
}

std::vector<Volume> Client::volumes(const std::string& node, const std::string& storage,
                                    const std::string& content, std::optional<Vmid> vmid) {
  Parameters parameters;
  if (!content.empty()) parameters.emplace_back("content", content);
  if (vmid) parameters.emplace_back("vmid", std::to_string(*vmid));
  std::vector<Volume> volumes;
  for (const text::Value& row :
       rows(require(fmt::format("listing storage {}", storage), "GET",
                    fmt::format("/nodes/{}/storage/{}/content", percent_encode(node),
                                percent_encode(storage)),
                    parameters))) {
    Volume volume;
    volume.id = read_text_or(row, "volid");
    volume.format = read_text_or(row, "format");
    volume.content = read_text_or(row, "content");
    volume.size = Bytes{read_number(row, "size").value_or(0)};
    if (const auto owner = read_number(row, "vmid")) volume.vmid = static_cast<Vmid>(*owner);
    if (const auto time = read_number(row, "ctime")) volume.created = from_epoch(*time);
    volumes.push_back(std::move(volume));
  }
  std::sort(volumes.begin(), volumes.end(),
            [](const Volume& a, const Volume& b) { return a.id < b.id; });
  return volumes;
}

std::optional<UrlMetadata> Client::find_url(const std::string& node, const std::string& url) {
  const Reply reply = call("GET", fmt::format("/nodes/{}/query-url-metadata", percent_encode(node)),
                           {{"url", url}});
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    // `invalid server response: '404 Not Found'`; no answer at all has 500 there.
    if (failure->text.find("invalid server response: '4") != std::string::npos) return std::nullopt;
    throw failure->error(fmt::format("asking {} to look at {}", node, url));
  }
  const text::Value& data = std::get<text::Value>(reply);
  return UrlMetadata{read_text_or(data, "filename"), Bytes{read_number(data, "size").value_or(0)},
                     read_text_or(data, "mimetype")};
}

UrlMetadata Client::url_metadata(const std::string& node, const std::string& url) {
  if (auto found = find_url(node, url)) return std::move(*found);
  throw Error(Fault::NotFound, fmt::format("{} finds nothing at {}", node, url))
      .hint("the server answered, and has no such file: check the URL");
}

Upid Client::start_download(const std::string& node, const Download& download) {
  Parameters parameters{
      {"content", download.content}, {"filename", download.filename}, {"url", download.url}};
  if (!download.checksum.empty()) {
    parameters.emplace_back("checksum-algorithm", download.checksum_algorithm);
    parameters.emplace_back("checksum", download.checksum);
  }
  if (!download.verify_certificates) parameters.emplace_back("verify-certificates", "0");
  return require_task(fmt::format("downloading {} to {}", download.filename, download.storage),
                      "POST",
                      fmt::format("/nodes/{}/storage/{}/download-url", percent_encode(node),
                                  percent_encode(download.storage)),
                      parameters);
}

std::optional<Upid> Client::start_delete_volume(const std::string& node,
                                                const std::string& volume) {
  const std::string storage = volume.substr(0, volume.find(':'));
  const text::Value data =
      require(fmt::format("deleting {}", volume), "DELETE",
              fmt::format("/nodes/{}/storage/{}/content/{}", percent_encode(node),
                          percent_encode(storage), percent_encode(volume)));
  return data.is_scalar() ? Upid::parse(data.text()) : std::nullopt;
}

std::optional<VmConfig> Client::find_config(const std::string& node, Vmid vmid, bool current) {
  Reply reply = call("GET", vm_path(node, vmid, "/config"),
                     current ? Parameters{{"current", "1"}} : Parameters{});
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (absent(*failure)) return std::nullopt;
    throw failure->error(fmt::format("reading the configuration of VM {}", vmid));
  }
  VmConfig config;
  for (const text::Entry& entry : std::get<text::Value>(reply).entries()) {
    if (entry.key == "digest")
      config.digest = scalar_text(entry.value);
    else if (entry.value.is_scalar())
      config.options[entry.key] = scalar_text(entry.value);
  }
  return config;
}

std::optional<VmConfig> Client::find_whole_config(const std::string& node, Vmid vmid) {
  Reply reply = call("GET", vm_path(node, vmid, "/pending"));
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (absent(*failure)) return std::nullopt;
    throw failure->error(fmt::format("reading the configuration of VM {}", vmid));
  }
  VmConfig config;
  for (const text::Value& row : rows(std::get<text::Value>(reply))) {
    const std::string option = read_text_or(row, "key");
    const text::Value* value = row.find("value");
    if (value != nullptr && value->is_scalar())
      (option == "digest" ? config.digest : config.options[option]) = scalar_text(*value);
    const text::Value* pending = row.find("pending");
    if (pending != nullptr && pending->is_scalar())
      config.pending[option] = scalar_text(*pending);
    else if (read_switch(row, "delete"))
      config.pending[option] = std::nullopt;
  }
  return config;
}

std::vector<PendingChange> Client::pending(const std::string& node, Vmid vmid) {
  std::vector<PendingChange> changes;
  for (const text::Value& row : rows(require(fmt::format("reading what is pending for VM {}", vmid),
                                             "GET", vm_path(node, vmid, "/pending")))) {
    PendingChange change{read_text_or(row, "key"), read_text(row, "value"),
                         read_text(row, "pending"), read_switch(row, "delete")};
    if (change.pending || change.deletes) changes.push_back(std::move(change));
  }
  return changes;
}

std::optional<VmStatus> Client::find_status(const std::string& node, Vmid vmid) {
  Reply reply = call("GET", vm_path(node, vmid, "/status/current"));
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (absent(*failure)) return std::nullopt;
    throw failure->error(fmt::format("reading the status of VM {}", vmid));
  }
  const text::Value& data = std::get<text::Value>(reply);
  VmStatus status;
  status.vmid = vmid;
  status.name = read_text_or(data, "name");
  status.status = read_text_or(data, "status");
  status.qmp_status = read_text_or(data, "qmpstatus", status.status);
  status.lock = read_text_or(data, "lock");
  if (const auto uptime = read_number(data, "uptime"))
    status.uptime = std::chrono::seconds{*uptime};
  status.agent_enabled = read_switch(data, "agent");
  if (const text::Value* ha = data.find("ha")) status.ha_managed = read_switch(*ha, "managed");
  status.cpu = read_float(data, "cpu");
  status.net_in = read_number(data, "netin").value_or(0);
  status.net_out = read_number(data, "netout").value_or(0);
  status.disk_read = read_number(data, "diskread").value_or(0);
  status.disk_written = read_number(data, "diskwrite").value_or(0);
  return status;
}

std::variant<Upid, VmidTaken> Client::start_create(const std::string& node,
                                                   const VmCreate& create) {
  const std::string doing =
      fmt::format("creating VM {} ({}) on {}", create.vmid, create.name, node);
  Reply reply =
      call("POST", fmt::format("/nodes/{}/qemu", percent_encode(node)), create.parameters());
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    // A second create of an id that is being created right now times out on its lock file instead.
    const bool racing =
        failure->reason == Reason::Contention &&
        failure->text.find(fmt::format("lock-{}.conf", create.vmid)) != std::string::npos;
    if (failure->reason == Reason::AlreadyExists || racing) return VmidTaken{failure->text};
    throw failure->error(doing);
  }
  const text::Value& data = std::get<text::Value>(reply);
  const auto upid = Upid::parse(data.is_scalar() ? data.text() : "");
  if (!upid) throw Error(Fault::Rejected, doing + ": Proxmox answered without the name of a task");
  return *upid;
}

std::optional<Upid> Client::start_update(const std::string& node, Vmid vmid,
                                         const VmUpdate& update) {
  const text::Value data = require(fmt::format("changing VM {}", vmid), "POST",
                                   vm_path(node, vmid, "/config"), update_parameters(update));
  return data.is_scalar() ? Upid::parse(data.text()) : std::nullopt;
}

void Client::update(const std::string& node, Vmid vmid, const VmUpdate& update) {
  require(fmt::format("changing VM {}", vmid), "PUT", vm_path(node, vmid, "/config"),
          update_parameters(update));
}

Upid Client::start_resize(const std::string& node, Vmid vmid, const std::string& slot, Bytes size,
                          const std::string& digest) {
  const auto gib = size.whole_gib();
  const auto mib = size.whole_mib();
  if (!mib)
    throw Error(Fault::Usage,
                fmt::format("a disk of {} is no whole number of MiB", to_string(size)));
  Parameters parameters{{"disk", slot},
                        {"size", gib ? fmt::format("{}G", *gib) : fmt::format("{}M", *mib)}};
  if (!digest.empty()) parameters.emplace_back("digest", digest);
  return require_task(fmt::format("resizing {} of VM {}", slot, vmid), "PUT",
                      vm_path(node, vmid, "/resize"), parameters);
}

Upid Client::start_clone(const std::string& node, const Clone& clone) {
  Parameters parameters{{"newid", std::to_string(clone.target)}, {"full", clone.full ? "1" : "0"}};
  if (!clone.name.empty()) parameters.emplace_back("name", clone.name);
  if (!clone.description.empty()) parameters.emplace_back("description", clone.description);
  if (!clone.pool.empty()) parameters.emplace_back("pool", clone.pool);
  if (!clone.storage.empty()) parameters.emplace_back("storage", clone.storage);
  if (!clone.node.empty()) parameters.emplace_back("target", clone.node);
  return require_task(fmt::format("cloning VM {} to {}", clone.source, clone.target), "POST",
                      vm_path(node, clone.source, "/clone"), parameters);
}

Upid Client::start_template(const std::string& node, Vmid vmid) {
  return require_task(fmt::format("making VM {} a template", vmid), "POST",
                      vm_path(node, vmid, "/template"));
}

Upid Client::start_destroy(const std::string& node, Vmid vmid, bool purge) {
  // destroy-unreferenced-disks stays off: it deletes by name on every storage, other clusters'
  // disks too.
  return require_task(fmt::format("destroying VM {}", vmid), "DELETE", vm_path(node, vmid),
                      purge ? Parameters{{"purge", "1"}} : Parameters{});
}

void Client::regenerate_cloud_init(const std::string& node, Vmid vmid) {
  require(fmt::format("writing the cloud-init drive of VM {}", vmid), "PUT",
          vm_path(node, vmid, "/cloudinit"));
}

Upid Client::start_vm(const std::string& node, Vmid vmid) {
  return require_task(fmt::format("starting VM {}", vmid), "POST",
                      vm_path(node, vmid, "/status/start"));
}

Upid Client::start_stop(const std::string& node, Vmid vmid, bool overrule_shutdown) {
  return require_task(fmt::format("stopping VM {}", vmid), "POST",
                      vm_path(node, vmid, "/status/stop"),
                      overrule_shutdown ? Parameters{{"overrule-shutdown", "1"}} : Parameters{});
}

Upid Client::start_shutdown(const std::string& node, Vmid vmid, Duration timeout, bool force_stop) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
  return require_task(
      fmt::format("shutting down VM {}", vmid), "POST", vm_path(node, vmid, "/status/shutdown"),
      {{"timeout", std::to_string(seconds)}, {"forceStop", force_stop ? "1" : "0"}});
}

Upid Client::start_reboot(const std::string& node, Vmid vmid, Duration timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
  return require_task(fmt::format("rebooting VM {}", vmid), "POST",
                      vm_path(node, vmid, "/status/reboot"),
                      {{"timeout", std::to_string(seconds)}});
}

Upid Client::start_reset(const std::string& node, Vmid vmid) {
  return require_task(fmt::format("resetting VM {}", vmid), "POST",
                      vm_path(node, vmid, "/status/reset"));
}

Upid Client::start_migrate(const std::string& node, Vmid vmid, const std::string& target,
                           bool online) {
  return require_task(fmt::format("migrating VM {} to {}", vmid, target), "POST",
                      vm_path(node, vmid, "/migrate"),
                      {{"target", target}, {"online", online ? "1" : "0"}});
}

std::optional<std::vector<AgentInterface>> Client::find_agent_interfaces(const std::string& node,
                                                                         Vmid vmid) {
  Reply reply = call("GET", vm_path(node, vmid, "/agent/network-get-interfaces"));
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (failure->reason == Reason::AgentSilent || failure->reason == Reason::NotRunning)
      return std::nullopt;
    throw failure->error(fmt::format("asking the guest agent of VM {}", vmid));
  }
  const text::Value* result = std::get<text::Value>(reply).find("result");
  // The agent's own refusal comes with status 200: {"result":{"error":{…}}}.
  if (result == nullptr || !result->is_list()) return std::nullopt;
  std::vector<AgentInterface> interfaces;
  for (const text::Value& row : result->items()) {
    AgentInterface interface;
    interface.name = read_text_or(row, "name");
    interface.mac = MacAddress::parse(read_text_or(row, "hardware-address"));
    if (const text::Value* addresses = row.find("ip-addresses"))
      for (const text::Value& address : addresses->items())
        if (const auto ip = IpAddress::parse(read_text_or(address, "ip-address")))
          interface.addresses.push_back(*ip);
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

std::optional<Task> Client::find_task(const Upid& upid) {
  Reply reply = call("GET", task_path(upid, "/status"));
  if (const auto* failure = std::get_if<Failure>(&reply)) {
    if (absent(*failure)) return std::nullopt;
    throw failure->error(fmt::format("asking after task {} on {}", upid.type, upid.node));
  }
  const text::Value& data = std::get<text::Value>(reply);
  return Task{upid, read_text_or(data, "status") == "running", read_text_or(data, "exitstatus")};
}

std::vector<std::string> Client::task_log(const Upid& upid, unsigned limit) {
  const text::Value data =
      require(fmt::format("reading the log of task {}", upid.type), "GET", task_path(upid, "/log"),
              {{"start", "0"}, {"limit", std::to_string(limit)}});
  std::vector<std::string> lines;
  // The log of an unknown task is one object instead of a list.
  if (data.is_map()) return lines;
  for (const text::Value& row : data.items()) lines.push_back(read_text_or(row, "t"));
  return lines;
}

std::vector<TaskRow> Client::tasks(const std::string& node, const TaskFilter& filter) {
  Parameters parameters{{"source", filter.only_active ? "active" : "all"},
                        {"limit", std::to_string(filter.limit)}};
  if (filter.vmid) parameters.emplace_back("vmid", std::to_string(*filter.vmid));
  if (!filter.type.empty()) parameters.emplace_back("typefilter", filter.type);
  if (filter.only_errors) parameters.emplace_back("errors", "1");
  if (filter.since)
    parameters.emplace_back("since",
                            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                                               filter.since->time_since_epoch())
                                               .count()));
  std::vector<TaskRow> tasks;
  for (const text::Value& row :
       rows(require(fmt::format("listing the tasks of {}", node), "GET",
                    fmt::format("/nodes/{}/tasks", percent_encode(node)), parameters))) {
    const auto upid = Upid::parse(read_text_or(row, "upid"));
    if (!upid) continue;
    TaskRow task{*upid, upid->user, upid->started, std::nullopt, read_text_or(row, "status")};
    if (const auto end = read_number(row, "endtime")) task.ended = from_epoch(*end);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

void Client::stop_task(const Upid& upid) {
  require(fmt::format("ending task {} on {}", upid.type, upid.node), "DELETE", task_path(upid));
}

}  // namespace rocca::proxmox
