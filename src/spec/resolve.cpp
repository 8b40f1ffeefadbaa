#include "spec/resolve.hpp"

#include "base/address.hpp"
#include "base/strings.hpp"
#include "spec/fields.hpp"
#include "spec/validation/check.hpp"
#include "spec/validation/versions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace rocca::spec {

namespace {

using text::Kind;

TreePtr empty_map() {
  auto tree = std::make_shared<Tree>();
  tree->kind = Kind::Map;
  return tree;
}

TreePtr empty_list() {
  auto tree = std::make_shared<Tree>();
  tree->kind = Kind::List;
  return tree;
}

TreePtr scalar(std::string text, Kind kind, const Where& where) {
  auto tree = std::make_shared<Tree>();
  tree->kind = kind;
  tree->text = std::move(text);
  tree->where = where;
  return tree;
}

std::shared_ptr<Tree> with_member(const Tree& tree, std::string_view key, TreePtr value,
                                  const Where& where) {
  auto changed = std::make_shared<Tree>(tree);
  for (Member& member : changed->members)
    if (member.key == key) {
      member.value = std::move(value);
      return changed;
    }
  changed->members.push_back({std::string(key), where, std::move(value)});
  return changed;
}

class Resolver {
 public:
  explicit Resolver(Findings& findings)
      : findings_(findings),
        machine_field_(*find_field("spec.machine")),
        image_field_(*find_field("spec.nodes.*.talos")) {}

  Resolved run(const TreePtr& merged) {
    const TreePtr spec = merged->find("spec");
    TreePtr given = spec && spec->is_map() ? spec : empty_map();
    common_ = given->find("machine");
    auto rest = std::make_shared<Tree>(*given);
    std::erase_if(rest->members, [](const Member& member) {
      return member.key == "machine" || member.key == "nodes" || member.key == "pools";
    });
    const TreePtr settled = in_order(settle(in_order(rest)));
    talos_ = settled->find("talos");

    auto nodes = std::make_shared<Tree>();
    nodes->kind = Kind::Map;
    nodes_ = nodes.get();
    if (const TreePtr written = given->find("nodes"); written && written->is_map()) {
      nodes->where = written->where;
      for (const Member& member : written->members) add_written(member);
    }
    if (const TreePtr pools = given->find("pools"); pools && pools->is_map())
      for (const Member& member : pools->members) add_pool(member);

    auto outer = std::make_shared<Tree>(*with_defaults(without_spec(*merged), root()));
    std::erase_if(outer->members, [](const Member& member) {
      return member.key == "spec" || member.key == "bases";
    });
    const Member* place = merged->find_member("spec");
    outer->members.push_back(
        {"spec", place ? place->where : Where{}, with_member(*settled, "nodes", nodes, {})});
    return {outer, std::move(origins_)};
  }

 private:
  static TreePtr without_spec(const Tree& merged) {
    auto rest = std::make_shared<Tree>(merged);
    std::erase_if(rest->members, [](const Member& member) { return member.key == "spec"; });
    return rest;
  }

  static TreePtr in_order(const TreePtr& spec) {
    auto sorted = std::make_shared<Tree>(*with_defaults(spec, *root().find("spec")));
    std::erase_if(sorted->members, [](const Member& member) { return member.key == "machine"; });
    return sorted;
  }

  // Two spellings of one thing become one.
  static TreePtr settle(const TreePtr& spec) {
    TreePtr settled = spec;
    if (const TreePtr network = spec->find("network")) {
      const TreePtr mode = network->find("addressing");
      if (mode && mode->text == "static")
        settled = with_member(
            *settled, "network",
            with_member(*network, "addressing", scalar("nocloud", Kind::String, mode->where), {}),
            {});
    }
    if (const TreePtr talos = spec->find("talos"); talos && talos->is_map())
      settled = with_member(*settled, "talos", with_full_names(talos), {});
    if (const TreePtr addons = spec->find("addons"); addons && addons->is_map()) {
      const TreePtr metrics = addons->find("metricsServer");
      const bool wanted = metrics && (metrics->is_map() || metrics->text == "true");
      if (addons->find_member("certApprover") == nullptr)
        settled = with_member(*settled, "addons",
                              with_member(*addons, "certApprover",
                                          scalar(wanted ? "true" : "false", Kind::Bool, {}), {}),
                              {});
    }
    return settled;
  }

  static TreePtr with_full_names(const TreePtr& talos) {
    const TreePtr list = talos->find("extensions");
    if (!list || !list->is_list()) return talos;
    auto full = std::make_shared<Tree>(*list);
    for (TreePtr& item : full->items)
      item = scalar(full_extension_name(item->text), Kind::String, item->where);
    return with_member(*talos, "extensions", full, {});
  }

  /// What the image of a node is made of that has one of its own, or null. Its lists stand instead
  /// of the spec's, its schematic instead of both, and its extensions instead of the spec's
  /// schematic.
  TreePtr image(const TreePtr& own, const std::string& path) {
    if (!own || !own->is_map() || own->members.empty()) return nullptr;
    const auto known = images_.find(own.get());
    if (known != images_.end()) return known->second;
    const TreePtr schematic = own->find("schematic");
    const bool parts = own->find_member("extensions") != nullptr;
    auto inherited = std::make_shared<Tree>(*empty_map());
    if (talos_ && talos_->is_map() && (!schematic || schematic->kind == Kind::Null))
      for (const auto& child : image_field_.keys()) {
        const Member* member = talos_->find_member(child->key);
        if (member != nullptr && !(parts && member->key == "schematic"))
          inherited->members.push_back(*member);
      }
    auto given = std::make_shared<Tree>(*own);
    const TreePtr arguments = own->find("kernelArgs");
    // Which extensions there would be beside these arguments, nobody could see.
    if (arguments && !arguments->items.empty() && !schematic && inherited->find("schematic")) {
      findings_.add("schematic-conflict", own->find_member("kernelArgs")->where,
                    "the schematic in spec.talos already says which kernel arguments there are",
                    "give extensions as well, or a schematic of its own");
      std::erase_if(given->members, [](const Member& one) { return one.key == "kernelArgs"; });
    }
    TreePtr whole = with_full_names(complete(merge(inherited, given, &image_field_), image_field_,
                                             path, own->where, true, findings_));
    // Said in full: the resolved spec has to mean the same once more.
    if (!whole->find("schematic"))
      for (const char* key : {"extensions", "kernelArgs"})
        if (!whole->find(key)) whole = with_member(*whole, key, empty_list(), {});
    whole = with_defaults(whole, image_field_);
    images_.emplace(own.get(), whole);
    return whole;
  }

  TreePtr machine(const TreePtr& own, const std::string& path) {
    const auto known = machines_.find(own.get());
    if (known != machines_.end()) return known->second;
    TreePtr merged = merge(common_, own, &machine_field_);
    if (!merged || !merged->is_map()) merged = empty_map();
    TreePtr whole = with_defaults(
        complete(merged, machine_field_, path, merged->where, true, findings_), machine_field_);
    machines_.emplace(own.get(), whole);
    return whole;
  }

  static bool is_existing(const Tree& node) {
    const TreePtr existing = node.find("existing");
    return existing && (existing->is_map() || existing->text == "true");
  }

  void add(const std::string& name, const Where& where, std::vector<Member> members,
           Origin origin) {
    auto node = std::make_shared<Tree>();
    node->kind = Kind::Map;
    node->where = where;
    for (Member& member : members)
      if (member.value) node->members.push_back(std::move(member));
    nodes_->members.push_back({name, where, std::move(node)});
    origins_.push_back(std::move(origin));
  }

  static Member take(const Tree& tree, const char* key) {
    const Member* member = tree.find_member(key);
    return member ? *member : Member{key, {}, nullptr};
  }

  void add_written(const Member& written) {
    const Tree& node = *written.value;
    if (!node.is_map()) return;
    const bool existing = is_existing(node);
    const TreePtr own = node.find("machine");
    if (existing && own && !own->members.empty())
      findings_.add(
          "existing-machine", node.find_member("machine")->where,
          fmt::format("{} is already there, so `machine` has no effect on it", written.key),
          "take `machine` away, or take `existing` away and rocca makes a VM");
    const std::string path = fmt::format("spec.nodes.{}.machine", written.key);
    Member hardware{"machine", {}, existing ? nullptr : machine(own, path)};
    Member booted = take(node, "talos");
    booted.value = image(booted.value, fmt::format("spec.nodes.{}.talos", written.key));
    add(written.key, written.where,
        {take(node, "role"), take(node, "address"), existing ? take(node, "existing") : Member{},
         take(node, "labels"), take(node, "taints"), take(node, "patches"), std::move(booted),
         std::move(hardware)},
        {"", nullptr, node.find("patches")});
  }

  void add_pool(const Member& written) {
    const Tree& pool = *written.value;
    if (!pool.is_map()) return;
    const TreePtr count_tree = pool.find("count");
    const auto count = count_tree ? parse_uint(count_tree->text) : std::nullopt;
    const Member role = pool.find_member("role")
                            ? take(pool, "role")
                            : Member{"role", {}, scalar("worker", Kind::String, {})};
    const TreePtr hardware =
        machine(pool.find("machine"), fmt::format("spec.pools.{}.machine", written.key));
    Member booted = take(pool, "talos");
    booted.value = image(booted.value, fmt::format("spec.pools.{}.talos", written.key));
    std::vector<std::pair<AddressRange, Where>> ranges;
    if (const TreePtr list = pool.find("addresses"); list && list->is_list())
      for (const TreePtr& item : list->items)
        if (const auto range = AddressRange::parse(item->text))
          ranges.emplace_back(*range, item->where);
    std::size_t range = 0;
    std::uint64_t offset = 0;
    for (std::uint64_t i = 1; i <= count.value_or(0); ++i) {
      Member address{"address", {}, nullptr};
      while (range < ranges.size() && offset >= ranges[range].first.size()) {
        ++range;
        offset = 0;
      }
      if (range < ranges.size())
        if (const auto ip = ranges[range].first.at(offset++))
          address = {"address", ranges[range].second,
                     scalar(to_string(*ip), Kind::String, ranges[range].second)};
      add(fmt::format("{}-{}", written.key, i), written.where,
          {role, std::move(address), take(pool, "labels"), take(pool, "taints"),
           take(pool, "patches"), booted, Member{"machine", {}, hardware}},
          {written.key, pool.find("patches"), nullptr});
    }
  }

  Findings& findings_;
  const FieldNode& machine_field_;
  const FieldNode& image_field_;
  TreePtr common_;  // `machine` of all nodes
  TreePtr talos_;
  Tree* nodes_ = nullptr;
  std::vector<Origin> origins_;
  std::map<const Tree*, TreePtr> machines_;
  std::map<const Tree*, TreePtr> images_;
};

}  // namespace

Resolved resolve(const TreePtr& merged, Findings& findings) {
  return Resolver(findings).run(merged);
}

}  // namespace rocca::spec
