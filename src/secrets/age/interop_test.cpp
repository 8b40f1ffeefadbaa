#include "base/entropy.hpp"
#include "base/strings.hpp"
#include "secrets/age/age.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

// Both ways with Debian's `age`. Where it is not installed the tests say so and count as skipped.
namespace rocca::secrets::age {
namespace {

bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "", ':'))
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

class AgeInterop : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {"age", "age-keygen", "ssh-keygen"})
      if (!is_installed(program))
        GTEST_SKIP() << program << " is not installed (Debian packages age, openssh-client)";
    std::string pattern = testing::TempDir() + "rocca-age-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    std::filesystem::permissions(
        path(name), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void run(const std::string& command) const {
    const std::string line = "cd '" + folder_ + "' && " + command + " 2>errors";
    ASSERT_EQ(std::system(line.c_str()), 0) << command << "\n" << read("errors");
  }

  SeededEntropy entropy_{42};
  std::string folder_;
};

TEST_F(AgeInterop, AgeReadsOurFiles) {
  const Identity identity = Identity::generate(entropy_);
  const Identity other = Identity::generate(entropy_);
  write("key", key_file(identity, Instant{}).reveal());
  for (const std::size_t size : {0u, 1u, 65535u, 65536u, 65537u, 200'000u})
    for (const bool armor : {false, true}) {
      SCOPED_TRACE(size);
      const std::string text = entropy_.bytes(size);
      write("file.age",
            encrypt(text, {*other.recipient(), *identity.recipient()}, entropy_, armor));
      run("age -d -i key -o out file.age");
      EXPECT_TRUE(read("out") == text);
    }
}

TEST_F(AgeInterop, WeReadTheFilesOfAge) {
  run("age-keygen -o key && age-keygen -y key >recipient");
  const auto identities = parse_identities(read("key"), "key");
  EXPECT_EQ(identities.front().recipient()->text() + "\n", read("recipient"));
  for (const std::size_t size : {0u, 1u, 65536u, 200'000u})
    for (const std::string flag : {"", "-a"}) {
      SCOPED_TRACE(size);
      const std::string text = entropy_.bytes(size);
      write("text", text);
      run("age " + flag + " -R recipient -o file.age text");
      EXPECT_TRUE(decrypt(read("file.age"), identities).reveal() == text);
    }
}

TEST_F(AgeInterop, AgeKeygenReadsOurKeys) {
  const Identity identity = Identity::generate(entropy_);
  write("key", key_file(identity, Instant{}).reveal());
  run("age-keygen -y key >recipient");
  EXPECT_EQ(read("recipient"), identity.recipient()->text() + "\n");
}

class SshInterop : public AgeInterop, public testing::WithParamInterface<std::string> {};

TEST_P(SshInterop, BothWays) {
  run("ssh-keygen -q -t " + GetParam() + " -N '' -C me@home -f id");
  const auto identities = parse_identities(read("id"), "id");
  const auto recipients = parse_recipients(read("id.pub"), "id.pub");
  EXPECT_EQ(*identities.front().recipient(), recipients.front());
  write("file.age", encrypt("from us", recipients, entropy_, true));
  run("age -d -i id -o out file.age");
  EXPECT_EQ(read("out"), "from us");
  write("text", "from age");
  run("age -R id.pub -o file.age text");
  EXPECT_EQ(decrypt(read("file.age"), identities).reveal(), "from age");
}

INSTANTIATE_TEST_SUITE_P(All, SshInterop, testing::Values("ed25519", "rsa", "rsa -m PEM"),
                         [](const auto& row) {
                           return row.param == "rsa -m PEM" ? std::string("rsa_pem") : row.param;
                         });

TEST_F(AgeInterop, EncryptedAndForeignSshKeysAreRefusedByName) {
  const auto refused = [&](const std::string& flags) -> std::string {
    run("rm -f id id.pub; ssh-keygen -q " + flags + " -f id");
    try {
      parse_identities(read("id"), "id");
    } catch (const Error& error) {
      return error.message();
    }
    return "read";
  };
  EXPECT_EQ(refused("-t ed25519 -N secret"),
            "the SSH key is protected by a passphrase, which is not supported");
  EXPECT_EQ(refused("-t rsa -m PEM -N secret"),
            "the SSH key is protected by a passphrase, which is not supported");
  EXPECT_EQ(refused("-t ecdsa -N ''"),
            "SSH keys of type `ecdsa-sha2-nistp256` cannot be used with age");
}

}  // namespace
}  // namespace rocca::secrets::age
