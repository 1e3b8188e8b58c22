// Package iam judges IAM policies by what they allow, and generates those of Karpenter's controller.
//
// Evaluate answers whether policies allow an action on a resource with tags: Allowed, Denied, or Unknown with a reason.
// It supports what the policies of Karpenter's getting-started guide, eksctl, terraform-aws-eks and
// eks-blueprints-addons contain; anything else is Unknown, never a guess. Controller returns the policies that a version
// of Karpenter needs in one cluster, and Judge what a role's policies lack, or allow beyond the cluster. JudgeSimulated
// compares that with the answers of AWS's own evaluator.
//
// Everything here is a function of values: it calls no AWS API. The policies of a role are evaluated within limits, such as
// its permissions boundary. Of resources, only the policies of KMS keys (VolumeKey), trust policies and those of queues
// (Trusts) are evaluated. Service control policies can deny what all of them allow.
package iam
