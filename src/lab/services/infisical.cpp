#include "lab/services/infisical.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/uuid.hpp"
#include "lab/services/infisical_call.hpp"
#include "lab/sim/world.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab {

using text::Value;
using namespace std::chrono_literals;

namespace {

constexpr Duration rate_window = 60s;

Refusal usual(int status, std::optional<unsigned> retry_after) {
  switch (status) {
    case 401:
      return {401, "UnauthorizedError", "You are not allowed to access this resource"};
    case 403:
      return {403, "PermissionDenied", "You are not allowed to readValue on secrets"};
    case 404:
      return {404, "NotFound", "The requested entity is not found"};
    case 429:
      return {429, "RateLimitExceeded",
              fmt::format("Rate limit exceeded. Please try again in {} seconds",
                          retry_after.value_or(60))};
    case 504:
      return {504, "GatewayTimeoutError", "Timeout error"};
    default:
      return {status, status >= 500 ? "InternalServerError" : "BadRequest", "Something went wrong"};
  }
}

}  // namespace

Infisical::Infisical(World& world) : world_(world), entropy_(world.fork("infisical")) {}
Infisical::~Infisical() = default;

std::string Infisical::uuid() {
  return to_string(Uuid::v4(entropy_));
}

Infisical::Identity& Infisical::add_identity() {
  Identity identity;
  identity.client_id = uuid();
  identity.client_secret = replace_all(uuid() + uuid(), "-", "");
  const std::string id = identity.client_id;
  return identities.emplace(id, std::move(identity)).first->second;
}

Infisical::Project& Infisical::add_project(std::string slug,
                                           const std::vector<std::string>& environments) {
  Project project;
  project.id = uuid();
  project.slug = std::move(slug);
  for (const std::string& name : environments) project.environments[name]["/"].id = uuid();
  const std::string id = project.id;
  return projects.emplace(id, std::move(project)).first->second;
}

Infisical::Folder& Infisical::folder(Project& project, const std::string& environment,
                                     const std::string& path) {
  auto& folders = project.environments.at(environment);
  for (std::size_t slash = path.find('/', 1); path != "/";
       slash = slash == std::string::npos ? slash : path.find('/', slash + 1)) {
    Folder& one = folders[path.substr(0, slash)];
    if (one.id.empty()) one.id = uuid();
    if (slash == std::string::npos) return one;
  }
  return folders.at("/");
}

void Infisical::put(Project& project, const std::string& environment, const std::string& path,
                    const std::string& key, std::string value) {
  auto& secrets = folder(project, environment, path).secrets;
  const auto [found, made] = secrets.try_emplace(key);
  if (made) {
    found->second.id = uuid();
    found->second.created = world_.now();
  } else {
    ++found->second.version;
  }
  found->second.updated = world_.now();
  found->second.value = std::move(value);
}

const Infisical::Entry* Infisical::find(const Project& project, const std::string& environment,
                                        const std::string& path, const std::string& key) const {
  const auto folders = project.environments.find(environment);
  if (folders == project.environments.end()) return nullptr;
  const auto one = folders->second.find(path);
  if (one == folders->second.end()) return nullptr;
  const auto found = one->second.secrets.find(key);
  return found == one->second.secrets.end() ? nullptr : &found->second;
}

void Infisical::revoke_tokens() {
  for (auto& [text, token] : tokens_) token.revoked = true;
}

void Infisical::spend(const std::string& kind, unsigned limit) {
  Window& window = windows_[kind];
  if (window.used == 0 || world_.now() - window.began >= rate_window) window = {world_.now(), 0};
  if (++window.used <= limit) return;
  const auto left =
      std::chrono::ceil<std::chrono::seconds>(window.began + rate_window - world_.now());
  const auto seconds = static_cast<unsigned>(left.count());
  Refusal refusal = usual(429, seconds);
  refusal.retry_after = seconds;
  throw refusal;
}

net::Handler Infisical::handler() {
  return [this](net::Incoming request, std::shared_ptr<net::Responder> responder) {
    const auto struck = trouble ? trouble(request) : std::nullopt;
    if (!struck) return serve(request, responder);
    const auto act = [this, request = std::move(request), responder, struck = *struck] {
      if (struck.cut) return responder->cut();
      if (struck.silent) return held_.push_back(responder);
      if (struck.lose) {
        held_.push_back(responder);
        return serve(request, std::make_shared<DeafResponder>());
      }
      if (struck.status == 0) return serve(request, responder);
      Refusal refusal = usual(struck.status, struck.retry_after);
      if (!struck.message.empty()) refusal.message = struck.message;
      send(*responder, refusal.status, refusal.body(uuid()), struck.retry_after);
    };
    if (struck->delay.count() > 0)
      world_.after(struck->delay, act);
    else
      act();
  };
}

}  // namespace rocca::lab
