// The examples that put something into Kubernetes, raised with all of it: add-ons, the handover to
// Flux, published access files. The second plan is empty, on Proxmox VE 8.4 and on 9.

#include "scenarios/handover_rig.hpp"
#include "support/golden.hpp"

#include <tuple>

namespace rocca::scenarios {
namespace {

using testing::Combine;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Values;

struct Case {
  const char* name;
  std::vector<std::string> things;  // that a run without Kubernetes would leave out
};

class EngineKubeExample : public testing::TestWithParam<std::tuple<Case, const char*>> {};

TEST_P(EngineKubeExample, IsRaisedWithAllOfItAndThenLeftAlone) {
  const auto& [which, release] = GetParam();
  RealFiles real;
  std::string text =
      real.get(fmt::format("{}/examples/{}.yaml", test::source_folder(), which.name));
  // The lab's hosts share another storage than the example's, and have no graphics card.
  text = replace_all(text, ", pci: [gpu]", "");
  text = replace_all(text, "{ images: nfs, disks: ceph }", "{ images: shared, disks: local-lvm }");
  MemoryFiles files;
  files.make_folder("/clusters/blue");
  files.write("/clusters/blue/cluster.yaml", text);
  const spec::Loaded loaded = spec::load(files, "/clusters/blue/cluster.yaml");
  ASSERT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  lab::Home::Options options;
  options.release =
      std::string_view(release) == "9" ? lab::pve::Release::v9() : lab::pve::Release::v8_4();
  options.hosts.clear();
  for (const auto& host : loaded.spec.proxmox->hosts) options.hosts.push_back(*host);
  HandoverRig site{options};
  site.rig.home.factory.versions.push_back("v" + to_string(*loaded.spec.talos.version));
  site.rig.home.dc.access.pools["talos"];
  const std::string fleet = "https://github.com/ann/fleet";
  site.git.push(fleet, "main", "a change", shop_files);
  site.git.repositories[fleet].username = "git";
  site.git.repositories[fleet].password = "token-one";
  site.rig.write_spec(text);
  const engine::Report report = site.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(report.changed(), IsSupersetOf(which.things));
  EXPECT_THAT(site.plan(), IsEmpty());
  site.rig.write_spec(replace_all(text, "protect: true", "protect: false"));
  const engine::Report down = site.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(site.rig.home.dc.vms, IsEmpty());
}

const Case cases[] = {
    {"blue",
     {"addon/cni", "handover/flux", "handover/external-secrets", "handover/secret-store",
      "handover/git", "publish/infisical:/ephemeral-castle/blue"}},
    {"longhorn", {"addon/cert-approver", "addon/metrics-server"}},
    {"multi-host", {"addon/cni"}},
};
INSTANTIATE_TEST_SUITE_P(Of, EngineKubeExample, Combine(testing::ValuesIn(cases), Values("8", "9")),
                         [](const auto& one) {
                           std::string name = std::get<0>(one.param).name;
                           return replace_all(name, "-", "_") + "_on_" + std::get<1>(one.param);
                         });

}  // namespace
}  // namespace rocca::scenarios
