#include "proxmox/property_string.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>

namespace rocca::proxmox {
namespace {

struct Spelling {
  const char* name;
  const char* option;
  const char* sent;
  const char* printed;
};

class Printing : public testing::TestWithParam<Spelling> {};

TEST_P(Printing, IsWhatProxmoxPrints) {
  const Spelling& c = GetParam();
  EXPECT_EQ(PropertyString::parse(c.option, c.sent).print(), c.printed);
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, Printing,
    testing::Values(Spelling{"model_first", "net0", "bridge=vmbr0,tag=5,virtio=BC:24:11:AA:BB:CC",
                             "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,tag=5"},
                    Spelling{"model_without_mac", "net0", "bridge=vmbr0,virtio",
                             "virtio,bridge=vmbr0"},
                    Spelling{"switch_words", "net0",
                             "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=on,link_down=no",
                             "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,link_down=0"},
                    Spelling{"sorted_drive", "scsi0",
                             "local-lvm:vm-1-disk-0,ssd=1,iothread=on,discard=on,size=32G",
                             "local-lvm:vm-1-disk-0,discard=on,iothread=1,size=32G,ssd=1"},
                    Spelling{"file_key", "scsi0", "ssd=1,file=disks:1", "disks:1,ssd=1"},
                    Spelling{"volume_alias", "virtio3", "volume=disks:1", "disks:1"},
                    Spelling{"stray_comma", "ide2", "disks:cloudinit,media=cdrom,",
                             "disks:cloudinit,media=cdrom"},
                    Spelling{"no_default_key", "smbios1",
                             "uuid=a,base64=1,family=eA==", "base64=1,family=eA==,uuid=a"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(PropertyString, RefusesWhatProxmoxRefuses) {
  EXPECT_THROW(PropertyString::parse("net0", "virtio,bridge=a,bridge=b"), Error);
  EXPECT_THROW(PropertyString::parse("net0", "virtio=BC:24:11:00:00:01,e1000=BC:24:11:00:00:02"),
               Error);
  EXPECT_THROW(PropertyString::parse("smbios1", "stray"), Error);
  EXPECT_THROW(PropertyString::parse("scsi0", "disks:1,disks:2"), Error);
  EXPECT_THROW(PropertyString::parse("ipconfig0", "ip=10.0.0.2/24,\tgw=10.0.0.1"), Error);
  EXPECT_THROW(PropertyString::parse("efidisk0", "size=4M,=local:1"), Error);
}

TEST(PropertyString, WhatIsPrintedIsReadAsTheSame) {
  for (const auto& [option, text] : {std::pair{"scsi0", "file=a=b,size=1G"},
                                     {"net0", "model=other,macaddr=BC:24:11:00:00:01"}}) {
    const PropertyString read = PropertyString::parse(option, text);
    EXPECT_EQ(PropertyString::parse(option, read.print()).print(), read.print()) << text;
    EXPECT_EQ(PropertyString::parse(option, read.print()).properties().size(), 2u) << text;
  }
}

TEST(PropertyString, BlanksAroundAnElementMeanNothing) {
  EXPECT_EQ(PropertyString::parse("net0", "virtio, ,bridge=vmbr0").print(), "virtio,bridge=vmbr0");
  // Sorted, the blank behind `ip` would come to stand at the end, and be trimmed the next time.
  const std::string once = normalise("ipconfig0", "ip=10.0.0.2/24 ,gw=10.0.0.1");
  EXPECT_EQ(once, "gw=10.0.0.1,ip=10.0.0.2/24");
  EXPECT_EQ(normalise("ipconfig0", once), once);
}

struct Pair {
  const char* name;
  const char* option;
  const char* wanted;
  const char* found;
  bool same;
};

class Meaning : public testing::TestWithParam<Pair> {};

TEST_P(Meaning, IsComparedNotSpelling) {
  const Pair& c = GetParam();
  EXPECT_EQ(same_meaning(c.option, c.wanted, c.found), c.same);
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, Meaning,
    testing::Values(
        Pair{"mac_case", "net0", "virtio=bc:24:11:aa:bb:cc,bridge=vmbr0",
             "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0", true},
        Pair{"mac_we_did_not_set", "net0", "virtio,bridge=vmbr0",
             "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0", true},
        Pair{"another_mac", "net0", "virtio=BC:24:11:AA:BB:CD,bridge=vmbr0",
             "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0", false},
        Pair{"firewall_off_is_absent", "net0", "virtio,bridge=vmbr0,firewall=0",
             "virtio,bridge=vmbr0", true},
        Pair{"another_bridge", "net0", "virtio,bridge=vmbr1", "virtio,bridge=vmbr0", false},
        Pair{"tags_as_a_set", "tags", "Rocca;blue", "blue;rocca", true},
        Pair{"another_tag", "tags", "rocca", "rocca;blue", false},
        Pair{"size_is_the_servers", "scsi0", "a:vm-1-disk-0,ssd=1",
             "a:vm-1-disk-0,size=1248M,ssd=1", true},
        Pair{"size_units", "scsi0", "a:vm-1-disk-0,size=1024M", "a:vm-1-disk-0,size=1G", true},
        Pair{"another_size", "scsi0", "a:vm-1-disk-0,size=2G", "a:vm-1-disk-0,size=1G", false},
        Pair{"ms_cert_is_the_servers", "efidisk0", "a:vm-1-disk-0,efitype=4m,pre-enrolled-keys=1",
             "a:vm-1-disk-0,efitype=4m,ms-cert=2023k,pre-enrolled-keys=1,size=4M", true},
        Pair{"agent_spellings", "agent", "enabled=1", "1", true},
        Pair{"agent_off_is_absent", "agent", "0", "", true},
        Pair{"smbios_order", "smbios1",
             "uuid=6E1D2F5A-0000-4000-8000-000000000001,family=eA==,base64=1",
             "base64=1,family=eA==,uuid=6e1d2f5a-0000-4000-8000-000000000001", true},
        Pair{"memory_text", "memory", "4096", "current=4096", true},
        Pair{"integers", "cores", "02", "2", true},
        Pair{"description_newline", "description", "a\n", "a", true},
        Pair{"nameservers_keep_order", "nameserver", "1.1.1.1 8.8.8.8", "8.8.8.8 1.1.1.1", false},
        Pair{"nameservers_separator", "nameserver", "1.1.1.1,8.8.8.8", "1.1.1.1 8.8.8.8", true},
        Pair{"onboot", "onboot", "1", "on", true}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Size, ReadsAndPrintsTheLargestExactUnit) {
  EXPECT_EQ(parse_size("32G"), 32ull << 30);
  EXPECT_EQ(parse_size("528K"), 528ull << 10);
  EXPECT_EQ(parse_size("1048577"), 1048577u);
  EXPECT_EQ(parse_size(""), std::nullopt);
  EXPECT_EQ(parse_size("12X"), std::nullopt);
  EXPECT_EQ(parse_size("99999999999999T"), std::nullopt);
  EXPECT_EQ(print_size(1246ull << 20), "1246M");
  EXPECT_EQ(print_size(1ull << 40), "1T");
  EXPECT_EQ(print_size(1025), "1025");
}

TEST(Size, RoundTrips) {
  EXPECT_TRUE(rc::check("parse(print(n)) == n",
                        [](std::uint64_t n) { RC_ASSERT(parse_size(print_size(n)) == n); }));
}

TEST(Normalise, IsAFixedPoint) {
  EXPECT_TRUE(rc::check("normalise twice is normalise once", [] {
    const auto key =
        *rc::gen::element<std::string>("net0", "scsi1", "agent", "tags", "cpu", "efidisk0");
    const auto words = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "ssd=1", "firewall=on", "discard=on", "size=1024M", "backup=1"));
    std::string text = key == "net0" ? "virtio=bc:24:11:00:00:01" : key == "tags" ? "B;a" : "x";
    for (const std::string& word : words)
      if (text.find(word.substr(0, word.find('='))) == std::string::npos && key != "tags")
        text += "," + word;
    const std::string once = normalise(key, text);
    RC_ASSERT(normalise(key, once) == once);
    RC_ASSERT(same_meaning(key, text, once));
  }));
}

}  // namespace
}  // namespace rocca::proxmox
