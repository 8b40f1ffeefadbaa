#pragma once

#include "base/address.hpp"
#include "scaffold/scaffold.hpp"
#include "spec/spec.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace rocca::spec {

/// What a cluster occupies.
struct Claims {
  std::vector<AddressRange> addresses;
  std::set<std::int64_t> vmids;
  std::set<MacAddress> macs;
};

void claim(const Spec& spec, Claims& claims);

std::string below(const std::string& folder, const std::string& name);
/// From a cluster's folder up to the schema in clusters/.
std::string schema_path(const std::string& root, const std::string& folder);
/// The files that every cluster and every repository has.
void add_common(Scaffold& scaffold, const std::string& root, const std::string& recipient);
void require_name(const std::string& name);

/// `text` of another cluster's spec (the file `from`) with names, addresses, VM ids and MAC
/// addresses of its own. `others` are the specs that must not be met. Adds to `notes` what the user
/// still has to look at.
std::string copied_spec(Files& files, const std::string& name, const std::string& from,
                        std::string text, const Spec& spec, const std::vector<std::string>& others,
                        std::vector<std::string>& notes);

}  // namespace rocca::spec
