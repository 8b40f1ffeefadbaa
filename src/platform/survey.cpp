#include "platform/survey.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "engine/proven.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// While somebody else's list is under way.
constexpr Duration under_way = 15ms;
constexpr Duration short_knock = 250ms;
constexpr Duration shortest_knock = 50ms;
constexpr unsigned many_knocks = 48;  // three rounds of those that are looked at at once
constexpr Duration long_knock = 1500ms;
constexpr Duration patient_knock = 5s;
constexpr unsigned patient_knocks = 20;  // by then most machines have booted
// How far back the first list of a host goes, which tells how long things take there.
constexpr Duration lookback = 24h * 14;
// So long one list of VMs is as good as another for those who look at a VM itself afterwards.
constexpr Duration list_lasts = 1s;
constexpr Duration a_moment = 500ms;
// Who asks again sooner gets the same answer: a host that is off makes everybody wait for nothing.
// It is asked ever more rarely: a list that tells of it again comes first.
constexpr Duration off_for = 5s;
constexpr unsigned most_doublings = 6;
// A host that accepts requests and does not answer them makes each one wait until it times out: one
// such wait is enough for all that ask there.
constexpr Duration long_silence = 10s;
constexpr Duration mute_for = 20s;
// The cluster's list tells power from statistics that are broadcast every ten seconds.
constexpr Duration statistics_lag = 12s;

std::string volume_key(const std::string& host, const std::string& storage,
                       const std::string& content) {
  return host + " " + storage + " " + content;
}

}  // namespace

bool has_our_tags(const proxmox::VmRow& row, const std::string& cluster) {
  const auto has = [&](std::string_view tag) {
    return std::any_of(row.tags.begin(), row.tags.end(),
                       [&](const std::string& each) { return equal_ignoring_case(each, tag); });
  };
  return has(engine::ownership_family) && has(cluster);
}

std::vector<proxmox::VmRow> Survey::rows(proxmox::Client& client) {
  {
    const std::lock_guard lock{mutex_};
    if (rows_) {
      std::vector<proxmox::VmRow> all;
      for (const auto& [vmid, row] : *rows_) all.push_back(row);
      return all;
    }
  }
  refresh(client);
  return rows(client);
}

void Survey::refresh_soon(proxmox::Client& client) {
  {
    const std::lock_guard lock{mutex_};
    if (rows_ && clock_.tick() - refreshed_ < list_lasts) return;
    refreshed_ = clock_.tick();
  }
  refresh(client);
}

std::vector<proxmox::VmRow> Survey::select(proxmox::Client& client,
                                           const std::function<bool(const Candidate&)>& wanted) {
  bool read = false;
  {
    const std::lock_guard lock{mutex_};
    read = rows_.has_value();
  }
  if (!read) refresh(client);
  std::vector<proxmox::VmRow> found;
  const std::lock_guard lock{mutex_};
  for (const auto& [vmid, row] : *rows_) {
    const auto shown = shown_.find(vmid);
    if (wanted({row, marked_.contains(vmid), shown == shown_.end() ? nullptr : &shown->second}))
      found.push_back(row);
  }
  return found;
}

void Survey::refresh(proxmox::Client& client) {
  {
    const std::lock_guard lock{mutex_};
    refreshed_ = clock_.tick();
  }
  std::map<proxmox::Vmid, proxmox::VmRow> fresh;
  for (proxmox::VmRow& row : client.vms()) fresh.emplace(row.vmid, std::move(row));
  // Of a host that is off there are no statistics.
  std::set<std::string> heard_of;
  for (const auto& [vmid, row] : fresh)
    if (row.status != "unknown") heard_of.insert(row.node);
  const std::lock_guard lock{mutex_};
  for (const auto& [vmid, what] : noted_) {
    const auto row = fresh.find(vmid);
    if (row != fresh.end() && clock_.tick() - what.second < statistics_lag)
      row->second.status = what.first;
  }
  rows_ = std::move(fresh);
  std::erase_if(off_, [&](const auto& entry) { return heard_of.contains(entry.first); });
}

std::optional<proxmox::VmRow> Survey::find(proxmox::Client& client, proxmox::Vmid vmid) {
  auto found = select(client, [&](const Candidate& each) { return each.row.vmid == vmid; });
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

void Survey::note(const proxmox::VmRow& row) {
  const std::lock_guard lock{mutex_};
  if (rows_) (*rows_)[row.vmid] = row;
  noted_[row.vmid] = {row.status, clock_.tick()};
}

bool Survey::noted(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  return noted_.contains(vmid);
}

bool Survey::is_switched_off(proxmox::Vmid vmid) const {
  const std::lock_guard lock{mutex_};
  const auto found = noted_.find(vmid);
  return found != noted_.end() && found->second.first == "stopped" &&
         clock_.tick() - found->second.second < statistics_lag;
}

void Survey::unnote(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  noted_.erase(vmid);
}

void Survey::destroyed(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  destroyed_.insert(vmid);
}

bool Survey::was_destroyed(proxmox::Vmid vmid) const {
  const std::lock_guard lock{mutex_};
  return destroyed_.contains(vmid);
}

void Survey::gone(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  if (rows_) rows_->erase(vmid);
  noted_.erase(vmid);
  configs_.erase(vmid);
  shown_.erase(vmid);
}

std::optional<proxmox::VmConfig> Survey::config(proxmox::Client& client, const std::string& host,
                                                proxmox::Vmid vmid) {
  {
    const std::lock_guard lock{mutex_};
    const auto found = configs_.find(vmid);
    if (found != configs_.end() && found->second.first == host) return found->second.second;
  }
  auto config = asking(client, host, [&] { return client.find_whole_config(host, vmid); });
  if (config) {
    const std::lock_guard lock{mutex_};
    proxmox::VmRow row;
    row.vmid = vmid;
    shown_[vmid] = shown_of(row, *config);
    configs_[vmid] = {host, *config};
  }
  return config;
}

std::optional<proxmox::VmConfig> Survey::config_of_any(proxmox::Client& client,
                                                       const proxmox::VmRow& row) {
  if (is_off(row.node)) return std::nullopt;
  try {
    return config(client, row.node, row.vmid);
  } catch (const Error&) {
    if (is_off(row.node)) return std::nullopt;
    throw;
  }
}

/// Asks a host. That it is off is worth more than the words of whoever did not get through to it.
template <class Body>
auto Survey::asking(proxmox::Client& client, const std::string& host, Body&& body)
    -> decltype(body()) {
  {
    const std::lock_guard lock{mutex_};
    const auto off = off_.find(host);
    if (off != off_.end() && clock_.tick() < off->second.until) throw_off(host);
    const auto mute = mute_.find(host);
    if (mute != mute_.end() && clock_.tick() < mute->second.until)
      throw engine::Proven(mute->second.error);
  }
  const Tick asked = clock_.tick();
  try {
    auto answer = body();
    const std::lock_guard lock{mutex_};
    off_.erase(host);
    mute_.erase(host);
    return answer;
  } catch (const Error& error) {
    const bool no_answer = error.fault() == Fault::Lost || error.fault() == Fault::Timeout;
    if (no_answer && clock_.tick() - asked >= long_silence) {
      const std::lock_guard lock{mutex_};
      mute_.insert_or_assign(host, Mute{clock_.tick() + mute_for, error});
    }
    if (error.fault() != Fault::Unreachable || !proves_off(client, host)) throw;
  }
  throw_off(host);
}

/// Whether the others say that it is off.
bool Survey::proves_off(proxmox::Client& client, const std::string& host) {
  std::vector<proxmox::NodeInfo> hosts;
  try {
    hosts = client.nodes();
  } catch (const Error& error) {
    // ignored: nothing proves that the host is off; the caller throws what it got itself.
    if (!is_external(error.fault())) throw;
    return false;
  }
  const bool off = std::any_of(hosts.begin(), hosts.end(), [&](const proxmox::NodeInfo& each) {
    return each.name == host && !each.online;
  });
  const std::lock_guard lock{mutex_};
  if (off) {
    Off& its = off_[host];
    its.until = clock_.tick() + off_for * (1u << std::min(its.times, most_doublings));
    ++its.times;
  } else {
    off_.erase(host);
  }
  return off;
}

void Survey::throw_off(const std::string& host) {
  throw engine::Proven(
      Error(Fault::Unreachable, fmt::format("host {} is off", host))
          .hint(fmt::format("once {} is back, the same command goes on from here", host)));
}

bool Survey::is_off(const std::string& host) {
  const std::lock_guard lock{mutex_};
  return off_.contains(host);
}

void Survey::expect(proxmox::Vmid vmid, const std::string& node) {
  const std::lock_guard lock{mutex_};
  expected_.emplace(vmid, node);
}

std::string Survey::seems(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  const auto found = expected_.find(vmid);
  return found == expected_.end() ? "" : found->second;
}

void Survey::forget(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  configs_.erase(vmid);
}

void Survey::resized(proxmox::Vmid vmid, const std::string& slot, Bytes size) {
  const std::lock_guard lock{mutex_};
  const auto found = configs_.find(vmid);
  if (found == configs_.end()) return;
  proxmox::VmConfig& config = found->second.second;
  const auto drive = config.options.find(slot);
  if (drive == config.options.end()) return;
  proxmox::PropertyString parts = proxmox::PropertyString::parse(slot, drive->second);
  parts.set("size", fmt::format("{}K", size.count() >> 10));
  drive->second = parts.print();
  config.digest.clear();  // it is another one now, and nobody knows it
}

void Survey::planned(proxmox::Vmid vmid, const Halt& halt) {
  const std::lock_guard lock{mutex_};
  if (look_began_) return;
  halts_.insert_or_assign(vmid, std::pair{clock_.tick(), halt});
}

std::optional<Halt> Survey::just_planned(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  const auto found = halts_.find(vmid);
  if (found == halts_.end() || clock_.tick() - found->second.first > a_moment) return std::nullopt;
  return found->second.second;
}

void Survey::acted(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  halts_.erase(vmid);
}

void Survey::making(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  makes_.insert(vmid);
}

bool Survey::makes(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  return makes_.contains(vmid);
}

void Survey::suspect(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  suspects_.insert(vmid);
}

bool Survey::suspects(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  return suspects_.contains(vmid);
}

void Survey::contend(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  contended_.insert(vmid);
}

bool Survey::contended(proxmox::Vmid vmid) {
  const std::lock_guard lock{mutex_};
  return contended_.contains(vmid);
}

bool Survey::Scan::asks(const proxmox::VmRow& row) const {
  return !but.contains(row.vmid) && (everywhere || has_our_tags(row, cluster));
}

std::vector<Marked> Survey::marked(proxmox::Client& client, const Scan& scan,
                                   std::vector<proxmox::VmRow>* unasked) {
  const std::string& cluster = scan.cluster;
  std::vector<Marked> found;
  for (const proxmox::VmRow& row : rows(client)) {
    if (row.is_container) continue;
    if (!scan.asks(row)) continue;
    const auto config = within(fmt::format("looking for our mark on {}", describe(row)),
                               [&] { return config_of_any(client, row); });
    if (!config && unasked != nullptr && has_our_tags(row, cluster) && is_off(row.node))
      unasked->push_back(row);
    if (!config) continue;
    engine::Shown shown = shown_of(row, *config);
    const auto slash = shown.sku.find('/');
    if (shown.family != engine::ownership_family || slash == std::string::npos) continue;
    if (shown.sku.substr(0, slash) != cluster) continue;
    {
      const std::lock_guard lock{mutex_};
      marked_.insert(row.vmid);
    }
    std::string node = shown.sku.substr(slash + 1);
    found.push_back({row, std::move(shown), cluster, std::move(node)});
  }
  return found;
}

namespace {

std::optional<Instant> newest_start(const std::vector<proxmox::TaskRow>& rows) {
  std::optional<Instant> newest;
  for (const proxmox::TaskRow& row : rows)
    newest = std::max(newest.value_or(row.started), row.started);
  return newest;
}

/// Brings a list of tasks up to date with a later one that tells of all since `since`, on the
/// host's own clock. False: the two do not tell of everything, and the first one is as it was.
bool continue_list(std::vector<proxmox::TaskRow>& rows, Instant since,
                   const std::vector<proxmox::TaskRow>& later) {
  const auto newest = newest_start(rows);
  if (!newest || *newest < since) return false;  // what began in between is in neither
  for (const proxmox::TaskRow& row : rows)
    if (row.running() && row.started < since) return false;  // its end is not told
  std::erase_if(rows, [&](const proxmox::TaskRow& row) { return row.started >= since; });
  rows.insert(rows.begin(), later.begin(), later.end());
  return true;
}

}  // namespace

std::vector<proxmox::TaskRow> Survey::recent_tasks(proxmox::Client& client, const std::string& host,
                                                   proxmox::Vmid vmid, Duration how_far) {
  const auto of_vm = [&](const std::vector<proxmox::TaskRow>& rows) {
    std::vector<proxmox::TaskRow> its;
    for (const proxmox::TaskRow& row : rows)
      if (row.upid.id == std::to_string(vmid) && row.started >= clock_.now() - how_far)
        its.push_back(row);
    return its;
  };
  {
    const std::lock_guard lock{mutex_};
    const auto known = recent_.find(host);
    if (known != recent_.end() && clock_.tick() - known->second.first < list_lasts)
      return of_vm(known->second.second);
  }
  proxmox::TaskFilter filter;
  filter.since = clock_.now() - how_far;
  const Tick asked = clock_.tick();
  std::vector<proxmox::TaskRow> rows = client.tasks(host, filter);
  if (rows.size() >= filter.limit) {
    // A busy host: there is more than one list holds.
    filter.vmid = vmid;
    return client.tasks(host, filter);
  }
  std::vector<proxmox::TaskRow> its = of_vm(rows);
  const std::lock_guard lock{mutex_};
  recent_.insert_or_assign(host, std::pair{asked, std::move(rows)});
  return its;
}

void Survey::task_ended(const std::string& host) {
  const std::lock_guard lock{mutex_};
  const auto known = recent_.find(host);
  // A list that was read after the one that told of the end tells of it as well.
  if (known != recent_.end() && known->second.first < tasks_[host].read) recent_.erase(known);
}

void Survey::asked(const proxmox::Upid& upid) {
  const std::lock_guard lock{mutex_};
  asked_.emplace(upid.text, clock_.tick());
}

std::optional<Duration> Survey::asked_ago(const proxmox::Upid& upid) const {
  const std::lock_guard lock{mutex_};
  const auto found = asked_.find(upid.text);
  if (found == asked_.end()) return std::nullopt;
  return clock_.tick() - found->second;
}

void Survey::cannot_end(const proxmox::Upid& upid) {
  const std::lock_guard lock{mutex_};
  not_ours_to_end_.insert(upid.text);
}

bool Survey::can_end(const proxmox::Upid& upid) {
  const std::lock_guard lock{mutex_};
  return !not_ours_to_end_.contains(upid.text);
}

std::vector<proxmox::StorageInfo> Survey::storages(proxmox::Client& client,
                                                   const std::string& host) {
  {
    const std::lock_guard lock{mutex_};
    const auto found = storages_.find(host);
    if (found != storages_.end()) return found->second;
  }
  auto storages = asking(client, host, [&] { return client.storages(host); });
  const std::lock_guard lock{mutex_};
  return storages_[host] = std::move(storages);
}

std::vector<proxmox::Volume> Survey::volumes(proxmox::Client& client, const std::string& host,
                                             const std::string& storage,
                                             const std::string& content) {
  const std::string key = volume_key(host, storage, content);
  {
    const std::lock_guard lock{mutex_};
    const auto found = volumes_.find(key);
    if (found != volumes_.end()) return found->second;
  }
  auto volumes = asking(client, host, [&] { return client.volumes(host, storage, content); });
  const std::lock_guard lock{mutex_};
  return volumes_[key] = std::move(volumes);
}

void Survey::fetches(const std::string& host, const std::string& volume) {
  const std::lock_guard lock{mutex_};
  fetched_.emplace(host, volume);
}

bool Survey::fetched(const std::string& host, const std::string& volume) {
  const std::lock_guard lock{mutex_};
  return fetched_.contains({host, volume});
}

void Survey::fetch_failed(const std::string& host, const std::string& volume) {
  const std::lock_guard lock{mutex_};
  fetched_.erase({host, volume});
}

void Survey::forget_volumes(const std::string& host, const std::string& storage) {
  const std::lock_guard lock{mutex_};
  std::erase_if(volumes_, [&](const auto& entry) {
    return entry.first.starts_with(volume_key(host, storage, ""));
  });
}

Duration Survey::waiting_since(const std::string& name) {
  const std::lock_guard lock{mutex_};
  const Tick now = clock_.tick();
  return now - waits_.emplace(name, now).first->second;
}

Duration Survey::first_ask(const proxmox::Upid& upid, Duration least, Duration leeway) {
  const std::lock_guard lock{mutex_};
  const Tick now = clock_.tick();
  TaskList& list = tasks_[upid.node];
  list.tasks.try_emplace(upid.text, proxmox::Task{upid, true, ""});
  return list.pace.begin(upid.text, upid.type, now, least, leeway) - now;
}

Duration Survey::ask_again(const proxmox::Upid& upid) {
  const std::lock_guard lock{mutex_};
  TaskList& list = tasks_[upid.node];
  if (list.under_way) return under_way;
  if (const Duration fresh = still_fresh(list); fresh > Duration{})
    return std::max(fresh, under_way);
  const Tick now = clock_.tick();
  if (!list.pace.goes_on(upid.text)) list.pace.join(upid.text, upid.type, now);
  return list.pace.again(upid.text, now) - now;
}

void Survey::wait_begins(const std::string& name, const std::string& kind, Duration least) {
  const std::lock_guard lock{mutex_};
  nodes_.begin(name, kind, clock_.tick(), least);
}

Duration Survey::too_early(const std::string& name) {
  const std::lock_guard lock{mutex_};
  if (!nodes_.goes_on(name)) return {};
  return std::max(nodes_.due(name) - clock_.tick(), Duration{});
}

Duration Survey::look_again(const std::string& name, const std::string& kind, bool soon) {
  const std::lock_guard lock{mutex_};
  const Tick now = clock_.tick();
  if (!nodes_.goes_on(name)) nodes_.join(name, kind, now);
  return nodes_.again(name, now, soon) - now;
}

void Survey::wait_over(const std::string& name) {
  const std::lock_guard lock{mutex_};
  nodes_.over(name, clock_.tick());
}

bool Survey::is_awaited(const std::string& name) const {
  const std::lock_guard lock{mutex_};
  return nodes_.goes_on(name);
}

void Survey::saw(const std::string& node, const talos::Sight& sight) {
  const std::lock_guard lock{mutex_};
  sights_.insert_or_assign(node, std::pair{clock_.tick(), sight});
}

std::optional<talos::Sight> Survey::just_seen(const std::string& node) {
  const std::lock_guard lock{mutex_};
  const auto found = sights_.find(node);
  if (found == sights_.end()) return std::nullopt;
  const Tick when = found->second.first;
  const bool of_this_look = look_began_ && when >= *look_began_;
  if (!of_this_look && clock_.tick() - when > a_moment) return std::nullopt;
  return found->second.second;
}

void Survey::look_begins() {
  const std::lock_guard lock{mutex_};
  look_began_ = clock_.tick();
  pass_on_.clear();
}

void Survey::look_ends() {
  const std::lock_guard lock{mutex_};
  look_began_.reset();
}

bool Survey::looks() const {
  const std::lock_guard lock{mutex_};
  return look_began_.has_value();
}

void Survey::passes_on(const std::string& address) {
  const std::lock_guard lock{mutex_};
  const auto known = [&](const auto& each) { return each.first == address; };
  if (std::none_of(pass_on_.begin(), pass_on_.end(), known)) pass_on_.emplace_back(address, 0);
}

void Survey::passes_no_more(const std::string& address) {
  const std::lock_guard lock{mutex_};
  std::erase_if(pass_on_, [&](const auto& each) { return each.first == address; });
}

Survey::Passing Survey::who_passes_on() {
  const std::lock_guard lock{mutex_};
  if (!look_began_ || pass_on_.empty()) return {*this, ""};
  const std::size_t first = turn_++ % pass_on_.size();
  auto* least = &pass_on_[first];
  for (std::size_t i = 1; i < pass_on_.size(); ++i)
    if (auto& other = pass_on_[(first + i) % pass_on_.size()]; other.second < least->second)
      least = &other;
  ++least->second;
  return {*this, least->first};
}

Survey::Passing::~Passing() {
  const std::lock_guard lock{survey_.mutex_};
  for (auto& [address, in_flight] : survey_.pass_on_)
    if (address == through_ && in_flight > 0) --in_flight;
}

void Survey::stays_away(const std::string& node) {
  const std::lock_guard lock{mutex_};
  if (away_.empty()) away_ = node;
}

std::string Survey::who_stays_away() const {
  const std::lock_guard lock{mutex_};
  return away_;
}

void Survey::disturbs(const std::string& node, const std::string& what) {
  const std::lock_guard lock{mutex_};
  if (what.empty())
    disturbances_.erase(node);
  else
    disturbances_.insert_or_assign(node, what);
}

std::string Survey::disturbance_of(const std::string& node) const {
  const std::lock_guard lock{mutex_};
  const auto found = disturbances_.find(node);
  return found == disturbances_.end() ? "" : found->second;
}

void Survey::workers_answer() {
  const std::lock_guard lock{mutex_};
  workers_answered_ = true;
}

bool Survey::workers_answered() const {
  const std::lock_guard lock{mutex_};
  return workers_answered_;
}

void Survey::found_slow(const std::string& address) {
  const std::lock_guard lock{mutex_};
  slow_.insert(address);
}

void Survey::is_called(const std::string& address, const std::string& name) {
  const std::lock_guard lock{mutex_};
  names_[address] = name;
}

std::string Survey::name_at(const std::string& address) const {
  const std::lock_guard lock{mutex_};
  const auto found = names_.find(address);
  return found == names_.end() ? "" : found->second;
}

bool Survey::is_slow(const std::string& address) const {
  const std::lock_guard lock{mutex_};
  return slow_.contains(address);
}

Duration Survey::knock(const std::string& address) {
  const std::lock_guard lock{mutex_};
  if (slow_.contains(address)) return patient_knock;
  const unsigned vain = knocks_[address];
  const bool longer = vain >= patient_knocks && vain % 5 == 0;
  return far_away_ || longer ? long_knock : short_knock;
}

Duration Survey::first_knock() {
  const std::lock_guard lock{mutex_};
  return ++first_knocks_ <= many_knocks ? short_knock : shortest_knock;
}

void Survey::knocked(const std::string& address, bool opened, Duration how_long) {
  const std::lock_guard lock{mutex_};
  unsigned& vain = knocks_[address];
  if (opened && how_long == long_knock && vain > 0) far_away_ = true;
  vain = opened ? 0 : vain + 1;
}

void Survey::opened(const std::string& thing, const std::string& door) {
  const std::lock_guard lock{mutex_};
  doors_[thing] = door;
}

std::string Survey::door_of(const std::string& thing) {
  const std::lock_guard lock{mutex_};
  const auto found = doors_.find(thing);
  return found == doors_.end() ? "" : found->second;
}

void Survey::wait_anew(const std::string& name) {
  const std::lock_guard lock{mutex_};
  waits_.erase(name);
}

void Survey::next_with_lanes(const std::string& name) {
  const std::lock_guard lock{mutex_};
  with_lanes_.insert(name);
}

bool Survey::has_lanes(const std::string& name) {
  const std::lock_guard lock{mutex_};
  return with_lanes_.erase(name) > 0;
}

std::optional<proxmox::Task> Survey::ask_alone(proxmox::Client& client, const proxmox::Upid& upid) {
  auto task = client.find_task(upid);
  // Proxmox forgets tasks in the end. What became of it is then seen in the world itself.
  return task ? *task : proxmox::Task{upid, false, "OK"};
}

std::optional<proxmox::Task> Survey::task(proxmox::Client& client, const proxmox::Upid& upid,
                                          Duration shared) {
  proxmox::TaskFilter filter;
  {
    const std::lock_guard lock{mutex_};
    TaskList& list = tasks_[upid.node];
    const auto found = list.tasks.find(upid.text);
    // What has ended does not begin again.
    if (found != list.tasks.end() && !found->second.running) return found->second;
    if (found != list.tasks.end() && list.ever && clock_.tick() - list.read < shared)
      return found->second;
    // Somebody else has asked since it was to be asked after.
    if (found != list.tasks.end() && list.pace.goes_on(upid.text) &&
        list.read >= list.pace.due(upid.text))
      return found->second;
    if (list.under_way) return std::nullopt;
    if (still_fresh(list) > Duration{})
      return found == list.tasks.end() ? std::nullopt : std::optional{found->second};
    list.under_way = true;
    filter.since = list.ever ? oldest_open(list, upid) : since_ - lookback;
    // So that it continues the list of recent tasks without a gap.
    if (const auto recent = recent_.find(upid.node); recent != recent_.end())
      if (const auto newest = newest_start(recent->second.second))
        filter.since = std::min(*filter.since, *newest);
  }
  struct Done {
    Survey& survey;
    const std::string& host;
    ~Done() {
      const std::lock_guard lock{survey.mutex_};
      survey.tasks_[host].under_way = false;
    }
  } done{*this, upid.node};
  const Tick asked = clock_.tick();
  const auto rows = client.tasks(upid.node, filter);
  {
    const std::lock_guard lock{mutex_};
    TaskList& list = tasks_[upid.node];
    list.read = asked;
    list.took = clock_.tick() - asked;
    list.ever = true;
    bool told = false;
    for (const proxmox::TaskRow& row : rows) {
      take(list, row);
      told = told || row.upid == upid;
    }
    if (const auto recent = recent_.find(upid.node); recent != recent_.end())
      if (recent->second.first < asked && rows.size() < filter.limit &&
          continue_list(recent->second.second, *filter.since, rows))
        recent->second.first = asked;
    if (told) return list.tasks.at(upid.text);
  }
  const auto alone = ask_alone(client, upid);
  const std::lock_guard lock{mutex_};
  if (alone) tasks_[upid.node].tasks.insert_or_assign(upid.text, *alone);
  return alone;
}

/// Since when a list tells of all that are waited for: nobody needs the rest a second time. A
/// receipt of an earlier run is older than this one; its task is asked for alone then. Called with
/// the lock.
Instant Survey::oldest_open(const TaskList& list, const proxmox::Upid& asked) const {
  Instant oldest = asked.started;
  for (const auto& [name, task] : list.tasks)
    if (task.running && list.pace.goes_on(name)) oldest = std::min(oldest, task.upid.started);
  return std::max(oldest, since_ - 10min);
}

/// How long the last list is still as good as a new one: a host that needs long to tell it is not
/// asked again at once. Called with the lock.
Duration Survey::still_fresh(const TaskList& list) const {
  if (!list.ever) return {};
  return std::max(list.read + list.took * 3 - clock_.tick(), Duration{});
}

/// What a list says of one task. Called with the lock.
void Survey::take(TaskList& list, const proxmox::TaskRow& row) {
  const std::string& name = row.upid.text;
  const auto known = list.tasks.find(name);
  if (known != list.tasks.end() && !known->second.running) return;
  const proxmox::Task task{row.upid, row.running(), row.running() ? "" : row.status};
  list.tasks[name] = task;
  if (task.running) {
    list.pace.seen(name, list.read);
  } else if (list.pace.goes_on(name)) {
    list.pace.over(name, list.read, task.ok(),
                   row.ended ? std::optional{Duration{*row.ended - row.started}} : std::nullopt);
  } else if (row.ended && task.ok()) {
    list.pace.logged(row.upid.type, *row.ended - row.started);
  }
}

}  // namespace rocca::resources
