#include "lab/talos/node.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace {

struct HealthQuestion {
  Duration wait{};
  std::vector<std::string> control_planes, workers;
};

std::uint64_t varint(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    value |= static_cast<std::uint64_t>(bytes[i] & 0x7f) << (7 * i);
    if ((bytes[i] & 0x80) == 0) break;
  }
  return value;
}

HealthQuestion read_question(const std::string& request) {
  HealthQuestion out;
  const auto duration = fields(request, 1);
  // A Duration's seconds are its first field; fractions are not asked for by anybody.
  if (duration && !duration->empty() && duration->front().starts_with('\x08'))
    out.wait = std::chrono::seconds{varint(std::string_view(duration->front()).substr(1))};
  if (const auto info = fields(request, 2); info && !info->empty()) {
    out.control_planes = fields(info->front(), 1).value_or(std::vector<std::string>{});
    out.workers = fields(info->front(), 2).value_or(std::vector<std::string>{});
  }
  return out;
}

std::string together(const std::vector<std::string>& errors) {
  std::string text = errors_text(errors);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

/// Why a service of these nodes is not up, in the words of Talos's own check; "" if it is.
std::string TalosNode::service_trouble(const std::vector<std::string>& addresses,
                                       const std::string& id) const {
  if (!is_control_plane()) return "rpc error: code = PermissionDenied desc = no request forwarding";
  std::vector<std::string> errors;
  for (const std::string& address : addresses) {
    TalosNode* node = nullptr;
    if (const auto problem = unreachable(address, node)) {
      errors.push_back(fmt::format("{}: rpc error: code = {} desc = {}", address,
                                   to_string(problem->code), problem->message));
      continue;
    }
    const auto found = node->services_.find(id);
    if (found == node->services_.end()) {
      errors.push_back(fmt::format("{}: service \"{}\" not found", address, id));
    } else if (const Service& service = found->second; service.state != "Running") {
      errors.push_back(fmt::format(
          "{}: service \"{}\" not in expected state \"Running\": current state [{}] {}", address,
          id, service.state, service.events.empty() ? "" : service.events.back().message));
    } else if (!service.unknown && !service.healthy) {
      errors.push_back(fmt::format("{}: service is not healthy: {}", address, id));
    }
  }
  return errors.empty() ? "" : together(errors);
}

Routine<void> TalosNode::health_check(std::shared_ptr<Call> call) {
  HealthQuestion question = read_question(call->request());
  if (question.control_planes.empty())
    for (const TalosNode* node : fleet_.nodes())
      if (node->config_ && node->config_->get({"cluster", "id"}) == config_->get({"cluster", "id"}))
        (node->is_control_plane() ? question.control_planes : question.workers)
            .push_back(node->address_);
  std::vector<std::string> all = question.control_planes;
  all.insert(all.end(), question.workers.begin(), question.workers.end());
  std::sort(all.begin(), all.end(), [](const std::string& a, const std::string& b) {
    const auto first = IpAddress::parse(a), second = IpAddress::parse(b);
    return first && second ? *first < *second : a < b;
  });
  const auto say = [&](const std::string& text) {
    std::string message;
    put_bytes(message, 2, text);
    call->reply->send(message);
  };
  std::string names;
  for (const std::string& each : all)
    names += fmt::format("{}\"{}\"", names.empty() ? "" : " ", each);
  say(fmt::format("discovered nodes: [{}]", names));
  const Instant end = world_.now() + question.wait;
  const auto every = [&](auto&& good, const std::string& what) {
    for (const std::string& address : all) {
      const TalosNode* node = fleet_.find(address);
      if (node == nullptr || !good(*node)) return fmt::format("{}: {}", address, what);
    }
    return std::string();
  };
  const bool admin =
      std::find(call->roles.begin(), call->roles.end(), "os:admin") != call->roles.end();
  const auto kubernetes = [&](bool TalosNode::*state, const char* what) -> std::string {
    // The check takes the cluster's own kubeconfig, which only an administrator may have.
    if (!admin) return "rpc error: code = PermissionDenied desc = not authorized";
    return every([&](const TalosNode& node) { return node.*state; }, what);
  };
  const auto look = [&](const std::string& label) -> std::string {
    if (!admin) return "rpc error: code = PermissionDenied desc = not authorized";
    return fleet_.kubernetes_trouble ? fleet_.kubernetes_trouble(*this, label) : "";
  };
  const auto always = [] { return std::string(); };
  const std::pair<const char*, std::function<std::string()>> checks[] = {
      {"etcd to be healthy", [&] { return service_trouble(question.control_planes, "etcd"); }},
      {"etcd members to be consistent across nodes", always},
      {"etcd members to be control plane nodes", always},
      {"apid to be ready", [&] { return service_trouble(all, "apid"); }},
      {"all nodes memory sizes", always},
      {"all nodes disk sizes", always},
      {"no diagnostics", always},
      {"kubelet to be healthy", [&] { return service_trouble(all, "kubelet"); }},
      {"all nodes to finish boot sequence",
       [&] {
         return every([](const TalosNode& node) { return node.stage_ == Stage::Running; },
                      "boot sequence is not finished");
       }},
      {"all k8s nodes to report",
       [&] { return kubernetes(&TalosNode::node_registered_, "node did not report"); }},
      {"all control plane static pods to be running",
       [&] { return kubernetes(&TalosNode::pods_up_, "static pods are not running"); }},
      {"all control plane components to be ready", [&] { return look("tier=control-plane"); }},
      {"all k8s nodes to report ready",
       [&] { return kubernetes(&TalosNode::node_ready_, "node is not ready"); }},
      {"kube-proxy to report ready", [&] { return look("k8s-app=kube-proxy"); }},
      {"coredns to report ready", [&] { return look("k8s-app=kube-dns"); }},
      {"all k8s nodes to report schedulable", [&] { return look(""); }},
  };
  for (const auto& [name, check] : checks) {
    if (world_.now() >= end) refuse(Code::DeadlineExceeded, "context deadline exceeded");
    say(fmt::format("waiting for {}: ...", name));
    std::string told;
    while (true) {
      const std::string trouble = check();
      if (trouble.empty()) break;
      if (trouble != told) say(fmt::format("waiting for {}: {}", name, trouble));
      told = trouble;
      co_await world_.sleep(std::min<Duration>(std::chrono::seconds{5}, end - world_.now()),
                            &call->interrupt);
      if (world_.now() >= end) refuse(Code::DeadlineExceeded, "context deadline exceeded");
    }
    say(fmt::format("waiting for {}: OK", name));
  }
}

}  // namespace rocca::lab::talos
