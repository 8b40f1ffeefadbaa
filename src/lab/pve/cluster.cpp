#include "lab/pve/datacenter.hpp"

namespace rocca::lab::pve {

namespace {

Routine<text::Value> version(Call& call) {
  co_return object({{"version", string(call.dc.release.manager)},
                    {"release", string(call.dc.release.release)},
                    {"repoid", string(call.dc.release.repoid)}});
}

}  // namespace

std::vector<Route> cluster_routes() {
  return {{"GET /version", version}, {"GET /nodes/{node}/version", version}};
}
std::vector<Route> node_routes() {
  return {};
}
std::vector<Route> storage_routes() {
  return {};
}
std::vector<Route> download_routes() {
  return {};
}
std::vector<Route> access_routes() {
  return {};
}

}  // namespace rocca::lab::pve
