#include "spec/lock.hpp"

#include "base/error.hpp"
#include "support/golden.hpp"

#include <gmock/gmock.h>

namespace rocca::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Lock sample() {
  Lock lock;
  lock.cluster = "blue";
  lock.talos = "1.11.5";
  lock.kubernetes = "1.34.1";
  lock.schematics["cluster"] = std::string(64, 'a');
  lock.images["nocloud-amd64.raw.xz"] = {"https://factory.talos.dev/image/x", 1234, ""};
  lock.addons["cilium"] = {"1.18.4", "https://example.org/cilium.yaml", std::string(64, 'b')};
  lock.nodes["cp-1"] = {"atlas", 1101, std::nullopt};
  lock.nodes["metal-1"] = {"", std::nullopt, Uuid::parse("4c4c4544-0042-4d10-8051-b3c04f4a3532")};
  lock.extensions_of = "1.11.5";
  lock.extensions = {"siderolabs/iscsi-tools", "siderolabs/qemu-guest-agent"};
  return lock;
}

std::string refusal(const std::string& text) {
  try {
    parse_lock(text, "rocca.lock");
  } catch (const Error& error) {
    return error.message();
  }
  return "accepted";
}

TEST(Lock, IsStableText) {
  test::expect_golden("spec/rocca.lock", to_text(sample()));
}
TEST(Lock, ReadsWhatItWrites) {
  EXPECT_EQ(parse_lock(to_text(sample()), "rocca.lock"), sample());
}

TEST(Lock, AFileThatIsCutOffIsRefusedWhereverItWasCut) {
  const std::string whole = to_text(sample());
  for (std::size_t size = 0; size + 1 < whole.size(); ++size)
    EXPECT_NE(refusal(whole.substr(0, size)), "accepted") << size;
  EXPECT_EQ(refusal(whole.substr(0, whole.size() / 2)),
            "rocca.lock is cut off: its last line, `# end of rocca.lock`, is missing");
  EXPECT_EQ(refusal("format: 1\n"), "accepted");  // by hand, or by a rocca that wrote no end
}

TEST(Lock, RefusesTheFuture) {
  EXPECT_EQ(refusal("format: 2\nplanets: 9\n"),
            "rocca.lock has format 2, and this rocca knows format 1");
}

TEST(Lock, RefusesWhatCannotBe) {
  EXPECT_THAT(refusal("cluster: blue\n"), HasSubstr("no `format`"));
  EXPECT_THAT(refusal("- 1\n"), HasSubstr("this is no rocca.lock"));
  EXPECT_THAT(refusal("format: 1\nnods: {}\n"),
              HasSubstr("rocca.lock:2:7: unknown key `nods` (did you mean `nodes`?)"));
  EXPECT_THAT(refusal("format: 1\ntalos: soon\n"), HasSubstr("`soon` is no version"));
  EXPECT_THAT(refusal("format: 1\nschematics: { cluster: abc }\n"), HasSubstr("64 hex digits"));
  EXPECT_THAT(refusal("format: 1\nimages: { a: { sha256: x } }\n"), HasSubstr("64 hex digits"));
  EXPECT_THAT(refusal("format: 1\nnodes: { a: { vmid: x } }\n"), HasSubstr("no number"));
  EXPECT_THAT(refusal("format: 1\nnodes: { a: { uuid: x } }\n"), HasSubstr("no UUID"));
  EXPECT_THAT(refusal("format: 1\nnodes: { a: { vmid: 100 }, b: { vmid: 100 } }\n"),
              HasSubstr("a and b have one VM id, 100"));
}

TEST(Lock, NamesEveryChange) {
  Lock after = sample();
  after.talos = "1.11.6";
  after.nodes["cp-1"].vmid = 1102;
  after.nodes["cp-2"] = {"hera", 1103, std::nullopt};
  after.addons.clear();
  EXPECT_THAT(changes(sample(), after),
              ElementsAre(LockChange{"addons.cilium.sha256", std::string(64, 'b'), ""},
                          LockChange{"addons.cilium.url", "https://example.org/cilium.yaml", ""},
                          LockChange{"addons.cilium.version", "1.18.4", ""},
                          LockChange{"nodes.cp-1.vmid", "1101", "1102"},
                          LockChange{"nodes.cp-2.host", "", "hera"},
                          LockChange{"nodes.cp-2.vmid", "", "1103"},
                          LockChange{"talos", "1.11.5", "1.11.6"}));
}

TEST(Locked, RefusesAnyChangeAndAllowsNone) {
  EXPECT_NO_THROW(require_unchanged(sample(), sample()));
  Lock after = sample();
  after.nodes["cp-1"].host = "hera";
  try {
    require_unchanged(sample(), after);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Refused);
    EXPECT_EQ(error.message(),
              "rocca.lock would change in 1 place\n  nodes.cp-1.host: atlas → hera");
  }
}

TEST(Lock, LivesBesideTheSpec) {
  MemoryFiles files;
  files.make_folder("c", 0755);
  EXPECT_EQ(find_lock(files, "c"), std::nullopt);
  write_lock(files, "c", sample());
  EXPECT_EQ(find_lock(files, "c"), sample());
}

}  // namespace
}  // namespace rocca::spec
