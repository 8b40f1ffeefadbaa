#include "seeds/weather.hpp"

#include <fmt/format.h>

namespace rocca::seeds {

namespace {

using namespace std::chrono_literals;

struct Asked {
  const char* method;
  const char* path;
};

constexpr std::array makers = {
    Asked{"POST", "/qemu"},     Asked{"POST", "/download-url"}, Asked{"PUT", "/resize"},
    Asked{"POST", "/status/"},  Asked{"GET", "/pending"},       Asked{"GET", "/tasks"},
    Asked{"GET", "/resources"}, Asked{"GET", "/content"},       Asked{"GET", "/"},
};
constexpr std::array removers = {
    Asked{"DELETE", "/qemu"},   Asked{"POST", "/status/"}, Asked{"GET", "/tasks"},
    Asked{"GET", "/resources"}, Asked{"GET", "/pending"},  Asked{"GET", "/"},
};

constexpr std::array answers = {
    "  lose: true\n",
    "  cut: true\n",
    "  answer: 500\n  reason: \"got timeout\"\n",
    "  answer: 595\n  reason: \"No route to host\"\n",
    "  answer: 596\n  reason: \"Connection timed out\"\n",
    "  delay: 20s\n",
};

constexpr std::array making = {"qmcreate", "qmcreate", "qmstart", "resize", "download", "qmconfig"};
constexpr std::array removing = {"qmstop", "qmdestroy", "qmshutdown"};

}  // namespace

std::string Weather::worsen(bool makes) {
  ++storm_;
  rules_.clear();
  std::string words;
  if (dhcp) words += changed_lease();
  if (etcd) words += restless_etcd();
  const unsigned things = dice_.between(2, 3);
  for (unsigned i = 0; i < things; ++i) {
    switch (dice_.below(9)) {
      case 0:
      case 1:
      case 2:
        words += bad_requests(makes);
        break;
      case 3:
      case 4:
      case 5:
        words += bad_tasks(makes);
        break;
      case 6:
        words += full_storage();
        break;
      case 7:
        words += lost_host();
        break;
      default:
        words += bad_wires();
        break;
    }
  }
  if (!rules_.empty()) {
    lab::Faults::parse(rules_, "weather").arm(rig_.home.dc);
    count_strikes();
  }
  return words;
}

/// Whoever strikes is counted: a storm that hits nobody shows nothing.
void Weather::count_strikes() {
  auto& dc = rig_.home.dc;
  if (dc.request_fault)
    dc.request_fault = [this, rule = dc.request_fault](const auto& node, const auto& request) {
      auto fault = rule(node, request);
      if (fault)
        counts_.count(fault->lose            ? Trouble::LostAnswer
                      : fault->cut           ? Trouble::CutConnection
                      : fault->status == 500 ? Trouble::InternalError
                      : fault->status == 595 ? Trouble::NoRoute
                      : fault->status == 596 ? Trouble::ProxyTimeout
                                             : Trouble::LateAnswer);
      return fault;
    };
  if (dc.task_fault)
    dc.task_fault = [this, rule = dc.task_fault](const auto& node, const auto& task) {
      auto fault = rule(node, task);
      if (fault)
        counts_.count(fault->after_the_work ? Trouble::FailedAfterItsWork : Trouble::FailedTask);
      return fault;
    };
}

void Weather::clear() {
  ++storm_;
  auto& dc = rig_.home.dc;
  dc.request_fault = nullptr;
  dc.task_fault = nullptr;
  for (auto& [id, storage] : dc.storages) storage.reserved = 0;
  for (const auto& [name, node] : dc.nodes())
    if (!node->online) dc.set_online(name, true);
  if (chaos_) counts_.troubles[static_cast<std::size_t>(Trouble::BadWire)] += chaos_->struck();
  chaos_.reset();
}

void Weather::later(Duration delay, std::function<void()> what) {
  rig_.home.world.after(delay, [this, storm = storm_, what = std::move(what)] {
    if (storm == storm_) what();
  });
}

std::string Weather::bad_requests(bool makes) {
  const Asked& what = makes ? dice_.of(makers) : dice_.of(removers);
  const unsigned skip = dice_.one_in(3) ? dice_.between(1, 4) : 0;
  const std::string rule =
      fmt::format("- request: {{ method: {}, path: {} }}\n  skip: {}\n  times: {}\n{}", what.method,
                  what.path, skip, dice_.between(1, 4), dice_.of(answers));
  rules_ += rule;
  return rule;
}

std::string Weather::bad_tasks(bool makes) {
  const std::string rule = fmt::format(
      "- task: {{ type: {} }}\n  skip: {}\n  times: {}\n  fail: \"command failed: exit code "
      "1\"\n{}",
      makes ? dice_.of(making) : dice_.of(removing), dice_.one_in(4) ? 1 : 0, dice_.between(1, 2),
      dice_.one_in(2) ? "  afterwards: true\n" : "");
  rules_ += rule;
  return rule;
}

std::string Weather::full_storage() {
  const std::string id = dice_.one_in(3) ? "local" : "local-lvm";
  const unsigned begin = dice_.between(0, 20);
  auto& dc = rig_.home.dc;
  later(std::chrono::seconds{begin}, [this, &dc, id] {
    counts_.count(Trouble::FullStorage);
    dc.storages.at(id).reserved = dc.storages.at(id).total;
  });
  return fmt::format("- after {} s storage {} is full\n", begin, id);
}

std::string Weather::lost_host() {
  auto& dc = rig_.home.dc;
  auto host = dc.nodes().begin();
  std::advance(host, static_cast<std::ptrdiff_t>(dice_.below(dc.nodes().size())));
  const unsigned begin = dice_.between(0, 40), length = dice_.between(5, 60);
  // Some come back only when the storm is over: the run has to end without them.
  const bool for_long = dice_.one_in(6);
  later(std::chrono::seconds{begin}, [this, &dc, name = host->first] {
    counts_.count(Trouble::LostHost);
    dc.set_online(name, false);
  });
  if (for_long) return fmt::format("- after {} s host {} is lost\n", begin, host->first);
  later(std::chrono::seconds{begin + length},
        [&dc, name = host->first] { dc.set_online(name, true); });
  return fmt::format("- after {} s host {} is lost, for {} s\n", begin, host->first, length);
}

/// Not of a member of etcd that has others: with a second one it would cost them their quorum.
std::string Weather::changed_lease() {
  const unsigned begin = dice_.between(0, 45);
  const std::uint64_t which = dice_.below(16);
  later(std::chrono::seconds{begin}, [this, which] {
    std::vector<std::string> cards;
    for (const lab::talos::TalosNode* node : rig_.home.estate.fleet().nodes()) {
      if (!node->powered() || (node->etcd() && node->etcd()->members().size() > 1)) continue;
      for (const lab::talos::Link& link : node->machine().links) cards.push_back(link.mac);
    }
    if (cards.empty()) return;
    counts_.count(Trouble::ChangedLease);
    rig_.home.lans.change_lease(cards[which % cards.size()]);
  });
  return fmt::format("- after {} s a lease changes\n", begin);
}

/// Only while all voters are there: with another one away a restart would cost the quorum.
std::string Weather::restless_etcd() {
  std::string words;
  const unsigned moments = etcd_dice_.between(1, 3);
  for (unsigned i = 0; i < moments; ++i) {
    const unsigned begin = etcd_dice_.between(5, 120), away = etcd_dice_.between(1, 6);
    const bool leader = etcd_dice_.one_in(2);
    const std::uint64_t which = etcd_dice_.below(3);
    later(std::chrono::seconds{begin}, [this, leader, which, away] {
      std::vector<lab::talos::TalosNode*> members;
      for (lab::talos::TalosNode* node : rig_.home.estate.fleet().nodes())
        if (node->powered() && node->etcd() && node->etcd_runs()) members.push_back(node);
      if (members.size() < 3 || members.front()->etcd()->members().size() != members.size()) return;
      if (leader) {
        if (members.front()->etcd()->transfer()) counts_.count(Trouble::OtherLeader);
        return;
      }
      counts_.count(Trouble::EtcdRestart);
      restless_until_ = rig_.home.world.now() + std::chrono::seconds{away + 30};
      members[which % members.size()]->restart_etcd(std::chrono::seconds{away});
    });
    words += fmt::format("- after {} s {}\n", begin,
                         leader ? "another member leads etcd"
                                : fmt::format("a member of etcd restarts, for {} s", away));
  }
  return words;
}

std::string Weather::bad_wires() {
  if (chaos_) return "";
  lab::Chaos::Options unkind;
  unkind.dropped_before = dice_.between(0, 40);
  unkind.dropped_after = dice_.between(0, 40);
  unkind.busy = dice_.between(0, 15);
  unkind.broken = dice_.between(0, 15);
  unkind.delayed = dice_.between(0, 50);
  const std::uint64_t which = dice_.below(std::uint64_t{1} << 48);
  chaos_ =
      std::make_shared<lab::Chaos>(rig_.wire, rig_.home.world, rig_.parker,
                                   rig_.home.world.fork(fmt::format("chaos/{}", which)), unkind);
  return fmt::format("- of 1000 exchanges {} do not arrive, {} lose their answer, {} are late\n",
                     unkind.dropped_before, unkind.dropped_after, unkind.delayed);
}

}  // namespace rocca::seeds
