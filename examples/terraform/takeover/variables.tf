# The outputs of terraform-aws-modules/eks/aws and of its karpenter module.

variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster: module.eks.cluster_name."
}

variable "cluster_endpoint" {
  type        = string
  description = "URL of its API server: module.eks.cluster_endpoint."
}

variable "cluster_certificate_authority_data" {
  type        = string
  description = "Its CA, in base64: module.eks.cluster_certificate_authority_data."
}

variable "queue_name" {
  type        = string
  description = "The queue of spot interruptions: module.karpenter.queue_name."
}

variable "karpenter_repository" {
  type        = string
  description = "Repository of both charts."
  default     = "oci://public.ecr.aws/karpenter"
}
