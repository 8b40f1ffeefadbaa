#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cli/new_cluster.hpp"
#include "cli/proxmox_access.hpp"
#include "doctor/checkup.hpp"
#include "doctor/requirements.hpp"
#include "locking/addresses.hpp"
#include "locking/choose.hpp"
#include "locking/resolve.hpp"
#include "net/transport.hpp"
#include "proxmox/client.hpp"
#include "proxmox/privileges.hpp"
#include "scaffold/scaffold.hpp"
#include "spec/load.hpp"
#include "spec/locate.hpp"
#include "spec/lock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <set>

namespace rocca::cli {

namespace {

template <class Row>
std::set<std::string> names_of(const std::vector<Row>& rows) {
  std::set<std::string> names;
  for (const Row& row : rows) names.insert(row.name);
  return names;
}

/// What every host has, in the order of the first.
template <class Row, class Ask>
std::vector<Row> on_every_host(const std::vector<std::string>& hosts, Ask ask) {
  std::vector<Row> common = ask(hosts.front());
  for (std::size_t i = 1; i < hosts.size(); ++i) {
    const std::set<std::string> there = names_of(ask(hosts[i]));
    std::erase_if(common, [&](const Row& row) { return !there.contains(row.name); });
  }
  return common;
}

std::string chosen(const Invocation& invocation, const char* flag,
                   const std::vector<std::string>& offered, const std::string& what,
                   const std::string& mend) {
  if (const auto given = invocation.find(flag)) {
    if (std::find(offered.begin(), offered.end(), *given) != offered.end()) return *given;
    throw Error(Fault::NotFound,
                fmt::format("'{}' is no {}{}", *given, what, did_you_mean(*given, offered)))
        .hint(offered.empty() ? mend : "there is " + enumerate(offered));
  }
  if (offered.empty()) throw Error(Fault::NotFound, fmt::format("there is no {}", what)).hint(mend);
  return offered.front();
}

/// A token that may see nothing makes a Proxmox look empty: that is said before anything is called
/// missing.
void require_sight(const spec::Site& site, const Invocation& invocation, proxmox::Client& client,
                   const proxmox::VersionInfo& version, const Secret& token) {
  const proxmox::Grants grants = client.grants();
  const auto has = [&](std::initializer_list<const char*> any_of) {
    return std::any_of(grants.begin(), grants.end(), [&](const auto& path) {
      return std::any_of(any_of.begin(), any_of.end(),
                         [&](const char* name) { return path.second.contains(name); });
    });
  };
  std::vector<std::string> blind;
  if (!has({"Datastore.Audit", "Datastore.AllocateSpace"})) blind.emplace_back("storages");
  if (!has({"SDN.Use", "SDN.Audit"})) blind.emplace_back("bridges");
  if (!has({"VM.Audit"})) blind.emplace_back("VMs");
  if (blind.empty()) return;
  proxmox::Scope scope;
  scope.version = version.version;
  scope.hosts = site.hosts;
  scope.image_storage = invocation.find("images").value_or("local");
  scope.disk_storages = {invocation.find("disks").value_or("local-lvm")};
  scope.links = {{invocation.find("bridge").value_or("vmbr0"), std::nullopt, "localnetwork"}};
  const std::string_view text = token.reveal();
  throw Error(Fault::Denied,
              fmt::format("the token may not see {} of this Proxmox", enumerate(blind)))
      .hint("run as root on a Proxmox host, with your own names of storages and bridge:\n" +
            join(proxmox::pveum_lines(proxmox::all_acts(), scope,
                                      std::string(text.substr(0, text.find('='))),
                                      /*privilege_separation=*/true),
                 "\n"));
}

void choose_storages(spec::Site& site, const Invocation& invocation, proxmox::Client& client) {
  auto storages = on_every_host<proxmox::StorageInfo>(
      site.hosts, [&](const std::string& host) { return client.storages(host); });
  std::erase_if(storages, [](const auto& storage) { return !storage.enabled || !storage.active; });
  const auto holding = [&](const char* content) {
    std::vector<proxmox::StorageInfo> found;
    for (const auto& storage : storages)
      if (storage.holds(content)) found.push_back(storage);
    // The roomiest first; a disk on a file system only where nothing better is there.
    const auto rank = [](const proxmox::StorageInfo& storage) {
      const bool blocks = storage.type == "lvmthin" || storage.type == "zfspool" ||
                          storage.type == "rbd" || storage.type == "lvm";
      return std::pair{blocks ? 1 : 0, storage.available.count()};
    };
    std::stable_sort(found.begin(), found.end(),
                     [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
    std::vector<std::string> names;
    for (const auto& storage : found) names.push_back(storage.name);
    return names;
  };
  site.images = chosen(invocation, "images", holding("import"),
                       "storage that takes images to import on every host",
                       "pvesm set local --content iso,vztmpl,backup,import,snippets");
  site.disks =
      chosen(invocation, "disks", holding("images"), "storage that takes VM disks on every host",
             "add a storage with content `images`, or give the token the right to see it: "
             "`rocca doctor` prints the lines");
}

void choose_bridge(spec::Site& site, const Invocation& invocation, proxmox::Client& client) {
  auto bridges = on_every_host<proxmox::Bridge>(
      site.hosts, [&](const std::string& host) { return client.bridges(host); });
  std::erase_if(bridges, [](const proxmox::Bridge& bridge) { return !bridge.active; });
  std::vector<std::string> names;
  for (const auto& bridge : bridges) names.push_back(bridge.name);
  site.bridge = chosen(invocation, "bridge", names, "bridge that is up on every host",
                       "make one under System > Network of each host");
}

template <class Parse>
auto asked(Context& context, const Invocation& invocation, const char* flag,
           const std::string& question, const char* what, const char* placeholder, Parse parse) {
  const auto given = invocation.find(flag);
  const std::string text =
      given ? *given : ask_line(context, question, fmt::format("--{} {}", flag, placeholder));
  const auto value = parse(text);
  if (!value) throw Error(Fault::Usage, fmt::format("'{}' is no {}", text, what));
  return *value;
}

void choose_network(spec::Site& site, Context& context, const Invocation& invocation) {
  site.subnet = asked(context, invocation, "subnet",
                      "Which subnet do the machines live in (such as 192.168.1.0/24)?", "subnet",
                      "CIDR", [](const std::string& text) { return Cidr::parse(text); });
  site.gateway = asked(context, invocation, "gateway", "Which address has its router?", "address",
                       "ADDRESS", [](const std::string& text) { return IpAddress::parse(text); });
  if (!site.subnet.is_network())
    throw Error(Fault::Usage, fmt::format("{} is an address, not a subnet", to_string(site.subnet)))
        .hint(
            fmt::format("--subnet {}/{}", to_string(site.subnet.network()), site.subnet.prefix()));
  if (!site.subnet.usable(site.gateway))
    throw Error(Fault::Usage, fmt::format("the gateway {} is not in {}", to_string(site.gateway),
                                          to_string(site.subnet)));
  for (const std::string& text : invocation.all("nameserver")) {
    const auto address = IpAddress::parse(text);
    if (!address) throw Error(Fault::Usage, fmt::format("'{}' is no address", text));
    site.nameservers.push_back(*address);
  }
  if (site.nameservers.empty()) site.nameservers = {site.gateway};
}

/// Hosts and VM ids, chosen among what is free now and kept in rocca.lock from the beginning.
spec::Lock first_choices(Context& context, const std::string& root, const spec::Spec& spec,
                         proxmox::Client& client) {
  spec::Lock lock;
  lock.cluster = *spec.name;
  locking::Occupied there = locking::occupied(client);
  there.vmids.merge(vmids_of_others(context, root, *spec.name));
  locking::choose_nodes(spec, {}, lock, there, [&](std::uint64_t vmid) {
    return client.vmid_is_free(static_cast<proxmox::Vmid>(vmid));
  });
  return lock;
}

std::string vmids_text(const spec::Lock& lock) {
  std::set<std::uint64_t> ids;
  for (const auto& [name, node] : lock.nodes) ids.insert(node.vmid.value_or(0));
  const bool in_a_row = !ids.empty() && *ids.rbegin() - *ids.begin() + 1 == ids.size();
  return in_a_row && ids.size() > 2 ? fmt::format("{} to {}", *ids.begin(), *ids.rbegin())
                                    : fmt::format("{}", fmt::join(ids, ", "));
}

unsigned count_of(const Invocation& invocation, const char* flag) {
  const auto number = invocation.number(flag).value_or(0);
  if (number < 0 || number > 1000)
    throw Error(Fault::Usage, fmt::format("--{} {} is out of range", flag, number));
  return static_cast<unsigned>(number);
}

}  // namespace

static int run_init(Context& context, const Invocation& invocation) {
  const std::string name = invocation.argument("NAME").value();
  const unsigned control_planes = count_of(invocation, "control-planes");
  if (control_planes % 2 == 0)
    throw Error(Fault::Usage, fmt::format("--control-planes {} is not odd", control_planes))
        .hint("1, 3 or 5: an even number of etcd members stands the loss of no more of them");
  const std::string root = repository(context);
  const auto transport = context.transport();
  proxmox::Access access;
  access.endpoints = invocation.all("endpoint");
  if (access.endpoints.empty())
    access.endpoints = {ask_line(context, "Where is the Proxmox (such as https://pve.home:8006)?",
                                 "--endpoint https://HOST:8006")};
  access.token = get_token(context, invocation);
  access.tls = trust_of(context, invocation);

  spec::Site site;
  site.endpoints = access.endpoints;
  site.fingerprint = pin_of(context, invocation, *transport, access);
  proxmox::Client client{*transport, access};
  const proxmox::VersionInfo version = client.version();
  if (!version.supported())
    throw Error(
        Fault::Rejected,
        fmt::format("Proxmox VE {} is too old: disk images cannot be imported through its API",
                    to_string(version.version)))
        .hint("upgrade to Proxmox VE 8.4 or newer");
  site.hosts = invocation.all("host");
  std::vector<std::string> up;
  for (const proxmox::NodeInfo& node : client.nodes())
    if (node.online) up.push_back(node.name);
  for (const std::string& host : site.hosts)
    if (std::find(up.begin(), up.end(), host) == up.end())
      throw Error(Fault::NotFound, fmt::format("'{}' is no host of this Proxmox that is up{}", host,
                                               did_you_mean(host, up)))
          .hint("there is " + enumerate(up));
  if (site.hosts.empty()) site.hosts = up;
  if (site.hosts.empty()) throw Error(Fault::NotFound, "no host of this Proxmox is up");
  std::sort(site.hosts.begin(), site.hosts.end());
  require_sight(site, invocation, client, version, access.token);
  choose_storages(site, invocation, client);
  choose_bridge(site, invocation, client);
  choose_network(site, context, invocation);
  const locking::Neighbours neighbours = locking::neighbours(client);
  spec::propose_addresses(site, control_planes, count_of(invocation, "workers"), context.files,
                          spec::find_specs(context.files, root + "/clusters"),
                          neighbours.addresses);

  // What is written is right, or nothing is written.
  const spec::Scaffold tried = spec::scaffold(root, name, "", site);
  const spec::Loaded loaded = spec::load_text(context.files, tried.files.front().content,
                                              tried.files.front().path, tried.folder);
  context.err << loaded.diagnostics.render();
  loaded.diagnostics.throw_if_errors(tried.files.front().path);
  const doctor::Checkup checkup =
      doctor::examine(*transport, context.clock, access,
                      doctor::wish_of(context.files, loaded.spec, {}, std::nullopt));

  const spec::Lock lock = first_choices(context, root, loaded.spec, client);
  write_cluster(
      context, root,
      [&](const std::string& recipient) {
        spec::Scaffold made = spec::scaffold(root, name, recipient, site);
        made.files.push_back({made.folder + "/rocca.lock", spec::to_text(lock), 0644, false});
        return made;
      },
      {{"proxmox.token", access.token}});
  context.err << fmt::format(
      "Proxmox VE {}; hosts {}; images on {}, disks on {}; bridge {}; VM ids {}\n",
      to_string(version.version), visible(join(site.hosts, ", ")), visible(site.images),
      visible(site.disks), visible(site.bridge), vmids_text(lock));
  context.err << fmt::format(
      "the addresses are none of the {} that this Proxmox knows of; who is elsewhere in {} was not "
      "asked: look at them\n",
      neighbours.addresses.size(), to_string(site.subnet));
  if (!neighbours.secretive.empty())
    context.err << fmt::format("VMs that run and do not say their addresses: {}\n",
                               fmt::join(neighbours.secretive, ", "));
  context.err << "the token is in secrets.sops.yaml, encrypted\n";
  if (checkup.healthy()) {
    context.err << fmt::format("next: rocca doctor {}\n", visible(name));
    return 0;
  }
  context.err << "this Proxmox is not ready for it yet:\n"
              << doctor::render_text(checkup, context.terminal.colour_err);
  return checkup.exit_code();
}

Command init_command() {
  return {
      .name = "init",
      .group = "Create a cluster",
      .summary = "create the files of a cluster for an existing Proxmox VE",
      .description =
          "Reads hosts, storages and bridges from a Proxmox VE, proposes addresses in the subnet, "
          "and creates the same files as `rocca new`, with a spec for this Proxmox and the token "
          "among its secrets. Shows the certificate to pin. Changes nothing on Proxmox.\n\nThe "
          "token is read from ROCCA_PROXMOX_TOKEN or from a file, never from the command line.",
      .arguments = {{.name = "NAME", .help = "the cluster's name: a DNS label"}},
      .flags = joined(access_flags(),
                      {{.name = "host",
                        .kind = FlagKind::Text,
                        .value = "NAME",
                        .help = "host to use; default: all that are online",
                        .repeats = true},
                       {.name = "images",
                        .kind = FlagKind::Text,
                        .value = "STORAGE",
                        .help = "storage for images; default: the one with the most free space"},
                       {.name = "disks",
                        .kind = FlagKind::Text,
                        .value = "STORAGE",
                        .help = "storage for disks; default: the one with the most free space"},
                       {.name = "bridge",
                        .kind = FlagKind::Text,
                        .value = "NAME",
                        .help = "bridge for NICs; default: the first one"},
                       {.name = "subnet",
                        .kind = FlagKind::Text,
                        .value = "CIDR",
                        .help = "the network of the machines, such as 192.168.1.0/24"},
                       {.name = "gateway",
                        .kind = FlagKind::Text,
                        .value = "ADDRESS",
                        .help = "the router of the subnet"},
                       {.name = "nameserver",
                        .kind = FlagKind::Text,
                        .value = "ADDRESS",
                        .help = "default: the gateway",
                        .repeats = true},
                       {.name = "control-planes",
                        .kind = FlagKind::Number,
                        .value = "N",
                        .fallback = "3",
                        .help = "number of control planes"},
                       {.name = "workers",
                        .kind = FlagKind::Number,
                        .value = "N",
                        .fallback = "2",
                        .help = "number of workers"}}),
      .examples = {{"rocca init blue --endpoint https://pve.home:8006 --subnet 192.168.1.0/24 "
                    "--gateway 192.168.1.1",
                    "a cluster for this Proxmox"}},
      .run = run_init};
}

}  // namespace rocca::cli
