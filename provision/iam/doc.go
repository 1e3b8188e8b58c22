// Package iam judges IAM policies by what they allow, and generates those of Karpenter's controller.
//
// Evaluate answers whether policies allow an action on a resource with tags: Allowed, Denied, or Unknown with a reason.
// It supports what the policies of Karpenter's getting-started guide, eksctl, terraform-aws-eks and
// eks-blueprints-addons contain; anything else is Unknown, never a guess. Controller returns the policies that a version
// of Karpenter needs in one cluster, and Judge what a role's policies lack, or allow beyond the cluster.
//
// Everything here is a function of values: it calls no AWS API. Only policies of the identity are evaluated: permissions
// boundaries, service control policies and the policies of resources can deny what they allow.
package iam
