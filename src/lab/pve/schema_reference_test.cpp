// Our table of calls against Proxmox's own description of its API, for both releases: every
// parameter known, with the same type, limits, values and need; the same check, the same daemon,
// the same forwarding.

#include "base/strings.hpp"
#include "lab/pve/schema/schema.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace rocca::lab::pve {
namespace {

using Calls = std::map<std::string, const text::Value*>;

void collect(const text::Value& nodes, Calls& calls) {
  for (const text::Value& node : nodes.items()) {
    if (const text::Value* info = node.find("info"))
      for (const text::Entry& entry : info->entries())
        calls[entry.key + " " + node.find("path")->text()] = &entry.value;
    if (const text::Value* children = node.find("children")) collect(*children, calls);
  }
}

bool is_one(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  return value != nullptr && value->is_scalar() && value->text() == "1";
}

/// Where the table says something else on purpose.
const std::map<std::string, std::string>& exceptions() {
  static const std::map<std::string, std::string> all{
      {"GET /cluster/options check", "the recorded server lets everybody in and shows less"},
  };
  return all;
}

class Comparison {
 public:
  explicit Comparison(const Schema& schema) : schema_(schema) {}

  void method(const Method& ours, const text::Value& theirs) {
    where_ = ours.verb + " " + ours.path;
    const text::Value* permissions = theirs.find("permissions");
    const text::Value* check = permissions == nullptr ? nullptr : permissions->find("check");
    const text::Value* user = permissions == nullptr ? nullptr : permissions->find("user");
    if (check != nullptr)
      expect("check", text::emit_json(*check), text::emit_json(ours.check));
    else
      expect("check",
             user != nullptr          ? user->text()
             : permissions == nullptr ? "root"
                                      : "handler",
             ours.who);
    expect("protected", is_one(theirs, "protected") ? "yes" : "no", ours.protected_ ? "yes" : "no");
    expect("proxyto", theirs.find("proxyto") != nullptr ? "yes" : "no",
           ours.to_node ? "yes" : "no");
    const text::Value* token = theirs.find("allowtoken");
    expect("token", token == nullptr || token->text() == "1" ? "yes" : "no",
           ours.token ? "yes" : "no");
    const text::Value* properties = theirs.find({"parameters", "properties"});
    parameters("", ours.parameters, properties);
  }

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void expect(const std::string& what, const std::string& theirs, const std::string& ours) {
    if (theirs == ours || exceptions().contains(where_ + " " + what)) return;
    problems_.push_back(
        fmt::format("{} {}: Proxmox says '{}', the table '{}'", where_, what, theirs, ours));
  }

  void parameters(const std::string& prefix, const std::map<std::string, Parameter>& ours,
                  const text::Value* theirs) {
    std::set<std::string> known;
    if (theirs != nullptr && theirs->is_map())
      for (const text::Entry& entry : theirs->entries()) {
        known.insert(entry.key);
        const auto mine = ours.find(entry.key);
        test::count_case();
        if (mine == ours.end())
          problems_.push_back(fmt::format("{} {}{}: not in the table", where_, prefix, entry.key));
        else
          parameter(prefix + entry.key, mine->second, entry.value);
      }
    for (const auto& [name, parameter] : ours)
      if (!known.contains(name))
        problems_.push_back(fmt::format("{} {}{}: not in Proxmox", where_, prefix, name));
  }

  static std::string text_of(const text::Value& object, std::string_view key) {
    const text::Value* value = object.find(key);
    return value == nullptr || !value->is_scalar() || value->is_null() ? "" : value->text();
  }

  static std::string number(const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : "";
  }
  static std::string number(const std::optional<std::size_t>& value) {
    return value ? fmt::format("{}", *value) : "";
  }

  void parameter(const std::string& name, const Parameter& ours, const text::Value& theirs) {
    if (theirs.find("alias") != nullptr) {
      expect(name + " alias", text_of(theirs, "alias"), ours.alias);
      expect(name + " key alias", text_of(theirs, "keyAlias"), ours.key_alias);
      return;
    }
    static const std::map<Parameter::Type, std::string> types{{Parameter::Type::String, "string"},
                                                              {Parameter::Type::Integer, "integer"},
                                                              {Parameter::Type::Number, "number"},
                                                              {Parameter::Type::Boolean, "boolean"},
                                                              {Parameter::Type::List, "array"}};
    expect(name + " type", text_of(theirs, "type"), types.at(ours.type));
    expect(name + " optional", is_one(theirs, "optional") ? "yes" : "no",
           ours.optional ? "yes" : "no");
    expect(name + " minimum", text_of(theirs, "minimum"), number(ours.minimum));
    expect(name + " maximum", text_of(theirs, "maximum"), number(ours.maximum));
    expect(name + " minLength", text_of(theirs, "minLength"), number(ours.min_length));
    expect(name + " maxLength", text_of(theirs, "maxLength"), number(ours.max_length));
    expect(name + " requires", text_of(theirs, "requires"), ours.needs);
    expect(name + " default key", is_one(theirs, "default_key") ? "yes" : "no",
           ours.default_key ? "yes" : "no");
    expect(name + " has a pattern", theirs.find("pattern") != nullptr ? "yes" : "no",
           ours.pattern.empty() ? "no" : "yes");
    std::vector<std::string> values;
    if (const text::Value* list = theirs.find("enum"); list != nullptr && list->is_list())
      for (const text::Value& item : list->items()) values.push_back(item.text());
    expect(name + " enum", join(values, ","), join(ours.values, ","));
    const text::Value* format = ours.type == Parameter::Type::List
                                    ? theirs.find({"items", "format"})
                                    : theirs.find("format");
    if (format != nullptr && format->is_map()) {
      const Format* mine = schema_.find_format(ours.format);
      if (mine == nullptr)
        problems_.push_back(
            fmt::format("{} {}: the table has no format '{}'", where_, name, ours.format));
      else
        parameters(name + ".", mine->keys, format);
    } else {
      expect(name + " format", format == nullptr ? "" : format->text(), ours.format);
    }
  }

  const Schema& schema_;
  std::string where_;
  std::vector<std::string> problems_;
};

struct Source {
  const char* name;
  const char* file;
  Release release;
};

class LabSchema : public testing::TestWithParam<Source> {};

TEST_P(LabSchema, IsProxmoxsOwn) {
  const auto found = test::find_shared(std::string("facts/") + GetParam().file);
  if (!found) GTEST_SKIP();
  const std::string& path = *found;
  text::Limits limits;
  limits.size = 64 * 1024 * 1024;
  limits.values = 10'000'000;
  const text::Value root = text::parse_json(test::read_file(path), path, limits);
  Calls calls;
  collect(*root.find("tree"), calls);
  const Schema& schema = Schema::of(GetParam().release);
  Comparison comparison{schema};
  std::size_t compared = 0;
  for (const Method& method : schema.methods()) {
    const std::string name = method.verb + " " + method.path;
    if (name == "GET /") continue;  // the root's index is in no description
    const auto theirs = calls.find(name);
    if (theirs == calls.end()) {
      ADD_FAILURE() << name << " is no call of Proxmox VE " << GetParam().name;
      continue;
    }
    ++compared;
    comparison.method(method, *theirs->second);
  }
  EXPECT_GT(compared, 100u);
  for (const std::string& problem : comparison.problems()) ADD_FAILURE() << problem;
}

INSTANTIATE_TEST_SUITE_P(Releases, LabSchema,
                         testing::Values(Source{"Eight", "pve-api-8.4.json", Release::v8_4()},
                                         Source{"Nine", "pve-api.json", Release::v9()}),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace rocca::lab::pve
