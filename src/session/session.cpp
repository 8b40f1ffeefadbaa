#include "session/session.hpp"

#include "base/error.hpp"
#include "kubernetes/external_inputs.hpp"
#include "session/proxmox_access.hpp"
#include "session/secret_files.hpp"
#include "state/null_store.hpp"
#include "talosconfig/patch_check.hpp"

#include <fmt/format.h>

#include <utility>
#include <variant>

namespace rocca::session {

namespace {

using Variables = std::map<std::string, std::string>;

/// The variable's text; nothing when it is absent or empty.
std::optional<std::string> find_variable(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  if (found == variables.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

/// Stores and editors end a single line with a line break that is not part of it; several lines
/// stay as they are.
Secret patch_secret(const Secret& secret) {
  std::string text{secret.reveal()};
  const std::size_t end = text.find_last_not_of("\r\n");
  const std::size_t line = text.find('\n');
  if (end != std::string::npos && line > end) text.resize(end + 1);
  return Secret::take(std::move(text));
}

/// A spec without a folder has no place of its own for anything.
void require_places(const Inputs& inputs) {
  if (!inputs.spec.folder.empty()) return;
  const char* missing = !inputs.storage.lock        ? "rocca.lock"
                        : !inputs.storage.access    ? "access files"
                        : !inputs.storage.manifests ? "manifests"
                        : std::holds_alternative<spec::LocalState>(inputs.spec.state.place) &&
                                !inputs.local_store && !inputs.without_state
                            ? "its state"
                            : nullptr;
  if (missing != nullptr)
    throw Error(Fault::Usage, fmt::format("cluster {} has no folder, and no place for {} is given",
                                          *inputs.spec.name, missing));
}

}  // namespace

talos::Surroundings config_context(const spec::Spec& spec, secrets::Bundle bundle,
                                   SecretLookup& secrets, const ReportProblems& report) {
  talos::Surroundings context;
  context.bundle = std::move(bundle);
  if (spec.tailscale)
    context.tailscale_key = secrets.get_line(*spec.tailscale->auth_key, "tailscale.authKey");
  for (const spec::Node& node : spec.nodes)
    for (const auto& patch : node.patches)
      for (const auto& secret : patch->secrets) {
        const std::string key = talos::secret_key(*secret);
        if (context.patch_secrets.contains(key)) continue;
        context.patch_secrets.emplace(
            key, patch_secret(secrets.get(
                     *secret, "the patch at " + to_string(spec.position(secret.where)))));
      }
  Diagnostics problems;
  if (!context.patch_secrets.empty()) talos::check_patches(spec, context.patch_secrets, problems);
  if (problems.has_errors()) {
    if (report) report(problems);
    problems.throw_if_errors("a patch with its secrets");
  }
  return context;
}

std::unique_ptr<state::Store> open_store(const spec::Spec& spec, const StoreInputs& inputs) {
  const backends::Surroundings around{
      .transport = inputs.transport,
      .files = inputs.files,
      .clock = inputs.clock,
      .entropy = inputs.entropy,
      .secret = [secrets = inputs.secrets](
                    const spec::SecretRef& reference) { return secrets->get(reference, "state"); },
      .identities = [secrets = inputs.secrets] { return secrets->keys().identities(); },
      .variable = [variables = inputs.environment](
                      const std::string& name) { return find_variable(variables, name); },
      .local = inputs.local};
  return backends::make_store(spec, spec.folder, around);
}

Session::Session(Inputs inputs, std::stop_token stop)
    : inputs_(std::move(inputs)), stop_(std::move(stop)) {
  require_places(inputs_);
  inputs_.storage =
      resources::folder_storage(inputs_.files, inputs_.spec.folder, std::move(inputs_.storage));
  if (!inputs_.keys) inputs_.keys = std::make_shared<Keys>(KeySources{.files = inputs_.files});
  secrets_ = std::make_shared<SecretLookup>(inputs_.spec,
                                            LookupInputs{.files = inputs_.files,
                                                         .clock = inputs_.clock,
                                                         .transport = inputs_.transport,
                                                         .keys = inputs_.keys,
                                                         .environment = inputs_.environment,
                                                         .run = inputs_.run_program,
                                                         .given = inputs_.secrets},
                                            stop_);
  cluster_ = open();
  inputs_.options.outside = outside();
  start_run();
}

Session::~Session() = default;

resources::Cluster Session::open() {
  const spec::Spec& spec = inputs_.spec;
  spec::Lock lock = inputs_.storage.lock->find().value_or(spec::Lock{});
  lock.cluster = *spec.name;
  talos::Surroundings context;
  context.bundle = inputs_.bundle
                       ? std::move(*inputs_.bundle)
                       : get_bundle(
                             spec, [&](const std::string& path) { return secrets_->open(path); },
                             inputs_.report);
  inputs_.bundle.reset();
  // A step may need an identity later (an encrypted state, a secrets file). It must not be the one
  // that asks for a passphrase.
  inputs_.keys->identities();
  // A cluster is destroyed without its configuration: a source of secrets that is gone must not
  // prevent it.
  if (inputs_.purpose == Purpose::Apply)
    context = config_context(spec, std::move(context.bundle), *secrets_, inputs_.report);
  std::optional<proxmox::Access> proxmox;
  if (spec.proxmox && inputs_.purpose != Purpose::History)
    proxmox = proxmox_access(spec, inputs_.files, inputs_.proxmox_token, *secrets_);
  if (inputs_.purpose != Purpose::Destroy) {
    store_ = open_store(spec, store_inputs());
  } else if (inputs_.without_state) {
    store_ = state::forgetful_store();
  } else {
    try {
      store_ = open_store(spec, store_inputs());
    } catch (const Error& error) {
      resources::throw_without_state(error);
    }
  }
  resources::Cluster cluster =
      resources::make_cluster(spec, std::move(lock), std::move(context), std::move(proxmox),
                              inputs_.files, inputs_.clock, inputs_.entropy);
  cluster.factory_trust = inputs_.factory_trust;
  return cluster;
}

StoreInputs Session::store_inputs() {
  return {.transport = inputs_.transport,
          .files = inputs_.files,
          .clock = inputs_.clock,
          .entropy = inputs_.entropy,
          .secrets = secrets_,
          .environment = inputs_.environment,
          .local = inputs_.local_store};
}

std::shared_ptr<resources::Outside> Session::outside() {
  auto made = std::make_shared<resources::Outside>();
  made->secret = [secrets = secrets_](const spec::SecretRef& reference, const std::string& who) {
    return secrets->get(reference, who);
  };
  made->search = [secrets = secrets_](const spec::SecretRef& reference) {
    return secrets->find(reference);
  };
  made->keep = [this](const spec::SecretRef& reference, const Secret& secret) {
    if (inputs_.store_secret)
      inputs_.store_secret(reference.path, secret);
    else
      store_secret(inputs_.files, *inputs_.keys, inputs_.clock, inputs_.entropy, inputs_.spec,
                   reference.path, secret);
    secrets_->add(reference, secret);
  };
  made->management = [this] {
    return backends::kubernetes_access(inputs_.files, [this](const std::string& name) {
      return find_variable(inputs_.environment, name);
    });
  };
  return made;
}

void Session::narrow(std::vector<std::string> targets, const std::vector<std::string>& allowed) {
  inputs_.options.targets = std::move(targets);
  inputs_.options.policy.allowed.clear();
  for (const std::string& word : allowed)
    if (const auto effect = engine::parse_effect(word))
      inputs_.options.policy.allowed.insert(*effect);
  start_run();
}

void Session::prepare_down(bool purge_images, bool reset_existing) {
  inputs_.options.purge_images = purge_images;
  inputs_.options.reset_existing = reset_existing;
  start_run();
}

void Session::start_run() {
  run_ = std::make_unique<resources::Run>(
      *cluster_,
      resources::Doors{inputs_.transport, inputs_.files, inputs_.clock, inputs_.entropy,
                       inputs_.runner, *store_, inputs_.storage},
      inputs_.options, stop_);
}

}  // namespace rocca::session
