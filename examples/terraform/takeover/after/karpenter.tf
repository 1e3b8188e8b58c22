# In the place of the two helm_release blocks. Terraform forgets both releases and
# touches neither. Without a removed block, or without destroy = false, it would
# uninstall them, and with the CRDs every node would go.

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
