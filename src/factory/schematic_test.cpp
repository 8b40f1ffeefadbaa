#include "factory/schematic.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::factory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> problems_of(const std::string& yaml) {
  Diagnostics problems;
  const auto schematic = read_schematic(yaml, "schematic.yaml", problems);
  EXPECT_EQ(schematic.has_value(), !problems.has_errors());
  std::vector<std::string> lines;
  for (const Problem& problem : problems.problems())
    lines.push_back(to_string(problem.where) + " " + problem.message);
  return lines;
}

TEST(Schematic, TheEmptyOneHasTheIdEveryoneKnows) {
  EXPECT_EQ(Schematic{}.canonical(), "customization: {}\n");
  EXPECT_EQ(Schematic{}.id(), "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba");
}

TEST(Schematic, ShortNamesOfExtensionsStandForTheOfficialOnes) {
  Schematic schematic;
  schematic.extensions = {extension_name("iscsi-tools"),
                          extension_name("siderolabs/util-linux-tools")};
  // The id in the Talos manual's page on Longhorn.
  EXPECT_EQ(schematic.id(), "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245");
  std::swap(schematic.extensions[0], schematic.extensions[1]);
  EXPECT_NE(schematic.id(), "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245");
}

TEST(Schematic, MetaIsANumberAndAText) {
  Schematic schematic;
  schematic.meta = {{10, "a: 1\nb: 2\n"}};
  EXPECT_EQ(schematic.canonical(),
            "customization:\n    meta:\n        - key: 10\n          value: |\n            a: 1\n  "
            "          b: 2\n");
}

TEST(Schematic, EveryFieldStandsInItsPlace) {
  Schematic schematic;
  schematic.overlay = {"siderolabs/sbc-raspberrypi", "rpi_generic", {}};
  schematic.embedded_config = "x";
  schematic.kernel_args = {"net.ifnames=0"};
  schematic.meta = {{10, "foo"}};
  schematic.extensions = {"siderolabs/drbd"};
  schematic.bootloader = "sd-boot";
  schematic.enroll_keys = "off";
  schematic.well_known_certificates = true;
  schematic.sector_size = 4096;
  const std::string text = schematic.canonical();
  EXPECT_EQ(
      text,
      "overlay:\n    image: siderolabs/sbc-raspberrypi\n    name: rpi_generic\n"
      "customization:\n    embeddedMachineConfiguration: x\n    extraKernelArgs:\n        - "
      "net.ifnames=0\n"
      "    meta:\n        - key: 10\n          value: foo\n"
      "    systemExtensions:\n        officialExtensions:\n            - siderolabs/drbd\n"
      "    bootloader: sd-boot\n    secureboot:\n        enrollKeys: \"off\"\n"
      "        includeWellKnownCertificates: true\n    diskImage:\n        sectorSize: 4096\n");
  Diagnostics problems;
  const auto again = read_schematic(text, "schematic.yaml", problems);
  ASSERT_TRUE(again) << problems.render();
  EXPECT_EQ(*again, schematic);
}

TEST(Schematic, EveryMistakeIsNamedAtOnce) {
  EXPECT_THAT(
      problems_of("customisation: {}\ncustomization:\n  extraKernelArg: [a]\n  meta:\n    - {key: "
                  "256, value: x}\n"
                  "  secureboot: true\n  bootloader: lilo\nowner: me\n"),
      ElementsAre(
          "schematic.yaml:1:1 a schematic has no `customisation` (did you mean `customization`?)",
          "schematic.yaml:3:3 a schematic has no `customization.extraKernelArg` (did you mean "
          "`extraKernelArgs`?)",
          "schematic.yaml:5:13 customization.meta.key must be a number from 0 to 255",
          "schematic.yaml:6:15 customization.secureboot must be a map, not a bool",
          HasSubstr("schematic.yaml:7:15 customization.bootloader is none of"),
          "schematic.yaml:8:8 owner is only for the factory's Enterprise edition"));
  EXPECT_THAT(problems_of(""), ElementsAre(HasSubstr("is empty")));
}

TEST(Schematic, ATextWhoseIdNobodyAgreesOnIsWarnedOf) {
  EXPECT_THAT(problems_of("customization: {meta: [{key: 10, value: \"\\na: 1\\n\"}]}\n"),
              ElementsAre(HasSubstr("depends on the version of the factory")));
  EXPECT_FALSE(is_stable_text("\na"));
  EXPECT_FALSE(is_stable_text("<<"));
  EXPECT_TRUE(is_stable_text("a\n"));
}

TEST(Schematic, IdsAreKnownByTheirForm) {
  EXPECT_TRUE(is_schematic_id(Schematic{}.id()));
  EXPECT_FALSE(is_schematic_id("376567"));
  EXPECT_FALSE(is_schematic_id(std::string(64, 'G')));
}

}  // namespace
}  // namespace rocca::factory
