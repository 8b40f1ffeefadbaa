#include "talosconfig/validate.hpp"

#include "base/entropy.hpp"
#include "secrets/bundle.hpp"
#include "talos/types.hpp"
#include "talosconfig/render.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::talos {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

ConfigInput input(unsigned minor, bool control_plane) {
  secrets::BundleOptions options;
  options.service_account_key = [](Entropy& entropy) {
    return secrets::PrivateKey::generate(secrets::KeyAlgorithm::EcdsaP256, entropy);
  };
  SeededEntropy entropy{7};
  ConfigInput made;
  made.bundle = secrets::generate_bundle(options, Instant{}, entropy);
  made.talos = Version{1, minor, 0};
  made.kubernetes = fmt::format("1.{}.1", minor + 22);  // what this Talos runs
  made.cluster = "blue";
  made.endpoint = "https://10.0.0.20:6443";
  made.disk_serial = "system";
  made.installer = "factory.talos.dev/nocloud-installer/id:v1.11.5";
  made.hostname = "node-1";
  made.control_plane = control_plane;
  return made;
}

ConfigProblems problems_of(const std::string& text, unsigned minor = 11) {
  return validate_config(text, "config.yaml", minor, ConfigMode::Metal);
}

std::vector<std::string> codes(const ConfigProblems& problems) {
  std::vector<std::string> out;
  for (const ConfigProblem& problem : problems) out.push_back(problem.code);
  return out;
}

TEST(Validate, FindsNothingInWhatWeRender) {
  for (unsigned minor = oldest_minor; minor <= newest_minor; ++minor) {
    for (const bool control_plane : {true, false}) {
      const MachineConfig config = render_config(input(minor, control_plane));
      for (const ConfigMode mode : {ConfigMode::Cloud, ConfigMode::Metal}) {
        const auto problems = validate_config(config.text.reveal(), "config.yaml", minor, mode);
        EXPECT_THAT(codes(problems), IsEmpty()) << "1." << minor;
      }
    }
  }
}

TEST(Validate, NamesPathAndPlaceAndNeverTheValue) {
  const std::string config{render_config(input(11, true)).text.reveal()};
  const auto problems = problems_of(replaced(config, "type: controlplane", "type: master"));
  ASSERT_THAT(problems, Contains(Field(&ConfigProblem::code, "machine-type")));
  EXPECT_EQ(to_string(problems.front(), "config.yaml"),
            "config.yaml:5:11: machine.type: neither controlplane nor worker");
  const auto unknown = problems_of(replaced(config, "    token: ", "    tokken: "));
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_THAT(to_string(unknown.front(), "config.yaml"),
              AllOf(HasSubstr("config.yaml:6:5: machine.tokken: unknown key (did you mean `token`"),
                    Not(HasSubstr(std::string{input(11, true).bundle.trustd_token.reveal()}))));
}

TEST(Validate, KnowsCorruptAndForeignKeysApart) {
  const ConfigInput made = input(11, true);
  const auto with = [&](const std::function<void(secrets::Bundle&)>& change) {
    ConfigInput other = made;
    change(other.bundle);
    return codes(problems_of(std::string{render_config(other).text.reveal()}));
  };
  EXPECT_THAT(with([](auto& b) { b.os.key = b.etcd.key; }), ElementsAre("key-mismatch"));
  EXPECT_THAT(with([](auto& b) { b.os.crt = "garbage"; }), ElementsAre("not-pem"));
  EXPECT_THAT(with([](auto& b) { b.os.crt = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"; }),
              ElementsAre("base64-twice"));
  EXPECT_THAT(with([](auto& b) { b.kubernetes.crt.replace(28, 4, "AAAA"); }),
              ElementsAre("bad-certificate"));
  EXPECT_THAT(with([](auto& b) {
                b.etcd.crt = "";
                b.etcd.key = Secret{};
              }),
              ElementsAre("missing-secret"));
  EXPECT_THAT(with([](auto& b) {
                std::string pem{b.os.key.reveal()};
                b.os.key = Secret{replaced(replaced(pem, "ED25519 PRIVATE", "PRIVATE"),
                                           "ED25519 PRIVATE", "PRIVATE")};
              }),
              ElementsAre("key-label"));
  EXPECT_THAT(with([](auto& b) { b.secretbox_secret = Secret{}; }), ElementsAre("missing-secret"));
  EXPECT_THAT(with([](auto& b) { b.bootstrap_token = Secret{"abc"}; }), ElementsAre("bad-token"));
}

TEST(Validate, FindsAKubernetesThatThisTalosDoesNotRun) {
  const std::string text{render_config(input(11, true)).text.reveal()};
  EXPECT_THAT(codes(problems_of(replaced(text, "kubelet:v", "kubelet:v1.99.0-fat # "))),
              ElementsAre("kubernetes-version"));
}

TEST(Validate, FindsWhatIsNoSettingOfTheKernel) {
  ConfigInput made = input(11, true);
  made.sysctls = {{"vm.nr_hugepages", "1"}, {"net/ipv4/ip_forward", "1"}, {"hugepages", "1"}};
  EXPECT_THAT(codes(problems_of(std::string{render_config(made).text.reveal()})),
              ElementsAre("bad-sysctl"));
}

TEST(Validate, RefusesWhatNoNodeWouldTakeInOnePiece) {
  const std::string large(max_config_size + 1, '#');
  EXPECT_THAT(codes(problems_of(large)), ElementsAre("too-large"));
}

}  // namespace
}  // namespace rocca::talos
