#include "talosconfig/secrecy.hpp"

#include "talosconfig/config_test_support.hpp"
#include "talosconfig/effects.hpp"
#include "talosconfig/patch_check.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <regex>
#include <set>

namespace rocca::talos {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using text::Value;

constexpr const char* empty_config = "machine: {}\ncluster: {}\n";

/// A place of a scalar in a configuration, and how a document is made that has one there.
struct Example {
  ConfigPlace place;
  std::string kind;
  std::vector<const Field*> fields;
};

void collect(const StructType& type, const Example& so_far, unsigned minor,
             std::vector<Example>& out) {
  for (const std::string& key : type.keys(minor)) {
    const Field* field = type.find(key, minor);
    Example next = so_far;
    next.fields.push_back(field);
    next.place.path += (next.place.path.empty() ? "" : ".") + key;
    const Type* last = &field->type;
    for (; last->item; last = last->item.get())
      if (last->shape == Shape::Map) next.place.path += ".*";
    next.place.shape = last->shape;
    if (last->shape == Shape::Struct)
      collect(*last->fields, next, minor, out);
    else
      out.push_back(std::move(next));
  }
}

std::vector<Example> examples(unsigned minor) {
  std::vector<Example> all;
  collect(main_document(), {}, minor, all);
  for (const std::string& kind : document_kinds(minor))
    collect(*find_document_type(kind)->fields, {{kind, Shape::Text}, kind, {}}, minor, all);
  return all;
}

Value wrapped(const Type& type, Value inner) {
  if (type.shape == Shape::List) {
    Value list = Value::list();
    list.append(wrapped(*type.item, std::move(inner)));
    return list;
  }
  if (type.shape == Shape::Map || type.shape == Shape::Any) {
    Value map = Value::map();
    map.set("some-key", type.item ? wrapped(*type.item, std::move(inner)) : std::move(inner));
    return map;
  }
  return inner;
}

/// The document with that text at that place.
std::string config_with(const Example& example, const std::string& text) {
  Value inner = Value::string(text);
  for (auto field = example.fields.rbegin(); field != example.fields.rend(); ++field) {
    Value below = wrapped((*field)->type, std::move(inner));
    inner = Value::map();
    inner.set((*field)->key, std::move(below));
  }
  if (example.kind.empty()) {
    for (const char* key : {"machine", "cluster"})
      if (inner.find(key) == nullptr) inner.set(key, Value::map());
    return text::emit_yaml(inner);
  }
  Value document = Value::map();
  document.set("apiVersion", Value::string("v1alpha1"));
  document.set("kind", Value::string(example.kind));
  if (find_document_type(example.kind)->named) document.set("name", Value::string("one"));
  for (const text::Entry& entry : inner.entries()) document.set(entry.key, entry.value);
  return std::string{empty_config} + "---\n" + text::emit_yaml(document);
}

/// A text that fits there and is found again in whatever shows it.
std::string fitting(Shape shape, char which) {
  switch (shape) {
    case Shape::Url:
      return fmt::format("https://canary{}.home/path", which);
    case Shape::Base64:
      return fmt::format("canary{}0", which);
    case Shape::AddressPort:
      return fmt::format("10.9.8.{}:4242", which);
    default:
      return fmt::format("canary{}", which);
  }
}

std::string all_of(const std::vector<ShownChange>& changes) {
  std::string all;
  for (const ShownChange& change : changes)
    all += fmt::format("{}: {} -> {}\n", change.path, change.before, change.after);
  return all;
}

bool names_a_document(const Example& example) {
  const std::string& key = example.fields.back()->key;
  return !example.kind.empty() && example.fields.size() == 1 &&
         (key == "apiVersion" || key == "kind" || key == "name");
}

class EveryPlace : public testing::TestWithParam<unsigned> {};

// The state is lost, the spec says nothing of it any more, and no key is called like a secret: what
// a node runs is shown only where no secret can stand.
TEST_P(EveryPlace, ThatCanHoldASecretHidesWhatANodeRuns) {
  std::size_t hidden = 0;
  for (const Example& example : examples(GetParam())) {
    if (names_a_document(example)) continue;
    if (!can_hold_secret(example.place.path, example.place.shape)) continue;
    SCOPED_TRACE(example.place.path);
    const std::string old_text = fitting(example.place.shape, '1');
    const std::string new_text = fitting(example.place.shape, '2');
    const std::string before = config_with(example, old_text);
    const std::string after = config_with(example, new_text);
    const Secrecy nothing_known{{Secret{new_text}}};
    // It was rotated, and it was removed.
    for (const std::string& wanted : {after, std::string{empty_config}}) {
      const auto changes = shown_changes(before, wanted, GetParam(), nothing_known);
      ASSERT_THAT(changes, Not(IsEmpty()));
      EXPECT_THAT(all_of(changes), Not(HasSubstr(old_text)));
      EXPECT_THAT(all_of(changes), Not(HasSubstr(new_text)));
    }
    ++hidden;
  }
  EXPECT_GT(hidden, 80u);
}

TEST_P(EveryPlace, ThatIsOpenShowsWhatANodeRuns) {
  std::size_t shown = 0;
  for (const Example& example : examples(GetParam())) {
    if (example.place.shape != Shape::Text || names_a_document(example)) continue;
    if (can_hold_secret(example.place.path, example.place.shape)) continue;
    SCOPED_TRACE(example.place.path);
    const auto changes = shown_changes(config_with(example, "canary1"),
                                       config_with(example, "canary2"), GetParam(), {});
    EXPECT_THAT(all_of(changes), HasSubstr("canary1 -> canary2"));
    ++shown;
  }
  EXPECT_GT(shown, 60u);
}

INSTANTIATE_TEST_SUITE_P(Versions, EveryPlace, testing::Values(9u, 11u, 12u, 13u));

TEST(OpenPlaces, EachNamesAPlaceThatExists) {
  std::set<std::string> places;
  for (unsigned minor = oldest_minor; minor <= newest_minor; ++minor)
    for (const ConfigPlace& place : config_places(minor)) places.insert(place.path);
  for (const std::string_view row : open_places()) {
    const bool exists = std::any_of(places.begin(), places.end(), [&](const std::string& place) {
      return place == row || place.starts_with(std::string{row} + ".");
    });
    EXPECT_TRUE(exists) << row;
  }
}

TEST(Places, AreTheSameAsTheSchemas) {
  std::set<std::string> walked, listed;
  for (const Example& example : examples(13)) walked.insert(example.place.path);
  for (const ConfigPlace& place : config_places(13)) listed.insert(place.path);
  EXPECT_EQ(walked, listed);
}

// ---- where a patch may name one

std::string without_indices(const std::string& path) {
  return std::regex_replace(path, std::regex(R"(\[[0-9]+\])"), "");
}

/// What is said of a patch with `{ secret: a.b }` at that place; nothing if rocca keeps the place
/// itself.
std::optional<std::vector<std::string>> said_of_reference(const Example& example) {
  MemoryFiles files;
  std::string patch = config_with(example, "the-reference");
  patch.replace(patch.find("the-reference"), std::strlen("the-reference"), "{ secret: a.b }");
  files.make_folder("/cluster");
  files.write("/cluster/patch.yaml", patch);
  spec::Loaded loaded = spec::load_text(files, R"(
apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.13.0, extensions: [qemu-guest-agent], patches: { all: [patch.yaml] } }
  kubernetes: { version: v1.34.1 }
  network: { subnet: 10.0.0.0/16, gateway: 10.0.0.1 }
  proxmox: { endpoints: ["https://pve.home:8006"], token: { secret: t }, hosts: [atlas] }
  nodes: { cp-1: { role: controlplane, address: 10.0.0.11 } }
)",
                                        "cluster.yaml", "/cluster");
  if (loaded.diagnostics.has_errors()) return std::nullopt;
  Diagnostics diagnostics;
  check_patches(loaded.spec, diagnostics);
  std::vector<std::string> said;
  for (const Problem& problem : diagnostics.problems())
    said.push_back(problem.code + " " + without_indices(problem.message));
  return said;
}

// What Talos makes of a secret is seen when it is looked up: a key of a certain length, a URL of a
// certain kind.
TEST(References, AreTakenWhereverASecretCanStand) {
  std::size_t taken = 0;
  for (const Example& example : examples(13)) {
    if (names_a_document(example)) continue;
    if (!can_hold_secret(example.place.path, example.place.shape)) continue;
    SCOPED_TRACE(example.place.path);
    const auto said = said_of_reference(example);
    if (!said) continue;
    // "WireguardConfig/one: peers.endpoint: this is not …"
    std::string path = example.place.path;
    if (!example.kind.empty())
      path = example.kind + (find_document_type(example.kind)->named ? "/one: " : ": ") +
             path.substr(example.kind.size() + 1);
    path = std::regex_replace(path, std::regex(R"(\.\*)"), ".some-key");
    for (const std::string& problem : *said) {
      EXPECT_THAT(problem, Not(HasSubstr("secret-place")));
      EXPECT_THAT(problem, Not(HasSubstr(" " + path + ": ")));
    }
    ++taken;
  }
  EXPECT_GT(taken, 60u);
}

TEST(References, AreRefusedWhereEveryValueIsShown) {
  std::size_t refused = 0;
  for (const Example& example : examples(13)) {
    if (example.place.shape != Shape::Text || names_a_document(example)) continue;
    if (can_hold_secret(example.place.path, example.place.shape)) continue;
    SCOPED_TRACE(example.place.path);
    const auto said = said_of_reference(example);
    if (!said) continue;
    EXPECT_THAT(*said, Not(IsEmpty()));
    ++refused;
  }
  EXPECT_GT(refused, 30u);
}

// ---- with a state

constexpr unsigned minor = 13;

std::string env(const std::string& name, const std::string& value) {
  return fmt::format("machine:\n  env: {{ {}: \"{}\" }}\n", name, value);
}

class Remembered : public testing::Test {
 protected:
  /// The state after a configuration with these secrets has settled.
  Secrecy settled(const std::string& config, std::vector<Secret> secrets) {
    Secrecy secrecy{std::move(secrets), digest_key(bundle_)};
    secrecy.remembered = remember(config, minor, secrecy);
    return secrecy;
  }
  /// The same state, seen with the secrets of today.
  static Secrecy today(Secrecy before, std::vector<Secret> secrets) {
    before.hidden = std::move(secrets);
    return before;
  }

  secrets::Bundle bundle_ = config_tests::bundle();
};

TEST_F(Remembered, ClearTextOfTheSpecIsShown) {
  const auto state = settled(env("GREETING", "hello"), {});
  EXPECT_THAT(
      shown_changes(env("GREETING", "hello"), env("GREETING", "good day"), minor, state),
      ElementsAre(ShownChange{"machine.env.GREETING", "hello", "good day", ConfigEffect::Reboot}));
}

TEST_F(Remembered, WhatWasSecretThenStaysSecret) {
  const std::string old_config = env("GREETING", "first word");
  const auto state = settled(old_config, {Secret{"first word"}});
  // Rotated, and its patch removed.
  EXPECT_THAT(shown_changes(old_config, env("GREETING", "second word"), minor,
                            today(state, {Secret{"second word"}})),
              ElementsAre(ShownChange{"machine.env.GREETING", "***", "*** (another)",
                                      ConfigEffect::Reboot}));
  EXPECT_THAT(shown_changes(old_config, empty_config, minor, today(state, {})),
              Contains(ShownChange{"machine.env.GREETING", "***", "", ConfigEffect::Reboot}));
}

TEST_F(Remembered, AnotherConfigurationThanTheSettledOneIsNotVouchedFor) {
  const auto state = settled(env("GREETING", "hello"), {});
  EXPECT_THAT(
      shown_changes(env("GREETING", "of another machine"), env("GREETING", "hello"), minor, state),
      ElementsAre(ShownChange{"machine.env.GREETING", "***", "hello", ConfigEffect::Reboot}));
}

TEST_F(Remembered, AnotherBundleKnowsNothing) {
  auto state = settled(env("GREETING", "hello"), {});
  bundle_.cluster_secret = Secret{"another cluster secret"};
  state.key = digest_key(bundle_);
  EXPECT_THAT(
      shown_changes(env("GREETING", "hello"), env("GREETING", "good day"), minor, state),
      ElementsAre(ShownChange{"machine.env.GREETING", "***", "good day", ConfigEffect::Reboot}));
}

TEST_F(Remembered, AClearTextThatBecomesASecretIsRememberedAsOne) {
  const std::string config = env("GREETING", "first word");
  auto state = settled(config, {});
  const std::string clear = state.remembered;
  state.hidden = {Secret{"first word"}};
  state.remembered = remember(config, minor, state);
  EXPECT_NE(state.remembered, clear);
  EXPECT_THAT(shown_changes(config, empty_config, minor, today(state, {})),
              Contains(ShownChange{"machine.env.GREETING", "***", "", ConfigEffect::Reboot}));
}

TEST_F(Remembered, HoldsDigestsOnlyAndIsTheSameEachTime) {
  const std::string config = env("GREETING", "first word");
  const auto state = settled(config, {Secret{"first word"}});
  EXPECT_EQ(state.remembered.find_first_not_of("0123456789abcdef "), std::string::npos);
  EXPECT_EQ(state.remembered.size(), 3 * 32u + 2);
  EXPECT_EQ(remember(config, minor, state), state.remembered);
  Secrecy fresh{{Secret{"first word"}}, digest_key(bundle_)};
  EXPECT_EQ(remember(config, minor, fresh), state.remembered);
}

TEST(Before, IsHiddenWhereASecretStandsNow) {
  // The value before was clear text of an open place: it may be what the secret was made of.
  const auto changes =
      shown_changes("machine:\n  install: { disk: /dev/sda }\n",
                    "machine:\n  install: { disk: swordfish }\n", minor, {{Secret{"swordfish"}}});
  EXPECT_THAT(changes, ElementsAre(ShownChange{"machine.install.disk", "***", "*** (another)",
                                               ConfigEffect::Live}));
}

TEST(Before, ShowsSmallNumbersOfTheKernelAndWhatTheSpecSaysInClear) {
  EXPECT_THAT(
      shown_changes("machine:\n  sysctls: { vm.swappiness: \"60\" }\n",
                    "machine:\n  sysctls: { vm.swappiness: \"10\" }\n", minor, {}),
      ElementsAre(ShownChange{"machine.sysctls.vm.swappiness", "60", "10", ConfigEffect::Live}));
  const auto longer = shown_changes("machine:\n  certSANs: [a.home, b.home]\n",
                                    "machine:\n  certSANs: [a.home]\n", minor, {});
  EXPECT_THAT(longer, ElementsAre(ShownChange{"machine.certSANs", "[\"a.home\",\"***\"]",
                                              "[\"a.home\"]", ConfigEffect::Live}));
}

TEST(Before, HidesASecretInTheSpellingOfTalos) {
  const auto changes =
      shown_changes("cluster:\n  network: { dnsDomain: a }\n",
                    "cluster:\n  network: { dnsDomain: a }\n---\napiVersion: v1alpha1\nkind: "
                    "KmsgLogConfig\nname: far\nurl: udp://[2001:db8:0:0::1]:5044/a%20b\n",
                    minor, {{Secret{"udp://[2001:db8:0:0::1]:5044/a%20b"}}});
  EXPECT_THAT(all_of(changes), Not(HasSubstr("5044")));
}

TEST(After, HidesTheHeadersOfManifestsByTheirNames) {
  const auto changes = shown_changes(empty_config,
                                     "machine: {}\ncluster:\n  extraManifestHeaders: { "
                                     "Authorization: Bearer swordfish, X-Room: attic }\n",
                                     minor, {});
  EXPECT_THAT(all_of(changes), Not(HasSubstr("swordfish")));
  EXPECT_THAT(all_of(changes), HasSubstr("attic"));
}

TEST(Keys, OfDigestsComeFromTheBundle) {
  secrets::Bundle one = config_tests::bundle();
  secrets::Bundle other = one;
  EXPECT_EQ(digest_key(one), digest_key(other));
  EXPECT_EQ(digest_key(one).size(), 32u);
  other.trustd_token = Secret{"another"};
  EXPECT_FALSE(digest_key(one) == digest_key(other));
}

}  // namespace
}  // namespace rocca::talos
