#pragma once

#include "base/secret.hpp"
#include "proxmox/client.hpp"
#include "proxmox/privileges.hpp"
#include "spec/spec.hpp"

#include <string>
#include <vector>

namespace rocca::resources {

/// A program that runs in the cluster and asks Proxmox with a token: the cloud controller manager,
/// the CSI plugin. With what it may do at the least.
struct HelperRights {
  std::string key;        // addons.proxmoxCsi
  std::string user;       // whom a token is made for: rocca-csi@pve
  std::string role;       // RoccaCSI
  spec::SecretRef token;  // where its token is kept: as the spec says, else proxmox.csi
  std::vector<proxmox::Need> needs;

  std::vector<std::string> privileges() const;  // sorted, each once
  std::vector<std::string> paths() const;
};

/// Those that the spec installs. Pure.
std::vector<HelperRights> helper_rights(const spec::Spec& spec, const Version& proxmox);

/// What whoever makes such a token must be allowed to: its role, its user, its grants.
std::vector<proxmox::Need> needs_to_mint(const HelperRights& helper);
/// Of these, what the client's own token lacks. Reads only.
std::vector<proxmox::Need> missing_to_mint(proxmox::Client& client, const HelperRights& helper);

/// Makes the token of one cluster, with just these rights: `rocca-csi@pve!CLUSTER=…`. Proxmox shows
/// it once: one of the same cluster (by its id) that nobody kept is made anew, and one of another
/// cluster is left alone (throws).
Secret mint_token(proxmox::Client& client, const HelperRights& helper, const std::string& cluster,
                  const std::string& cluster_id);

}  // namespace rocca::resources
