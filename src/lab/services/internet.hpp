#pragma once

#include "lab/services/factory.hpp"
#include "lab/services/infisical.hpp"
#include "lab/services/releases.hpp"
#include "lab/services/web.hpp"
#include "lab/sim/pki.hpp"

#include <string>

namespace rocca::lab {

class Network;
class World;

/// What the simulated home finds outside of itself: factory.talos.dev with its images, an Infisical
/// (app., eu. and us.infisical.com, and infisical.home) with one project, and github.com with the
/// releases of add-ons. Their certificates come from one public authority, which everybody on the
/// Wire trusts as a machine trusts its system's roots.
class Internet {
 public:
  // On sockets an address of 127.0.0.0/8 is what it is: the certificates are good for it, too.
  static constexpr const char* factory_address = "127.77.200.80";
  static constexpr const char* infisical_address = "127.77.200.81";
  static constexpr const char* releases_address = "127.77.200.82";

  /// Hosts download the factory's images through `web`.
  Internet(World& world, Web& web, ImageFactory& factory);

  Authority roots;
  Infisical infisical;
  Releases releases;

  /// The project `homelab` with the environments dev and prod, an identity that may read and write
  /// it, and one that may only read.
  std::string project_id;
  std::string client_id;
  std::string client_secret;
  std::string reader_id;
  std::string reader_secret;
  Infisical::Project& project() { return infisical.projects.at(project_id); }
};

/// Whom a caller trusts who trusts the roots of their system: the end of the chain that the servers
/// of the internet show. Empty in a world without them, where such a caller trusts nobody.
std::string public_roots(const Network& network);

}  // namespace rocca::lab
