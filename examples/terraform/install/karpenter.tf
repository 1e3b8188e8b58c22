# What Karpenter needs in AWS: roles for the controller and for its nodes, and the
# queue of spot interruptions. plumbline installs the charts, not Terraform.

module "karpenter" {
  source  = "terraform-aws-modules/eks/aws//modules/karpenter"
  version = "~> 21.0"

  cluster_name                    = var.cluster_name
  namespace                       = "kube-system"
  create_pod_identity_association = true
  node_iam_role_name              = "KarpenterNodeRole-${var.cluster_name}"
  node_iam_role_use_name_prefix   = false
}
