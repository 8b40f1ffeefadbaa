#include "factory/node_image.hpp"

#include "base/error.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::factory {

using text::Value;

namespace {

constexpr std::uint8_t network_key = 10;
constexpr const char* plain_names = "net.ifnames=0";
constexpr const char* link = "eth0";

Value str(std::string_view text) {
  return Value::string(std::string{text});
}

/// Talos fills nothing in: what is not written counts as zero, and an address of family 0 is none.
Value item(std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  Value map = Value::map();
  for (const auto& [key, value] : fields) map.set(key, str(value));
  map.set("layer", str("platform"));
  return map;
}

Value list_of(Value item) {
  Value list = Value::list();
  list.append(std::move(item));
  return list;
}

Schematic read_file(Files& files, const std::string& path) {
  Diagnostics problems;
  const std::string text = files.get(path);
  problems.remember(path, text);
  auto schematic = read_schematic(text, path, problems);
  if (schematic) return *schematic;
  for (const Problem& problem : problems.problems())
    if (problem.severity == Severity::Error)
      throw Error(Fault::Usage, fmt::format("{}: {}", to_string(problem.where), problem.message))
          .hint(problem.hint);
  throw Error(Fault::Usage, path + " is no schematic");
}

Schematic base_schematic(Files& files, const spec::Spec& spec, const spec::Image& image) {
  if (image.schematic) {
    const std::string& file = **image.schematic;
    return read_file(files, file.starts_with('/') ? file : spec.folder + "/" + file);
  }
  Schematic made;
  for (const auto& extension : image.extensions)
    made.extensions.push_back(extension_name(*extension));
  for (const auto& argument : image.kernel_args) made.kernel_args.push_back(*argument);
  return made;
}

}  // namespace

std::string meta_network(const spec::Spec& spec, const spec::Node& node) {
  if (!node.address || !spec.network.subnet)
    throw Error(Fault::Usage, fmt::format("{} has no address that META could hold", node.name));
  const bool v4 = (*node.address)->is_v4();
  const std::string family = v4 ? "inet4" : "inet6";
  Value root = Value::map();
  const std::string address =
      fmt::format("{}/{}", to_string(**node.address), (*spec.network.subnet)->prefix());
  root.set("addresses", list_of(item({{"address", address},
                                      {"linkName", link},
                                      {"family", family},
                                      {"scope", "global"},
                                      {"flags", "permanent"}})));
  Value eth = Value::map();
  eth.set("name", str(link));
  eth.set("logical", Value::boolean(false));
  eth.set("up", Value::boolean(true));  // also keeps the default DHCP away from it
  if (spec.network.mtu) eth.set("mtu", Value::integer(**spec.network.mtu));
  eth.set("type", str("ether"));
  eth.set("layer", str("platform"));
  root.set("links", list_of(std::move(eth)));
  if (spec.network.gateway) {
    Value route = item({{"family", family},
                        {"dst", ""},
                        {"gateway", to_string(**spec.network.gateway)},
                        {"outLinkName", link},
                        {"table", "main"},
                        {"scope", "global"},
                        {"type", "unicast"},
                        {"protocol", "static"}});
    route.set("priority", Value::integer(v4 ? 1024 : 2048));
    root.set("routes", list_of(std::move(route)));
  }
  root.set("hostnames", list_of(item({{"hostname", node.host_name}, {"domainname", ""}})));
  const auto servers = [&](const char* section, const char* key, const auto& texts) {
    if (texts.size() == 0) return;
    Value entry = item({});
    entry.set(key, texts);
    root.set(section, list_of(std::move(entry)));
  };
  Value resolvers = Value::list();
  for (const auto& server : spec.network.nameservers) resolvers.append(str(to_string(*server)));
  servers("resolvers", "dnsServers", resolvers);
  Value clocks = Value::list();
  for (const auto& server : spec.network.ntp) clocks.append(str(*server));
  servers("timeServers", "timeServers", clocks);
  return text::emit_yaml(root);
}

NodeImage node_image(Files& files, const spec::Spec& spec, const spec::Node& node) {
  const bool meta = *spec.network.addressing == spec::Addressing::Meta && !node.existing;
  const spec::Image& image = spec.image_of(node);
  if (image.schematic && is_schematic_id(**image.schematic)) {
    if (meta)
      throw Error(Fault::Usage, "with META addressing every node has a schematic of its own")
          .hint("give talos.extensions or a schematic file instead of an id");
    return {**image.schematic, std::nullopt};
  }
  Schematic schematic = base_schematic(files, spec, image);
  if (meta) {
    auto& arguments = schematic.kernel_args;
    if (std::find(arguments.begin(), arguments.end(), plain_names) == arguments.end())
      arguments.emplace_back(plain_names);
    schematic.meta.push_back({network_key, meta_network(spec, node)});
  }
  std::string id = schematic.id();
  return {std::move(id), std::move(schematic)};
}

}  // namespace rocca::factory
