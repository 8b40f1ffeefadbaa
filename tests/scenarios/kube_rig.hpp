#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "kube/client.hpp"
#include "kube/discovery.hpp"
#include "kube/manifests.hpp"
#include "kube/waits.hpp"
#include "lab/kube/api.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rocca::scenarios {

/// A transport that ends in a simulated Kubernetes API: time goes on while a caller waits.
class ApiTransport final : public net::Transport {
 public:
  ApiTransport(lab::World& world, std::function<net::Handler()> handler)
      : world_(world), handler_(std::move(handler)) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token) override {
    ++exchanges;
    const auto url = net::Url::parse(request.url);
    net::Incoming in;
    in.method = request.method;
    in.target = request.url.substr(request.url.find('/', request.url.find("://") + 3));
    in.headers = request.headers;
    if (const auto* body = std::get_if<std::string>(&request.body)) in.body = *body;
    if (request.authorization)
      in.headers.add("Authorization", std::string{request.authorization->reveal()});
    const auto responder = std::make_shared<Sinking>(sink);
    handler_()(std::move(in), responder);
    while (!responder->finished && !responder->enough && world_.step()) {
    }
    if (responder->was_cut) throw Error(Fault::Lost, "the connection was cut");
    if (!responder->finished && !responder->enough) throw Error(Fault::Lost, "nobody answers");
    return responder->head;
  }

  std::size_t exchanges = 0;

 private:
  class Sinking final : public net::Responder {
   public:
    explicit Sinking(net::BodySink& sink) : sink_(sink) {}
    net::Response head;
    bool finished = false;
    bool was_cut = false;
    bool enough = false;  // the caller wants no more

    void answer(int code, std::string, net::Headers fields, std::string text,
                net::Headers) override {
      begin(code, "", std::move(fields));
      write(std::move(text));
      finished = true;
    }
    void begin(int code, std::string, net::Headers fields) override {
      head.status = code;
      head.headers = std::move(fields);
      sink_.begin(head);
    }
    void write(std::string bytes) override {
      if (!enough && !bytes.empty()) enough = !sink_.write(bytes);
    }
    void finish(net::Headers) override { finished = true; }
    void cut() override { was_cut = finished = true; }
    void tunnel(std::string, unsigned) override {}
    bool gone() const override { return enough; }
    void on_gone(std::function<void()>) override {}

   private:
    net::BodySink& sink_;
  };

  lab::World& world_;
  std::function<net::Handler()> handler_;
};

/// A simulated cluster with two nodes, and our client as its admin.
class KubeRig {
 public:
  explicit KubeRig(lab::kube::Api::Options options = {}) { start(std::move(options)); }

  void start(lab::kube::Api::Options options) {
    api = std::make_unique<lab::kube::Api>(world, std::move(options));
    api->set_network_ready([this](const std::string&) { return network; });
    api->join({"cp-1", "10.0.0.11", "v1.34.4", true});
    api->join({"worker-1", "10.0.0.21"});
    world.run_for(std::chrono::seconds{5});
  }

  static kube::Access access() {
    kube::Access made;
    made.server = "https://10.0.0.20:6443";
    return made;
  }

  kube::Client client(const std::string& manager = "rocca") {
    return {transport, files, access(), manager};
  }

  /// As Flux would: another manager, by force.
  void apply_as(const std::string& manager, const std::string& yaml) {
    kube::Client other = client(manager);
    kube::Discovery discovery{other};
    for (const kube::Manifest& manifest : kube::parse_manifests(yaml, "theirs")) {
      const auto answer =
          other.try_apply(discovery.find_path(manifest.name).value(), manifest.object, false);
      if (const auto* failure = std::get_if<kube::Failure>(&answer))
        throw failure->error("applying " + manifest.name.text(), true);
    }
  }

  lab::World world;
  bool network = true;
  std::unique_ptr<lab::kube::Api> api;
  MemoryFiles files;
  ApiTransport transport{world, [this] { return api->handler({"admin", {"system:masters"}}); }};
};

}  // namespace rocca::scenarios
