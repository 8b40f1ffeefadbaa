#include "lab/pve/schema/tables.hpp"

namespace rocca::lab::pve {

std::string_view storage_table() {
  return R"(
group definition
  blocksize?; bwlimit? format=bwlimit; comstar_hg?; comstar_tg?; content? format=pve-storage-content-list
  content-dirs? format=pve-dir-override-list; create-base-path? bool; create-subdirs? bool; data-pool?; disable? bool
  domain? len=..256; encryption-key?; fingerprint? pattern=([A-Fa-f0-9]{2}:){31}[A-Fa-f0-9]{2}
  format? enum=raw,qcow2,subvol,vmdk; fs-name? format=pve-configid; fuse? bool; is_mountpoint?; keyring?; krbd? bool
  lio_tpg?; master-pubkey?; max-protected-backups? int -1..; mkdir? bool; monhost? format=pve-storage-portal-dns-list
  mountpoint? format=pve-storage-path; namespace?; nocow? bool; nodes? format=pve-node-list; nowritecache? bool
  options? format=pve-storage-options; password? len=..256; pool?; port? int 1..65535
  preallocation? enum=off,metadata,falloc,full; prune-backups? format=prune-backups; saferemove? bool
  saferemove_throughput?; server? format=pve-storage-server; shared? bool; skip-cert-verification? bool
  smbversion? enum=default,2.0,2.1,3,3.0,3.11; sparse? bool; storage format=pve-storage-id
  subdir? format=pve-storage-path; tagged_only? bool; username?; zfs-base-path? format=pve-storage-path
  8: maxfiles? int 0..; server2? format=pve-storage-server needs=server; transport? enum=tcp,rdma,unix
  9: saferemove-stepsize? int enum=1,2,4,8,16,32; snapshot-as-volume-chain? bool
group checksum
  checksum? needs=checksum-algorithm; checksum-algorithm? enum=md5,sha1,sha224,sha256,sha384,sha512 needs=checksum

GET /storage | all |
  8: type? enum=btrfs,cephfs,cifs,dir,esxi,glusterfs,iscsi,iscsidirect,lvm,lvmthin,nfs,pbs,rbd,zfs,zfspool
  9: type? enum=btrfs,cephfs,cifs,dir,esxi,iscsi,iscsidirect,lvm,lvmthin,nfs,pbs,rbd,zfs,zfspool
POST /storage | ["perm","/storage",["Datastore.Allocate"]] | protected
  use definition; authsupported?; base? format=pve-volume-id; datastore?; export? format=pve-storage-path
  iscsiprovider?; path? format=pve-storage-path; portal? format=pve-storage-portal-dns; share?; target?
  thinpool? format=pve-storage-vgname; vgname? format=pve-storage-vgname
  8: type enum=btrfs,cephfs,cifs,dir,esxi,glusterfs,iscsi,iscsidirect,lvm,lvmthin,nfs,pbs,rbd,zfs,zfspool; volume?
  9: type enum=btrfs,cephfs,cifs,dir,esxi,iscsi,iscsidirect,lvm,lvmthin,nfs,pbs,rbd,zfs,zfspool
GET /storage/{storage} | ["perm","/storage/{storage}",["Datastore.Allocate"]] |
PUT /storage/{storage} | ["perm","/storage",["Datastore.Allocate"]] | protected
  use definition; delete? len=..4096 format=pve-configid-list; digest? len=..64
DELETE /storage/{storage} | ["perm","/storage",["Datastore.Allocate"]] | protected

GET /nodes/{node}/storage | all | protected node
  content? format=pve-storage-content-list; enabled? bool; format? bool; storage? format=pve-storage-id
  target? format=pve-node
GET /nodes/{node}/storage/{storage} | ["perm","/storage/{storage}",["Datastore.Audit","Datastore.AllocateSpace"],"any",1] |
GET /nodes/{node}/storage/{storage}/status | ["perm","/storage/{storage}",["Datastore.Audit","Datastore.AllocateSpace"],"any",1] | protected node
GET /nodes/{node}/storage/{storage}/content | ["perm","/storage/{storage}",["Datastore.Audit","Datastore.AllocateSpace"],"any",1] | protected node
  content? format=pve-storage-content; vmid? int 100..999999999 format=pve-vmid
POST /nodes/{node}/storage/{storage}/content | ["perm","/storage/{storage}",["Datastore.AllocateSpace"]] | protected node
  filename; format? enum=raw,qcow2,subvol,vmdk needs=size; size pattern=\d+[MG]?
  vmid int 100..999999999 format=pve-vmid
GET /nodes/{node}/storage/{storage}/content/{volume} | all | protected node
  storage? format=pve-storage-id
PUT /nodes/{node}/storage/{storage}/content/{volume} | all | protected node
  storage? format=pve-storage-id; notes?; protected? bool
DELETE /nodes/{node}/storage/{storage}/content/{volume} | all | protected node
  storage? format=pve-storage-id; delay? int 1..30
POST /nodes/{node}/storage/{storage}/download-url | ["and",["perm","/storage/{storage}",["Datastore.AllocateTemplate"]],["or",["perm","/",["Sys.Audit","Sys.Modify"]],["perm","/nodes/{node}",["Sys.AccessNetwork"]]]] | protected node
  use checksum; compression?; content enum=iso,vztmpl,import format=pve-storage-content; filename len=..255
  url pattern=https?://.*; verify-certificates? bool
POST /nodes/{node}/storage/{storage}/upload | ["perm","/storage/{storage}",["Datastore.AllocateTemplate"]] | protected
  use checksum; content enum=iso,vztmpl,import format=pve-storage-content; filename len=..255
  tmpfilename? pattern=/var/tmp/pveupload-[0-9a-f]+
GET /nodes/{node}/storage/{storage}/import-metadata | all | protected node
  volume
)";
}

}  // namespace rocca::lab::pve
