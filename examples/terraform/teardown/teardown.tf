# Add this to your modules and releases, and list them in depends_on: Terraform destroys what is listed there after
# the nodes, whatever the other dependencies are.

module "teardown" {
  source = "./nodes"

  kubeconfig   = "~/.kube/config"
  cluster_name = module.eks.cluster_name
  region       = "eu-west-1"

  depends_on = [
    helm_release.karpenter,     # the controller terminates the instances
    helm_release.karpenter_crd, # deleting the CRDs would delete every node
    module.karpenter,           # its roles, and that of the nodes
    module.eks,                 # the API server, and the nodes that Karpenter runs on
    module.vpc,                 # the subnets, and the connection to AWS
  ]
}
