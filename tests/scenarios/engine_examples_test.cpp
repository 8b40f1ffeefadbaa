// Every example is raised in the lab, on hosts of its own names, and the second plan is empty.

#include "scenarios/engine_rig.hpp"
#include "support/golden.hpp"

namespace rocca::scenarios {
namespace {

using testing::IsEmpty;

class EngineExample : public testing::TestWithParam<const char*> {};

TEST_P(EngineExample, IsRaisedAndThenLeftAlone) {
  RealFiles real;
  std::string text =
      real.get(fmt::format("{}/examples/{}.yaml", test::source_folder(), GetParam()));
  // The lab's hosts share another storage than the example's, and have no graphics card.
  text = replace_all(text, ", pci: [gpu]", "");
  text = replace_all(text, "{ images: nfs, disks: ceph }", "{ images: shared, disks: local-lvm }");
  MemoryFiles files;
  const spec::Loaded loaded = spec::load_text(files, text, "cluster.yaml", "/");
  ASSERT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  lab::Home::Options options;
  options.hosts.clear();
  for (const auto& host : loaded.spec.proxmox->hosts) options.hosts.push_back(*host);
  ClusterRig rig{options};
  rig.home.factory.versions.push_back("v" + to_string(*loaded.spec.talos.version));
  rig.home.dc.access.pools["talos"];
  rig.write_spec(text);
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Of, EngineExample,
                         testing::Values("blue", "dhcp", "longhorn", "meta", "multi-host",
                                         "single-node", "static", "tailscale"),
                         [](const auto& one) { return replace_all(one.param, "-", "_"); });

}  // namespace
}  // namespace rocca::scenarios
