#include "doctor/checkup.hpp"

#include "base/strings.hpp"
#include "net/http.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::doctor {

namespace {

using proxmox::Act;
using proxmox::Need;

constexpr auto tolerated_skew = std::chrono::seconds{60};

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
    rights();
    if (any_host) {
      quorum();
      storage();
      network();
      images();
    }
    clashes();
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
                    rocca::to_string(clock_.now()), rocca::to_string(*theirs)))
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
        const std::string text =
            fmt::format("{} on {} is missing: {}", join(gap.any_of, " or "), gap.path, gap.why);
        if (!said.insert(text).second) continue;
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
    for (const std::string& host : online_)
      attempt("storage", [&] {
        const auto storages = client_.storages(host);
        const auto find = [&](const std::string& name) -> const proxmox::StorageInfo* {
          for (const auto& storage : storages)
            if (storage.name == name) return &storage;
          return nullptr;
        };
        if (!scope_.image_storage.empty())
          content(host, find(scope_.image_storage), scope_.image_storage, "import");
        for (const std::string& name : scope_.disk_storages)
          content(host, find(name), name, "images");
        std::map<std::string, Bytes> wanted;
        for (const Wish::Space& space : wish_.space)
          if (space.host == host) wanted[space.storage] = wanted[space.storage] + space.bytes;
        for (const auto& [name, bytes] : wanted)
          if (const auto* found = find(name); found != nullptr && found->active)
            space(host, *found, bytes);
      });
  }

  void content(const std::string& host, const proxmox::StorageInfo* storage,
               const std::string& name, const std::string& type) {
    if (storage == nullptr) {
      add("storage", Grade::Bad,
          fmt::format("storage '{}' is not there on {} (or the token may not see it)", name, host));
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

  void space(const std::string& host, const proxmox::StorageInfo& storage, Bytes wanted) {
    if (storage.available >= wanted) return;
    // Thin storages may promise more than they have; that is the user's choice, and we say it.
    const bool thin =
        storage.type == "lvmthin" || storage.type == "zfspool" || storage.type == "rbd";
    add("storage", thin ? Grade::Warning : Grade::Bad,
        fmt::format("storage '{}' on {} has {:.1f} GiB free and the cluster wants {:.1f} GiB",
                    storage.name, host, static_cast<double>(storage.available.count()) / (1u << 30),
                    static_cast<double>(wanted.count()) / (1u << 30)))
        .fix = {"free space, or name another storage for the disks"};
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

  void images() {
    for (const std::string& url : wish_.image_urls)
      for (const std::string& host : online_)
        attempt("images", [&] {
          const auto found = client_.url_metadata(host, url);
          if (found.size.count() < 1024 * 1024)
            add("images", Grade::Bad,
                fmt::format("{} gets only {} from {}", host, rocca::to_string(found.size), url))
                .fix = {
                "that is no disk image: check the schematic, the version and a proxy in between"};
          else
            add("images", Grade::Good,
                fmt::format("{} can fetch the image ({} MiB)", host, found.size.count() >> 20));
        });
  }

  void clashes() {
    if (wish_.machines.empty()) return;
    attempt("clashes", [&] {
      const auto vms = client_.vms();
      std::map<proxmox::Vmid, const proxmox::VmRow*> by_id;
      std::map<MacAddress, std::pair<const proxmox::VmRow*, std::optional<Uuid>>> by_mac;
      std::map<proxmox::Vmid, std::optional<Uuid>> uuid_of;
      for (const auto& vm : vms) {
        by_id[vm.vmid] = &vm;
        if (vm.is_container) continue;
        const auto config = client_.find_config(vm.node, vm.vmid);
        if (!config) continue;
        uuid_of[vm.vmid] = config->uuid();
        for (const auto& [option, value] : config->options)
          if (proxmox::family(option) == "net")
            if (const auto mac = MacAddress::parse(
                    proxmox::PropertyString::parse(option, value).value_or("macaddr", "")))
              by_mac[*mac] = {&vm, config->uuid()};
      }
      std::size_t found = 0;
      for (const Wish::Machine& machine : wish_.machines) {
        const auto ours = [&](const std::optional<Uuid>& uuid) {
          return machine.uuid && uuid == machine.uuid;
        };
        if (machine.vmid && by_id.contains(*machine.vmid) && !ours(uuid_of[*machine.vmid])) {
          const auto& other = *by_id[*machine.vmid];
          add("clashes", Grade::Bad,
              fmt::format("VM id {} for {} is taken by '{}' on {}", *machine.vmid, machine.node,
                          other.name, other.node))
              .fix = {"remove `vmid:` from the node and a free one is chosen"};
          ++found;
        }
        for (const MacAddress& mac : machine.macs)
          if (by_mac.contains(mac) && !ours(by_mac[mac].second)) {
            add("clashes", Grade::Bad,
                fmt::format("the MAC {} of {} is in use by VM {} ('{}')", rocca::to_string(mac),
                            machine.node, by_mac[mac].first->vmid, by_mac[mac].first->name));
            ++found;
          }
      }
      if (found == 0)
        add("clashes", Grade::Good,
            fmt::format("no VM id or MAC is in use by another ({} seen)",
                        plural(vms.size(), "VM")));
    });
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
