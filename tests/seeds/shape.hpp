#pragma once

#include "lab/data_centre.hpp"
#include "seeds/dice.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace rocca::seeds {

/// What a cluster is made of, and where: drawn once for a life, and changed by its user.
struct Shape {
  /// How nodes come to their addresses; `Searched`: by DHCP, and no guest agent tells of it.
  enum class Addressing { Static, Dhcp, Searched, Meta };
  /// How a VM comes to its Talos.
  enum class Boot { Import, Iso, Template };
  /// Which nodes are machines that were there before.
  enum class Existing { None, Worker, All };
  /// Where its state lives.
  enum class Place { Folder, Kubernetes, S3, Http };

  unsigned hosts = 1, planes = 1, workers = 0;
  bool new_release = true;
  std::uint64_t bundle = 0;
  Addressing addressing = Addressing::Static;
  Boot boot = Boot::Import;
  Existing existing = Existing::None;
  Place place = Place::Folder;
  bool sealed = false;  // with age
  bool vip = true;

  /// A machine that is nobody's VM to rocca, and one to the simulation.
  struct Machine {
    unsigned vmid = 0;
    std::string node, address;
  };
  std::vector<Machine> machines() const;
  /// Names of nodes that are VMs.
  std::vector<std::string> vms() const;

  bool agent() const { return addressing != Addressing::Searched; }
  bool dhcp() const { return addressing == Addressing::Dhcp || addressing == Addressing::Searched; }
};

/// With one of so many bundles.
Shape draw_shape(Dice& dice, std::uint64_t bundles);

/// The data centre around it.
lab::Home::Options home_of(std::uint64_t seed, const Shape& shape);

/// What its user writes.
std::string spec_of(const Shape& shape);

}  // namespace rocca::seeds
