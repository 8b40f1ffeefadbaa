#pragma once

#include "base/secret.hpp"
#include "scaffold/scaffold.hpp"
#include "secrets/bundle.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace rocca::cli {

struct Context;

/// The repository around a folder: where .sops.yaml, clusters/ or .git is; else the folder itself.
std::string repository(Context& context, const std::string& around);
/// The one around the working directory.
std::string repository(Context& context);

/// The public half of the user's age key, which is made if there is none; `tell_about` then says
/// so.
struct AgeKey {
  std::string recipient;
  std::string made_at;  // the file, if it was made now
};
AgeKey age_key(Context& context);
void tell_about(const AgeKey& key, Context& context);

/// Writes the files of a new cluster, with the Talos bundle given or a fresh one in
/// secrets.sops.yaml, encrypted as the repository's .sops.yaml says; the user's age key is made if
/// there is none. `make` gives the files for an age recipient, `known` the secrets that are there
/// already (`proxmox.token`). Everything that can be refused is refused before the first file is
/// made; what is there already is never overwritten.
void write_cluster(Context& context, const std::string& root,
                   const std::function<spec::Scaffold(const std::string& recipient)>& make,
                   const std::map<std::string, Secret>& known = {},
                   std::optional<secrets::Bundle> bundle = {});

/// The VM ids that the other clusters of the repository have pinned or locked: they may not be up
/// yet, and their ids are theirs all the same.
std::set<std::uint64_t> vmids_of_others(Context& context, const std::string& root,
                                        const std::string& cluster);

}  // namespace rocca::cli
