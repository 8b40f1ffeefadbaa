// CPU time of `rocca validate` on a spec of 1,000 nodes, and its ratio to `terraform validate` on
// the same nodes, or to another command line given as arguments.
//
// What Terraform gets is what people write who have no provider at hand that knows Talos: a
// variable with the type of a node, its 1,000 values, rules for roles, addresses, ids and names in
// `validation` blocks, and one terraform_data per node. Its `validate` checks syntax, references
// and the types of all values; it does not run the validation blocks, which `plan` does.

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

/// The same nodes for Terraform.
std::string configuration() {
  std::string text = R"(variable "nodes" {
  type = map(object({
    role    = string
    address = string
    cores   = optional(number, 4)
    memory  = optional(number, 8192)
    vmid    = optional(number)
    labels  = optional(map(string), {})
    disks   = optional(map(object({ size = number })), {})
  }))
  validation {
    condition     = alltrue([for node in values(var.nodes) : contains(["controlplane", "worker"], node.role)])
    error_message = "A role is controlplane or worker."
  }
  validation {
    condition     = alltrue([for node in values(var.nodes) : can(cidrhost("${node.address}/32", 0))])
    error_message = "An address is an IPv4 address."
  }
  validation {
    condition     = length(distinct([for node in values(var.nodes) : node.address])) == length(var.nodes)
    error_message = "Two nodes have one address."
  }
  validation {
    condition     = length([for node in values(var.nodes) : node if node.role == "controlplane"]) % 2 == 1
    error_message = "An even number of control planes."
  }
  validation {
    condition     = alltrue([for name in keys(var.nodes) : can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", name))])
    error_message = "A name is a DNS label."
  }
  default = {
)";
  for (int i = 0; i < 3; ++i)
    text += fmt::format("    cp-{} = {{ role = \"controlplane\", address = \"10.0.0.{}\" }}\n",
                        i + 1, 11 + i);
  for (int i = 0; i < nodes_pooled; ++i)
    text += fmt::format("    worker-{} = {{ role = \"worker\", address = \"10.0.{}.{}\" }}\n",
                        i + 1, 8 + i / 250, 1 + i % 250);
  for (int i = 0; i < nodes_written; ++i)
    text += fmt::format(
        "    n-{} = {{ role = \"worker\", address = \"10.0.{}.{}\", labels = {{ rack = \"r{}\" }}, "
        "vmid = {}, memory = 16384, disks = {{ data = {{ size = 100 }} }} }}\n",
        i, 16 + i / 200, 1 + i % 200, i % 10, 10000 + i);
  return text + R"(  }
}

resource "terraform_data" "node" {
  for_each = var.nodes
  input = {
    name    = "big-${each.key}"
    role    = each.value.role
    address = "${each.value.address}/16"
    gateway = "10.0.0.1"
    cores   = each.value.cores
    memory  = each.value.memory
    vmid    = each.value.vmid
    labels  = each.value.labels
    disks   = each.value.disks
  }
}
)";
}

/// User and system time of one run, in milliseconds; the program's output is thrown away.
double cpu_of(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::fflush(stdout);  // else the child prints what is still in our buffer
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stdout) == nullptr ||
        std::freopen("/dev/null", "w", stderr) == nullptr)
      _exit(126);
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

/// The median of each, run in turn, so that a busy moment hits all alike.
std::vector<double> medians(const std::vector<std::vector<std::string>>& commands) {
  std::vector<std::vector<double>> times(commands.size());
  for (int i = 0; i < runs; ++i)
    for (std::size_t each = 0; each < commands.size(); ++each)
      times[each].push_back(cpu_of(commands[each]));
  std::vector<double> middle;
  for (auto& list : times) {
    std::sort(list.begin(), list.end());
    middle.push_back(list[list.size() / 2]);
  }
  return middle;
}

bool has_terraform() {
  return std::system("command -v terraform > /dev/null 2>&1") == 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = "/tmp/rocca-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  std::ofstream(folder + "/cluster.yaml") << spec();
  std::vector<std::vector<std::string>> commands{
      {ROCCA_BINARY, "validate", folder + "/cluster.yaml"}};
  if (argc > 1) {
    commands.emplace_back(argv + 1, argv + argc);
  } else if (has_terraform()) {
    std::ofstream(folder + "/main.tf") << configuration();
    setenv("CHECKPOINT_DISABLE", "1", 1);  // it would ask its maker for news
    const std::string there = "-chdir=" + folder;
    cpu_of({"terraform", there, "init", "-backend=false", "-input=false"});
    commands.push_back({"terraform", there, "validate"});
  }
  const std::vector<double> times = medians(commands);
  fmt::print("rocca validate, 1000 nodes: {:.1f} ms CPU (median of {}; goal: under 100)\n",
             times[0], runs);
  if (commands.size() > 1) {
    fmt::print("{}, 1000 nodes: {:.1f} ms CPU (in turn)\nratio: {:.4f}\n",
               argc > 1 ? commands[1][0] : "terraform validate", times[1], times[0] / times[1]);
  } else {
    fmt::print("there is no terraform here to compare with\n");
  }
  std::filesystem::remove_all(folder);
}
