#pragma once

#include "kube/client.hpp"

#include <string>

namespace rocca::kube {

/// Marks a Node so that nothing new is scheduled there, or takes the mark away. False: no such
/// Node.
bool cordon(Client& client, const std::string& node, bool on = true);

/// Removes the Node object of a machine that is gone, and only that of the machine that was meant
/// (`uid` of an earlier look; empty: any). False: it was not there.
bool remove_node(Client& client, const std::string& node, const std::string& uid = "");

}  // namespace rocca::kube
