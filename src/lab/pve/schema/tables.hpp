#pragma once

#include <string_view>
#include <vector>

namespace rocca::lab::pve {

/// The calls of the Proxmox VE API that the lab plays, in a notation of our own, one call a
/// paragraph:
///
///   VERB /path | who | flags       who: all, world, root, handler, or the check expression; flags:
///   protected (runs
///                                  in pvedaemon), node (is forwarded), ticket (not for tokens)
///     name? type 1..9 len=1..9 enum=a,b format=x pattern=x needs=other; name …
///
/// `?` is optional, a missing type is a string, `key` marks the default key of a property string,
/// `alias=` another spelling; `8:` and `9:` in front belong to that release only. `group` names a
/// set that `use` repeats, `format` the keys of a property string. {node}, {vmid} and {storage} of
/// the path need no mention. The reference test pve-lab-schema compares all of it with Proxmox's
/// own description.
std::vector<std::string_view> schema_tables();

std::string_view access_table();
std::string_view cluster_table();
std::string_view storage_table();
std::string_view qemu_format_table();
std::string_view qemu_table();

}  // namespace rocca::lab::pve
