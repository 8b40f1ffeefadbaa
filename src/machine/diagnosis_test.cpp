#include "machine/diagnosis.hpp"

#include "support/golden.hpp"

#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

using namespace std::chrono_literals;

/// A VM that runs, and of which everything is as it should be but that nobody hears it.
Symptoms silent() {
  Symptoms s;
  s.node = "cp-1";
  s.address = "10.0.0.11";
  s.there = true;
  s.power = s.qmp = "running";
  s.uptime = 10min;
  s.cpu = 0.02;
  s.net_in = 900'000;
  s.net_out = 40'000;
  s.disk_read = 180u << 20;
  s.disk_written = 30u << 20;
  s.cpu_type = "host";
  s.firmware = "ovmf";
  s.agent_device = s.agent_extension = true;
  s.bridge = "vmbr0";
  s.gateway = IpAddress::parse("10.0.0.1");
  s.subnet = Cidr::parse("10.0.0.0/16");
  return s;
}

struct Case {
  const char* name;
  std::function<void(Symptoms&)> change;
  const char* first;  // words of the likeliest cause
};

class Diagnosis : public testing::TestWithParam<Case> {};

TEST_P(Diagnosis, NamesTheCause) {
  Symptoms symptoms = silent();
  GetParam().change(symptoms);
  const auto causes = diagnose(symptoms);
  ASSERT_FALSE(causes.empty());
  EXPECT_THAT(causes.front().what, testing::HasSubstr(GetParam().first));
  test::expect_golden(std::string("machine/diagnosis_") + GetParam().name + ".txt",
                      render(symptoms, causes) + "\n");
}

const Case cases[] = {
    {"wrong_vlan",
     [](Symptoms& s) {
       s.vlan = 30;
       s.net_in = 0;
       s.agent_answers = true;
       s.agent_addresses = {*IpAddress::parse("10.0.0.11")};
     },
     "VLAN 30 of vmbr0 is not where its network is"},
    {"kvm64",
     [](Symptoms& s) {
       s.cpu_type = "kvm64";
       s.cpu = 0.97;
       s.net_in = s.net_out = s.disk_written = 0;
       s.disk_read = 60u << 20;
     },
     "its processor type is kvm64"},
    {"pre_enrolled_keys",
     [](Symptoms& s) {
       s.pre_enrolled_keys = true;
       s.net_in = s.net_out = s.disk_written = 0;
       s.disk_read = 1u << 20;
     },
     "Microsoft's keys"},
    {"wrong_gateway",
     [](Symptoms& s) {
       s.gateway = IpAddress::parse("10.1.0.1");
       s.agent_answers = true;
       s.agent_addresses = {*IpAddress::parse("10.0.0.11")};
     },
     "its gateway 10.1.0.1 is not in its subnet"},
    {"wrong_gateway_in_the_subnet",
     [](Symptoms& s) {
       s.net_in = 30'000;
       s.agent_answers = true;
       s.agent_addresses = {*IpAddress::parse("10.0.0.11")};
     },
     "10.0.0.1 may not be its gateway"},
    {"iso_halt",
     [](Symptoms& s) {
       s.iso_first = true;
       s.net_in = s.net_out = s.disk_written = 0;
     },
     "boots from an ISO although Talos is on its disk"},
    {"missing_agent_device",
     [](Symptoms& s) {
       s.agent_device = false;
       s.answer = Symptoms::Answer::Ours;
       s.answer_text = "booting: services (ext-qemu-guest-agent not running)";
     },
     "the VM offers no agent port"},
    {"off", [](Symptoms& s) { s.power = s.qmp = "stopped"; }, "its VM is off"},
    {"gone", [](Symptoms& s) { s.there = false; }, "there is no VM"},
    {"address_in_use",
     [](Symptoms& s) {
       s.answer = Symptoms::Answer::Stranger;
       s.answer_text = "machine 4c4c4544-0000-4000-8000-000000000001";
     },
     "another machine answers at 10.0.0.11"},
    {"another_address",
     [](Symptoms& s) {
       s.agent_answers = true;
       s.agent_addresses = {*IpAddress::parse("10.0.200.7")};
     },
     "its guest agent says 10.0.200.7"},
    {"existing",
     [](Symptoms& s) {
       s = Symptoms{};
       s.node = "cp-1";
       s.existing = true;
       s.address = "10.0.0.11";
     },
     "nobody answers at 10.0.0.11"},
    {"no_idea", [](Symptoms& s) { s.gateway.reset(); }, "nothing that Proxmox shows explains it"},
};

INSTANTIATE_TEST_SUITE_P(Facts, Diagnosis, testing::ValuesIn(cases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace rocca::resources
