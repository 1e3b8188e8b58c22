# Karpenter as two Helm releases that must be kept in sync by hand: the CRDs first,
# one version for both, and without the main chart's own copy of the CRDs.

locals {
  karpenter_version = "1.15.0"
}

resource "helm_release" "karpenter_crd" {
  namespace  = "kube-system"
  name       = "karpenter-crd"
  repository = var.karpenter_repository
  chart      = "karpenter-crd"
  version    = local.karpenter_version
}

resource "helm_release" "karpenter" {
  namespace  = "kube-system"
  name       = "karpenter"
  repository = var.karpenter_repository
  chart      = "karpenter"
  version    = local.karpenter_version
  skip_crds  = true
  wait       = false

  values = [yamlencode({
    dnsPolicy = "Default"
    settings = {
      clusterName       = var.cluster_name
      clusterEndpoint   = var.cluster_endpoint
      interruptionQueue = var.queue_name
    }
  })]

  depends_on = [helm_release.karpenter_crd]
}
