#include "kubernetes/blockers.hpp"

#include "base/strings.hpp"
#include "kube/waits.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

namespace rocca::resources {

namespace {

using kube::Name;
using kube::text_at;
using text::Value;

/// The Service in `Post "https://SERVICE.SPACE.svc:443/…"`.
std::optional<Name> service_in(const std::string& message) {
  const std::size_t begin = message.find("https://");
  const std::size_t end = message.find(".svc", begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return std::nullopt;
  const auto parts = split(message.substr(begin + 8, end - begin - 8), '.');
  if (parts.size() != 2) return std::nullopt;
  return Name{"v1", "Service", parts[1], parts[0]};
}

/// How much a condition explains: what waits for others explains least, what is at work may explain
/// itself a moment later.
enum Weight { waits_for_others, works, failed, waits_for_webhook };

int weight(const Value& ready) {
  if (text_at(ready, {"message"}).find("failed calling webhook") != std::string::npos)
    return waits_for_webhook;
  if (text_at(ready, {"reason"}) == "DependencyNotReady") return waits_for_others;
  return text_at(ready, {"status"}) == "False" ? failed : works;
}

}  // namespace

std::string webhook_behind(kube::Client& client, kube::Discovery& discovery,
                           const std::string& message) {
  const auto service = service_in(message);
  if (!service) return "";
  kube::Wait endpoint;
  endpoint.what = kube::Wait::For::Endpoint;
  endpoint.name = *service;
  const kube::Verdict behind = kube::check(client, discovery, endpoint);
  return behind.done
             ? fmt::format(" (Service {}/{} has a ready endpoint)", service->space, service->name)
             : fmt::format(" (it waits for {})", behind.waiting_for);
}

std::string flux_blocker(kube::Client& client, kube::Discovery& discovery) {
  std::vector<std::string> told;
  int best = 0;
  // The release is nearer to the cause than the Kustomization that waits for it.
  for (const auto& [api_version, kind] :
       {std::pair{"helm.toolkit.fluxcd.io/v2", "HelmRelease"},
        std::pair{"kustomize.toolkit.fluxcd.io/v1", "Kustomization"}}) {
    const auto served = discovery.find(api_version, kind);
    if (!served) continue;
    for (const Value& object :
         client.list(kube::path_of({served->group, served->version, served->plural}, ""))) {
      const Value* ready = kube::find_condition(object, "Ready");
      if (ready == nullptr || text_at(*ready, {"status"}) == "True" || weight(*ready) < best)
        continue;
      if (weight(*ready) > best) told.clear();
      best = weight(*ready);
      const std::string message = text_at(*ready, {"message"});
      told.push_back(fmt::format("{} {}/{}: {}", kind, text_at(object, {"metadata", "namespace"}),
                                 text_at(object, {"metadata", "name"}), message));
      if (best == waits_for_webhook) told.back() += webhook_behind(client, discovery, message);
    }
  }
  if (best < failed && told.size() > 1) told.resize(1);  // all of these say the same
  return join(told, "; ");
}

}  // namespace rocca::resources
