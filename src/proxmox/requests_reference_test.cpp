#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "proxmox/client.hpp"
#include "proxmox/property_string.hpp"
#include "proxmox/scripted_transport.hpp"
#include "support/administrator.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <optional>

namespace rocca::proxmox {
namespace {

/// Proxmox's own description of its API, one file per version.
class Schema {
 public:
  explicit Schema(const std::string& file) {
    text::Limits limits;
    limits.size = 64 * 1024 * 1024;
    root_ = text::parse_json(test::read_file(file), file, limits);
  }

  /// The description of a method, and the path parameters that its path bound.
  const text::Value* find(const std::string& method, const std::string& path,
                          std::map<std::string, std::string>& bound) const {
    std::vector<std::string> parts;
    for (std::string& part : split(path, '/'))
      if (!part.empty()) parts.push_back(percent_decode(part));
    return walk(*root_.find("tree"), parts, 0, method, bound);
  }

 private:
  static const text::Value* walk(const text::Value& nodes, const std::vector<std::string>& parts,
                                 std::size_t depth, const std::string& method,
                                 std::map<std::string, std::string>& bound) {
    // A fixed name beats a parameter of the same place.
    for (const bool parameter : {false, true}) {
      for (const text::Value& node : nodes.items()) {
        const std::string name = node.find("text")->text();
        const bool is_parameter = name.starts_with("{");
        if (is_parameter != parameter || depth >= parts.size()) continue;
        if (!is_parameter && name != parts[depth]) continue;
        const text::Value* children = node.find("children");
        const text::Value* found = nullptr;
        if (depth + 1 == parts.size() || (is_parameter && name == "{volume}")) {
          found = node.find({"info", method});
        } else if (children != nullptr) {
          found = walk(*children, parts, depth + 1, method, bound);
        }
        if (found == nullptr) continue;
        if (is_parameter) bound[name.substr(1, name.size() - 2)] = parts[depth];
        return found;
      }
    }
    return nullptr;
  }

  text::Value root_;
};

const text::Value* find_property(const text::Value& properties, const std::string& name) {
  if (const text::Value* exact = properties.find(name)) return exact;
  const std::string_view kind = family(name);
  return kind.size() < name.size() ? properties.find(fmt::format("{}[n]", kind)) : nullptr;
}

std::string complaint_about(const text::Value& property, const std::string& value) {
  const text::Value* type = property.find("type");
  const std::string kind = type != nullptr && type->is_string() ? type->text() : "string";
  if (kind == "boolean" && value != "0" && value != "1") return "is no boolean";
  if (kind == "integer") {
    const auto number = parse_int(value);
    if (!number) return "is no integer";
    if (const text::Value* least = property.find("minimum"))
      if (static_cast<double>(*number) < least->as_float().value_or(-1e300))
        return "is below the minimum";
    if (const text::Value* most = property.find("maximum"))
      if (static_cast<double>(*number) > most->as_float().value_or(1e300))
        return "is over the maximum";
  }
  if (const text::Value* words = property.find("enum"); words != nullptr && words->is_list()) {
    bool known = false;
    for (const text::Value& word : words->items()) known = known || word.text() == value;
    if (!known) return "is not in the enumeration";
  }
  if (const text::Value* longest = property.find("maxLength"))
    if (value.size() > longest->as_uint().value_or(SIZE_MAX)) return "is too long";
  // A property string: its keys must be in the format, which the schema spells out.
  if (const text::Value* format = property.find("format"); format != nullptr && format->is_map()) {
    for (const std::string& element : split(value, ',')) {
      const std::size_t equals = element.find('=');
      if (equals == std::string::npos) continue;
      if (format->find(element.substr(0, equals)) == nullptr)
        return "has an unknown key in '" + element + "'";
    }
  }
  return "";
}

std::map<std::string, std::string> decode_form(std::string_view text) {
  std::map<std::string, std::string> parameters;
  for (const std::string& pair : split(text, '&')) {
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    parameters[percent_decode(pair.substr(0, equals))] = percent_decode(pair.substr(equals + 1));
  }
  return parameters;
}

/// Every call of the client, each with everything it can send.
std::vector<net::Request> every_request() {
  constexpr std::string_view upid_text =
      "UPID:pve1:00001ED0:00035693:66343A23:qmstart:100:root@pam!rocca:";
  ScriptedTransport transport{[&](const net::Request& request) {
    if (request.url.ends_with("/version"))
      return json_answer(200, "OK", R"({"data":{"version":"9.1.4"}})");
    if (request.method == "GET")
      return json_answer(
          200, "OK",
          request.url.find("nextid") != std::string::npos ? R"({"data":"100"})" : R"({"data":[]})");
    return json_answer(200, "OK", fmt::format(R"({{"data":"{}"}})", upid_text));
  }};
  test::Administrator client{
      transport, {{"https://pve1:8006"}, Secret("root@pam!rocca=x"), net::Tls::unverified()}};
  const Upid upid = *Upid::parse(upid_text);
  client.version();
  client.nodes();
  client.cluster_status();
  client.options();
  client.vms();
  client.bridges("pve1");
  client.vnet_zones();
  client.machine_types("pve1");
  client.cpu_models("pve1");
  client.certificates("pve1");
  client.next_free_vmid();
  client.vmid_is_free(100);
  client.permissions("/vms/100");
  client.permissions("");
  client.grants();
  client.has_interface("pve1", "vmbr0");
  client.cluster_log(500);
  client.pools();
  client.storages("pve1");
  client.volumes("pve1", "local", "import", 100);
  client.url_metadata("pve1", "https://factory.talos.dev/image/x/v1.11.5/nocloud-amd64.qcow2");
  client.start_download(
      "pve1", {"local", "import", "talos.qcow2", "https://factory.talos.dev/x.qcow2", "sha256",
               std::string(64, '0'), false});
  client.start_delete_volume("pve1", "local:import/talos.qcow2");
  client.find_config("pve1", 100, true);
  client.pending("pve1", 100);
  client.find_status("pve1", 100);
  VmCreate create;
  create.vmid = 100;
  create.name = "cp-1";
  create.pool = "talos";
  create.description = "made by rocca";
  create.tags = {"rocca", "blue"};
  create.balloon_mib = 0;
  create.smbios = Smbios{*Uuid::parse("6e1d2f5a-0000-4000-8000-000000000001"),
                         "m",
                         "p",
                         "v",
                         "s",
                         "blue/cp-1",
                         "rocca"};
  create.efi_disk = EfiDisk{"local-lvm", false};
  Drive system;
  system.storage = "local-lvm";
  system.import_from = "local:import/talos.qcow2";
  system.discard = system.iothread = system.ssd = system.backup = system.replicate = true;
  system.cache = "writeback";
  system.aio = "io_uring";
  system.serial = "system";
  system.format = "raw";
  Drive cloud_init;
  cloud_init.storage = "local-lvm";
  cloud_init.cloud_init = true;
  create.drives = {{"scsi0", system}, {"ide2", cloud_init}};
  Nic nic;
  nic.mac = MacAddress::parse("BC:24:11:01:02:03");
  nic.bridge = "vmbr0";
  nic.vlan = 20;
  nic.mtu = 1500;
  nic.queues = 4;
  nic.firewall = true;
  create.nics = {nic};
  create.ip_configs = {{"10.0.0.11/24", "10.0.0.1", "fd00::11/64", "fd00::1"}};
  create.nameservers = {"1.1.1.1", "8.8.8.8"};
  create.search_domain = "home";
  create.boot_order = {"scsi0"};
  create.serial_port = "socket";
  create.pci_mappings = {proxmox::PciMapping{"gpu"}};
  client.start_create("pve1", create);
  VmUpdate update{
      {{"cores", "4"}, {"net0", nic.print()}, {"scsi0", "local-lvm:vm-100-disk-0,ssd=1"}},
      {"ide0"},
      {"memory"},
      std::string(40, 'a')};
  client.start_update("pve1", 100, update);
  client.update("pve1", 100, update);
  client.start_resize("pve1", 100, "scsi0", Bytes::gib(40), std::string(40, 'a'));
  client.start_clone("pve1", {100, 101, "cp-2", "a note", "talos", "local-lvm", true, "pve2"});
  client.start_template("pve1", 100);
  client.start_destroy("pve1", 100, true);
  client.regenerate_cloud_init("pve1", 100);
  client.start_vm("pve1", 100);
  client.start_stop("pve1", 100, true);
  client.start_shutdown("pve1", 100, std::chrono::seconds{60}, true);
  client.start_reboot("pve1", 100, std::chrono::seconds{60});
  client.start_reset("pve1", 100);
  client.start_migrate("pve1", 100, "pve2", true);
  client.find_agent_interfaces("pve1", 100);
  client.find_task(upid);
  client.task_log(upid);
  client.tasks("pve1", {100, "qmstart", Instant{}, true, true, 10});
  client.stop_task(upid);
  return transport.requests;
}

TEST(Requests, AreWhatBothOfficialSchemasAllow) {
  for (const char* file : {"facts/pve-api.json", "facts/pve-api-8.4.json"}) {
    const auto found = test::find_shared(file);
    if (!found) GTEST_SKIP();
    const Schema schema{*found};
    for (const net::Request& request : every_request()) {
      const std::string url = request.url.substr(std::string("https://pve1:8006/api2/json").size());
      const std::string path = url.substr(0, url.find('?'));
      SCOPED_TRACE(fmt::format("{} {} in {}", request.method, path, file));
      std::map<std::string, std::string> parameters;
      const text::Value* method = schema.find(request.method, path, parameters);
      ASSERT_NE(method, nullptr) << "no such method";
      std::string_view encoded;
      if (const auto* body = std::get_if<std::string>(&request.body)) encoded = *body;
      if (const std::size_t mark = url.find('?'); mark != std::string::npos)
        encoded = std::string_view(url).substr(mark + 1);
      for (auto& [name, value] : decode_form(encoded)) parameters[name] = value;
      const text::Value* properties = method->find({"parameters", "properties"});
      for (const auto& [name, value] : parameters) {
        const text::Value* property =
            properties != nullptr ? find_property(*properties, name) : nullptr;
        ASSERT_NE(property, nullptr) << name << " is no parameter of it";
        EXPECT_EQ(complaint_about(*property, value), "") << name << "=" << value;
      }
      if (properties != nullptr)
        for (const text::Entry& property : properties->entries()) {
          const text::Value* optional = property.value.find("optional");
          const bool required = optional == nullptr || optional->text() == "0";
          EXPECT_TRUE(!required || parameters.contains(property.key))
              << property.key << " is required";
        }
      test::count_case();
    }
  }
}

}  // namespace
}  // namespace rocca::proxmox
