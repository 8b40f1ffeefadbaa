# A cluster by counts: controllers and workers numbered in one subnet behind a shared address, OVMF with an EFI disk and a
# TPM, explicit VM ids, the guests stopped when they are destroyed. The shape is that of modules which people use today.

terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
    talos   = { source = "siderolabs/talos" }
  }
}

variable "proxmox_endpoint" { type = string }
variable "proxmox_token" { type = string }
variable "proxmox_pve_node_name" { default = "pve1" }
variable "talos_version" { type = string }
variable "kubernetes_version" { type = string }
variable "cluster_name" { default = "example" }
variable "prefix" { default = "talos-example" }
variable "cluster_vip" { default = "10.0.0.79" }
variable "cluster_node_network" { default = "10.0.0.0/16" }
variable "cluster_node_network_gateway" { default = "10.0.0.1" }
variable "cluster_node_network_first_controller_hostnum" { default = 80 }
variable "cluster_node_network_first_worker_hostnum" { default = 90 }
variable "first_vm_id" { default = 800 }
variable "controller_count" { default = 1 }
variable "worker_count" { default = 1 }
variable "memory" { default = 4096 }
variable "on_destroy" { default = false }
variable "tpm" { default = true }
variable "wait_for_health" { default = false }
# An image that lies here, and is uploaded instead of one that Proxmox downloads; disks are made of it on the host, over SSH.
variable "image_file" { default = null }
variable "ssh" {
  type    = object({ private_key = string, nodes = map(object({ address = string, port = number })) })
  default = null
}

provider "proxmox" {
  endpoint  = var.proxmox_endpoint
  api_token = var.proxmox_token
  insecure  = true
  dynamic "ssh" {
    for_each = var.ssh == null ? [] : [var.ssh]
    content {
      username    = "root"
      private_key = ssh.value.private_key
      dynamic "node" {
        for_each = ssh.value.nodes
        content {
          name    = node.key
          address = node.value.address
          port    = node.value.port
        }
      }
    }
  }
}

locals {
  prefix_length = split("/", var.cluster_node_network)[1]
  controllers = [for i in range(var.controller_count) : {
    name    = "c${i}"
    address = cidrhost(var.cluster_node_network, var.cluster_node_network_first_controller_hostnum + i)
    id      = var.first_vm_id + i
  }]
  workers = [for i in range(var.worker_count) : {
    name    = "w${i}"
    address = cidrhost(var.cluster_node_network, var.cluster_node_network_first_worker_hostnum + i)
    id      = var.first_vm_id + 300 + i
  }]
  common = {
    machine = {
      features = { kubePrism = { enabled = true, port = 7445 }, hostDNS = { enabled = true, forwardKubeDNSToHost = true } }
      install  = { image = "factory.talos.dev/installer/${talos_image_factory_schematic.talos.id}:v${var.talos_version}" }
    }
    cluster = { discovery = { enabled = true, registries = { kubernetes = { disabled = false }, service = { disabled = true } } } }
  }
}

resource "talos_image_factory_schematic" "talos" {
  schematic = yamlencode({
    customization = {
      extraKernelArgs  = ["net.ifnames=0"]
      systemExtensions = { officialExtensions = ["siderolabs/drbd", "siderolabs/qemu-guest-agent"] }
    }
  })
}

resource "proxmox_virtual_environment_download_file" "talos" {
  count        = var.image_file == null ? 1 : 0
  node_name    = var.proxmox_pve_node_name
  datastore_id = "local"
  content_type = "import"
  file_name    = "${var.prefix}.qcow2"
  url          = "https://factory.talos.dev/image/${talos_image_factory_schematic.talos.id}/v${var.talos_version}/nocloud-amd64.qcow2"
}

resource "proxmox_virtual_environment_file" "talos" {
  count        = var.image_file == null ? 0 : 1
  node_name    = var.proxmox_pve_node_name
  datastore_id = "local"
  content_type = "iso"
  source_file {
    path      = var.image_file
    file_name = "${var.prefix}.img"
  }
}

resource "proxmox_virtual_environment_vm" "controller" {
  count           = var.controller_count
  vm_id           = local.controllers[count.index].id
  name            = "${var.prefix}-${local.controllers[count.index].name}"
  node_name       = var.proxmox_pve_node_name
  tags            = sort(["talos", "controller", "example", "terraform"])
  stop_on_destroy = true
  bios            = "ovmf"
  machine         = "q35"
  scsi_hardware   = "virtio-scsi-single"
  operating_system {
    type = "l26"
  }
  cpu {
    type  = "host"
    cores = 4
  }
  memory {
    dedicated = var.memory
  }
  vga {
    type = "qxl"
  }
  network_device {
    bridge = "vmbr0"
  }
  dynamic "tpm_state" {
    for_each = var.tpm ? [1] : []
    content {
      version      = "v2.0"
      datastore_id = "local-lvm"
    }
  }
  efi_disk {
    datastore_id = "local-lvm"
    file_format  = "raw"
    type         = "4m"
  }
  disk {
    datastore_id = "local-lvm"
    interface    = "scsi0"
    iothread     = true
    ssd          = true
    discard      = "on"
    size         = 40
    file_format  = "raw"
    file_id      = var.image_file == null ? null : proxmox_virtual_environment_file.talos[0].id
    import_from  = var.image_file == null ? proxmox_virtual_environment_download_file.talos[0].id : null
  }
  agent {
    enabled = true
    trim    = true
  }
  initialization {
    datastore_id = "local-lvm"
    ip_config {
      ipv4 {
        address = "${local.controllers[count.index].address}/${local.prefix_length}"
        gateway = var.cluster_node_network_gateway
      }
    }
  }
}

resource "proxmox_virtual_environment_vm" "worker" {
  count           = var.worker_count
  vm_id           = local.workers[count.index].id
  name            = "${var.prefix}-${local.workers[count.index].name}"
  node_name       = var.proxmox_pve_node_name
  tags            = sort(["talos", "worker", "example", "terraform"])
  stop_on_destroy = true
  bios            = "ovmf"
  machine         = "q35"
  scsi_hardware   = "virtio-scsi-single"
  operating_system {
    type = "l26"
  }
  cpu {
    type  = "host"
    cores = 4
  }
  memory {
    dedicated = var.memory
  }
  vga {
    type = "qxl"
  }
  network_device {
    bridge = "vmbr0"
  }
  dynamic "tpm_state" {
    for_each = var.tpm ? [1] : []
    content {
      version      = "v2.0"
      datastore_id = "local-lvm"
    }
  }
  efi_disk {
    datastore_id = "local-lvm"
    file_format  = "raw"
    type         = "4m"
  }
  disk {
    datastore_id = "local-lvm"
    interface    = "scsi0"
    iothread     = true
    ssd          = true
    discard      = "on"
    size         = 40
    file_format  = "raw"
    file_id      = var.image_file == null ? null : proxmox_virtual_environment_file.talos[0].id
    import_from  = var.image_file == null ? proxmox_virtual_environment_download_file.talos[0].id : null
  }
  disk {
    datastore_id = "local-lvm"
    interface    = "scsi1"
    iothread     = true
    ssd          = true
    discard      = "on"
    size         = 60
    file_format  = "raw"
  }
  agent {
    enabled = true
    trim    = true
  }
  initialization {
    datastore_id = "local-lvm"
    ip_config {
      ipv4 {
        address = "${local.workers[count.index].address}/${local.prefix_length}"
        gateway = var.cluster_node_network_gateway
      }
    }
  }
}

resource "talos_machine_secrets" "talos" {
  talos_version = "v${var.talos_version}"
}

data "talos_machine_configuration" "controller" {
  cluster_name       = var.cluster_name
  cluster_endpoint   = "https://${var.cluster_vip}:6443"
  machine_secrets    = talos_machine_secrets.talos.machine_secrets
  machine_type       = "controlplane"
  talos_version      = "v${var.talos_version}"
  kubernetes_version = var.kubernetes_version
  examples           = false
  docs               = false
  config_patches = [
    yamlencode(local.common),
    yamlencode({ machine = { network = { interfaces = [{ interface = "eth0", dhcp = false, vip = { ip = var.cluster_vip } }] } } }),
  ]
}

data "talos_machine_configuration" "worker" {
  cluster_name       = var.cluster_name
  cluster_endpoint   = "https://${var.cluster_vip}:6443"
  machine_secrets    = talos_machine_secrets.talos.machine_secrets
  machine_type       = "worker"
  talos_version      = "v${var.talos_version}"
  kubernetes_version = var.kubernetes_version
  examples           = false
  docs               = false
  config_patches     = [yamlencode(local.common)]
}

resource "talos_machine_configuration_apply" "controller" {
  count                       = var.controller_count
  client_configuration        = talos_machine_secrets.talos.client_configuration
  machine_configuration_input = data.talos_machine_configuration.controller.machine_configuration
  endpoint                    = local.controllers[count.index].address
  node                        = local.controllers[count.index].address
  config_patches              = [yamlencode({ machine = { network = { hostname = local.controllers[count.index].name } } })]
  on_destroy                  = var.on_destroy ? { graceful = false, reset = true, reboot = false } : null
  depends_on                  = [proxmox_virtual_environment_vm.controller]
}

resource "talos_machine_configuration_apply" "worker" {
  count                       = var.worker_count
  client_configuration        = talos_machine_secrets.talos.client_configuration
  machine_configuration_input = data.talos_machine_configuration.worker.machine_configuration
  endpoint                    = local.workers[count.index].address
  node                        = local.workers[count.index].address
  config_patches              = [yamlencode({ machine = { network = { hostname = local.workers[count.index].name } } })]
  on_destroy                  = var.on_destroy ? { graceful = false, reset = true, reboot = false } : null
  depends_on                  = [proxmox_virtual_environment_vm.worker]
}

resource "talos_machine_bootstrap" "talos" {
  client_configuration = talos_machine_secrets.talos.client_configuration
  endpoint             = local.controllers[0].address
  node                 = local.controllers[0].address
  depends_on           = [talos_machine_configuration_apply.controller]
}

data "talos_cluster_health" "talos" {
  count                = var.wait_for_health ? 1 : 0
  client_configuration = talos_machine_secrets.talos.client_configuration
  control_plane_nodes  = [for node in local.controllers : node.address]
  worker_nodes         = [for node in local.workers : node.address]
  endpoints            = [for node in local.controllers : node.address]
  depends_on = [talos_machine_bootstrap.talos, talos_machine_configuration_apply.controller,
  talos_machine_configuration_apply.worker]
}

resource "talos_cluster_kubeconfig" "talos" {
  client_configuration = talos_machine_secrets.talos.client_configuration
  endpoint             = local.controllers[0].address
  node                 = local.controllers[0].address
  depends_on           = [talos_machine_bootstrap.talos]
}

data "talos_client_configuration" "talos" {
  cluster_name         = var.cluster_name
  client_configuration = talos_machine_secrets.talos.client_configuration
  endpoints            = [for node in local.controllers : node.address]
  nodes                = [local.controllers[0].address]
}

output "talosconfig" {
  value     = data.talos_client_configuration.talos.talos_config
  sensitive = true
}

output "kubeconfig" {
  value     = talos_cluster_kubeconfig.talos.kubeconfig_raw
  sensitive = true
}

output "controllers" {
  value = join(",", [for node in local.controllers : node.address])
}

output "workers" {
  value = join(",", [for node in local.workers : node.address])
}
