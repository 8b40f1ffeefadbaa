// The situations recorded in tests/reference/kube/flux, played on the lab's Flux: at the end every
// object has the recorded conditions, and what was read at the end is there or not as recorded.
//
//   ROCCA_REPLAY=ks-ok   only scenarios whose name contains this; differences are printed
//
// The repository behind the recordings is not among them; `tree` below holds what their texts tell
// of it. flux_differences.txt names what the lab does not play, with reasons; an entry that agrees
// is a failure, too.

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/flux/flux_rig.hpp"
#include "lab/flux/sops.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

namespace rocca::lab::flux {
namespace {

using namespace std::chrono_literals;
using kube::text_at;
using text::Value;
using Files = std::map<std::string, std::string>;

const std::string host = "http://127.0.40.5:8080";
const std::string fleet = host + "/pub/fleet.git";

std::string map_of(const std::string& name, const std::string& data,
                   const std::string& space = "default") {
  return fmt::format("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {}{} }}\ndata: {}\n",
                     name, space.empty() ? "" : ", namespace: " + space, data);
}

std::string deployment(const std::string& name, const std::string& image, const std::string& app,
                       const std::string& more = "") {
  return fmt::format(
      "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{ name: {0}, namespace: default }}\nspec: "
      "{{ {3} selector: {{ matchLabels: {{ app: {2} }} }}, template: {{ metadata: {{ labels: {{ "
      "app: {2} }} }}, spec: {{ containers: [ {{ name: c, image: '{1}' }} ] }} }} }}\n",
      name, image, app, more);
}

std::string job(const std::string& name, const std::string& more = "") {
  return fmt::format(
      "apiVersion: batch/v1\nkind: Job\nmetadata: {{ name: {}, namespace: default }}\nspec: {{ "
      "template: {{ spec: {{ restartPolicy: Never, {} containers: [ {{ name: c, image: 'i:1' }} ] "
      "}} }} }}\n",
      name, more);
}

Files tree() {
  const std::string space = "apiVersion: v1\nkind: Namespace\nmetadata: { name: fx }\n";
  Files all{
      {"good/ns.yaml", space},
      {"good/site.yaml", map_of("site", "{ greeting: hello }", "fx")},
      {"two/a.yaml", map_of("two-a", "{ a: b }")},
      {"two/b.yaml", map_of("two-b", "{ a: b }")},
      {"taken/a.yaml", map_of("taken", "{ a: '1' }")},
      {"dup/a.yaml", map_of("dup", "{ a: b }", "")},
      {"dup/b.yaml", map_of("dup", "{ a: c }", "")},
      {"dup2/a.yaml", map_of("shared", "{ a: one }")},
      {"dup3/a.yaml", map_of("shared", "{ a: two }")},
      {"badref/kustomization.yaml", "resources: [ missing.yaml ]\n"},
      {"healthfail/d.yaml", deployment("dead", "gone:1", "dead", "progressDeadlineSeconds: 3, ")},
      {"job/j.yaml", job("j1", "nodeSelector: { no: where },")},
      {"ready/d.yaml", deployment("web", "i:1", "web")},
      {"ready/j.yaml", job("quick")},
      {"immutable/d.yaml", deployment("immo", "i:1", "immo")},
      {"invalid/d.yaml", deployment("inv", "i:1", "inv", "replicas: -1, ")},
      {"nons/x.yaml", map_of("x", "{ a: b }", "not-there")},
      {"noname/nn.yaml", map_of("nn", "{ a: b }", "")},
      {"emptydir/README.md", "nothing here\n"},
      {"subst/sub.yaml", map_of("sub", "{ a: '${who}', b: '${other:=fallback}', c: '${unset}' }")},
      {"unknownkind/x.yaml",
       "apiVersion: nosuch.example.org/v1\nkind: Widget\nmetadata: { name: x, namespace: default "
       "}\n"},
      {"hooked/x.yaml",
       "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: hooked, namespace: "
       "default, labels: { hook: 'yes' } }\n"}};
  all["sops/ns.yaml"] = space;
  all["sops/token.yaml"] = sops_secret;
  return all;
}

/// Texts that differ from run to run, as the recorder and we print them.
std::string steady(std::string text) {
  static const std::vector<std::pair<std::regex, std::string>> forms{
      {std::regex("<commit:\\d+>|[0-9a-f]{40}"), "<commit>"},
      {std::regex("<tmpdir>/([a-z-]+)-<n>|/tmp/([a-z0-9-]+)-1"), "<folder>"},
      {std::regex("<duration>|(in|after) [0-9hms.]+(?=:|$|,)"), "<time>"},
      {std::regex("(in|after) <time>"), "<time>"},
      {std::regex("age1[a-z0-9]+"), "<recipient>"}};
  for (const auto& [form, shown] : forms) text = std::regex_replace(text, form, shown);
  return text;
}

std::vector<std::string> conditions_of(const Value& object) {
  std::vector<std::string> out;
  if (const Value* list = object.find({"status", "conditions"}))
    for (const Value& one : list->items())
      out.push_back(
          steady(fmt::format("{} {} {}: {}", text_at(one, {"type"}), text_at(one, {"status"}),
                             text_at(one, {"reason"}), text_at(one, {"message"}))));
  return out;
}

class Scenario {
 public:
  explicit Scenario(const Value& file) : file_(file) {
    MemoryGit& git = rig_.git;
    Files first = tree();
    // It was recorded after the commit of another scenario.
    if (text_at(file, {"id"}) == "flux/drift") first["two/a.yaml"] = map_of("two-a", "{ a: c }");
    git.push(fleet, "main", "first", first);
    git.repositories[fleet].tags["v1.0.0"] = git.repositories[fleet].branches["main"];
    git.push(host + "/priv/fleet.git", "main", "first", tree());
    git.repositories[host + "/priv/fleet.git"].username = "git";
    git.repositories[host + "/priv/fleet.git"].password = "right";
    git.repositories[host + "/deny/fleet.git"].status = 403;
    git.repositories[host + "/err500/fleet.git"].status = 500;
    git.troubles[host + "/hang/fleet.git"] = "context deadline exceeded";
    git.troubles["http://127.0.40.7:9/x.git"] =
        "dial tcp 127.0.40.7:9: connect: connection refused";
    git.troubles["ssh://git@127.0.40.7:9/x.git"] = git.troubles["http://127.0.40.7:9/x.git"];
    const auto secret = [&](const char* name, const std::string& data) {
      rig_.apply(
          fmt::format("{{apiVersion: v1, kind: Secret, metadata: {{name: {}, namespace: "
                      "flux-system}}, stringData: {}}}",
                      name, data));
    };
    secret("git-ok", "{username: git, password: right}");
    secret("git-bad", "{username: git, password: wrong}");
    secret("git-odd", "{foo: bar}");
    secret("ssh-half", "{identity: key}");
    secret("ssh-full", "{identity: key, known_hosts: 'git.home ssh-ed25519 AAAA'}");
    rig_.add_secret("sops-age", "age.agekey", sops_identity);
    secret("sops-other",
           fmt::format("{{age.agekey: '{}'}}", age_pair(std::string(32, '\7')).identity));
    rig_.apply(
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: weak, namespace: "
        "flux-system}}");
    rig_.apply(
        "{apiVersion: admissionregistration.k8s.io/v1, kind: "
        "ValidatingWebhookConfiguration, metadata: {name: hook}, webhooks: [{name: "
        "fluxhook.rocca.dev, admissionReviewVersions: [v1], sideEffects: None, "
        "failurePolicy: Fail, objectSelector: {matchLabels: {hook: 'yes'}}, clientConfig: "
        "{url: 'https://127.0.40.9:9999/v'}, rules: [{apiGroups: [''], apiVersions: [v1], "
        "operations: [CREATE, UPDATE], resources: [configmaps]}]}]}");
    for (const char* name : {"fleet", "fleet2"}) rig_.add_git(name, fleet);
    rig_.add_git("g-404", host + "/pub/nothing.git");
    // What others depend on, where it is not what the scenario itself is about.
    if (text_at(file, {"id"}) != "flux/ks-path-missing")
      rig_.add_kustomization("k-nopath", "./nowhere");
    rig_.run(15s);
  }

  std::vector<std::string> run() {
    std::map<std::string, Value> last;
    // The recorder notes all applies first; one that is seen only after an act came after it.
    std::map<std::string, const Value*> held;
    bool acted = false;
    const std::vector<Value>& steps = file_.find("steps")->items();
    for (const Value& step : steps) {
      if (text_at(step, {"event"}).starts_with("act: ")) acted = true;
      if (text_at(step, {"data", "type"}) == "ADDED" && acted)
        held[text_at(step, {"data", "object", "metadata", "name"})] = nullptr;
    }
    for (const Value& step : steps) {
      const std::string event = text_at(step, {"event"});
      const Value* data = step.find("data");
      if (event == "seen") {
        const auto later = held.find(text_at(*data, {"object", "metadata", "name"}));
        if (later != held.end() && later->second != nullptr) {
          rig_.api->apply(*std::exchange(later->second, nullptr), "rocca");
          rig_.run(150s);
        }
      }
      if (event == "apply" && held.contains(text_at(*data, {"metadata", "name"}))) {
        held[text_at(*data, {"metadata", "name"})] = data;
      } else if (event == "apply") {
        rig_.api->apply(*data, "rocca");
        rig_.run(150s);
      } else if (event.starts_with("act: ")) {
        act(event.substr(5), data);
      } else if (event == "seen") {
        const Value& object = *data->find("object");
        Value marked = object;
        kube::set_at(marked, {"seen"}, kube::str(text_at(*data, {"type"})));
        last[text_at(object, {"kind"}) + " " + text_at(object, {"metadata", "name"})] = marked;
      } else if (event.starts_with("GET ")) {
        compare_read(event, *data);
      } else if (event != "event") {
        problems_.push_back("the lab does not play: " + event);
      }
    }
    for (const auto& [name, object] : last) compare_last(name, object);
    return problems_;
  }

 private:
  void act(const std::string& what, const Value* data) {
    const auto ks = [](const std::string& name) {
      return "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/" + name;
    };
    const auto patch = [&](const std::string& target, const std::string& body) {
      rig_.api->send({"admin", {"system:masters"}}, "PATCH", target, body,
                     "application/merge-patch+json");
    };
    const auto push = [&](const std::string& branch, const std::string& subject, Files files) {
      rig_.git.push(fleet, branch, subject, std::move(files));
      for (const char* name : {"fleet", "fleet2"})
        patch(fmt::format(
                  "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/{}",
                  name),
              fmt::format(
                  R"({{"metadata":{{"annotations":{{"reconcile.fluxcd.io/requestedAt":"{}"}}}}}})",
                  ++requests_));
    };
    const std::string id = text_at(file_, {"id"});
    if (what.starts_with("DELETE ")) {
      const std::vector<std::string> words = split(what, ' ');
      const bool source = words[1] == "GitRepository";
      rig_.api->send({"admin", {"system:masters"}}, "DELETE",
                     source ? "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/"
                              "gitrepositories/" +
                                  words[2]
                            : ks(words[2]));
      // A Kustomization notices at its next turn.
      if (source)
        patch(ks("k-ok"),
              R"({"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":"1"}}})");
    } else if (what.starts_with("suspend: ")) {
      patch(ks("k-s"), fmt::format(R"({{"spec":{{"suspend":{}}}}})", what.substr(9)));
    } else if (what == "requestedAt while suspended") {
      patch(ks("k-s"), R"({"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":"7"}}})");
    } else if (what == "spec.force: true") {
      patch(ks("k-immo"), R"({"spec":{"force":true}})");
    } else if (what == "branch later pushed") {
      rig_.git.push(fleet, "later", "selector", tree());
    } else if (what == "branch later deleted") {
      rig_.git.repositories[fleet].branches.erase("later");
      rig_.flux->pushed();
    } else if (what.starts_with("git push: selector changed")) {
      Files files = tree();
      files["immutable/d.yaml"] = deployment("immo", "i:1", "other");
      push("main", "selector", files);
    } else if (what.starts_with("git push: the path of k-base")) {
      Files files = tree();
      files["nowhere2/ns.yaml"] = files["good/ns.yaml"];
      push("main", "path", files);
    } else if (what.starts_with("git push: two/a.yaml changed")) {
      Files files = tree();
      files["two/a.yaml"] = map_of("two-a", "{ a: c }");
      files.erase("two/b.yaml");
      push("main", "change and remove", files);
    } else if (what.starts_with("git push: ConfigMap taken")) {
      Files files = tree();
      files["taken/a.yaml"] = map_of("taken", "{ c: '3' }");
      push("main", "taken", files);
    } else if (what.starts_with("rocca applied ConfigMap taken")) {
      rig_.apply(map_of("taken", "{ a: '1', b: '2' }"));
    } else if (what.starts_with("rocca applies only the identity")) {
      rig_.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: taken, namespace: default}}");
    } else if (what.starts_with("somebody edits ConfigMap two-a")) {
      patch("/api/v1/namespaces/default/configmaps/two-a", text::emit_json(*data));
      patch(ks("two"), R"({"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":"1"}}})");
    }
    rig_.run(60s);
    if (what.starts_with("after ") || what.starts_with("Flux has applied") ||
        what.starts_with("rocca applies only")) {
      const std::string name = id.find("two-owners") != std::string::npos ? "shared" : "taken";
      const kube::Object there = rig_.api->find("/configmaps", "default", name);
      const Value* wanted = data == nullptr ? nullptr : data->find("data");
      if (wanted != nullptr &&
          (!there || there->find("data") == nullptr || !(*there->find("data") == *wanted)))
        problems_.push_back(fmt::format("{}: data is {}, recorded {}", what,
                                        there ? text::emit_json(*there) : "nothing",
                                        text::emit_json(*wanted)));
    }
  }

  void compare_read(const std::string& event, const Value& recorded) {
    const std::vector<std::string> words = split(event, ' ');
    const kube::Api::Result got = rig_.api->send({"admin", {"system:masters"}}, "GET", words[1]);
    if (std::to_string(got.status) != words[3])
      problems_.push_back(fmt::format("{}: the lab answers {}", event, got.status));
    for (const char* part : {"data", "code", "reason"}) {
      const Value* wanted = recorded.find(part);
      const Value* found = got.body.find(part);
      if (wanted != nullptr && (found == nullptr || !(*found == *wanted)))
        problems_.push_back(fmt::format("{}: {} is {}, recorded {}", event, part,
                                        found == nullptr ? "nothing" : text::emit_json(*found),
                                        text::emit_json(*wanted)));
    }
  }

  void compare_last(const std::string& name, const Value& recorded) {
    const bool source = text_at(recorded, {"kind"}) == "GitRepository";
    const kube::Object found =
        rig_.api->find(source ? "source.toolkit.fluxcd.io/gitrepositories"
                              : "kustomize.toolkit.fluxcd.io/kustomizations",
                       "flux-system", text_at(recorded, {"metadata", "name"}));
    if ((text_at(recorded, {"seen"}) == "DELETED") != !found) {
      problems_.push_back(name + (found ? " is still there" : " is gone"));
      return;
    }
    if (!found) return;
    const auto wanted = conditions_of(recorded), has = conditions_of(*found);
    if (wanted != has)
      problems_.push_back(fmt::format("{}:\n    lab      {}\n    recorded {}", name,
                                      join(has, "\n             "),
                                      join(wanted, "\n             ")));
    for (const char* field : {"artifact", "inventory", "lastAppliedRevision",
                              "lastAttemptedRevision", "lastHandledReconcileAt"})
      if ((found->find({"status", field}) == nullptr) !=
          (recorded.find({"status", field}) == nullptr))
        problems_.push_back(
            fmt::format("{}: status.{} is {}", name, field,
                        found->find({"status", field}) == nullptr ? "missing" : "there"));
    const auto observed = [](const Value& of) {
      return kube::int_at(of, {"status", "observedGeneration"}, -1);
    };
    if (observed(*found) != observed(recorded))
      problems_.push_back(fmt::format("{}: observedGeneration {}, recorded {}", name,
                                      observed(*found), observed(recorded)));
  }

  const Value& file_;
  FluxRig rig_;
  int requests_ = 0;
  std::vector<std::string> problems_;
};

TEST(KubeFlux, TheLabsFluxSaysWhatTheRecordedOneSaid) {
  const char* filter = std::getenv("ROCCA_REPLAY");
  std::map<std::string, std::string> differences;
  std::ifstream in(test::source_folder() + "/src/lab/flux/flux_differences.txt");
  for (std::string line; std::getline(in, line);)
    if (const std::size_t bar = line.find(" | "); bar != std::string::npos && line[0] != '#')
      differences[line.substr(0, bar)] = line.substr(bar + 3);
  for (const std::string& path : test::reference_files("kube/flux", ".json")) {
    const Value file = text::parse_json(test::read_file(path), path);
    const std::string id = text_at(file, {"id"});
    if (filter != nullptr && id.find(filter) == std::string::npos) continue;
    test::count_case();
    const std::vector<std::string> problems = Scenario{file}.run();
    if (differences.contains(id))
      EXPECT_FALSE(problems.empty()) << id << " agrees: take it out of flux_differences.txt";
    else
      EXPECT_TRUE(problems.empty()) << id << "\n  " << join(problems, "\n  ");
    if (filter != nullptr)
      for (const std::string& problem : problems) fmt::print("{}\n", problem);
  }
}

}  // namespace
}  // namespace rocca::lab::flux
