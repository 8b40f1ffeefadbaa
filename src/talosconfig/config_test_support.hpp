#pragma once

#include "base/files.hpp"
#include "spec/load.hpp"
#include "talosconfig/input.hpp"

#include <gmock/gmock.h>

#include <string>

namespace rocca::talos::config_tests {

/// Texts that can be told apart instead of real keys: nothing here reads them.
inline secrets::Bundle bundle() {
  secrets::Bundle made;
  made.cluster_id = "the-cluster-id";
  made.cluster_secret = Secret{"hidden-cluster-secret"};
  made.bootstrap_token = Secret{"hidden.bootstraptoken"};
  made.secretbox_secret = Secret{"hidden-secretbox"};
  made.trustd_token = Secret{"hidden.trustdtoken"};
  made.etcd = {"etcd certificate\n", Secret{"hidden etcd key\n"}};
  made.kubernetes = {"kubernetes certificate\n", Secret{"hidden kubernetes key\n"}};
  made.aggregator = {"aggregator certificate\n", Secret{"hidden aggregator key\n"}};
  made.service_account_key = Secret{"hidden service account key\n"};
  made.os = {"os certificate\n", Secret{"hidden os key\n"}};
  return made;
}

inline Surroundings surroundings() {
  Surroundings around;
  around.bundle = bundle();
  around.schematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
  around.tailscale_key = Secret{"tskey-auth-hidden"};
  return around;
}

inline spec::Spec load(const std::string& text) {
  MemoryFiles files;
  spec::Loaded loaded = spec::load_text(files, text, "cluster.yaml", "/cluster");
  EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  return std::move(loaded.spec);
}

}  // namespace rocca::talos::config_tests
