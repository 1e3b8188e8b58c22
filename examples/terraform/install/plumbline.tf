# plumbline's role only reads EC2.

data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

data "aws_region" "this" {}

resource "aws_iam_role" "plumbline" {
  name = "plumbline-${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy" "plumbline" {
  name = "plumbline"
  role = aws_iam_role.plumbline.name
  policy = templatefile("${path.module}/../../../manifests/iam-policy.json", {
    PARTITION    = data.aws_partition.this.partition
    REGION       = data.aws_region.this.region
    ACCOUNT      = data.aws_caller_identity.this.account_id
    CLUSTER_NAME = var.cluster_name
  })
}

resource "aws_eks_pod_identity_association" "plumbline" {
  cluster_name    = var.cluster_name
  namespace       = "plumbline-system"
  service_account = "plumbline"
  role_arn        = aws_iam_role.plumbline.arn
}

module "plumbline" {
  source = "./plumbline"

  kubeconfig   = var.kubeconfig
  manifests    = "${path.module}/manifests"
  repository   = var.repository
  path         = var.path
  cluster_name = var.cluster_name
  region       = data.aws_region.this.region

  # terraform destroy removes the nodes first, while both controllers have their roles.
  depends_on = [
    module.karpenter,
    aws_iam_role_policy.plumbline,
    aws_eks_pod_identity_association.plumbline,
  ]
}
