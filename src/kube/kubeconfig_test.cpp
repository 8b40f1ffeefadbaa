#include "kube/kubeconfig.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::kube {

namespace {

using testing::HasSubstr;

std::string config(std::string_view cluster, std::string_view user,
                   std::string_view current = "admin@blue") {
  return fmt::format(R"(apiVersion: v1
kind: Config
current-context: {}
contexts:
- name: other
  context: {{ cluster: blue, user: nobody }}
- name: admin@blue
  context: {{ cluster: blue, user: admin@blue, namespace: rocca }}
clusters:
- name: blue
  cluster: {{ {} }}
users:
- name: admin@blue
  user: {{ {} }}
)",
                     current, cluster, user);
}

class Kubeconfig : public testing::Test {
 protected:
  Access parse(const std::string& text, const std::string& context = "") {
    return parse_kubeconfig(text, "configs/kubeconfig", files, context);
  }
  MemoryFiles files;
};

TEST_F(Kubeconfig, ReadsCertificatesThatAreInside) {
  const Access access = parse(config(
      fmt::format(
          "server: 'https://10.0.0.20:6443/', certificate-authority-data: {}, tls-server-name: k8s",
          to_base64("CA PEM")),
      fmt::format("client-certificate-data: {}, client-key-data: {}", to_base64("CERT"),
                  to_base64("KEY"))));
  EXPECT_EQ(access.server, "https://10.0.0.20:6443");
  EXPECT_EQ(access.tls.trust, net::Tls::Trust::Authority);
  EXPECT_EQ(access.tls.authority_pem, "CA PEM");
  EXPECT_EQ(access.tls.server_name, "k8s");
  ASSERT_TRUE(access.tls.identity);
  EXPECT_EQ(access.tls.identity->certificate_pem, "CERT");
  EXPECT_EQ(access.tls.identity->key_pem.reveal(), "KEY");
  EXPECT_EQ(access.space, "rocca");
}

TEST_F(Kubeconfig, ReadsFilesBesideIt) {
  files.make_folder("configs/pki");
  files.write("configs/pki/ca.crt", "CA");
  const Access access =
      parse(config("server: 'https://a:1', certificate-authority: pki/ca.crt", "token: abc"));
  EXPECT_EQ(access.tls.authority_pem, "CA");
  EXPECT_EQ(access.authorization->reveal(), "Bearer abc");
  const Access rotated =
      parse(config("server: 'https://a:1'", "token: abc, tokenFile: /run/token"));
  EXPECT_EQ(rotated.token_file, "/run/token");
  EXPECT_FALSE(rotated.authorization);
}

TEST_F(Kubeconfig, KnowsTheOtherWaysToLogIn) {
  EXPECT_EQ(
      parse(config("server: 'https://a:1'", "username: u, password: p")).authorization->reveal(),
      "Basic " + to_base64("u:p"));
  const Access access = parse(
      config("server: 'https://a:1', insecure-skip-tls-verify: true", "as: vera, as-groups: [g]"));
  EXPECT_EQ(access.tls.trust, net::Tls::Trust::Unverified);
  EXPECT_EQ(access.impersonate, "vera");
  EXPECT_THAT(access.impersonate_groups, testing::ElementsAre("g"));
}

struct Bad {
  std::string name;
  std::string text;
  std::string message;
};

class BadKubeconfig : public testing::TestWithParam<Bad> {};

TEST_P(BadKubeconfig, SaysWhereAndWhat) {
  MemoryFiles files;
  try {
    parse_kubeconfig(GetParam().text, "kubeconfig", files);
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_THAT(error.message(), HasSubstr("kubeconfig:"));
    EXPECT_THAT(error.message(), HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadKubeconfig,
    testing::Values(
        Bad{"Text", "hello", "this is no kubeconfig"},
        Bad{"NoContext", config("server: 'https://a:1'", "token: a", "''"), "`current-context`"},
        Bad{"UnknownContext", config("server: 'https://a:1'", "token: a", "x"), "no context `x`"},
        Bad{"UnknownUser", config("server: 'https://a:1'", "token: a", "other"),
            "no user `nobody`"},
        Bad{"NoServer", config("server: ''", "token: a"), "no address of a server"},
        Bad{"Exec", config("server: 'https://a:1'", "exec: {command: aws}"),
            "`exec` is not supported"},
        Bad{"NoBase64",
            config("server: 'https://a:1', certificate-authority-data: '%%'", "token: a"),
            "`certificate-authority-data` is no base64"},
        Bad{"NoKey", config("server: 'https://a:1'", "client-certificate-data: YQ=="),
            "without its key"}),
    [](const auto& test) { return test.param.name; });

TEST(InCluster, IsKnownByItsServiceAccount) {
  MemoryFiles files;
  const auto variable = [](const std::string& name) -> std::optional<std::string> {
    if (name == "KUBERNETES_SERVICE_HOST") return "fd00::1";
    if (name == "KUBERNETES_SERVICE_PORT") return "443";
    return std::nullopt;
  };
  EXPECT_FALSE(in_cluster(files, variable));
  const std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount/";
  files.make_folder(folder);
  files.write(folder + "token", "t");
  files.write(folder + "ca.crt", "CA");
  files.write(folder + "namespace", "rocca\n");
  const auto access = in_cluster(files, variable);
  ASSERT_TRUE(access);
  EXPECT_EQ(access->server, "https://[fd00::1]:443");
  EXPECT_EQ(access->space, "rocca");
  EXPECT_EQ(access->token_file, folder + "token");
  EXPECT_FALSE(in_cluster(files, [](const std::string&) { return std::nullopt; }));
}

}  // namespace

}  // namespace rocca::kube
