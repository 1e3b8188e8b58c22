# The cluster is yours, and stands: terraform-aws-modules/eks/aws or any other,
# with the add-on eks-pod-identity-agent and a managed node group for what
# Karpenter's own nodes must not carry, Karpenter first of all.

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
  description = "The folder of plumbline.yaml in it."
  default     = "./"
}
