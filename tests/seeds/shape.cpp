#include "seeds/shape.hpp"

#include <fmt/format.h>

namespace rocca::seeds {

namespace {

/// A DHCP server with few addresses: whoever has to be searched for is soon found.
constexpr const char* leases = "10.0.200.1-10.0.200.13";
constexpr const char* searched = "10.0.200.0/28";
constexpr const char* beside_leases = "10.0.200.14";

Shape::Addressing draw_addressing(Dice& dice) {
  switch (dice.below(16)) {
    case 0:
    case 1:
      return Shape::Addressing::Dhcp;
    case 2:
      return Shape::Addressing::Searched;
    case 3:
      return Shape::Addressing::Meta;
    default:
      return Shape::Addressing::Static;
  }
}

Shape::Boot draw_boot(Dice& dice) {
  switch (dice.below(14)) {
    case 0:
      return Shape::Boot::Iso;
    case 1:
      return Shape::Boot::Template;
    default:
      return Shape::Boot::Import;
  }
}

const char* boot_of(const Shape& shape) {
  switch (shape.boot) {
    case Shape::Boot::Import:
      return "import";
    case Shape::Boot::Iso:
      return "iso";
    case Shape::Boot::Template:
      return "{ template: talos-template }";
  }
  return "";
}

std::string network_of(const Shape& shape) {
  switch (shape.addressing) {
    case Shape::Addressing::Dhcp:
      return "{ addressing: dhcp }";
    case Shape::Addressing::Searched:
      return fmt::format("{{ addressing: dhcp, subnet: {} }}", searched);
    default:
      return fmt::format(
          "{{ addressing: {}, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }}",
          shape.addressing == Shape::Addressing::Meta ? "meta" : "static");
  }
}

Shape::Existing draw_existing(Dice& dice) {
  switch (dice.below(14)) {
    case 0:
      return Shape::Existing::Worker;
    case 1:
      return Shape::Existing::All;
    default:
      return Shape::Existing::None;
  }
}

Shape::Place draw_place(Dice& dice) {
  switch (dice.below(14)) {
    case 0:
      return Shape::Place::Kubernetes;
    case 1:
      return Shape::Place::S3;
    case 2:
      return Shape::Place::Http;
    default:
      return Shape::Place::Folder;
  }
}

std::string machines_of(const Shape& shape) {
  std::string text;
  for (const Shape::Machine& machine : shape.machines())
    text +=
        fmt::format("    {}: {{ role: {}, address: {}, existing: true }}\n", machine.node,
                    machine.node.starts_with("cp") ? "controlplane" : "worker", machine.address);
  return text.empty() ? "" : "  nodes:\n" + text;
}

std::string proxmox_of(const Shape& shape) {
  if (shape.existing == Shape::Existing::All) return "";
  std::string hosts = "pve1";
  for (unsigned i = 2; i <= shape.hosts; ++i) hosts += fmt::format(", pve{}", i);
  return fmt::format(
      "  proxmox:\n    endpoints: [https://pve.home:8006]\n    insecure: true\n"
      "    token: {{ secret: proxmox.token }}\n    hosts: [{}]\n",
      hosts);
}

std::string pools_of(const Shape& shape) {
  if (shape.existing == Shape::Existing::All) return "";
  const auto addresses = [&](const char* range) {
    return shape.dhcp() ? std::string() : fmt::format(", addresses: {}", range);
  };
  return fmt::format(
      "  pools:\n    cp: {{ role: controlplane, count: {}{} }}\n"
      "    worker: {{ count: {}{}, machine: {{ memory: 8GiB, cores: 4 }} }}\n",
      shape.planes, addresses("10.0.1.11-10.0.1.15"), shape.workers,
      addresses("10.0.1.21-10.0.1.40"));
}

}  // namespace

std::vector<Shape::Machine> Shape::machines() const {
  if (existing == Existing::None) return {};
  if (existing == Existing::Worker) return {{700, "metal", "10.0.3.1"}};
  std::vector<Machine> all;
  for (unsigned i = 1; i <= planes; ++i)
    all.push_back({700 + i, fmt::format("cp-{}", i), fmt::format("10.0.3.{}", i)});
  for (unsigned i = 1; i <= workers; ++i)
    all.push_back({710 + i, fmt::format("worker-{}", i), fmt::format("10.0.3.{}", 10 + i)});
  return all;
}

std::vector<std::string> Shape::vms() const {
  if (existing == Existing::All) return {};
  std::vector<std::string> all;
  for (unsigned i = 1; i <= planes; ++i) all.push_back(fmt::format("cp-{}", i));
  for (unsigned i = 1; i <= workers; ++i) all.push_back(fmt::format("worker-{}", i));
  return all;
}

Shape draw_shape(Dice& dice, std::uint64_t bundles) {
  Shape shape;
  shape.hosts = dice.one_in(2) ? 1 : dice.between(2, 3);
  // Most are small, because most mistakes show there and more lives find more of them.
  shape.planes = dice.one_in(16) ? 3 : 1;
  shape.workers = !dice.one_in(3) ? 0 : dice.one_in(6) ? 2 : 1;
  shape.new_release = !dice.one_in(2);
  shape.bundle = dice.below(bundles);
  shape.addressing = draw_addressing(dice);
  // What META holds is part of an image of the node's own.
  if (shape.addressing != Shape::Addressing::Meta) shape.boot = draw_boot(dice);
  shape.vip = !shape.dhcp() || dice.one_in(2);
  // They have guest agents, and one image is for all nodes of a cluster.
  if (shape.agent()) shape.existing = draw_existing(dice);
  if (shape.existing == Shape::Existing::All) {
    shape.addressing = Shape::Addressing::Static;
    shape.boot = Shape::Boot::Import;
  }
  shape.place = draw_place(dice);
  shape.sealed = dice.one_in(20);  // it doubles what a run costs
  return shape;
}

lab::Home::Options home_of(std::uint64_t seed, const Shape& shape) {
  lab::Home::Options options;
  options.seed = seed;
  options.release = shape.new_release ? lab::pve::Release::v9() : lab::pve::Release::v8_4();
  options.hosts = lab::parse_hosts(std::to_string(shape.hosts));
  // While a control plane joins, every second question for etcd's members reaches the learner.
  options.node_timing.learner_answers = 500;
  options.lans = {{.wire = "vmbr0",
                   .subnet = *Cidr::parse("10.0.0.0/16"),
                   .gateway = IpAddress::parse("10.0.0.1"),
                   .pool = AddressRange::parse(leases),
                   .resolvers = {"10.0.0.1"}}};
  return options;
}

std::string spec_of(const Shape& shape) {
  const bool agent = shape.agent();
  return fmt::format(
      "apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: {{ name: blue }}\nspec:\n"
      "  talos: {{ version: v1.11.5, extensions: [{}], boot: {} }}\n"
      "  kubernetes: {{ version: v1.34.1{} }}\n"
      "  network: {}\n{}{}{}{}  timeouts: {{ boot: 4m, bootstrap: 5m }}\n",
      agent ? "qemu-guest-agent" : "", boot_of(shape),
      shape.vip ? fmt::format(", endpoint: {{ vip: {} }}", beside_leases) : "", network_of(shape),
      proxmox_of(shape), agent ? "" : "  machine: { agent: false }\n", pools_of(shape),
      machines_of(shape));
}

}  // namespace rocca::seeds
