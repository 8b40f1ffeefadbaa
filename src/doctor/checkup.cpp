#include "doctor/checkup.hpp"

#include "base/diagnostics.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "doctor/examination.hpp"
#include "net/http.hpp"
#include "platform/proxmox/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::doctor {

namespace {

using proxmox::Act;
using proxmox::Need;

constexpr auto tolerated_skew = std::chrono::seconds{60};

}  // namespace

double in_gib(Bytes bytes) {
  return static_cast<double>(bytes.count()) / (1u << 30);
}

Checkup Examination::run() {
  if (!reach()) {
    std::vector<std::string> checks{"version", "clock",   "rights", "hosts",  "quorum",
                                    "storage", "network", "images", "clashes"};
    if (!wish_.pools.empty()) checks.emplace_back("pool");
    for (const std::string& check : checks)
      add(check, Grade::Skipped, "not looked at: Proxmox could not be asked");
    return std::move(checkup_);
  }
  clock_skew();
  const bool any_host = hosts();
  const bool seen = inventory();
  zones();
  pools();
  if (any_host) {
    quorum();
    images();
    storage();
    network();
  }
  rights();
  if (seen) clashes();
  return std::move(checkup_);
}

std::optional<net::Fingerprint> Examination::shown_certificate(const std::string& endpoint) {
  net::Request request;
  request.url = endpoint + "/api2/json/version";
  request.tls = net::Tls::unverified();
  try {
    return net::fetch(transport_, request, stop_).head.peer;
  } catch (const Error& error) {
    // ignored: the finding that asked for it names the cause; it only lacks a fingerprint to pin.
    if (!is_external(error.fault())) throw;
    return std::nullopt;
  }
}

bool Examination::reach() {
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

void Examination::clock_skew() {
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

void Examination::rights() {
  attempt("rights", [&] {
    std::vector<Need> all;
    const auto collect = [&](const std::vector<Act>& acts, bool optional) {
      for (const Act act : acts)
        for (Need& need : proxmox::needs(act, scope_)) {
          need.optional = need.optional || optional;
          all.push_back(std::move(need));
        }
    };
    collect(wish_.acts, false);
    collect(wish_.later, true);
    // A wrong name is said once, and not as a missing right.
    std::erase_if(all, [&](const Need& need) {
      return std::any_of(unusable_.begin(), unusable_.end(), [&](const std::string& path) {
        return need.path == path || need.path.starts_with(path + "/");
      });
    });
    std::set<std::string> paths;
    for (const Need& need : all) paths.insert(need.path);
    for (const std::string& path : paths) allowed_on(path);
    const std::vector<Need> gaps = proxmox::missing(all, allowed_);
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
    // The whole set, not only the gap: a role that does not exist yet is made as a whole. The lines
    // only add to one that does.
    const std::string token{access_.token.reveal()};
    const std::string id = token.substr(0, token.find('='));
    Finding& fix =
        add("rights", Grade::Note, "to grant what is missing, run as root on a Proxmox host:");
    std::vector<Act> acts = wish_.acts;
    acts.insert(acts.end(), wish_.later.begin(), wish_.later.end());
    fix.fix = proxmox::pveum_lines(acts, scope_, id, /*privilege_separation=*/true);
  });
}

const std::vector<std::string>& Examination::allowed_on(const std::string& path) {
  if (!allowed_.contains(path)) {
    allowed_.merge(client_.permissions(path));
    allowed_.try_emplace(path);
  }
  return allowed_.at(path);
}

void Examination::zones() {
  if (scope_.links.empty()) return;
  std::map<std::string, std::string> known;
  try {
    known = client_.vnet_zones();
  } catch (const Error& error) {
    // ignored: without SDN the path does not exist, and without a right to it no zone is listed.
    if (!is_external(error.fault())) throw;
  }
  for (auto& link : scope_.links)
    if (const auto zone = known.find(link.bridge); zone != known.end() && !zone->second.empty())
      link.zone = zone->second;
}

bool Examination::hosts() {
  bool any = false;
  attempt("hosts", [&] {
    const auto nodes = client_.nodes();
    if (scope_.hosts.empty())
      for (const auto& node : nodes) scope_.hosts.push_back(node.name);
    std::vector<std::string> named = scope_.hosts;
    named.insert(named.end(), wish_.spare_hosts.begin(), wish_.spare_hosts.end());
    for (const std::string& host : named) {
      const auto found = std::find_if(nodes.begin(), nodes.end(),
                                      [&](const auto& node) { return node.name == host; });
      if (found == nodes.end()) {
        std::vector<std::string> names;
        for (const auto& node : nodes) names.push_back(node.name);
        add("hosts", Grade::Bad,
            fmt::format("host '{}' does not exist{}", host, did_you_mean(host, names)))
            .fix = {fmt::format("the hosts are {}", enumerate(names))};
        unusable_.insert("/nodes/" + host);
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

void Examination::quorum() {
  attempt("quorum", [&] {
    const auto& rights = allowed_on("/");
    if (std::find(rights.begin(), rights.end(), "Sys.Audit") == rights.end()) {
      add("quorum", Grade::Skipped, "cannot be read without Sys.Audit on /");
      return;
    }
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

void Examination::pools() {
  if (wish_.pools.empty()) return;
  attempt("pool", [&] {
    const auto known = client_.pools();
    for (const std::string& pool : wish_.pools) {
      if (std::find(known.begin(), known.end(), pool) != known.end()) {
        add("pool", Grade::Good, fmt::format("pool '{}' is there", pool));
        continue;
      }
      // Proxmox lists only those that the token may audit; what is made in one need not be.
      const std::string path = "/pool/" + pool;
      const auto& rights = allowed_on(path);
      const bool sees = std::count(rights.begin(), rights.end(), "Pool.Audit") > 0;
      const resources::Hindrance problem = resources::pool_problem(pool, known, sees);
      add("pool", sees ? Grade::Bad : Grade::Skipped, problem.text).fix = {problem.hint};
      if (sees) unusable_.insert(path);
    }
  });
}

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
