#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace rocca::seeds {

/// What goes wrong while somebody works.
enum class Trouble {
  LostAnswer,
  CutConnection,
  InternalError,
  NoRoute,
  ProxyTimeout,
  LateAnswer,
  FailedTask,
  FailedAfterItsWork,
  FullStorage,
  LostHost,
  ChangedLease,
  BadWire,
  CtrlC,
  PowerCut,
  LostWrite,
  OtherLeader,
  EtcdRestart,
};
constexpr std::array trouble_names = {"lost answers",
                                      "cut connections",
                                      "answers 500",
                                      "answers 595",
                                      "answers 596",
                                      "late answers",
                                      "failed tasks",
                                      "tasks that failed after their work",
                                      "full storages",
                                      "lost hosts",
                                      "leases that changed in a run",
                                      "unkind wires",
                                      "Ctrl-C",
                                      "power cuts",
                                      "lost writes of the state",
                                      "other leaders of etcd",
                                      "restarts of etcd"};
static_assert(trouble_names.size() == static_cast<std::size_t>(Trouble::EtcdRestart) + 1);

/// What users and other people do in between.
enum class Turn {
  Change,
  Stop,
  Destroy,
  WorkerMore,
  WorkerLess,
  ThreePlanes,
  LostState,
  LostStateAndLock,
  Stranger,
  Lease,
  Target,
  Rebirth,
  Clone,
  ReusedId,
  Protection,
  KilledDown,
};
constexpr std::array turn_names = {"settings changed by others",
                                   "VMs stopped by others",
                                   "VMs destroyed by others",
                                   "workers more",
                                   "workers less",
                                   "from one control plane to three",
                                   "states lost",
                                   "states and locks lost",
                                   "strangers that look like us",
                                   "leases changed",
                                   "runs for one node only",
                                   "razed and raised again",
                                   "clones by others",
                                   "ids reused by others",
                                   "VMs protected by others",
                                   "up after an interrupted down"};
static_assert(turn_names.size() == static_cast<std::size_t>(Turn::KilledDown) + 1);

/// How its nodes come to be, and where its state lives.
enum class Mode {
  Dhcp,
  Searched,
  Meta,
  Iso,
  Template,
  ExistingWorker,
  AllExisting,
  KubernetesState,
  S3State,
  HttpState,
  SealedState,
};
constexpr std::array mode_names = {"DHCP",
                                   "DHCP without a guest agent",
                                   "META",
                                   "ISOs",
                                   "clones",
                                   "a machine that was there",
                                   "nothing but machines that were there",
                                   "the state in Kubernetes",
                                   "the state in S3",
                                   "the state at an HTTP server",
                                   "a sealed state"};
static_assert(mode_names.size() == static_cast<std::size_t>(Mode::SealedState) + 1);

/// What was in one life.
struct Counts {
  std::uint64_t trace = 0;     // hash of everything that happened in the simulated data centre
  std::uint64_t runs = 0;      // of up and down
  std::uint64_t troubled = 0;  // of these, those that did not end well and were repeated
  std::array<std::uint64_t, trouble_names.size()> troubles{};  // those that hit
  std::array<std::uint64_t, turn_names.size()> turns{};
  std::array<std::uint64_t, mode_names.size()> modes{};  // 1: it was so
  std::uint64_t large = 0;                               // it had three control planes
  std::uint64_t workers = 0;                             // it had any
  std::uint64_t hosts = 0;                               // more than one
  std::uint64_t old = 0;                                 // on Proxmox VE 8.4
  std::uint64_t exchanges = 0;                           // requests to everybody
  double simulated_seconds = 0;                          // how long it was for those inside
  // How it began. What lives share is counted once.
  std::uint64_t beginnings = 0;
  std::uint64_t stormy_beginnings = 0;  // something struck
  std::uint64_t early_troubles = 0;     // that struck until the cluster was up for the first time

  void count(Trouble trouble) { ++troubles[static_cast<std::size_t>(trouble)]; }
  void count(Turn turn) { ++turns[static_cast<std::size_t>(turn)]; }
  void note(Mode mode) { modes[static_cast<std::size_t>(mode)] = 1; }
  std::uint64_t of(Trouble trouble) const { return troubles[static_cast<std::size_t>(trouble)]; }
};

/// How one life ended.
struct Outcome : Counts {
  std::string broken;  // the promise that was not kept, and where; empty: all were
};

/// Seeds in a row.
struct Seeds {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  Seeds before(std::uint64_t seed) const { return {first, std::min(first + count, seed) - first}; }
  /// Those that are left when this one is over, and all before it.
  Seeds behind(std::uint64_t seed) const {
    return seed < first ? *this
                        : Seeds{seed + 1, first + count - std::min(seed + 1, first + count)};
  }
};

/// So many lives in a row begin alike, in the same data centre and with the same troubles, until
/// their cluster is up for the first time.
constexpr std::uint64_t family = 8;
/// So many of these go on alike until their cluster is up for the last time: they end apart.
constexpr std::uint64_t siblings = 2;

/// A cluster's life, all of it drawn from the seed: raised in bad weather, changed by its user, by
/// other people and by lost hosts, and razed. After every step the promises are looked at.
Outcome live(std::uint64_t seed, bool loud);

/// Lives of one family: what some share is lived once, and each goes on in a process of its own
/// with a copy of that. Whoever is the first counts it.
void live_together(Seeds seeds, const std::function<void(std::uint64_t, const Outcome&)>& told);

/// Makes what all lives share, before there are many processes.
void prepare();

}  // namespace rocca::seeds
