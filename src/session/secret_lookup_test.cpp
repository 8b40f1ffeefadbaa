#include "session/secret_lookup.hpp"

#include "base/error.hpp"
#include "spec/load.hpp"

#include <gmock/gmock.h>

#include <future>
#include <mutex>
#include <set>

namespace rocca::session {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace age = secrets::age;
namespace sops = secrets::sops;

/// Nothing answers.
class DeadTransport final : public net::Transport {
 public:
  net::Response exchange(const net::Request&, net::BodySink&, std::stop_token) override {
    throw Error(Fault::Unreachable, "connection refused");
  }
};

/// Counts the reads of each file, and lets a test run something during one.
class WatchedFiles final : public Files {
 public:
  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override {
    ++reads[path];
    if (during) during(path);
    return inner.find(path, limit);
  }
  void write(const std::string& path, std::string_view content, unsigned mode) override {
    inner.write(path, content, mode);
  }
  void append(const std::string& path, std::string_view content) override {
    inner.append(path, content);
  }
  bool remove(const std::string& path) override { return inner.remove(path); }
  bool remove_folder(const std::string& path) override { return inner.remove_folder(path); }
  void rename(const std::string& from, const std::string& to) override { inner.rename(from, to); }
  void make_folder(const std::string& path, unsigned mode) override {
    inner.make_folder(path, mode);
  }
  std::vector<std::string> list(const std::string& folder) override { return inner.list(folder); }
  std::optional<FileStatus> status(const std::string& path) override { return inner.status(path); }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    return inner.try_lock(path);
  }

  MemoryFiles inner;
  std::map<std::string, int> reads;
  std::function<void(const std::string&)> during;
};

spec::SecretRef key(const std::string& path) {
  return {spec::SecretRef::From::Key, path};
}

class SecretLookupTest : public testing::Test {
 protected:
  SecretLookupTest() {
    files_.make_folder("/blue", 0755);
    write("proxmox: { token: from-file }\n");
  }

  void write(const std::string& yaml) {
    const sops::Recipe recipe{.recipients = sops::Recipients::age({identity_.recipient()->text()}),
                              .selection = {}};
    files_.write(
        path_,
        sops::encrypt(sops::Plain::parse(yaml, sops::Format::Yaml, "s"), recipe, clock_, entropy_),
        0600);
  }

  std::shared_ptr<Keys> keys() {
    return std::make_shared<Keys>(
        KeySources{.files = files_,
                   .environment = {{"SOPS_AGE_KEY_CMD", "key-tool print"}},
                   .run = [this](const std::vector<std::string>&) {
                     ++key_commands_;
                     return Secret{identity_.text().reveal()};
                   }});
  }

  std::unique_ptr<SecretLookup> lookup(std::map<std::string, Secret> given = {}) {
    loaded_ = spec::load_text(files_.inner, R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5 }
  kubernetes: { version: v1.32.1 }
  network: { addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [1.1.1.1] }
  secrets: { files: [secrets.sops.yaml], sources: [ { command: [vault, show] } ] }
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11, existing: true }
)",
                              "cluster.yaml", "/blue");
    EXPECT_FALSE(loaded_.diagnostics.has_errors()) << loaded_.diagnostics.render();
    return std::make_unique<SecretLookup>(
        loaded_.spec,
        LookupInputs{.files = files_,
                     .clock = clock_,
                     .transport = transport_,
                     .keys = keys(),
                     .run = [this](const std::vector<std::string>& words) { return run(words); },
                     .given = std::move(given)});
  }

  Secret run(const std::vector<std::string>& words) {
    {
      const std::lock_guard guard{mutex_};
      commands_.push_back(words.back());
    }
    if (during_command_) during_command_();
    return Secret{words.back().ends_with(".absent") ? "" : "of " + words.back()};
  }

  VirtualClock clock_;
  SeededEntropy entropy_{1};
  age::Identity identity_ = age::Identity::generate(entropy_);
  WatchedFiles files_;
  DeadTransport transport_;
  std::string path_ = "/blue/secrets.sops.yaml";
  spec::Loaded loaded_;
  int key_commands_ = 0;
  std::mutex mutex_;
  std::vector<std::string> commands_;
  std::function<void()> during_command_;
};

TEST_F(SecretLookupTest, FindsIdentitiesAndDecryptsAFileOnce) {
  const auto secrets = lookup();
  EXPECT_EQ(secrets->get(key("proxmox.token"), "a test").reveal(), "from-file");
  EXPECT_EQ(secrets->find(key("proxmox.token"))->reveal(), "from-file");
  EXPECT_NE(secrets->open(path_), nullptr);
  EXPECT_EQ(secrets->find(key("vault.one"))->reveal(), "of vault.one");
  EXPECT_EQ(key_commands_, 1);
  EXPECT_EQ(files_.reads[path_], 1);
}

TEST_F(SecretLookupTest, AsksASourceOnceForEachKeyThatIsThereOrNot) {
  const auto secrets = lookup();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(secrets->find(key("vault.one"))->reveal(), "of vault.one");
    EXPECT_EQ(secrets->find(key("vault.absent")), std::nullopt);
  }
  EXPECT_THAT(commands_, ElementsAre("vault.one", "vault.absent"));
}

TEST_F(SecretLookupTest, WhatWasStoredDuringTheRunIsFound) {
  const auto secrets = lookup();
  EXPECT_EQ(secrets->find(key("proxmox.csi.absent")), std::nullopt);
  secrets->add(key("proxmox.csi.absent"), Secret{"new"});
  EXPECT_EQ(secrets->get(key("proxmox.csi.absent"), "a test").reveal(), "new");
}

TEST_F(SecretLookupTest, GivenValuesWinAndNeedNoKey) {
  const auto secrets = lookup({{"proxmox.token", Secret{"given"}}});
  EXPECT_EQ(secrets->get(key("proxmox.token"), "a test").reveal(), "given");
  EXPECT_EQ(key_commands_, 0);
  EXPECT_THAT(commands_, IsEmpty());
}

TEST_F(SecretLookupTest, AMissingSecretNamesWhoNeedsItAndEveryPlace) {
  const auto secrets = lookup({{"other", Secret{"x"}}});
  try {
    secrets->get(key("tail.absent"), "tailscale.authKey");
    FAIL() << "was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::NotFound);
    for (const char* part :
         {"tail.absent", "tailscale.authKey", "given", "secrets.sops.yaml", "vault show"})
      EXPECT_THAT(error.message(), HasSubstr(part));
  }
}

/// Another thread looks something up while a door is open: it must not wait for the door.
TEST_F(SecretLookupTest, HoldsNoLockWhileAProgramRunsOrAFileIsRead) {
  const auto secrets = lookup({{"other", Secret{"x"}}});
  int asked = 0;
  const auto from_another_thread = [&] {
    if (asked++ > 1) return;  // the lookup inside opens a door of its own
    auto other = std::async(std::launch::async, [&] {
      return std::string{secrets->get(key("other"), "a test").reveal()};
    });
    ASSERT_EQ(other.wait_for(20s), std::future_status::ready) << "a lock is held across a door";
    EXPECT_EQ(other.get(), "x");
  };
  secrets->keys().identities();
  files_.during = [&](const std::string&) { from_another_thread(); };
  during_command_ = from_another_thread;
  EXPECT_EQ(secrets->get(key("vault.one"), "a test").reveal(), "of vault.one");
  EXPECT_EQ(asked, 2);  // once in the file, once in the program
}

TEST_F(SecretLookupTest, ManyThreadsGetTheSameAnswer) {
  const auto secrets = lookup();
  secrets->keys().identities();
  std::vector<std::future<std::string>> answers;
  for (int i = 0; i < 16; ++i)
    answers.push_back(std::async(std::launch::async, [&secrets, i] {
      return std::string{
          secrets->get(key(i % 2 == 0 ? "vault.one" : "proxmox.token"), "a test").reveal()};
    }));
  std::set<std::string> all;
  for (auto& answer : answers) all.insert(answer.get());
  EXPECT_THAT(all, ElementsAre("from-file", "of vault.one"));
  EXPECT_EQ(key_commands_, 1);
}

TEST(Keys, AskForAPassphraseOnceAndRefuseWithoutATerminal) {
  MemoryFiles files;
  SeededEntropy entropy{2};
  files.make_folder("/home");
  files.write("/home/locked.txt",
              age::encrypt(age::Identity::generate(entropy).text().reveal(),
                           {age::Recipient::passphrase(Secret{"horse"}, 10)}, entropy, true));
  const std::map<std::string, std::string> environment{{"SOPS_AGE_KEY_FILE", "/home/locked.txt"}};
  try {
    Keys{{.files = files, .environment = environment}}.identities();
    FAIL() << "was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Refused);
  }
  int asked = 0;
  Keys keys{{.files = files, .environment = environment, .ask = [&](std::string_view) {
               ++asked;
               return Secret{"horse"};
             }}};
  EXPECT_EQ(keys.identities().size(), 1u);
  EXPECT_EQ(keys.identities().size(), 1u);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace rocca::session
