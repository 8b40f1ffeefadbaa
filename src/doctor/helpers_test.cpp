#include "doctor/helpers.hpp"

#include "base/files.hpp"
#include "spec/load.hpp"

#include <gmock/gmock.h>

namespace rocca::doctor {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

spec::Spec load(const std::string& addons) {
  MemoryFiles files;
  spec::Loaded loaded = spec::load_text(files, R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5 }
  kubernetes: { version: v1.34.1 }
  network: { addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }
  proxmox: { endpoints: [https://pve.home:8006], insecure: true, token: { secret: proxmox.token }, hosts: [pve1] }
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11 }
  addons: )" + addons + "\n",
                                        "cluster.yaml", "/blue");
  EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  return std::move(loaded.spec);
}

TEST(Helpers, GetTheLeastRightsInTheWordsOfThatProxmox) {
  const spec::Spec spec = load("{ proxmoxCcm: true, proxmoxCsi: { storage: tank } }");
  const auto nine = helpers_of(spec, {9, 0, 0});
  ASSERT_EQ(nine.size(), 2u);
  const auto manager = helper_lines(nine[0]);
  EXPECT_THAT(manager, Contains(HasSubstr("\"Sys.Audit VM.Audit VM.GuestAgent.Audit\"")));
  EXPECT_THAT(manager, Contains("pveum user token add rocca-ccm@pve ccm"));
  EXPECT_THAT(manager,
              Contains("pveum acl modify /vms --tokens 'rocca-ccm@pve!ccm' --roles RoccaCCM"));
  EXPECT_THAT(manager,
              Contains("pveum acl modify / --users rocca-ccm@pve --roles RoccaCCM --propagate 0"));
  EXPECT_THAT(helper_lines(helpers_of(spec, {8, 4, 0})[0]), Contains(HasSubstr("VM.Monitor")));
  const auto plugin = helper_lines(nine[1]);
  EXPECT_THAT(plugin,
              Contains("pveum acl modify /storage/tank --users rocca-csi@pve --roles RoccaCSI"));
  EXPECT_THAT(plugin, Not(Contains(HasSubstr("VM.Allocate"))));
  EXPECT_THAT(helpers_of(load("{ certApprover: true }"), {9, 0, 0}), IsEmpty());
}

}  // namespace
}  // namespace rocca::doctor
