#include "spec/scaffold.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/load.hpp"
#include "spec/locate.hpp"
#include "spec/read.hpp"
#include "spec/schema.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace rocca::spec {

namespace {

/// A line with its comment in a column of its own.
std::string noted(const std::string& line, const char* comment) {
  constexpr std::size_t column = 44;
  std::size_t width = 0;
  for (const char c : line) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1u : 0u;
  return line + std::string(width < column ? column - width : 2, ' ') + comment + "\n";
}

std::string spec_text(const std::string& schema, const std::string& name, const Site& site) {
  std::string text = fmt::format(
      R"(# yaml-language-server: $schema={schema}
# A Talos cluster on Proxmox. `rocca explain KEY` tells what a key means, `rocca validate` what is wrong.
apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: {name} }}
spec:
  talos:
    version: v1.11.5
    extensions: [qemu-guest-agent]          # short for siderolabs/…; add iscsi-tools, util-linux-tools for Longhorn
  kubernetes:
    version: v1.34.1                        # Talos 1.11 runs 1.29 to 1.34
)",
      fmt::arg("schema", schema), fmt::arg("name", name));
  if (site.vip)
    text += noted(fmt::format("    endpoint: {{ vip: {} }}", to_string(*site.vip)),
                  "# an address that nobody has; the control planes share it");
  std::vector<std::string> nameservers;
  for (const IpAddress& address : site.nameservers) nameservers.push_back(to_string(address));
  text += fmt::format(
      R"(    # cni: {{ cilium: {{ version: 1.18.4 }} }}  # flannel when left out
  network:
    addressing: static                      # or dhcp, meta
    subnet: {}
    gateway: {}
    nameservers: [{}]
  proxmox:
    endpoints: [{}]
)",
      to_string(site.subnet), to_string(site.gateway), join(nameservers, ", "),
      join(site.endpoints, ", "));
  text += site.fingerprint.empty() ? noted("    # fingerprint: \"AB:CD:…\"",
                                           "# `pvenode cert info` on the host; or caFile")
                                   : fmt::format("    fingerprint: \"{}\"\n", site.fingerprint);
  text += fmt::format(
      R"(    token: {{ secret: proxmox.token }}        # rocca secrets set secrets.sops.yaml proxmox.token
    hosts: [{}]
    storage: {{ images: {}, disks: {} }}
    bridge: {}
  machine: {{ cores: 2, memory: 4GiB, disks: {{ system: 20GiB }} }}   # for every node; nodes and pools may differ
  nodes:
)",
      join(site.hosts, ", "), site.images, site.disks, site.bridge);
  std::size_t number = 0;
  for (const IpAddress& address : site.control_planes)
    text += fmt::format("    cp-{}: {{ role: controlplane, address: {} }}\n", ++number,
                        to_string(address));
  if (site.workers > 0 && site.worker_addresses)
    text += fmt::format("  pools:\n    worker: {{ count: {}, addresses: {}-{} }}\n", site.workers,
                        to_string(site.worker_addresses->first()),
                        to_string(site.worker_addresses->last()));
  return text + fmt::format(R"(  # handover:
  #   flux: {{ url: https://github.com/YOU/fleet, path: clusters/{0}, auth: {{ secret: flux.git }} }}
  # backup: {{ schedule: "0 3 * * *", keep: 14, to: {{ folder: /srv/backups/{0} }} }}
)",
                            name);
}

constexpr const char* gitignore_text =
    "# Access files and local state; what is needed again is in Git or can be read from the live "
    "world.\n"
    "configs/\n.rocca/\n";

constexpr const char* envrc_text =
    "# For direnv; `source .envrc` does the same.\n"
    "export KUBECONFIG=\"$PWD/configs/kubeconfig\"\n"
    "export TALOSCONFIG=\"$PWD/configs/talosconfig\"\n";

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

std::string sops_text(const std::string& recipient) {
  return fmt::format(
      "# Who can read the secrets of this repository; `rocca secrets updatekeys` applies a "
      "change.\n"
      "creation_rules:\n  - path_regex: secrets\\.sops\\.ya?ml$\n    age: {}\n",
      recipient);
}

// From a cluster's folder up to the schema in clusters/.
std::string schema_path(const std::string& root, const std::string& folder) {
  const std::string top = below(root, "clusters");
  if (!folder.starts_with(top + "/")) return "../cluster.schema.json";
  const auto depth =
      std::count(folder.begin() + static_cast<std::ptrdiff_t>(top.size()), folder.end(), '/');
  std::string path;
  for (std::ptrdiff_t i = 0; i < depth; ++i) path += "../";
  return path + "cluster.schema.json";
}

void add_common(Scaffold& scaffold, const std::string& root, const std::string& recipient) {
  scaffold.files.push_back({below(scaffold.folder, ".gitignore"), gitignore_text, 0644, true});
  scaffold.files.push_back({below(scaffold.folder, ".envrc"), envrc_text, 0644, true});
  scaffold.files.push_back({below(root, ".sops.yaml"), sops_text(recipient), 0644, true});
  scaffold.files.push_back({below(root, "clusters/cluster.schema.json"),
                            text::emit_json(json_schema(), {.pretty = true}) + "\n", 0644, true});
}

void collect_references(const Tree& tree, std::set<std::string>& out) {
  for (const Member& member : tree.members) {
    if (member.key == "secret" && member.value->is_scalar() && tree.members.size() == 1)
      out.insert(member.value->text);
    collect_references(*member.value, out);
  }
  for (const TreePtr& item : tree.items) collect_references(*item, out);
}

void require_name(const std::string& name) {
  if (!is_dns_label(name))
    throw Error(Fault::Usage,
                fmt::format("`{}` cannot be a cluster's name: it is not a DNS label", name))
        .hint("1 to 63 of a-z, 0-9 and -, and no - at either end");
}

/// What a cluster occupies.
struct Claims {
  std::vector<AddressRange> addresses;
  std::set<std::int64_t> vmids;
  std::set<MacAddress> macs;
};

void claim(const Spec& spec, Claims& claims) {
  const auto one = [&](const IpAddress& address) {
    claims.addresses.emplace_back(address, address);
  };
  for (const Node& node : spec.nodes) {
    if (node.address) one(**node.address);
    if (!node.machine) continue;
    if (node.machine->vmid) claims.vmids.insert(**node.machine->vmid);
    for (const Nic& nic : node.machine->nics)
      if (nic.mac) claims.macs.insert(**nic.mac);
  }
  for (const Pool& pool : spec.pools)
    for (const auto& range : pool.ranges) claims.addresses.push_back(*range);
  if (spec.kubernetes.endpoint && spec.kubernetes.endpoint->vip)
    one(*spec.kubernetes.endpoint->vip->address);
}

/// Replaces places of one text, last first, so that earlier places stay right.
class Splice {
 public:
  explicit Splice(std::string text) : text_(std::move(text)) {}
  void replace(const Tree& tree, std::string with) {
    const bool quoted = text_[tree.begin] == '"' || text_[tree.begin] == '\'';
    changes_[tree.begin] = {tree.end, quoted ? "\"" + with + "\"" : std::move(with)};
  }
  std::string finish() const {
    std::string text = text_;
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change)
      text.replace(change->first, change->second.first - change->first, change->second.second);
    return text;
  }

 private:
  std::string text_;
  std::map<std::size_t, std::pair<std::size_t, std::string>> changes_;
};

/// `blue` in `clusters/blue` or `blue.k8s.home`, but not in `bluebird`.
std::string renamed(const std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  std::size_t at = 0;
  const auto inside = [&](std::size_t index) {
    const auto c = static_cast<unsigned char>(text[index]);
    return std::isalnum(c) != 0;
  };
  while (at < text.size()) {
    const std::size_t found = text.find(from, at);
    if (found == std::string::npos) break;
    const bool whole = (found == 0 || !inside(found - 1)) &&
                       (found + from.size() == text.size() || !inside(found + from.size()));
    result += text.substr(at, found - at) + (whole ? to : from);
    at = found + from.size();
  }
  return at < text.size() ? result + text.substr(at) : result;
}

class Copier {
 public:
  Copier(Files& files, std::string name, const std::string& from, const Loaded& loaded)
      : files_(files),
        name_(std::move(name)),
        from_(from),
        text_(files.get(from)),
        spec_(loaded.spec),
        splice_(text_) {}

  std::string run(const std::vector<std::string>& others, std::vector<std::string>& notes) {
    claim(spec_, own_);
    for (const std::string& other : others) {
      const Loaded loaded = load(files_, other);
      claim(loaded.spec, taken_);
    }
    claim(spec_, taken_);
    if (spec_.network.gateway)
      taken_.addresses.emplace_back(**spec_.network.gateway, **spec_.network.gateway);
    for (const auto& server : spec_.network.nameservers)
      taken_.addresses.emplace_back(*server, *server);
    shift_ = address_shift();
    vmid_shift_ = vmid_shift();
    Findings findings;
    findings.add_file(from_, text_);
    const TreePtr tree = parse_into(text_, 0, "yaml-syntax", findings);
    edit(*tree, "");
    require_all_moved();
    if (spec_.kubernetes.endpoint && spec_.kubernetes.endpoint->host) {
      const std::string& host = **spec_.kubernetes.endpoint->host;
      if (renamed(host, spec_.name.value, name_) == host)
        notes.push_back(fmt::format(
            "kubernetes.endpoint.host is still {}: give the new cluster its own", host));
    }
    require_own_state();
    if (vmid_shift_ != 0) notes.push_back(fmt::format("VM ids were raised by {}", vmid_shift_));
    return rename_comments(splice_.finish());
  }

 private:
  // What is commented out today is used tomorrow: a path with the other cluster's name would then
  // be shared.
  std::string rename_comments(const std::string& text) const {
    std::vector<std::string> lines = split(text, '\n');
    for (std::string& line : lines)
      if (trim(line).starts_with('#')) line = renamed(line, spec_.name.value, name_);
    return join(lines, "\n");
  }

  std::uint64_t address_shift() const {
    if (own_.addresses.empty()) return 0;
    IpAddress low = own_.addresses.front().first();
    IpAddress high = own_.addresses.front().last();
    for (const AddressRange& range : own_.addresses) {
      if (range.first().family() != low.family()) continue;
      low = std::min(low, range.first());
      high = std::max(high, range.last());
    }
    // Whole tens: 10.0.0.11 becomes 10.0.0.31, which people find again.
    const std::uint64_t span = high.minus(low).value_or(0) + 1;
    const std::uint64_t step = (span + 9) / 10 * 10;
    for (std::uint64_t shift = step; shift <= step * 4096; shift += step)
      if (fits(shift)) return shift;
    throw Error(Fault::Conflict,
                fmt::format("the subnet has no room for another block of {} addresses", span))
        .hint("give the new cluster a subnet of its own: `rocca new NAME` without --from");
  }

  bool fits(std::uint64_t shift) const {
    for (const AddressRange& range : own_.addresses) {
      const auto first = range.first().plus(shift);
      const auto last = range.last().plus(shift);
      if (!first || !last) return false;
      if (spec_.network.subnet && spec_.network.subnet->value.contains(range.first()) &&
          (!spec_.network.subnet->value.usable(*first) ||
           !spec_.network.subnet->value.usable(*last)))
        return false;
      const AddressRange moved(*first, *last);
      for (const AddressRange& other : taken_.addresses)
        if (moved.overlaps(other)) return false;
    }
    return true;
  }

  std::int64_t vmid_shift() const {
    if (own_.vmids.empty()) return 0;
    for (std::int64_t shift = 100;; shift += 100) {
      const bool free = std::none_of(own_.vmids.begin(), own_.vmids.end(), [&](std::int64_t id) {
        return taken_.vmids.contains(id + shift);
      });
      if (free) return shift;
    }
  }

  void edit(const Tree& tree, const std::string& path) {
    for (const Member& member : tree.members) {
      const std::string here = path.empty() ? member.key : path + "." + member.key;
      if (member.value->is_scalar())
        edit_scalar(*member.value, member.key, here);
      else if (member.key == "existing" && here.starts_with("spec.nodes."))
        splice_.replace(*member.value, "true");
      else
        edit(*member.value, here);
    }
    for (const TreePtr& item : tree.items) {
      if (item->is_scalar())
        edit_scalar(*item, "", path);
      else
        edit(*item, path);
    }
  }

  void edit_scalar(const Tree& scalar, const std::string& key, const std::string& path) {
    if (path == "metadata.name") return splice_.replace(scalar, name_);
    const bool address = (path.starts_with("spec.nodes.") && key == "address") ||
                         path == "spec.kubernetes.endpoint.vip";
    if (address) {
      if (const auto ip = IpAddress::parse(scalar.text)) move(scalar, AddressRange(*ip, *ip));
    } else if (path.starts_with("spec.pools.") && path.ends_with(".addresses")) {
      if (const auto range = AddressRange::parse(scalar.text)) move(scalar, *range);
    } else if (key == "vmid") {
      if (const auto id = parse_int(scalar.text))
        splice_.replace(scalar, std::to_string(*id + vmid_shift_));
    } else if (key == "mac") {
      if (auto mac = MacAddress::parse(scalar.text)) splice_.replace(scalar, free_mac(*mac));
    } else if (names_a_place(path)) {
      const std::string text = renamed(scalar.text, spec_.name.value, name_);
      if (text != scalar.text) splice_.replace(scalar, text);
    }
  }

  static bool names_a_place(const std::string& path) {
    for (const char* section : {"spec.state.", "spec.backup.", "spec.handover.", "spec.secrets.",
                                "spec.kubernetes.endpoint.host", "spec.kubernetes.certSANs"})
      if (path.starts_with(section))
        return path.find(".secret") == std::string::npos || path.starts_with("spec.secrets.");
    return false;
  }

  void move(const Tree& scalar, const AddressRange& range) {
    const AddressRange moved(*range.first().plus(shift_), *range.last().plus(shift_));
    splice_.replace(scalar, to_string(moved));
  }

  std::string free_mac(const MacAddress& mac) {
    auto bytes = mac.bytes();
    MacAddress next = mac;
    do {
      bytes[4] = static_cast<std::uint8_t>(bytes[4] + 1);
      if (bytes[4] == 0) bytes[3] = static_cast<std::uint8_t>(bytes[3] + 1);
      next = MacAddress(bytes);
    } while (taken_.macs.contains(next));
    taken_.macs.insert(next);
    return to_string(next);
  }

  // Two clusters that write one state destroy each other's.
  void require_own_state() const {
    std::string place;
    if (const auto* bucket = std::get_if<S3Place>(&spec_.state.place)) place = *bucket->key;
    if (const auto* http = std::get_if<HttpState>(&spec_.state.place)) place = *http->address;
    if (!place.empty() && renamed(place, spec_.name.value, name_) == place)
      throw Error(Fault::Usage, fmt::format("both clusters would keep their state in {}", place))
          .hint(fmt::format("put the cluster's name into the state's place in {}", from_));
  }

  // What stands in a base is shared by both clusters and cannot be changed for one of them.
  void require_all_moved() const {
    const auto own = [&](const Where& where, const std::string& what) {
      if (where.written() && where.file != 0)
        throw Error(Fault::Usage, fmt::format("{} stands in {}, which both clusters would share",
                                              what, to_string(spec_.position(where))))
            .hint(fmt::format("write it in {} first; a base is for what clusters have in common",
                              from_));
    };
    own(spec_.name.where, "the cluster's name");
    for (const Node& node : spec_.nodes) {
      if (node.address) own(node.address->where, fmt::format("the address of {}", node.name));
      if (node.machine && node.machine->vmid)
        own(node.machine->vmid->where, fmt::format("the VM id of {}", node.name));
    }
    if (spec_.kubernetes.endpoint && spec_.kubernetes.endpoint->vip)
      own(spec_.kubernetes.endpoint->vip->address.where, "the VIP");
  }

  Files& files_;
  std::string name_;
  std::string from_;
  std::string text_;
  const Spec& spec_;
  Splice splice_;
  Claims own_;
  Claims taken_;
  std::uint64_t shift_ = 0;
  std::int64_t vmid_shift_ = 0;
};

/// The folder of the new cluster: where the old one's name stands in the path, else beside it.
std::string new_folder(const std::string& old_folder, const std::string& old_name,
                       const std::string& name) {
  auto parts = split(old_folder, '/');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    if (*part == old_name) {
      *part = name;
      return join(parts, "/");
    }
  return path_below(folder_of(old_folder), name);
}

void copy_files(Files& files, const std::string& from, const std::string& to,
                std::vector<NewFile>& out) {
  const std::set<std::string> own = {spec_file_name, "secrets.sops.yaml", "rocca.lock", "configs"};
  for (const std::string& entry : files.list(from)) {
    if (own.contains(entry) || entry.starts_with('.')) continue;
    const std::string path = below(from, entry);
    const auto status = files.status(path);
    if (!status) continue;
    if (status->folder)
      copy_files(files, path, below(to, entry), out);
    else if (!entry.ends_with(".sops.yaml"))
      out.push_back({below(to, entry), files.get(path), status->mode, false});
  }
}

}  // namespace

Site Site::example() {
  const auto at = [](std::uint32_t last) { return IpAddress::v4(0xc0a80100u + last); };
  Site site;
  site.endpoints = {"https://pve.home:8006"};
  site.hosts = {"pve"};
  site.images = "local";
  site.disks = "local-lvm";
  site.bridge = "vmbr0";
  site.subnet = Cidr{at(0), 24};
  site.gateway = at(1);
  site.nameservers = {at(1)};
  site.vip = at(60);
  site.control_planes = {at(61), at(62), at(63)};
  site.workers = 2;
  site.worker_addresses = AddressRange{at(64), at(79)};
  return site;
}

void propose_addresses(Site& site, unsigned control_planes, unsigned workers, Files& files,
                       const std::vector<std::string>& others,
                       const std::vector<IpAddress>& taken) {
  Claims claims;
  for (const std::string& other : others) claim(load(files, other).spec, claims);
  for (const IpAddress& address : taken) claims.addresses.emplace_back(address, address);
  claims.addresses.emplace_back(site.gateway, site.gateway);
  // Round blocks are easier to read, and leave the addresses below them to routers and printers.
  constexpr std::uint64_t round = 20;
  const std::uint64_t room = workers == 0 ? 0 : std::max<std::uint64_t>(16, workers);
  const std::uint64_t size = 1 + control_planes + room;
  for (std::uint64_t offset = round;; offset += round) {
    const auto first = site.subnet.network().plus(offset);
    const auto last = first ? first->plus(size - 1) : std::nullopt;
    if (!last || !site.subnet.usable(*last)) break;
    const AddressRange block{*first, *last};
    const auto clash =
        std::any_of(claims.addresses.begin(), claims.addresses.end(),
                    [&](const AddressRange& range) { return range.overlaps(block); });
    if (clash) continue;
    if (control_planes > 1) site.vip = *first;
    site.control_planes.clear();
    for (unsigned i = 1; i <= control_planes; ++i) site.control_planes.push_back(*first->plus(i));
    site.workers = workers;
    if (workers > 0) site.worker_addresses = AddressRange{*first->plus(control_planes + 1), *last};
    return;
  }
  throw Error(Fault::Conflict,
              fmt::format("{} has no free block of {} addresses", to_string(site.subnet), size))
      .hint("a larger subnet, or fewer machines");
}

Scaffold scaffold(const std::string& root, const std::string& name, const std::string& recipient,
                  const Site& site) {
  require_name(name);
  Scaffold made;
  made.folder = below(root, "clusters/" + name);
  made.files.push_back({below(made.folder, spec_file_name),
                        spec_text(schema_path(root, made.folder), name, site), 0644, false});
  add_common(made, root, recipient);
  made.references = {"proxmox.token"};
  return made;
}

Scaffold scaffold_from(Files& files, const std::string& root, const std::string& name,
                       const std::string& from, const std::vector<std::string>& others,
                       const std::string& recipient) {
  require_name(name);
  const Loaded loaded = load(files, from);
  loaded.diagnostics.throw_if_errors(from);
  if (*loaded.spec.name == name)
    throw Error(Fault::Usage, fmt::format("{} is the cluster to copy from", name))
        .hint("choose another name");
  Scaffold made;
  made.folder = new_folder(folder_of(from), *loaded.spec.name, name);
  std::vector<std::string> rest;
  for (const std::string& other : others)
    if (other != from) rest.push_back(other);
  std::string spec = Copier(files, name, from, loaded).run(rest, made.notes);
  made.files.push_back({below(made.folder, spec_file_name), std::move(spec), 0644, false});
  copy_files(files, folder_of(from), made.folder, made.files);
  add_common(made, root, recipient);
  std::set<std::string> references;
  collect_references(*loaded.spec.resolved, references);
  made.references.assign(references.begin(), references.end());
  return made;
}

}  // namespace rocca::spec
