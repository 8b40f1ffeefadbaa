#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "cli/app.hpp"
#include "cli/commands/commands.hpp"
#include "lab/data_centre.hpp"
#include "lab/sim/sockets.hpp"
#include "net/curl_transport.hpp"
#include "scenarios/hostile.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

// Every text that rocca does not write itself is an attack, and every byte that it prints is looked
// at: all commands of a cluster's life, in all formats, against a lab behind a hostile transport.

namespace rocca::scenarios {
namespace {

namespace fs = std::filesystem;

/// The way into the lab: through its proxy, and with its public authority.
class LabTransport final : public net::Transport {
 public:
  LabTransport(std::string proxy, std::string roots)
      : roots_(std::move(roots)), curl_({.proxy = std::move(proxy)}) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    net::Request asked = request;
    if (asked.tls.trust == net::Tls::Trust::System) {
      asked.tls.trust = net::Tls::Trust::Authority;
      asked.tls.authority_pem = roots_;
    }
    return curl_.exchange(asked, sink, std::move(stop));
  }

 private:
  std::string roots_;
  net::CurlTransport curl_;
};

struct Said {
  int code = 0;
  std::string out;
  std::string err;
};

/// One lab and one folder for all tests of this file; commands run in this process.
class Site {
 public:
  Site() {
    std::string name = (fs::temp_directory_path() / "rocca-untrusted-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error(Fault::Bug, "no folder");
    folder = name;
    fs::current_path(folder);  // some paths are the process's own
    const Said made = run({"init", "blue", "--endpoint", home.endpoint(), "--fingerprint",
                           to_string(home.first().fingerprint), "--subnet", "192.168.1.0/24",
                           "--gateway", "192.168.1.1"});
    EXPECT_EQ(made.code, 0) << made.err;
    edit("cluster.yaml", [](std::string text) {
      text = std::regex_replace(text, std::regex{" *cp-[23]:.*\n"}, "");
      text = std::regex_replace(text, std::regex{"count: 2"}, "count: 1");
      return std::regex_replace(text, std::regex{" *endpoint: \\{ vip.*\n"}, "");
    });
  }
  ~Site() {
    fs::current_path(before);
    fs::remove_all(folder);
  }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  Said run(const std::vector<std::string>& words, bool terminal = false) {
    std::istringstream in;
    std::ostringstream out, err;
    cli::Context context{.files = files,
                         .clock = clock,
                         .entropy = entropy,
                         .transport = [this]() -> std::unique_ptr<net::Transport> {
                           return std::make_unique<HostileTransport>(
                               std::make_unique<LabTransport>(
                                   sockets.proxy(), home.internet.roots.certificate_pem()),
                               mood);
                         },
                         .environment = {{"HOME", folder},
                                         {"PATH", "/usr/bin:/bin"},
                                         {"USER", "tester"},
                                         {"ROCCA_PROXMOX_TOKEN", home.token}},
                         .folder = folder,
                         .in = in,
                         .out = out,
                         .err = err,
                         .terminal = {}};
    context.terminal.out = context.terminal.err = terminal;
    if (terminal) context.environment["TERM"] = "xterm";
    Said said;
    said.code = cli::run(cli::catalog(), context, words);
    said.out = out.str();
    said.err = err.str();
    return said;
  }

  /// Runs the command, and nothing hostile comes out of it.
  Said scan(const std::vector<std::string>& words, bool terminal = false) {
    const auto begun = std::chrono::steady_clock::now();
    Said said = run(words, terminal);
    ++scanned;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (std::getenv("ROCCA_LOUD") != nullptr && took.count() > 1)
      std::cout << fmt::format("{:.1f} s: rocca {} ({})\n", took.count(), visible(join(words, " ")),
                               mood->get().second);
    for (const std::string* text : {&said.out, &said.err})
      if (const std::string found = find_attack(*text, terminal); !found.empty())
        ADD_FAILURE() << "rocca " << visible(join(words, " ")) << " (" << mood->get().second
                      << "): " << found;
    return said;
  }
  void scan_file(const std::string& name) {
    if (const auto text = files.find(folder + "/" + name))
      if (const std::string found = find_attack(*text); !found.empty())
        ADD_FAILURE() << name << ": " << found;
  }

  void edit(const std::string& name, const std::function<std::string(std::string)>& change) {
    const std::string path = folder + "/clusters/blue/" + name;
    files.write(path, change(files.get(path)), 0644);
  }

  RealFiles files;
  SystemClock clock;
  SystemEntropy entropy;
  const fs::path before = fs::current_path();
  std::string folder;
  std::shared_ptr<Mood> mood = std::make_shared<Mood>();
  std::size_t scanned = 0;
  lab::Home home{at_present()};
  lab::Sockets sockets{home.world, clock, in_time_lapse()};

 private:
  static lab::Home::Options at_present() {
    lab::Home::Options options;
    options.hosts = {"pve"};
    options.start = SystemClock{}.now();
    return options;
  }
  static lab::Sockets::Options in_time_lapse() {
    lab::Sockets::Options options;
    options.speed = 40;
    options.block = 91;
    return options;
  }
};

const std::vector<std::string> formats{"text", "json", "yaml"};
const std::vector<std::vector<std::string>> looks{
    {"plan", "blue"}, {"status", "blue"}, {"drift", "blue"}, {"doctor", "blue"}};

TEST(UntrustedText, NoFarSideSteersTheTerminalOfItsReader) {
  Site site;
  // A cluster is brought up while its far sides are calm; what texts they have is noted.
  ASSERT_EQ(site.scan({"up", "blue", "--yes", "--events", "events"}).code, 0);
  for (const auto& words : looks) site.scan(words);
  const std::vector<std::string> keys = site.mood->keys();
  ASSERT_GT(keys.size(), 100u);

  // One field after the other: the rest of the answer is as it should be, and so gets far.
  std::size_t reached = 0;
  const bool every = std::getenv("ROCCA_SWEEP_EVERY") != nullptr;
  for (std::size_t at = 0; at < keys.size(); ++at) {
    site.mood->set(Mood::Kind::Poison, keys[at]);
    for (std::size_t i = 0; i < looks.size(); ++i)
      if (every || i == 0 || at % (looks.size() - 1) + 1 == i) site.scan(looks[i]);
    reached += site.mood->touched() > 0;
  }
  std::cout << keys.size() << " fields, " << reached << " reached, " << site.scanned
            << " commands\n";
  EXPECT_GT(reached, keys.size() / 2);

  // All fields at once, and refusals that are attacks; in every format and on a terminal.
  for (const auto kind : {Mood::Kind::Poison, Mood::Kind::Refuse, Mood::Kind::RefuseChanges}) {
    site.edit("cluster.yaml", [&](std::string text) {
      return std::regex_replace(text, std::regex{"count: 1"}, "count: 2");
    });
    site.mood->set(kind);
    for (const std::string& format : formats) {
      for (auto words : looks) {
        words.insert(words.end(), {"-o", format});
        site.scan(words);
      }
      site.scan({"history", "blue", "-o", format});
      site.scan({"up", "blue", "--yes", "-o", format, "--events", "events"});
      site.scan_file("events");
    }
    for (const std::string format : {"text", "dot", "svg"})
      site.scan({"graph", "blue", "--plan", "--format", format});
    site.scan({"plan", "blue", "--out", "plan"}, /*terminal=*/true);
    site.scan_file("plan");
    site.scan({"up", "blue", "--yes"}, /*terminal=*/true);
    site.scan({"lock", "blue", "--refresh"});
    site.scan({"init", "green", "--endpoint", site.home.endpoint(), "--insecure"});
    site.scan({"down", "blue", "--confirm", "blue", "--events", "events"},
              kind == Mood::Kind::Refuse);
    site.scan_file("events");
    EXPECT_GT(site.mood->touched(), 0u);
  }
  site.mood->set(Mood::Kind::Calm);
  EXPECT_EQ(site.scan({"down", "blue", "--confirm", "blue"}).code, 0);
}

/// The attack as a YAML text between double quotes.
std::string quoted(const std::string& text) {
  return text::emit_json(text::Value::string(text));
}

TEST(UntrustedText, NeitherFilesNorWordsNorProgramsSteerTheTerminal) {
  Site site;
  const auto with_spec = [&](const std::string& from, const std::string& to) {
    const std::string path = site.folder + "/clusters/blue/cluster.yaml";
    const std::string before = site.files.get(path);
    const std::string after = replace_all(before, from, to);
    EXPECT_NE(before, after) << from;
    site.files.write(path, after, 0644);
    for (const std::string& format : formats) {
      site.scan({"validate", "blue", "-o", format});
      site.scan({"plan", "blue", "-o", format});
    }
    site.scan({"validate", "blue"}, /*terminal=*/true);
    site.files.write(path, before, 0644);
  };
  // Keys and values of a spec.
  with_spec("spec:\n", "spec:\n  " + quoted(hostile_text) + ": 1\n");
  with_spec("spec:\n", "spec:\n  protect: " + quoted(hostile_text) + "\n");
  with_spec("spec:\n", "spec:\n  patches: [" + quoted("p" + hostile_text) + "]\n");
  with_spec("name: blue", "name: " + quoted(hostile_text));
  with_spec("apiVersion:", "bases: [" + quoted("b" + hostile_text) + "]\napiVersion:");
  with_spec("count: 1", "count: 1 \xff");
  // Far sides that only the spec names.
  site.mood->set(Mood::Kind::Refuse);
  with_spec("spec:\n", "spec:\n  state: { http: { address: \"https://state.home/blue\" } }\n");
  with_spec("spec:\n",
            "spec:\n  secrets: { sources: [ { infisical: { host: 'https://infisical.home', "
            "project: p, environment: e, path: / } } ] }\n");
  site.mood->set(Mood::Kind::Calm);
  // Programs that look secrets up.
  {
    std::ofstream{site.folder + "/hostile"} << hostile_text << "\xff" << std::flush;
    const std::string program = "sh, -c, 'cat " + site.folder + "/hostile >&2; exit 3'";
    with_spec("spec:\n",
              "spec:\n  secrets: { files: [], sources: [ { command: [" + program + "] } ] }\n");
    with_spec("spec:\n", "spec:\n  secrets: { files: [], sources: [ { command: [" +
                             quoted("/no" + hostile_text) + "] } ] }\n");
  }
  // Words of the command line, and names of files.
  for (const std::string& word : {hostile_text, "--" + hostile_text, "-" + hostile_text}) {
    site.scan({word});
    site.scan({"plan", word});
    site.scan({"plan", "blue", word});
    site.scan({"plan", "blue", "--target", word});
    site.scan({"plan", "blue", "--output", word});
    site.scan({"explain", word});
    site.scan({"help", word});
    site.scan({"new", word});
    site.scan({"secrets", "show", word});
    site.scan({"secrets", "decrypt", word});
    site.scan({"secrets", "set", word, word});
    site.scan({"adopt", word});
    site.scan({"lab", "--faults", word});
    site.scan({"kubeconfig", "blue", "--file", word});
    site.scan({"export", "blue", "--out", word});
    site.scan({"render", "blue", "--out", word});
    site.scan({"apply", word, "blue"});
    site.scan({"completion", word});
    site.scan({"drift", "accept", "blue", "--only", word});
  }
  // Files that other tools wrote.
  const std::string state = R"({"version": 4, "serial": 9, "lineage": "l", "resources": [{"mode":
    "managed", "type": TEXT, "name": TEXT, "provider": TEXT, "instances": [{"index_key": TEXT,
    "attributes": {"vm_id": 1, "node_name": TEXT, "name": TEXT}}]}, {"mode": "managed", "type":
    "proxmox_virtual_environment_vm", "name": TEXT, "instances": [{"index_key": TEXT, "attributes":
    {"vm_id": 7, "node_name": TEXT, "name": TEXT, "initialization": [{"ip_config": [{"ipv4":
    [{"address": TEXT}]}]}]}}]}]})";
  site.files.write(site.folder + "/terraform.tfstate",
                   replace_all(state, "TEXT", quoted(hostile_text)), 0644);
  const Said bundle = site.run({"export", "blue"});
  EXPECT_EQ(bundle.code, 0) << bundle.err;
  site.scan({"adopt", "terraform.tfstate", "--secrets", "blue-export/secrets.yaml", "--endpoint",
             site.home.endpoint(), "--insecure"});
  for (const std::string name : {"rocca.lock", ".rocca/state.json", "secrets.sops.yaml"}) {
    site.files.make_folder(site.folder + "/clusters/blue/.rocca", 0700);
    const std::string path = site.folder + "/clusters/blue/" + name;
    const auto before = site.files.find(path);
    for (const std::string& text : {"{" + quoted(hostile_text) + ": " + quoted(hostile_text) + "}",
                                    hostile_text, std::string{"\xff\x1b"}}) {
      site.files.write(path, text, 0600);
      for (const std::string& format : formats) site.scan({"plan", "blue", "-o", format});
      site.scan({"history", "blue"});
      site.scan({"secrets", "show", "blue"});
    }
    if (before)
      site.files.write(path, *before, 0600);
    else
      site.files.remove(path);
  }
  site.files.write(site.folder + "/plain.yaml",
                   quoted(hostile_text) + ": " + quoted(hostile_text) + "\n", 0644);
  site.scan({"secrets", "show", "plain.yaml"});
  site.scan({"secrets", "encrypt", "plain.yaml"});
  site.scan({"lab", "--faults", "plain.yaml"});
}

TEST(UntrustedText, TheScanSeesWhatItLooksFor) {
  EXPECT_EQ(find_attack("fine \x1b[31mred\x1b[0m\n    FORGED behind an indent\n"), "");
  EXPECT_EQ(find_attack("\x1b[3A\r\x1b[Jtable\n", true), "");
  EXPECT_EQ(find_attack(visible(hostile_text)), "");
  for (const std::string text : {"\x1b[2J", "\x1b[3A\r\x1b[J", "a\rb", "\u009b", "\u202e", "\xff",
                                 "ok\nFORGED", "ok\n  FORGED"})
    EXPECT_NE(find_attack(text), "") << visible(text);
}

}  // namespace
}  // namespace rocca::scenarios
