#include "secrets/sops/identities.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::secrets::sops {
namespace {

using testing::ElementsAre;

class Identities : public testing::Test {
 protected:
  Secret make() {
    const age::Identity identity = age::Identity::generate(entropy);
    made.push_back(identity.recipient()->text());
    return identity.text();
  }
  std::vector<std::string> found(const std::map<std::string, std::string>& environment) {
    const auto result = find_identities(environment, files, run, {}, problems);
    std::vector<std::string> texts;
    for (const auto& identity : result.identities) texts.push_back(identity.recipient()->text());
    return texts;
  }

  SeededEntropy entropy{7};
  MemoryFiles files;
  Diagnostics problems;
  std::vector<std::string> made;
  std::vector<std::string> ran;
  RunCommand run = [this](const std::vector<std::string>& words) {
    ran = words;
    return Secret{"# from a command\n" + std::string{make().reveal()} + "\n"};
  };
};

TEST_F(Identities, PostQuantumKeysAreUsedOnlyOnRequest) {
  const std::string key =
      "AGE-SECRET-KEY-PQ-1V6UHDV7J8VX2QJVZVGGJLHU3WP49WUPCZ8838KNM57VV7PDVKL4QSN55D6";
  const auto without = find_identities({{"SOPS_AGE_KEY", key}}, files, run, {}, problems);
  EXPECT_TRUE(without.identities.empty());
  EXPECT_THAT(without.searched, testing::Contains(testing::HasSubstr("ROCCA_AGE_HYBRID=1")));
  EXPECT_THAT(found({{"SOPS_AGE_KEY", key}, {"ROCCA_AGE_HYBRID", "1"}}),
              ElementsAre(testing::StartsWith("age1pq1")));
}

TEST_F(Identities, ComeFromAllSourcesAtOnce) {
  files.make_folder("/h/.config/sops/age", 0755);
  files.write("/h/.config/sops/age/keys.txt", std::string{make().reveal()} + "\n", 0600);
  files.write("/k.txt", "# mine\n" + std::string{make().reveal()} + "\n", 0600);
  std::string both{make().reveal()};
  both += " " + std::string{make().reveal()};
  const auto texts = found({{"HOME", "/h"},
                            {"SOPS_AGE_KEY", both},
                            {"SOPS_AGE_KEY_FILE", "/k.txt"},
                            {"SOPS_AGE_KEY_CMD", "pass show 'a b' c\\ d"}});
  EXPECT_THAT(texts, ElementsAre(made[2], made[3], made[1], made[4], made[0]));
  EXPECT_THAT(ran, ElementsAre("pass", "show", "a b", "c d"));
}

TEST_F(Identities, PreferTheXdgFolder) {
  files.make_folder("/x/sops/age", 0755);
  files.write("/x/sops/age/keys.txt", std::string{make().reveal()} + "\n", 0600);
  EXPECT_THAT(found({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/x"}}), ElementsAre(made[0]));
}

TEST_F(Identities, MayBeNone) {
  const auto result = find_identities({{"HOME", "/h"}}, files, {}, {}, problems);
  EXPECT_TRUE(result.identities.empty());
  EXPECT_THAT(result.searched, testing::Contains("/h/.config/sops/age/keys.txt"));
  files.make_folder("/h/.ssh", 0755);
  files.write("/h/.ssh/id_rsa", "nonsense", 0600);
  EXPECT_TRUE(find_identities({{"HOME", "/h"}}, files, {}, {}, problems).identities.empty());
}

TEST_F(Identities, ThatWereNamedMustBeThere) {
  EXPECT_THROW(found({{"SOPS_AGE_KEY_FILE", "/nope"}}), Error);
  EXPECT_THROW(found({{"SOPS_AGE_KEY", "AGE-SECRET-KEY-1NONSENSE"}}), Error);
  EXPECT_THROW(found({{"SOPS_AGE_KEY_CMD", "'open"}}), Error);
}

TEST_F(Identities, ReadableByOthersAreWarnedAbout) {
  files.write("/k.txt", std::string{make().reveal()} + "\n", 0644);
  found({{"SOPS_AGE_KEY_FILE", "/k.txt"}});
  EXPECT_EQ(problems.count(Severity::Warning), 1u);
}

}  // namespace
}  // namespace rocca::secrets::sops
