# The cluster exists already, from terraform-aws-modules/eks/aws or any other module. It has
# the add-on eks-pod-identity-agent, and a managed node group for pods that must not run on
# Karpenter's nodes, above all Karpenter itself.

variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster: module.eks.cluster_name."
}

variable "kubeconfig" {
  type        = string
  description = "A kubeconfig of the cluster's administrator, as `aws eks update-kubeconfig` writes it."
  default     = "~/.kube/config"
}

variable "repository" {
  type        = string
  description = "URL of the Git repository that has plumbline.yaml and the definitions."
}

variable "path" {
  type        = string
  description = "Folder of plumbline.yaml in the repository."
  default     = "./"
}
