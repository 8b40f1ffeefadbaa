#pragma once

// The real binary over sockets: `rocca up` and `rocca down` are processes that talk to the lab, and
// a signal meets them at a request that has just arrived, at Proxmox or at a node, or right behind
// a write.

#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/data_centre.hpp"
#include "lab/sim/sockets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

namespace rocca::scenarios {
namespace fs = std::filesystem;

/// Where a signal meets a process; nothing: it may live.
struct Edge {
  enum class Kind { None, BeforeRequest, AfterRequest, Write } kind = Kind::None;
  std::uint64_t number = 0;
  /// Which requests are counted: `POST /nodes/pve/qemu/ID/status/stop`, or a method of the nodes'
  /// API; empty: all of Proxmox's.
  std::string what = {};
  /// Kill; Ctrl-C, and the request is looked at once the process has said that it stops; twice, and
  /// it is looked at once the process is gone.
  enum class Signal { Kill, Interrupt, InterruptTwice } signal = Signal::Kill;
};

struct Counted {
  std::uint64_t requests = 0, writes = 0;
  std::map<std::string, std::uint64_t> calls = {};  // as Edge::what names them
  int code = 0;                                     // as a shell says it: 128 + the signal
  bool left_by_itself = false;                      // and not by a signal's own doing
  std::string said;
};

inline std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A folder of its own, with a cluster as `rocca new` makes it. The bundle takes seconds: once for
/// all.
class Workplace {
 public:
  Workplace() {
    std::string name = (fs::temp_directory_path() / "rocca-kill-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error(Fault::Bug, "no folder");
    folder = name;
  }
  ~Workplace() { fs::remove_all(folder); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  fs::path folder;
};

/// The lab on sockets, and the binary as its user would start it.
class Site {
 public:
  explicit Site(fs::path folder) : folder_(std::move(folder)) {
    std::ofstream(folder_ / "roots.pem") << home.internet.roots.certificate_pem();
    sockets.run([this] {
      home.dc.request_fault = [this](const lab::pve::Node&, const net::Incoming& request) {
        std::optional<lab::pve::RequestFault> nothing_done;
        if (child_ != 0) ++requests_;
        if (met(name_of(request))) nothing_done.emplace().cut = true;
        return nothing_done;
      };
    });
  }

  /// Trusts this lab's Proxmox.
  void fit_spec() {
    const fs::path spec = folder_ / "clusters/blue/cluster.yaml";
    std::string text = text_of(spec);
    const std::size_t at = text.find("# fingerprint: ");
    ASSERT_NE(at, std::string::npos);
    text.replace(at, text.find('\n', at) - at,
                 fmt::format("fingerprint: \"{}\"", to_string(home.first().fingerprint)));
    std::ofstream(spec) << text;
    fs::create_directories(folder_ / "clusters/blue/.rocca");
  }

  Counted run(std::vector<std::string> words, Edge edge = {}) {
    sockets.run([&] {
      edge_ = edge;
      requests_ = 0;
      calls_.clear();
    });
    Counted counted;
    const int watch = inotify_init1(IN_CLOEXEC);
    inotify_add_watch(watch, (folder_ / "clusters/blue/.rocca").c_str(),
                      IN_MODIFY | IN_MOVED_TO | IN_CLOSE_WRITE);
    start(words);
    const int over = static_cast<int>(syscall(SYS_pidfd_open, child_.load(), 0));
    while (true) {
      std::array<pollfd, 2> waits{{{watch, POLLIN, 0}, {over, POLLIN, 0}}};
      poll(waits.data(), waits.size(), -1);
      if ((waits[1].revents & POLLIN) != 0) break;
      std::array<char, 4096> events{};
      if ((waits[0].revents & POLLIN) == 0 || read(watch, events.data(), events.size()) <= 0)
        continue;
      ++counted.writes;
      if (edge.kind == Edge::Kind::Write && counted.writes == edge.number) kill(child_, SIGKILL);
    }
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = 0;
    close(over);
    close(watch);
    counted.left_by_itself = WIFEXITED(status);
    counted.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    sockets.run([&] {
      counted.requests = requests_;
      counted.calls = calls_;
    });
    counted.said = text_of(folder_ / "said");
    return counted;
  }

  /// Who is at each VM.
  std::vector<std::string> locks() {
    std::vector<std::string> all;
    sockets.run([&] {
      for (const auto& [vmid, vm] : home.dc.vms) {
        const std::string* lock = vm.find("lock");
        all.push_back(lock == nullptr ? "" : *lock);
      }
    });
    return all;
  }

  /// What must be the same however one got there.
  std::string end_state() {
    std::string text;
    sockets.run([&] {
      for (const auto& [vmid, vm] : home.dc.vms) {
        const std::string* name = vm.find("name");
        const std::string* proof = vm.find("smbios1");
        text += fmt::format("{} {} {} {}\n", vmid, name == nullptr ? "" : *name,
                            proof == nullptr ? "" : *proof, static_cast<int>(vm.power));
      }
      for (const auto& [id, storage] : home.dc.storages)
        for (const auto& [host, volumes] : storage.volumes)
          for (const auto& [name, volume] : volumes)
            if (volume.vmid) text += fmt::format("{}:{} on {}\n", id, name, host);
      text += fmt::format("{} bootstraps\n", home.estate.bootstraps().size());
    });
    return text;
  }

 private:
  static lab::Home::Options at_present(const Clock& clock) {
    lab::Home::Options options;
    options.hosts = {"pve"};
    options.start = clock.now();
    return options;
  }
  lab::Sockets::Options in_time_lapse() {
    lab::Sockets::Options options;
    options.speed = 40;
    options.drops = [this](const lab::Service&, const net::Incoming& request) {
      const std::string service = "/machine.MachineService/";
      if (!request.target.starts_with(service)) return false;
      return met(request.target.substr(service.size()));
    };
    return options;
  }

  /// Without what is asked for, and which VM it is about.
  static std::string name_of(const net::Incoming& request) {
    std::string path = request.target.substr(0, request.target.find('?'));
    if (path.starts_with("/api2/json")) path.erase(0, 10);
    const std::size_t id = path.find("/qemu/");
    if (id != std::string::npos) {
      const std::size_t end = path.find('/', id + 6);
      path.replace(id + 6, end == std::string::npos ? end : end - id - 6, "ID");
    }
    return request.method + " " + path;
  }

  /// On the server's thread, before a request is looked at; whether nothing is to come of it.
  bool met(const std::string& what) {
    if (child_ == 0) return false;
    const std::uint64_t number = ++calls_[what];
    if (edge_.kind != Edge::Kind::BeforeRequest && edge_.kind != Edge::Kind::AfterRequest)
      return false;
    const bool any = edge_.what.empty() && what.find(' ') != std::string::npos;
    if (any ? requests_ != edge_.number : number != edge_.number || what != edge_.what)
      return false;
    send_signal();
    return edge_.kind == Edge::Kind::BeforeRequest;
  }

  void send_signal() {
    if (edge_.signal == Edge::Signal::Kill) {
      kill(child_, SIGKILL);
      return;
    }
    const int over = static_cast<int>(syscall(SYS_pidfd_open, child_.load(), 0));
    kill(child_, SIGINT);
    wait_until_said("stopping: what was begun is settled");
    if (edge_.signal == Edge::Signal::InterruptTwice) {
      kill(child_, SIGINT);
      pollfd gone{over, POLLIN, 0};
      EXPECT_EQ(poll(&gone, 1, patience_ms), 1) << "it waits for what is under way";
    }
    close(over);
  }

  void wait_until_said(const std::string& words) {
    const fs::path file = folder_ / "said";
    const int watch = inotify_init1(IN_CLOEXEC);
    inotify_add_watch(watch, file.c_str(), IN_MODIFY);
    while (text_of(file).find(words) == std::string::npos) {
      pollfd more{watch, POLLIN, 0};
      std::array<char, 4096> events{};
      if (poll(&more, 1, patience_ms) == 1 && read(watch, events.data(), events.size()) > 0)
        continue;
      ADD_FAILURE() << "it never said: " << words << "\n" << text_of(file);
      break;
    }
    close(watch);
  }

  void start(std::vector<std::string>& words) {
    std::vector<std::string> lines = {
        "HOME=" + folder_.string(), "PATH=/usr/bin:/bin", "HTTPS_PROXY=" + sockets.proxy(),
        "ROCCA_PROXMOX_TOKEN=" + home.token, "SSL_CERT_FILE=" + (folder_ / "roots.pem").string()};
    words.insert(words.begin(), ROCCA_BINARY);
    std::vector<char*> arguments, environment;
    for (std::string& word : words) arguments.push_back(word.data());
    for (std::string& line : lines) environment.push_back(line.data());
    arguments.push_back(nullptr);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, (folder_ / "said").c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawn_file_actions_addchdir_np(&files, folder_.c_str());
    pid_t child = 0;
    const int failed =
        posix_spawn(&child, ROCCA_BINARY, &files, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) throw Error(Fault::Bug, "the binary cannot be started");
    child_ = child;
  }

  // Only a run that hangs is longer silent.
  static constexpr int patience_ms = 60'000;

  fs::path folder_;
  std::atomic<pid_t> child_ = 0;
  // Of the server's thread.
  std::uint64_t requests_ = 0;
  std::map<std::string, std::uint64_t> calls_;
  Edge edge_;
  SystemClock clock_;

 public:
  lab::Home home{at_present(clock_)};
  lab::Sockets sockets{home.world, clock_, in_time_lapse()};
};

inline const std::vector<std::string> up{"up", "blue", "--yes"};
inline const std::vector<std::string> down{"down", "blue", "--confirm", "blue"};

class BinaryLife : public testing::Test {
 protected:
  void SetUp() override {
    Site site{template_place_.folder};
    const Counted made = site.run({"new", "blue"});
    ASSERT_EQ(made.code, 0) << made.said;
  }
  std::unique_ptr<Site> begin(const Workplace& place) const {
    fs::copy(template_place_.folder, place.folder, fs::copy_options::recursive);
    auto site = std::make_unique<Site>(place.folder);
    site->fit_spec();
    return site;
  }

 private:
  const Workplace template_place_;
};

}  // namespace rocca::scenarios
