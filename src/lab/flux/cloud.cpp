// Proxmox's cloud controller manager: says of new nodes which VM they are and where.
#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/flux/flux.hpp"
#include "lab/flux/inside.hpp"
#include "lab/kube/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

namespace rocca::lab::flux {

using namespace std::chrono_literals;
using kube::set_at;
using kube::str;
using kube::text_at;
using text::Value;

namespace {

constexpr const char* controller = "proxmox-cloud-controller-manager";
constexpr const char* unseen = "node.cloudprovider.kubernetes.io/uninitialized";

bool is_unseen(const Value& node) {
  const Value* taints = node.find({"spec", "taints"});
  if (taints == nullptr || !taints->is_list()) return false;
  for (const Value& taint : taints->items())
    if (text_at(taint, {"key"}) == unseen) return true;
  return false;
}

}  // namespace

void Flux::look_at_nodes() {
  bool any = false;
  for (const auto& [key, node] : api_.storage().all("/nodes")) any = any || is_unseen(*node);
  if (!any || !runs(controller)) return;
  const auto again = [this] { after(20s, [this] { look_at_nodes(); }); };
  const kube::Object secret = find("/secrets", {"kube-system", controller});
  const auto config =
      secret ? from_base64(text_at(*secret, {"data", "config.yaml"})) : std::nullopt;
  if (!config) return again();
  Value cluster = Value::map();
  try {
    const Value read = text::parse_yaml(*config, "config.yaml");
    if (const Value* all = read.find("clusters"); all != nullptr && all->size() != 0)
      cluster = all->items().front();
  } catch (const Error&) {
    return again();
  }
  const std::string url = text_at(cluster, {"url"});
  const net::Headers headers{
      {"Authorization", fmt::format("PVEAPIToken={}={}", text_at(cluster, {"token_id"}),
                                    text_at(cluster, {"token_secret"}))}};
  const auto alive = std::weak_ptr<const bool>(alive_);
  ask_inside(world_, "GET", url + "/cluster/resources?type=vm", headers, "",
             [this, url, headers, again, region = text_at(cluster, {"region"}), alive](
                 int status, const std::string& body) {
               if (!alive.lock()) return;
               if (status != 200) {
                 world_.note(fmt::format("{} is answered {}", controller, status));
                 return again();
               }
               const Value answer = kube::read_json(body).value;
               const Value* rows = answer.find("data");
               if (rows == nullptr || !rows->is_list()) return again();
               // A VM is known by the UUID that its node's firmware shows.
               for (const Value& row : rows->items())
                 ask_inside(world_, "GET",
                            fmt::format("{}/nodes/{}/qemu/{}/config", url, text_at(row, {"node"}),
                                        text_at(row, {"vmid"})),
                            headers, "",
                            [this, alive, region, row](int code, const std::string& config_of) {
                              if (!alive.lock() || code != 200) return;
                              claim_node(row, kube::read_json(config_of).value, region);
                            });
               again();
             });
}

/// The node that runs in this VM gets its place, and may be used.
void Flux::claim_node(const Value& row, const Value& vm, const std::string& region) {
  const std::string firmware = to_lower(text_at(vm, {"data", "smbios1"}));
  Key key;
  for (const auto& [name, node] : api_.storage().all("/nodes"))
    if (is_unseen(*node) &&
        firmware.find("uuid=" + to_lower(text_at(*node, {"status", "nodeInfo", "systemUUID"}))) !=
            std::string::npos)
      key = name;
  if (key.name.empty()) return;
  const kube::Write write{
      controller, {"system:cloud-node-controller", {"system:masters"}}, false, "", nullptr, true};
  try {
    api_.server().update(
        *kind_of("/nodes"), key,
        [&](const Value& live) {
          Value out = live;
          std::erase_if(out.find({"spec", "taints"})->items(),
                        [](const Value& taint) { return text_at(taint, {"key"}) == unseen; });
          set_at(out, {"spec", "providerID"},
                 str(fmt::format("proxmox://{}/{}", region, text_at(row, {"vmid"}))));
          set_at(out, {"metadata", "labels", "topology.kubernetes.io/region"}, str(region));
          set_at(out, {"metadata", "labels", "topology.kubernetes.io/zone"},
                 str(text_at(row, {"node"})));
          return out;
        },
        write);
  } catch (const kube::Failure&) {
    // Somebody else was quicker; the next look finds it.
  }
}

}  // namespace rocca::lab::flux
