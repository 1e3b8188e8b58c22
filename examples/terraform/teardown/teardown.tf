# Beside the modules and releases that you have: names of yours go into depends_on. What stands there goes after
# the nodes, whatever else depends on what.

module "teardown" {
  source = "./nodes"

  kubeconfig   = "~/.kube/config"
  cluster_name = module.eks.cluster_name
  region       = "eu-west-1"

  depends_on = [
    helm_release.karpenter,     # the controller ends the instances
    helm_release.karpenter_crd, # with the CRDs every node would go
    module.karpenter,           # its roles, and that of the nodes
    module.eks,                 # the API server, and the nodes that Karpenter runs on
    module.vpc,                 # the subnets and the way to AWS
  ]
}
