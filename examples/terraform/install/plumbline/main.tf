# plumbline in the cluster, by kubectl, as its README says: it has no Helm chart.

variable "kubeconfig" {
  type        = string
  description = "A kubeconfig of the cluster's administrator."
}

variable "manifests" {
  type        = string
  description = "The folder for kubectl apply -k."
}

variable "repository" {
  type        = string
  description = "URL of the Git repository."
}

variable "path" {
  type        = string
  description = "The folder of plumbline.yaml in it."
}

locals {
  kubeconfig = pathexpand(var.kubeconfig)

  # Drain, not the default Orphan: terraform destroy is to leave no node behind.
  nodesync = jsonencode({
    apiVersion = "plumbline.dev/v1alpha1"
    kind       = "NodeSync"
    metadata   = { name = "nodes", namespace = "plumbline-system" }
    spec = {
      source   = { git = { url = var.repository } }
      path     = var.path
      onDelete = "Drain"
    }
  })
}

# Another image or tag in the overlay has it applied again.
resource "terraform_data" "manifests" {
  triggers_replace = [for file in sort(fileset(var.manifests, "**")) : filesha256("${var.manifests}/${file}")]

  provisioner "local-exec" {
    command     = "kubectl apply -k \"$MANIFESTS\""
    environment = { KUBECONFIG = local.kubeconfig, MANIFESTS = var.manifests }
  }
}

resource "terraform_data" "nodesync" {
  triggers_replace = [local.nodesync]

  provisioner "local-exec" {
    command     = "printf %s \"$NODESYNC\" | kubectl apply -f -"
    environment = { KUBECONFIG = local.kubeconfig, NODESYNC = local.nodesync }
  }

  depends_on = [terraform_data.manifests]
}

# On its own, with nothing that replaces it: a NodeSync that changes is applied,
# and only terraform destroy drains.
resource "terraform_data" "drained" {
  input = local.kubeconfig

  provisioner "local-exec" {
    when        = destroy
    command     = "kubectl -n plumbline-system delete nodesync nodes --ignore-not-found --timeout=1h"
    environment = { KUBECONFIG = self.input }
  }

  depends_on = [terraform_data.nodesync]
}
