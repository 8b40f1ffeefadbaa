// CPU time of `rocca validate` on a spec of 1,000 nodes, and its ratio to another command line
// given as arguments:
//   bench/validate sh -c 'cd equivalent && terraform validate'

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr int nodes_written = 500;
constexpr int nodes_pooled = 497;
constexpr int runs = 9;

std::string spec() {
  std::string text =
      "apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: { name: big }\nspec:\n"
      "  talos: { version: v1.11.5, extensions: [qemu-guest-agent] }\n"
      "  kubernetes: { version: v1.34.1, endpoint: { vip: 10.0.0.20 } }\n"
      "  network: { subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }\n"
      "  proxmox: { endpoints: [https://pve.home:8006], token: { secret: proxmox.token }, hosts: "
      "[a, b, c] }\n"
      "  machine: { memory: 8GiB, cores: 4 }\n  pools:\n"
      "    cp: { role: controlplane, count: 3, addresses: 10.0.0.11-10.0.0.15 }\n";
  text += fmt::format("    worker: {{ count: {}, addresses: 10.0.8.1-10.0.11.254 }}\n  nodes:\n",
                      nodes_pooled);
  for (int i = 0; i < nodes_written; ++i)
    text += fmt::format(
        "    n-{}: {{ role: worker, address: 10.0.{}.{}, labels: {{ rack: r{} }}, machine: {{ "
        "vmid: {}, memory: 16GiB, "
        "disks: {{ data: {{ size: 100GiB }} }} }} }}\n",
        i, 16 + i / 200, 1 + i % 200, i % 10, 10000 + i);
  return text;
}

/// User and system time of one run, in milliseconds; the program's output is thrown away.
double cpu_of(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::fflush(stdout);  // else the child prints what is still in our buffer
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) < 0 || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 0) {
    fmt::print(stderr, "{} failed\n", words[0]);
    std::exit(1);
  }
  const auto milliseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return milliseconds(used.ru_utime) + milliseconds(used.ru_stime);
}

double median(const std::vector<std::string>& words) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(cpu_of(words));
  std::sort(times.begin(), times.end());
  return times[runs / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = "/tmp/rocca-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  std::ofstream(folder + "/cluster.yaml") << spec();
  const double ours = median({ROCCA_BINARY, "validate", folder + "/cluster.yaml"});
  fmt::print("rocca validate, 1000 nodes: {:.1f} ms CPU (median of {}; goal: under 100)\n", ours,
             runs);
  if (argc > 1) {
    const std::vector<std::string> other(argv + 1, argv + argc);
    const double theirs = median(other);
    fmt::print("{}: {:.1f} ms CPU\nratio: {:.1f}\n", other[0], theirs, theirs / ours);
  }
  std::filesystem::remove_all(folder);
}
