#include "lab/pve/resources.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

std::uint64_t parse_size(std::string_view text) {
  std::uint64_t value = 0;
  std::size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
    value = value * 10 + static_cast<std::uint64_t>(text[i] - '0');
  const std::string_view unit = text.substr(i);
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  if (unit == "G") return value << 30;
  if (unit == "T") return value << 40;
  return value;
}

std::string join_content(const Storage& storage) {
  return join(storage.content, ",");
}

}  // namespace

std::uint64_t boot_disk_size(Datacenter&, const Vm& vm) {
  std::vector<std::string> candidates;
  if (const std::string* boot = vm.find("boot"))
    if (const std::size_t at = boot->find("order="); at != std::string::npos)
      candidates = split_list(boot->substr(at + 6));
  if (const std::string* bootdisk = vm.find("bootdisk")) candidates.push_back(*bootdisk);
  for (const std::string& key : candidates) {
    const std::string* drive = vm.find(key);
    if (drive == nullptr || drive->find("media=cdrom") != std::string::npos ||
        key.starts_with("net"))
      continue;
    for (const std::string& part : split(*drive, ','))
      if (part.starts_with("size=")) return parse_size(std::string_view(part).substr(5));
    return 0;
  }
  return 0;
}

unsigned cpu_count(const Vm& vm, const Node& node) {
  const auto number_of = [&](const char* key, unsigned fallback) {
    const std::string* value = vm.find(key);
    return value == nullptr ? fallback
                            : static_cast<unsigned>(parse_uint(*value).value_or(fallback));
  };
  const unsigned all = number_of("vcpus", number_of("sockets", 1) * number_of("cores", 1));
  return std::min(all, node.cpus);
}

std::uint64_t memory_of(const Vm& vm) {
  const std::string* value = vm.find("memory");
  if (value == nullptr) return 512ull << 20;
  std::string text = *value;
  if (text.starts_with("current=")) text = text.substr(8);
  return parse_uint(text).value_or(512) << 20;
}

text::Value vm_resource(Datacenter& dc, const Vm& vm) {
  text::Value row = object({{"id", string(fmt::format("qemu/{}", vm.id))},
                            {"type", string("qemu")},
                            {"vmid", number(vm.id)},
                            {"node", string(vm.node)}});
  if (const std::string* tags = vm.find("tags")) row.set("tags", string(*tags));
  if (const std::string* lock = vm.find("lock")) row.set("lock", string(*lock));
  const Node* node = dc.find_node(vm.node);
  if (!vm.broadcast.known || node == nullptr || !node->online) {
    row.set("status", string("unknown"));
    return row;
  }
  const bool running = vm.broadcast.status == "running";
  row.set("status", string(vm.broadcast.status));
  row.set("name", string(vm.broadcast.name));
  row.set("template", number(vm.broadcast.is_template ? 1 : 0));
  const auto uptime =
      std::chrono::duration_cast<std::chrono::seconds>(dc.world.now() - vm.started).count();
  row.set("uptime", number(running ? uptime : 0));
  const Counters counters = running && dc.counters_of ? dc.counters_of(vm) : Counters{};
  row.set("cpu", counters.cpu == 0 ? number(0) : text::Value::floating(counters.cpu));
  row.set("maxcpu", number(cpu_count(vm, *node)));
  row.set("mem", number(running ? static_cast<std::int64_t>(memory_of(vm) / 2) : 0));
  row.set("maxmem", number(static_cast<std::int64_t>(memory_of(vm))));
  row.set("disk", number(0));
  row.set("maxdisk", number(static_cast<std::int64_t>(boot_disk_size(dc, vm))));
  const std::pair<const char*, std::uint64_t> counted[] = {{"netin", counters.net_in},
                                                           {"netout", counters.net_out},
                                                           {"diskread", counters.disk_read},
                                                           {"diskwrite", counters.disk_written}};
  for (const auto& [key, value] : counted) row.set(key, number(static_cast<std::int64_t>(value)));
  if (dc.release.nine())
    row.set("memhost", number(running ? static_cast<std::int64_t>(memory_of(vm)) : 0));
  return row;
}

std::optional<text::Value> storage_resource(Datacenter& dc, const std::string& id,
                                            const Node& node) {
  const Storage* storage = dc.find_storage(id);
  if (storage == nullptr || storage->disabled || !storage->on_node(node.name)) return std::nullopt;
  text::Value row = object({{"id", string(fmt::format("storage/{}/{}", node.name, id))},
                            {"type", string("storage")},
                            {"storage", string(id)},
                            {"node", string(node.name)},
                            {"plugintype", string(storage->type)},
                            {"content", string(join_content(*storage))},
                            {"shared", number(storage->shared ? 1 : 0)}});
  if (node.online) {
    row.set("status", string("available"));
    row.set("disk", number(static_cast<std::int64_t>(storage->used(node.name))));
    row.set("maxdisk", number(static_cast<std::int64_t>(storage->total)));
  } else {
    row.set("status", string("unknown"));
  }
  return row;
}

text::Value node_resource(const Datacenter& dc, const Node& node, bool usage) {
  text::Value row = object({{"id", string("node/" + node.name)},
                            {"type", string("node")},
                            {"node", string(node.name)},
                            {"status", string(node.online ? "online" : "offline")},
                            {"level", string("")}});
  if (!usage || !node.online) return row;
  row.set("cpu", number(0));
  row.set("maxcpu", number(node.cpus));
  row.set("mem", number(static_cast<std::int64_t>(node.memory / 4)));
  row.set("maxmem", number(static_cast<std::int64_t>(node.memory)));
  row.set("disk", number(8ll << 30));
  row.set("maxdisk", number(96ll << 30));
  row.set(
      "uptime",
      number(
          std::chrono::duration_cast<std::chrono::seconds>(dc.world.now() - node.booted).count()));
  return row;
}

}  // namespace rocca::lab::pve
