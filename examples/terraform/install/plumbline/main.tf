# plumbline in the cluster, by kubectl, as its README says.

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

variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster."
}

variable "region" {
  type        = string
  description = "Region of the cluster."
}

locals {
  kubeconfig = pathexpand(var.kubeconfig)

  # Drain, not the default Orphan: terraform destroy is to leave no node behind.
  nodesync = jsonencode({
    apiVersion = "plumbline.dev/v1alpha1"
    kind       = "NodeSync"
    metadata   = { name = "prod", namespace = "plumbline-system" }
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
  input = { KUBECONFIG = local.kubeconfig, CLUSTER = var.cluster_name, REGION = var.region }

  provisioner "local-exec" {
    when        = destroy
    command     = "plumbline teardown prod -n plumbline-system --yes --timeout 1h --cluster \"$CLUSTER\" --region \"$REGION\""
    environment = self.output
  }

  depends_on = [terraform_data.nodesync]
}
