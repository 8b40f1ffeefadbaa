#include "base/files.hpp"
#include "spec/fields.hpp"
#include "spec/load.hpp"
#include "spec/plain_http.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace rocca::spec {
namespace {

bool takes_credential(const FieldNode& section) {
  return std::any_of(section.keys().begin(), section.keys().end(), [](const auto& key) {
    const std::string_view like = key->field->values;
    return like == "@$secret" || key->key == "auth";
  });
}

bool has_url(const FieldNode& section) {
  return std::any_of(section.keys().begin(), section.keys().end(),
                     [](const auto& key) { return key->field->type == Type::Url; });
}

void collect(const FieldNode& section, const std::string& path, std::set<std::string>& with_both,
             std::set<std::string>& with_opt_out) {
  if (has_url(section) && takes_credential(section)) with_both.insert(path);
  for (const auto& key : section.keys()) {
    if (key->key == "plainHttp") with_opt_out.insert(path);
    collect(*key, path + "." + key->key, with_both, with_opt_out);
  }
  if (const FieldNode* named = section.named())
    collect(*named, path + ".*", with_both, with_opt_out);
}

// A section that has an address and a credential beside it sends the one to the other: it must be
// refused over plain HTTP, and so has the key that says otherwise. Proxmox has none: its API speaks
// TLS only.
TEST(PlainHttp, HasItsOptOutWhereverACredentialHasAnAddress) {
  std::set<std::string> with_both, with_opt_out;
  collect(root(), "", with_both, with_opt_out);
  with_both.erase(".spec.proxmox");
  EXPECT_EQ(with_both, with_opt_out);
  EXPECT_THAT(with_both, testing::IsSupersetOf({".spec.state.s3", ".spec.state.http",
                                                ".spec.secrets.sources.infisical",
                                                ".spec.handover.flux", ".spec.backup.to.s3"}));
}

TEST(PlainHttp, IsAllowedForTheAddressBesideItAndNoOther) {
  MemoryFiles files;
  const Loaded loaded = load_text(files, R"(
apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  secrets:
    sources:
      - { infisical: { host: http://one.home, project: p, environment: e, plainHttp: true } }
      - { infisical: { host: http://two.home, project: p, environment: e } }
      - { infisical: { project: p, environment: e, plainHttp: true } }
  talos: { version: v1.11.5, extensions: [qemu-guest-agent] }
  kubernetes: { version: v1.32.1 }
  network: { subnet: 10.0.0.0/16, gateway: 10.0.0.1 }
  proxmox: { endpoints: ["https://pve.home:8006"], token: { secret: t }, hosts: [atlas] }
  nodes: { cp-1: { role: controlplane, address: 10.0.0.11 } }
)",
                                  "cluster.yaml", "/cluster");
  ASSERT_EQ(loaded.spec.secret_sources.size(), 3u);
  const auto allowed = [&](std::size_t i) {
    return allows_plain_http(loaded.spec,
                             std::get<InfisicalSource>(loaded.spec.secret_sources[i]).host);
  };
  EXPECT_TRUE(allowed(0));
  EXPECT_FALSE(allowed(1));
  EXPECT_FALSE(allowed(2)) << "the address is our own default, which is https";
}

}  // namespace
}  // namespace rocca::spec
