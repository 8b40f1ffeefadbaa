#include "cli/cluster_catalog.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/proxmox_access.hpp"
#include "cli/secrets_catalog.hpp"

namespace rocca::cli {

namespace {

std::vector<Flag> joined(std::vector<Flag> first, const std::vector<Flag>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<Flag> access_file_flags(const std::string& name) {
  return {{.name = "file",
           .kind = FlagKind::Text,
           .value = "FILE",
           .help = "write it there instead of printing it"},
          {.name = "save", .help = "write it to configs/" + name + " beside the spec"},
          {.name = "lifetime",
           .kind = FlagKind::Duration,
           .value = "DURATION",
           .help = "how long it is good for; by default a year"}};
}

}  // namespace

Catalog catalog() {
  Catalog verbs;
  verbs.push_back({.name = "new",
                   .group = "From nothing to a cluster",
                   .summary = "make the files of a new cluster",
                   .description =
                       "Makes clusters/NAME with a commented cluster.yaml, .gitignore "
                       "and .envrc, and for the whole "
                       "repository .sops.yaml and the JSON Schema that editors use; an "
                       "age key, if there is none; and secrets.sops.yaml with the "
                       "cluster's own PKI. "
                       "With --from, the new cluster is made after another one, with "
                       "names, addresses, VM ids and "
                       "secrets of its own. With --gitops, the files of a repository for "
                       "Flux are made instead, in the folder NAME. What is already there "
                       "is never overwritten.",
                   .arguments = {{.name = "NAME", .help = "the cluster's name: a DNS label"}},
                   .flags = {{.name = "from",
                              .kind = FlagKind::Text,
                              .value = "CLUSTER",
                              .help = "the cluster to copy: a name, a folder or a file"},
                             {.name = "secrets",
                              .kind = FlagKind::Text,
                              .value = "FILE",
                              .help = "take the Talos secrets over from a secrets.yaml of talosctl "
                                      "or from a control plane's machine config"},
                             {.name = "gitops",
                              .help = "make a repository for Flux instead: MetalLB, cert-manager, "
                                      "Longhorn, External Secrets, Traefik and a small site"}},
                   .examples = {{"rocca new blue", "a first cluster"},
                                {"rocca new green --from blue", "a second one beside it"},
                                {"rocca new fleet --gitops", "what Flux is to keep in it"}},
                   .run = run_new});
  verbs.push_back(
      {.name = "init",
       .group = "From nothing to a cluster",
       .summary = "make a cluster that fits a Proxmox",
       .description =
           "Asks a Proxmox for its hosts, storages and bridges, proposes addresses in the subnet, "
           "and makes what `rocca new` makes, with a spec that fits this Proxmox and the token "
           "among "
           "its secrets. It shows the certificate to pin. Nothing is changed on the Proxmox.\n\n"
           "The token is read from ROCCA_PROXMOX_TOKEN or from a file, never from the command "
           "line.",
       .arguments = {{.name = "NAME", .help = "the cluster's name: a DNS label"}},
       .flags = joined(access_flags(), {{.name = "host",
                                         .kind = FlagKind::Text,
                                         .value = "NAME",
                                         .help = "host to use; by default all that are up",
                                         .repeats = true},
                                        {.name = "images",
                                         .kind = FlagKind::Text,
                                         .value = "STORAGE",
                                         .help = "storage for images; by default the roomiest"},
                                        {.name = "disks",
                                         .kind = FlagKind::Text,
                                         .value = "STORAGE",
                                         .help = "storage for disks; by default the roomiest"},
                                        {.name = "bridge",
                                         .kind = FlagKind::Text,
                                         .value = "NAME",
                                         .help = "bridge for NICs; by default the first"},
                                        {.name = "subnet",
                                         .kind = FlagKind::Text,
                                         .value = "CIDR",
                                         .help = "where the machines live: 192.168.1.0/24"},
                                        {.name = "gateway",
                                         .kind = FlagKind::Text,
                                         .value = "ADDRESS",
                                         .help = "the router of the subnet"},
                                        {.name = "nameserver",
                                         .kind = FlagKind::Text,
                                         .value = "ADDRESS",
                                         .help = "by default the gateway",
                                         .repeats = true},
                                        {.name = "control-planes",
                                         .kind = FlagKind::Number,
                                         .value = "N",
                                         .fallback = "3",
                                         .help = "how many control planes"},
                                        {.name = "workers",
                                         .kind = FlagKind::Number,
                                         .value = "N",
                                         .fallback = "2",
                                         .help = "how many workers"}}),
       .examples = {{"rocca init blue --endpoint https://pve.home:8006 --subnet 192.168.1.0/24 "
                     "--gateway 192.168.1.1",
                     "a cluster for this Proxmox"}},
       .run = run_init});
  verbs.push_back({.name = "validate",
                   .group = "From nothing to a cluster",
                   .summary = "find the mistakes in a cluster's files",
                   .description =
                       "Reads the spec with its bases and patches and tells every problem with "
                       "file, line, column and "
                       "a hint. Warnings are told and pass, with --strict they do not. With -o "
                       "yaml it prints the "
                       "resolved spec: bases merged, defaults filled in, pools made into nodes.",
                   .arguments = {cluster_argument()},
                   .flags = {output_flag(),
                             {.name = "strict", .value = "", .help = "warnings count as errors"}},
                   .examples = {{"rocca validate", "the cluster around the working directory"},
                                {"rocca validate blue -o yaml", "what rocca makes of it"},
                                {"rocca validate --strict -o json", "for a pipeline"}},
                   .run = run_validate});
  verbs.push_back(
      {.name = "explain",
       .group = "From nothing to a cluster",
       .summary = "tell what a key or a problem means",
       .arguments = {{.name = "FIELD|ERROR",
                      .help = "a key (machine.memory) or the code of a problem (slot-clash)"}},
       .examples = {{"rocca explain nodes", "the keys of a node"},
                    {"rocca explain even-control-planes", "why two are worse than one"}},
       .run = run_explain});
  verbs.push_back({.name = "schema",
                   .group = "From nothing to a cluster",
                   .summary = "print the JSON Schema of cluster.yaml",
                   .description =
                       "JSON Schema 2020-12, made from the table that parses the file; text "
                       "and json are the same.",
                   .flags = {{.name = "of",
                              .kind = FlagKind::Choice,
                              .value = "WHAT",
                              .choices = {"cluster", "plan"},
                              .fallback = "cluster",
                              .help = "of cluster.yaml, or of what `plan -o json` prints"},
                             output_flag()},
                   .examples = {{"rocca schema > cluster.schema.json", "for an editor"},
                                {"rocca schema --of plan", "for who reads plans"}},
                   .run = run_schema});
  verbs.push_back(
      {.name = "render",
       .group = "From nothing to a cluster",
       .summary = "show what the nodes would be given",
       .description =
           "Renders what the nodes would be given: in the form of their version of Talos, with the "
           "user's patches merged as Talos merges them, checked for what a node would refuse. Keys "
           "and tokens are shown as *** unless --show-secrets is given; files are written for the "
           "owner only. The cluster's secrets come from its SOPS file (under `talos`), or from a "
           "file that `talosctl gen secrets` made.",
       .arguments = {cluster_argument()},
       .flags = {{.name = "node",
                  .kind = FlagKind::Text,
                  .value = "NAME",
                  .help = "only this node",
                  .repeats = true},
                 {.name = "out",
                  .kind = FlagKind::Text,
                  .value = "FOLDER",
                  .help = "write NAME.yaml files there instead of printing"},
                 {.name = "secrets",
                  .kind = FlagKind::Text,
                  .value = "FILE",
                  .help =
                      "take them from there: a secrets.yaml, or a control plane's machine config"},
                 {.name = "show-secrets", .help = "keys and tokens in clear"}},
       .examples = {{"rocca render blue --node cp-1", "one node, secrets masked"},
                    {"rocca render blue --out configs --show-secrets",
                     "files that talosctl can apply"}},
       .run = run_render});
  verbs.push_back(
      {.name = "lock",
       .group = "From nothing to a cluster",
       .summary = "pin everything that a spec leaves open",
       .description =
           "Writes rocca.lock beside the spec: versions, schematic ids, the images' URLs and sizes "
           "as the Image Factory tells them, the list of its extensions, and the host and the VM "
           "id of every node, chosen among what Proxmox says is free. What is locked already stays "
           "while the spec allows it, and nobody is asked about it again. Nothing is changed on "
           "the Proxmox.\n\n"
           "The Image Factory publishes no checksums. With --digest every image is read once, all "
           "of it, and its SHA-256 is pinned: Proxmox then checks each download against it. That "
           "is some hundred megabytes for each image, of which nothing is kept.\n\n"
           "With --locked nothing is written either: exit 3 if anything would change.",
       .arguments = {cluster_argument()},
       .flags = {{.name = "locked", .help = "refuse every change"},
                 {.name = "digest", .help = "read each image once and pin its SHA-256"},
                 {.name = "refresh",
                  .help =
                      "ask again for extensions and sizes; with --digest, read the images again"},
                 {.name = "token-file",
                  .kind = FlagKind::Text,
                  .value = "FILE",
                  .help = "file that holds USER@REALM!TOKENID=SECRET"},
                 output_flag()},
       .examples = {{"rocca lock blue", "choose and pin"},
                    {"rocca lock blue --digest", "also what Proxmox checks its downloads by"},
                    {"rocca lock blue --locked", "in a pipeline: is rocca.lock up to date"}},
       .run = run_lock});
  verbs.push_back(
      {.name = "doctor",
       .group = "From nothing to a cluster",
       .summary = "look whether a Proxmox is ready for a cluster",
       .description =
           "Asks Proxmox, with the cluster's own API token, for everything that a cluster will "
           "need: "
           "reachability and TLS, clocks, version, quorum, each privilege on each path, storages, "
           "bridges, VM ids and MACs. Nothing is changed, unless --probe is given. What is missing "
           "comes with the lines that mend it. Exit 4 when a right is missing, 1 when something "
           "else is wrong.\n\n"
           "The token is read from ROCCA_PROXMOX_TOKEN, from a file, or from the secrets of the "
           "spec, "
           "never from the command line.",
       .arguments = {cluster_argument()},
       .flags = joined(
           access_flags(),
           {{.name = "host",
             .kind = FlagKind::Text,
             .value = "NAME",
             .help = "host to use, with --endpoint; by default all",
             .repeats = true},
            {.name = "images",
             .kind = FlagKind::Text,
             .value = "STORAGE",
             .help = "storage for images, with --endpoint"},
            {.name = "disks",
             .kind = FlagKind::Text,
             .value = "STORAGE",
             .help = "storage for disks, with --endpoint",
             .repeats = true},
            {.name = "bridge",
             .kind = FlagKind::Text,
             .value = "NAME",
             .help = "bridge for NICs, with --endpoint",
             .repeats = true},
            {.name = "pool",
             .kind = FlagKind::Text,
             .value = "NAME",
             .help = "pool for VMs, with --endpoint"},
            {.name = "probe",
             .help = "then make one marked VM, boot it and destroy it again, each step timed"},
            {.name = "image-url",
             .kind = FlagKind::Text,
             .value = "URL",
             .help = "disk image for the probe (.qcow2 or .raw); by default Talos"},
            {.name = "trace",
             .kind = FlagKind::Text,
             .value = "FILE",
             .help = "write down what was said, without token and user names"},
            {.name = "yes", .help = "make the probe without asking"},
            output_flag()}),
       .examples =
           {{"rocca doctor blue", "is everything there for the cluster blue"},
            {"rocca doctor --endpoint https://pve.home:8006 --images local --disks local-lvm "
             "--bridge vmbr0",
             "before there is a spec"},
            {"rocca doctor blue --probe --trace probe.jsonl", "can a VM really be made there"}},
       .run = run_doctor});
  add_life_verbs(verbs);
  verbs.push_back({.name = "kubeconfig",
                   .group = "Access",
                   .summary = "mint an admin kubeconfig",
                   .description = "Made from the cluster's own secrets, offline: the cluster need "
                                  "not be there. Printed, or written for its owner alone.",
                   .arguments = {cluster_argument()},
                   .flags = access_file_flags("kubeconfig"),
                   .examples = {{"rocca kubeconfig blue --save", "where .envrc points to"},
                                {"rocca kubeconfig --lifetime 8h > admin.yaml", "for today"}},
                   .run = run_kubeconfig});
  verbs.push_back({.name = "talosconfig",
                   .group = "Access",
                   .summary = "mint an admin talosconfig",
                   .description = "Made from the cluster's own secrets, offline: the cluster need "
                                  "not be there. Printed, or written for its owner alone.",
                   .arguments = {cluster_argument()},
                   .flags = access_file_flags("talosconfig"),
                   .examples = {{"rocca talosconfig blue --save", "where .envrc points to"}},
                   .run = run_talosconfig});
  verbs.push_back(
      {.name = "export",
       .group = "Access",
       .summary = "write what talosctl and kubectl need, in clear",
       .description =
           "secrets.yaml as `talosctl gen secrets` writes it, talosconfig, kubeconfig, and the "
           "machine configuration of every node, in clear, into a new folder that only its owner "
           "may read. With them the cluster can be kept by hand: rocca holds nobody back.",
       .arguments = {cluster_argument()},
       .flags = {{.name = "out",
                  .kind = FlagKind::Text,
                  .value = "FOLDER",
                  .help = "where to; NAME-export when left out"}},
       .examples = {{"rocca export blue --out /media/stick/blue", "a copy for the safe"},
                    {"talosctl --talosconfig blue-export/talosconfig health", "without rocca"}},
       .run = run_export});
  verbs.push_back(
      {.name = "adopt",
       .group = "From nothing to a cluster",
       .summary = "take over a cluster that Terraform made",
       .description =
           "Reads a state of Terraform or OpenTofu (bpg/proxmox or Telmate/proxmox, and "
           "siderolabs/talos), looks for its VMs on Proxmox and asks the nodes for what they run. "
           "Then says all of it in cluster.yaml, secrets.sops.yaml, rocca.lock and a state, and "
           "writes them only if the first plan they give is empty. Nothing is touched; what cannot "
           "be taken over is named.",
       .arguments = {{.name = "STATE",
                      .help = "a terraform.tfstate; `-`: what `state pull` writes, from stdin"}},
       .flags = joined(
           {{.name = "secrets",
             .kind = FlagKind::Text,
             .value = "FILE",
             .help =
                 "the Talos secrets, where the state has none: a control plane's machine config "
                 "or a secrets.yaml of talosctl"},
            {.name = "module",
             .kind = FlagKind::Text,
             .value = "ADDRESS",
             .help = "only this module of the state, for one of several clusters: module.blue"},
            {.name = "out",
             .kind = FlagKind::Text,
             .value = "FOLDER",
             .help = "where to; clusters/NAME when left out"},
            {.name = "images",
             .kind = FlagKind::Text,
             .value = "STORAGE",
             .help = "storage for the images of nodes to come"}},
           access_flags()),
       .examples = {{"rocca adopt terraform.tfstate --endpoint https://pve.home:8006",
                     "a state in a file"},
                    {"tofu state pull | rocca adopt - --secrets controlplane.yaml",
                     "from any backend"}},
       .run = run_adopt});
  add_secrets_verbs(verbs);
  verbs.push_back(
      {.name = "try",
       .group = "Try it without hardware",
       .summary = "raise and raze a first cluster, all simulated",
       .description =
           "Opens a lab and plays a first hour with it in a minute, with the commands a user would "
           "type: the files of a cluster that fits the data centre, its plan, the cluster raised "
           "and "
           "handed over to Flux, looked at, compared again and razed. Files and machines are in "
           "memory only: nothing on "
           "this machine or outside of it is touched, and nothing is left behind.",
       .flags = {{.name = "speed",
                  .kind = FlagKind::Text,
                  .value = "FACTOR",
                  .fallback = "20",
                  .help = "how much faster than the real clock the data centre runs"}},
       .examples = {{"rocca try", "a first look"}},
       .run = run_try});
  verbs.push_back(
      {.name = "lab",
       .group = "Try it without hardware",
       .summary = "open a simulated data centre on this machine",
       .description =
           "Plays a Proxmox VE with its hosts, storages, users and tasks, an Image Factory and an "
           "Infisical on addresses of 127.0.0.0/8, and a proxy through which every simulated name "
           "and address is reached, so that a spec, "
           "rocca itself and other clients run against it unchanged. Prints what a client needs. "
           "Nothing outside is reached but what --download-from names; Ctrl-C ends it and all that "
           "was in it.",
       .flags = {{.name = "pve",
                  .kind = FlagKind::Choice,
                  .value = "VERSION",
                  .choices = {"8.4", "9"},
                  .fallback = "9",
                  .help = "which Proxmox VE is played"},
                 {.name = "hosts",
                  .kind = FlagKind::Text,
                  .value = "HOSTS",
                  .fallback = "1",
                  .help = "how many hosts, or their names with commas"},
                 {.name = "for",
                  .kind = FlagKind::Text,
                  .value = "CLUSTER",
                  .help = "have the hosts, endpoints, storages, bridges, pools and networks that "
                          "this cluster's spec names"},
                 {.name = "seed",
                  .kind = FlagKind::Number,
                  .value = "N",
                  .fallback = "1",
                  .help = "what chance is made of"},
                 {.name = "faults",
                  .kind = FlagKind::Text,
                  .value = "FILE",
                  .help = "what goes wrong, and when (YAML); SIGHUP reads it again"},
                 {.name = "speed",
                  .kind = FlagKind::Text,
                  .value = "FACTOR",
                  .fallback = "1",
                  .help = "how much faster than the real clock it runs; SIGUSR2 switches between "
                          "that and real "
                          "time"},
                 {.name = "latency",
                  .kind = FlagKind::Choice,
                  .value = "KIND",
                  .choices = {"real", "none"},
                  .fallback = "real",
                  .help = "how long requests, tasks and boots take"},
                 {.name = "requests",
                  .kind = FlagKind::Text,
                  .value = "FILE",
                  .help = "list every request there, one JSON object a line; written when the lab "
                          "ends and at SIGUSR1"},
                 {.name = "proxy-port",
                  .kind = FlagKind::Number,
                  .value = "PORT",
                  .help = "port of the proxy; by default any free one"},
                 {.name = "ca-file",
                  .kind = FlagKind::Text,
                  .value = "FILE",
                  .help = "write the lab's public authority there, for SSL_CERT_FILE"},
                 {.name = "git",
                  .kind = FlagKind::Text,
                  .value = "FOLDER",
                  .help = "the Git repositories of this folder are https://git.home/NAME for "
                          "Flux; a file `token` among them is what it must show"},
                 {.name = "download-from",
                  .kind = FlagKind::Text,
                  .value = "HOST",
                  .help = "a real host (HOST or HOST:PORT) from which the simulated Proxmox may "
                          "download images",
                  .repeats = true},
                 {.name = "kube-apiserver",
                  .kind = FlagKind::Text,
                  .value = "PATH",
                  .help = "a real kube-apiserver is what control planes serve, with --etcd"},
                 {.name = "etcd",
                  .kind = FlagKind::Text,
                  .value = "PATH",
                  .help = "the real etcd behind it"},
                 {.name = "kube-controller-manager",
                  .kind = FlagKind::Text,
                  .value = "PATH",
                  .help = "and its controllers; without them no Deployment has pods"},
                 output_flag()},
       .examples = {{"rocca lab", "one host"},
                    {"rocca lab --for blue --speed 20", "a rehearsal of your own spec"},
                    {"rocca lab --hosts 3 --pve 8.4 --speed 20", "three older ones, in a hurry"}},
       .run = run_lab});
  verbs.push_back(
      {.name = "version",
       .group = "About rocca",
       .summary = "show which rocca this is",
       .description = "Shows the version, the commit it was built from, the kind of build and the "
                      "compiler.",
       .flags = {output_flag()},
       .examples = {{"rocca version", "for people"}, {"rocca version -o json", "for programs"}},
       .run = run_version});
  verbs.push_back({.name = "help",
                   .group = "About rocca",
                   .summary = "explain rocca or one of its verbs",
                   .arguments = {{.name = "VERB",
                                  .arity = Arity::Any,
                                  .offer = Offer::Verbs,
                                  .help = "the verb to explain; nested verbs are two words"}},
                   .examples = {{"rocca help version", "the same as rocca version --help"}},
                   .run = run_help});
  verbs.push_back(
      {.name = "completion",
       .group = "About rocca",
       .summary = "print the completion script of a shell",
       .description =
           "Prints a script that teaches the shell rocca's verbs, flags and their values.",
       .arguments = {{.name = "SHELL",
                      .offer = Offer::Choices,
                      .help = "which shell",
                      .choices = {"bash", "zsh", "fish"}}},
       .examples = {{"source <(rocca completion bash)", "for this bash"},
                    {"rocca completion zsh > \"${fpath[1]}/_rocca\"", "for every zsh from now on"},
                    {"rocca completion fish > ~/.config/fish/completions/rocca.fish",
                     "for every fish from now on"}},
       .run = run_completion});
  verbs.push_back({.name = "man",
                   .group = "About rocca",
                   .summary = "print the manual page of rocca or of a verb",
                   .description = "Prints the page in roff, as man(1) and packages take it.",
                   .arguments = {{.name = "VERB",
                                  .arity = Arity::Any,
                                  .offer = Offer::Verbs,
                                  .help = "the verb; without it the page of rocca itself"}},
                   .examples = {{"rocca man version | man -l -", "read it"}},
                   .run = run_man});
  return verbs;
}

}  // namespace rocca::cli
