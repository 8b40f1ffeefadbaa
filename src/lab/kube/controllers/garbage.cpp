// Namespaces that end, owners that go, and certificates that are asked for.
#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers/controllers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using namespace std::chrono_literals;
using text::Value;

namespace {

constexpr const char* manager = "kube-controller-manager";

bool has_finalizer(const Value& object, const char* name) {
  const Value* list = object.find({"metadata", "finalizers"});
  return list != nullptr && list->is_list() &&
         std::any_of(list->items().begin(), list->items().end(),
                     [&](const Value& one) { return one.text() == name; });
}

Value without_finalizer(const Value& object, const char* name) {
  Value out = object;
  if (Value* list = out.find({"metadata", "finalizers"}); list != nullptr && list->is_list())
    std::erase_if(list->items(), [&](const Value& one) { return one.text() == name; });
  return out;
}

}  // namespace

void Controllers::sync_namespace(const ObjectKey& key) {
  const Object space = find("/namespaces", key);
  if (!space) return;
  if (space->find({"metadata", "deletionTimestamp"}) == nullptr) {
    if (!find("/serviceaccounts", {key.name, "default"})) {
      Value account = Value::map();
      set_at(account, {"metadata", "name"}, str("default"));
      make("", "serviceaccounts", key.name, std::move(account), manager);
    }
    if (!find("/configmaps", {key.name, "kube-root-ca.crt"})) {
      Value map = Value::map();
      set_at(map, {"metadata", "name"}, str("kube-root-ca.crt"));
      set_at(map, {"data", "ca.crt"}, str(server_.options().authority_pem));
      make("", "configmaps", key.name, std::move(map), manager);
    }
    return;
  }
  bool left = false;
  for (const Resource* kind : server_.kinds().all()) {
    if (!kind->namespaced || !kind->can("list") || kind->version != kind->stored) continue;
    std::vector<ObjectKey> keys;
    for (const auto& [of, object] : server_.storage().all(kind->key()))
      if (of.space == key.name) keys.push_back(of);
    for (const ObjectKey& of : keys) {
      if (!find(kind->key(), of)) continue;
      DeleteHow how;
      how.propagation = "Background";
      server_.remove(*kind, of, how, as(manager));
      left = left || find(kind->key(), of) != nullptr;
    }
  }
  if (left) {
    edit(
        "", "namespaces", key,
        [&](const Value& live) {
          Value out = live;
          set_condition(out, "NamespaceContentRemaining", "True", "SomeResourcesRemain",
                        "Some resources are remaining", server_.timestamp());
          return out;
        },
        as(manager, "status"));
    soon("namespace again", key, 2s, [this](const ObjectKey& of) { sync_namespace(of); });
    return;
  }
  edit(
      "", "namespaces", key,
      [](const Value& live) {
        Value out = live;
        set_at(out, {"spec", "finalizers"}, Value::list());
        return out;
      },
      as(manager, "finalize"));
}

void Controllers::collect(const Change& change) {
  if (change.after) {
    const Value& object = *change.after;
    if (object.find({"metadata", "deletionTimestamp"}) != nullptr &&
        (has_finalizer(object, "orphan") || has_finalizer(object, "foregroundDeletion"))) {
      const std::string of = change.resource;
      soon("finalize " + of, change.key, 50ms,
           [this, of](const ObjectKey& key) { finalize(of, key); });
    }
    return;
  }
  // The owner is gone: what only it owned goes, too.
  const std::string uid = text_at(*change.last, {"metadata", "uid"});
  if (uid.empty()) return;
  soon("collect " + uid, change.key, 100ms, [this, uid](const ObjectKey&) {
    for (const Resource* kind : server_.kinds().all()) {
      if (!kind->can("delete") || kind->version != kind->stored) continue;
      std::vector<ObjectKey> keys;
      for (const auto& [key, object] : server_.storage().all(kind->key())) {
        const Value* owners = object->find({"metadata", "ownerReferences"});
        if (owners == nullptr || !owners->is_list() || owners->size() == 0) continue;
        const bool named =
            std::any_of(owners->items().begin(), owners->items().end(),
                        [&](const Value& one) { return text_at(one, {"uid"}) == uid; });
        if (named && owners->size() == 1) keys.push_back(key);
      }
      for (const ObjectKey& key : keys) {
        if (!find(kind->key(), key)) continue;
        DeleteHow how;
        how.propagation = "Background";
        server_.remove(*kind, key, how, as("generic-garbage-collector"));
      }
    }
  });
}

void Controllers::finalize(const std::string& of, const ObjectKey& key) {
  const Object owner = find(of, key);
  if (!owner) return;
  const std::string uid = text_at(*owner, {"metadata", "uid"});
  const bool orphan = has_finalizer(*owner, "orphan");
  bool waits = false;
  const Resource* owner_kind = nullptr;
  for (const Resource* kind : server_.kinds().all()) {
    if (kind->version != kind->stored) continue;
    if (kind->key() == of) owner_kind = kind;
    std::vector<ObjectKey> keys;
    for (const auto& [other, object] : server_.storage().all(kind->key()))
      if (const Value* owners = object->find({"metadata", "ownerReferences"});
          owners != nullptr && owners->is_list() &&
          std::any_of(owners->items().begin(), owners->items().end(),
                      [&](const Value& one) { return text_at(one, {"uid"}) == uid; }))
        keys.push_back(other);
    for (const ObjectKey& other : keys) {
      const Object object = find(kind->key(), other);
      if (!object) continue;
      if (orphan) {
        edit(
            kind->group, kind->plural, other,
            [&](const Value& live) {
              Value out = live;
              if (Value* owners = out.find({"metadata", "ownerReferences"}))
                std::erase_if(owners->items(),
                              [&](const Value& one) { return text_at(one, {"uid"}) == uid; });
              return out;
            },
            as("generic-garbage-collector"));
        continue;
      }
      DeleteHow how;
      how.propagation = "Foreground";
      if (object->find({"metadata", "deletionTimestamp"}) == nullptr)
        server_.remove(*kind, other, how, as("generic-garbage-collector"));
      waits = waits || find(kind->key(), other) != nullptr;
    }
  }
  if (owner_kind == nullptr) return;
  if (waits) {
    soon("finalize again " + of, key, 500ms, [this, of](const ObjectKey& at) { finalize(of, at); });
    return;
  }
  edit(
      owner_kind->group, owner_kind->plural, key,
      [&](const Value& live) {
        return without_finalizer(without_finalizer(live, "foregroundDeletion"), "orphan");
      },
      as("generic-garbage-collector"));
}

void Controllers::sync_request(const ObjectKey& key) {
  const Object found = find("certificates.k8s.io/certificatesigningrequests", key);
  if (!found) return;
  const std::string signer = text_at(*found, {"spec", "signerName"});
  const bool approved = condition_status(*found, "Approved") == "True";
  // kube-controller-manager approves a kubelet's client certificate; its serving certificate waits
  // for somebody who vouches for its addresses.
  if (!approved && signer == "kubernetes.io/kube-apiserver-client-kubelet") {
    edit(
        "certificates.k8s.io", "certificatesigningrequests", key,
        [&](const Value& live) {
          Value out = live;
          set_condition(out, "Approved", "True", "AutoApproved",
                        "Auto approving kubelet client certificate after SubjectAccessReview.",
                        server_.timestamp());
          return out;
        },
        as(manager, "approval"));
    return;
  }
  if (!approved || !text_at(*found, {"status", "certificate"}).empty()) return;
  if (!server_.options().sign) return;
  const std::string certificate = server_.options().sign(*found);
  if (certificate.empty()) return;
  edit(
      "certificates.k8s.io", "certificatesigningrequests", key,
      [&](const Value& live) {
        Value out = live;
        set_at(out, {"status", "certificate"}, str(certificate));
        return out;
      },
      as(manager, "status"));
}

}  // namespace rocca::lab::kube
