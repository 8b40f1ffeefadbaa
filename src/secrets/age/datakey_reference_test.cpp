#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/age/age.hpp"
#include "support/reference.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <optional>

// vectors/sops/getsops-age-datakey: age files as SOPS stores them. NAME.enc.armored opens with
// NAME.identity and nothing else; NAME.recipient is that identity's; an armored identity file opens
// with its .passphrase.
namespace rocca::secrets::age {
namespace {

constexpr char folder[] = "sops/getsops-age-datakey";

std::string stem(const std::string& path, std::string_view ending) {
  return path.substr(0, path.size() - ending.size());
}

bool exists(const std::string& path) {
  return std::filesystem::exists(path);
}

std::vector<Identity> identities_in(const std::string& path) {
  return parse_identities(test::read_file(path), path);
}

TEST(AgeDataKeys, EveryFileOpensWithItsOwnIdentityOnly) {
  const std::vector<std::string> identities = test::reference_files(folder, ".identity");
  for (const std::string& path : test::reference_files(folder, ".enc.armored")) {
    SCOPED_TRACE(path);
    const std::string own = stem(path, ".enc.armored") + ".identity";
    const std::string expected =
        test::read_file(std::filesystem::path(path).parent_path() / "expected-plaintext");
    for (const std::string& identity : identities) {
      SCOPED_TRACE(identity);
      std::optional<Secret> opened;
      try {
        opened = decrypt(test::read_file(path), identities_in(identity));
      } catch (const AgeError& error) {
        EXPECT_EQ(error.failure(), Failure::NoMatch);
      }
      EXPECT_EQ(opened.has_value(), identity == own);
      if (opened) {
        EXPECT_EQ(opened->reveal(), expected);
      }
      test::count_case();
    }
  }
}

TEST(AgeDataKeys, EveryIdentityIsReadAndKnowsItsRecipient) {
  for (const std::string& path : test::reference_files(folder, ".identity")) {
    SCOPED_TRACE(path);
    const auto identities = identities_in(path);
    ASSERT_EQ(identities.size(), 1u);
    const std::string recipient = stem(path, ".identity") + ".recipient";
    if (exists(recipient)) {
      EXPECT_EQ(parse_recipients(test::read_file(recipient), recipient).front(),
                *identities.front().recipient());
    }
    test::count_case();
  }
}

TEST(AgeDataKeys, ProtectedIdentityFilesOpenWithTheirPassphrase) {
  for (const std::string& path : test::reference_files(folder, ".passphrase")) {
    SCOPED_TRACE(path);
    const Secret passphrase = Secret::take(test::read_file(path));
    const std::string file = stem(path, ".passphrase") + ".armored";
    EXPECT_EQ(
        parse_identities(test::read_file(file), file, [&](std::string_view) { return passphrase; })
            .size(),
        1u);
    EXPECT_THROW(parse_identities(test::read_file(file), file), Error);
    test::count_case();
  }
}

}  // namespace
}  // namespace rocca::secrets::age
