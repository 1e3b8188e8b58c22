data "aws_caller_identity" "current" {}

resource "aws_iam_policy" "plumbline_policy" {
  name        = "PlumblinePolicy-prod-eu"
  description = "plumbline's role in the cluster prod-eu"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "SeeInstancesGone",
        "Effect": "Allow",
        "Action": [
          "ec2:DescribeInstances",
          "ec2:DescribeVolumes",
          "ec2:DescribeNetworkInterfaces",
          "ec2:DescribeLaunchTemplates"
        ],
        "Resource": "*",
        "Condition": {
          "StringEquals": {
            "aws:RequestedRegion": "eu-west-1"
          }
        }
      },
      {
        "Sid": "SeeTerminationProtection",
        "Effect": "Allow",
        "Action": "ec2:DescribeInstanceAttribute",
        "Resource": "arn:aws:ec2:eu-west-1:${data.aws_caller_identity.current.account_id}:instance/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/prod-eu": "owned"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "KnowWhatSelectorsMatch",
        "Effect": "Allow",
        "Action": [
          "ec2:DescribeImages",
          "ec2:DescribeSubnets",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeCapacityReservations",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeInstanceTypeOfferings"
        ],
        "Resource": "*",
        "Condition": {
          "StringEquals": {
            "aws:RequestedRegion": "eu-west-1"
          }
        }
      },
      {
        "Sid": "KnowPublishedAMIs",
        "Effect": "Allow",
        "Action": "ssm:GetParameter",
        "Resource": "arn:aws:ssm:eu-west-1::parameter/aws/service/*"
      },
      {
        "Sid": "SeeInstanceProfilesLeft",
        "Effect": "Allow",
        "Action": "iam:ListInstanceProfiles",
        "Resource": "*"
      },
      {
        "Sid": "KnowTheCluster",
        "Effect": "Allow",
        "Action": "eks:DescribeCluster",
        "Resource": "arn:aws:eks:eu-west-1:${data.aws_caller_identity.current.account_id}:cluster/prod-eu"
      },
      {
        "Sid": "KnowKarpentersAssociation",
        "Effect": "Allow",
        "Action": "eks:ListPodIdentityAssociations",
        "Resource": "arn:aws:eks:eu-west-1:${data.aws_caller_identity.current.account_id}:cluster/prod-eu"
      },
      {
        "Sid": "ReadKarpentersAssociation",
        "Effect": "Allow",
        "Action": "eks:DescribePodIdentityAssociation",
        "Resource": "arn:aws:eks:eu-west-1:${data.aws_caller_identity.current.account_id}:podidentityassociation/prod-eu/*"
      },
      {
        "Sid": "ReadKarpentersRole",
        "Effect": "Allow",
        "Action": [
          "iam:GetRole",
          "iam:ListRolePolicies",
          "iam:GetRolePolicy",
          "iam:ListAttachedRolePolicies"
        ],
        "Resource": "arn:aws:iam::${data.aws_caller_identity.current.account_id}:role/*"
      },
      {
        "Sid": "ReadKarpentersPolicies",
        "Effect": "Allow",
        "Action": [
          "iam:GetPolicy",
          "iam:GetPolicyVersion"
        ],
        "Resource": "arn:aws:iam::*:policy/*"
      },
      {
        "Sid": "KnowTheAccount",
        "Effect": "Allow",
        "Action": "sts:GetCallerIdentity",
        "Resource": "*"
      }
    ]
  })
}
