#pragma once

#include "base/strings.hpp"
#include "lab/data_centre.hpp"
#include "net/server/server.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rocca::scenarios {

/// What the simulated Proxmox hosts were asked, as the hosts themselves see it: every request from
/// its arrival to its answer, and every import of a disk. Made before the lab is put on sockets,
/// and read where the world may be touched.
class RequestLog {
 public:
  explicit RequestLog(lab::Home& home) : home_(home) {
    for (const auto& [name, node] : home.dc.nodes()) wrap(*node);
    home.dc.task_fault = [this](const lab::pve::Node& node, const lab::pve::Task& task) {
      task_begins(node, task);
      return std::optional<lab::pve::TaskFault>{};
    };
  }
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  struct Entry {
    std::string host;  // the one that does the work
    std::string method;
    std::string path;
    std::uint64_t from = 0;  // numbers of events: the lab has one thread
    std::uint64_t until = 0;
    int status = 0;  // 0: never answered
  };

  const std::vector<std::shared_ptr<Entry>>& entries() const { return entries_; }

  /// The most requests that a host had at one time.
  std::map<std::string, int> peak_requests() const {
    std::map<std::string, std::vector<std::pair<std::uint64_t, int>>> events;
    for (const auto& entry : entries_) {
      events[entry->host].emplace_back(entry->from, +1);
      if (entry->until != 0) events[entry->host].emplace_back(entry->until, -1);
    }
    std::map<std::string, int> peaks;
    for (auto& [host, all] : events) {
      std::sort(all.begin(), all.end());
      int now = 0;
      for (const auto& [when, by] : all) peaks[host] = std::max(peaks[host], now += by);
    }
    return peaks;
  }
  /// The most VMs whose disks were imported to a storage at one time: `local-lvm@pve1`.
  const std::map<std::string, int>& peak_imports() const { return peak_imports_; }
  /// How often an id was refused because a VM had it.
  const std::map<std::string, int>& refused_ids() const { return refused_; }
  void clear() { entries_.clear(); }

 private:
  class Watching final : public net::Responder {
   public:
    Watching(RequestLog& log, std::shared_ptr<Entry> entry, std::string vmid,
             std::shared_ptr<net::Responder> inner)
        : log_(log), entry_(std::move(entry)), vmid_(std::move(vmid)), inner_(std::move(inner)) {}
    ~Watching() override { over(0); }
    Watching(const Watching&) = delete;
    Watching& operator=(const Watching&) = delete;

    void answer(int status, std::string reason, net::Headers headers, std::string body,
                net::Headers trailers) override {
      if (!vmid_.empty() && status >= 400 && reason.find("already exists") != std::string::npos)
        ++log_.refused_[vmid_];
      over(status);
      inner_->answer(status, std::move(reason), std::move(headers), std::move(body),
                     std::move(trailers));
    }
    void begin(int status, std::string reason, net::Headers headers) override {
      entry_->status = status;
      inner_->begin(status, std::move(reason), std::move(headers));
    }
    void write(std::string bytes) override { inner_->write(std::move(bytes)); }
    void finish(net::Headers trailers) override {
      over(entry_->status);
      inner_->finish(std::move(trailers));
    }
    std::size_t unsent() const override { return inner_->unsent(); }
    void cut() override {
      over(0);
      inner_->cut();
    }
    void tunnel(std::string address, unsigned port) override {
      inner_->tunnel(std::move(address), port);
    }
    bool gone() const override { return inner_->gone(); }
    void on_gone(std::function<void()> then) override { inner_->on_gone(std::move(then)); }

   private:
    void over(int status) {
      if (entry_->until != 0) return;
      entry_->until = ++log_.events_;
      entry_->status = status;
    }

    RequestLog& log_;
    std::shared_ptr<Entry> entry_;
    std::string vmid_;
    std::shared_ptr<net::Responder> inner_;
  };

  void wrap(const lab::pve::Node& node) {
    lab::Network& network = home_.world.network();
    const lab::Network::Place* place = network.find_place(node.address, 8006);
    lab::Service service = *network.find(place->id);
    const std::string address = place->address;
    network.close(place->id);
    service.handler = [this, here = node.name, inner = service.handler](
                          net::Incoming incoming, std::shared_ptr<net::Responder> responder) {
      auto entry = std::make_shared<Entry>();
      entry->method = incoming.method;
      entry->path = incoming.target.substr(0, incoming.target.find('?'));
      const std::vector<std::string> parts = split(entry->path, '/');  // "", api2, json, nodes, x
      const bool of_host = parts.size() > 4 && parts[3] == "nodes";
      entry->host = of_host ? parts[4] : here;
      entry->from = ++events_;
      entries_.push_back(entry);
      std::string vmid;
      if (entry->method == "POST" && of_host && parts.size() == 6 && parts[5] == "qemu")
        vmid = create_begins(incoming.body, entry->host);
      inner(std::move(incoming), std::make_shared<Watching>(*this, std::move(entry),
                                                            std::move(vmid), std::move(responder)));
    };
    network.open(address, 8006, std::move(service));
  }

  /// The id that a create asks for; notes where its disk goes to.
  std::string create_begins(const std::string& form, const std::string& host) {
    std::string vmid, storage;
    for (const std::string& pair : split(form, '&')) {
      const std::string key = pair.substr(0, pair.find('='));
      const std::string value = pair.substr(pair.find('=') + 1);
      if (key == "vmid") vmid = value;
      if (value.find("import-from") != std::string::npos)
        storage = value.substr(0, value.find_first_of(":%"));
    }
    if (!storage.empty()) storages_[vmid] = storage + "@" + host;
    return vmid;
  }

  /// The most at one time is reached when one of them begins.
  void task_begins(const lab::pve::Node& node, const lab::pve::Task& begun) {
    const auto storage = storages_.find(begun.upid.id);
    if (begun.upid.type != "qmcreate" || storage == storages_.end()) return;
    int now = 0;
    for (const auto& task : node.tasks()) {
      const auto other = storages_.find(task->upid.id);
      now += task->running() && task->upid.type == "qmcreate" && other != storages_.end() &&
             other->second == storage->second;
    }
    int& peak = peak_imports_[storage->second];
    peak = std::max(peak, now);
  }

  lab::Home& home_;
  std::uint64_t events_ = 0;
  std::vector<std::shared_ptr<Entry>> entries_;
  std::map<std::string, std::string> storages_;  // by VM id
  std::map<std::string, int> peak_imports_;
  std::map<std::string, int> refused_;
};

}  // namespace rocca::scenarios
