#include "doctor/checkup.hpp"

#include "base/strings.hpp"
#include "net/http.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace rocca::doctor {

namespace {

using proxmox::Act;
using proxmox::Need;

constexpr auto tolerated_skew = std::chrono::seconds{60};
// A web page or an error text that stands under the name of an image is smaller than this.
constexpr Bytes smallest_image = Bytes::kib(4);
// Long enough for what is built already; a factory builds the rest in minutes.
constexpr auto factory_patience = std::chrono::seconds{20};

double in_gib(Bytes bytes) {
  return static_cast<double>(bytes.count()) / (1u << 30);
}

class Examination {
 public:
  Examination(net::Transport& transport, const Clock& clock, const proxmox::Access& access,
              const Wish& wish, std::stop_token stop)
      : transport_(transport),
        clock_(clock),
        access_(access),
        wish_(wish),
        scope_(wish.scope),
        stop_(stop),
        client_(transport, access, stop) {}

  Checkup run() {
    if (!reach()) {
      for (const char* check : {"version", "clock", "rights", "hosts", "quorum", "storage",
                                "network", "images", "clashes"})
        add(check, Grade::Skipped, "not looked at: Proxmox could not be asked");
      return std::move(checkup_);
    }
    clock_skew();
    const bool any_host = hosts();
    zones();
    const bool seen = inventory();
    rights();
    if (any_host) {
      quorum();
      images();
      storage();
      network();
    }
    if (seen) clashes();
    return std::move(checkup_);
  }

 private:
  Finding& add(std::string check, Grade grade, std::string text) {
    checkup_.findings.push_back({std::move(check), grade, std::move(text), {}, false});
    return checkup_.findings.back();
  }

  /// Runs one check; an Error in it is a finding, not the end.
  template <class Body>
  void attempt(const std::string& check, Body body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted) throw;
      Finding& finding = add(check, Grade::Bad, error.message());
      if (!error.hint().empty()) finding.fix.push_back(error.hint());
      finding.about_rights = error.fault() == Fault::Denied;
    }
  }

  /// The certificate the endpoint shows, asked for without our token: whoever answers learns
  /// nothing from us.
  std::optional<net::Fingerprint> shown_certificate(const std::string& endpoint) {
    net::Request request;
    request.url = endpoint + "/api2/json/version";
    request.tls = net::Tls::unverified();
    try {
      return net::fetch(transport_, request, stop_).head.peer;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  bool reach() {
    try {
      checkup_.version = client_.version();
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted) throw;
      const bool tls = error.message().find("certificate") != std::string::npos ||
                       error.message().find("fingerprint") != std::string::npos;
      Finding& finding = add(tls ? "tls" : "reach", Grade::Bad, error.message());
      if (!error.hint().empty()) finding.fix.push_back(error.hint());
      finding.about_rights = !tls && error.fault() == Fault::Denied;
      if (const auto url = net::Url::parse(access_.endpoints.front());
          url && url->port != 8006 && error.fault() == Fault::Unreachable)
        finding.fix.push_back(
            fmt::format("Proxmox listens on port 8006: https://{}:8006", url->host));
      if (tls)
        if (const auto shown = shown_certificate(access_.endpoints.front()))
          finding.fix.push_back(
              fmt::format("once compared, pin it:  fingerprint: \"{}\"", net::to_string(*shown)));
      return false;
    }
    add("reach", Grade::Good, fmt::format("{} answers", join(access_.endpoints, ", ")));
    if (access_.tls.trust == net::Tls::Trust::Unverified) {
      Finding& finding =
          add("tls", Grade::Warning, "the certificate is not verified (insecure: true)");
      if (const auto shown = shown_certificate(access_.endpoints.front()))
        finding.fix.push_back(
            fmt::format("pin it instead:  fingerprint: \"{}\"", net::to_string(*shown)));
    } else {
      add("tls", Grade::Good, "the certificate is the one we trust");
    }
    const proxmox::VersionInfo& version = *checkup_.version;
    scope_.version = version.version;
    if (version.supported()) {
      add("version", Grade::Good, fmt::format("Proxmox VE {}", rocca::to_string(version.version)));
    } else {
      add("version", Grade::Bad,
          fmt::format("Proxmox VE {} is too old: disk images cannot be imported through its API",
                      rocca::to_string(version.version)))
          .fix = {"upgrade to Proxmox VE 8.4 or newer"};
    }
    return true;
  }

  void clock_skew() {
    const auto theirs = client_.server_time();
    if (!theirs) {
      add("clock", Grade::Skipped, "the answer carried no date");
      return;
    }
    const Duration skew = *theirs > clock_.now() ? *theirs - clock_.now() : clock_.now() - *theirs;
    if (skew <= tolerated_skew) {
      add("clock", Grade::Good, "this machine's clock and Proxmox's agree");
      return;
    }
    add("clock", Grade::Bad,
        fmt::format("the clocks are {} apart (here {}, Proxmox {})", to_rough_string(skew),
                    rocca::to_string(std::chrono::floor<std::chrono::seconds>(clock_.now())),
                    rocca::to_string(*theirs)))
        .fix = {
        "set the clocks by NTP on both: certificates made now would not be valid yet on the nodes"};
  }

  void rights() {
    attempt("rights", [&] {
      std::vector<Need> all;
      for (const Act act : wish_.acts)
        for (Need& need : proxmox::needs(act, scope_)) all.push_back(std::move(need));
      proxmox::Permissions effective;
      std::set<std::string> paths;
      for (const Need& need : all) paths.insert(need.path);
      for (const std::string& path : paths) effective.merge(client_.permissions(path));
      const std::vector<Need> gaps = proxmox::missing(all, effective);
      if (gaps.empty()) {
        add("rights", Grade::Good,
            fmt::format("the token may do all that is needed ({} paths asked)", paths.size()));
        return;
      }
      std::set<std::string> said;
      for (const Need& gap : gaps) {
        const std::string what =
            fmt::format("{} on {} is missing", join(gap.any_of, " or "), gap.path);
        if (!said.insert(what).second) continue;  // several acts need it; one reason is enough
        const std::string text = fmt::format("{}: {}", what, gap.why);
        Finding& finding = add("rights", gap.optional ? Grade::Warning : Grade::Bad, text);
        finding.about_rights = !gap.optional;
        if (gap.hides) finding.text += " (Proxmox does not refuse, it hides)";
      }
      // The whole set, not only the gap: entries on one path replace each other, and roles are made
      // as a whole.
      const std::string token{access_.token.reveal()};
      const std::string id = token.substr(0, token.find('='));
      Finding& fix =
          add("rights", Grade::Note, "to grant what is missing, run as root on a Proxmox host:");
      fix.fix = proxmox::pveum_lines(wish_.acts, scope_, id, /*privilege_separation=*/true);
    });
  }

  /// A bridge may be a VNet, whose rights stand in its own zone. Hosts' own bridges are in
  /// localnetwork; and what may not be seen is taken for one of them.
  void zones() {
    if (scope_.links.empty()) return;
    std::map<std::string, std::string> known;
    try {
      known = client_.vnet_zones();
    } catch (const Error& error) {
      // Where no SDN is installed nobody knows the path; without a right to it nothing is shown.
      if (error.fault() == Fault::Interrupted) throw;
    }
    for (auto& link : scope_.links)
      if (const auto zone = known.find(link.bridge); zone != known.end() && !zone->second.empty())
        link.zone = zone->second;
  }

  bool hosts() {
    bool any = false;
    attempt("hosts", [&] {
      const auto nodes = client_.nodes();
      if (scope_.hosts.empty())
        for (const auto& node : nodes) scope_.hosts.push_back(node.name);
      for (const std::string& host : scope_.hosts) {
        const auto found = std::find_if(nodes.begin(), nodes.end(),
                                        [&](const auto& node) { return node.name == host; });
        if (found == nodes.end()) {
          std::vector<std::string> names;
          for (const auto& node : nodes) names.push_back(node.name);
          add("hosts", Grade::Bad, fmt::format("there is no host '{}'", host)).fix = {
              fmt::format("the hosts are {}", enumerate(names))};
        } else if (!found->online) {
          add("hosts", Grade::Bad, fmt::format("host '{}' is offline", host));
        } else {
          online_.push_back(host);
          any = true;
        }
      }
      if (any)
        add("hosts", Grade::Good,
            fmt::format("{} online: {}", plural(online_.size(), "host"), join(online_, ", ")));
    });
    return any;
  }

  void quorum() {
    attempt("quorum", [&] {
      const auto status = client_.cluster_status();
      if (status.name.empty()) {
        add("quorum", Grade::Good, "a single host needs no quorum");
      } else if (status.quorate) {
        add("quorum", Grade::Good, fmt::format("the Proxmox cluster '{}' has quorum", status.name));
      } else {
        std::vector<std::string> absent;
        for (const auto& member : status.members)
          if (!member.online) absent.push_back(member.name);
        add("quorum", Grade::Bad,
            fmt::format("the Proxmox cluster '{}' has no quorum; offline: {}", status.name,
                        enumerate(absent)))
            .fix = {"bring the hosts back; until then Proxmox refuses every change"};
      }
    });
  }

  void storage() {
    std::map<std::string, Place> places;  // by name and host; a shared storage is one place
    for (const std::string& host : online_)
      attempt("storage", [&] {
        const auto storages = client_.storages(host);
        const auto find = [&](const std::string& name) -> const proxmox::StorageInfo* {
          for (const auto& storage : storages)
            if (storage.name == name) return &storage;
          return nullptr;
        };
        if (!scope_.image_storage.empty() && !wish_.image_content.empty())
          content(host, storages, scope_.image_storage, wish_.image_content);
        for (const std::string& name : scope_.disk_storages)
          content(host, storages, name, "images");
        const auto want = [&](const std::string& name, Bytes bytes, bool is_image) {
          const proxmox::StorageInfo* found = find(name);
          if (found == nullptr || !found->active) return;
          Place& place = places[found->shared ? name : name + "@" + host];
          // Every host has an own answer for a shared storage; they differ by moments only.
          if (place.storage.name.empty()) place.storage = *found;
          if (!found->shared) place.host = host;
          // What all hosts share is fetched once.
          if (is_image && found->shared && place.has_images) return;
          place.wanted = place.wanted + bytes;
        };
        for (const Wish::Space& space : wish_.space)
          if (space.host == host && !there_.contains(space.node))
            want(space.storage, space.bytes, false);
        if (const auto bytes = image_bytes_.find(host); bytes != image_bytes_.end())
          want(scope_.image_storage, bytes->second, true);
        for (auto& [name, place] : places) place.has_images = true;
      });
    for (const auto& [name, place] : places) space(place);
  }

  void content(const std::string& host, const std::vector<proxmox::StorageInfo>& storages,
               const std::string& name, const std::string& type) {
    const auto storage = std::find_if(storages.begin(), storages.end(),
                                      [&](const auto& each) { return each.name == name; });
    if (storage == storages.end()) {
      std::vector<std::string> fitting;
      for (const auto& each : storages)
        if (each.holds(type)) fitting.push_back(each.name);
      add("storage", Grade::Bad,
          fmt::format("storage '{}' is not there on {} (or the token may not see it)", name, host))
          .fix = {fitting.empty() ? fmt::format("none that takes '{}' is visible", type)
                                  : fmt::format("'{}' is taken by {}", type, enumerate(fitting))};
    } else if (!storage->enabled || !storage->active) {
      add("storage", Grade::Bad,
          fmt::format("storage '{}' on {} is {}", name, host,
                      storage->enabled ? "not active" : "disabled"));
    } else if (!storage->holds(type)) {
      std::vector<std::string> with = storage->content;
      with.push_back(type);
      add("storage", Grade::Bad,
          fmt::format("storage '{}' on {} does not take '{}' (it takes {})", name, host, type,
                      join(storage->content, ", ")))
          .fix = {fmt::format("pvesm set {} --content {}", name, join(with, ","))};
    } else {
      add("storage", Grade::Good, fmt::format("storage '{}' on {} takes '{}'", name, host, type));
    }
  }

  /// A storage, and what is still to be written to it.
  struct Place {
    proxmox::StorageInfo storage;
    std::string host;  // empty: all of them
    Bytes wanted;
    bool has_images = false;
  };

  void space(const Place& place) {
    const std::string where =
        place.host.empty() ? fmt::format("shared storage '{}'", place.storage.name)
                           : fmt::format("storage '{}' on {}", place.storage.name, place.host);
    if (place.wanted.count() == 0) return;
    if (place.storage.available >= place.wanted) {
      add("storage", Grade::Good,
          fmt::format("{} has {:.1f} GiB free, and {:.1f} GiB are still wanted", where,
                      in_gib(place.storage.available), in_gib(place.wanted)));
      return;
    }
    // Thin storages may promise more than they have; that is the user's choice, and we say it.
    const std::string& type = place.storage.type;
    const bool thin = type == "lvmthin" || type == "zfspool" || type == "rbd";
    add("storage", thin ? Grade::Warning : Grade::Bad,
        fmt::format("{} has {:.1f} GiB free and the cluster wants {:.1f} GiB", where,
                    in_gib(place.storage.available), in_gib(place.wanted)))
        .fix = {thin ? "it is thin and may promise more than it has, until the disks fill up"
                     : "free space, or name another storage for the disks"};
  }

  void network() {
    for (const std::string& host : online_)
      attempt("network", [&] {
        const auto bridges = client_.bridges(host);
        for (const auto& link : scope_.links) {
          const auto found = std::find_if(bridges.begin(), bridges.end(),
                                          [&](const auto& b) { return b.name == link.bridge; });
          if (found == bridges.end()) {
            std::vector<std::string> names;
            for (const auto& bridge : bridges) names.push_back(bridge.name);
            add("network", Grade::Bad,
                fmt::format("bridge '{}' is not there on {}, or the token may not see it",
                            link.bridge, host))
                .fix = {names.empty()
                            ? "no bridge is visible: grant SDN.Audit and SDN.Use (see rights)"
                            : fmt::format("visible are {}", enumerate(names))};
          } else if (link.vlan && found->type == "bridge" && !found->vlan_aware) {
            add("network", Grade::Warning,
                fmt::format("bridge '{}' on {} is not VLAN-aware, and VLAN {} is wanted",
                            link.bridge, host, *link.vlan))
                .fix = {
                "Proxmox then makes a bridge per VLAN by itself; make the bridge VLAN-aware if "
                "that is not meant"};
          } else {
            add("network", Grade::Good,
                fmt::format("bridge '{}' is there on {}", link.bridge, host));
          }
        }
      });
  }

  /// Every host must be able to fetch what its VMs boot. The factory is asked from here first: it
  /// may have to build the image, and a host that waits for it blocks one of its three workers.
  void images() {
    if (!wish_.clone_of.empty()) attempt("images", [&] { find_template(); });
    if (wish_.images.empty()) return;
    factory::Client factory{transport_, wish_.factory, {}, stop_};
    for (const Wish::Image& image : wish_.images)
      attempt("images", [&] {
        const std::string path = factory::image_path(image.schematic, image.talos, image.artifact);
        const auto offered = offer(factory, image);
        if (!offered && image_is_late_) return;  // a host that waits would block its API
        for (const std::string& host : image.hosts) {
          if (std::find(online_.begin(), online_.end(), host) == online_.end()) continue;
          if (!offered && !asked_.insert(host).second) continue;  // one question says it
          attempt("images", [&] { fetchable(host, wish_.factory + path, image, offered); });
        }
      });
  }

  /// What the factory has; nothing while it does not have it yet, and that is no mistake.
  std::optional<factory::ImageFacts> offer(factory::Client& factory, const Wish::Image& image) {
    if (factory_failed_) return std::nullopt;
    try {
      return factory.image(image.schematic, image.talos, image.artifact, factory_patience);
    } catch (const Error& error) {
      if (error.fault() == Fault::NotFound && image.can_be_told &&
          !factory.knows(image.schematic)) {
        if (std::exchange(told_of_schematic_, true)) return std::nullopt;
        add("images", Grade::Note,
            fmt::format("{} does not know the schematic {} yet; `rocca up` tells it", wish_.factory,
                        image.schematic.substr(0, 12)));
        return std::nullopt;
      }
      if (error.fault() == Fault::Interrupted) throw;
      if (error.fault() != Fault::Timeout && error.fault() != Fault::Lost) {
        // Hosts may reach it all the same, and what they say helps to find out why we do not.
        factory_failed_ = true;
        add("images", Grade::Bad, "asked from here, " + error.message()).fix = {
            error.fault() == Fault::Denied
                ? "SSL_CERT_FILE names the file of the authorities to trust, for your own factory"
                : error.hint()};
        return std::nullopt;
      }
      image_is_late_ = true;
      add("images", Grade::Warning,
          fmt::format("{} has not answered for the image of schematic {} in {}", wish_.factory,
                      image.schematic.substr(0, 12), to_rough_string(factory_patience)))
          .fix = {"it builds an image when it is first asked for, in minutes: ask again"};
      return std::nullopt;
    }
  }

  void fetchable(const std::string& host, const std::string& url, const Wish::Image& image,
                 const std::optional<factory::ImageFacts>& offered) {
    if (!offered) {
      // What is not there cannot be found; to be told so is to reach it.
      client_.find_url(host, url);
      add("images", Grade::Good, fmt::format("{} reaches {}", host, wish_.factory));
      return;
    }
    const auto found = client_.url_metadata(host, url);
    std::optional<std::uint64_t> expected = image.size;
    if (!expected && offered->size) expected = offered->size->count();
    if (found.size < smallest_image || (expected && found.size.count() != *expected)) {
      add("images", Grade::Bad,
          fmt::format("{} gets {} bytes from {}{}", host, found.size.count(), url,
                      expected ? fmt::format(", and the image has {}", *expected) : ""))
          .fix = {
          "that is not the image: check the schematic, the version, rocca.lock and a proxy "
          "in between"};
      return;
    }
    add("images", Grade::Good,
        fmt::format("{} can fetch the image of Talos v{} ({:.1f} MiB)", host,
                    rocca::to_string(image.talos), in_gib(found.size) * 1024));
    const std::string file = factory::image_file(image.schematic, image.talos, image.artifact);
    const auto stored = client_.volumes(host, scope_.image_storage, wish_.image_content);
    if (std::none_of(stored.begin(), stored.end(),
                     [&](const proxmox::Volume& v) { return v.id.ends_with("/" + file); }))
      image_bytes_[host] = image_bytes_[host] + found.size;
  }

  void find_template() {
    if (scope_.template_vmid == 0) {
      add("images", Grade::Bad, fmt::format("there is no template '{}'", wish_.clone_of)).fix = {
          "talos.boot names it: make a VM of that name and convert it to a template, and let the "
          "token see it (VM.Audit)"};
      return;
    }
    add("images", Grade::Good,
        fmt::format("the template '{}' is VM {}", wish_.clone_of, scope_.template_vmid));
  }

  /// All VMs there are, and which of them are already ours.
  bool inventory() {
    if (wish_.machines.empty() && wish_.clone_of.empty()) return false;
    bool seen = false;
    attempt("clashes", [&] {
      vms_ = client_.vms();
      std::set<Uuid> ours;
      for (const Wish::Machine& machine : wish_.machines)
        if (machine.uuid) ours.insert(*machine.uuid);
      for (const auto& vm : vms_) {
        if (vm.is_template && vm.name == wish_.clone_of) scope_.template_vmid = vm.vmid;
        if (vm.is_container) continue;
        const auto config = client_.find_config(vm.node, vm.vmid);
        if (!config) continue;
        uuid_of_[vm.vmid] = config->uuid();
        for (const auto& [option, value] : config->options)
          if (proxmox::family(option) == "net")
            if (const auto mac = MacAddress::parse(
                    proxmox::PropertyString::parse(option, value).value_or("macaddr", "")))
              by_mac_[*mac] = &vm;
      }
      for (const Wish::Machine& machine : wish_.machines)
        for (const auto& [vmid, uuid] : uuid_of_)
          if (machine.uuid && uuid == machine.uuid) there_.insert(machine.node);
      seen = true;
    });
    return seen;
  }

  void clashes() {
    std::size_t found = 0;
    for (const Wish::Machine& machine : wish_.machines) {
      const auto ours = [&](proxmox::Vmid vmid) {
        return machine.uuid && uuid_of_[vmid] == machine.uuid;
      };
      const auto holder = std::find_if(vms_.begin(), vms_.end(), [&](const proxmox::VmRow& vm) {
        return vm.vmid == machine.vmid;
      });
      if (holder != vms_.end() && !ours(holder->vmid)) {
        clash(fmt::format("VM id {} for {} is taken by '{}' on {}", holder->vmid, machine.node,
                          holder->name, holder->node),
              machine.vmid_is_locked
                  ? fmt::format("remove nodes.{}.vmid from rocca.lock and a free one is chosen",
                                machine.node)
                  : "remove `vmid:` from the node and a free one is chosen");
        ++found;
      }
      for (const MacAddress& mac : machine.macs)
        if (const auto user = by_mac_.find(mac);
            user != by_mac_.end() && !ours(user->second->vmid)) {
          clash(fmt::format("the MAC {} of {} is in use by VM {} ('{}')", rocca::to_string(mac),
                            machine.node, user->second->vmid, user->second->name),
                "give the NIC another `mac:`, or take it from the other VM");
          ++found;
        }
    }
    if (found == 0 && !wish_.machines.empty())
      add("clashes", Grade::Good,
          fmt::format("no VM id or MAC is in use by another ({} seen{})", plural(vms_.size(), "VM"),
                      there_.empty() ? "" : fmt::format(", {} of them ours", there_.size())));
  }

  void clash(std::string text, std::string fix) {
    if (wish_.identities_unknown.empty()) {
      add("clashes", Grade::Bad, std::move(text)).fix = {std::move(fix)};
      return;
    }
    add("clashes", Grade::Warning, std::move(text)).fix = {
        "it may be our own, which cannot be told: " + wish_.identities_unknown};
  }

  net::Transport& transport_;
  const Clock& clock_;
  const proxmox::Access& access_;
  const Wish& wish_;
  proxmox::Scope scope_;
  std::stop_token stop_;
  proxmox::Client client_;
  Checkup checkup_;
  std::vector<std::string> online_;
  std::vector<proxmox::VmRow> vms_;
  std::map<proxmox::Vmid, std::optional<Uuid>> uuid_of_;
  std::map<MacAddress, const proxmox::VmRow*> by_mac_;
  std::set<std::string> there_;  // nodes whose machines exist
  std::set<std::string> asked_;  // hosts that were asked for the factory only
  bool told_of_schematic_ = false;
  bool factory_failed_ = false;
  bool image_is_late_ = false;
  std::map<std::string, Bytes> image_bytes_;  // by host: what it has still to fetch
};

}  // namespace

const char* to_string(Grade grade) noexcept {
  switch (grade) {
    case Grade::Good:
      return "ok";
    case Grade::Note:
      return "note";
    case Grade::Warning:
      return "warning";
    case Grade::Bad:
      return "bad";
    case Grade::Skipped:
      return "skipped";
  }
  return "?";
}

bool Checkup::healthy() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.grade == Grade::Bad; });
}

int Checkup::exit_code() const {
  if (healthy()) return 0;
  const bool rights = std::any_of(findings.begin(), findings.end(), [](const Finding& f) {
    return f.grade == Grade::Bad && f.about_rights;
  });
  return rights ? rocca::exit_code(Fault::Denied) : 1;
}

Checkup examine(net::Transport& transport, const Clock& clock, const proxmox::Access& access,
                const Wish& wish, std::stop_token stop) {
  return Examination{transport, clock, access, wish, std::move(stop)}.run();
}

}  // namespace rocca::doctor
