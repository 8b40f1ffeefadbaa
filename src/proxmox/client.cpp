#include "proxmox/client.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "net/date.hpp"
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
  if (const auto date = answer.head.headers.find("date"))
    server_time_ = net::parse_http_date(*date);
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
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;
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

Grants Client::grants() {
  const text::Value data = require("reading our privileges", "GET", "/access/permissions");
  Grants grants;
  for (const text::Entry& entry : data.entries())
    for (const text::Entry& privilege : entry.value.entries())
      grants[entry.key][privilege.key] = privilege.value.text() == "1";
  return grants;
}

std::optional<bool> Client::has_interface(const std::string& node, const std::string& name) {
  const Reply reply =
      call("GET", fmt::format("/nodes/{}/network/{}", percent_encode(node), percent_encode(name)));
  const auto* failure = std::get_if<Failure>(&reply);
  if (failure == nullptr) return true;
  if (failure->errors.contains("iface")) return false;
  if (failure->reason == Reason::Forbidden) return std::nullopt;
  throw failure->error(fmt::format("asking {} for its interface {}", node, name));
}

std::vector<LogEntry> Client::cluster_log(unsigned max) {
  std::vector<LogEntry> entries;
  for (const text::Value& row : rows(require("reading the cluster log", "GET", "/cluster/log",
                                             {{"max", std::to_string(max)}}))) {
    LogEntry entry;
    if (const auto time = read_number(row, "time")) entry.time = from_epoch(*time);
    entry.user = read_text_or(row, "user");
    entry.node = read_text_or(row, "node");
    entry.message = read_text_or(row, "msg");
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::string> Client::pools() {
  std::vector<std::string> pools;
  for (const text::Value& row : rows(require("listing pools", "GET", "/pools")))
    pools.push_back(read_text_or(row, "poolid"));
  return pools;
}

}  // namespace rocca::proxmox
