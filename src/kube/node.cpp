#include "kube/node.hpp"

namespace rocca::kube {

bool cordon(Client& client, const std::string& node, bool on) {
  Value change = Value::map();
  change.set("spec", Value::map()).set("unschedulable", on ? Value::boolean(true) : Value::null());
  return client.patch(path_of(nodes, "", node), Patch::Merge, change).has_value();
}

bool remove_node(Client& client, const std::string& node, const std::string& uid) {
  Removal removal;
  removal.uid = uid;
  return client.remove(path_of(nodes, "", node), removal);
}

}  // namespace rocca::kube
