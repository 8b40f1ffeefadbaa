#include "talosconfig/manifest_secrets.hpp"

#include "base/version.hpp"
#include "talosconfig/codec.hpp"
#include "talosconfig/effects.hpp"
#include "talosconfig/render.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

#include <string>

namespace rocca::talos {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Case {
  const char* name;
  std::string manifests;
  bool hidden = true;
};

class Manifests : public testing::TestWithParam<Case> {
 public:
  static constexpr unsigned minor = 11;

  /// A control plane's configuration with these manifests in it.
  static std::string config(const std::string& manifests) {
    text::Value manifest = text::Value::map();
    manifest.set("name", text::Value::string("m"));
    manifest.set("contents", text::Value::string(manifests));
    text::Value cluster = text::Value::map();
    cluster.set("inlineManifests", text::Value::list({manifest}));
    text::Value root = text::parse_yaml("version: v1alpha1\nmachine: { type: controlplane }\n", "");
    root.set("cluster", cluster);
    return text::emit_yaml(root);
  }
};

TEST_P(Manifests, AreHiddenIfTheyMayHoldASecret) {
  EXPECT_EQ(manifests_hold_secret(GetParam().manifests), GetParam().hidden);
}

TEST_P(Manifests, AreShownNowhereIfTheyAreHidden) {
  ConfigProblems problems;
  const auto documents = decode_config(
      text::parse_yaml_stream(config(GetParam().manifests), "config"), minor, problems);
  const std::string masked = mask_config(documents, minor);
  EXPECT_EQ(masked.find("hunter2") == std::string::npos, GetParam().hidden) << masked;
  std::string shown;
  for (const auto& [before, after] :
       {std::pair{config("a: 1"), config(GetParam().manifests)},
        std::pair{config(GetParam().manifests), config(GetParam().manifests + "\n# more")}})
    for (const ShownChange& change : shown_changes(before, after, minor, {}))
      shown += change.before + "\n" + change.after + "\n";
  if (GetParam().hidden) {
    EXPECT_THAT(shown, Not(HasSubstr("hunter2")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, Manifests,
    testing::Values(
        Case{"Plain", "apiVersion: v1\nkind: Secret\nstringData: { p: hunter2 }\n"},
        // As Terraform's yamlencode and jsonencode write it.
        Case{"Quoted",
             "\"apiVersion\": \"v1\"\n\"kind\": \"Secret\"\n\"stringData\":\n  \"p\": "
             "\"hunter2\"\n"},
        Case{"Json", R"({"apiVersion":"v1","kind":"Secret","stringData":{"p":"hunter2"}})"},
        Case{"Wide", "apiVersion: v1\nkind:  Secret\nstringData: { p: hunter2 }\n"},
        Case{"Tagged", "kind: !!str Secret\nstringData: { p: hunter2 }\n"},
        Case{"Escaped", "\"kind\": \"\\x53ecret\"\nstringData: { p: hunter2 }\n"},
        Case{"NextLine", "kind:\n  Secret\nstringData: { p: hunter2 }\n"},
        Case{"Anchored", "kind: &kind\n  Secret\nstringData: { p: hunter2 }\n"},
        Case{"SecondDocument", "kind: Namespace\n---\n\"kind\": 'Secret'\ndata: { p: hunter2 }\n"},
        Case{"InAList", "kind: List\nitems:\n- \"kind\": \"Secret\"\n  data: { p: hunter2 }\n"},
        Case{"InAListOfSecrets", "kind: SecretList\nitems: [ { data: { p: hunter2 } } ]\n"},
        Case{"DeepInAList",
             "kind: List\nitems: [ { kind: List, items: [ { kind: "
             "\"Secret\", data: { p: hunter2 } } ] } ]\n"},
        Case{"InATextOfAnother",
             R"({"kind":"ConfigMap","data":{"x":"{\"kind\": \"Secret\", \"p\": \"hunter2\"}"}})"},
        Case{"PrivateKey",
             "kind: ConfigMap\ndata:\n  k: |\n    -----BEGIN EC PRIVATE "
             "KEY-----\n    hunter2\n"},
        Case{"NoYaml", "kind: [ConfigMap\nhunter2: '\n"},
        Case{"Template", "{{ if .x }}\nkind: ConfigMap\nhunter2: {{ .y }}\n"},
        Case{"NoObject", "hunter2"},
        Case{"ConfigMap", "kind: ConfigMap\ndata: { x: hunter2 }\n", false},
        Case{"OtherKinds",
             "kind: SecretStore\nmetadata: { name: hunter2 }\n---\nkind: Role\nrules: "
             "[ { resources: [ secrets ] } ]\n",
             false}),
    [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace rocca::talos
