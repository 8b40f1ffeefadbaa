#include "base/uuid.hpp"

#include "base/entropy.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace rocca {
namespace {

const Uuid dns = Uuid::parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8").value();

// The first two are the published examples of RFC 9562 A.4 and of Python's uuid module; the others,
// made with Python's uuid5, cross the borders of SHA-1's blocks.
TEST(Uuids, VersionFiveAgreesWithOthers) {
  EXPECT_EQ(to_string(Uuid::v5(dns, "www.example.com")), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
  EXPECT_EQ(to_string(Uuid::v5(dns, "python.org")), "886313e1-3b8a-5372-9b90-0c9aee199e5d");
  EXPECT_EQ(to_string(Uuid::v5(dns, "")), "4ebd0208-8328-5d69-8c44-ec50939c0967");
  EXPECT_EQ(to_string(Uuid::v5(dns, std::string(39, 'a'))), "5824f981-4282-59d4-9716-acb6d741350e");
  EXPECT_EQ(to_string(Uuid::v5(dns, std::string(40, 'a'))), "39f39c20-db47-5131-8879-62f8f67f9014");
  EXPECT_EQ(to_string(Uuid::v5(dns, std::string(48, 'a'))), "7280cc42-274a-5c4a-91fc-ae23f853eeb7");
  EXPECT_EQ(to_string(Uuid::v5(dns, std::string(1000, 'a'))),
            "062a6b1a-ddc3-5fcc-b238-790846e533d6");
}

TEST(Uuids, AreReadInAnyCaseAndOneShape) {
  EXPECT_EQ(Uuid::parse("6BA7B810-9DAD-11D1-80B4-00C04FD430C8"), dns);
  for (const char* text :
       {"", "6ba7b8109dad11d180b400c04fd430c8", "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c", "6ba7b810-9dad-11d1-80b4-00c04fd430c8 ",
        "6ba7b81-09dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430cg",
        "6ba7b810-9dad-11d1-80b4-00c04fd4-0c8"})
    EXPECT_EQ(Uuid::parse(text), std::nullopt) << text;
}

RC_GTEST_PROP(UuidProperty, PrintedIsReadBackAndNamesDiffer,
              (const std::string& a, const std::string& b)) {
  const Uuid one = Uuid::v5(dns, a);
  RC_ASSERT(Uuid::parse(to_string(one)) == one);
  RC_ASSERT(one.version() == 5u);
  RC_ASSERT((one == Uuid::v5(dns, b)) == (a == b));
}

TEST(Uuids, VersionFourIsRandomAndMarked) {
  SeededEntropy entropy{1};
  const Uuid a = Uuid::v4(entropy);
  const Uuid b = Uuid::v4(entropy);
  EXPECT_NE(a, b);
  EXPECT_EQ(a.version(), 4u);
  EXPECT_EQ(a.bytes()[8] >> 6, 2);
}

}  // namespace
}  // namespace rocca
