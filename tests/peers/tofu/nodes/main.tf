# Machines that are there already: the talos provider alone, from maintenance mode to etcd's members and access, workers, and the
# way back to maintenance mode.
# (Its health resource asks for Kubernetes' own components even where their checks are skipped: in container mode they do not run.)

terraform {
  required_providers {
    talos = { source = "siderolabs/talos" }
  }
}

variable "cluster" {
  type = object({ name = string, talos_version = string, kubernetes_version = string, endpoint = string })
}

variable "control_planes" {
  type = map(string) # name: address
}

variable "workers" {
  type    = map(string)
  default = {}
}

# For every machine, and for those of the control plane.
variable "patches" {
  type    = list(string)
  default = []
}

variable "control_plane_patches" {
  type    = list(string)
  default = []
}

locals {
  addresses = values(var.control_planes)
  machines  = merge({ for name, address in var.control_planes : name => { address = address, role = "controlplane" } },
                    { for name, address in var.workers : name => { address = address, role = "worker" } })
}

resource "talos_machine_secrets" "this" {
  talos_version = var.cluster.talos_version
}

data "talos_machine_configuration" "this" {
  for_each           = toset(["controlplane", "worker"])
  machine_type       = each.key
  cluster_name       = var.cluster.name
  cluster_endpoint   = var.cluster.endpoint
  talos_version      = var.cluster.talos_version
  kubernetes_version = var.cluster.kubernetes_version
  machine_secrets    = talos_machine_secrets.this.machine_secrets
  config_patches     = concat(var.patches, each.key == "controlplane" ? var.control_plane_patches : [])
}

resource "talos_machine_configuration_apply" "this" {
  for_each                    = local.machines
  node                        = each.value.address
  client_configuration        = talos_machine_secrets.this.client_configuration
  machine_configuration_input = data.talos_machine_configuration.this[each.value.role].machine_configuration
  config_patches              = [yamlencode({ machine = { network = { hostname = each.key } } })]
  on_destroy                  = { graceful = false, reset = true, reboot = false }
}

resource "talos_machine_bootstrap" "this" {
  node                 = local.addresses[0]
  client_configuration = talos_machine_secrets.this.client_configuration
  depends_on           = [talos_machine_configuration_apply.this]
}

resource "talos_cluster_kubeconfig" "this" {
  node                 = local.addresses[0]
  client_configuration = talos_machine_secrets.this.client_configuration
  depends_on           = [talos_machine_bootstrap.this]
}

data "talos_client_configuration" "this" {
  cluster_name         = var.cluster.name
  client_configuration = talos_machine_secrets.this.client_configuration
  endpoints            = local.addresses
}

output "kube_config" {
  value     = talos_cluster_kubeconfig.this.kubeconfig_raw
  sensitive = true
}

output "talos_config" {
  value     = data.talos_client_configuration.this.talos_config
  sensitive = true
}
