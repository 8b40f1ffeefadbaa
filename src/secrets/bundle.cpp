#include "secrets/bundle.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

namespace rocca::secrets {

namespace {

/// Six and sixteen characters; bytes that would favour the first letters of the alphabet are thrown
/// away.
Secret make_token(Entropy& entropy) {
  constexpr std::string_view alphabet = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string token;
  token.reserve(23);
  while (token.size() < 23) {
    if (token.size() == 6) token += '.';
    const auto byte = static_cast<unsigned char>(entropy.bytes(1).front());
    if (byte < 252) token += alphabet[byte % alphabet.size()];
  }
  return Secret::take(std::move(token));
}

std::string make_cluster_id(Entropy& entropy, const Version& talos) {
  std::string id = to_base64(entropy.bytes(32));
  // Up to 1.13 the URL alphabet, with padding; 1.14 validates the standard one.
  if (talos < Version(1, 14, 0))
    for (char& c : id) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return id;
}

AuthorityPem make_authority(Authority authority, Instant now, Entropy& entropy) {
  const auto made = std::make_shared<const CertifiedKey>(mint_authority(authority, now, entropy));
  return {made->certificate.pem, made->key.pem(), made};
}

text::Value string_value(std::string_view text) {
  return text::Value::string(std::string(text));
}
text::Value base64_value(std::string_view text) {
  return text::Value::string(to_base64(text));
}

text::Value authority_value(const AuthorityPem& authority) {
  text::Value value = text::Value::map();
  value.set("crt", base64_value(authority.crt));
  value.set("key", base64_value(authority.key.reveal()));
  return value;
}

/// A string as it stands behind a key: quoted where Go would read it as something else.
std::string scalar(std::string_view text) {
  return std::string(trim(text::emit_yaml(string_value(text))));
}

}  // namespace

const AuthorityPem& Bundle::pem_of(Authority authority) const {
  switch (authority) {
    case Authority::Os:
      return os;
    case Authority::Kubernetes:
      return kubernetes;
    case Authority::Aggregator:
      return aggregator;
    case Authority::Etcd:
      return etcd;
  }
  throw Error(Fault::Bug, "an unknown authority");
}

CertifiedKey Bundle::authority(Authority authority) const {
  const AuthorityPem& pem = pem_of(authority);
  if (pem.read) return *pem.read;
  return {Certificate::parse(pem.crt, "the authority's certificate"),
          PrivateKey::parse(pem.key.reveal(), "the authority's key")};
}

Bundle generate_bundle(const BundleOptions& options, Instant now, Entropy& entropy) {
  Bundle bundle;
  bundle.cluster_id = make_cluster_id(entropy, options.talos);
  bundle.cluster_secret = Secret::take(to_base64(entropy.bytes(32)));
  bundle.bootstrap_token = make_token(entropy);
  const bool old = options.talos < Version(1, 3, 0);
  (old ? bundle.aescbc_secret : bundle.secretbox_secret) =
      Secret::take(to_base64(entropy.bytes(32)));
  bundle.trustd_token = make_token(entropy);
  bundle.etcd = make_authority(Authority::Etcd, now, entropy);
  bundle.kubernetes = make_authority(Authority::Kubernetes, now, entropy);
  bundle.aggregator = make_authority(Authority::Aggregator, now, entropy);
  bundle.os = make_authority(Authority::Os, now, entropy);
  const auto make_key = [&] {
    if (options.service_account_key) return options.service_account_key(entropy);
    const bool rsa = options.talos >= Version(1, 7, 0);
    return PrivateKey::generate(rsa ? KeyAlgorithm::Rsa : KeyAlgorithm::EcdsaP256, entropy);
  };
  bundle.service_account_key = make_key().pem();
  return bundle;
}

text::Value to_value(const Bundle& bundle) {
  text::Value cluster = text::Value::map();
  cluster.set("id", string_value(bundle.cluster_id));
  cluster.set("secret", string_value(bundle.cluster_secret.reveal()));
  text::Value secrets = text::Value::map();
  secrets.set("bootstraptoken", string_value(bundle.bootstrap_token.reveal()));
  if (!bundle.aescbc_secret.empty())
    secrets.set("aescbcencryptionsecret", string_value(bundle.aescbc_secret.reveal()));
  if (!bundle.secretbox_secret.empty())
    secrets.set("secretboxencryptionsecret", string_value(bundle.secretbox_secret.reveal()));
  text::Value trustd = text::Value::map();
  trustd.set("token", string_value(bundle.trustd_token.reveal()));
  text::Value service_account = text::Value::map();
  service_account.set("key", base64_value(bundle.service_account_key.reveal()));
  text::Value certs = text::Value::map();
  certs.set("etcd", authority_value(bundle.etcd));
  certs.set("k8s", authority_value(bundle.kubernetes));
  certs.set("k8saggregator", authority_value(bundle.aggregator));
  certs.set("k8sserviceaccount", std::move(service_account));
  certs.set("os", authority_value(bundle.os));
  text::Value root = text::Value::map();
  root.set("cluster", std::move(cluster));
  root.set("secrets", std::move(secrets));
  root.set("trustdinfo", std::move(trustd));
  root.set("certs", std::move(certs));
  return root;
}

Secret write_bundle(const Bundle& bundle) {
  text::EmitOptions options;
  options.indent = 4;
  return Secret::take(text::emit_yaml(to_value(bundle), options));
}

std::vector<BundleItem> describe(const Bundle& bundle) {
  std::vector<BundleItem> items{{"cluster.id", "name", std::nullopt},
                                {"cluster.secret", "key", std::nullopt},
                                {"secrets.bootstraptoken", "token", std::nullopt}};
  if (!bundle.aescbc_secret.empty())
    items.push_back({"secrets.aescbcencryptionsecret", "key", std::nullopt});
  if (!bundle.secretbox_secret.empty())
    items.push_back({"secrets.secretboxencryptionsecret", "key", std::nullopt});
  items.push_back({"trustdinfo.token", "token", std::nullopt});
  const auto add = [&](const char* name, Authority authority) {
    const Certificate certificate = Certificate::parse(bundle.pem_of(authority).crt, name);
    items.push_back({name, "authority, " + certificate.key, certificate.not_after});
  };
  add("certs.etcd", Authority::Etcd);
  add("certs.k8s", Authority::Kubernetes);
  add("certs.k8saggregator", Authority::Aggregator);
  const PrivateKey key =
      PrivateKey::parse(bundle.service_account_key.reveal(), "certs.k8sserviceaccount.key");
  items.push_back({"certs.k8sserviceaccount", "key, " + key.description(), std::nullopt});
  add("certs.os", Authority::Os);
  return items;
}

Secret mint_talosconfig(const Bundle& bundle, const TalosconfigOptions& options, Instant now,
                        Entropy& entropy) {
  const CertifiedKey client = mint_talos_client(bundle.authority(Authority::Os), options.roles, now,
                                                entropy, options.lifetime);
  const auto list = [](const std::vector<std::string>& texts) {
    text::Value value = text::Value::list();
    for (const std::string& text : texts) value.append(string_value(text));
    return value;
  };
  text::Value context = text::Value::map();
  context.set("endpoints", list(options.endpoints));
  if (!options.nodes.empty()) context.set("nodes", list(options.nodes));
  context.set("ca", base64_value(bundle.os.crt));
  context.set("crt", base64_value(client.certificate.pem));
  context.set("key", base64_value(client.key.pem().reveal()));
  text::Value contexts = text::Value::map();
  contexts.set(options.context, std::move(context));
  text::Value root = text::Value::map();
  root.set("context", string_value(options.context));
  root.set("contexts", std::move(contexts));
  text::EmitOptions emit;
  emit.indent = 4;
  return Secret::take(text::emit_yaml(root, emit));
}

Secret mint_kubeconfig(const Bundle& bundle, const KubeconfigOptions& options, Instant now,
                       Entropy& entropy) {
  const CertifiedKey client = mint_kubernetes_admin(bundle.authority(Authority::Kubernetes), now,
                                                    entropy, options.lifetime);
  const std::string user = scalar("admin@" + options.cluster);
  const std::string cluster = scalar(options.cluster);
  // Written out: Kubernetes' own writer does not indent lists, which go-yaml (and emit_yaml) does.
  return Secret::take(
      fmt::format("apiVersion: v1\n"
                  "clusters:\n"
                  "- cluster:\n"
                  "    certificate-authority-data: {ca}\n"
                  "    server: {server}\n"
                  "  name: {cluster}\n"
                  "contexts:\n"
                  "- context:\n"
                  "    cluster: {cluster}\n"
                  "    namespace: default\n"
                  "    user: {user}\n"
                  "  name: {user}\n"
                  "current-context: {user}\n"
                  "kind: Config\n"
                  "users:\n"
                  "- name: {user}\n"
                  "  user:\n"
                  "    client-certificate-data: {crt}\n"
                  "    client-key-data: {key}\n",
                  fmt::arg("ca", to_base64(options.accepted_authorities + bundle.kubernetes.crt)),
                  fmt::arg("server", scalar(options.server)), fmt::arg("cluster", cluster),
                  fmt::arg("user", user), fmt::arg("crt", to_base64(client.certificate.pem)),
                  fmt::arg("key", to_base64(client.key.pem().reveal()))));
}

}  // namespace rocca::secrets
