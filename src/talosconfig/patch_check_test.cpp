#include "talosconfig/patch_check.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"
#include "spec/load.hpp"
#include "talosconfig/input.hpp"

#include <gmock/gmock.h>

namespace rocca::talos {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

spec::Spec spec_with(const std::string& patch) {
  MemoryFiles files;
  files.make_folder("/cluster");
  files.write("/cluster/patch.yaml", patch);
  spec::Loaded loaded = spec::load_text(files, R"(
apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.13.0, extensions: [qemu-guest-agent], patches: { all: [patch.yaml] } }
  kubernetes: { version: v1.34.1 }
  network: { subnet: 10.0.0.0/16, gateway: 10.0.0.1 }
  proxmox: { endpoints: ["https://pve.home:8006"], token: { secret: t }, hosts: [atlas] }
  nodes: { cp-1: { role: controlplane, address: 10.0.0.11 } }
)",
                                        "cluster.yaml", "/cluster");
  EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  return std::move(loaded.spec);
}

/// All that a check says, the code of each problem first.
std::string said(const Diagnostics& diagnostics) {
  std::string all;
  for (const Problem& problem : diagnostics.problems())
    all += problem.code + " " + problem.message + "\n" + problem.hint + "\n";
  return all;
}

/// What the second check says when every reference has this value.
std::string second_check(const spec::Spec& spec, const std::string& value) {
  std::map<std::string, Secret> secrets;
  for (const spec::Node& node : spec.nodes)
    for (const auto& patch : node.patches)
      for (const auto& reference : patch->secrets)
        secrets.emplace(secret_key(*reference), Secret{value});
  EXPECT_FALSE(secrets.empty());
  Diagnostics diagnostics;
  check_patches(spec, secrets, diagnostics);
  EXPECT_THAT(diagnostics.render(), Not(HasSubstr(value)));
  return said(diagnostics);
}

constexpr const char* wireguard =
    "machine: { network: { interfaces: [{ interface: wg0, addresses: [10.9.0.1/24], wireguard: { "
    "privateKey: { secret: wg.key } } }] } }\n";

// Whether a key has the right length is known only when it has been looked up.
TEST(PatchSecrets, ThatTalosWouldRefuseAreFoundWithoutBeingShown) {
  const spec::Spec spec = spec_with(wireguard);
  Diagnostics first;
  check_patches(spec, first);
  EXPECT_THAT(said(first), IsEmpty()) << "before the lookup nothing is wrong with it";
  EXPECT_THAT(
      second_check(spec, "swordfish"),
      AllOf(HasSubstr("privateKey"), HasSubstr("patch-refused"), Not(HasSubstr("swordfish"))));
}

TEST(PatchSecrets, ThatTalosTakesPass) {
  EXPECT_THAT(second_check(spec_with(wireguard), "gI6EdUSYvn8ugXOt8QQD6Yc+JyiZxIhp3GInSWRfWGE="),
              IsEmpty());
}

// A message may quote what it refuses: then it is not shown.
TEST(PatchSecrets, AreInNoMessageAboutAUrlEither) {
  const spec::Spec spec = spec_with(
      "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: remote\nurl: { secret: log.url }\n");
  EXPECT_THAT(second_check(spec, "ftp://user:swordfish@nowhere"),
              AllOf(Not(IsEmpty()), Not(HasSubstr("swordfish"))));
}

}  // namespace
}  // namespace rocca::talos
