#include "lab/pve/datacenter.hpp"

namespace rocca::lab::pve {

std::vector<Route> qemu_routes() {
  return {};
}

}  // namespace rocca::lab::pve
