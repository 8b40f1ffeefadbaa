#include "scaffold/scaffold.hpp"

#include "base/error.hpp"
#include "spec/load.hpp"
#include "spec/locate.hpp"
#include "support/golden.hpp"

#include <gmock/gmock.h>

namespace rocca::spec {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* recipient = "age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq";

void write(MemoryFiles& files, const std::string& path, const std::string& text) {
  if (const auto slash = path.rfind('/'); slash != std::string::npos)
    files.make_folder(path.substr(0, slash), 0755);
  files.write(path, text, 0644);
}

void write(MemoryFiles& files, const Scaffold& made) {
  for (const NewFile& file : made.files) write(files, file.path, file.content);
}

const NewFile& file_of(const Scaffold& made, const std::string& path) {
  for (const NewFile& file : made.files)
    if (file.path == path) return file;
  throw std::runtime_error("no " + path);
}

constexpr const char* blue = R"(# the first one: clusters/blue
apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }  # a name
spec:
  state: { s3: { bucket: rocca, key: blue/state.json } }
  talos: { version: v1.11.5, extensions: [qemu-guest-agent], patches: { all: patches/all.yaml } }
  kubernetes: { version: v1.34.1, endpoint: { vip: 10.0.0.20 } }
  network: { subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [10.0.0.35] }
  proxmox: { endpoints: [https://pve.home:8006], token: { secret: proxmox.token }, hosts: [atlas] }
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11, machine: { vmid: 1101, nics: [ { mac: "BC:24:11:00:00:01" } ] } }
    cp-2: { role: controlplane, address: 10.0.0.12 }
    cp-3: { role: controlplane, address: 10.0.0.13, existing: { uuid: 4c4c4544-0042-4d10-8051-b3c04f4a3532 } }
  pools:
    worker: { count: 2, addresses: 10.0.0.21-10.0.0.25 }
  handover: { flux: { url: https://git.home/bluebird, path: clusters/blue } }
)";

struct Repository {
  MemoryFiles files;
  Repository() {
    write(files, "clusters/blue/cluster.yaml", blue);
    write(files, "clusters/blue/patches/all.yaml",
          "machine: { sysctls: { vm.swappiness: \"1\" } }\n");
    write(files, "clusters/blue/secrets.sops.yaml", "secret");
    write(files, "clusters/blue/rocca.lock", "format: 1\n");
  }
  Scaffold copy(const std::string& name) {
    return scaffold_from(files, "", name, "clusters/blue/cluster.yaml",
                         find_specs(files, "clusters"), recipient);
  }
};

TEST(New, MakesASpecThatValidatesAndTheFilesAroundIt) {
  MemoryFiles files;
  const Scaffold made = scaffold("repo", "blue", recipient);
  write(files, made);
  EXPECT_EQ(load(files, "repo/clusters/blue/cluster.yaml").diagnostics.render(), "");
  test::expect_golden("spec/new_cluster.yaml",
                      file_of(made, "repo/clusters/blue/cluster.yaml").content);
  EXPECT_THAT(file_of(made, "repo/clusters/blue/cluster.yaml").content,
              HasSubstr("# yaml-language-server: $schema=../cluster.schema.json\n"));
  EXPECT_THAT(file_of(made, "repo/clusters/blue/.gitignore").content,
              HasSubstr("configs/\n.rocca/\n"));
  EXPECT_THAT(file_of(made, "repo/clusters/blue/.envrc").content,
              HasSubstr("KUBECONFIG=\"$PWD/configs/kubeconfig\""));
  EXPECT_THAT(file_of(made, "repo/.sops.yaml").content, HasSubstr(recipient));
  EXPECT_TRUE(file_of(made, "repo/.sops.yaml").shared);
}

TEST(New, RefusesAName) {
  EXPECT_THROW(scaffold("", "Blue_1", recipient), Error);
}

TEST(NewFrom, GivesNamesAddressesAndIdsOfItsOwn) {
  Repository repository;
  const Scaffold made = repository.copy("green");
  write(repository.files, made);
  const Loaded green = load(repository.files, "clusters/green/cluster.yaml");
  EXPECT_THAT(green.diagnostics.has_errors(), false) << green.diagnostics.render();
  test::expect_golden("spec/new_from.yaml", file_of(made, "clusters/green/cluster.yaml").content);
  EXPECT_THAT(made.references, testing::ElementsAre("proxmox.token"));
}

TEST(NewFrom, SharesNothingWithAnyOtherCluster) {
  Repository repository;
  for (const char* name : {"green", "red"}) write(repository.files, repository.copy(name));
  std::set<std::string> addresses;
  std::set<std::int64_t> vmids;
  std::size_t nodes = 0;
  for (const std::string& path : find_specs(repository.files, "clusters")) {
    const Loaded loaded = load(repository.files, path);
    for (const Node& node : loaded.spec.nodes) {
      ++nodes;
      EXPECT_TRUE(addresses.insert(to_string(**node.address)).second) << to_string(**node.address);
      if (node.machine && node.machine->vmid) {
        EXPECT_TRUE(vmids.insert(**node.machine->vmid).second);
      }
      EXPECT_FALSE(node.existing && node.existing->uuid && loaded.spec.name.value != "blue");
    }
    EXPECT_TRUE(addresses.insert(to_string(*loaded.spec.kubernetes.endpoint->vip->address)).second);
  }
  EXPECT_EQ(nodes, 15u);
}

TEST(NewFrom, CopiesPatchesButNeitherSecretsNorLock) {
  Repository repository;
  std::vector<std::string> paths;
  for (const NewFile& file : repository.copy("green").files) paths.push_back(file.path);
  EXPECT_THAT(paths, Contains("clusters/green/patches/all.yaml"));
  EXPECT_THAT(paths, Not(Contains(HasSubstr("secrets.sops.yaml"))));
  EXPECT_THAT(paths, Not(Contains(HasSubstr("rocca.lock"))));
}

TEST(NewFrom, CopiesWhatTheSpecNamesAndNothingElse) {
  Repository repository;
  std::string text = blue;
  text.replace(text.find("hosts: [atlas]"), 14, "hosts: [atlas], caFile: pki/ca.pem");
  text.insert(text.find("spec:"), "bases: [base/common.yaml, ../shared.yaml]\n");
  write(repository.files, "clusters/blue/cluster.yaml", text);
  write(repository.files, "clusters/blue/base/common.yaml",
        "spec: { policy: { evenControlPlanes: warn } }\n");
  write(repository.files, "clusters/shared.yaml", "spec: {}\n");
  write(repository.files, "clusters/blue/pki/ca.pem", "a certificate");
  repository.files.write("clusters/blue/pki/ca.pem", "a certificate", 0640);
  for (const char* stray : {"secrets.yaml", "controlplane.yaml", "kubeconfig", "notes/old.yaml"})
    write(repository.files, std::string("clusters/blue/") + stray, "a key in clear");
  const Scaffold made = repository.copy("green");
  std::vector<std::string> paths;
  for (const NewFile& file : made.files)
    if (!file.shared) paths.push_back(file.path);
  EXPECT_THAT(paths, testing::UnorderedElementsAre(
                         "clusters/green/cluster.yaml", "clusters/green/base/common.yaml",
                         "clusters/green/patches/all.yaml", "clusters/green/pki/ca.pem"));
  EXPECT_EQ(file_of(made, "clusters/green/pki/ca.pem").mode, 0640u);
  EXPECT_THAT(file_of(made, "clusters/green/cluster.yaml").content, HasSubstr("../shared.yaml]"));
}

TEST(NewFrom, LeavesALinkThatLeadsOutOneFileForBoth) {
  Repository repository;
  const Scaffold made = scaffold_from(
      repository.files, "", "green", "clusters/blue/cluster.yaml",
      find_specs(repository.files, "clusters"), recipient, [](const std::string& path) {
        return path == "clusters/blue/patches/all.yaml" ? "common/all.yaml" : path;
      });
  for (const NewFile& file : made.files) EXPECT_THAT(file.path, Not(HasSubstr("all.yaml")));
  EXPECT_THAT(file_of(made, "clusters/green/cluster.yaml").content,
              HasSubstr("patches: { all: ../../common/all.yaml }"));
}

TEST(NewFrom, StaysInItsOwnRepository) {
  Repository repository;
  write(repository.files, "clusters/blue/cluster.yaml",
        "# yaml-language-server: $schema=../../deeper.json\n" + std::string(blue));
  write(repository.files, "far/common.yaml", "machine: { sysctls: { a.b: \"1\" } }\n");
  std::string text = repository.files.get("clusters/blue/cluster.yaml");
  text.replace(text.find("all: patches/all.yaml"), 21,
               "all: [patches/all.yaml, ../../far/common.yaml]");
  write(repository.files, "clusters/blue/cluster.yaml", text);
  const Scaffold made = scaffold_from(repository.files, "other/place", "green",
                                      "clusters/blue/cluster.yaml", {}, recipient);
  EXPECT_EQ(made.folder, "other/place/clusters/green");
  const std::string& copy = file_of(made, "other/place/clusters/green/cluster.yaml").content;
  EXPECT_THAT(copy, HasSubstr("[patches/all.yaml, ../../../../far/common.yaml]"));
  EXPECT_THAT(copy, HasSubstr("$schema=../cluster.schema.json\n"));
  for (const NewFile& file : made.files)
    EXPECT_THAT(file.path, testing::StartsWith("other/place/"));
  EXPECT_THAT(made.notes, Contains(HasSubstr("far/common.yaml is outside of this repository")));
}

TEST(NewFrom, TellsWhatIsStillTheOthersInPatches) {
  Repository repository;
  write(repository.files, "clusters/blue/patches/all.yaml",
        "machine:\n  certSANs: [blue.home, 10.0.0.20, 10.0.0.200, bluebird.home]\n"
        "  logging: { destinations: [{ endpoint: \"tcp://10.0.0.24:5170\" }] }\n");
  const Scaffold made = repository.copy("green");
  EXPECT_THAT(made.notes,
              testing::IsSupersetOf({"clusters/blue/patches/all.yaml:2:14: `blue.home` in a patch "
                                     "is still blue's: look at it in the copy",
                                     "clusters/blue/patches/all.yaml:2:25: `10.0.0.20` in a patch "
                                     "is still blue's: look at it in the copy",
                                     "clusters/blue/patches/all.yaml:3:41: `tcp://10.0.0.24:5170` "
                                     "in a patch is still blue's: look at it in the copy"}));
  for (const std::string& note : made.notes) {
    EXPECT_THAT(note, Not(HasSubstr("10.0.0.200")));
    EXPECT_THAT(note, Not(HasSubstr("bluebird")));
  }
}

TEST(NewFrom, RefusesASharedState) {
  Repository repository;
  std::string text = blue;
  text.replace(text.find("blue/state.json"), 15, "state.json");
  write(repository.files, "clusters/blue/cluster.yaml", text);
  EXPECT_THROW(repository.copy("green"), Error);
}

TEST(NewFrom, RefusesAnAddressInABase) {
  Repository repository;
  std::string text = blue;
  text.replace(text.find("    cp-2: { role: controlplane, address: 10.0.0.12 }\n"), 53,
               "    cp-2: { role: controlplane }\n");
  text.insert(text.find("spec:"), "bases: [base.yaml]\n");
  write(repository.files, "clusters/blue/cluster.yaml", text);
  write(repository.files, "clusters/blue/base.yaml",
        "spec: { nodes: { cp-2: { address: 10.0.0.12 } } }\n");
  try {
    repository.copy("green");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("clusters/blue/base.yaml:1:"));
  }
}

TEST(NewFrom, SaysWhenTheSubnetIsFull) {
  Repository repository;
  std::string text = blue;
  text.replace(text.find("10.0.0.21-10.0.0.25"), 19, "10.0.0.21-10.0.0.240");
  write(repository.files, "clusters/blue/cluster.yaml", text);
  try {
    repository.copy("green");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Conflict);
  }
}

Site site_in(const char* subnet, const char* gateway) {
  Site site = Site::example();
  site.subnet = *Cidr::parse(subnet);
  site.gateway = *IpAddress::parse(gateway);
  site.vip.reset();
  return site;
}

TEST(ProposeAddresses, TakesABlockThatNobodyHas) {
  Repository repository;
  Site site = site_in("10.0.0.0/24", "10.0.0.50");
  // 20 to 39 meets the pool of the cluster that is there, 40 to 59 the gateway, 60 to 79 a host.
  propose_addresses(site, 3, 2, repository.files, {"clusters/blue/cluster.yaml"},
                    {*IpAddress::parse("10.0.0.79")});
  EXPECT_EQ(to_string(*site.vip), "10.0.0.80");
  EXPECT_EQ(to_string(site.control_planes.back()), "10.0.0.83");
  EXPECT_EQ(to_string(site.worker_addresses->first()), "10.0.0.84");
  EXPECT_EQ(to_string(site.worker_addresses->last()), "10.0.0.99");
}

TEST(ProposeAddresses, GivesASingleControlPlaneNoVip) {
  MemoryFiles files;
  Site site = site_in("10.0.0.0/24", "10.0.0.1");
  propose_addresses(site, 1, 0, files, {}, {});
  EXPECT_FALSE(site.vip);
  const Scaffold made = scaffold("", "one", recipient, site);
  write(files, made);
  const Loaded loaded = load(files, "clusters/one/cluster.yaml");
  EXPECT_THAT(loaded.diagnostics.problems(), IsEmpty());
  EXPECT_EQ(loaded.spec.nodes.size(), 1u);
}

TEST(ProposeAddresses, GivesPodsTheFamilyOfTheSubnet) {
  MemoryFiles files;
  Site site = site_in("fd00:1::/64", "fd00:1::1");
  site.nameservers = {*IpAddress::parse("fd00:1::1")};
  propose_addresses(site, 3, 2, files, {}, {});
  write(files, scaffold("", "six", recipient, site));
  const Loaded loaded = load(files, "clusters/six/cluster.yaml");
  EXPECT_EQ(loaded.diagnostics.render(), "");
  EXPECT_FALSE(loaded.spec.kubernetes.pod_cidr->address().is_v4());
}

TEST(ProposeAddresses, SaysWhenThereIsNoRoom) {
  MemoryFiles files;
  Site site = site_in("10.0.0.0/27", "10.0.0.1");
  EXPECT_THROW(propose_addresses(site, 3, 2, files, {}, {}), Error);
}

}  // namespace
}  // namespace rocca::spec
