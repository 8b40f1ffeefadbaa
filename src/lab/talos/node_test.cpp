#include "lab/talos/node.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/sim/pki.hpp"
#include "lab/sim/wire.hpp"
#include "lab/talos/bbolt.hpp"
#include "lab/talos/certificates.hpp"
#include "net/transport.hpp"
#include "proto/common.pb.h"
#include "proto/etcd.pb.h"
#include "proto/machine.pb.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace rocca::lab::talos {
namespace {

using namespace std::chrono_literals;
namespace pb = rocca::proto::machine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// A CA with its key as a machine config carries it, made for one test.
SigningAuthority make_authority(Instant now) {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  X509* made = X509_new();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch());
  ASN1_TIME_set(X509_getm_notBefore(made), seconds.count());
  ASN1_TIME_set(X509_getm_notAfter(made), seconds.count() + 86400 * 365);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "O", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("talos"), -1, -1, 0);
  X509_set_issuer_name(made, X509_get_subject_name(made));
  X509_set_pubkey(made, key);
  X509_EXTENSION* ca =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
  X509_add_ext(made, ca, -1);
  X509_EXTENSION_free(ca);
  X509_sign(made, key, nullptr);
  const auto text = [](auto write) {
    BIO* bio = BIO_new(BIO_s_mem());
    write(bio);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string out(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return out;
  };
  SigningAuthority authority{
      text([&](BIO* bio) { PEM_write_bio_X509(bio, made); }), text([&](BIO* bio) {
        PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
      })};
  X509_free(made);
  EVP_PKEY_free(key);
  authority.key_pem = talos_key_pem(authority.key_pem);
  return authority;
}

class Nodes : public ::testing::Test {
 protected:
  ~Nodes() override { world.end_routines(); }

  TalosNode& add(const std::string& name, const std::string& address,
                 const std::string& version = "v1.11.5", bool iso = false) {
    Machine machine;
    machine.platform = "metal";
    machine.version = version;
    Disk disk;
    disk.name = "sda";
    disk.size = 10'000'000'000;
    disk.serial = "root";
    machine.disks = {disk};
    machine.boot_disk = iso ? "" : "sda";
    machine.links = {{"eth0", "bc:24:11:00:00:01",
                      Link::Lease{address + "/24", "10.0.0.1", {"10.0.0.1"}, name}}};
    nodes.push_back(std::make_unique<TalosNode>(fleet, machine));
    nodes.back()->power_on();
    world.run_for(15s);
    return *nodes.back();
  }

  std::string config(const std::string& type, const std::string& extra = "") const {
    const bool control_plane = type == "controlplane";
    return fmt::format(
        "version: v1alpha1\nmachine:\n    type: {}\n    token: aaaaaa.bbbbbbbbbbbbbbbb\n    ca:\n"
        "        crt: {}\n        key: {}\n    install:\n        disk: /dev/sda\n{}cluster:\n    "
        "id: "
        "one\n    secret: two\n    controlPlane:\n        endpoint: https://10.0.0.20:6443\n    "
        "clusterName: lab\n",
        type, to_base64(ca.certificate_pem), control_plane ? to_base64(ca.key_pem) : "\"\"", extra);
  }

  struct Outcome {
    int code = -1;
    std::string message;
    std::vector<std::string> answers;
    std::string trouble;  // no answer at all
  };

  Outcome call(const std::string& address, const std::string& path, const std::string& request,
               bool secure, Duration timeout = 10s, net::Headers metadata = {}) {
    net::Request http;
    http.method = "POST";
    http.url = fmt::format("https://{}:50000{}", address, path);
    http.version = net::HttpVersion::Http2;
    http.headers = std::move(metadata);
    http.headers.add("content-type", "application/grpc+proto");
    http.headers.add("te", "trailers");
    http.body = frame(request);
    http.timeout = timeout;
    http.tls = net::Tls::unverified();
    if (secure) {
      Leaf leaf;
      leaf.organizations = {role};
      leaf.client = true;
      leaf.server = false;
      http.tls = net::Tls::authority(ca.certificate_pem);
      http.tls.identity =
          std::make_shared<net::Identity>(*sign_leaf(ca, leaf, entropy, world.now()));
    }
    Outcome outcome;
    try {
      const net::Answer answer = net::fetch(wire, http);
      const auto field = [&](const char* name) {
        const auto trailer = answer.head.trailers.find(name);
        return std::string(trailer ? *trailer : answer.head.headers.find(name).value_or(""));
      };
      outcome.code = static_cast<int>(parse_int(field("grpc-status")).value_or(-1));
      outcome.message = percent_decode(field("grpc-message"));
      outcome.answers = unframe(answer.body).value();
    } catch (const Error& error) {
      outcome.trouble = error.message();
    }
    return outcome;
  }

  Outcome apply(const std::string& address, const std::string& text, bool secure, int mode = 1) {
    pb::ApplyConfigurationRequest request;
    request.set_data(text);
    request.set_mode(static_cast<pb::ApplyConfigurationRequest::Mode>(mode));
    return call(address, "/machine.MachineService/ApplyConfiguration", request.SerializeAsString(),
                secure);
  }

  void configure(const std::string& address, const std::string& type) {
    ASSERT_EQ(apply(address, config(type), false).code, 0);
    world.run_for(30s);
  }

  std::vector<pb::EtcdMember> members(const std::string& address) {
    const Outcome outcome = call(address, "/machine.MachineService/EtcdMemberList", "", true);
    pb::EtcdMemberListResponse response;
    if (outcome.answers.empty() || !response.ParseFromString(outcome.answers.front())) return {};
    return {response.messages(0).members().begin(), response.messages(0).members().end()};
  }

  World world;
  Fleet fleet{world};
  Wire wire{world};
  SeededEntropy entropy{7};
  SigningAuthority ca = make_authority(world.now());
  std::string role = "os:admin";
  std::vector<std::unique_ptr<TalosNode>> nodes;
};

constexpr const char* version_path = "/machine.MachineService/Version";

TEST_F(Nodes, FreshNodeAnswersOnlyMaintenanceCallsWithoutACertificate) {
  TalosNode& node = add("cp1", "10.0.0.11");
  EXPECT_EQ(node.stage(), Stage::Maintenance);
  const Outcome version = call("10.0.0.11", version_path, "", false);
  EXPECT_EQ(version.code, 12);
  EXPECT_EQ(version.message, "API is not implemented in maintenance mode");
  EXPECT_EQ(call("10.0.0.11", "/storage.StorageService/Disks", "", false).code, 0);
}

TEST_F(Nodes, FreshNodeOf113TellsItsVersion) {
  add("cp1", "10.0.0.11", "v1.13.0");
  EXPECT_EQ(call("10.0.0.11", version_path, "", false).code, 0);
  const Outcome reset = call("10.0.0.11", "/machine.MachineService/Reset", "", false);
  EXPECT_EQ(reset.code, 7);
  EXPECT_EQ(reset.message, "not authorized");
}

TEST_F(Nodes, ApplyLeadsThroughAClosedPortToMutualTls) {
  add("cp1", "10.0.0.11");
  EXPECT_EQ(apply("10.0.0.11", config("controlplane"), false).code, 0);
  world.run_for(100ms);
  EXPECT_THAT(call("10.0.0.11", version_path, "", true).trouble, HasSubstr("connection refused"));
  world.run_for(10s);
  EXPECT_EQ(call("10.0.0.11", version_path, "", true).code, 0);
  EXPECT_THAT(call("10.0.0.11", version_path, "", false).trouble,
              HasSubstr("wants a client certificate"));
  role = "os:nothing";
  EXPECT_EQ(call("10.0.0.11", version_path, "", true).code, 7);
}

TEST_F(Nodes, AConfigWithMistakesIsRefusedInTalossWords) {
  add("cp1", "10.0.0.11");
  EXPECT_EQ(
      apply("10.0.0.11", "machine:\n  bogus: 1\n", false).message,
      "failed to parse config: unknown keys found during decoding:\nmachine:\n    bogus: 1\n");
  EXPECT_EQ(
      apply("10.0.0.11", replace_all(config("controlplane"), "type: control", "type: x"), false)
          .message,
      "configuration validation failed: 1 error occurred:\n\t* unknown machine type "
      "\"xplane\"\n\n");
}

TEST_F(Nodes, AnIsoInstallsToTheNamedDiskAndBootsFromIt) {
  TalosNode& node = add("cp1", "10.0.0.11", "v1.11.5", /*iso=*/true);
  ASSERT_EQ(apply("10.0.0.11", config("controlplane"), false).code, 0);
  world.run_for(10s);
  EXPECT_EQ(node.stage(), Stage::Installing);
  world.run_for(2min);
  EXPECT_EQ(node.stage(), Stage::Booting);
  EXPECT_EQ(call("10.0.0.11", version_path, "", true).code, 0);
}

TEST_F(Nodes, AnIsoWithAWrongDiskStaysWhereItIs) {
  TalosNode& node = add("cp1", "10.0.0.11", "v1.11.5", /*iso=*/true);
  ASSERT_EQ(
      apply("10.0.0.11", replace_all(config("controlplane"), "/dev/sda", "/dev/sdx"), false).code,
      0);
  world.run_for(5min);
  EXPECT_EQ(node.stage(), Stage::Installing);
  EXPECT_FALSE(node.api_answers());
}

TEST_F(Nodes, BootstrapHappensOnceAndOthersJoin) {
  for (const char* address : {"10.0.0.11", "10.0.0.12", "10.0.0.13"}) {
    add(fmt::format("cp{}", std::string(address).substr(8)), address);
    configure(address, "controlplane");
  }
  const std::string path = "/machine.MachineService/Bootstrap";
  EXPECT_EQ(nodes[0]->stage(), Stage::Booting);
  EXPECT_THAT(call("10.0.0.11", "/machine.MachineService/EtcdStatus", "", true, 5s).trouble,
              HasSubstr("did not answer"));
  EXPECT_EQ(call("10.0.0.11", path, "", true).code, 0);
  world.run_for(2min);
  EXPECT_EQ(call("10.0.0.11", path, "", true).message, "etcd data directory is not empty");
  EXPECT_THAT(members("10.0.0.12"), SizeIs(3));
  EXPECT_EQ(nodes[2]->stage(), Stage::Running);

  // Quorum: one of three may be lost, two may not.
  nodes[2]->power_off();
  EXPECT_THAT(members("10.0.0.11"), SizeIs(3));
  nodes[1]->power_off();
  EXPECT_THAT(members("10.0.0.11"), SizeIs(0));
  EXPECT_EQ(nodes[0]->etcd()->leader(), 0u);
  nodes[1]->power_on();
  world.run_for(1min);
  EXPECT_THAT(members("10.0.0.11"), SizeIs(3));
}

TEST_F(Nodes, ASnapshotIsAWholeDatabaseAndRestores) {
  add("cp1", "10.0.0.11");
  configure("10.0.0.11", "controlplane");
  call("10.0.0.11", "/machine.MachineService/Bootstrap", "", true);
  world.run_for(1min);
  ASSERT_TRUE(nodes[0]->etcd()->put("/registry/a", "one"));
  std::string snapshot;
  for (const std::string& answer :
       call("10.0.0.11", "/machine.MachineService/EtcdSnapshot", "", true).answers) {
    rocca::proto::common::Data data;
    ASSERT_TRUE(data.ParseFromString(answer));
    snapshot += data.bytes();
  }
  EXPECT_EQ(snapshot.size() % 512, 32u);
  const auto restored = EtcdCluster::restore(snapshot, false);
  ASSERT_TRUE(restored.cluster) << restored.error;
  EXPECT_EQ(restored.cluster->data().at("/registry/a"), "one");
  snapshot[5000] = static_cast<char>(snapshot[5000] ^ 1);
  EXPECT_THAT(EtcdCluster::restore(snapshot, false).error,
              StartsWith("error recovering from the snapshot: expected sha256 ["));
  EXPECT_EQ(EtcdCluster::restore("garbage", false).error,
            "error verifying snapshot: invalid database");
}

TEST_F(Nodes, AWorkerWaitsForTrustd) {
  add("w1", "10.0.0.21");
  configure("10.0.0.21", "worker");
  EXPECT_FALSE(nodes[0]->api_answers());
  add("cp1", "10.0.0.11");
  configure("10.0.0.11", "controlplane");
  EXPECT_TRUE(nodes[0]->api_answers());
  EXPECT_EQ(call("10.0.0.21", version_path, "", true, 10s, {{"node", "10.0.0.11"}}).message,
            "no request forwarding");
  EXPECT_EQ(call("10.0.0.11", version_path, "", true, 10s, {{"node", "10.0.0.21"}}).code, 0);
}

TEST_F(Nodes, UpgradeChangesTheVersionAndRollbackBringsItBack) {
  add("cp1", "10.0.0.11");
  configure("10.0.0.11", "controlplane");
  const auto upgrade = [&](const std::string& image) {
    pb::UpgradeRequest request;
    request.set_image(image);
    const Outcome outcome =
        call("10.0.0.11", "/machine.MachineService/Upgrade", request.SerializeAsString(), true);
    world.run_for(3min);
    return outcome.code;
  };
  EXPECT_EQ(upgrade("factory.talos.dev/metal-installer/" + std::string(64, 'a') + ":v1.12.3"), 0);
  EXPECT_EQ(to_string(nodes[0]->version()), "1.12.3");
  EXPECT_EQ(upgrade("ghcr.io/siderolabs/installer:v1.9.0"), 0);  // too far back: installer refuses
  EXPECT_EQ(to_string(nodes[0]->version()), "1.12.3");
  EXPECT_EQ(call("10.0.0.11", "/machine.MachineService/Rollback", "", true).code, 0);
  world.run_for(1min);
  EXPECT_EQ(to_string(nodes[0]->version()), "1.11.5");
}

TEST_F(Nodes, ResetOfStateBringsMaintenanceBackAndMetaStays) {
  TalosNode& node = add("cp1", "10.0.0.11");
  configure("10.0.0.11", "controlplane");
  pb::MetaWriteRequest meta;
  meta.set_key(12);
  meta.set_value("x");
  EXPECT_EQ(
      call("10.0.0.11", "/machine.MachineService/MetaWrite", meta.SerializeAsString(), true).code,
      0);
  pb::ResetRequest request;
  request.set_reboot(true);
  for (const char* label : {"STATE", "EPHEMERAL"}) {
    auto& part = *request.add_system_partitions_to_wipe();
    part.set_label(label);
    part.set_wipe(true);
  }
  EXPECT_EQ(
      call("10.0.0.11", "/machine.MachineService/Reset", request.SerializeAsString(), true).code,
      0);
  world.run_for(1min);
  EXPECT_EQ(node.stage(), Stage::Maintenance);
  EXPECT_NE(node.resources().find("runtime", "MetaKeys.runtime.talos.dev", "0x0c"), nullptr);
}

TEST_F(Nodes, ATriedConfigGoesBackByItself) {
  TalosNode& node = add("cp1", "10.0.0.11");
  configure("10.0.0.11", "controlplane");
  const std::string tried = config("controlplane", "    sysctls:\n        a.b: \"1\"\n");
  EXPECT_EQ(apply("10.0.0.11", tried, true, 4).code, 0);
  EXPECT_EQ(node.config()->text(), tried);
  world.run_for(61s);
  EXPECT_EQ(node.config()->text(), config("controlplane"));
}

TEST(Bbolt, ReadsWhatItWrites) {
  Buckets buckets;
  buckets["empty"];
  for (int i = 0; i < 500; ++i)
    buckets["key"][fmt::format("{:04}", i)] = std::string(static_cast<std::size_t>(i), 'x');
  const std::string file = write_bbolt(buckets);
  EXPECT_EQ(file.size() % 4096, 0u);
  EXPECT_EQ(read_bbolt(file), buckets);
  EXPECT_EQ(read_bbolt(file.substr(0, 100)), std::nullopt);
}

TEST(UnifiedDiff, LooksLikeDiffU) {
  EXPECT_EQ(unified_diff("a\nb\nc\nd\ne\n", "a\nb\nc\nX\nd\ne\n"),
            "--- a\n+++ b\n@@ -1,5 +1,6 @@\n a\n b\n c\n+X\n d\n e\n");
  EXPECT_EQ(unified_diff("a\n", "a\n"), "");
}

}  // namespace
}  // namespace rocca::lab::talos
