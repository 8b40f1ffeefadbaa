#include "base/error.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/lab_for.hpp"
#include "cli/commands/lab_speed.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "lab/data_centre.hpp"
#include "lab/flux/folder_git.hpp"
#include "lab/machines/clusters.hpp"
#include "lab/sim/faults.hpp"
#include "lab/sim/sockets.hpp"
#include "text/json.hpp"
#include "text/value.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <ostream>
#include <utility>

namespace rocca::cli {

namespace {

/// From here on SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 wait for whoever asks; threads made
/// later inherit that.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGHUP);
    sigaddset(&set_, SIGUSR1);
    sigaddset(&set_, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  int wait() const {
    int number = 0;
    sigwait(&set_, &number);
    return number;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

text::Value describe(lab::Home& home, lab::Sockets& sockets) {
  using text::Value;
  Value hosts = Value::list();
  for (const auto& [name, node] : home.dc.nodes()) {
    Value host = Value::map();
    host.set("name", Value::string(name));
    host.set("address", Value::string(node->address));
    const auto door = sockets.find(node->address, 8006);
    host.set("listens", Value::string(door ? fmt::format("https://{}:{}", door->address, door->port)
                                           : "nowhere"));
    host.set("fingerprint", Value::string(to_string(node->fingerprint)));
    hosts.append(std::move(host));
  }
  Value data = Value::map();
  data.set("endpoint", Value::string(home.endpoint()));
  data.set("fingerprint", Value::string(to_string(home.first().fingerprint)));
  data.set("token", Value::string(home.token));
  data.set("rootToken", Value::string(home.root_token));
  data.set("proxy", Value::string(sockets.proxy()));
  data.set("authority", Value::string(home.dc.authority.certificate_pem() +
                                      home.internet.roots.certificate_pem()));
  data.set("hosts", hosts);
  const auto listens = [&](const char* address) {
    const auto door = sockets.find(address, 443);
    return Value::string(door ? fmt::format("https://{}:{}", door->address, door->port)
                              : "nowhere");
  };
  Value factory = Value::map();
  factory.set("url", Value::string("https://factory.talos.dev"));
  factory.set("listens", listens(lab::Internet::factory_address));
  // In clear text, what a spec may name as talos.factory; the simulated hosts download from there.
  if (const auto door = sockets.find(lab::Home::factory_name, 80)) {
    const std::string origin = fmt::format("http://{}:{}", door->address, door->port);
    sockets.run([&] { home.factory.serve(home.dc.web, origin); });
    factory.set("plain", Value::string(origin));
  }
  data.set("factory", std::move(factory));
  Value infisical = Value::map();
  infisical.set("host", Value::string("https://infisical.home"));
  infisical.set("listens", listens(lab::Internet::infisical_address));
  infisical.set("project", Value::string(home.internet.project().slug));
  infisical.set("environment", Value::string("prod"));
  infisical.set("clientId", Value::string(home.internet.client_id));
  infisical.set("clientSecret", Value::string(home.internet.client_secret));
  infisical.set("readerId", Value::string(home.internet.reader_id));
  infisical.set("readerSecret", Value::string(home.internet.reader_secret));
  data.set("infisical", std::move(infisical));
  data.set("roots", Value::string(home.internet.roots.certificate_pem()));
  return data;
}

std::string for_people(const text::Value& data, const lab::Home& home,
                       const std::optional<std::string>& ca_file) {
  const auto at = [&](std::string_view key) { return data.find(key)->text(); };
  const auto in = [&](std::string_view key, std::string_view inner) {
    return data.find({key, inner})->text();
  };
  std::string text = fmt::format("Proxmox VE {} in a box, seed {}\n\n", home.dc.release.release,
                                 home.world.seed());
  for (const text::Value& host : data.find("hosts")->items())
    text += fmt::format("{:<12} {:<12} {}\n", host.find("name")->text(),
                        host.find("address")->text(), host.find("listens")->text());
  text += fmt::format("{:<25} {}\n{:<25} {}\n", "factory.talos.dev", in("factory", "listens"),
                      "infisical.home", in("infisical", "listens"));
  if (const text::Value* git = data.find("git"))
    text += fmt::format("{:<25} {}\n", lab::flux::FolderGit::server, git->text());
  text += fmt::format(
      "\nendpoint     {}\nfingerprint  {}\ntoken        {}\nfactory      {}\n\nFor every client "
      "that is to see the "
      "simulated names and addresses:\n\n"
      "export HTTPS_PROXY={}\nexport ROCCA_PROXMOX_TOKEN='{}'\nexport INFISICAL_CLIENT_ID={}\n"
      "export INFISICAL_CLIENT_SECRET={}\n",
      at("endpoint"), at("fingerprint"), at("token"), in("factory", "plain"), at("proxy"),
      at("token"), in("infisical", "clientId"), in("infisical", "clientSecret"));
  if (ca_file) text += fmt::format("export SSL_CERT_FILE='{}'\n", *ca_file);
  return text + "\nEverything in it is simulated and gone when it stops: Ctrl-C.\n";
}

/// Paths are the user's: relative to where they are.
std::optional<lab::KubernetesPrograms> real_programs(const Context& context,
                                                     const Invocation& invocation) {
  const auto path = [&](const char* flag) {
    std::string given = invocation.find(flag).value_or("");
    if (!given.empty() && !given.starts_with('/')) given = context.folder + "/" + given;
    if (!given.empty() && access(given.c_str(), X_OK) != 0)
      throw Error(Fault::Usage, fmt::format("--{}: {} is no program", flag, given));
    return given;
  };
  lab::KubernetesPrograms programs{path("kube-apiserver"), path("etcd"),
                                   path("kube-controller-manager")};
  if (programs.apiserver.empty() != programs.etcd.empty() ||
      (programs.apiserver.empty() && !programs.controller_manager.empty()))
    throw Error(Fault::Usage, "a real Kubernetes needs both --kube-apiserver and --etcd");
  if (programs.apiserver.empty()) return std::nullopt;
  return programs;
}

/// Every request that reached a service, as a line of JSON. Kept in memory until somebody wants it:
/// a disk would be in the way of those who measure.
class Requests {
 public:
  Requests(Context& context, std::optional<std::string> path)
      : context_(context), path_(std::move(path)) {
    if (path_) context_.files.write_private(*path_, "", 0644);
  }

  std::function<void(const lab::Service&, const net::Incoming&)> listener() {
    if (!path_) return {};
    return [this](const lab::Service& service, const net::Incoming& request) {
      text::Value line = text::Value::map();
      line.set("service", text::Value::string(service.name));
      line.set("at", text::Value::string(
                         fmt::format("{}:{}", request.local_address, request.local_port)));
      line.set("method", text::Value::string(request.method));
      line.set("target", text::Value::string(request.target));
      const std::lock_guard lock{mutex_};
      lines_ += text::emit_json(line) + "\n";
    };
  }

  void save() {
    if (!path_) return;
    const std::lock_guard lock{mutex_};
    context_.files.append(*path_, std::exchange(lines_, {}));
  }

 private:
  Context& context_;
  std::optional<std::string> path_;
  std::mutex mutex_;
  std::string lines_;
};

/// What stands in the faults file now happens from now on: so a person or a script plays with a lab
/// that runs.
void play_again(Context& context, const Invocation& invocation, lab::Home& home,
                lab::Sockets& sockets) {
  const auto file = invocation.find("faults");
  if (!file) {
    context.err << "SIGHUP: there is no --faults file to read again\n";
    return;
  }
  try {
    const auto faults = lab::Faults::parse(context.files.get(*file, 1u << 20), *file);
    sockets.run([&] { faults.arm(home); });
    context.err << fmt::format("{} was read again\n", visible(*file));
  } catch (const Error& error) {
    context.err << error.render();
  }
}

}  // namespace

double parse_speed(const std::string& text) {
  std::size_t used = 0;
  double speed = 0;
  try {
    speed = std::stod(text, &used);
  } catch (const std::logic_error&) {  // std::stod: not a number, or out of range
    used = 0;
  }
  if (used != text.size() || !(speed > 0) || speed > 100'000)
    throw Error(Fault::Usage, fmt::format("'{}' is no speed", text))
        .hint("a number above 0: 1 is real time, 60 makes a minute of the lab a second");
  return speed;
}

static int run_lab(Context& context, const Invocation& invocation) {
  lab::Home::Options options;
  options.release = lab::pve::Release::parse(invocation.get("pve"));
  options.hosts = lab::parse_hosts(invocation.get("hosts"));
  if (const auto cluster = invocation.find("for")) {
    if (invocation.get("hosts") != "1")
      throw Error(Fault::Usage, "--for and --hosts do not go together")
          .hint("the spec names the hosts");
    fit(options, load_cluster(context, cluster));
  }
  options.seed = static_cast<std::uint64_t>(invocation.number("seed").value_or(1));
  options.start = context.clock.now();
  lab::Sockets::Options sockets_options;
  sockets_options.speed = parse_speed(invocation.get("speed"));
  sockets_options.proxy_port = static_cast<unsigned>(invocation.number("proxy-port").value_or(0));
  sockets_options.download_from = invocation.all("download-from");
  if (invocation.get("latency") == "none") lab::without_latency(options);
  lab::Faults faults;
  if (const auto file = invocation.find("faults"))
    faults = lab::Faults::parse(context.files.get(*file, 1u << 20), *file);

  const auto programs = real_programs(context, invocation);
  auto repositories = invocation.find("git");
  if (repositories && !repositories->starts_with('/'))
    repositories = context.folder + "/" + *repositories;
  if (repositories && !context.files.status(*repositories))
    throw Error(Fault::NotFound, fmt::format("there is no folder {}", *repositories))
        .hint("--git names the folder that Git repositories are in");

  const SignalsHeld signals;
  // It outlives the clusters that clone through it.
  lab::flux::FolderGit git{repositories.value_or("")};
  lab::Home home{options};
  home.estate.clusters().use_git(&git);
  home.estate.clusters().programs = programs;
  faults.arm(home);
  Requests requests{context, invocation.find("requests")};
  sockets_options.seen = requests.listener();
  lab::Sockets sockets{home.world, context.clock, sockets_options};
  text::Value data = describe(home, sockets);
  if (repositories) data.set("git", text::Value::string(*repositories));
  auto ca_file = invocation.find("ca-file");
  if (ca_file && !ca_file->starts_with('/')) ca_file = context.folder + "/" + *ca_file;
  if (ca_file) context.files.write(*ca_file, home.internet.roots.certificate_pem(), 0644);
  print(context, invocation, data, for_people(data, home, ca_file));
  context.out.flush();
  bool lapses = true;
  for (int signal = signals.wait(); signal != SIGINT && signal != SIGTERM;
       signal = signals.wait()) {
    if (signal == SIGHUP) play_again(context, invocation, home, sockets);
    if (signal == SIGUSR1) requests.save();
    if (signal == SIGUSR2) {
      lapses = !lapses;
      sockets.set_speed(lapses ? sockets_options.speed : 1);
    }
  }
  sockets.stop();
  requests.save();
  return 0;
}

Command lab_command() {
  return {
      .name = "lab",
      .group = "Try it without hardware",
      .summary = "start a simulated data centre on this machine",
      .description =
          "Simulates a Proxmox VE with hosts, storages, users and tasks, an Image Factory and an "
          "Infisical on addresses of 127.0.0.0/8, and a proxy that makes every simulated name and "
          "address reachable, so that a spec, rocca and other clients work unchanged. Prints the "
          "settings that a client needs. Connects to nothing outside except what --download-from "
          "names. Ctrl-C stops it; everything in it is lost.",
      .flags =
          {{.name = "pve",
            .kind = FlagKind::Choice,
            .value = "VERSION",
            .choices = {"8.4", "9"},
            .fallback = "9",
            .help = "which Proxmox VE release to simulate"},
           {.name = "hosts",
            .kind = FlagKind::Text,
            .value = "HOSTS",
            .fallback = "1",
            .help = "number of hosts, or their names separated by commas"},
           {.name = "for",
            .kind = FlagKind::Text,
            .value = "CLUSTER",
            .help = "simulate the hosts, endpoints, storages, bridges, pools and networks of this "
                    "cluster's spec"},
           {.name = "seed",
            .kind = FlagKind::Number,
            .value = "N",
            .fallback = "1",
            .help = "seed of the random numbers"},
           {.name = "faults",
            .kind = FlagKind::Text,
            .value = "FILE",
            .help = "faults to inject, and when (YAML); SIGHUP reads the file again"},
           {.name = "speed",
            .kind = FlagKind::Text,
            .value = "FACTOR",
            .fallback = "1",
            .help = "how much faster than real time it runs; SIGUSR2 switches between this and "
                    "real time"},
           {.name = "latency",
            .kind = FlagKind::Choice,
            .value = "KIND",
            .choices = {"real", "none"},
            .fallback = "real",
            .help = "how long requests, tasks and boots take"},
           {.name = "requests",
            .kind = FlagKind::Text,
            .value = "FILE",
            .help =
                "log every request as one JSON object per line; written at exit and on SIGUSR1"},
           {.name = "proxy-port",
            .kind = FlagKind::Number,
            .value = "PORT",
            .help = "port of the proxy; default: any free port"},
           {.name = "ca-file",
            .kind = FlagKind::Text,
            .value = "FILE",
            .help = "write the CA certificate to this file, for SSL_CERT_FILE"},
           {.name = "git",
            .kind = FlagKind::Text,
            .value = "FOLDER",
            .help = "serve the Git repositories of this folder as https://git.home/NAME to Flux; a "
                    "file `token` among them holds the required token"},
           {.name = "download-from",
            .kind = FlagKind::Text,
            .value = "HOST",
            .help = "real host (HOST or HOST:PORT) from which the simulated Proxmox may download "
                    "images",
            .repeats = true},
           {.name = "kube-apiserver",
            .kind = FlagKind::Text,
            .value = "PATH",
            .help = "run this real kube-apiserver on control planes; needs --etcd"},
           {.name = "etcd",
            .kind = FlagKind::Text,
            .value = "PATH",
            .help = "the real etcd for --kube-apiserver"},
           {.name = "kube-controller-manager",
            .kind = FlagKind::Text,
            .value = "PATH",
            .help =
                "the real controllers for --kube-apiserver; without them Deployments get no pods"},
           output_flag()},
      .examples = {{"rocca lab", "one host"},
                   {"rocca lab --for blue --speed 20", "rehearse your own spec"},
                   {"rocca lab --hosts 3 --pve 8.4 --speed 20",
                    "three hosts of release 8.4, 20 times as fast"}},
      .run = run_lab};
}

}  // namespace rocca::cli
