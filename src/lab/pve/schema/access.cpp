#include "lab/pve/schema/tables.hpp"

namespace rocca::lab::pve {

std::vector<std::string_view> schema_tables() {
  return {access_table(), cluster_table(), storage_table(), qemu_format_table(), qemu_table()};
}

std::string_view access_table() {
  return R"(
group user
  userid format=pve-userid len=..64
group token
  use user; tokenid pattern=[A-Za-z][A-Za-z0-9._-]+
group person
  comment? len=..2048; email? len=..254 format=email-opt; enable? bool; expire? int 0..; firstname? len=..1024
  groups? format=pve-groupid-list; keys? pattern=[0-9a-zA-Z!=]{0,4096}; lastname? len=..1024; use user
group membership
  allow-move? bool; comment?; delete? bool; poolid format=pve-poolid; storage? format=pve-storage-id-list
  vms? format=pve-vmid-list

GET / | all |
GET /access | all |
GET /access/domains | world |
GET /access/ticket | world |
POST /access/ticket | world | protected ticket
  new-format? bool; otp?; password; path? len=..64 needs=privs; privs? len=..64 format=pve-priv-list needs=path
  realm? len=..32 format=pve-realm; tfa-challenge?; username len=..64
GET /access/permissions | all |
  path?; userid? pattern=[^\s:/]+@[A-Za-z][A-Za-z0-9._-]+(?:![A-Za-z][A-Za-z0-9._-]+)?
GET /access/acl | all |
PUT /access/acl | ["perm-modify","{path}"] | protected
  delete? bool; groups? format=pve-groupid-list; path; propagate? bool; roles format=pve-roleid-list
  tokens? format=pve-tokenid-list; users? format=pve-userid-list

GET /access/roles | all |
POST /access/roles | ["perm","/access",["Sys.Modify"]] | protected
  privs? format=pve-priv-list; roleid format=pve-roleid
GET /access/roles/{roleid} | all |
  roleid format=pve-roleid
PUT /access/roles/{roleid} | ["perm","/access",["Sys.Modify"]] | protected
  append? bool needs=privs; privs? format=pve-priv-list; roleid format=pve-roleid
DELETE /access/roles/{roleid} | ["perm","/access",["Sys.Modify"]] | protected
  roleid format=pve-roleid

GET /access/groups | all |
POST /access/groups | ["perm","/access/groups",["Group.Allocate"]] | protected
  comment?; groupid format=pve-groupid
GET /access/groups/{groupid} | ["perm","/access/groups",["Sys.Audit","Group.Allocate"],"any",1] |
  groupid format=pve-groupid
DELETE /access/groups/{groupid} | ["perm","/access/groups",["Group.Allocate"]] | protected
  groupid format=pve-groupid

GET /access/users | all | protected
  enabled? bool; full? bool
POST /access/users | ["and",["userid-param","Realm.AllocateUser"],["userid-group",["User.Modify"],"groups_param","create"]] | protected
  use person; password? len=8..64
GET /access/users/{userid} | ["userid-group",["User.Modify","Sys.Audit"]] |
  use user
PUT /access/users/{userid} | ["userid-group",["User.Modify"],"groups_param","update"] | protected
  use person; append? bool needs=groups
DELETE /access/users/{userid} | ["and",["userid-param","Realm.AllocateUser"],["userid-group",["User.Modify"]]] | protected
  use user
GET /access/users/{userid}/token | ["or",["userid-param","self"],["userid-group",["User.Modify"]]] |
  use user
GET /access/users/{userid}/token/{tokenid} | ["or",["userid-param","self"],["userid-group",["User.Modify"]]] |
  use token
POST /access/users/{userid}/token/{tokenid} | ["or",["userid-param","self"],["userid-group",["User.Modify"]]] | protected
  use token; comment?; expire? int 0..; privsep? bool
PUT /access/users/{userid}/token/{tokenid} | ["or",["userid-param","self"],["userid-group",["User.Modify"]]] | protected
  use token; comment?; expire? int 0..; privsep? bool
  9: delete? format=pve-configid-list
DELETE /access/users/{userid}/token/{tokenid} | ["or",["userid-param","self"],["userid-group",["User.Modify"]]] | protected
  use token

GET /pools | all |
  poolid? format=pve-poolid; type? enum=qemu,lxc,storage needs=poolid
POST /pools | ["perm","/pool/{poolid}",["Pool.Allocate"]] | protected
  comment?; poolid format=pve-poolid
PUT /pools | ["perm","/pool/{poolid}",["Pool.Allocate"]] | protected
  use membership
DELETE /pools | ["perm","/pool/{poolid}",["Pool.Allocate"]] | protected
  poolid format=pve-poolid
GET /pools/{poolid} | ["perm","/pool/{poolid}",["Pool.Audit"]] |
  poolid format=pve-poolid; type? enum=qemu,lxc,storage
PUT /pools/{poolid} | ["perm","/pool/{poolid}",["Pool.Allocate"]] | protected
  use membership
DELETE /pools/{poolid} | ["perm","/pool/{poolid}",["Pool.Allocate"]] | protected
  poolid format=pve-poolid
)";
}

}  // namespace rocca::lab::pve
