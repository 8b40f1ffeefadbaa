#include "base/error.hpp"
#include "kube/discovery.hpp"
#include "kube/evict.hpp"
#include "kube/waits.hpp"
#include "kube/watch.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

// What real servers and controllers wrote, given to our waits, our watch and our discovery. What is
// expected is told by something else in the same recording.

namespace rocca::kube {

namespace {

void each_step(const std::function<void(const std::string& file, const Value& step)>& body) {
  std::function<void(const std::string&, const Value&)> walk = [&](const std::string& file,
                                                                   const Value& steps) {
    for (const Value& step : steps.items()) {
      body(file, step);
      if (const Value* during = step.find("during"); during != nullptr && during->is_list())
        walk(file, *during);
    }
  };
  for (const std::string& file : test::reference_files("kube", ".json")) {
    const Value root = text::parse_json(test::read_file(file), file);
    walk(file, *root.find("steps"));
  }
}

/// Every object that the recordings show: answers, items of lists, watch events, observations.
void each_object(const std::function<void(const std::string& file, const Value& object)>& body) {
  const auto give = [&](const std::string& file, const Value* object) {
    if (object == nullptr || !object->is_map()) return;
    if (text_at(*object, {"kind"}).ends_with("List")) {
      std::string kind = text_at(*object, {"kind"});
      kind.resize(kind.size() - 4);
      for (Value item : items_at(*object, {"items"})) {
        if (item.find("kind") == nullptr && item.is_map()) item.set("kind", Value::string(kind));
        body(file, item);
      }
    } else if (object->find("metadata") != nullptr) {
      body(file, *object);
    }
  };
  each_step([&](const std::string& file, const Value& step) {
    give(file, step.find({"response", "body"}));
    give(file, step.find({"data", "object"}));
    for (const Value& event : items_at(step, {"response", "stream"}))
      give(file, event.find("object"));
  });
}

TEST(KubeRecordings, FluxObjectsAreReadyOnlyWithTheirResult) {
  std::size_t ready = 0, waiting = 0;
  each_object([&](const std::string& file, const Value& object) {
    const std::string kind = text_at(object, {"kind"});
    if ((kind != "GitRepository" && kind != "Kustomization") || object.find("status") == nullptr)
      return;
    SCOPED_TRACE(file);
    test::count_case();
    const Verdict verdict = flux_ready(object);
    // Both controllers write Ready one patch before what they got ready.
    const char* result = kind == "GitRepository" ? "artifact" : "lastAppliedRevision";
    if (verdict.done) {
      ++ready;
      EXPECT_NE(object.find({"status", result}), nullptr) << text::emit_json(object);
      EXPECT_NE(text_at(object, {"spec", "suspend"}), "true");
      return;
    }
    ++waiting;
    EXPECT_FALSE(verdict.waiting_for.empty());
    // What the controller says of a failure is what a user reads.
    const Value* condition = find_condition(object, "Ready");
    if (condition != nullptr && text_at(*condition, {"status"}) == "False" && !verdict.hopeless) {
      EXPECT_THAT(verdict.waiting_for, testing::HasSubstr(text_at(*condition, {"message"})));
    }
  });
  EXPECT_GT(ready, 0u);
  EXPECT_GT(waiting, 0u);
}

TEST(KubeRecordings, WorkloadsAreRolledOutOnlyWhenTheirControllerSaysSo) {
  std::size_t ready = 0, waiting = 0;
  each_object([&](const std::string& file, const Value& object) {
    const std::string kind = text_at(object, {"kind"});
    std::optional<Verdict> verdict;
    bool said = true;
    if (kind == "Deployment") {
      verdict = deployment_rolled_out(object);
      // The controller's own word for a finished rollout.
      const Value* progress = find_condition(object, "Progressing");
      said = text_at(object, {"spec", "replicas"}) == "0" ||
             (progress != nullptr && text_at(*progress, {"reason"}) == "NewReplicaSetAvailable");
    } else if (kind == "Job") {
      verdict = job_complete(object);
      said = object.find({"status", "completionTime"}) != nullptr;
      EXPECT_EQ(verdict->hopeless, is_condition_true(object, "Failed")) << file;
    } else if (kind == "CustomResourceDefinition" && object.find("spec") != nullptr) {
      verdict = crd_established(object);
      said = object.find({"status", "acceptedNames", "plural"}) != nullptr;
    } else if (kind == "StatefulSet") {
      verdict = stateful_set_rolled_out(object);
      said = int_at(object, {"status", "readyReplicas"}) == int_at(object, {"spec", "replicas"});
    }
    if (!verdict) return;
    SCOPED_TRACE(file + " " + kind);
    test::count_case();
    if (verdict->done) {
      ++ready;
      EXPECT_TRUE(said) << text::emit_json(object);
    } else {
      ++waiting;
      EXPECT_FALSE(verdict->waiting_for.empty());
    }
  });
  EXPECT_GT(ready, 0u);
  EXPECT_GT(waiting, 0u);
}

TEST(KubeRecordings, WatchesAreReadEventByEvent) {
  std::size_t too_old = 0;
  each_step([&](const std::string& file, const Value& step) {
    const auto& stream = items_at(step, {"response", "stream"});
    // A GET of one object by its name is no watch, whatever it asks for.
    if (stream.empty() || stream.front().find("type") == nullptr) return;
    SCOPED_TRACE(file);
    test::count_case();
    std::string bytes;
    std::size_t events = 0;
    for (const Value& event : stream) {
      bytes += text::emit_json(event) + "\n";
      if (text_at(event, {"type"}) != "ERROR") ++events;
    }
    WatchLines lines;
    std::size_t seen = 0;
    // As they may come: in pieces of any size.
    for (std::size_t at = 0; at < bytes.size(); at += 700)
      seen += lines.take(std::string_view{bytes}.substr(at, 700)).size();
    EXPECT_EQ(seen, events);
    EXPECT_EQ(lines.failure().has_value(), events != stream.size());
    if (!lines.failure()) return;
    ++too_old;
    EXPECT_EQ(lines.failure()->remedy(), Remedy::Relist);
  });
  EXPECT_GT(too_old, 0u);
}

TEST(KubeRecordings, EvictionsAreToldApart) {
  std::size_t later = 0, taken = 0, hopeless = 0;
  each_step([&](const std::string& file, const Value& step) {
    if (!text_at(step, {"request", "path"}).ends_with("/eviction")) return;
    SCOPED_TRACE(file);
    test::count_case();
    net::Answer answer;
    answer.head.status = static_cast<int>(int_at(step, {"response", "status"}));
    if (const Value* body = step.find({"response", "body"})) answer.body = text::emit_json(*body);
    try {
      const Eviction eviction = read_eviction(answer, "pod");
      EXPECT_EQ(eviction.answer == Eviction::Answer::Accepted, answer.head.status < 300);
      EXPECT_EQ(eviction.answer == Eviction::Answer::Gone,
                answer.head.status == 404 || answer.head.status == 409);
      if (eviction.answer == Eviction::Answer::Later) {
        ++later;
        EXPECT_THAT(eviction.why, testing::HasSubstr("budget"));
      } else {
        ++taken;
      }
    } catch (const Error&) {
      ++hopeless;
      EXPECT_GE(answer.head.status, 400);
      EXPECT_NE(answer.head.status, 429);
    }
  });
  EXPECT_GT(later, 0u);
  EXPECT_GT(taken, 0u);
  EXPECT_GT(hopeless, 0u);
}

TEST(KubeRecordings, DiscoveryAgreesWithWhatWeKnowByHeart) {
  std::size_t compared = 0;
  each_step([&](const std::string& file, const Value& step) {
    const Value* body = step.find({"response", "body"});
    if (body == nullptr) return;
    std::vector<Kind> kinds;
    if (text_at(*body, {"kind"}) == "APIResourceList") kinds = kinds_of_list(*body);
    if (text_at(*body, {"kind"}) == "APIGroupDiscoveryList") kinds = kinds_of_groups(*body);
    for (const Kind& kind : kinds) {
      const auto known = stable_kind(kind.api_version(), kind.kind);
      if (!known) continue;
      SCOPED_TRACE(file + " " + kind.kind);
      test::count_case();
      ++compared;
      EXPECT_EQ(known->plural, kind.plural);
      EXPECT_EQ(known->namespaced, kind.namespaced);
    }
  });
  EXPECT_GT(compared, 30u);
}

}  // namespace

}  // namespace rocca::kube
