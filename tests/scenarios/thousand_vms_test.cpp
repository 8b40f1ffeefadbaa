// A thousand VMs on three hosts at once, through the client, in virtual time.

#include "lab/pve/datacenter.hpp"
#include "proxmox/client.hpp"
#include "scenarios/fibers.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

namespace rocca {
namespace {

using namespace std::chrono_literals;

constexpr unsigned vm_count = 1000;

struct Result {
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::map<unsigned, std::string> vms;  // id -> name, as the cluster has them
  std::map<std::string, std::size_t> peaks;
  std::map<std::string, std::string> failures;  // VM -> what reached its caller
  unsigned races = 0;
  std::chrono::seconds took{};
};

class Site {
 public:
  explicit Site(std::uint64_t seed) : world({seed, lab::World::Options{}.start}) {
    lab::pve::Datacenter::Options options;
    options.release = lab::pve::Release::v9();
    options.cluster = "home";
    dc = std::make_unique<lab::pve::Datacenter>(world, options);
    for (unsigned i = 1; i <= 3; ++i)
      dc->add_node(fmt::format("pve{}", i), fmt::format("10.0.0.{}", i)).bridges["vmbr0"];
    lab::pve::Storage local;
    local.id = "local";
    local.type = "dir";
    local.options["path"] = "/var/lib/vz";
    local.content = {"iso", "import"};
    lab::pve::Storage thin;
    thin.id = "local-lvm";
    thin.type = "lvmthin";
    thin.content = {"images"};
    thin.total = 100ull << 40;
    dc->storages = {{"local", local}, {"local-lvm", thin}};
    for (const auto& [name, node] : dc->nodes()) {
      lab::pve::Volume image;
      image.name = "import/talos.qcow2";
      image.content = "import";
      image.format = "qcow2";
      image.size = 1ull << 30;
      image.used = 100ull << 20;
      image.image.identity = "talos";
      dc->storages["local"].on(name)[image.name] = image;
    }
    lab::pve::Token token;
    token.secret = dc->new_uuid();
    token.privsep = false;
    dc->access.users["rocca@pve"].tokens["main"] = token;
    dc->access.grant("rocca@pve", "/", dc->access.privileges());
    secret = "rocca@pve!main=" + token.secret;
  }

  lab::World world;
  std::unique_ptr<lab::pve::Datacenter> dc;
  std::string secret;
};

proxmox::VmCreate wanted(unsigned number, proxmox::Vmid vmid) {
  proxmox::VmCreate create;
  create.vmid = vmid;
  create.name = fmt::format("node-{}", number);
  create.efi_disk = proxmox::EfiDisk{"local-lvm", false};
  proxmox::Drive disk;
  disk.storage = "local-lvm";
  disk.import_from = "local:import/talos.qcow2";
  create.drives["scsi0"] = disk;
  proxmox::Nic nic;
  nic.bridge = "vmbr0";
  create.nics = {nic};
  create.boot_order = {"scsi0"};
  return create;
}

Result raise(std::uint64_t seed) {
  Site site{seed};
  test::Fibers fibers{site.world};
  lab::Wire wire{site.world, fibers};
  std::map<std::string, std::unique_ptr<test::Fibers::Lane>> requests, creations;
  for (const auto& [name, node] : site.dc->nodes()) {
    requests[name] = std::make_unique<test::Fibers::Lane>(fibers, proxmox::Lanes::per_host);
    creations[name] = std::make_unique<test::Fibers::Lane>(fibers, proxmox::Lanes::per_host);
  }
  Result result;
  const Instant begin = site.world.now();
  const auto one = [&](unsigned number) {
    const std::string host = fmt::format("pve{}", number % 3 + 1);
    const lab::pve::Node& node = *site.dc->find_node(host);
    proxmox::Client client{wire,
                           {{fmt::format("https://{}:8006", node.address)},
                            Secret{site.secret},
                            net::Tls::pinned(node.fingerprint)}};
    const auto ask = [&](auto&& call) {
      requests[host]->enter();
      try {
        auto answer = call();
        requests[host]->leave();
        return answer;
      } catch (...) {
        requests[host]->leave();
        throw;
      }
    };
    creations[host]->enter();
    try {
      while (true) {
        // nextid reserves nothing: all who ask at once are told the same id.
        const proxmox::Vmid id = ask([&] { return client.next_free_vmid(); });
        const auto answer = ask([&] { return client.start_create(host, wanted(number, id)); });
        if (std::holds_alternative<proxmox::VmidTaken>(answer)) {
          ++result.races;
          continue;
        }
        const proxmox::Upid upid = std::get<proxmox::Upid>(answer);
        while (true) {
          lab::pause(site.world, fibers, 2s);
          const auto task = ask([&] { return client.find_task(upid); });
          if (!task || task->running) continue;
          if (!task->ok()) throw Error(Fault::Rejected, task->exit_status);
          break;
        }
        break;
      }
    } catch (const Error& error) {
      result.failures[fmt::format("node-{}", number)] = error.message();
    }
    creations[host]->leave();
  };
  for (unsigned i = 0; i < vm_count; ++i) fibers.start([&one, i] { one(i); });
  fibers.run();
  for (const auto& [id, vm] : site.dc->vms) {
    const std::string* name = vm.find("name");
    result.vms[id] = name == nullptr ? "" : *name;
  }
  for (const auto& [name, node] : site.dc->nodes())
    result.peaks[name] = wire.peak_in_flight("pve/" + name);
  result.hash = site.world.trace().hash();
  result.events = site.world.trace().count();
  result.took = std::chrono::duration_cast<std::chrono::seconds>(site.world.now() - begin);
  return result;
}

TEST(ThousandVms, AreCreatedInParallelOnThreeHosts) {
  const Result first = raise(7);
  fmt::print(
      "seed 7: trace {:016x} of {} lines, {} VMs in {} simulated seconds, {} races for an id\n",
      first.hash, first.events, first.vms.size(), first.took.count(), first.races);
  EXPECT_THAT(first.failures, testing::IsEmpty());
  EXPECT_EQ(first.vms.size(), vm_count);
  std::set<std::string> names;
  for (const auto& [id, name] : first.vms) names.insert(name);
  EXPECT_EQ(names.size(), vm_count) << "two VMs of one name: somebody was given another's id";
  EXPECT_GT(first.races, 0u) << "nobody raced: the test shows nothing";
  for (const auto& [host, peak] : first.peaks)
    EXPECT_THAT(peak, testing::AllOf(testing::Ge(2u), testing::Le(3u))) << host;
  const Result again = raise(7);
  EXPECT_EQ(again.hash, first.hash);
  EXPECT_EQ(again.vms, first.vms);
  EXPECT_NE(raise(8).hash, first.hash);
}

}  // namespace
}  // namespace rocca
