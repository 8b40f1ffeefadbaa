#include "lab/pve/schema/tables.hpp"

namespace rocca::lab::pve {

std::string_view qemu_format_table() {
  return R"(
format agent
  enabled bool key; fstrim_cloned_disks? bool; type? enum=virtio,isa
  8: freeze-fs-on-backup? bool
  9: freeze-fs? bool; freeze-fs-on-backup alias=freeze-fs; guest-fsfreeze alias=freeze-fs
format audio0
  device enum=ich9-intel-hda,intel-hda,AC97; driver? enum=spice,none

group volume
  file key format=pve-volume-id-or-qm-path; import-from? format=pve-volume-id-or-absolute-path
  size? format=disk-size; volume alias=file
format efidisk0
  use volume; efitype? enum=2m,4m; format? enum=raw,qcow,qed,qcow2,vmdk,cloop; ms-cert? enum=2011,2023,2023w,2023k
  pre-enrolled-keys? bool
format tpmstate0
  use volume; version? enum=v1.2,v2.0
  9: format? enum=raw,qcow2,vmdk
format unused
  file key format=pve-volume-id; volume alias=file

group drive
  use volume; aio? enum=native,threads,io_uring; backup? bool
  bps? int; bps_max_length? int 1..; bps_rd? int; bps_rd_max_length? int 1..; bps_rd_length alias=bps_rd_max_length
  bps_wr? int; bps_wr_max_length? int 1..; bps_wr_length alias=bps_wr_max_length
  cache? enum=none,writethrough,writeback,unsafe,directsync; detect_zeroes? bool; discard? enum=ignore,on
  format? enum=raw,qcow,qed,qcow2,vmdk,cloop
  iops? int; iops_max? int; iops_max_length? int 1..; iops_rd? int; iops_rd_max? int; iops_rd_max_length? int 1..
  iops_rd_length alias=iops_rd_max_length; iops_wr? int; iops_wr_max? int; iops_wr_max_length? int 1..
  iops_wr_length alias=iops_wr_max_length
  mbps? num; mbps_max? num; mbps_rd? num; mbps_rd_max? num; mbps_wr? num; mbps_wr_max? num
  media? enum=cdrom,disk; replicate? bool; rerror? enum=ignore,report,stop; serial? len=..60 format=urlencoded
  shared? bool; snapshot? bool; werror? enum=enospc,ignore,report,stop
  8: cyls? int; heads? int; secs? int; trans? enum=none,lba,auto
group drive-ssd
  ssd? bool; wwn? pattern=0x[0-9a-fA-F]{16}
format ide
  use drive; use drive-ssd; model? len=..120 format=urlencoded
format sata
  use drive; use drive-ssd
format scsi
  use drive; use drive-ssd; iothread? bool; product? pattern=[A-Za-z0-9\-_\s]{0,16}; queues? int 2..; ro? bool
  scsiblock? bool; vendor? pattern=[A-Za-z0-9\-_\s]{0,8}
format virtio
  use drive; iothread? bool; ro? bool

format net
  bridge? format=pve-bridge-id; firewall? bool; link_down? bool; macaddr? format=mac-addr
  model key enum=e1000,e1000-82540em,e1000-82544gc,e1000-82545em,e1000e,i82551,i82557b,i82559er,ne2k_isa,ne2k_pci,pcnet,rtl8139,virtio,vmxnet3
  mtu? int 1..65520; queues? int 0..64; rate? num 0..; tag? int 1..4094
  trunks? pattern=\d+(?:-\d+)?(?:;\d+(?:-\d+)?)*
  e1000 alias=macaddr keyalias=model; e1000-82540em alias=macaddr keyalias=model
  e1000-82544gc alias=macaddr keyalias=model; e1000-82545em alias=macaddr keyalias=model
  e1000e alias=macaddr keyalias=model; i82551 alias=macaddr keyalias=model; i82557b alias=macaddr keyalias=model
  i82559er alias=macaddr keyalias=model; ne2k_isa alias=macaddr keyalias=model; ne2k_pci alias=macaddr keyalias=model
  pcnet alias=macaddr keyalias=model; rtl8139 alias=macaddr keyalias=model; virtio alias=macaddr keyalias=model
  vmxnet3 alias=macaddr keyalias=model
format ivshmem
  name? pattern=[a-zA-Z0-9\-]+; size int 1..
format machine
  type? key len=..40 pattern=(pc|pc(-i440fx)?-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|q35|pc-q35-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|virt(?:-\d+(\.\d+)+)?(\+pve\d+)?)
  enable-s3? bool; enable-s4? bool; viommu? enum=intel,virtio
  9: aw-bits? num 32..64
format memory
  current int 16.. key
format numa
  cpus pattern=\d+(?:-\d+)?(?:;\d+(?:-\d+)?)*; hostnodes? pattern=\d+(?:-\d+)?(?:;\d+(?:-\d+)?)*; memory? num
  policy? enum=preferred,bind,interleave
format spice_enhancements
  foldersharing? bool; videostreaming? enum=off,all,filter
format usb
  host? key pattern=(0x)?[0-9A-Fa-f]{4}:(0x)?[0-9A-Fa-f]{4}|\d+-\d+(\.\d+)*|[Ss][Pp][Ii][Cc][Ee]
  mapping? format=pve-configid; usb3? bool
format vga
  clipboard? enum=vnc; memory? int 4..512
  type? key enum=cirrus,qxl,qxl2,qxl3,qxl4,none,serial0,serial1,serial2,serial3,std,virtio,virtio-gl,vmware
format virtiofs
  cache? enum=auto,always,metadata,never; dirid key format=pve-configid; direct-io? bool; expose-acl? bool
  expose-xattr? bool

# Formats that the published description only names; their keys are those of the manual page qm.conf(5).
format pve-qm-smbios1
  base64? bool; family? pattern=[A-Za-z0-9+\/]+={0,2}; manufacturer? pattern=[A-Za-z0-9+\/]+={0,2}
  product? pattern=[A-Za-z0-9+\/]+={0,2}; serial? pattern=[A-Za-z0-9+\/]+={0,2}; sku? pattern=[A-Za-z0-9+\/]+={0,2}
  uuid? pattern=[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}; version? pattern=[A-Za-z0-9+\/]+={0,2}
format pve-vm-cpu-conf
  cputype? key format=string; flags? pattern=[+-][a-zA-Z0-9\-_\.]+(;[+-][a-zA-Z0-9\-_\.]+)*; hidden? bool
  hv-vendor-id? pattern=[a-zA-Z0-9]{1,12}; phys-bits? format=pve-phys-bits; reported-model? format=string
  9: guest-phys-bits? int 32..64
format pve-qm-ipconfig
  gw? format=ipv4 needs=ip; gw6? format=ipv6 needs=ip6; ip? format=pve-ipv4-config; ip6? format=pve-ipv6-config
format pve-qm-cicustom
  meta? format=pve-volume-id; network? format=pve-volume-id; user? format=pve-volume-id; vendor? format=pve-volume-id
format pve-qm-watchdog
  action? enum=reset,shutdown,poweroff,pause,debug,none; model? key enum=i6300esb,ib700
format pve-qm-rng
  max_bytes? int; period? int; source key enum=/dev/urandom,/dev/random,/dev/hwrng
format pve-qm-boot
  legacy? key pattern=[acdn]{1,4}; order? format=pve-qm-bootdev-list
format pve-qm-hostpci
  device-id? pattern=0x[0-9a-fA-F]{4}; host? key pattern=(?:[0-9a-fA-F]{4,}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?(?:;(?:[0-9a-fA-F]{4,}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)*
  legacy-igd? bool; mapping? format=pve-configid; mdev? format=string; pcie? bool; rombar? bool
  romfile? pattern=[^,;]+; sub-device-id? pattern=0x[0-9a-fA-F]{4}; sub-vendor-id? pattern=0x[0-9a-fA-F]{4}
  vendor-id? pattern=0x[0-9a-fA-F]{4}; x-vga? bool
format pve-qemu-sev-fmt
  allow-smt? bool; kernel-hashes? bool; no-debug? bool; no-key-sharing? bool; type key enum=std,es,snp
9: format pve-qemu-tdx-fmt
  attestation? bool; type key enum=tdx; vsock-cid? int 2..; vsock-port? int 0..
)";
}

std::string_view qemu_table() {
  return R"(
group settings
  acpi? bool; affinity? format=pve-cpuset; agent? format=agent; amd-sev? format=pve-qemu-sev-fmt
  arch? enum=x86_64,aarch64; args?; audio0? format=audio0; autostart? bool; balloon? int 0..; bios? enum=seabios,ovmf
  boot? format=pve-qm-boot; bootdisk? format=pve-qm-bootdisk pattern=(ide|sata|scsi|virtio)\d+; cdrom? format=pve-qm-ide
  cicustom? format=pve-qm-cicustom; cipassword?; citype? enum=configdrive2,nocloud,opennebula; ciupgrade? bool; ciuser?
  cores? int 1..; cpu? format=pve-vm-cpu-conf; cpulimit? num 0..128; cpuunits? int 1..262144; description? len=..8192
  efidisk0? format=efidisk0; freeze? bool; hookscript? format=pve-volume-id; hostpci[n]? format=pve-qm-hostpci
  hotplug? format=pve-hotplug-features; hugepages? enum=any,2,1024; ide[n]? format=ide; ipconfig[n]? format=pve-qm-ipconfig
  ivshmem? format=ivshmem; keephugepages? bool
  keyboard? enum=de,de-ch,da,en-gb,en-us,es,fi,fr,fr-be,fr-ca,fr-ch,hu,is,it,ja,lt,mk,nl,no,pl,pt,pt-br,sv,sl,tr
  kvm? bool; localtime? bool
  lock? enum=backup,clone,create,migrate,rollback,snapshot,snapshot-delete,suspending,suspended
  machine? format=machine; memory? format=memory; migrate_downtime? num 0..; migrate_speed? int 0..
  name? format=dns-name; nameserver? format=address-list; net[n]? format=net; numa? bool; numa[n]? format=numa
  onboot? bool; ostype? enum=other,wxp,w2k,w2k3,w2k8,wvista,win7,win8,win10,win11,l24,l26,solaris
  parallel[n]? pattern=/dev/parport\d+|/dev/usb/lp\d+; protection? bool; reboot? bool; rng0? format=pve-qm-rng
  sata[n]? format=sata; scsi[n]? format=scsi
  scsihw? enum=lsi,lsi53c810,virtio-scsi-pci,virtio-scsi-single,megasas,pvscsi; searchdomain?
  serial[n]? pattern=(/dev/.+|socket); shares? int 0..50000; smbios1? len=..512 format=pve-qm-smbios1; smp? int 1..
  sockets? int 1..; spice_enhancements? format=spice_enhancements; sshkeys? format=urlencoded
  startdate? pattern=(now|\d{4}-\d{1,2}-\d{1,2}(T\d{1,2}:\d{1,2}:\d{1,2})?); startup? format=pve-startup-order
  tablet? bool; tags? format=pve-tag-list; tdf? bool; template? bool; tpmstate0? format=tpmstate0
  unused[n]? format=unused; usb[n]? format=usb; vcpus? int 1..; vga? format=vga; virtio[n]? format=virtio
  virtiofs[n]? format=virtiofs; vmgenid? pattern=[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}|[01]
  vmstatestorage? format=pve-storage-id; watchdog? format=pve-qm-watchdog
  9: allow-ksm? bool; intel-tdx? format=pve-qemu-tdx-fmt
group change
  use settings; delete? format=pve-configid-list; digest? len=..40; force? bool needs=delete; revert? format=pve-configid-list
  skiplock? bool

GET /nodes/{node}/qemu | all | protected node
  full? bool
POST /nodes/{node}/qemu | all | protected node
  use settings; archive? len=..255; bwlimit? int 0..; force? bool needs=archive
  import-working-storage? format=pve-storage-id; live-restore? bool; pool? format=pve-poolid; start? bool
  storage? format=pve-storage-id; unique? bool needs=archive; vmid int 100..999999999 format=pve-vmid
  9: ha-managed? bool
GET /nodes/{node}/qemu/{vmid} | all | node
DELETE /nodes/{node}/qemu/{vmid} | ["perm","/vms/{vmid}",["VM.Allocate"]] | protected node
  destroy-unreferenced-disks? bool; purge? bool; skiplock? bool
GET /nodes/{node}/qemu/{vmid}/config | ["perm","/vms/{vmid}",["VM.Audit"]] | node
  current? bool; snapshot? len=..40 format=pve-configid
PUT /nodes/{node}/qemu/{vmid}/config | ["perm","/vms/{vmid}",["VM.Config.Disk","VM.Config.CDROM","VM.Config.CPU","VM.Config.Memory","VM.Config.Network","VM.Config.HWType","VM.Config.Options","VM.Config.Cloudinit"],"any",1] | protected node
  use change
POST /nodes/{node}/qemu/{vmid}/config | ["perm","/vms/{vmid}",["VM.Config.Disk","VM.Config.CDROM","VM.Config.CPU","VM.Config.Memory","VM.Config.Network","VM.Config.HWType","VM.Config.Options","VM.Config.Cloudinit"],"any",1] | protected node
  use change; background_delay? int 1..30; import-working-storage? format=pve-storage-id
GET /nodes/{node}/qemu/{vmid}/pending | ["perm","/vms/{vmid}",["VM.Audit"]] | node
PUT /nodes/{node}/qemu/{vmid}/unlink | ["perm","/vms/{vmid}",["VM.Config.Disk"]] | protected node
  force? bool; idlist format=pve-configid-list
PUT /nodes/{node}/qemu/{vmid}/resize | ["perm","/vms/{vmid}",["VM.Config.Disk"]] | protected node
  digest? len=..40; disk enum=ide{0-3},scsi{0-30},virtio{0-15},sata{0-5},efidisk0,tpmstate0
  size pattern=\+?\d+(\.\d+)?[KMGT]?; skiplock? bool
POST /nodes/{node}/qemu/{vmid}/move_disk | ["perm","/vms/{vmid}",["VM.Config.Disk"]] | protected node
  bwlimit? int 0..; delete? bool; digest? len=..40; format? enum=raw,qcow2,vmdk; storage? format=pve-storage-id
  disk enum=ide{0-3},scsi{0-30},virtio{0-15},sata{0-5},efidisk0,tpmstate0,unused{0-255}
  target-digest? len=..40; target-disk? enum=ide{0-3},scsi{0-30},virtio{0-15},sata{0-5},efidisk0,tpmstate0,unused{0-255}
  target-vmid? int 100..999999999 format=pve-vmid
POST /nodes/{node}/qemu/{vmid}/clone | ["and",["perm","/vms/{vmid}",["VM.Clone"]],["or",["perm","/vms/{newid}",["VM.Allocate"]],["perm","/pool/{pool}",["VM.Allocate"],"require_param","pool"]]] | protected node
  bwlimit? int 0..; description?; format? enum=raw,qcow2,vmdk; full? bool; name? format=dns-name
  newid int 100..999999999 format=pve-vmid; pool? format=pve-poolid; snapname? len=..40 format=pve-configid
  storage? format=pve-storage-id; target? format=pve-node
POST /nodes/{node}/qemu/{vmid}/template | ["perm","/vms/{vmid}",["VM.Allocate"]] | protected node
  disk? enum=ide{0-3},scsi{0-30},virtio{0-15},sata{0-5},efidisk0,tpmstate0
GET /nodes/{node}/qemu/{vmid}/migrate | ["perm","/vms/{vmid}",["VM.Migrate"]] | protected node
  target? format=pve-node
POST /nodes/{node}/qemu/{vmid}/migrate | ["perm","/vms/{vmid}",["VM.Migrate"]] | protected node
  bwlimit? int 0..; force? bool; migration_network? format=CIDR; migration_type? enum=secure,insecure; online? bool
  target format=pve-node; targetstorage? format=storage-pair-list; with-local-disks? bool
  9: with-conntrack-state? bool
GET /nodes/{node}/qemu/{vmid}/feature | ["perm","/vms/{vmid}",["VM.Audit"]] | protected node
  feature enum=snapshot,clone,copy; snapname? len=..40 format=pve-configid

GET /nodes/{node}/qemu/{vmid}/status | all | node
GET /nodes/{node}/qemu/{vmid}/status/current | ["perm","/vms/{vmid}",["VM.Audit"]] | protected node
POST /nodes/{node}/qemu/{vmid}/status/start | ["perm","/vms/{vmid}",["VM.PowerMgmt"]] | protected node
  force-cpu?; machine? format=machine; migratedfrom? format=pve-node; migration_network? format=CIDR
  migration_type? enum=secure,insecure; nets-host-mtu? pattern=net\d+=\d+(,net\d+=\d+)*; skiplock? bool
  stateuri? len=..128; targetstorage? format=storage-pair-list; timeout? int 0..
  9: with-conntrack-state? bool
POST /nodes/{node}/qemu/{vmid}/status/stop | ["perm","/vms/{vmid}",["VM.PowerMgmt"]] | protected node
  keepActive? bool; migratedfrom? format=pve-node; overrule-shutdown? bool; skiplock? bool; timeout? int 0..
POST /nodes/{node}/qemu/{vmid}/status/shutdown | ["perm","/vms/{vmid}",["VM.PowerMgmt"]] | protected node
  forceStop? bool; keepActive? bool; skiplock? bool; timeout? int 0..
POST /nodes/{node}/qemu/{vmid}/status/reboot | ["perm","/vms/{vmid}",["VM.PowerMgmt"]] | protected node
  timeout? int 0..
POST /nodes/{node}/qemu/{vmid}/status/reset | ["perm","/vms/{vmid}",["VM.PowerMgmt"]] | protected node
  skiplock? bool
POST /nodes/{node}/qemu/{vmid}/status/suspend | ["perm","/vms/{vmid}",["VM.PowerMgmt"]] | protected node
  skiplock? bool; statestorage? format=pve-storage-id needs=todisk; todisk? bool
POST /nodes/{node}/qemu/{vmid}/status/resume | ["perm","/vms/{vmid}",["VM.PowerMgmt"]] | protected node
  nocheck? bool; skiplock? bool

group snapname
  snapname len=..40 format=pve-configid
GET /nodes/{node}/qemu/{vmid}/snapshot | ["perm","/vms/{vmid}",["VM.Audit"]] | protected node
POST /nodes/{node}/qemu/{vmid}/snapshot | ["perm","/vms/{vmid}",["VM.Snapshot"]] | protected node
  use snapname; description?; vmstate? bool
GET /nodes/{node}/qemu/{vmid}/snapshot/{snapname} | all |
  use snapname
DELETE /nodes/{node}/qemu/{vmid}/snapshot/{snapname} | ["perm","/vms/{vmid}",["VM.Snapshot"]] | protected node
  use snapname; force? bool
GET /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config | ["perm","/vms/{vmid}",["VM.Snapshot","VM.Snapshot.Rollback","VM.Audit"],"any",1] | node
  use snapname
PUT /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config | ["perm","/vms/{vmid}",["VM.Snapshot"]] | protected node
  use snapname; description?
POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback | ["perm","/vms/{vmid}",["VM.Snapshot","VM.Snapshot.Rollback"],"any",1] | protected node
  use snapname; start? bool

GET /nodes/{node}/qemu/{vmid}/cloudinit | ["perm","/vms/{vmid}",["VM.Audit"]] | node
PUT /nodes/{node}/qemu/{vmid}/cloudinit | ["perm","/vms/{vmid}",["VM.Config.Cloudinit"]] | protected node
GET /nodes/{node}/qemu/{vmid}/cloudinit/dump | ["perm","/vms/{vmid}",["VM.Audit"]] | node
  type enum=user,network,meta
PUT /nodes/{node}/qemu/{vmid}/sendkey | ["perm","/vms/{vmid}",["VM.Console"]] | protected node
  key; skiplock? bool
8: POST /nodes/{node}/qemu/{vmid}/monitor | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
  command
9: POST /nodes/{node}/qemu/{vmid}/monitor | ["perm","/vms/{vmid}",["Sys.Audit","Sys.Modify"],"any",1] | protected node
  command
POST /nodes/{node}/qemu/{vmid}/vncproxy | ["perm","/vms/{vmid}",["VM.Console"]] | protected
  generate-password? bool; websocket? bool

GET /nodes/{node}/qemu/{vmid}/agent | all | node
8: POST /nodes/{node}/qemu/{vmid}/agent | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
  command enum=fsfreeze-freeze,fsfreeze-status,fsfreeze-thaw,fstrim,get-fsinfo,get-host-name,get-memory-block-info,get-memory-blocks,get-osinfo,get-time,get-timezone,get-users,get-vcpus,info,network-get-interfaces,ping,shutdown,suspend-disk,suspend-hybrid,suspend-ram
9: POST /nodes/{node}/qemu/{vmid}/agent | ["perm","/vms/{vmid}",["VM.GuestAgent.Unrestricted","VM.GuestAgent.Unrestricted"],"any",1] | protected node
  command enum=fsfreeze-freeze,fsfreeze-status,fsfreeze-thaw,fstrim,get-fsinfo,get-host-name,get-memory-block-info,get-memory-blocks,get-osinfo,get-time,get-timezone,get-users,get-vcpus,info,network-get-interfaces,ping,shutdown,suspend-disk,suspend-hybrid,suspend-ram
8: POST /nodes/{node}/qemu/{vmid}/agent/ping | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/ping | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-status | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-status | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.FileSystemMgmt","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-fsinfo | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-fsinfo | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-host-name | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-host-name | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-memory-block-info | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-memory-block-info | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-memory-blocks | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-memory-blocks | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-osinfo | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-osinfo | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-time | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-time | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-timezone | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-timezone | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-users | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-users | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/get-vcpus | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/get-vcpus | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/info | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/info | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: GET /nodes/{node}/qemu/{vmid}/agent/network-get-interfaces | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: GET /nodes/{node}/qemu/{vmid}/agent/network-get-interfaces | ["perm","/vms/{vmid}",["VM.GuestAgent.Audit","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-freeze | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-freeze | ["perm","/vms/{vmid}",["VM.GuestAgent.FileSystemMgmt","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-thaw | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-thaw | ["perm","/vms/{vmid}",["VM.GuestAgent.FileSystemMgmt","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/fstrim | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/fstrim | ["perm","/vms/{vmid}",["VM.GuestAgent.FileSystemMgmt","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/shutdown | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/shutdown | ["perm","/vms/{vmid}",["VM.PowerMgmt","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/suspend-disk | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/suspend-disk | ["perm","/vms/{vmid}",["VM.PowerMgmt","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/suspend-hybrid | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/suspend-hybrid | ["perm","/vms/{vmid}",["VM.PowerMgmt","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/suspend-ram | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
9: POST /nodes/{node}/qemu/{vmid}/agent/suspend-ram | ["perm","/vms/{vmid}",["VM.PowerMgmt","VM.GuestAgent.Unrestricted"],"any",1] | protected node
8: POST /nodes/{node}/qemu/{vmid}/agent/exec | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
  command list format=string; input-data? len=..65536
9: POST /nodes/{node}/qemu/{vmid}/agent/exec | ["perm","/vms/{vmid}",["VM.GuestAgent.Unrestricted"]] | protected node
  command list; input-data? len=..65536
8: GET /nodes/{node}/qemu/{vmid}/agent/exec-status | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
  pid int
9: GET /nodes/{node}/qemu/{vmid}/agent/exec-status | ["perm","/vms/{vmid}",["VM.GuestAgent.Unrestricted"]] | protected node
  pid int
8: GET /nodes/{node}/qemu/{vmid}/agent/file-read | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
  file
9: GET /nodes/{node}/qemu/{vmid}/agent/file-read | ["perm","/vms/{vmid}",["VM.GuestAgent.FileRead","VM.GuestAgent.Unrestricted"],"any",1] | protected node
  file; count? int 1..16777216; decode? bool; offset? int 0..
8: POST /nodes/{node}/qemu/{vmid}/agent/file-write | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
  content len=..61440; encode? bool; file
9: POST /nodes/{node}/qemu/{vmid}/agent/file-write | ["perm","/vms/{vmid}",["VM.GuestAgent.FileWrite","VM.GuestAgent.Unrestricted"],"any",1] | protected node
  content len=..61440; encode? bool; file
8: POST /nodes/{node}/qemu/{vmid}/agent/set-user-password | ["perm","/vms/{vmid}",["VM.Monitor"]] | protected node
  crypted? bool; password len=5..1024; username
9: POST /nodes/{node}/qemu/{vmid}/agent/set-user-password | ["perm","/vms/{vmid}",["VM.GuestAgent.Unrestricted"]] | protected node
  crypted? bool; password len=5..1024; username
)";
}

}  // namespace rocca::lab::pve
