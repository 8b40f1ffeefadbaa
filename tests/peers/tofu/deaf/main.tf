# VMs without a guest agent, whose memory can be changed: what a change of it needs is a reboot, by the power button.
# The text is our own.

terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
  }
}

variable "endpoint" { type = string }
variable "token" { type = string }
variable "image" { type = string }
variable "memory" { type = number }

provider "proxmox" {
  endpoint  = var.endpoint
  api_token = var.token
  insecure  = true
}

resource "proxmox_virtual_environment_download_file" "image" {
  node_name    = "pve1"
  content_type = "import"
  datastore_id = "local"
  file_name    = "talos.qcow2"
  url          = var.image
}

resource "proxmox_virtual_environment_vm" "node" {
  count           = 2
  node_name       = "pve1"
  vm_id           = 800 + count.index
  name            = "node-${count.index}"
  machine         = "q35"
  scsi_hardware   = "virtio-scsi-single"
  boot_order      = ["scsi0"]
  stop_on_destroy = true

  cpu {
    cores = 2
    type  = "host"
  }
  memory {
    dedicated = var.memory
  }
  operating_system {
    type = "l26"
  }
  network_device {
    bridge = "vmbr0"
  }
  disk {
    interface    = "scsi0"
    datastore_id = "local-lvm"
    import_from  = proxmox_virtual_environment_download_file.image.id
    file_format  = "raw"
    size         = 10
    iothread     = true
    discard      = "on"
  }
  initialization {
    datastore_id = "local-lvm"
    ip_config {
      ipv4 {
        address = "10.0.0.${80 + count.index}/16"
        gateway = "10.0.0.1"
      }
    }
  }
}
