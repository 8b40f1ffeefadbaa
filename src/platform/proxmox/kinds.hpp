#pragma once

#include "platform/kinds.hpp"

#include <map>
#include <string>

namespace rocca::resources {

// Addresses are stored in the state: never change one.
std::string schematic_address(const std::string& id);
std::string image_address(const std::string& storage, const std::string& host,
                          const std::string& file);
std::string media_address(const std::string& node);

/// The file of an image: named by its content, so that two clusters share one and a new one never
/// takes an old one's place.
std::string image_file(const Cluster& cluster, const spec::Node& node);

// Each makes one resource, or all of its kind.
Made make_schematic(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_image(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_vm(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_media(const Cluster& cluster, const spec::Node& node);

/// A fact of a VM when it settled, digest_options of it, so that `drift` can say who has changed it
/// since.
constexpr const char* options_seen = "options";

// Facts of a clone of a template that was asked for and has not settled, written before the call.
constexpr const char* clone_nonce = "cloneNonce";
constexpr const char* clone_vmid = "cloneVmid";
constexpr const char* clone_host = "cloneHost";
constexpr const char* clone_template = "cloneTemplate";

Made leftover_image(const Cluster& cluster, const Leftover& leftover);

/// Where the images of the spec's nodes would be, whether or not a state remembers them.
std::map<std::string, Fields> image_facts(const Cluster& cluster, const Ground& ground);

Made leftover_vm(const Cluster& cluster, const Leftover& leftover);

}  // namespace rocca::resources
