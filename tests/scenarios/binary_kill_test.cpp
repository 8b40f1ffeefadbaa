// The kill sweep's sample through the real binary: `rocca up` and `rocca down` are processes that
// talk to the lab over sockets, and SIGKILL meets them at a request that has just arrived, carried
// out or not, or right behind a write.

#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/home.hpp"
#include "lab/sockets.hpp"

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
#include <sstream>

namespace rocca::scenarios {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Where a process is killed; nothing: it may live.
struct Edge {
  enum class Kind { None, BeforeRequest, AfterRequest, Write } kind = Kind::None;
  std::uint64_t number = 0;
};

struct Counted {
  std::uint64_t requests = 0, writes = 0;
  int code = 0;  // as a shell says it: 128 + the signal
  std::string said;
};

std::string text_of(const fs::path& file) {
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
      home.dc.request_fault = [this](const lab::pve::Node&, const net::Incoming&) { return met(); };
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
    edge_ = edge;
    requests_ = 0;
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
    counted.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    counted.requests = requests_;
    counted.said = text_of(folder_ / "said");
    return counted;
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
  static lab::Sockets::Options in_time_lapse() {
    lab::Sockets::Options options;
    options.speed = 40;
    return options;
  }

  /// On the server's thread, before a request is looked at.
  std::optional<lab::pve::RequestFault> met() {
    if (child_ == 0 || ++requests_ != edge_.number) return std::nullopt;
    if (edge_.kind != Edge::Kind::BeforeRequest && edge_.kind != Edge::Kind::AfterRequest)
      return std::nullopt;
    kill(child_, SIGKILL);
    if (edge_.kind == Edge::Kind::AfterRequest) return std::nullopt;
    lab::pve::RequestFault nothing_done;
    nothing_done.cut = true;
    return nothing_done;
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

  fs::path folder_;
  std::atomic<pid_t> child_ = 0;
  std::atomic<std::uint64_t> requests_ = 0;
  Edge edge_;
  SystemClock clock_;

 public:
  lab::Home home{at_present(clock_)};
  lab::Sockets sockets{home.world, clock_, in_time_lapse()};
};

const std::vector<std::string> up{"up", "blue", "--yes"};
const std::vector<std::string> down{"down", "blue", "--confirm", "blue"};

/// Spread over a run: a request that was carried out, one that was not, a write; with
/// ROCCA_SWEEP_EVERY, as for the sweep in one process, twice as many.
std::vector<Edge> sample(const Counted& whole) {
  const auto part_of = [](std::uint64_t all, std::uint64_t part, std::uint64_t parts) {
    return std::max<std::uint64_t>(1, all * part / parts);
  };
  std::vector<Edge> edges{{Edge::Kind::AfterRequest, part_of(whole.requests, 1, 6)},
                          {Edge::Kind::BeforeRequest, part_of(whole.requests, 4, 6)},
                          {Edge::Kind::Write, part_of(whole.writes, 3, 4)}};
  if (std::getenv("ROCCA_SWEEP_EVERY") != nullptr) {
    edges.push_back({Edge::Kind::AfterRequest, part_of(whole.requests, 5, 6)});
    edges.push_back({Edge::Kind::BeforeRequest, part_of(whole.requests, 2, 6)});
    edges.push_back({Edge::Kind::Write, part_of(whole.writes, 1, 4)});
  }
  return edges;
}

std::string to_string(const Edge& edge) {
  static constexpr std::array names = {"nowhere", "before request", "after request", "after write"};
  return fmt::format("{} {}", names[static_cast<std::size_t>(edge.kind)], edge.number);
}

TEST(BinaryKill, UpAndDownConvergeWhereverTheProcessIsKilled) {
  const Workplace template_place;
  {
    Site site{template_place.folder};
    const Counted made = site.run({"new", "blue"});
    ASSERT_EQ(made.code, 0) << made.said;
  }
  const auto begin = [&](const Workplace& place) {
    fs::copy(template_place.folder, place.folder, fs::copy_options::recursive);
    auto site = std::make_unique<Site>(place.folder);
    site->fit_spec();
    return site;
  };

  std::vector<Edge> ups, downs;
  std::string raised, razed;
  {
    const Workplace place;
    const auto site = begin(place);
    const Counted whole_up = site->run(up);
    ASSERT_EQ(whole_up.code, 0) << whole_up.said;
    raised = site->end_state();
    EXPECT_THAT(raised, HasSubstr("\n1 bootstraps\n"));
    const Counted whole_down = site->run(down);
    ASSERT_EQ(whole_down.code, 0) << whole_down.said;
    razed = site->end_state();
    EXPECT_EQ(razed, "1 bootstraps\n");
    ups = sample(whole_up);
    downs = sample(whole_down);
    fmt::print("undisturbed: up {} requests and {} writes, down {} and {}\n", whole_up.requests,
               whole_up.writes, whole_down.requests, whole_down.writes);
  }
  unsigned killed = 0;
  for (std::size_t i = 0; i < ups.size(); ++i) {
    SCOPED_TRACE(
        fmt::format("up killed {}, down killed {}", to_string(ups[i]), to_string(downs[i])));
    const Workplace place;
    const auto site = begin(place);
    killed += site->run(up, ups[i]).code == 128 + SIGKILL;
    const Counted again = site->run(up);
    EXPECT_EQ(again.code, 0) << again.said;
    EXPECT_EQ(site->end_state(), raised);
    const Counted second = site->run({"plan", "blue"});
    EXPECT_EQ(second.code, 0) << second.said;
    killed += site->run(down, downs[i]).code == 128 + SIGKILL;
    const Counted gone = site->run(down);
    EXPECT_EQ(gone.code, 0) << gone.said;
    EXPECT_EQ(site->end_state(), razed);
  }
  fmt::print("{} of {} processes were killed\n", killed, 2 * ups.size());
  // A busy machine may need fewer requests, and be over before a late one; most are not.
  EXPECT_GE(killed, ups.size());
}

}  // namespace
}  // namespace rocca::scenarios
