// Serves just enough of a Kubernetes API and of a Talos node for the real kubectl and talosctl to
// talk to.
//
//   serve_fixture FOLDER [ADDRESS [KUBERNETES_PORT [TALOS_PORT]]]      defaults: 127.0.0.1 0 0
//
// Makes its certificates in memory, writes FOLDER/kubeconfig and FOLDER/talosconfig (client keys
// inside), then prints
//   kubeconfig PATH
//   talosconfig PATH
//   ready
// and serves until SIGTERM or SIGINT. Then, for example:
//   kubectl --kubeconfig FOLDER/kubeconfig get --raw /version      the JSON below
//   kubectl --kubeconfig FOLDER/kubeconfig version                 Server Version: v1.32.1
//   kubectl --kubeconfig FOLDER/kubeconfig get namespaces          default, kube-system
//   talosctl --talosconfig FOLDER/talosconfig version              Tag: v1.11.5 under Server
//   talosctl --talosconfig FOLDER/talosconfig --nodes ADDRESS reboot   an error: Unimplemented
// Both need the client certificate that their file holds: without one, Talos' side answers the
// alert 116.

#include "base/encoding.hpp"
#include "net/grpc.hpp"
#include "net/server/server.hpp"
#include "support/pki.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

namespace {

using namespace rocca;
using ResponderPtr = std::shared_ptr<net::Responder>;

const std::map<std::string, std::string>& kubernetes_answers() {
  static const std::map<std::string, std::string> answers{
      {"/version",
       R"({"major":"1","minor":"32","gitVersion":"v1.32.1","gitCommit":"e9c9be4007d1664e68796af02b8978640d2c1b26",)"
       R"("gitTreeState":"clean","buildDate":"2025-01-15T14:31:55Z","goVersion":"go1.23.4","compiler":"gc",)"
       R"("platform":"linux/amd64"})"},
      {"/api", R"({"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]})"},
      {"/apis", R"({"kind":"APIGroupList","apiVersion":"v1","groups":[]})"},
      {"/api/v1",
       R"({"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","singularName":"namespace",)"
       R"("namespaced":false,"kind":"Namespace","verbs":["get","list"],"shortNames":["ns"]}]})"},
      {"/api/v1/namespaces",
       R"({"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[)"
       R"({"metadata":{"name":"default","uid":"1","resourceVersion":"1","creationTimestamp":"2025-01-01T00:00:00Z"},)"
       R"("status":{"phase":"Active"}},)"
       R"({"metadata":{"name":"kube-system","uid":"2","resourceVersion":"1","creationTimestamp":"2025-01-01T00:00:00Z"},)"
       R"("status":{"phase":"Active"}}]})"}};
  return answers;
}

void serve_kubernetes(const net::Incoming& request, const ResponderPtr& out) {
  const net::Headers json{{"Content-Type", "application/json"}};
  if (request.peer_certificate.empty()) {
    return out->answer(
        401, "", json,
        R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized",)"
        R"("message":"Unauthorized","code":401})");
  }
  const auto path = request.target.substr(0, request.target.find('?'));
  const auto found = kubernetes_answers().find(path);
  if (found != kubernetes_answers().end()) return out->answer(200, "", json, found->second);
  out->answer(404, "", json,
              R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound",)"
              R"("message":"the server could not find the requested resource","code":404})");
}

/// One length-delimited protobuf field. By hand: the texts are short, and no generated code is in
/// between.
std::string field(int number, const std::string& value) {
  std::string out;
  out += static_cast<char>(number << 3 | 2);
  auto size = value.size();
  for (; size >= 0x80; size >>= 7U) out += static_cast<char>((size & 0x7f) | 0x80);
  out += static_cast<char>(size);
  return out + value;
}

std::string version_response() {
  const std::string version = field(1, "v1.11.5") + field(2, "fixture") + field(3, "") +
                              field(4, "go1.24.9") + field(5, "linux") + field(6, "amd64");
  const std::string platform = field(1, "nocloud") + field(2, "cloud");
  return field(1, field(2, version) + field(3, platform) + field(4, "\x08\x01"));
}

void serve_talos(const net::Incoming& request, const ResponderPtr& out) {
  if (request.target != "/machine.MachineService/Version") {
    return out->answer(200, "",
                       {{"content-type", "application/grpc"},
                        {"grpc-status", "12"},
                        {"grpc-message", "the fixture knows Version only"}},
                       "");
  }
  out->answer(200, "", {{"content-type", "application/grpc"}}, net::grpc_frame(version_response()),
              {{"grpc-status", "0"}});
}

std::string talos_label(std::string key) {
  for (auto at = key.find("PRIVATE KEY"); at != std::string::npos;
       at = key.find("PRIVATE KEY", at + 20)) {
    key.insert(at, "ED25519 ");
  }
  return key;
}

int run(const std::string& folder, const std::string& address, unsigned kubernetes_port,
        unsigned talos_port) {
  // Before the server's thread begins, so that it inherits the mask and the signal waits for us.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const auto kube_ca =
      test::make_pki({.name = "kubernetes", .authority = true, .key = test::KeyType::P256});
  const auto kube_server = test::make_pki({.name = "kube-apiserver",
                                           .addresses = {address},
                                           .usages = {"serverAuth"},
                                           .key = test::KeyType::P256},
                                          &kube_ca);
  const auto kube_admin = test::make_pki({.name = "admin",
                                          .organization = "system:masters",
                                          .usages = {"clientAuth"},
                                          .key = test::KeyType::P256},
                                         &kube_ca);
  const auto talos_ca = test::make_pki({.name = "talos", .authority = true});
  const auto talos_server =
      test::make_pki({.name = "node", .addresses = {address}, .usages = {"serverAuth"}}, &talos_ca);
  const auto talos_admin = test::make_pki(
      {.name = "admin", .organization = "os:admin", .usages = {"clientAuth"}}, &talos_ca);

  net::Server server;
  const auto kubernetes = server.listen(
      {.address = address,
       .port = kubernetes_port,
       .tls = net::ServerTls{.identity = {kube_server.certificate, Secret{kube_server.key}},
                             .clients = net::ServerTls::Clients::Ask,
                             .client_authority_pem = kube_ca.certificate},
       .handler = serve_kubernetes});
  const auto talos = server.listen(
      {.address = address,
       .port = talos_port,
       .tls = net::ServerTls{.identity = {talos_server.certificate, Secret{talos_server.key}},
                             .clients = net::ServerTls::Clients::Require,
                             .client_authority_pem = talos_ca.certificate,
                             .exact_client_usage = true},
       .handler = serve_talos});

  const std::string kubeconfig = folder + "/kubeconfig";
  std::ofstream{kubeconfig} << fmt::format(
      "apiVersion: v1\nkind: Config\ncurrent-context: fixture\n"
      "clusters:\n- name: fixture\n  cluster:\n    server: https://{}:{}\n"
      "    certificate-authority-data: {}\n"
      "contexts:\n- name: fixture\n  context: {{cluster: fixture, user: admin}}\n"
      "users:\n- name: admin\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
      address, server.port(kubernetes), to_base64(kube_ca.certificate),
      to_base64(kube_admin.certificate), to_base64(kube_admin.key));
  const std::string talosconfig = folder + "/talosconfig";
  std::ofstream{talosconfig} << fmt::format(
      "context: fixture\ncontexts:\n    fixture:\n        endpoints: [\"{0}:{1}\"]\n"
      "        nodes: [\"{0}\"]\n        ca: {2}\n        crt: {3}\n        key: {4}\n",
      address, server.port(talos), to_base64(talos_ca.certificate),
      to_base64(talos_admin.certificate), to_base64(talos_label(talos_admin.key)));
  fmt::print("kubeconfig {}\ntalosconfig {}\nready\n", kubeconfig, talosconfig);
  std::fflush(stdout);

  int received = 0;
  sigwait(&signals, &received);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || count > 5) {
    fmt::print(stderr, "usage: serve_fixture FOLDER [ADDRESS [KUBERNETES_PORT [TALOS_PORT]]]\n");
    return 2;
  }
  try {
    return run(arguments[1], count > 2 ? arguments[2] : "127.0.0.1",
               count > 3 ? static_cast<unsigned>(std::stoul(arguments[3])) : 0,
               count > 4 ? static_cast<unsigned>(std::stoul(arguments[4])) : 0);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
