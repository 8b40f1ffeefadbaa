#pragma once

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/data_centre.hpp"
#include "lab/sim/wire.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/grpc.hpp"
#include "net/transport.hpp"
#include "proto/machine.pb.h"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rocca::lab {

using Form = std::vector<std::pair<std::string, std::string>>;

/// A home with one host, spoken to as raw HTTP and gRPC: no client of ours is in between.
class EstateRig {
 public:
  explicit EstateRig(const Home::Options& options = {})
      : home(options),
        wire(home.world),
        entropy(home.world.fork("test")),
        authority(talos::make_authority("talos", entropy, home.world.now())) {}

  text::Value ask(const std::string& method, const std::string& path, const Form& form = {}) {
    net::Request request;
    request.method = method;
    request.url = home.endpoint() + "/api2/json" + path;
    std::vector<std::string> parts;
    for (const auto& [key, value] : form)
      parts.push_back(percent_encode(key) + "=" + percent_encode(value));
    if (method == "POST" || method == "PUT") {
      request.body = join(parts, "&");
      request.headers.add("Content-Type", "application/x-www-form-urlencoded");
    } else if (!parts.empty()) {
      request.url += "?" + join(parts, "&");
    }
    request.tls = net::Tls::unverified();
    request.authorization = Secret{"PVEAPIToken=" + home.root_token};
    const net::Answer answer = net::fetch(wire, request);
    EXPECT_EQ(answer.head.status, 200) << path << ": " << answer.head.reason << answer.body;
    const text::Value body = text::parse_json(answer.body, path);
    const text::Value* data = body.find("data");
    return data == nullptr ? text::Value::null() : *data;
  }

  /// Runs the world until the task that this call starts has ended.
  void task(const std::string& method, const std::string& path, const Form& form = {}) {
    const std::string upid = ask(method, path, form).text();
    for (const auto& [name, node] : home.dc.nodes())
      if (pve::Task* found = node->find_task(upid)) {
        while (found->running() && home.world.step()) {
        }
        EXPECT_EQ(found->status, "OK") << path;
        return;
      }
    ADD_FAILURE() << path << " started no task";
  }

  static std::string vm_path(unsigned vmid, const std::string& more = "") {
    return fmt::format("/nodes/pve1/qemu/{}{}", vmid, more);
  }

  /// Downloads an image of the factory; its name in the storage.
  std::string download(const std::string& schematic, const std::string& version,
                       const std::string& file, const std::string& as,
                       const std::string& content = "import") {
    task("POST", "/nodes/pve1/storage/local/download-url",
         {{"content", content},
          {"filename", as},
          {"url",
           fmt::format("https://factory.talos.dev/image/{}/{}/{}", schematic, version, file)}});
    return fmt::format("local:{}/{}", content, as);
  }

  std::string agent_schematic() {
    return home.factory.add(
        "customization:\n  systemExtensions:\n    officialExtensions: "
        "[siderolabs/qemu-guest-agent]\n");
  }

  /// A VM as we make them, from a nocloud image of the factory; not started. `more` replaces.
  void create(unsigned vmid, const std::string& name, const std::string& address, Form more = {}) {
    if (image_.empty())
      image_ = download(agent_schematic(), "v1.11.5", "nocloud-amd64.qcow2", "talos.qcow2");
    Form form{{"vmid", std::to_string(vmid)},
              {"name", name},
              {"memory", "4096"},
              {"cores", "2"},
              {"cpu", "host"},
              {"scsihw", "virtio-scsi-pci"},
              {"scsi0", fmt::format("local-lvm:0,import-from={},serial=root", image_)},
              {"ide2", "local-lvm:cloudinit"},
              {"net0", "virtio,bridge=vmbr0"},
              {"nameserver", "10.0.0.1"},
              {"agent", "1"},
              {"boot", "order=scsi0"},
              {"smbios1", fmt::format("uuid={}", uuid_of(vmid))}};
    if (!address.empty())
      form.emplace_back("ipconfig0", fmt::format("ip={}/16,gw=10.0.0.1", address));
    for (const auto& [key, value] : more) {
      std::erase_if(form, [&key = key](const auto& each) { return each.first == key; });
      if (!value.empty()) form.emplace_back(key, value);
    }
    task("POST", "/nodes/pve1/qemu", form);
  }
  static std::string uuid_of(unsigned vmid) {
    return fmt::format("00000000-0000-4000-8000-{:012}", vmid);
  }
  void start(unsigned vmid) { task("POST", vm_path(vmid, "/status/start")); }
  void raise(unsigned vmid, const std::string& name, const std::string& address, Form more = {}) {
    create(vmid, name, address, std::move(more));
    start(vmid);
    run_for(std::chrono::seconds{20});
  }
  void run_for(Duration duration) { home.world.run_for(duration); }

  struct Outcome {
    int code = -1;
    std::string message;
    std::vector<std::string> answers;
    std::string trouble;  // no answer at all
  };
  Outcome call(const std::string& address, const std::string& method, const std::string& request,
               bool secure, const std::string& service = "machine.MachineService") {
    net::Request http;
    http.method = "POST";
    http.url = fmt::format("https://{}:50000/{}/{}", address, service, method);
    http.version = net::HttpVersion::Http2;
    http.headers.add("content-type", "application/grpc+proto");
    http.headers.add("te", "trailers");
    http.body = talos::frame(request);
    http.timeout = std::chrono::seconds{10};
    http.connect_timeout = std::chrono::seconds{5};
    http.tls = net::Tls::unverified();
    if (secure) http.tls.identity = admin();
    Outcome outcome;
    try {
      const net::Answer answer = net::fetch(wire, http);
      const auto status = answer.head.trailers.find("grpc-status");
      const auto early = answer.head.headers.find("grpc-status");
      outcome.code = static_cast<int>(
          parse_int(std::string(status ? *status : early.value_or("-1"))).value_or(-1));
      const auto text = answer.head.trailers.find("grpc-message");
      const auto early_text = answer.head.headers.find("grpc-message");
      outcome.message = percent_decode(std::string(text ? *text : early_text.value_or("")));
      outcome.answers = talos::unframe(answer.body).value_or(std::vector<std::string>{});
    } catch (const Error& error) {
      outcome.trouble = error.message();
    }
    return outcome;
  }

  std::string config(const std::string& type, const std::string& hostname,
                     const std::string& more = "") const {
    const bool control_plane = type == "controlplane";
    return fmt::format(
        "version: v1alpha1\nmachine:\n    type: {}\n    token: aaaaaa.bbbbbbbbbbbbbbbb\n    ca:\n"
        "        crt: {}\n        key: {}\n    install:\n        diskSelector:\n            "
        "serial: root\n        image: factory.talos.dev/nocloud-installer/{}:v1.11.5\n    "
        "network:\n        hostname: {}\n{}cluster:\n    id: one\n    secret: two\n    "
        "controlPlane:\n        endpoint: https://10.0.0.20:6443\n    clusterName: lab\n    ca:\n"
        "        crt: {}\n        key: {}\n",
        type, to_base64(authority.certificate_pem),
        control_plane ? to_base64(authority.key_pem) : "\"\"",
        ImageFactory::read_schematic("customization:\n  systemExtensions:\n    "
                                     "officialExtensions: [siderolabs/qemu-guest-agent]\n")
            .id,
        hostname, more, to_base64(authority.certificate_pem),
        control_plane ? to_base64(authority.key_pem) : "\"\"");
  }
  Outcome apply(const std::string& address, const std::string& text, bool secure = false) {
    rocca::proto::machine::ApplyConfigurationRequest request;
    request.set_data(text);
    request.set_mode(rocca::proto::machine::ApplyConfigurationRequest::AUTO);
    return call(address, "ApplyConfiguration", request.SerializeAsString(), secure);
  }

  /// Somebody whom the cluster's CA vouches for.
  std::shared_ptr<net::Identity> person(const std::string& name, const std::string& group) {
    talos::Leaf leaf;
    leaf.common_name = name;
    if (!group.empty()) leaf.organizations = {group};
    leaf.client = true;
    leaf.server = false;
    leaf.valid_for = std::chrono::hours{24 * 365};
    return std::make_shared<net::Identity>(
        *talos::sign_leaf(authority, leaf, entropy, home.world.now()));
  }
  const std::string& authority_pem() const { return authority.certificate_pem; }

  Home home;
  Wire wire;

 private:
  std::shared_ptr<net::Identity> admin() {
    talos::Leaf leaf;
    leaf.organizations = {"os:admin"};
    leaf.client = true;
    leaf.server = false;
    leaf.valid_for = std::chrono::hours{24 * 365};
    if (admin_ == nullptr)
      admin_ = std::make_shared<net::Identity>(
          *talos::sign_leaf(authority, leaf, entropy, home.world.now()));
    return admin_;
  }

  SeededEntropy entropy;
  talos::SigningAuthority authority;
  std::shared_ptr<net::Identity> admin_;
  std::string image_;
};

}  // namespace rocca::lab
