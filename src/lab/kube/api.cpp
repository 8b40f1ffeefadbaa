#include "lab/kube/api.hpp"

#include "lab/kube/server.hpp"

namespace rocca::lab::kube {

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

void Api::set_network_ready(std::function<bool(const std::string& node)> ready) {
  server_->network_ready = std::move(ready);
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
