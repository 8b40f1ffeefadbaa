#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers/controllers.hpp"
#include "lab/kube/schema/columns.hpp"

#include <algorithm>

namespace rocca::lab::kube {

using namespace std::chrono_literals;
using text::Value;

namespace {

constexpr const char* manager = "kube-controller-manager";
constexpr const char* tracking = "batch.kubernetes.io/job-tracking";

bool is_tracked(const Value& pod) {
  const Value* list = pod.find({"metadata", "finalizers"});
  return list != nullptr && std::any_of(list->items().begin(), list->items().end(),
                                        [](const Value& one) { return one.text() == tracking; });
}

void add_condition(Value& job, const char* type, const std::string& reason,
                   const std::string& message, const std::string& now) {
  if (find_condition(job, type) != nullptr) return;
  set_condition(job, type, "True", reason, message, now);
  for (Value& one : map_at(job, {"status"}).find("conditions")->items())
    if (text_at(one, {"type"}) == type) one.set("lastProbeTime", str(now));
}

}  // namespace

void Controllers::sync_job(const ObjectKey& key) {
  const Object found = find("batch/jobs", key);
  if (!found || found->find({"metadata", "deletionTimestamp"}) != nullptr) return;
  const Value& job = *found;
  const std::string now = server_.timestamp();
  std::int64_t active = 0, ready = 0, leaving = 0;
  std::int64_t succeeded = int_at(job, {"status", "succeeded"});
  std::int64_t failed = int_at(job, {"status", "failed"});
  std::vector<ObjectKey> counted;
  for (const Object& pod : owned("/pods", job)) {
    const std::string phase = text_at(*pod, {"status", "phase"});
    if (phase == "Succeeded" || phase == "Failed") {
      if (!is_tracked(*pod)) continue;  // counted before
      (phase == "Succeeded" ? succeeded : failed) += 1;
      counted.push_back(kube::key_of(*pod));
    } else if (pod->find({"metadata", "deletionTimestamp"}) != nullptr) {
      ++leaving;
      if (is_tracked(*pod)) {
        ++failed;
        counted.push_back(kube::key_of(*pod));
      }
    } else {
      ++active;
      if (is_pod_ready(*pod)) ++ready;
    }
  }
  const bool finished =
      condition_status(job, "Complete") == "True" || condition_status(job, "Failed") == "True";
  const std::int64_t completions = int_at(job, {"spec", "completions"}, 1);
  const std::int64_t limit = int_at(job, {"spec", "backoffLimit"}, 6);
  const std::string started = text_at(job, {"status", "startTime"});
  const Value* deadline = job.find({"spec", "activeDeadlineSeconds"});
  const bool late =
      deadline != nullptr && !started.empty() &&
      server_.world().unix_time() - seconds_of(started) >= deadline->as_int().value_or(0);
  std::string reason, message;
  if (late && succeeded < completions) {
    reason = "DeadlineExceeded";
    message = "Job was active longer than specified deadline";
  } else if (failed > limit) {
    reason = "BackoffLimitExceeded";
    message = "Job has reached the specified backoff limit";
  }
  const bool complete = reason.empty() && succeeded >= completions;
  const bool suspended = bool_at(job, {"spec", "suspend"});
  if (!finished && reason.empty() && !complete && !suspended) {
    const std::int64_t most =
        std::min(int_at(job, {"spec", "parallelism"}, 1), completions - succeeded);
    for (; active < most; ++active)
      if (make_pod(job, "Job", *job.find({"spec", "template"}), "")) break;
  }
  if (!reason.empty() && !finished)
    for (const Object& pod : owned("/pods", job))
      if (is_pod_active(*pod)) {
        remove("", "pods", kube::key_of(*pod));
        if (active > 0) --active;
        ++leaving;
      }
  // First the pods are let go, then they count: nothing is counted twice after a crash.
  for (const ObjectKey& pod : counted)
    edit(
        "", "pods", pod,
        [&](const Value& live) {
          Value out = live;
          if (Value* list = out.find({"metadata", "finalizers"}))
            std::erase_if(list->items(), [](const Value& one) { return one.text() == tracking; });
          return out;
        },
        as(manager));
  edit(
      "batch", "jobs", key,
      [&](const Value& live) {
        Value out = live;
        Value& status = map_at(out, {"status"});
        if (started.empty() && !suspended) status.set("startTime", str(now));
        status.set("active", num(finished || complete ? 0 : active));
        status.set("succeeded", num(succeeded));
        status.set("failed", num(failed));
        status.set("terminating", num(leaving));
        status.set("ready", num(ready));
        status.set("uncountedTerminatedPods", Value::map());
        if (complete && !finished) {
          const char* text = "Reached expected number of succeeded pods";
          add_condition(out, "SuccessCriteriaMet", "CompletionsReached", text, now);
          add_condition(out, "Complete", "CompletionsReached", text, now);
          status.set("completionTime", str(now));
        }
        if (!reason.empty() && !finished) {
          add_condition(out, "FailureTarget", reason, message, now);
          if (leaving == 0) add_condition(out, "Failed", reason, message, now);
        }
        return out;
      },
      as(manager, "status"));
  if (deadline != nullptr && started.empty())
    soon("job deadline", key, std::chrono::seconds{deadline->as_int().value_or(0)} + 1s,
         [this](const ObjectKey& of) { sync_job(of); });
  if (const Value* keep = job.find({"spec", "ttlSecondsAfterFinished"});
      keep != nullptr && finished)
    soon("job ttl", key, std::chrono::seconds{keep->as_int().value_or(0)},
         [this](const ObjectKey& of) { remove("batch", "jobs", of); });
}

}  // namespace rocca::lab::kube
