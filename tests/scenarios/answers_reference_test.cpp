// Every GET that the lab answers, held against what Proxmox's own description says it returns.
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "scenarios/lab_rig.hpp"
#include "support/administrator.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>

namespace rocca::scenarios {
namespace {

text::Value read_schema(const std::string& file) {
  text::Limits limits;
  limits.size = 64u << 20;
  return text::parse_json(test::read_file(file), file, limits);
}

/// What is wrong with `value` where `returns` says what it is. Perl writes numbers as text or the
/// other way round as it likes, so only what can never be read as the type counts.
void check(const text::Value& value, const text::Value& returns, const std::string& where,
           std::vector<std::string>& problems) {
  const text::Value* kind = returns.find("type");
  const std::string type = kind != nullptr && kind->is_string() ? kind->text() : "any";
  if (type == "null" || type == "any") return;
  if (type == "array") {
    if (!value.is_list()) return problems.push_back(where + " is no list");
    const text::Value* items = returns.find("items");
    for (const text::Value& item : value.items())
      if (items != nullptr) check(item, *items, where + "[]", problems);
    return;
  }
  if (type == "object") {
    if (!value.is_map()) return problems.push_back(where + " is no object");
    const text::Value* properties = returns.find("properties");
    if (properties == nullptr) return;
    for (const text::Entry& property : properties->entries()) {
      if (property.key.find("[n]") != std::string::npos) continue;
      const text::Value* found = value.find(property.key);
      const text::Value* optional = property.value.find("optional");
      const bool required = optional == nullptr || optional->text() == "0";
      if (found == nullptr || found->is_null()) {
        if (required) problems.push_back(where + "." + property.key + " is missing");
      } else {
        check(*found, property.value, where + "." + property.key, problems);
      }
    }
    return;
  }
  if (!value.is_scalar()) return problems.push_back(fmt::format("{} is no {}", where, type));
  const auto number = text::Value::plain(value.text()).as_float();
  if ((type == "integer" || type == "number") && !number)
    problems.push_back(fmt::format("{} is '{}', no {}", where, value.text(), type));
  if (type == "boolean" && value.text() != "0" && value.text() != "1" && value.text() != "true" &&
      value.text() != "false")
    problems.push_back(fmt::format("{} is '{}', no boolean", where, value.text()));
}

using Visit = std::function<void(const std::string& path, const text::Value& method)>;

void for_each_get(const text::Value& nodes, const Visit& visit) {
  for (const text::Value& node : nodes.items()) {
    if (const text::Value* get = node.find({"info", "GET"})) visit(node.find("path")->text(), *get);
    if (const text::Value* children = node.find("children")) for_each_get(*children, visit);
  }
}

class Answers : public testing::TestWithParam<bool> {};

TEST_P(Answers, AreWhatProxmoxDescribes) {
  const bool nine = GetParam();
  LabRig rig{nine ? lab::pve::Release::v9() : lab::pve::Release::v8_4()};
  const proxmox::Access access = rig.access(rig.home.root_token);
  test::Administrator client{rig.wire, access};
  proxmox::VmCreate vm;
  vm.vmid = 100;
  vm.name = "cp-1";
  proxmox::Drive disk;
  disk.storage = "local-lvm";
  disk.size = Bytes::gib(1);
  vm.drives = {{"scsi0", disk}};
  proxmox::Nic nic;
  nic.bridge = "vmbr0";
  vm.nics = {nic};
  const proxmox::Upid upid = std::get<proxmox::Upid>(client.start_create("pve1", vm));
  rig.finish(client, upid);
  rig.finish(client, client.start_vm("pve1", 100));
  rig.pause(std::chrono::seconds{30});

  const std::map<std::string, std::string> bound = {
      {"{node}", "pve1"},       {"{vmid}", "100"},
      {"{storage}", "local"},   {"{upid}", percent_encode(upid.text)},
      {"{userid}", "root@pam"}, {"{roleid}", "PVEAdmin"},
      {"{realm}", "pam"}};
  const auto file = test::find_shared(nine ? "facts/pve-api.json" : "facts/pve-api-8.4.json");
  if (!file) GTEST_SKIP();
  const text::Value schema = read_schema(*file);
  std::size_t answered = 0;
  std::vector<std::string> problems;
  for_each_get(*schema.find("tree"), [&](const std::string& path, const text::Value& method) {
    std::string asked = path;
    for (const auto& [name, value] : bound) asked = replace_all(asked, name, value);
    if (asked.find('{') != std::string::npos) return;
    const text::Value* returns = method.find("returns");
    if (returns == nullptr) return;
    net::Request request;
    request.url = access.endpoints.front() + "/api2/json" + asked;
    request.tls = access.tls;
    request.authorization = Secret(fmt::format("PVEAPIToken={}", access.token.reveal()));
    const net::Answer answer = net::fetch(rig.wire, request);
    if (answer.head.status != 200) return;
    const text::Value body = text::parse_json(answer.body, asked);
    const text::Value* data = body.find("data");
    if (data == nullptr) return problems.push_back(path + " has no data");
    check(*data, *returns, path, problems);
    ++answered;
    test::count_case();
  });
  std::sort(problems.begin(), problems.end());
  problems.erase(std::unique(problems.begin(), problems.end()), problems.end());
  EXPECT_GE(answered, 30u);
  EXPECT_THAT(problems, testing::IsEmpty()) << join(problems, "\n");
  std::printf("%s: %zu answers described and held against it\n", nine ? "9" : "8.4", answered);
}

INSTANTIATE_TEST_SUITE_P(Pve, Answers, testing::Bool(),
                         [](const auto& row) { return row.param ? "v9" : "v8_4"; });

}  // namespace
}  // namespace rocca::scenarios
