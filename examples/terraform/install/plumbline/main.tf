# plumbline in the cluster, by kubectl, as its README says.

variable "kubeconfig" {
  type        = string
  description = "A kubeconfig of the cluster's administrator."
}

variable "manifests" {
  type        = string
  description = "Folder for kubectl apply -k."
}

variable "repository" {
  type        = string
  description = "URL of the Git repository."
}

variable "path" {
  type        = string
  description = "Folder of plumbline.yaml in the repository."
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

  # Drain, not the default Orphan: terraform destroy must leave no node behind.
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

# It is applied again if the image or tag in the overlay changes.
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

# A separate resource that nothing replaces: a changed NodeSync is applied, and only
# terraform destroy drains nodes.
resource "terraform_data" "drained" {
  input = { KUBECONFIG = local.kubeconfig, CLUSTER = var.cluster_name, REGION = var.region }

  provisioner "local-exec" {
    when        = destroy
    command     = "plumbline teardown prod -n plumbline-system --yes --timeout 1h --cluster \"$CLUSTER\" --region \"$REGION\""
    environment = self.output
  }

  depends_on = [terraform_data.nodesync]
}
