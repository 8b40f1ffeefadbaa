#include "lab/services/internet.hpp"

#include "lab/sim/network.hpp"
#include "lab/sim/world.hpp"

namespace rocca::lab {

Internet::Internet(World& world, Web& web, ImageFactory& factory)
    // Few seeds share the keys, so that certificates need not be made for every life.
    : roots(SeededEntropy{world.seed() % 8}.fork("internet"), "Lab Public Root", world.now()),
      infisical(world) {
  Network& network = world.network();
  const auto open = [&](const char* service, const char* address,
                        const std::vector<std::string>& names, net::Handler handler) {
    for (const std::string& name : names) network.set_name(name, address);
    network.open(address, 443,
                 {service, std::nullopt, std::move(handler), [this, &world, names, address] {
                    Authority::Subject subject;
                    subject.common_name = names.front();
                    subject.names = names;
                    subject.names.emplace_back(address);
                    net::ServerTls tls;
                    tls.identity = roots.issue(subject, world.now());
                    tls.identity.certificate_pem += roots.certificate_pem();
                    return tls;
                  }});
  };
  open("factory", factory_address, {"factory.talos.dev"}, factory.handler());
  open("infisical", infisical_address,
       {"infisical.home", "app.infisical.com", "eu.infisical.com", "us.infisical.com"},
       infisical.handler());
  open("releases", releases_address,
       {"github.com", "raw.githubusercontent.com", "release-assets.githubusercontent.com"},
       releases.handler());
  // In clear text too: a client outside of this process may not know the authority.
  network.open(factory_address, 80, {"factory", std::nullopt, factory.handler()});
  factory.serve(web);
  factory.serve(web, "http://factory.talos.dev");
  // Somebody has asked the public factory for these two before; it knows them for ever.
  factory.add("customization: {}");
  factory.add(
      "customization: {systemExtensions: {officialExtensions: [siderolabs/qemu-guest-agent]}}");

  Infisical::Project& homelab = infisical.add_project("homelab", {"dev", "prod"});
  project_id = homelab.id;
  Infisical::Identity& writer = infisical.add_identity();
  writer.roles[project_id] = Infisical::Role::Member;
  client_id = writer.client_id;
  client_secret = writer.client_secret;
  Infisical::Identity& reader = infisical.add_identity();
  reader.roles[project_id] = Infisical::Role::Viewer;
  reader_id = reader.client_id;
  reader_secret = reader.client_secret;
}

std::string public_roots(const Network& network) {
  const Service* server = network.find(Internet::factory_address, 443);
  if (server == nullptr || !server->secured()) return "";
  const std::string& chain = server->secured()->identity.certificate_pem;
  return chain.substr(chain.rfind("-----BEGIN CERTIFICATE-----"));
}

}  // namespace rocca::lab
