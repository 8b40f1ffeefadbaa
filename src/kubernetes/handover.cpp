#include "kubernetes/handover.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "kubernetes/addon_source.hpp"
#include "kubernetes/addons.hpp"
#include "kubernetes/object_set_resource.hpp"
#include "machine/kinds.hpp"
#include "machine/kubernetes_api.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;
using kube::Manifest;
using kube::Name;
using kube::Wait;
using text::Value;

constexpr const char* flux_space = "flux-system";
constexpr const char* store_name = "infisical";
constexpr const char* eso_space = "external-secrets";

/// Names that `flux bootstrap` would use: a repository that has its files takes these over.
constexpr const char* git_name = "flux-system";
constexpr const char* age_name = "sops-age";

Manifest manifest(const std::string& yaml, const std::string& place) {
  Manifest made;
  made.object = text::parse_yaml(yaml, place);
  made.name = kube::name_of(made.object);
  made.place = place;
  return made;
}

/// A Secret of these values.
Manifest secret_manifest(const std::string& space, const std::string& name,
                         const std::map<std::string, Secret>& values, const std::string& place) {
  Manifest made = manifest(
      fmt::format("{{ apiVersion: v1, kind: Secret, metadata: {{ name: {}, namespace: {} }}, type: "
                  "Opaque, data: {{}} }}",
                  name, space),
      place);
  for (const auto& [key, value] : values)
    made.object.find("data")->set(key, Value::string(to_base64(value.reveal())));
  return made;
}

SetWish begin(const Cluster& cluster, const char* part, const spec::Where& where) {
  SetWish wish;
  wish.about = {handover_address(part),
                {bootstrap_address(cluster.name())},
                where.written() ? to_string(cluster.spec.position(where)) : ""};
  wish.name = part;
  wish.waits_once = true;
  wish.patience = cluster.spec.timeouts.handover;
  return wish;
}

Wait flux_wait(const char* api_version, const char* kind, const char* space, const char* name) {
  return {Wait::For::Flux, {api_version, kind, space, name}};
}

SetWish flux(const Cluster& cluster, const OutsidePtr& outside) {
  SetWish wish = begin(cluster, "flux", cluster.spec.handover->flux->where);
  for (std::string& address : addon_addresses(cluster, outside))
    wish.about.needs.push_back(std::move(address));
  wish.objects = kube::parse_manifests(outside->addon_texts.at("flux"), "Flux's controllers");
  wish.returns = true;
  return wish;
}

/// Before 0.16 its objects were v1beta1; from 0.17 on only v1 is served.
std::string eso_version(const Cluster& cluster) {
  const auto version = Version::parse(addon_version(cluster, "externalSecrets"));
  return version && *version < Version{0, 16, 0} ? "external-secrets.io/v1beta1"
                                                 : "external-secrets.io/v1";
}

SetWish external_secrets(const Cluster& cluster) {
  SetWish wish = begin(cluster, "external-secrets", cluster.spec.handover->flux->where);
  wish.about.needs.push_back(handover_address("flux"));
  wish.objects =
      kube::parse_manifests(fmt::format(R"(
apiVersion: v1
kind: Namespace
metadata: {{ name: {0} }}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {{ name: external-secrets, namespace: {0} }}
spec: {{ interval: 1h, url: "https://charts.external-secrets.io" }}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {{ name: external-secrets, namespace: {0} }}
spec:
  interval: 1h
  releaseName: external-secrets
  chart:
    spec:
      chart: external-secrets
      version: "{1}"
      sourceRef: {{ kind: HelmRepository, name: external-secrets }}
  install: {{ crds: CreateReplace, remediation: {{ retries: 3 }} }}
  upgrade: {{ crds: CreateReplace, remediation: {{ retries: 3 }} }}
  values: {{ installCRDs: true }}
)",
                                        eso_space, addon_version(cluster, "externalSecrets")),
                            "External Secrets Operator");
  wish.poke = {{"helm.toolkit.fluxcd.io/v2", "HelmRelease", eso_space, "external-secrets"}};
  wish.waits = {
      flux_wait("helm.toolkit.fluxcd.io/v2", "HelmRelease", eso_space, "external-secrets")};
  for (const char* plural : {"clustersecretstores", "externalsecrets"})
    wish.waits.push_back({Wait::For::Established,
                          {"apiextensions.k8s.io/v1", "CustomResourceDefinition", "",
                           fmt::format("{}.external-secrets.io", plural)}});
  // Ready Pods are not enough: whoever makes a store is checked by its webhook first.
  wish.waits.push_back(
      {Wait::For::Endpoint, {"v1", "Service", eso_space, "external-secrets-webhook"}});
  return wish;
}

SetWish secret_store(const Cluster& cluster, const OutsidePtr& outside) {
  const spec::InfisicalSource source = cluster.spec.handover->external_secrets->infisical;
  SetWish wish = begin(cluster, "secret-store", source.host.where);
  wish.about.needs.push_back(handover_address("external-secrets"));
  Manifest store = manifest(fmt::format(R"(
apiVersion: {}
kind: ClusterSecretStore
metadata: {{ name: {} }}
spec:
  provider:
    infisical:
      auth:
        universalAuthCredentials:
          clientId: {{ name: infisical-identity, key: clientId, namespace: {} }}
          clientSecret: {{ name: infisical-identity, key: clientSecret, namespace: {} }}
      secretsScope: {{}}
)",
                                        eso_version(cluster), store_name, eso_space, eso_space),
                            "handover.externalSecrets");
  Value* provider = store.object.find({"spec", "provider", "infisical"});
  provider->set("hostAPI", Value::string(*source.host));
  Value* scope = provider->find("secretsScope");
  scope->set("projectSlug", Value::string(*source.project));
  scope->set("environmentSlug", Value::string(*source.environment));
  scope->set("secretsPath", Value::string(*source.path));
  const std::string api_version = store.name.api_version;
  wish.objects.push_back(std::move(store));
  wish.secret_objects = [outside, source] {
    if (!source.auth)
      throw Error(Fault::Usage, "handover.externalSecrets.infisical needs auth")
          .hint(
              "auth: { secret: infisical } names clientId and clientSecret of a machine identity");
    const std::string who = "handover.externalSecrets.infisical.auth";
    std::map<std::string, Secret> values;
    for (const char* member : {"clientId", "clientSecret"})
      values.emplace(member,
                     Secret{trim(outside->get_member(**source.auth, member, who).reveal())});
    return std::vector{secret_manifest(eso_space, "infisical-identity", values, who)};
  };
  wish.waits = {
      {Wait::For::Condition, {api_version, "ClusterSecretStore", "", store_name}, "Ready"}};
  return wish;
}

bool is_ssh(const std::string& url) {
  return url.starts_with("ssh://");
}

/// The credential comes through External Secrets; rocca never sees it.
Manifest external_credential(const Cluster& cluster, const std::string& key) {
  Manifest made =
      manifest(fmt::format(R"(
apiVersion: {}
kind: ExternalSecret
metadata: {{ name: {}, namespace: {} }}
spec:
  refreshInterval: 1h
  secretStoreRef: {{ kind: ClusterSecretStore, name: {} }}
  target: {{ name: {} }}
)",
                           eso_version(cluster), git_name, flux_space, store_name, git_name),
               "handover.flux.auth");
  Value& spec = *made.object.find("spec");
  if (is_ssh(*cluster.spec.handover->flux->url)) {
    // A JSON object with identity and known_hosts.
    Value extract = Value::map();
    extract.set("extract", Value::map()).set("key", Value::string(key));
    spec.set("dataFrom", Value::list()).append(std::move(extract));
    return made;
  }
  Value one = Value::map();
  one.set("secretKey", Value::string("password"));
  one.set("remoteRef", Value::map()).set("key", Value::string(key));
  spec.set("data", Value::list()).append(std::move(one));
  Value& data = spec.find("target")->set("template", Value::map()).set("data", Value::map());
  data.set("username", Value::string("git"));
  data.set("password", Value::string("{{ .password }}"));
  return made;
}

bool is_github_app(const Manifest& secret) {
  return secret.object.find({"data", "githubAppID"}) != nullptr;
}

Manifest age_secret(const Outside& outside, const spec::SecretRef& reference) {
  const std::string who = "handover.flux.decryption";
  const Secret key = outside.get_secret(reference, who);
  if (key.reveal().find("AGE-SECRET-KEY-") == std::string_view::npos)
    throw Error(Fault::Usage,
                fmt::format("{}, which {} names, is no age identity", reference.path, who))
        .hint("it has a line that begins with AGE-SECRET-KEY-1");
  return secret_manifest(flux_space, age_name, {{"age.agekey", key}}, who);
}

SetWish git(const Cluster& cluster, const OutsidePtr& outside) {
  const spec::Flux& flux = *cluster.spec.handover->flux;
  SetWish wish = begin(cluster, "git", flux.where);
  wish.returns = true;
  wish.under_flux = true;
  wish.about.needs.push_back(handover_address("flux"));
  const bool external = flux.auth && flux.auth->external;
  const bool secret = flux.auth && flux.auth->secret;
  if (cluster.spec.handover->external_secrets)
    wish.about.needs.push_back(handover_address("secret-store"));
  if (external) {
    Manifest made = external_credential(cluster, **flux.auth->external);
    wish.waits.push_back({Wait::For::Condition, made.name, "Ready"});
    wish.objects.push_back(std::move(made));
  }
  Manifest repository = manifest(
      fmt::format("{{ apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {{ "
                  "name: {}, namespace: {} }}, spec: {{ interval: 1m, ref: {{}} }} }}",
                  git_name, flux_space),
      wish.about.place);
  Value& source = *repository.object.find("spec");
  source.set("url", Value::string(*flux.url));
  source.find("ref")->set("branch", Value::string(*flux.branch));
  if (external || secret)
    source.set("secretRef", Value::map()).set("name", Value::string(git_name));
  Manifest root = manifest(
      fmt::format(
          "{{ apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {{ "
          "name: {0}, namespace: {1} }}, spec: {{ interval: 10m, retryInterval: 1m, prune: "
          "true, sourceRef: {{ kind: GitRepository, name: {0} }} }} }}",
          git_name, flux_space),
      wish.about.place);
  std::string path = *flux.path;
  if (!path.starts_with("./") && !path.starts_with('/')) path = path == "." ? "./" : "./" + path;
  root.object.find("spec")->set("path", Value::string(path));
  if (flux.decryption) {
    Value& decryption = root.object.find("spec")->set("decryption", Value::map());
    decryption.set("provider", Value::string("sops"));
    decryption.set("secretRef", Value::map()).set("name", Value::string(age_name));
  }
  wish.poke = {repository.name, root.name};
  wish.waits.push_back({Wait::For::Flux, repository.name});
  wish.waits.push_back({Wait::For::Flux, root.name, "something"});
  for (const auto& target : cluster.spec.handover->wait_for_endpoint_slices) {
    const auto parts = split(*target, '/');
    if (parts.size() == 2)
      wish.waits.push_back({Wait::For::Endpoint, {"v1", "Service", parts[0], parts[1]}});
  }
  wish.objects.push_back(std::move(root));
  wish.secret_objects = [outside, repository, secret, flux] {
    std::vector<Manifest> all{repository};
    if (secret) {
      all.push_back(git_credential(flux, *outside));
      if (is_github_app(all.back()))
        all.front().object.find("spec")->set("provider", Value::string("github"));
    }
    if (flux.decryption) all.push_back(age_secret(*outside, **flux.decryption));
    return all;
  };
  wish.more_wishes = {{"url", *flux.url}, {"branch", *flux.branch}, {"path", path}};
  return wish;
}

/// The last step: whatever Flux has taken by now is Flux's alone.
class ReleaseKind final : public Thing {
 public:
  ReleaseKind(About about, std::vector<std::string> sets)
      : Thing(std::move(about)), sets_(std::move(sets)) {}

  std::optional<Live> read(World& world) const override {
    if (!world.known(handover_address("git"))) return std::nullopt;
    Live live{"Flux", {{"shared", ""}}, {{"flux", "in charge"}}};
    try {
      std::vector<std::string> names;
      for (const Name& name : shared(world)) names.push_back(name.text());
      live.fields["shared"] = join(names, ", ");
    } catch (const Error& error) {
      if (error.fault() != Fault::Unreachable) throw;
    }
    return live;
  }
  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("Flux is not in charge yet");
    Change change;
    if (const std::string& names = live->fields.at("shared"); !names.empty())
      change.fields.push_back({"kept by Flux and by us", names, "", Effect::Live});
    conclude(change);
    return change;
  }
  Receipt apply(World& world, const Change&, const std::optional<Live>&) const override {
    const std::vector<Name> names = shared(world);
    at_kubernetes(world, [&](kube::Client& client) {
      kube::Discovery discovery{client};
      release_kept(client, discovery, names);
    });
    return {"", "release"};
  }
  Progress probe(World&, const Receipt&) const override { return Ready{}; }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override {
    return {{"kubernetes", 8, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return 5min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  /// What of our sets Flux keeps while we still own fields of it. One list a kind, by our label.
  std::vector<Name> shared(World& world) const {
    std::set<std::pair<std::string, std::string>> kinds;
    for (const std::string& set : sets_)
      for (const char* list : {"objects", "handed"})
        for (const Name& name : parse_names(fact(world.known(set), list)))
          kinds.emplace(name.api_version, name.kind);
    std::vector<Name> all;
    at_kubernetes(world, [&](kube::Client& client) {
      all.clear();
      kube::Discovery discovery{client};
      for (const auto& [api_version, kind] : kinds) {
        const auto served = discovery.find(api_version, kind);
        if (!served) continue;
        for (Value& object :
             client.list(kube::path_of({served->group, served->version, served->plural}, ""),
                         {{"labelSelector", set_label}})) {
          object.set("apiVersion", Value::string(api_version));
          object.set("kind", Value::string(kind));
          if (kube::flux_owner(object) && kube::is_applied_by(object, "rocca"))
            all.push_back(kube::name_of(object));
        }
      }
    });
    return all;
  }

  std::vector<std::string> sets_;
};

}  // namespace

std::string handover_address(const std::string& part) {
  return "handover/" + part;
}

Manifest git_credential(const spec::Flux& flux, const Outside& outside) {
  const std::string who = "handover.flux.auth";
  const spec::SecretRef& reference = **flux.auth->secret;
  std::map<std::string, Secret> values;
  for (const char* member :
       {"username", "password", "bearerToken", "identity", "identity.pub", "known_hosts", "ca.crt",
        "githubAppID", "githubAppInstallationID", "githubAppInstallationOwner",
        "githubAppPrivateKey", "githubAppBaseURL"})
    if (auto found = outside.find_member(reference, member))
      values.emplace(member, std::move(*found));
  if (values.empty()) {
    const Secret whole = outside.get_secret(reference, who);
    if (whole.reveal().find("PRIVATE KEY") != std::string_view::npos)
      values.emplace("identity", whole);
    else
      values.emplace("password", Secret{trim(whole.reveal())});
  }
  const bool app = values.contains("githubAppID");
  const auto missing = [&](const char* what, const char* hint) {
    return Error(Fault::NotFound, fmt::format("{} lacks {}, which {} needs for {}", reference.path,
                                              what, who, *flux.url))
        .hint(hint);
  };
  if (is_ssh(*flux.url)) {
    if (!values.contains("identity"))
      throw missing("identity", "the private key of a deploy key, in PEM");
    if (!values.contains("known_hosts"))
      throw missing("known_hosts",
                    "the lines that `ssh-keyscan HOST` prints, once they are checked");
  } else if (app) {
    if (!values.contains("githubAppPrivateKey"))
      throw missing("githubAppPrivateKey", "the key of the GitHub App, in PEM");
    if (!values.contains("githubAppInstallationID") &&
        !values.contains("githubAppInstallationOwner"))
      throw missing("githubAppInstallationID", "the number of the App's installation");
  } else if (!values.contains("bearerToken")) {
    if (!values.contains("password"))
      throw missing("password", "a token with the right to read the repository");
    if (!values.contains("username")) values.emplace("username", Secret{"git"});
  }
  return secret_manifest(flux_space, git_name, values, who);
}

void make_handover(const Cluster& cluster, const OutsidePtr& outside,
                   const std::function<void(const Made&)>& add) {
  const auto& handover = cluster.spec.handover;
  if (!handover || !handover->flux) return;
  std::vector<std::string> sets = addon_addresses(cluster, outside);
  const auto give = [&](SetWish wish) {
    sets.push_back(wish.about.address);
    add(make_set_thing(std::move(wish)));
  };
  give(flux(cluster, outside));
  if (handover->external_secrets) {
    give(external_secrets(cluster));
    give(secret_store(cluster, outside));
  }
  give(git(cluster, outside));
  add(std::make_shared<ReleaseKind>(
      Thing::About{handover_address(cluster.name()),
                   {bootstrap_address(cluster.name()), handover_address("git")},
                   to_string(cluster.spec.position(handover->flux->where))},
      std::move(sets)));
}

bool is_same_repository(const std::string& a, const std::string& b) {
  // git@github.com:ann/fleet.git, ssh://git@github.com/ann/fleet, https://github.com/ann/fleet.git
  const auto plain = [](std::string url) {
    if (const auto scheme = url.find("://"); scheme != std::string::npos)
      url.erase(0, scheme + 3);
    else if (const auto colon = url.find(':'); colon != std::string::npos)
      url[colon] = '/';
    if (const auto at = url.find('@'); at != std::string::npos && at < url.find('/'))
      url.erase(0, at + 1);
    while (url.ends_with('/')) url.pop_back();
    if (url.ends_with(".git")) url.resize(url.size() - 4);
    if (const auto slash = url.find('/'); slash != std::string::npos)
      if (const auto port = url.find(':'); port < slash) url.erase(port, slash - port);
    return to_lower(url);
  };
  return plain(a) == plain(b);
}

void require_other_repository(const spec::Spec& spec, Files& files) {
  if (!spec.handover || !spec.handover->flux) return;
  for (std::string folder = spec.folder; !folder.empty();) {
    if (const auto config = files.find(folder + "/.git/config")) {
      for (const std::string& line : split(*config, '\n')) {
        const std::string_view text = trim(line);
        if (!text.starts_with("url")) continue;
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos) continue;
        const std::string remote{trim(text.substr(equals + 1))};
        if (!is_same_repository(remote, *spec.handover->flux->url)) continue;
        throw Error(Fault::Refused,
                    fmt::format("{}: {} is the repository that holds this spec",
                                to_string(spec.position(spec.handover->flux->url.where)),
                                *spec.handover->flux->url))
            .hint(
                "Flux gets a repository of its own: whoever may write to it owns the cluster, and "
                "should not own the file that makes it");
      }
      return;
    }
    const std::size_t slash = folder.rfind('/');
    folder = slash == std::string::npos || slash == 0 ? "" : folder.substr(0, slash);
  }
}

}  // namespace rocca::resources
