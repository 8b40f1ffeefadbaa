#include "backends/make_store.hpp"

#include "backends/backends_test_support.hpp"
#include "base/error.hpp"
#include "spec/load.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

namespace rocca::backends {

namespace {

using testing::HasSubstr;

class MakeStore : public testing::Test {
 protected:
  static spec::StatePlace place_of(spec::StatePlace place) { return place; }

  template <class T>
  static spec::Placed<T> placed(T value) {
    return {std::move(value), {}};
  }

  std::unique_ptr<state::Store> make(spec::StatePlace place) {
    spec::Spec spec;
    spec.name = placed<std::string>("blue");
    spec.state = std::move(place);
    return make_store(spec, "clusters/blue", around);
  }
  Error error_of(spec::StatePlace place) {
    try {
      make(std::move(place))->load();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error came";
    return {Fault::Bug, ""};
  }

  test::MemoryS3 s3;
  MemoryFiles files;
  VirtualClock clock;
  SeededEntropy entropy{3};
  std::map<std::string, std::string> variables;
  std::vector<std::string> asked;
  Surroundings around{s3,
                      files,
                      clock,
                      entropy,
                      [this](const spec::SecretRef& ref) {
                        asked.push_back(ref.path);
                        return Secret{"value of " + ref.path};
                      },
                      [] { return std::vector<secrets::age::Identity>{}; },
                      [this](const std::string& name) -> std::optional<std::string> {
                        const auto found = variables.find(name);
                        if (found == variables.end()) return std::nullopt;
                        return found->second;
                      }};
};

TEST_F(MakeStore, LocalLiesBesideTheSpec) {
  EXPECT_EQ(make({spec::LocalState{placed<std::string>(".rocca")}, {}})->describe(),
            "the state in clusters/blue/.rocca");
  EXPECT_EQ(make({spec::LocalState{placed<std::string>("/var/lib/rocca")}, {}})->describe(),
            "the state in /var/lib/rocca");
}

TEST_F(MakeStore, S3TakesItsKeysFromSecretsOrTheEnvironment) {
  spec::S3Place place;
  place.bucket = placed<std::string>("state");
  place.key = placed<std::string>("blue.json");
  place.region = placed<std::string>("eu-central-1");
  EXPECT_THAT(error_of({place, {}}).message(), HasSubstr("AWS_ACCESS_KEY_ID is not set"));
  variables["AWS_ACCESS_KEY_ID"] = "AKIA";
  EXPECT_THAT(error_of({place, {}}).message(), HasSubstr("AWS_SECRET_ACCESS_KEY is not set"));
  variables["AWS_SECRET_ACCESS_KEY"] = "shh";
  EXPECT_EQ(make({place, {}})->load(), std::nullopt);
  EXPECT_TRUE(asked.empty());
  variables.clear();
  place.access_key = placed(spec::SecretRef{spec::SecretRef::From::Key, "s3.accessKey"});
  place.secret_key = placed(spec::SecretRef{spec::SecretRef::From::Key, "s3.secretKey"});
  const auto store = make({place, {}});
  EXPECT_EQ(store->describe(), "the state in s3://state/blue.json");
  EXPECT_THAT(asked, testing::ElementsAre("s3.accessKey", "s3.secretKey"));
}

TEST_F(MakeStore, KubernetesSaysWhenItKnowsNoCluster) {
  const spec::StatePlace place{spec::KubernetesState{placed<std::string>("rocca")}, {}};
  EXPECT_THAT(error_of(place).message(), HasSubstr("no kubeconfig says where"));
  files.make_folder("/home/ann/.kube");
  files.write("/home/ann/.kube/config",
              "current-context: a\n"
              "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
              "clusters: [{name: a, cluster: {server: 'https://a:6443'}}]\n"
              "users: [{name: a, user: {token: t}}]\n");
  variables["HOME"] = "/home/ann";
  EXPECT_EQ(make(place)->describe(), "the state in Secret rocca/blue-rocca-state");
  variables["KUBECONFIG"] = "/nowhere";
  EXPECT_EQ(error_of(place).fault(), Fault::NotFound);
}

TEST_F(MakeStore, HttpGetsItsPassword) {
  spec::HttpState place;
  place.address = placed<std::string>("http://git.home/state");
  place.update_method = "POST";
  place.lock_method = "LOCK";
  place.unlock_method = "UNLOCK";
  place.username = placed<std::string>("ann");
  place.password = placed(spec::SecretRef{spec::SecretRef::From::Key, "state.password"});
  EXPECT_EQ(make({place, {}})->describe(), "the state at http://git.home/state");
  EXPECT_THAT(asked, testing::ElementsAre("state.password"));
}

TEST_F(MakeStore, SealsToTheRecipientsOfTheSpec) {
  const auto identity = secrets::age::Identity::generate(entropy);
  const spec::StatePlace place{spec::LocalState{placed<std::string>(".rocca")},
                               {placed(identity.recipient()->text())}};
  around.identities = [&] { return std::vector{identity}; };
  const auto store = make(place);
  const auto lock = store->lock({"a", "a", "up", {}, {}});
  state::State state;
  state.lineage = "x";
  state.cluster = "a-name-nobody-sees";
  store->replace(state);
  EXPECT_THAT(files.get("clusters/blue/.rocca/state.json"), testing::Not(HasSubstr("nobody-sees")));
  EXPECT_EQ(make(place)->load()->cluster, state.cluster);
  // Recipients taken out of the spec: what is there can still be read.
  EXPECT_EQ(make({place.place, {}})->load()->cluster, state.cluster);
}

}  // namespace

}  // namespace rocca::backends
