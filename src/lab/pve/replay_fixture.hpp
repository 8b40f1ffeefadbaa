#pragma once

#include "lab/pve/datacenter.hpp"
#include "lab/sim/wire.hpp"
#include "text/value.hpp"

#include <map>
#include <memory>
#include <string>

namespace rocca::lab::pve {

/// The recorded server before a scenario: built from fixture.json, one host, its storages, users
/// and little web server.
class Fixture {
 public:
  explicit Fixture(const text::Value& description);

  World world;
  std::unique_ptr<Datacenter> dc;
  Wire wire{world};
  Node* node = nullptr;

  /// Sets exactly the grants a principal of the recording names, and gives the headers it sends.
  net::Headers act_as(const text::Value& principal);
  net::Headers root();
  /// "local:iso/gone.iso appears", done on the node; false: an unknown or impossible set-up step.
  bool out_of_band(const std::string& what);
  /// Two pools of an earlier recording, visible in the answers of `pve` only.
  void add_left_over_pools();

 private:
  /// The recording describes uploaded bytes in words; this says which file they mean.
  std::optional<WebFile> recognise(const std::string& bytes) const;
  bool remove_vm(unsigned id);

  std::map<std::string, std::string> secrets_;  // "tester@pve!sep" -> UUID
};

}  // namespace rocca::lab::pve
