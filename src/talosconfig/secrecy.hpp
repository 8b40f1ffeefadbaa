#pragma once

#include "base/secret.hpp"
#include "secrets/bundle.hpp"
#include "talosconfig/codec.hpp"

#include <string>
#include <string_view>
#include <vector>

/// What of a machine configuration may be shown. A configuration that a node runs may hold secrets
/// that rocca no longer knows: they were rotated, their patch was removed, another machine applied
/// them. So a value read from a node is shown only where a secret cannot stand, where it equals
/// clear text of the spec, or where the state proves that it was clear text when it was applied.
namespace rocca::talos {

struct Secrecy {
  std::vector<Secret> hidden{};  // texts that are secret today, wherever they stand
  Secret key{};                  // of the digests in `remembered`: see `digest_key`
  std::string remembered{};      // what `remember` returned for the configuration applied last
};

/// Is the text one of these, or is a long one of these in it? Talos may put more around a secret (a
/// URL, a line).
bool holds_secret(std::string_view text, const std::vector<Secret>& hidden);

/// The key of every digest of secrets that a state holds. It is derived from the bundle and never
/// stored: who has only the state cannot try words against the digests.
Secret digest_key(const secrets::Bundle& bundle);

/// What the state keeps of a configuration that a node runs and that equals the rendered one: a
/// keyed digest of the whole, and one of every text in it that holds a secret. `text`: as it was
/// read from the node.
std::string remember(std::string_view text, unsigned minor, const Secrecy& secrecy);

/// A kind of place in a configuration: `machine.env.*`, `cluster.etcd.extraArgs.*`,
/// `WireguardConfig.privateKey`. Lists leave no trace in it, the keys of a map are `*`.
struct ConfigPlace {
  std::string path;
  Shape shape = Shape::Text;
};
/// Every place of a scalar in the configurations of that version.
std::vector<ConfigPlace> config_places(unsigned minor);
/// Can a secret stand there? If not, its values are always shown, and `{ secret: … }` is refused
/// there. What no table calls open can hold secrets.
bool can_hold_secret(std::string_view path, Shape shape);
/// The rows of that table: each must name a place that exists.
std::vector<std::string_view> open_places();

/// A value and where it stands.
struct FoundValue {
  std::string path;   // "machine.nodeLabels.zone", "HostnameConfig: hostname", as in ConfigProblem
  bool open = false;  // no secret can stand there
};
/// Every value that is this text.
std::vector<FoundValue> values_equal_to(const std::vector<ConfigDocument>& config, unsigned minor,
                                        std::string_view text);

/// Both sides of a difference with `***` for what may not be shown. Documents, keys and list items
/// stay as they are.
struct MaskedConfigs {
  std::vector<text::Value> before;  // as many as documents
  std::vector<text::Value> after;
};
/// `before_text`: as it was read, for the state's digest of it.
MaskedConfigs mask_both(std::string_view before_text, const std::vector<ConfigDocument>& before,
                        const std::vector<ConfigDocument>& after, unsigned minor,
                        const Secrecy& secrecy);

}  // namespace rocca::talos
