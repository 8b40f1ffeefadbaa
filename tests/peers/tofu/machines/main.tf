# A cluster as a map of machines: one image per host (and one more for machines with a graphics card), cloud-init addresses or DHCP, SeaBIOS,
# a disk for data, the agent on. With `image = "raw.gz"` Proxmox unpacks the image, and disks are made of it on the host, over SSH.
# The shape is that of modules which people use today; the text is our own.

terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
    talos   = { source = "siderolabs/talos" }
  }
}

variable "proxmox" {
  type = object({
    endpoint  = string
    api_token = string
    ssh       = optional(object({ private_key = string, nodes = map(object({ address = string, port = number })) }))
  })
}

variable "cluster" {
  type = object({
    name               = string
    talos_version      = string
    kubernetes_version = string
    endpoint           = string
    gateway            = string
    cidr               = number
    dns_servers        = optional(list(string), [])
    bridge             = optional(string, "vmbr0")
    vlan_id            = optional(number)
    network_dhcp       = optional(bool, false)
    image              = optional(string, "qcow2")
    gpu_extensions     = optional(list(string), [])
  })
}

variable "vms" {
  type = map(object({
    host_node      = string
    machine_type   = string
    cpu            = optional(number, 2)
    ram_dedicated  = optional(number, 4096)
    ip             = optional(string)
    datastore_id   = optional(string, "local-lvm")
    os_disk_size   = optional(number, 10)
    data_disk_size = optional(number, 20)
    install_disk   = optional(string, "/dev/sda")
    labels         = optional(map(string), {})
    gpu            = optional(string)
  }))
}

variable "pci" {
  type    = map(object({ name = string, id = string, iommu_group = number, node = string, path = string, subsystem_id = string }))
  default = {}
}

# In a manifest that the control planes bring into Kubernetes themselves.
variable "password" {
  type    = string
  default = ""
}

provider "proxmox" {
  endpoint  = var.proxmox.endpoint
  api_token = var.proxmox.api_token
  insecure  = true
  dynamic "ssh" {
    for_each = var.proxmox.ssh == null ? [] : [var.proxmox.ssh]
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
  unpacked = var.cluster.image == "raw.gz"
  common   = ["siderolabs/qemu-guest-agent"]
  # Machines with a card have drivers in their image, if there are any to have.
  kind       = { for key, vm in var.vms : key => vm.gpu != null && length(var.cluster.gpu_extensions) > 0 ? "gpu" : "plain" }
  schematics = merge({ plain = local.common }, contains(values(local.kind), "gpu") ? { gpu = concat(local.common, var.cluster.gpu_extensions) } : {})
  images     = { for key, vm in var.vms : "${vm.host_node}/${local.kind[key]}" => { host = vm.host_node, kind = local.kind[key] }... }
  control = { for key, vm in var.vms : key => vm if vm.machine_type == "controlplane" }
  workers = { for key, vm in var.vms : key => vm if vm.machine_type == "worker" }
  # With DHCP the address is what the guest agent tells: the first of the first card that is not the loopback.
  address = {
    for key, vm in var.vms : key => var.cluster.network_dhcp ? flatten([
      for place, name in proxmox_virtual_environment_vm.vms[key].network_interface_names :
      proxmox_virtual_environment_vm.vms[key].ipv4_addresses[place] if name != "lo"
    ])[0] : vm.ip
  }
  first    = local.address[keys(local.control)[0]]
  endpoint = "https://${var.cluster.network_dhcp ? local.first : var.cluster.endpoint}:6443"
}

resource "talos_image_factory_schematic" "this" {
  for_each  = local.schematics
  schematic = yamlencode({ customization = { systemExtensions = { officialExtensions = each.value } } })
}

resource "proxmox_virtual_environment_download_file" "image" {
  for_each                = local.images
  node_name               = each.value[0].host
  content_type            = local.unpacked ? "iso" : "import"
  datastore_id            = "local"
  file_name               = "${var.cluster.name}-talos-${substr(talos_image_factory_schematic.this[each.value[0].kind].id, 0, 8)}-${var.cluster.talos_version}-nocloud-amd64.${local.unpacked ? "img" : "qcow2"}"
  url                     = "https://factory.talos.dev/image/${talos_image_factory_schematic.this[each.value[0].kind].id}/${var.cluster.talos_version}/nocloud-amd64.${var.cluster.image}"
  decompression_algorithm = local.unpacked ? "gz" : null
  overwrite               = false
}

resource "proxmox_virtual_environment_hardware_mapping_pci" "this" {
  for_each = var.pci
  name     = each.value.name
  comment  = "for ${var.cluster.name}"
  map = [{
    id           = each.value.id
    iommu_group  = each.value.iommu_group
    node         = each.value.node
    path         = each.value.path
    subsystem_id = each.value.subsystem_id
  }]
}

resource "proxmox_virtual_environment_vm" "vms" {
  for_each      = var.vms
  node_name     = each.value.host_node
  name          = "${var.cluster.name}-${each.key}"
  description   = "Talos ${each.value.machine_type}"
  tags          = sort(["terraform", "talos", "k8s", each.value.machine_type, var.cluster.name])
  on_boot       = true
  started       = true
  machine       = "q35"
  bios          = "seabios"
  scsi_hardware = "virtio-scsi-single"
  boot_order    = ["scsi0"]

  agent {
    enabled = true
  }
  cpu {
    cores = each.value.cpu
    type  = "host"
  }
  memory {
    dedicated = each.value.ram_dedicated
  }
  operating_system {
    type = "l26"
  }
  network_device {
    bridge  = var.cluster.bridge
    vlan_id = var.cluster.vlan_id
  }
  disk {
    interface    = "scsi0"
    datastore_id = each.value.datastore_id
    # Over SSH from the file itself, or by the API.
    file_id      = local.unpacked ? proxmox_virtual_environment_download_file.image["${each.value.host_node}/${local.kind[each.key]}"].id : null
    import_from  = local.unpacked ? null : proxmox_virtual_environment_download_file.image["${each.value.host_node}/${local.kind[each.key]}"].id
    file_format  = "raw"
    size         = each.value.os_disk_size
    iothread     = true
    discard      = "on"
    cache        = "writethrough"
  }
  disk {
    interface    = "scsi1"
    datastore_id = each.value.datastore_id
    file_format  = "raw"
    size         = each.value.data_disk_size
    iothread     = true
    discard      = "on"
    cache        = "writethrough"
  }
  dynamic "hostpci" {
    for_each = each.value.gpu == null ? [] : [each.value.gpu]
    content {
      device  = "hostpci0"
      mapping = proxmox_virtual_environment_hardware_mapping_pci.this[hostpci.value].name
      pcie    = true
      rombar  = true
      xvga    = false
    }
  }
  initialization {
    datastore_id = each.value.datastore_id
    # With DHCP the lease has them. A block without any would be planned again and again: the provider reads none back.
    dynamic "dns" {
      for_each = length(var.cluster.dns_servers) == 0 ? [] : [var.cluster.dns_servers]
      content {
        servers = dns.value
      }
    }
    ip_config {
      ipv4 {
        address = var.cluster.network_dhcp ? "dhcp" : "${each.value.ip}/${var.cluster.cidr}"
        gateway = var.cluster.network_dhcp ? null : var.cluster.gateway
      }
    }
  }
}

resource "talos_machine_secrets" "this" {
  talos_version = var.cluster.talos_version
}

data "talos_machine_configuration" "this" {
  for_each           = toset(["controlplane", "worker"])
  machine_type       = each.key
  cluster_name       = var.cluster.name
  cluster_endpoint   = local.endpoint
  talos_version      = var.cluster.talos_version
  kubernetes_version = var.cluster.kubernetes_version
  machine_secrets    = talos_machine_secrets.this.machine_secrets
}

resource "talos_machine_configuration_apply" "this" {
  for_each                    = var.vms
  node                        = local.address[each.key]
  client_configuration        = talos_machine_secrets.this.client_configuration
  machine_configuration_input = data.talos_machine_configuration.this[each.value.machine_type].machine_configuration
  config_patches = concat([
    yamlencode({
      machine = {
        install = {
          disk  = each.value.install_disk
          image = "factory.talos.dev/installer/${talos_image_factory_schematic.this[local.kind[each.key]].id}:${var.cluster.talos_version}"
        }
        network = { hostname = "${var.cluster.name}-${each.key}" }
        kernel  = { modules = [{ name = "zfs" }] }
      }
    }),
    ], length(each.value.labels) == 0 ? [] : [yamlencode({ machine = { nodeLabels = each.value.labels } })],
    each.value.machine_type == "controlplane" ? [yamlencode({ cluster = { allowSchedulingOnControlPlanes = true } })] : [],
    each.value.machine_type == "controlplane" && var.password != "" ? [yamlencode({ cluster = { inlineManifests = [{
      name = "database"
      contents = yamlencode({
        apiVersion = "v1"
        kind       = "Secret"
        metadata   = { name = "database", namespace = "default" }
        stringData = { password = var.password }
      })
    }] } })] : [],
  )
  depends_on = [proxmox_virtual_environment_vm.vms]
}

resource "talos_machine_bootstrap" "this" {
  node                 = local.first
  client_configuration = talos_machine_secrets.this.client_configuration
  depends_on           = [talos_machine_configuration_apply.this]
}

data "talos_cluster_health" "this" {
  client_configuration   = talos_machine_secrets.this.client_configuration
  control_plane_nodes    = [for key in keys(local.control) : local.address[key]]
  worker_nodes           = [for key in keys(local.workers) : local.address[key]]
  endpoints              = [for key in keys(local.control) : local.address[key]]
  skip_kubernetes_checks = false
  # Of the configs too: else it looks for a new node before there is one.
  depends_on             = [talos_machine_bootstrap.this, talos_machine_configuration_apply.this]
  timeouts               = { read = "60s" }
}

resource "talos_cluster_kubeconfig" "this" {
  node                 = local.first
  client_configuration = talos_machine_secrets.this.client_configuration
  depends_on           = [talos_machine_bootstrap.this]
}

data "talos_client_configuration" "this" {
  cluster_name         = var.cluster.name
  client_configuration = talos_machine_secrets.this.client_configuration
  endpoints            = [for key in keys(local.control) : local.address[key]]
  nodes                = [local.first]
}

output "kube_config" {
  value     = talos_cluster_kubeconfig.this.kubeconfig_raw
  sensitive = true
}

output "talos_config" {
  value     = data.talos_client_configuration.this.talos_config
  sensitive = true
}

output "addresses" {
  value = local.address
}
