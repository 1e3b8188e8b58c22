# These blocks replace the two helm_release blocks. Terraform removes both releases from its
# state and changes neither. Without a removed block, or without destroy = false, it would
# uninstall them, and deleting the CRDs would delete every node.

removed {
  from = helm_release.karpenter

  lifecycle {
    destroy = false
  }
}

removed {
  from = helm_release.karpenter_crd

  lifecycle {
    destroy = false
  }
}
