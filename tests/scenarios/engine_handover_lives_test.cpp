// Random lives of clusters that are handed over: raised while the wires are unkind, the machine
// loses its power, Git is away or somebody presses Ctrl-C; then the user, Git and Flux go on, and
// in the end all is razed. After every turn a calm `up` must do, and the plan after it is empty.
//   ROCCA_HANDOVER_LIVES=N  so many lives instead of eight, one for each kind of turn
//   ROCCA_HANDOVER_SEED=S   only this one (with ROCCA_LOUD=1: all that happened in it)

#include "lab/services/releases.hpp"
#include "lab/sim/chaos.hpp"
#include "scenarios/handover_rig.hpp"

#include <cstdlib>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using Census = std::map<std::string, std::uint64_t>;

constexpr const char* addons_key = "  addons: { ";

class Life {
 public:
  static constexpr std::uint64_t turns = 8;

  Life(std::uint64_t seed, Census& census)
      : seed_(seed),
        dice_(SeededEntropy{seed}.fork("handover")),
        one_(home(seed)),
        census_(census) {
    auto& clusters = one_.rig.home.estate.clusters();
    clusters.webhooks_late = clusters.webhooks_latest = std::chrono::seconds{below(121)};
    one_.secrets["proxmox.csi"] = one_.rig.home.token;
    auto& internet = one_.rig.home.internet;
    internet.infisical.put(internet.project(), "prod", "/", "FLUX_GIT", "token-one");
    if (is("Proxmox CSI", 3)) addons_ += ", proxmoxCsi: true";
    if (is("manifests of the user", 3))
      addons_ +=
          ", manifests: [ \"apiVersion: v1\\nkind: Namespace\\nmetadata: { name: extra }\\n\" ]";
    handover_ = plain_flux;
    if (is("External Secrets", 3)) {
      external_ = is("credential through External Secrets", 2);
      if (external_)
        handover_ = replace_all(plain_flux, "{ secret: flux.git }", "{ external: FLUX_GIT }");
      handover_ +=
          "    externalSecrets: { infisical: { host: \"https://infisical.home\", project: homelab, "
          "environment: prod, auth: { secret: infisical } } }\n";
    }
    handover_ += "    publish: [ { files: { folder: /published } } ]\n";
    if (is("Cilium", 3)) network_ = "cni: { cilium: { version: 1.16.5 } }";
    metrics_ = chance(2);
    write();
  }

  /// Empty: every promise was kept.
  std::string run() {
    std::string broken = raise();
    const std::uint64_t first = seed_ % turns;  // so that few lives have seen every turn
    for (std::uint64_t left = 1 + below(2), i = 0; broken.empty() && i < left; ++i) {
      broken = turn(i == 0 ? first : below(turns));
      if (broken.empty()) broken = raise();
      if (!broken.empty()) broken = last_ + ", then " + broken;
    }
    if (broken.empty()) broken = raze();
    return broken;
  }

 private:
  static lab::Home::Options home(std::uint64_t seed) {
    lab::Home::Options options;
    options.seed = seed;
    return options;
  }
  std::uint64_t below(std::uint64_t bound) { return dice_.below(bound); }
  bool chance(std::uint64_t of) { return below(of) == 0; }
  /// Once in so many, and counted.
  bool is(const char* what, std::uint64_t of) {
    const bool yes = chance(of);
    if (yes) ++census_[what];
    return yes;
  }

  void write() {
    one_.write(handover_, addons_key + addons_ + (metrics_ ? ", metricsServer: true" : "") + " }\n",
               network_);
  }

  /// A run while something goes wrong; how it ends is its own affair, but it is never our bug.
  std::string stormy(bool up) {
    lab::Chaos::Options unkind;
    unkind.dropped_before = static_cast<unsigned>(below(40));
    unkind.dropped_after = static_cast<unsigned>(below(40));
    unkind.busy = static_cast<unsigned>(below(15));
    unkind.broken = static_cast<unsigned>(below(15));
    unkind.delayed = static_cast<unsigned>(below(50));
    ClusterRig& rig = one_.rig;
    lab::Chaos chaos{rig.wire, rig.home.world, rig.parker,
                     rig.home.world.fork(fmt::format("chaos/{}", ++storms_)), unkind};
    rig.transport = &chaos;
    std::stop_source stop;
    if (is("Ctrl-C", 4)) {
      rig.home.world.after(std::chrono::seconds{below(400)},
                           [stop]() mutable { stop.request_stop(); });
      rig.stop = stop.get_token();
    }
    if (is("power cut", 4)) rig.files.cut_in(static_cast<unsigned>(1 + below(60)));
    if (is("Git away", 5)) one_.git.troubles[HandoverRig::url] = "dial tcp: no route to host";
    std::string bug;
    ++census_["runs in a storm"];
    try {
      const engine::Report report = up ? one_.up() : one_.down();
      if (!report.ok()) ++census_["that did not come through"];
      for (const auto& [address, step] : report.steps)
        if (step.error && step.error->fault() == Fault::Bug)
          bug = address + ": " + step.error->render();
    } catch (const Error& error) {
      ++census_["that did not come through"];
      if (error.fault() == Fault::Bug) bug = error.render();
    }
    census_["faults on the wire"] += chaos.struck();
    rig.files.cut_in(0);
    rig.files.power_cut();
    rig.store.reset();
    rig.stop = {};
    rig.transport = nullptr;
    one_.git.troubles.clear();
    return bug.empty() ? "" : "a run in a storm ended in " + bug;
  }

  std::string raise() {
    for (std::uint64_t storms = below(3); storms > 0; --storms)
      if (std::string bug = stormy(true); !bug.empty()) return bug;
    try {
      const engine::Report report = up();
      if (!report.ok()) return "it did not converge: " + problems(report);
      one_.rig.home.world.run_for(15min);  // Flux looks by itself
      if (one_.revision() != "main@sha1:" + one_.commit) return "Flux is at " + one_.revision();
      // What Flux took meanwhile is let go of, and nothing else is left.
      for (const std::string& line : one_.plan())
        if (line.find("Flux keeps it") == std::string::npos &&
            line.find("kept by Flux and by us") == std::string::npos)
          return "the second plan is not empty: " + line;
      if (const engine::Report second = up(); !second.ok())
        return "the second up failed: " + problems(second);
      if (const auto left = one_.plan(); !left.empty()) return "left: " + left.front();
    } catch (const Error& error) {
      return "it did not converge: " + error.render();
    }
    if (one_.rig.files.find("/published/kubeconfig") !=
        one_.rig.files.find("/clusters/blue/configs/kubeconfig"))
      return "what is published is not the kubeconfig";
    return "";
  }

  engine::Report up() {
    resources::RunOptions options = one_.options();
    options.policy.allowed.insert(engine::Effect::Service);  // an add-on may leave the spec
    return one_.rig.up(options);
  }

  std::string turn(std::uint64_t kind) {
    const lab::kube::User somebody{"ann", {"system:masters"}};
    switch (kind) {
      case 0:
        last_ = "a change in Git";
        files_["clusters/blue/shop.yaml"] =
            replace_all(shop_files.at("clusters/blue/shop.yaml"), "replicas: 2",
                        fmt::format("replicas: {}", below(5)));
        one_.push(files_);
        break;
      case 1:
        last_ = "something leaves Git";
        files_["clusters/blue/shop.yaml"].resize(
            files_["clusters/blue/shop.yaml"].rfind("\n---\n") + 1);
        one_.push(files_);
        break;
      case 2:
        last_ = "Flux's own files come into Git, in newer words";
        files_["clusters/blue/flux-system/gotk-components.yaml"] =
            lab::release_text("github.com/fluxcd/flux2/releases/download/v2.9.5/install.yaml")
                .value();
        one_.push(files_);
        one_.rig.home.world.run_for(20min);
        break;
      case 3:
        last_ = "the credential is rotated";
        one_.repository().password = fmt::format("token-{}", below(99));
        if (external_) {
          auto& internet = one_.rig.home.internet;
          internet.infisical.put(internet.project(), "prod", "/", "FLUX_GIT",
                                 one_.repository().password);
          one_.rig.home.world.run_for(2h);  // the operator looks once an hour
        } else {
          one_.secrets["flux.git"] = one_.repository().password;
        }
        break;
      case 4:
        last_ = "the state is lost";
        for (const std::string& name : one_.rig.files.list("/clusters/blue/.rocca"))
          if (const std::string path = "/clusters/blue/.rocca/" + name; name != "addons")
            one_.rig.files.remove(path);  // what was downloaded lies in a folder there, and stays
        one_.rig.store.reset();
        break;
      case 5:
        last_ = "somebody removes an add-on by hand";
        one_.api().send(somebody, "DELETE",
                        "/apis/apps/v1/namespaces/kubelet-serving-cert-approver/deployments/"
                        "kubelet-serving-cert-approver");
        break;
      case 6:
        last_ = "an add-on comes into the spec or leaves it";
        metrics_ = !metrics_;
        write();
        break;
      default:
        last_ = "all is razed";
        if (std::string broken = raze(); !broken.empty()) return broken;
        break;
    }
    ++census_[last_];
    return "";
  }

  std::string raze() {
    if (chance(2))
      if (std::string bug = stormy(false); !bug.empty()) return bug;
    try {
      const engine::Report report = one_.down();
      if (!report.ok()) return "down did not end well: " + problems(report);
    } catch (const Error& error) {
      return "down did not end well: " + error.render();
    }
    if (!one_.rig.home.dc.vms.empty()) return "a VM is left";
    if (one_.rig.files.status("/published/kubeconfig")) return "the kubeconfig is still published";
    return "";
  }

  std::uint64_t seed_;
  SeededEntropy dice_;
  HandoverRig one_;
  Census& census_;
  std::map<std::string, std::string> files_ = shop_files;  // all that is in Git
  std::string addons_ = "certApprover: true", handover_, network_, last_;
  bool external_ = false, metrics_ = false;
  unsigned storms_ = 0;
};

std::uint64_t asked(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : parse_uint(text).value_or(otherwise);
}

void live(std::uint64_t seed, Census& census) {
  Life life{seed, census};
  EXPECT_EQ(life.run(), "") << "once more: ROCCA_LOUD=1 ROCCA_HANDOVER_SEED=" << seed
                            << " build/dev/tests/scenarios/engine_kube_scenarios_test "
                               "--gtest_filter='HandoverLives.*'";
}

TEST(HandoverLives, EndWellHoweverTheyBegan) {
  Census census;
  if (const std::uint64_t only = asked("ROCCA_HANDOVER_SEED", 0)) return live(only, census);
  const std::uint64_t lives = asked("ROCCA_HANDOVER_LIVES", Life::turns);
  for (std::uint64_t seed = 1; seed <= lives; ++seed) live(seed, census);
  for (const auto& [what, count] : census) fmt::print("{:>6} {}\n", count, what);
  // Lives that have not seen every turn, or met no trouble, have shown nothing.
  for (const char* what :
       {"a change in Git", "something leaves Git", "Flux's own files come into Git, in newer words",
        "the credential is rotated", "the state is lost", "somebody removes an add-on by hand",
        "an add-on comes into the spec or leaves it", "all is razed", "runs in a storm",
        "faults on the wire", "that did not come through"})
    EXPECT_GT(census[what], 0u) << what;
}

}  // namespace
}  // namespace rocca::scenarios
