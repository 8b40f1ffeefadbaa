#include "lab/pve/schema/tables.hpp"

namespace rocca::lab::pve {

std::string_view cluster_table() {
  return R"(
format bwlimit
  clone? num 0..; default? num 0..; migration? num 0..; move? num 0..; restore? num 0..
format crs
  8: ha? enum=basic,static
  9: ha? enum=basic,static,dynamic
  ha-rebalance-on-start? bool
  9: ha-auto-rebalance? bool; ha-auto-rebalance-hold-duration? num 0.. needs=ha-auto-rebalance
  9: ha-auto-rebalance-margin? num 0.. needs=ha-auto-rebalance
  9: ha-auto-rebalance-method? enum=bruteforce,topsis needs=ha-auto-rebalance
  9: ha-auto-rebalance-threshold? num 0.. needs=ha-auto-rebalance
format ha
  shutdown_policy enum=freeze,failover,conditional,migrate
format migration
  network? format=CIDR; type enum=secure,insecure key
9: format replication
  network? format=CIDR; type enum=secure,insecure key
format next-id
  lower? int; upper? int
format notify
  fencing? enum=always,never; package-updates? enum=auto,always,never; replication? enum=always,never
  target-fencing?; target-package-updates?; target-replication?
format tag-style
  case-sensitive? bool; ordering? enum=config,alphabetical; shape? enum=full,circle,dense,none
  color-map? pattern=[A-Za-z0-9_][A-Za-z0-9_.+-]*:[0-9a-fA-F]{6}(:[0-9a-fA-F]{6})?(;[A-Za-z0-9_][A-Za-z0-9_.+-]*:[0-9a-fA-F]{6}(:[0-9a-fA-F]{6})?)*
format u2f
  appid?; origin?
format user-tag-access
  user-allow? enum=none,list,existing,free; user-allow-list? pattern=[A-Za-z0-9_][A-Za-z0-9_.+-]*(;[A-Za-z0-9_][A-Za-z0-9_.+-]*)*
format webauthn
  allow-subdomains? bool; id?; origin?; rp?

GET /version | all |
GET /cluster | all |
GET /cluster/resources | all |
  type? enum=vm,storage,node,sdn
GET /cluster/nextid | all |
  vmid? int 100..999999999 format=pve-vmid
GET /cluster/status | ["perm","/",["Sys.Audit"]] | protected
GET /cluster/tasks | all |
GET /cluster/log | all |
  max? int 1..
# The published description says Sys.Audit; the server lets everybody in and shows less (recorded).
GET /cluster/options | all |
PUT /cluster/options | ["perm","/",["Sys.Modify"]] | protected
  bwlimit? format=bwlimit; consent-text? len=..65536; console? enum=applet,vv,html5,xtermjs; crs? format=crs
  delete? format=pve-configid-list; description? len=..65536; email_from? format=email-opt
  fencing? enum=watchdog,hardware,both; ha? format=ha; http_proxy? pattern=http://.*
  keyboard? enum=de,de-ch,da,en-gb,en-us,es,fi,fr,fr-be,fr-ca,fr-ch,hu,is,it,ja,lt,mk,nl,no,pl,pt,pt-br,sv,sl,tr
  language? enum=ar,ca,da,de,en,es,eu,fa,fr,hr,he,it,ja,ka,kr,nb,nl,nn,pl,pt_BR,ru,sl,sv,tr,ukr,zh_CN,zh_TW
  mac_prefix? format=mac-prefix; max_workers? int 1..; migration? format=migration; migration_unsecure? bool
  next-id? format=next-id; notify? format=notify
  registered-tags? pattern=([A-Za-z0-9_][A-Za-z0-9_.+-]*;)*[A-Za-z0-9_][A-Za-z0-9_.+-]*
  tag-style? format=tag-style; u2f? format=u2f; user-tag-access? format=user-tag-access; webauthn? format=webauthn
  9: replication? format=replication

GET /cluster/ha | ["perm","/",["Sys.Audit"]] |
GET /cluster/ha/status | all |
GET /cluster/ha/status/current | ["perm","/",["Sys.Audit"]] |
GET /cluster/ha/groups | ["perm","/",["Sys.Audit"]] |
POST /cluster/ha/groups | ["perm","/",["Sys.Console"]] | protected
  comment? len=..4096; group format=pve-configid; nofailback? bool; restricted? bool; type? enum=group
  8: nodes format=pve-ha-group-node-list
  9: nodes format=pve-ha-node-list
GET /cluster/ha/resources | ["perm","/",["Sys.Audit"]] |
  type? enum=ct,vm
group ha-resource
  comment? len=..4096; group? format=pve-configid; max_relocate? int 0..; max_restart? int 0..
  sid format=pve-ha-resource-or-vm-id; state? enum=started,stopped,enabled,disabled,ignored
  9: failback? bool
POST /cluster/ha/resources | ["perm","/",["Sys.Console"]] | protected
  use ha-resource; type? enum=ct,vm
GET /cluster/ha/resources/{sid} | ["perm","/",["Sys.Audit"]] |
  sid format=pve-ha-resource-or-vm-id
PUT /cluster/ha/resources/{sid} | ["perm","/",["Sys.Console"]] | protected
  use ha-resource; delete? len=..4096 format=pve-configid-list; digest? len=..64
DELETE /cluster/ha/resources/{sid} | ["perm","/",["Sys.Console"]] | protected
  sid format=pve-ha-resource-or-vm-id
  9: purge? bool
9: GET /cluster/ha/rules | ["perm","/",["Sys.Audit"]] |
  resource?; type? enum=node-affinity,resource-affinity
group ha-rule
  affinity? enum=positive,negative; comment? len=..4096; disable? bool; nodes? format=pve-ha-node-list
  rule format=pve-configid; strict? bool; type enum=node-affinity,resource-affinity
9: POST /cluster/ha/rules | ["perm","/",["Sys.Console"]] | protected
  use ha-rule; resources format=pve-ha-resource-id-list
9: GET /cluster/ha/rules/{rule} | ["perm","/",["Sys.Audit"]] |
  rule format=pve-configid
9: PUT /cluster/ha/rules/{rule} | ["perm","/",["Sys.Console"]] | protected
  use ha-rule; resources? format=pve-ha-resource-id-list; delete? len=..4096 format=pve-configid-list; digest? len=..64
9: DELETE /cluster/ha/rules/{rule} | ["perm","/",["Sys.Console"]] | protected
  rule format=pve-configid

format pve-pci-map
  description? len=..4096; id pattern=[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}; iommugroup? int; node format=pve-node
  path pattern=(?:[a-f0-9]{4,}:[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?\x3b)*[a-f0-9]{4,}:[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?
  subsystem-id? pattern=[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}
group pci-mapping
  description? len=..4096; id format=pve-configid; live-migration-capable? bool; mdev? bool
GET /cluster/mapping/pci | all |
  check-node? format=pve-node
POST /cluster/mapping/pci | ["perm","/mapping/pci",["Mapping.Modify"]] | protected
  use pci-mapping; map list format=pve-pci-map
GET /cluster/mapping/pci/{id} | ["or",["perm","/mapping/pci/{id}",["Mapping.Use"]],["perm","/mapping/pci/{id}",["Mapping.Modify"]],["perm","/mapping/pci/{id}",["Mapping.Audit"]]] | protected
  id format=pve-configid
PUT /cluster/mapping/pci/{id} | ["perm","/mapping/pci/{id}",["Mapping.Modify"]] | protected
  use pci-mapping; map? list format=pve-pci-map; delete? len=..4096 format=pve-configid-list; digest? len=..64
DELETE /cluster/mapping/pci/{id} | ["perm","/mapping/pci",["Mapping.Modify"]] | protected
  id format=pve-configid
GET /cluster/sdn/vnets | all |
  pending? bool; running? bool
GET /cluster/sdn/zones | all |
  pending? bool; running? bool; type? enum=evpn,faucet,qinq,simple,vlan,vxlan

GET /nodes | all |
GET /nodes/{node} | all |
GET /nodes/{node}/version | all | node
GET /nodes/{node}/status | ["perm","/nodes/{node}",["Sys.Audit"]] | node
GET /nodes/{node}/time | ["perm","/nodes/{node}",["Sys.Audit"]] | node
GET /nodes/{node}/lxc | all | protected node
GET /nodes/{node}/network | all | node
  8: type? enum=bridge,bond,eth,alias,vlan,OVSBridge,OVSBond,OVSPort,OVSIntPort,vnet,any_bridge,any_local_bridge
  9: type? enum=bridge,bond,eth,alias,vlan,fabric,OVSBridge,OVSBond,OVSPort,OVSIntPort,vnet,any_bridge,any_local_bridge,include_sdn
GET /nodes/{node}/network/{iface} | ["perm","/nodes/{node}",["Sys.Audit"]] | node
  iface len=2..20 format=pve-iface
GET /nodes/{node}/certificates/info | all | node
GET /nodes/{node}/capabilities/qemu/cpu | all |
  9: arch? enum=x86_64,aarch64
GET /nodes/{node}/capabilities/qemu/machines | all | node
  9: arch? enum=x86_64,aarch64
GET /nodes/{node}/query-url-metadata | ["or",["perm","/",["Sys.Audit","Sys.Modify"]],["perm","/nodes/{node}",["Sys.AccessNetwork"]]] | node
  url pattern=https?://.*; verify-certificates? bool
GET /nodes/{node}/sdn/zones | all | protected node

GET /nodes/{node}/tasks | all | node
  errors? bool; limit? int 0..; since? int; source? enum=archive,active,all; start? int 0..
  statusfilter? format=pve-task-status-type-list; typefilter?; until? int; userfilter?
  vmid? int 100..999999999 format=pve-vmid
GET /nodes/{node}/tasks/{upid} | all |
DELETE /nodes/{node}/tasks/{upid} | all | protected node
GET /nodes/{node}/tasks/{upid}/status | all | protected node
GET /nodes/{node}/tasks/{upid}/log | all | protected node
  download? bool; limit? int 0..; start? int 0..
)";
}

}  // namespace rocca::lab::pve
