#include "kubernetes/handover.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "kubernetes/addon_source.hpp"
#include "kubernetes/addons.hpp"
#include "kubernetes/node_prerequisites.hpp"
#include "spec/load.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string cluster_yaml(const std::string& more, const std::string& kubernetes = "") {
  return fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v1.11.5, extensions: [iscsi-tools, util-linux-tools, tailscale] }}
  kubernetes: {{ version: v1.34.1{} }}
  network: {{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }}
  nodes:
    cp-1: {{ role: controlplane, address: 10.0.0.11, existing: true }}
  tailscale: {{ authKey: {{ secret: ts }} }}
{})",
                     kubernetes, more);
}

spec::Spec load(const std::string& more, const std::string& kubernetes = "") {
  MemoryFiles files;
  files.make_folder("/blue");
  files.write("/blue/a.yaml", "# nothing\n");
  spec::Loaded loaded =
      spec::load_text(files, cluster_yaml(more, kubernetes), "cluster.yaml", "/blue");
  EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  return std::move(loaded.spec);
}

struct Given {
  spec::Flux flux;
  Outside outside;
};

/// A repository and the secrets that are at hand.
Given with_secrets(const std::string& url, const std::map<std::string, std::string>& secrets) {
  Given given;
  given.flux =
      *load(fmt::format("  handover: {{ flux: {{ url: {}, auth: {{ secret: flux.git }} }} }}\n",
                        url))
           .handover->flux;
  given.outside.search = [secrets](const spec::SecretRef& reference) -> std::optional<Secret> {
    const auto found = secrets.find(reference.path);
    return found == secrets.end() ? std::nullopt : std::optional{Secret{found->second}};
  };
  given.outside.secret = [secrets](const spec::SecretRef& reference, const std::string& who) {
    const auto found = secrets.find(reference.path);
    if (found == secrets.end())
      throw Error(Fault::NotFound, fmt::format("no {} for {}", reference.path, who));
    return Secret{found->second};
  };
  return given;
}

kube::Manifest credential(const Given& given) {
  return git_credential(given.flux, given.outside);
}

/// key=value of a Secret's data, decoded.
std::vector<std::string> data_of(const kube::Manifest& secret) {
  std::vector<std::string> all;
  for (const text::Entry& entry : secret.object.find("data")->entries())
    all.push_back(entry.key + "=" + from_base64(entry.value.text()).value_or("?"));
  return all;
}

std::string refusal(const Given& given) {
  try {
    credential(given);
  } catch (const Error& error) {
    return error.message();
  }
  return "taken";
}

TEST(GitCredential, HasTheFormThatItsRepositoryAsksFor) {
  const std::string web = "https://git.home/ann/fleet";
  EXPECT_THAT(data_of(credential(with_secrets(web, {{"flux.git", "token\n"}}))),
              ElementsAre("password=token", "username=git"));
  EXPECT_THAT(data_of(credential(with_secrets(
                  web, {{"flux.git.username", "ann"}, {"flux.git.password", "secret"}}))),
              ElementsAre("password=secret", "username=ann"));
  const std::string ssh = "ssh://git@git.home/ann/fleet";
  EXPECT_THAT(data_of(credential(with_secrets(
                  ssh, {{"flux.git.identity", "KEY"}, {"flux.git.known_hosts", "git.home x"}}))),
              ElementsAre("identity=KEY", "known_hosts=git.home x"));
  EXPECT_THAT(data_of(credential(with_secrets(web, {{"flux.git.githubAppID", "1"},
                                                    {"flux.git.githubAppInstallationID", "2"},
                                                    {"flux.git.githubAppPrivateKey", "PEM"}}))),
              ElementsAre("githubAppID=1", "githubAppInstallationID=2", "githubAppPrivateKey=PEM"));
}

TEST(GitCredential, SaysWhatIsMissing) {
  const std::string ssh = "ssh://git@git.home/ann/fleet";
  EXPECT_THAT(refusal(with_secrets(ssh, {{"flux.git", "-----BEGIN OPENSSH PRIVATE KEY-----"}})),
              HasSubstr("flux.git lacks known_hosts"));
  EXPECT_THAT(refusal(with_secrets(ssh, {{"flux.git.known_hosts", "x"}})),
              HasSubstr("flux.git lacks identity"));
  EXPECT_THAT(refusal(with_secrets("https://git.home/x", {{"flux.git.githubAppID", "1"}})),
              HasSubstr("lacks githubAppPrivateKey"));
  EXPECT_THAT(refusal(with_secrets("https://git.home/x", {})), HasSubstr("no flux.git"));
}

TEST(Handover, TheSpecsOwnRepositoryIsNeverGivenToFlux) {
  EXPECT_TRUE(is_same_repository("git@github.com:ann/Fleet.git", "https://github.com/ann/fleet"));
  EXPECT_TRUE(is_same_repository("ssh://git@git.home:22/a/b", "https://git.home/a/b.git/"));
  EXPECT_FALSE(is_same_repository("https://github.com/ann/fleet", "https://github.com/ann/infra"));
  MemoryFiles files;
  files.make_folder("/blue/.git");
  files.write("/blue/.git/config", "[remote \"origin\"]\n\turl = git@github.com:ann/infra.git\n");
  const auto spec = [](const char* name) {
    return load(
        fmt::format("  handover: {{ flux: {{ url: https://github.com/ann/{} }} }}\n", name));
  };
  EXPECT_NO_THROW(require_other_repository(spec("fleet"), files));
  try {
    require_other_repository(spec("infra"), files);
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Refused);
    EXPECT_THAT(error.message(), HasSubstr("cluster.yaml:11:28"));
  }
}

TEST(Addons, ArePinnedByVersionAndDigestAndThenNeedNoNetwork) {
  class Web final : public net::Transport {
   public:
    net::Response exchange(const net::Request& request, net::BodySink& sink,
                           std::stop_token) override {
      asked.push_back(request.url);
      net::Response head;
      if (request.url.find("releases/download") != std::string::npos) {
        head.status = 302;  // as release pages do
        head.headers.add("Location", "https://files.example/components.yaml");
        sink.begin(head);
        return head;
      }
      head.status = 200;
      sink.begin(head);
      sink.write(body);
      return head;
    }
    std::vector<std::string> asked;
    std::string body = "apiVersion: v1\nkind: Namespace\nmetadata: { name: one }\n";
  } web;
  MemoryFiles files;
  files.make_folder("/blue");
  const Storage storage = folder_storage(files, "/blue");
  spec::Lock lock;
  Outside outside;
  const spec::Spec spec =
      load("  addons: { metricsServer: { version: 0.7.2 }, certApprover: { from: a.yaml } }\n");
  files.write("/blue/a.yaml", "# nothing\n");
  fetch_addons(spec, lock, outside, web, files, *storage.manifests, {});
  EXPECT_THAT(web.asked, ElementsAre(HasSubstr("v0.7.2/components.yaml"),
                                     "https://files.example/components.yaml"));
  EXPECT_EQ(outside.addon_texts.at("metricsServer"), web.body);
  EXPECT_EQ(outside.addon_texts.at("certApprover"), "# nothing\n");
  const spec::LockedAddon pinned = lock.addons.at("metricsServer");
  EXPECT_EQ(pinned.version, "0.7.2");
  EXPECT_EQ(pinned.sha256.size(), 64u);
  EXPECT_TRUE(lock.addons.at("certApprover").sha256.empty());  // a file is in Git already
  web.asked.clear();
  fetch_addons(spec, lock, outside, web, files, *storage.manifests, {});
  EXPECT_THAT(web.asked, IsEmpty());
  // The cache is lost, and the page gives something else than what was pinned.
  files.remove("/blue/.rocca/addons/" + pinned.sha256 + ".yaml");
  web.body += "# and more\n";
  try {
    fetch_addons(spec, lock, outside, web, files, *storage.manifests, {});
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Refused);
    EXPECT_THAT(error.message(), HasSubstr("something else than what rocca.lock pins"));
  }
  EXPECT_EQ(lock.addons.at("metricsServer"), pinned);
}

TEST(Addons, CiliumHasWhatTalosNeedsAndTheUsersWordOnTop) {
  const text::Value values = cilium_values(
      load("",
           ", cni: { cilium: { version: 1.16.5, values: { kubeProxyReplacement: false, hubble: "
           "{ enabled: true }, cgroup: { hostRoot: /x } } } }"));
  EXPECT_EQ(kube::text_at(values, {"k8sServicePort"}), "7445");
  EXPECT_EQ(kube::text_at(values, {"kubeProxyReplacement"}), "false");
  EXPECT_EQ(kube::text_at(values, {"hubble", "enabled"}), "true");
  EXPECT_EQ(kube::text_at(values, {"cgroup", "autoMount", "enabled"}), "false");
  EXPECT_EQ(kube::text_at(values, {"cgroup", "hostRoot"}), "/x");
  EXPECT_EQ(kube::text_at(values, {"operator", "replicas"}), "1");  // one node
  // A module may not be loaded by a Pod on Talos.
  const text::Value* agent = values.find({"securityContext", "capabilities", "ciliumAgent"});
  for (const text::Value& one : agent->items()) EXPECT_NE(one.text(), "SYS_MODULE");
}

talos::Service service(const char* id, const char* state) {
  talos::Service made;
  made.id = id;
  made.state = state;
  return made;
}

TEST(Prepared, LonghornsNeedsAreNamedWhenTheyAreMissing) {
  const spec::Spec spec = load("  addons: { longhorn: true }\n");
  NodeFacts facts;
  Lacks lacks = lacks_for_longhorn(spec, spec.nodes.front(), facts);
  EXPECT_THAT(lacks.for_good, ElementsAre(HasSubstr("iscsi-tools"), HasSubstr("util-linux-tools"),
                                          HasSubstr("/var/lib/longhorn")));
  facts.extensions = {"iscsi-tools", "util-linux-tools"};
  facts.mounts = {"/var/lib/longhorn"};
  facts.services = {service("ext-iscsid", "Waiting")};
  lacks = lacks_for_longhorn(spec, spec.nodes.front(), facts);
  EXPECT_THAT(lacks.for_good, IsEmpty());
  EXPECT_THAT(lacks.yet, ElementsAre(HasSubstr("ext-iscsid to run")));
  facts.services = {service("ext-iscsid", "Running")};
  EXPECT_THAT(lacks_for_longhorn(spec, spec.nodes.front(), facts).yet, IsEmpty());
}

TEST(Prepared, AJoinedNodeHasAnAddressOfItsTailnet) {
  NodeFacts facts;
  EXPECT_THAT(lacks_for_tailscale(facts).for_good, ElementsAre("the extension tailscale"));
  facts.extensions = {"tailscale"};
  EXPECT_THAT(lacks_for_tailscale(facts).yet, ElementsAre(HasSubstr("ext-tailscale to run")));
  facts.services = {service("ext-tailscale", "Running")};
  facts.addresses = {{"eth0", *Cidr::parse("10.0.0.11/16")}};
  EXPECT_THAT(lacks_for_tailscale(facts).yet, ElementsAre(HasSubstr("has not joined")));
  facts.addresses.push_back({"tailscale0", *Cidr::parse("100.101.2.3/32")});
  EXPECT_THAT(lacks_for_tailscale(facts).yet, IsEmpty());
  facts.addresses.back() = {"eth1", *Cidr::parse("100.101.2.3/32")};  // a provider's, not its own
  EXPECT_THAT(lacks_for_tailscale(facts).yet, ElementsAre(HasSubstr("on tailscale0")));
  facts.addresses.back() = {"tailscale0", *Cidr::parse("100.128.2.3/32")};  // not of that range
  EXPECT_THAT(lacks_for_tailscale(facts).yet, ElementsAre(HasSubstr("has not joined")));
}

}  // namespace
}  // namespace rocca::resources
