#pragma once

#include <string>
#include <vector>

/// What the lab's Image Factory has on its shelves.
namespace rocca::lab {

std::vector<std::string> talos_releases();  // "v1.9.0", …

struct OfferedExtension {
  std::string name;  // without siderolabs/
  unsigned first = 0;
  unsigned last = 0;  // Talos minors, both included
};
std::vector<OfferedExtension> offered_extensions();

}  // namespace rocca::lab
