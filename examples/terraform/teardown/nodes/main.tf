# terraform destroy calls plumbline before it destroys anything else. It continues only when no node is left in
# AWS; otherwise it keeps the rest.

variable "kubeconfig" {
  type        = string
  description = "A kubeconfig of the cluster's administrator."
}

variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster."
}

variable "region" {
  type        = string
  description = "Region of the cluster."
}

variable "nodesync" {
  type        = string
  description = "Name of the NodeSync."
  default     = "nodes"
}

variable "namespace" {
  type        = string
  description = "Namespace of the NodeSync."
  default     = "plumbline-system"
}

variable "down_to" {
  type        = string
  description = "How far: definitions, controller or crds, see `plumbline teardown --help`. Not nodes: the definitions would stay, and their deletion would hang without Karpenter."
  default     = "definitions"

  validation {
    condition     = contains(["definitions", "controller", "crds"], var.down_to)
    error_message = "down_to must be definitions, controller or crds."
  }
}

# Nothing replaces it: a changed input is only recorded, and only terraform destroy drains nodes.
resource "terraform_data" "teardown" {
  input = {
    KUBECONFIG = pathexpand(var.kubeconfig)
    NODESYNC   = var.nodesync
    NAMESPACE  = var.namespace
    CLUSTER    = var.cluster_name
    REGION     = var.region
    DOWN_TO    = var.down_to
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "plumbline teardown \"$NODESYNC\" -n \"$NAMESPACE\" --yes --timeout 1h --cluster \"$CLUSTER\" --region \"$REGION\" --down-to \"$DOWN_TO\""
    environment = self.output
  }
}
