#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/app.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/lab_speed.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "lab/data_centre.hpp"
#include "lab/machines/clusters.hpp"
#include "lab/sim/sockets.hpp"
#include "net/curl_transport.hpp"
#include "scaffold/gitops.hpp"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <mutex>
#include <ostream>
#include <vector>

namespace rocca::cli {

namespace {

/// Files in memory for all threads of a run: what is in it is gone with the process, however that
/// ends.
class SharedMemoryFiles final : public Files {
 public:
  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override {
    return locked([&] { return files_.find(path, limit); });
  }
  void write(const std::string& path, std::string_view content, unsigned mode) override {
    locked([&] { files_.write(path, content, mode); });
  }
  void append(const std::string& path, std::string_view content) override {
    locked([&] { files_.append(path, content); });
  }
  bool remove(const std::string& path) override {
    return locked([&] { return files_.remove(path); });
  }
  bool remove_folder(const std::string& path) override {
    return locked([&] { return files_.remove_folder(path); });
  }
  void rename(const std::string& from, const std::string& to) override {
    locked([&] { files_.rename(from, to); });
  }
  void make_folder(const std::string& path, unsigned mode) override {
    locked([&] { files_.make_folder(path, mode); });
  }
  std::vector<std::string> list(const std::string& folder) override {
    return locked([&] { return files_.list(folder); });
  }
  std::optional<FileStatus> status(const std::string& path) override {
    return locked([&] { return files_.status(path); });
  }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    return locked([&] { return files_.try_lock(path); });
  }

 private:
  template <class Act>
  auto locked(Act act) -> decltype(act()) {
    const std::lock_guard lock(mutex_);
    return act();
  }

  std::mutex mutex_;
  MemoryFiles files_;
};

/// The way into the lab: through its proxy, and with its public authority where a client would ask
/// the machine's own roots.
class IntoTheLab final : public net::Transport {
 public:
  IntoTheLab(std::string proxy, std::string roots)
      : roots_(std::move(roots)), curl_({.proxy = std::move(proxy)}) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.tls.trust != net::Tls::Trust::System) return curl_.exchange(request, sink, stop);
    net::Request asked = request;
    asked.tls.trust = net::Tls::Trust::Authority;
    asked.tls.authority_pem = roots_;
    return curl_.exchange(asked, sink, stop);
  }

 private:
  std::string roots_;
  net::CurlTransport curl_;
};

/// The story, told with the commands of the catalogue in a context of their own.
class Story {
 public:
  Story(Context& outer, lab::Home& home, lab::Sockets& sockets, lab::flux::MemoryGit& git,
        double speed)
      : outer_(outer),
        sockets_(sockets),
        git_(git),
        speed_(speed),
        fingerprint_(to_string(home.first().fingerprint)),
        endpoint_(home.endpoint()),
        inner_{.files = files_,
               .clock = outer.clock,
               .entropy = outer.entropy,
               .transport =
                   [proxy = sockets.proxy(), roots = home.internet.roots.certificate_pem()] {
                     return std::make_unique<IntoTheLab>(proxy, roots);
                   },
               // Nothing of the user's own: neither keys nor settings come in.
               .environment = {{"HOME", "/in-memory"},
                               {"ROCCA_PROXMOX_TOKEN", home.token},
                               {"ROCCA_COLOR", outer.terminal.colour_out ? "always" : "never"}},
               .folder = "/in-memory/fleet",
               .in = outer.in,
               .out = outer.out,
               .err = outer.err,
               .terminal = outer.terminal,
               .settle_on_signals = outer.settle_on_signals} {
    files_.make_folder(inner_.folder, 0755);
  }

  void tell() {
    say(fmt::format("A Proxmox in a box, {} times as fast as the clock, at {}", speed_, endpoint_));
    say("The files of a first cluster that fits it: hosts, storages, bridges and free addresses "
        "are "
        "asked");
    show({"init", "blue", "--endpoint", endpoint_, "--fingerprint", fingerprint_, "--subnet",
          "192.168.1.0/24", "--gateway", "192.168.1.1"});
    say("What was written");
    outer_.out << "$ cat clusters/blue/cluster.yaml\n"
               << files_.get(inner_.folder + "/clusters/blue/cluster.yaml");
    say("What is to run in it: a repository for Flux, which the simulated home serves");
    show({"new", "fleet", "--gitops"});
    hand_over();
    say("Is it right? Nothing is asked but the files");
    show({"validate", "blue"});
    say("One node first, to see what happens to it: its machine configuration, secrets masked");
    show({"render", "blue", "--node", "cp-1", "--out", "configs"});
    outer_.out << "$ head -12 configs/cp-1.yaml\n";
    const auto lines = split(files_.get(inner_.folder + "/configs/cp-1.yaml"), '\n');
    for (std::size_t i = 0; i < 12 && i < lines.size(); ++i) outer_.out << lines[i] << "\n";
    say("Its VM boots Talos into maintenance mode: without a configuration, open to anybody. It "
        "gets the configuration, its API closes, and it comes back secure: with a certificate of "
        "its own, and for our certificate only. Each wait says for what");
    show({"up", "blue", "--target", "machine/cp-1", "--yes"});
    say("What else has to be done, and doing it: three control planes, two workers, one shared "
        "address; then Flux takes over");
    const auto begun = inner_.clock.tick();
    show({"up", "blue", "--yes"});
    const std::chrono::duration<double> took = inner_.clock.tick() - begun;
    outer_.out << fmt::format("({:.1f} s here, about {:.0f} minutes in the data centre)\n",
                              took.count(), took.count() * speed_ / 60);
    say("How is it?");
    show({"status", "blue"});
    say("A second look finds nothing to do");
    show({"plan", "blue"});
    say("And razed: only what is proved to be this cluster's");
    show({"down", "blue", "--confirm", "blue"});
    say("The data centre is gone with all that was in it; nothing is left on this machine");
    outer_.out << "`rocca lab` opens one to stay in; `rocca new` makes the files for your own "
                  "Proxmox.\n";
  }

 private:
  /// Pushes the repository, and names it in the spec.
  void hand_over() {
    const std::string folder = inner_.folder + "/fleet";
    std::map<std::string, std::string> tree;
    for (const spec::NewFile& file : spec::gitops_files(folder))
      tree[file.path.substr(folder.size() + 1)] = files_.get(file.path);
    sockets_.run([&] { git_.push("https://git.home/fleet", "main", "a start", std::move(tree)); });
    constexpr const char* handover =
        "  addons: { certApprover: true, longhorn: true }\n"
        "  handover:\n"
        "    flux: { url: \"https://git.home/fleet\", path: flux }\n"
        "    waitFor: [ { endpointSlice: site/site } ]\n";
    const std::string file = inner_.folder + "/clusters/blue/cluster.yaml";
    files_.write(file,
                 replace_all(files_.get(file), "extensions: [",
                             "extensions: [iscsi-tools, util-linux-tools, ") +
                     handover,
                 0644);
    outer_.out << "$ tail -4 clusters/blue/cluster.yaml\n" << handover;
  }

  void say(const std::string& text) {
    outer_.out << "\n" << paint(outer_.terminal.colour_out, Colour::Bold, "# " + text) << "\n";
  }

  /// Each step as a user would type it.
  void show(const std::vector<std::string>& words) {
    std::string line = "$ rocca";
    for (const std::string& word : words) line += " " + word;
    outer_.out << line << std::endl;
    const int code = run(*outer_.catalog, inner_, words);
    outer_.out.flush();
    if (code == 0) return;
    if (inner_.stop().stop_requested()) throw Error(Fault::Interrupted, "interrupted");
    throw Error(Fault::Bug, fmt::format("`rocca {}` ended with exit code {}", words.front(), code))
        .hint("this is a bug of rocca; please report it");
  }

  Context& outer_;
  lab::Sockets& sockets_;
  lab::flux::MemoryGit& git_;
  double speed_;
  std::string fingerprint_;
  std::string endpoint_;
  SharedMemoryFiles files_;
  Context inner_;
};

}  // namespace

static int run_try(Context& context, const Invocation& invocation) {
  lab::Home::Options options;
  options.hosts = {"pve"};
  options.start = context.clock.now();
  lab::Sockets::Options sockets_options;
  sockets_options.speed = parse_speed(invocation.get("speed"));
  lab::flux::MemoryGit git;
  lab::Home home{options};
  home.estate.clusters().use_git(&git);
  lab::Sockets sockets{home.world, context.clock, sockets_options};
  Story(context, home, sockets, git, sockets_options.speed).tell();
  sockets.stop();
  return 0;
}

Command try_command() {
  return {.name = "try",
          .group = "Try it without hardware",
          .summary = "create and destroy a first cluster, all simulated",
          .description =
              "Starts a simulated data centre and runs the first hour of a cluster in a minute, "
              "with the commands that a user would type: create the files, plan, create the "
              "cluster, hand it over to Flux, show its status, check for drift, destroy it. Files "
              "and machines exist in memory only; nothing on this machine or outside is touched.",
          .flags = {{.name = "speed",
                     .kind = FlagKind::Text,
                     .value = "FACTOR",
                     .fallback = "20",
                     .help = "how much faster than real time the data centre runs"}},
          .examples = {{"rocca try", "a first cluster in a minute"}},
          .run = run_try};
}

}  // namespace rocca::cli
