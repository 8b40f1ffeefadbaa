#include "kubernetes/publish.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "infisical/client.hpp"
#include "kube/client.hpp"
#include "kube/object.hpp"
#include "machine/kinds.hpp"
#include "secrets/pem_cleanup.hpp"
#include "spec/plain_http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;
using text::Value;

constexpr const char* kubeconfig = "kubeconfig";
constexpr const char* talosconfig = "talosconfig";
constexpr const char* plain_http = "plain http";  // a fact: its host may be asked in clear
using Texts = std::map<std::string, Secret>;      // kubeconfig, talosconfig

/// How a file begins that was kept although its cluster is gone. Both are YAML: who uses them does
/// not mind, who reads them sees it.
constexpr const char* stale_mark = "# STALE: ";
constexpr const char* stale_annotation = "rocca.dev/stale";

bool is_stale(const Secret& text) {
  return text.reveal().starts_with(stale_mark);
}

/// One place that access files are given to, known by plain facts: what is left over is found and
/// taken away by them. They hold no secret.
class Target {
 public:
  Target(OutsidePtr outside, Fields facts)
      : outside_(std::move(outside)), facts_(std::move(facts)) {}

  const Fields& facts() const { return facts_; }
  std::string at(const char* name) const { return fact(facts_, name); }

  /// What is there; a file that is not there is left out.
  Texts read(World& world) const {
    if (at("to") == "infisical") return read_infisical(world);
    if (at("to") == "kubernetes") return read_secret(world);
    Texts found;
    for (const char* name : {kubeconfig, talosconfig})
      if (auto text = world.files.find(at("folder") + "/" + name))
        found.emplace(name, Secret{*text});
    return found;
  }

  /// `stale`: when their cluster went; empty: it is there.
  void write(World& world, const Texts& files, const std::string& stale = "") const {
    if (at("to") == "infisical") {
      std::map<std::string, Secret> values;
      for (const auto& [name, text] : files) values.emplace(at(name.c_str()), text);
      auto client = infisical(world);
      client.write(place(client), values);
    } else if (at("to") == "kubernetes") {
      write_secret(world, files, stale);
    } else {
      world.files.make_folder(at("folder"), 0700);
      for (const auto& [name, text] : files)
        world.files.write_private(at("folder") + "/" + name, text.reveal(), 0600);
    }
  }

  void erase(World& world) const {
    if (at("to") == "infisical") {
      auto client = infisical(world);
      const infisical::Place where = place(client);
      for (const char* name : {kubeconfig, talosconfig}) client.erase(where, at(name));
    } else if (at("to") == "kubernetes") {
      kube::Client client = management(world);
      client.remove(secret_path());
    } else {
      for (const char* name : {kubeconfig, talosconfig})
        world.files.remove(at("folder") + "/" + name);
    }
  }

  /// Is it kept by the very cluster that it leads to? Then it goes with it.
  bool is_inside(const World& world) const {
    if (at("to") != "kubernetes" || !outside_->management) return false;
    const std::string& authority = outside_->management().tls.authority_pem;
    return !authority.empty() && trim(authority) == trim(world.cluster.bundle().kubernetes.crt);
  }

  /// What the target makes of a text: Infisical trims it.
  std::string kept(const Secret& text) const {
    return at("to") == "infisical" ? infisical::kept_form(text.reveal())
                                   : std::string{text.reveal()};
  }

 private:
  infisical::Client infisical(World& world) const {
    const spec::SecretRef auth{at("auth source") == "infisical" ? spec::SecretRef::From::Infisical
                                                                : spec::SecretRef::From::Key,
                               at("auth")};
    const std::string who = "handover.publish.infisical.auth";
    const Secret id = outside_->get_member(auth, "clientId", who);
    const Secret secret = outside_->get_member(auth, "clientSecret", who);
    infisical::Access access{at("host"), std::string{trim(id.reveal())},
                             Secret{trim(secret.reveal())}, net::Tls::system(),
                             at(plain_http) == "yes"};
    return {world.transport, world.clock, std::move(access), world.stop};
  }

  infisical::Place place(infisical::Client& client) const {
    infisical::Place where{at("project"), at("environment"), at("path")};
    // An id has the form of a UUID; anything else is a slug.
    if (!Uuid::parse(where.project)) where.project = client.project_id(where.project);
    return where;
  }

  Texts read_infisical(World& world) const {
    auto client = infisical(world);
    const infisical::Place where = place(client);
    Texts found;
    try {
      const auto all = client.secrets(where);
      for (const char* name : {kubeconfig, talosconfig})
        if (const auto one = all.find(at(name)); one != all.end()) found.emplace(name, one->second);
    } catch (const Error& error) {
      if (error.fault() != Fault::NotFound) throw;  // the folder is not there yet
    }
    return found;
  }

  kube::Client management(World& world) const {
    if (!outside_->management)
      throw Error(Fault::Usage, "no kubeconfig says where the access files are published to")
          .hint("set KUBECONFIG to the cluster that keeps them");
    return {world.transport, world.files, outside_->management(), "rocca", world.stop};
  }
  std::string secret_path() const {
    return kube::path_of(kube::secrets, at("namespace"), at("name"));
  }

  Texts read_secret(World& world) const {
    kube::Client client = management(world);
    Texts found;
    const auto object = client.find(secret_path());
    if (!object) return found;
    for (const char* name : {kubeconfig, talosconfig})
      if (auto text = from_base64(kube::text_at(*object, {"data", name})); text && !text->empty())
        found.emplace(name, Secret::take(std::move(*text)));
    return found;
  }

  void write_secret(World& world, const Texts& files, const std::string& stale) const {
    kube::Client client = management(world);
    const std::string space = kube::path_of({"", "v1", "namespaces"}, "", at("namespace"));
    if (!client.find(space)) {
      Value made = Value::map();
      made.set("apiVersion", Value::string("v1"));
      made.set("kind", Value::string("Namespace"));
      made.set("metadata", Value::map()).set("name", Value::string(at("namespace")));
      client.create(kube::path_of({"", "v1", "namespaces"}, ""), made);
    }
    Value object = Value::map();
    object.set("apiVersion", Value::string("v1"));
    object.set("kind", Value::string("Secret"));
    Value& metadata = object.set("metadata", Value::map());
    metadata.set("name", Value::string(at("name")));
    metadata.set("namespace", Value::string(at("namespace")));
    metadata.set("labels", Value::map())
        .set("rocca.dev/cluster", Value::string(world.cluster.name()));
    if (!stale.empty())
      metadata.set("annotations", Value::map()).set(stale_annotation, Value::string(stale));
    Value& data = object.set("data", Value::map());
    for (const auto& [name, text] : files) data.set(name, Value::string(to_base64(text.reveal())));
    // Flux and others read a kubeconfig under this name.
    if (const auto one = files.find(kubeconfig); one != files.end())
      data.set("value", Value::string(to_base64(one->second.reveal())));
    const auto answer = client.try_apply(secret_path(), object, false);
    object.wipe();
    if (const auto* failure = std::get_if<kube::Failure>(&answer))
      throw failure->error("publishing the access files", true);
  }

  OutsidePtr outside_;
  Fields facts_;
};

class PublishKind final : public Thing {
 public:
  PublishKind(About about, Target target) : Thing(std::move(about)), target_(std::move(target)) {}

  std::optional<Live> read(World& world) const override {
    const Texts ours = access_files(world);
    if (ours.empty()) return std::nullopt;  // they are not written yet
    const Texts there = target_.read(world);
    if (there.empty()) return std::nullopt;
    Live live{target_.at("to"), {}, target_.facts()};
    for (const auto& [name, text] : ours) {
      const auto found = there.find(name);
      live.fields[name] = found == there.end()                                ? "absent"
                          : target_.kept(found->second) == target_.kept(text) ? "current"
                                                                              : "another one";
    }
    return live;
  }
  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("the access files are not there yet");
    Change change;
    for (const auto& [name, value] : live->fields)
      if (value != "current") change.fields.push_back({name, value, "current", Effect::Live});
    conclude(change);
    return change;
  }
  Receipt apply(World& world, const Change&, const std::optional<Live>&) const override {
    const Texts ours = access_files(world);
    if (ours.empty()) throw Error(Fault::NotFound, "the access files are not written yet");
    target_.write(world, ours);
    return {"", "publish"};
  }
  Progress probe(World&, const Receipt&) const override { return Ready{}; }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override { return {}; }
  Duration patience(const Change&) const override { return 5min; }

 protected:
  Fields wishes() const override { return target_.facts(); }

 private:
  Texts access_files(World& world) const {
    Texts files;
    for (const char* name : {kubeconfig, talosconfig})
      if (auto text = world.storage.access->find(name))
        files.emplace(name, Secret::take(std::move(*text)));
    return files;
  }

  Target target_;
};

/// What was published and is no longer wanted: taken away, or kept and marked as stale, because its
/// cluster is gone.
class LeftoverPublication final : public Thing {
 public:
  enum class Fate { Taken, Marked };
  LeftoverPublication(About about, Target target, Fate fate)
      : Thing(std::move(about)), target_(std::move(target)), fate_(fate) {}

  std::optional<Live> read(World& world) const override {
    const std::optional<Texts> read = while_it_is_there(world, [&] { return target_.read(world); });
    const Texts there = read.value_or(Texts{});
    const bool over = std::all_of(there.begin(), there.end(), [&](const auto& entry) {
      return fate_ == Fate::Marked && is_stale(entry.second);
    });
    if (over) return std::nullopt;
    return Live{target_.at("to"), {{"files", std::to_string(there.size())}}, target_.facts()};
  }
  Change diff(const std::optional<Live>& live) const override {
    if (!live) return {};
    Change change;
    change.action = Action::Destroy;
    change.effect = Effect::Live;
    change.reason =
        fmt::format("the access files that were published there are {}",
                    fate_ == Fate::Marked ? "kept, and marked as stale" : "of no use any more");
    return change;
  }
  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    return live ? destroy(world, *live) : Receipt{};
  }
  Receipt destroy(World& world, const Live&) const override {
    return while_it_is_there(world, [&] { return take_or_mark(world); }).value_or(Receipt{});
  }
  Progress probe(World&, const Receipt&) const override { return Ready{}; }
  std::vector<Lane> lanes(const Change*) const override { return {}; }
  // `down` ends: a server that does not answer is named, and left.
  Duration patience(const Change&) const override { return 1min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  /// Nothing: it was kept by the cluster itself, whose API is gone already.
  template <class Body>
  auto while_it_is_there(World& world, Body&& body) const -> std::optional<decltype(body())> {
    try {
      return body();
    } catch (const Error& error) {
      if (!is_silence(error.fault()) || !target_.is_inside(world)) throw;
      return std::nullopt;
    }
  }

  Receipt take_or_mark(World& world) const {
    if (fate_ == Fate::Taken) {
      target_.erase(world);
      return {"", "withdraw"};
    }
    const std::string when = to_string(std::chrono::floor<std::chrono::seconds>(world.clock.now()));
    Texts marked;
    for (const auto& [name, text] : target_.read(world))
      marked.emplace(
          name, is_stale(text)
                    ? text
                    : Secret{fmt::format("{}cluster {} was razed at {}; nobody answers "
                                         "here any more\n{}",
                                         stale_mark, world.cluster.name(), when, text.reveal())});
    target_.write(world, marked, when);
    return {"", "mark as stale"};
  }

  Target target_;
  Fate fate_;
};

/// Host, project, environment and identity: as written here, else as elsewhere in the spec.
void fill_infisical(const spec::Spec& spec, const spec::PublishInfisical& to, Fields& facts) {
  const spec::InfisicalSource* other = nullptr;
  if (spec.handover->external_secrets) other = &spec.handover->external_secrets->infisical;
  if (other == nullptr)
    for (const spec::SecretSource& source : spec.secret_sources)
      if (const auto* infisical = std::get_if<spec::InfisicalSource>(&source)) other = infisical;
  const auto pick = [&](const spec::Maybe<std::string>& own, const auto member) {
    return own ? **own : other != nullptr ? *(other->*member) : std::string{};
  };
  facts["host"] = pick(to.host, &spec::InfisicalSource::host);
  facts["project"] = pick(to.project, &spec::InfisicalSource::project);
  facts["environment"] = pick(to.environment, &spec::InfisicalSource::environment);
  if (to.host ? spec::allows_plain_http(spec, *to.host)
              : other != nullptr && spec::allows_plain_http(spec, other->host))
    facts[plain_http] = "yes";
  facts["path"] = *to.path;
  facts[kubeconfig] = to.kubeconfig;
  facts[talosconfig] = to.talosconfig;
  const spec::Maybe<spec::SecretRef>& auth = to.auth || other == nullptr ? to.auth : other->auth;
  if (auth) {
    facts["auth"] = (*auth)->path;
    facts["auth source"] = (*auth)->from == spec::SecretRef::From::Infisical ? "infisical" : "key";
  }
}

}  // namespace

void make_publications(const Cluster& cluster, const OutsidePtr& outside,
                       const std::function<void(const Made&)>& add) {
  if (!cluster.spec.handover) return;
  for (const spec::Publish& publish : cluster.spec.handover->publish) {
    Fields facts{{"on down", publish.delete_on_down ? "delete" : "keep"}};
    std::string name;
    if (const auto* server = std::get_if<spec::PublishInfisical>(&publish.to)) {
      facts["to"] = "infisical";
      fill_infisical(cluster.spec, *server, facts);
      name = "infisical:" + facts["path"];
    } else if (const auto* secret = std::get_if<spec::PublishKubernetes>(&publish.to)) {
      facts["to"] = "kubernetes";
      facts["namespace"] = *secret->space;
      facts["name"] = *secret->name;
      name = fmt::format("kubernetes:{}/{}", *secret->space, *secret->name);
    } else {
      const std::string& folder = *std::get<spec::PublishFiles>(publish.to).folder;
      facts["to"] = "files";
      facts["folder"] = folder.starts_with('/') ? folder : cluster.spec.folder + "/" + folder;
      // They are there already: the access files themselves.
      if (facts["folder"] == cluster.spec.folder + "/configs") continue;
      if (cluster.spec.folder.empty() && !folder.starts_with('/'))
        throw Error(Fault::Usage,
                    fmt::format("{}: '{}' is relative, but this spec has no folder",
                                to_string(cluster.spec.position(publish.where)), folder))
            .hint("write an absolute path, or publish to `infisical:` or `kubernetes:`");
      name = "files:" + folder;
    }
    add(std::make_shared<PublishKind>(
        Thing::About{"publish/" + name,
                     {access_address(cluster.name()), bootstrap_address(cluster.name())},
                     to_string(cluster.spec.position(publish.where))},
        Target{outside, std::move(facts)}));
  }
}

Made leftover_publication(const OutsidePtr& outside, const Leftover& leftover) {
  if (fact(leftover.facts, "to").empty()) return nullptr;
  const bool keep = fact(leftover.facts, "on down") == "keep";
  // Of a cluster that goes on, what is kept is as good as before.
  if (keep && fact(leftover.facts, "whole cluster").empty()) return nullptr;
  return std::make_shared<LeftoverPublication>(
      Thing::About{leftover.address, leftover.needs, ""}, Target{outside, leftover.facts},
      keep ? LeftoverPublication::Fate::Marked : LeftoverPublication::Fate::Taken);
}

}  // namespace rocca::resources
