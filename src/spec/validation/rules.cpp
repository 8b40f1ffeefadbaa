#include "spec/validation/rules.hpp"

namespace rocca::spec {

namespace {

constexpr auto W = Severity::Warning;
constexpr auto E = Severity::Error;
constexpr auto N = Severity::Note;

constexpr Rule table[] = {
    // the file
    {"yaml-syntax", E, "the file is not YAML",
     "The parser stopped at this place; nothing behind it was looked at."},
    {"wrong-kind", E, "the file is no rocca cluster",
     "A spec begins with `apiVersion: rocca.dev/v1` and `kind: Cluster`."},
    {"unknown-key", E, "a key that rocca does not know",
     "A mistyped key would otherwise be ignored in silence, and the cluster would not be what its "
     "file says."},
    {"wrong-type", E, "a value of the wrong type",
     "The key takes another kind of value; `rocca explain KEY` shows which."},
    {"missing-key", E, "a key that must be there", "Without it rocca would have to guess."},
    {"one-of", E, "keys that exclude each other", "Exactly one of them says what is meant."},
    {"bad-value", E, "a word that is not one of the choices", "The key takes one of a few words."},
    {"out-of-range", E, "a number outside its limits", "Proxmox or Talos would refuse it later."},
    {"bad-size", E, "a size without a clear unit",
     "Half of the world reads GB as 10^9 bytes and half as 2^30; rocca takes KiB, MiB, GiB and TiB "
     "only."},
    {"bad-duration", E, "a duration without a clear unit",
     "Durations are written as 90s, 10m or 1h30m."},
    {"bad-version", E, "text that is not a version",
     "Versions have three parts; YAML reads 1.10 as the number 1.1."},
    {"bad-address", E, "text that is not an IP address",
     "Addresses are written without a prefix length and without leading zeros."},
    {"bad-subnet", E, "text that is not a network",
     "A network is its first address and a prefix length."},
    {"bad-range", E, "text that is not a range of addresses",
     "Two addresses of one family with a dash between them, the lower one first."},
    {"bad-mac", E, "text that is not a MAC address for a NIC",
     "Six pairs of hex digits; the second digit even, else it is a multicast address."},
    {"bad-uuid", E, "text that is not a UUID", "Five groups of hex digits, 8-4-4-4-12."},
    {"bad-url", E, "text that is not a URL", "A URL begins with its scheme, such as https://."},
    {"bad-name", E, "a name that is not a DNS label",
     "Names of clusters, nodes and pools become host names: 1 to 63 of a-z, 0-9 and -, no - at "
     "either end."},
    {"bad-fingerprint", E, "text that is not a SHA-256 fingerprint",
     "32 pairs of hex digits with colons between them, as `pvenode cert info` prints them."},
    {"bad-schedule", E, "text that is not a cron schedule",
     "Five fields: minute, hour, day of the month, month, weekday."},
    {"bad-rollout", E, "a share of workers or a maintenance window that cannot be read",
     "maxUnavailable is a number or a percentage from 1% to 100%; a window begins and ends at "
     "different times of day, HH:MM."},
    {"bad-age-key", E, "text that is not an age recipient",
     "Recipients begin with age1 and have 62 characters; the private key (AGE-SECRET-KEY-1…) never "
     "stands in a spec."},
    {"bad-label", E, "a label, annotation or taint that Kubernetes refuses",
     "Label values have at most 63 letters, digits, -, _ and . and begin and end with a letter or "
     "digit; a taint is `Effect` or `value:Effect`."},
    {"bad-template", E, "a naming pattern that gives no usable name",
     "Patterns know {cluster} and {node}; without {node} all VMs would have one name."},
    {"secret-in-clear", E, "a secret written in clear",
     "Specs are kept in Git. A secret is stored encrypted in secrets.sops.yaml and referred to by "
     "{ secret: path }. Treat what was written here as known: make a new one."},
    {"base-not-found", E, "a base that is not there",
     "`bases` are paths relative to the file that names them."},
    {"base-cycle", E, "a base that includes itself",
     "The files that include each other are named in order."},
    {"file-not-found", E, "a file that is not there",
     "Paths are relative to the file that names them."},

    // patches
    {"patch-syntax", E, "a patch that does not parse",
     "A patch is YAML: machine config documents to merge, or a list of RFC 6902 operations."},
    {"patch-shape", E, "a patch that Talos would not take",
     "A merge patch is a map; a JSON patch is a list of maps with op and path."},
    {"json-patch-version", E, "a JSON patch on a config of several documents",
     "From Talos 1.12 on the config has several documents, and Talos refuses RFC 6902 patches for "
     "these. Write it as a merge patch."},
    {"patch-installer", E, "one installer for nodes with different images",
     "machine.install.image in a patch stands instead of the installer that rocca derives from a "
     "node's image: a node with an image of its own would be installed with that of others."},
    {"patch-extensions", E, "extensions asked for in a patch",
     "machine.install.extensions is deprecated and ignored by schematics; name them in "
     "talos.extensions."},
    {"patch-kind", E, "a document kind that this Talos does not know",
     "Talos refuses the whole config when one kind is unknown to it."},
    {"patch-owned", E, "a patch that changes what rocca keeps",
     "Identity, keys, tokens, machine type and cluster id come from the secrets bundle; another "
     "value would cut the node off."},
    {"patch-refused", E, "a patch that makes a configuration Talos would refuse",
     "Every patch is laid on the configuration it is for, with Talos's own rules, before anything "
     "runs. A node that refuses its configuration would stay in maintenance mode."},
    {"secret-place", E, "a secret where every value is shown",
     "Labels, names, addresses, images and versions are shown in plans, by Talos and by "
     "Kubernetes. "
     "A `{ secret: … }` there would not stay one."},
    {"patch-warning", W, "a patch that makes a configuration Talos would warn of",
     "Talos takes it, and says that it should be written otherwise: an old key, a bond that does "
     "not notice a dead link."},
    {"patch-kernel-args", W, "kernel arguments in a patch",
     "machine.install.extraKernelArgs is ignored with systemd-boot (UEFI from Talos 1.10) and lost "
     "by upgrades; talos.kernelArgs puts them into the schematic."},

    // names and identity
    {"duplicate-name", E, "two things with one name",
     "Names of nodes are Kubernetes node names; a second control plane of one name pushes the "
     "first one's etcd member out."},
    {"duplicate-vmid", E, "two VMs with one id",
     "A VM id belongs to one VM of the whole Proxmox cluster."},
    {"vmid-inherited", E, "a VM id for many",
     "An id in spec.machine or in a pool of several would be every VM's; give it on nodes."},
    {"duplicate-mac", E, "two NICs with one MAC address",
     "Proxmox does not check it; both machines would lose packets."},
    {"mac-inherited", E, "a MAC address for many",
     "An address in spec.machine or in a pool of several would be every VM's; give it on nodes, or "
     "leave it out and one is derived."},
    {"duplicate-uuid", E, "two machines with one UUID",
     "The hardware UUID is how an existing machine is known."},

    // network
    {"missing-subnet", E, "static addresses without a subnet",
     "The prefix length of the nodes' addresses comes from it."},
    {"missing-address", E, "a node without an address",
     "With static addressing every node needs one."},
    {"missing-gateway", W, "static addresses without a gateway",
     "Without a default route the nodes cannot fetch images, unless a mirror is on their network."},
    {"gateway-outside", E, "a gateway outside the subnet",
     "A gateway is reached without a gateway."},
    {"address-outside", E, "an address outside the subnet",
     "The node could not talk to the others."},
    {"address-unusable", E, "an address that no machine can have",
     "The first and the last address of an IPv4 network are taken."},
    {"address-is-gateway", E, "an address that is the gateway's",
     "Both would answer, and the network breaks for everybody."},
    {"duplicate-address", E, "two nodes with one address", "Each node needs its own."},
    {"address-family", E, "addresses of two families where one is needed",
     "An IPv6 address has no place in an IPv4 subnet."},
    {"range-too-small", E, "a pool with fewer addresses than nodes",
     "Every node of the pool takes the next address of its ranges."},
    {"range-overlap", E, "ranges that overlap",
     "As the pools grow, two nodes would get one address."},
    {"node-in-range", W, "a node's address inside a pool's range",
     "It works until the pool grows up to that address."},
    {"vip-is-node", E, "a VIP that is a node's own address",
     "The shared address moves between nodes; it must be one that nobody owns."},
    {"vip-is-gateway", E, "a VIP that is the gateway's address", "Both would answer."},
    {"vip-in-range", E, "a VIP inside a pool's range",
     "As the pool grows, a node would get the VIP as its own address."},
    {"vip-outside", E, "a VIP outside the subnet",
     "A Layer-2 VIP is announced by ARP and must lie in the nodes' network. kube-vip's may lie "
     "outside."},
    {"vip-unused", W, "a VIP over one control plane",
     "It works and costs nothing, but with one control plane there is nobody to take it over."},
    {"vip-only", E, "keys that make sense only with a VIP",
     "`by` and `interface` say how the VIP is kept."},
    {"host-only", E, "a port of the API without a host",
     "A load balancer may listen on any port; at a VIP and at the control planes themselves "
     "kube-apiserver answers, on 6443."},
    {"cidr-overlap", E, "networks that overlap",
     "Pods, services and nodes need networks of their own; where they overlap, packets go astray."},
    {"dhcp-static", E, "static values with DHCP",
     "With addressing dhcp, addresses, gateway and resolvers come from the DHCP server; what is "
     "written here would be ignored."},
    {"dhcp-control-planes", W, "DHCP with several control planes",
     "A changed lease changes the address of an etcd member; two at once can cost quorum. Reserve "
     "the leases, or use static addresses."},
    {"dhcp-endpoint", W, "DHCP without an endpoint",
     "The API's address is found after boot and may change with the lease. A VIP or a DNS name "
     "stays."},
    {"dhcp-unfindable", E, "DHCP without a way to find the node",
     "The lease of a new node is told by its guest agent, or found by searching network.subnet, "
     "which may have at most 4096 addresses."},
    {"loopback-subnet", N, "a subnet in 127.0.0.0/8",
     "Such addresses exist only inside one machine: this is a spec for the lab."},
    {"mtu-order", E, "a NIC whose MTU differs from the network's",
     "The first NIC carries the node's network; two values cannot both be right."},
    {"mtu-vxlan", W, "an MTU that leaves no room for VXLAN",
     "VXLAN adds 50 bytes. Below 1450 the pods' MTU falls under 1400, and IPv6 needs 1280; on an "
     "SDN VXLAN zone 1450 is right for the nodes."},

    // nodes
    {"no-control-plane", E, "a cluster without a control plane",
     "At least one node must have `role: controlplane`."},
    {"even-control-planes", E, "an even number of control planes",
     "etcd needs a majority: with two members the loss of one stops the cluster, so two are worse "
     "than one, and four stand no more than three. Use 1, 3 or 5; policy.evenControlPlanes: warn "
     "lets it pass."},
    {"many-control-planes", W, "more than seven control planes",
     "Every write waits for a majority; beyond seven members etcd only gets slower."},
    {"no-platform", E, "VMs without a Proxmox",
     "Nodes that are not `existing` are VMs; say in `proxmox:` where they live."},
    {"missing-host", E, "a VM without a host",
     "Name hosts in proxmox.hosts, or give machine.host."},
    {"unknown-host", E, "a host that proxmox.hosts does not name",
     "A mistyped host would be found only when the VM is made."},
    {"duplicate-item", E, "the same thing twice in a list", "One of the two is a mistake."},
    {"existing-machine", E, "hardware for a machine that is already there",
     "rocca never changes an existing machine's hardware; `machine:` would be ignored."},
    {"existing-disk", W, "an install disk named by its position",
     "/dev/sda may be another disk after the next boot; a serial number or /dev/disk/by-id stays."},

    // hardware
    {"slot-clash", E, "cloud-init drive and ISO in one slot",
     "Proxmox puts both on ide2 by itself, and one pushes the other out. Cloud-init belongs on "
     "ide2, the ISO on ide0."},
    {"slot-unusable", E, "a slot that q35 does not have",
     "With chipset q35 each IDE port has one unit: ide1 and ide3 do not work. Use ide0, ide2 or "
     "sata."},
    {"disk-too-small", E, "a system disk below Talos's minimum",
     "Talos needs 6 GiB; 10 GiB leave room for images of an upgrade."},
    {"disk-small", W, "a system disk that will fill up",
     "Below 10 GiB, container images and logs soon fill it."},
    {"disk-granularity", E, "a disk that is not whole GiB",
     "Proxmox allocates whole GiB; another size would never compare equal."},
    {"memory-too-small", E, "memory below Talos's minimum",
     "A control plane needs 2 GiB, a worker 1 GiB."},
    {"memory-low", W, "memory below what Talos recommends",
     "4 GiB for a control plane and 2 GiB for a worker leave room for workloads."},
    {"memory-granularity", E, "memory that is not whole MiB", "Proxmox counts memory in MiB."},
    {"cores-low", W, "a control plane with one core",
     "etcd and the API server compete for it; two are the minimum that Talos recommends."},
    {"cpu-too-old", E, "a CPU type that Talos does not boot on",
     "Talos needs x86-64-v2. kvm64, qemu64 and x86-64-v1 lack it and boot in a loop. Use host, or "
     "x86-64-v2-AES where VMs migrate between unlike hosts."},
    {"cpu-migration", N, "cpu host and several hosts",
     "Advice differs: `host` is fastest, x86-64-v2-AES migrates live between unlike CPUs. For "
     "rocca `host` wins: nodes are replaced, not migrated live. Choose x86-64-v2-AES if your hosts "
     "differ and you migrate."},
    {"iothread-controller", W, "iothread without its controller",
     "Advice differs: Talos's manual names virtio-scsi-pci (installs were seen to hang with "
     "virtio-scsi-single), Proxmox and its CSI plugin name virtio-scsi-single, without which "
     "iothread does nothing. The controller wins: iothread is not sent with virtio-scsi-pci."},
    {"agent-extension", E, "guest agent half there",
     "The extension qemu-guest-agent without the VM's device keeps Talos booting for ever; the "
     "device without the extension makes Proxmox wait for an agent that never answers. Both or "
     "none."},
    {"pcie-chipset", E, "PCI Express on i440fx", "PCI Express passthrough needs chipset q35."},
    {"pci-bios", W, "PCI passthrough with SeaBIOS", "Many cards only come up with OVMF."},
    {"disk-use-version", E, "a volume that this Talos cannot make",
     "User volumes came with Talos 1.10. Use `use: raw`, or a newer Talos."},
    {"system-disk-use", E, "the system disk used for something else",
     "Talos takes the whole system disk; data belongs on a disk of its own."},
    {"boot-meta", E, "META addressing without an image of ours",
     "META key 10 is part of the node's own image; an ISO or a template does not carry it. Use "
     "talos.boot: import."},
    {"boot-image", E, "an image of its own for the clone of a template",
     "All VMs are clones of the one template that talos.boot names, and have its extensions and "
     "kernel arguments. Use talos.boot: import or iso where nodes differ in them."},
    {"schematic-conflict", E, "a schematic and its parts",
     "A schematic already says which extensions and kernel arguments there are; both together "
     "contradict each other."},

    // versions
    {"talos-unsupported", E, "a Talos that rocca does not know",
     "Machine configs differ between Talos lines. rocca renders 1.9 to 1.13."},
    {"talos-prerelease", W, "a Talos pre-release",
     "Alpha, beta and rc versions cannot always be upgraded from."},
    {"kubernetes-unsupported", E, "a Kubernetes that this Talos does not run",
     "Every Talos line supports six Kubernetes minors; the node refuses others when the config is "
     "applied."},
    {"extension-name", E, "an extension by a wrong name",
     "The factory would answer 400. These names are wrong in a known way."},
    {"extension-version", E, "an extension that this Talos does not have",
     "Extensions are built for each Talos release; this one came later or was dropped."},
    {"extension-unknown", W, "an extension that rocca does not know",
     "It is asked for as it stands; the factory's own list decides at plan."},
    {"extension-not-listed", E, "an extension that the factory does not have",
     "The factory's list for this version, kept in rocca.lock, does not name it."},
    {"module-version", E, "a kernel module that this Talos does not have",
     "Talos loads only signed modules of its own release; a missing one stops the boot sequence."},
    {"module-extension", E, "a kernel module without its extension",
     "The module is part of an extension, which must be in talos.extensions."},
    {"module-unknown", W, "a kernel module that rocca does not know",
     "If it is not there, Talos repeats the attempt for ever and says so in its log."},

    // add-ons
    {"cni-none-addons", E, "add-ons without a network",
     "With `cni: none` pods stay Pending until somebody installs a CNI; add-ons would wait for "
     "ever."},
    {"longhorn-extensions", E, "Longhorn without its extensions",
     "Longhorn attaches volumes by iSCSI and needs nsenter and fstrim: iscsi-tools and "
     "util-linux-tools."},
    {"longhorn-disk", W, "Longhorn without a data disk",
     "Its volumes would share the system disk with etcd and images; a full disk then stops the "
     "node."},
    {"longhorn-mount", E, "Longhorn's data outside its mount",
     "The kubelet sees the data path only through a mount: /var/lib/longhorn (rocca adds it) or "
     "/var/mnt/NAME of a volume."},
    {"longhorn-use", E, "a disk for Longhorn without Longhorn",
     "`use: longhorn` mounts the disk for an add-on that is not asked for."},
    {"tailscale-extension", E, "Tailscale half there",
     "The section needs the extension tailscale in talos.extensions, and the extension without its "
     "configuration keeps Talos booting for ever. Both or none."},
    {"metrics-approver", E, "metrics-server without a certificate approver",
     "metrics-server checks the kubelets' certificates, which nobody would sign: no metrics, and "
     "`kubectl logs` fails."},
    {"addon-platform", E, "a Proxmox add-on without Proxmox",
     "The add-on talks to the Proxmox that `proxmox:` names."},

    // platform and handover
    {"plain-http", E, "a credential over plain HTTP",
     "Everybody on the way could read it. Where that must be, `plainHttp: true` beside the address "
     "says so; on this machine itself (localhost, 127.0.0.1, ::1) it is not needed."},
    {"plain-http-allowed", W, "a credential goes out over plain HTTP",
     "`plainHttp: true` was asked for: everybody on the way can read the credential."},
    {"insecure-tls", W, "any certificate is trusted",
     "Whoever stands in between gets the token. Give fingerprint or caFile."},
    {"tls-trust", E, "contradicting ways to trust", "One of fingerprint, caFile and insecure."},
    {"external-auth", E, "an external credential without External Secrets",
     "{ external: KEY } is fetched by External Secrets; configure handover.externalSecrets."},
    {"flux-auth", W, "an SSH repository without a key", "SSH needs a deploy key: give auth."},
    {"publish-incomplete", E, "publishing without an address",
     "project and environment come from the entry itself, from externalSecrets, or from an "
     "Infisical source."},
    {"infisical-source", E, "a secret from Infisical without a source",
     "{ infisical: /path } is read through secrets.sources or handover.externalSecrets, and none "
     "names an Infisical."},
    {"wait-target", E, "a wait for something that cannot be",
     "endpointSlice names NAMESPACE/NAME."},
    {"policy-data-loss", W, "data loss without asking",
     "With data-loss or replace in policy.allow, a mistake in this file can cost data without a "
     "question."},
};

}  // namespace

std::span<const Rule> rules() {
  return table;
}

const Rule* find_rule(std::string_view code) {
  for (const Rule& rule : table)
    if (rule.code == code) return &rule;
  return nullptr;
}

}  // namespace rocca::spec
