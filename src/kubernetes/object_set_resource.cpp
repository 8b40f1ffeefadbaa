#include "kubernetes/object_set_resource.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "kube/lease.hpp"
#include "kubernetes/blockers.hpp"
#include "machine/kubernetes_api.hpp"
#include "secrets/crypto.hpp"
#include "talosconfig/secrecy.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* blocked = "blocked ";
constexpr const char* ready = "ready";
constexpr const char* answers = "Kubernetes API";
constexpr const char* look_again = "reconcile.fluxcd.io/requestedAt";
constexpr const char* came = "came";  // what the set was when all that it waits for had come

class SetKind final : public Thing {
 public:
  explicit SetKind(SetWish wish) : Thing(wish.about), wish_(std::move(wish)) {}

  std::optional<Live> read(World& world) const override {
    // Before there is a cluster there is nobody to ask.
    for (const std::string& needed : needs())
      if (engine::kind_of(needed) == "bootstrap" && !world.known(needed)) return std::nullopt;
    const auto facts = world.known(address());
    const auto before = parse_names(fact(facts, "objects"));
    Live live{wish_.name,
              {},
              {{"set", wish_.name},
               {"objects", fact(facts, "objects")},
               {"handed", fact(facts, "handed")},
               {came, fact(facts, came)}}};
    try {
      SetSight sight;
      ObjectSet set = objects(facts);
      const std::string contents = contents_digest(set, world.cluster.bundle());
      if (wish_.waits_once && contents == fact(facts, came)) set.waits.clear();
      with_client(world, [&](kube::Client& client, kube::Discovery& discovery) {
        sight = look(client, discovery, set, before);
      });
      // A set of nothing but waits is always there.
      if (sight.there.empty() && sight.kept.empty() && !sight.differ.empty()) return std::nullopt;
      describe(sight, live);
      if (sight.applied() && sight.waiting_for.empty()) live.facts[came] = contents;
    } catch (const Error& error) {
      if (!may_retry(error.fault())) throw;
      live.fields[answers] = error.message();
    }
    return live;
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("nothing of it is there yet");
    Change change;
    for (const auto& [field, value] : live->fields) {
      if (field == "objects" || field == ready) continue;
      const std::size_t bar = value.find(" → ");
      if (bar == std::string::npos)
        change.fields.push_back({field, value, "as it is declared", Effect::Live});
      else
        change.fields.push_back({field, value.substr(0, bar),
                                 value.substr(bar + std::string_view(" → ").size()), Effect::Live});
    }
    if (change.fields.empty()) {
      const auto waiting = live->fields.find(ready);
      if (waiting == live->fields.end() || waiting->second == "yes") return change;
      change.action = Action::Update;
      change.effect = Effect::Live;
      change.reason = "waits for " + waiting->second;
      change.waits = true;
      return change;
    }
    conclude(change);
    return change;
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    const auto before = parse_names(live ? fact(live->facts, "objects") : "");
    Receipt receipt{ready, "wait"};
    if (wish_.prepare) wish_.prepare(world);
    const ObjectSet set = objects(live ? std::optional{live->facts} : std::nullopt);
    with_client(world, [&](kube::Client& client, kube::Discovery& discovery) {
      const SetSight sight = look(client, discovery, set, before);
      if (!sight.applied()) {
        receipt.act = "apply";
        if (const auto late = carry_out(client, discovery, set, sight)) {
          receipt.token = blocked + kube::to_key(*late);
          return;
        }
      }
      // The first is asked to look again here, the others by probe, each when the one before it has
      // looked: a Kustomization that looks too soon sees what its source had before.
      if (has_looked(client, discovery))
        receipt.token = fmt::format("{} {}", ready, kube::micro_time(world.clock.now()));
      if (!sight.superfluous.empty()) receipt.token += "\n" + to_text(sight.superfluous);
    });
    return receipt;
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    kube::Verdict verdict;
    const ObjectSet set = objects(world.known(address()));
    with_client(world, [&](kube::Client& client, kube::Discovery& discovery) {
      if (receipt.token.starts_with(blocked)) {
        const auto name = kube::parse_key(receipt.token.substr(std::string_view(blocked).size()));
        verdict = name ? until_applicable(client, discovery, set, *name) : kube::Verdict::ready();
        return;
      }
      const auto lines = split(receipt.token, '\n');
      verdict = until_gone(client, discovery, {lines.begin() + 1, lines.end()});
      if (!verdict.done) return;
      const std::size_t blank = lines.front().find(' ');
      if (blank != std::string::npos)
        verdict = until_looked(client, discovery, lines.front().substr(blank + 1));
      const bool looked = verdict.done;
      if (looked) verdict = until_ready(client, discovery, set);
      // What was removed may have taken something of the set along (the Secret that an
      // ExternalSecret owned): it is applied again.
      if (!verdict.done && lines.size() > 1 && !look(client, discovery, set, {}).applied())
        verdict = kube::Verdict::ready();
      if (verdict.done || !looked) return;
      if (verdict.hopeless || !wish_.under_flux) return;
      // What is waited for comes only when Flux has brought it: what keeps Flux?
      const std::string why = flux_blocker(client, discovery);
      if (why.empty()) return;
      if (verdict.waiting_for.find(why.substr(0, why.find(':'))) == std::string::npos)
        verdict.waiting_for += "; " + why;
      else  // it has said so itself
        verdict.waiting_for += webhook_behind(client, discovery, verdict.waiting_for);
    });
    if (verdict.hopeless)
      throw Error(Fault::Rejected, verdict.waiting_for)
          .hint("once that is put right, `rocca up` goes on from here");
    if (verdict.done) return Ready{};
    return NotYet{verdict.waiting_for, 2s};
  }

  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change* change) const override {
    std::vector<Lane> all{{"kubernetes", 8, Lane::Hold::Call}};
    // prepare() may store a token: the secrets file is read, changed and written back.
    if (change != nullptr && wish_.prepare) all.push_back({"secrets", 1, Lane::Hold::Call});
    return all;
  }
  Duration patience(const Change&) const override { return wish_.patience; }

 protected:
  Fields wishes() const override {
    Fields all = wish_.more_wishes;
    for (const kube::Manifest& manifest : wish_.objects)
      all[kube::to_key(manifest.name)] = digest(text::emit_json(manifest.object));
    return all;
  }

 private:
  /// What was removed is gone; who still holds it may take a while.
  kube::Verdict until_gone(kube::Client& client, kube::Discovery& discovery,
                           const std::vector<std::string>& keys) const {
    for (const std::string& key : keys) {
      const auto name = kube::parse_key(key);
      const auto path = name ? discovery.find_path(*name) : std::nullopt;
      const auto live = path ? client.find(*path) : std::nullopt;
      if (live && kube::text_at(*live, {"metadata", "labels", set_label}) == wish_.name)
        return kube::Verdict::wait(name->text() + " to be gone");
    }
    return kube::Verdict::ready();
  }

  /// Has Flux formed an opinion of what is here? What it has not seen yet it looks at by itself.
  bool has_looked(kube::Client& client, kube::Discovery& discovery) const {
    return std::any_of(wish_.poke.begin(), wish_.poke.end(), [&](const kube::Name& name) {
      const auto path = discovery.find_path(name);
      const auto live = path ? client.find(*path) : std::nullopt;
      return live && kube::find_condition(*live, "Ready") != nullptr;
    });
  }

  /// Flux looks again at once, instead of minutes later: what it found before something was changed
  /// (another credential, a new commit) says nothing of how it is now.
  kube::Verdict until_looked(kube::Client& client, kube::Discovery& discovery,
                             const std::string& asked) const {
    for (const kube::Name& name : wish_.poke) {
      const auto path = discovery.find_path(name);
      const auto live = path ? client.find(*path) : std::nullopt;
      if (!live || kube::find_condition(*live, "Ready") == nullptr) continue;
      if (kube::text_at(*live, {"metadata", "annotations", look_again}) != asked) {
        text::Value change = text::Value::map();
        change.set("metadata", text::Value::map())
            .set("annotations", text::Value::map())
            .set(look_again, text::Value::string(asked));
        client.patch(*path, kube::Patch::Merge, change);
        return kube::Verdict::wait(name.text() + " to look again");
      }
      const kube::Verdict verdict = kube::flux_ready(*live);
      if (!verdict.done) return verdict;
    }
    return kube::Verdict::ready();
  }

  ObjectSet objects(const std::optional<Fields>& facts) const {
    std::vector<kube::Manifest> all = wish_.objects;
    if (wish_.secret_objects)
      for (kube::Manifest& manifest : wish_.secret_objects()) all.push_back(std::move(manifest));
    ObjectSet set = make_set(wish_.name, std::move(all));
    set.waits = wish_.waits;
    set.handed = parse_names(fact(facts, "handed"));
    set.returns = wish_.returns;
    set.installs = wish_.installs;
    return set;
  }

  template <class Body>
  static void with_client(World& world, Body body) {
    at_kubernetes(world, [&](kube::Client& client) {
      kube::Discovery discovery{client};
      body(client, discovery);
    });
  }

  static void describe(const SetSight& sight, Live& live) {
    for (const SetDifference& one : sight.differ)
      live.fields[one.name.text()] = one.how == "absent" ? "absent → made" : one.how;
    for (const kube::Name& name : sight.release)
      live.fields[name.text()] = "Flux keeps it, and so do we → Flux keeps it";
    for (const kube::Name& name : sight.superfluous)
      live.fields[name.text()] = "no longer declared → removed";
    if (sight.applied()) live.fields[ready] = sight.waiting_for.empty() ? "yes" : sight.waiting_for;
    live.facts["objects"] = to_text(sight.there);
    live.facts["handed"] = to_text(sight.kept);
  }

  SetWish wish_;
};

/// What is left of a set.
class LeftoverSet final : public Thing {
 public:
  LeftoverSet(About about, std::string set, std::vector<kube::Name> names)
      : Thing(std::move(about)), set_(std::move(set)), names_(std::move(names)) {}

  std::optional<Live> read(World& world) const override {
    std::vector<std::string> there;
    try {
      at_kubernetes(world, [&](kube::Client& client) {
        there.clear();
        kube::Discovery discovery{client};
        const SetSight sight = look(client, discovery, ObjectSet{set_}, names_);
        for (const kube::Name& name : sight.superfluous) there.push_back(name.text());
      });
    } catch (const Error& error) {
      // Nobody answers: what goes away goes away all the same.
      if (error.fault() != Fault::Unreachable) throw;
    }
    if (there.empty()) return std::nullopt;
    return Live{
        set_, {{"objects", join(there, ", ")}}, {{"set", set_}, {"objects", to_text(names_)}}};
  }
  Change diff(const std::optional<Live>& live) const override {
    if (!live) return {};
    Change change;
    change.action = Action::Destroy;
    change.effect = Effect::Service;
    change.reason = "the spec no longer asks for it";
    return change;
  }
  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    return live ? destroy(world, *live) : Receipt{};
  }
  Receipt destroy(World& world, const Live&) const override {
    at_kubernetes(world, [&](kube::Client& client) {
      kube::Discovery discovery{client};
      remove_objects(client, discovery, set_, names_);
    });
    return {"gone", "remove"};
  }
  Progress probe(World& world, const Receipt&) const override {
    std::string going;
    at_kubernetes(world, [&](kube::Client& client) {
      kube::Discovery discovery{client};
      going = remove_objects(client, discovery, set_, names_);
    });
    if (going.empty()) return Ready{};
    return NotYet{going, 2s};
  }
  std::vector<Lane> lanes(const Change*) const override {
    return {{"kubernetes", 8, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return 5min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  std::string set_;
  std::vector<kube::Name> names_;
};

}  // namespace

std::string addon_address(const std::string& name) {
  return "addon/" + name;
}

std::string contents_digest(const ObjectSet& set, const secrets::Bundle& bundle) {
  std::string all;
  for (const kube::Manifest& manifest : set.objects)
    all += kube::to_key(manifest.name) + "=" +
           kube::text_at(manifest.object, {"metadata", "annotations", applied_annotation}) + "\n";
  const Secret key = talos::digest_key(bundle);
  return to_hex(secrets::crypto::hmac_sha256(key.reveal(), "set\n" + all)).substr(0, 32);
}

Made make_set_thing(SetWish wish) {
  return std::make_shared<SetKind>(std::move(wish));
}

Made leftover_set(const Cluster& cluster, const Leftover& leftover) {
  const auto names = parse_names(fact(leftover.facts, "objects"));
  if (names.empty()) return leftover_memory(cluster, leftover);
  return std::make_shared<LeftoverSet>(Thing::About{leftover.address, leftover.needs, ""},
                                       fact(leftover.facts, "set"), names);
}

}  // namespace rocca::resources
