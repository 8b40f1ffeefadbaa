#include "lab/kube/api.hpp"

#include "base/encoding.hpp"
#include "lab/kube/controllers/controllers.hpp"
#include "lab/kube/server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

namespace rocca::lab::kube {

namespace {

/// Keeps an answer that comes at once.
class Inside final : public net::Responder {
 public:
  int status = 0;
  std::string body;

  void answer(int code, std::string, net::Headers, std::string text, net::Headers) override {
    status = code;
    body = std::move(text);
  }
  void begin(int code, std::string, net::Headers) override { status = code; }
  void write(std::string bytes) override { body += bytes; }
  void finish(net::Headers) override {}
  void cut() override {}
  void tunnel(std::string, unsigned) override {}
  bool gone() const override { return false; }
  void on_gone(std::function<void()>) override {}
};

}  // namespace

Api::Api(World& world, Options options)
    : server_(std::make_unique<Server>(world, std::move(options))) {}

Api::~Api() = default;

net::Handler Api::handler() {
  return [this](net::Incoming request, std::shared_ptr<net::Responder> to) {
    server_->handle(std::move(request), std::move(to), std::nullopt);
  };
}

net::Handler Api::handler(User user) {
  return [this, user = std::move(user)](net::Incoming request, std::shared_ptr<net::Responder> to) {
    server_->handle(std::move(request), std::move(to), user);
  };
}

void Api::join(Kubelet kubelet) {
  server_->join_kubelet(std::move(kubelet));
}

void Api::leave(std::string_view node) {
  server_->leave_kubelet(node);
}

void Api::set_version(std::string version) {
  server_->set_version(std::move(version));
}

void Api::set_network_ready(std::function<bool(const std::string& node)> ready) {
  server_->network_ready = std::move(ready);
}

Api::Result Api::send(const User& user, std::string method, std::string target, std::string body,
                      std::string type) {
  net::Incoming in;
  in.method = std::move(method);
  in.target = std::move(target);
  in.body = std::move(body);
  in.headers.add("Content-Type", std::move(type));
  const auto answer = std::make_shared<Inside>();
  server_->handle(std::move(in), answer, user);
  Result result{answer->status, {}};
  try {
    if (!answer->body.empty()) result.body = read_json(answer->body).value;
  } catch (const BadJson&) {
    result.body = str(answer->body);  // some answers are plain texts
  }
  return result;
}

Api::Result Api::apply(const text::Value& object, const std::string& manager, bool dry_run,
                       const std::string& as) {
  const std::string api_version = text_at(object, {"apiVersion"});
  const std::string kind = text_at(object, {"kind"});
  const Resource* resource = server_->kinds().find_kind(api_version, kind);
  if (resource == nullptr)
    return {404, Failure{404,
                         "NotFound",
                         fmt::format("no matches for kind {} in version {}", in_quotes(kind),
                                     in_quotes(api_version)),
                         {}}
                     .status()};
  std::string space = text_at(object, {"metadata", "namespace"});
  if (space.empty()) space = "default";
  const std::string path = fmt::format(
      "{}/{}/{}{}/{}?fieldManager={}&force=true{}", resource->group.empty() ? "/api" : "/apis",
      api_version, resource->namespaced ? fmt::format("namespaces/{}/", space) : "",
      resource->plural, percent_encode(text_at(object, {"metadata", "name"})),
      percent_encode(manager), dry_run ? "&dryRun=All" : "");
  const User user = as.empty()
                        ? User{"system:" + manager, {"system:masters", "system:authenticated"}}
                        : User{as, {"system:serviceaccounts", "system:authenticated"}};
  return send(user, "PATCH", path, text::emit_json(object), "application/apply-patch+yaml");
}

void Api::settle(const std::function<void()>& work) {
  server_->settle(work);
}

bool Api::joined(std::string_view node) const {
  return server_->kubelets.contains(node);
}

void Api::restart() {
  server_->restart();
}

Storage& Api::storage() noexcept {
  return server_->storage();
}

Object Api::find(std::string_view resource, std::string_view space, std::string_view name) const {
  return server_->storage().find(resource, {std::string(space), std::string(name)});
}

}  // namespace rocca::lab::kube
