#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/sops/config.hpp"
#include "secrets/sops/sops.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

#include <cstdio>
#include <map>

namespace rocca::secrets::sops {
namespace {

using text::Value;

const std::string folder = "sops";

bool is_key_file(const std::string& path) {
  return path.ends_with(".agekey") || path.ends_with(".identity");
}

/// Every identity that lies beside the samples.
std::vector<age::Identity> all_identities() {
  std::vector<age::Identity> identities;
  for (const std::string& path : test::reference_files(folder))
    if (is_key_file(path))
      for (auto& identity : age::parse_identities(test::read_file(path), path))
        identities.push_back(std::move(identity));
  return identities;
}

std::map<std::string, Value> expectations() {
  std::map<std::string, Value> out;
  for (const std::string& path : test::reference_files(folder, "/expected.json")) {
    const Value all = text::parse_json(test::read_file(path), path);
    for (const text::Entry& entry : all.entries()) out[entry.key] = entry.value;
  }
  return out;
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

/// Same keys in the same order, same scalars; a float may be written as `5` or `5.0`.
bool same(const Value& a, const Value& b) {
  if (a.as_float() && b.as_float()) return a.as_float() == b.as_float();
  if (a.is_scalar() || a.kind() != b.kind()) return a == b;
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.items().size(); ++i)
    if (!same(a.items()[i], b.items()[i])) return false;
  for (std::size_t i = 0; i < a.entries().size(); ++i)
    if (a.entries()[i].key != b.entries()[i].key ||
        !same(a.entries()[i].value, b.entries()[i].value))
      return false;
  return true;
}

TEST(SopsSamples, EveryEncryptedFileOpensWithItsMac) {
  const auto identities = all_identities();
  ASSERT_FALSE(identities.empty());
  std::size_t opened = 0;
  std::size_t ini = 0;
  for (const std::string& path : test::reference_files(folder)) {
    if (is_key_file(path) || path.find("getsops-value-layer") != std::string::npos) continue;
    SCOPED_TRACE(path);
    if (path.ends_with(".ini")) {
      ++ini;
      continue;
    }
    const std::string text = test::read_file(path);
    const Format format = format_of(path);
    if (!is_encrypted(text, format)) continue;
    const File file = File::parse(text, format, path);
    const Secret key = file.data_key(identities);
    EXPECT_NO_THROW({
      const Plain plain = file.decrypt(key);
      EXPECT_FALSE(plain.text().empty());
    });
    ++opened;
    test::count_case();
  }
  EXPECT_GT(opened, 0u);
  std::printf("opened with age: %zu, ini files left out: %zu\n", opened, ini);
}

TEST(SopsSamples, TheValueLayerOpensWithTheGivenDataKey) {
  std::size_t left_out = 0;
  for (const auto& [name, expected] : expectations()) {
    SCOPED_TRACE(name);
    if (name.ends_with(".ini")) {
      ++left_out;
      continue;
    }
    std::string path;
    for (const std::string& file : test::reference_files(folder))
      if (base_name(file) == name) path = file;
    ASSERT_FALSE(path.empty());
    const Secret key = Secret::take(std::move(*from_hex(expected.find("data_key_hex")->text())));
    const File file = File::parse(test::read_file(path), format_of(path), path);
    EXPECT_EQ(file.last_modified(), expected.find("lastmodified")->text());
    EXPECT_EQ(file.version(), expected.find("version")->text());
    test::count_case();
    if (!expected.find("stored_mac_matches")->as_bool().value_or(false)) {
      EXPECT_THROW(file.decrypt(key), Error);
      continue;
    }
    const Plain plain = file.decrypt(key);
    const Value* wanted = expected.find("plaintext");
    ASSERT_NE(wanted, nullptr);
    if (wanted->is_map())
      EXPECT_TRUE(same(plain.documents().front(), *wanted)) << emit_json(plain.documents().front());
    else
      EXPECT_EQ(plain.text().reveal(), wanted->text());
    if (const Value* comments = expected.find("comments")) {
      const std::string text{plain.text().reveal()};
      for (const Value& comment : comments->items())
        EXPECT_THAT(text, testing::HasSubstr("#" + comment.find("comment")->text()));
    }
  }
  std::printf("ini files left out: %zu\n", left_out);
}

TEST(SopsSamples, TheCreationRulesAreRead) {
  for (const std::string& path : test::reference_files(folder, "creation-rules.yaml")) {
    const Config config = Config::parse(test::read_file(path), path);
    const std::string beside = path.substr(0, path.rfind('/'));
    EXPECT_TRUE(config.find_rule(beside + "/x.yaml"));
    EXPECT_TRUE(config.find_rule(beside + "/x.env"));
    test::count_case();
  }
}

TEST(SopsSamples, ADocumentInsideASecretOpensToo) {
  const auto identities = all_identities();
  for (const std::string& path : test::reference_files(folder, ".yaml")) {
    if (path.find("getsops-value-layer") != std::string::npos) continue;
    const std::string text = test::read_file(path);
    if (is_encrypted(text, Format::Yaml)) continue;
    for (const Value& document : text::parse_yaml_stream(text, path)) {
      const Value* data = document.find("data");
      if (data == nullptr) continue;
      for (const text::Entry& entry : data->entries()) {
        const auto inner = from_base64(entry.value.text());
        if (!inner || !is_encrypted(*inner, Format::Binary)) continue;
        const File file = File::parse(*inner, Format::Binary, path);
        EXPECT_FALSE(file.decrypt(file.data_key(identities)).text().empty());
        test::count_case();
      }
    }
  }
}

}  // namespace
}  // namespace rocca::secrets::sops
