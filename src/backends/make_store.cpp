#include "backends/make_store.hpp"

#include "backends/kubernetes_store.hpp"
#include "backends/s3_store.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/plain_http.hpp"
#include "state/http_store.hpp"
#include "state/local_store.hpp"
#include "state/sealing.hpp"

#include <fmt/format.h>

#include <utility>

namespace rocca::backends {

namespace {

state::Sealing sealing_of(const spec::StatePlace& place, const Surroundings& around) {
  std::vector<secrets::age::Recipient> recipients;
  for (const auto& recipient : place.encrypt)
    recipients.push_back(secrets::age::Recipient::parse(*recipient));
  state::Sealing sealing = state::age_sealing(recipients, around.identities, around.entropy);
  // Without recipients nothing is sealed, but what an earlier spec had sealed can still be opened.
  if (recipients.empty()) sealing.seal = nullptr;
  return sealing;
}

Secret needed_variable(const Surroundings& around, const std::string& name,
                       std::string_view field) {
  const auto value = around.variable(name);
  if (!value || value->empty())
    throw Error(Fault::Denied,
                fmt::format("`spec.state.s3.{}` is not given, and {} is not set", field, name))
        .hint(fmt::format("write `{}: {{ secret: s3.{} }}`, or set {}", field, field, name));
  return Secret{*value};
}

s3::Access s3_access(const spec::Spec& spec, const spec::S3Place& place,
                     const Surroundings& around) {
  s3::Access access;
  access.region = *place.region;
  access.endpoint =
      place.endpoint ? **place.endpoint : fmt::format("https://s3.{}.amazonaws.com", access.region);
  access.bucket = *place.bucket;
  access.plain_http = place.endpoint && spec::allows_plain_http(spec, *place.endpoint);
  access.access_key =
      std::string{(place.access_key ? around.secret(**place.access_key)
                                    : needed_variable(around, "AWS_ACCESS_KEY_ID", "accessKey"))
                      .reveal()};
  access.secret_key = place.secret_key
                          ? around.secret(**place.secret_key)
                          : needed_variable(around, "AWS_SECRET_ACCESS_KEY", "secretKey");
  return access;
}

state::HttpAccess http_access(const spec::Spec& spec, const spec::HttpState& place,
                              const Surroundings& around) {
  state::HttpAccess access;
  access.address = *place.address;
  access.plain_http = spec::allows_plain_http(spec, place.address);
  if (place.lock_address) access.lock_address = **place.lock_address;
  if (place.unlock_address) access.unlock_address = **place.unlock_address;
  access.update_method = place.update_method;
  access.lock_method = place.lock_method;
  access.unlock_method = place.unlock_method;
  if (place.username) access.username = **place.username;
  if (place.password) access.password = around.secret(**place.password);
  return access;
}

}  // namespace

kube::Access kubernetes_access(
    Files& files, const std::function<std::optional<std::string>(const std::string&)>& variable) {
  if (const auto path = variable("KUBECONFIG"); path && !path->empty()) {
    // A list is what kubectl merges; for a state one file must say where it is.
    return kube::load_kubeconfig(files, split(*path, ':').front());
  }
  if (auto pod = kube::in_cluster(files, variable)) return std::move(*pod);
  if (const auto home = variable("HOME"); home && files.status(*home + "/.kube/config"))
    return kube::load_kubeconfig(files, *home + "/.kube/config");
  throw Error(Fault::Usage, "no kubeconfig says where rocca's own Kubernetes is")
      .hint(
          "set KUBECONFIG to the cluster that keeps the state, or what is published; it is not the "
          "one "
          "being made");
}

std::unique_ptr<state::Store> make_store(const spec::Spec& spec, const std::string& folder,
                                         const Surroundings& around) {
  state::Sealing sealing = sealing_of(spec.state, around);
  if (const auto* place = std::get_if<spec::S3Place>(&spec.state.place))
    return s3_store(around.transport, around.clock, s3_access(spec, *place, around), *place->key,
                    std::move(sealing));
  if (const auto* place = std::get_if<spec::KubernetesState>(&spec.state.place))
    return kubernetes_store(around.transport, around.files, around.clock,
                            kubernetes_access(around.files, around.variable), *place->space,
                            *spec.name, std::move(sealing));
  if (const auto* place = std::get_if<spec::HttpState>(&spec.state.place))
    return state::http_store(around.transport, around.clock, http_access(spec, *place, around),
                             std::move(sealing));
  if (around.local) return around.local(std::move(sealing));
  const std::string& path = *std::get<spec::LocalState>(spec.state.place).path;
  return state::local_store(around.files,
                            path.starts_with('/') || folder.empty() ? path : folder + "/" + path,
                            std::move(sealing));
}

}  // namespace rocca::backends
