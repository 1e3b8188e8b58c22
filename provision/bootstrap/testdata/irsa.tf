# What Karpenter 1.15.0 and plumbline need in AWS for the cluster production.

module "karpenter" {
  source  = "terraform-aws-modules/eks/aws//modules/karpenter"
  version = "~> 21.0"

  cluster_name                  = "production"
  node_iam_role_name            = "KarpenterNodeRole-production"
  node_iam_role_use_name_prefix = false
  node_iam_role_additional_policies = {
    ssm = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
  }
  create_instance_profile = true
  create_access_entry     = false
  queue_name              = "production"

  # The policies of the controller are below: those of Karpenter 1.15.0.
  create_iam_role                 = false
  create_pod_identity_association = false
}

data "aws_caller_identity" "current" {}

resource "aws_iam_policy" "karpenter_controller_policy" {
  name        = "KarpenterControllerPolicy-production"
  description = "Karpenter's controller: all permissions in the cluster production"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "LaunchWith",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet"
        ],
        "Resource": [
          "arn:aws:ec2:eu-west-1::image/*",
          "arn:aws:ec2:eu-west-1::snapshot/*",
          "arn:aws:ec2:eu-west-1:*:security-group/*",
          "arn:aws:ec2:eu-west-1:*:subnet/*",
          "arn:aws:ec2:eu-west-1:*:capacity-reservation/*",
          "arn:aws:ec2:eu-west-1:*:placement-group/*"
        ]
      },
      {
        "Sid": "LaunchFromTemplates",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet"
        ],
        "Resource": "arn:aws:ec2:eu-west-1:*:launch-template/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/production": "owned"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "LaunchWithTags",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet",
          "ec2:CreateLaunchTemplate"
        ],
        "Resource": [
          "arn:aws:ec2:eu-west-1:*:fleet/*",
          "arn:aws:ec2:eu-west-1:*:instance/*",
          "arn:aws:ec2:eu-west-1:*:volume/*",
          "arn:aws:ec2:eu-west-1:*:network-interface/*",
          "arn:aws:ec2:eu-west-1:*:launch-template/*",
          "arn:aws:ec2:eu-west-1:*:spot-instances-request/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "production",
            "aws:RequestTag/kubernetes.io/cluster/production": "owned"
          },
          "StringLike": {
            "aws:RequestTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "TagAtCreation",
        "Effect": "Allow",
        "Action": "ec2:CreateTags",
        "Resource": [
          "arn:aws:ec2:eu-west-1:*:fleet/*",
          "arn:aws:ec2:eu-west-1:*:instance/*",
          "arn:aws:ec2:eu-west-1:*:volume/*",
          "arn:aws:ec2:eu-west-1:*:network-interface/*",
          "arn:aws:ec2:eu-west-1:*:launch-template/*",
          "arn:aws:ec2:eu-west-1:*:spot-instances-request/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "production",
            "aws:RequestTag/kubernetes.io/cluster/production": "owned",
            "ec2:CreateAction": [
              "RunInstances",
              "CreateFleet",
              "CreateLaunchTemplate"
            ]
          },
          "StringLike": {
            "aws:RequestTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "TagInstances",
        "Effect": "Allow",
        "Action": "ec2:CreateTags",
        "Resource": "arn:aws:ec2:eu-west-1:*:instance/*",
        "Condition": {
          "ForAllValues:StringEquals": {
            "aws:TagKeys": [
              "eks:eks-cluster-name",
              "karpenter.sh/nodeclaim",
              "Name"
            ]
          },
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/production": "owned"
          },
          "StringEqualsIfExists": {
            "aws:RequestTag/eks:eks-cluster-name": "production"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "Terminate",
        "Effect": "Allow",
        "Action": [
          "ec2:TerminateInstances",
          "ec2:RebootInstances",
          "ec2:DeleteLaunchTemplate"
        ],
        "Resource": [
          "arn:aws:ec2:eu-west-1:*:instance/*",
          "arn:aws:ec2:eu-west-1:*:launch-template/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/production": "owned"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "PassNodeRole",
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": "arn:aws:iam::${data.aws_caller_identity.current.account_id}:role/KarpenterNodeRole-production",
        "Condition": {
          "StringEquals": {
            "iam:PassedToService": "ec2.amazonaws.com"
          }
        }
      },
      {
        "Sid": "CreateProfiles",
        "Effect": "Allow",
        "Action": "iam:CreateInstanceProfile",
        "Resource": "arn:aws:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "production",
            "aws:RequestTag/kubernetes.io/cluster/production": "owned",
            "aws:RequestTag/topology.kubernetes.io/region": "eu-west-1"
          },
          "StringLike": {
            "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*"
          }
        }
      },
      {
        "Sid": "TagProfiles",
        "Effect": "Allow",
        "Action": "iam:TagInstanceProfile",
        "Resource": "arn:aws:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "production",
            "aws:RequestTag/kubernetes.io/cluster/production": "owned",
            "aws:RequestTag/topology.kubernetes.io/region": "eu-west-1",
            "aws:ResourceTag/kubernetes.io/cluster/production": "owned",
            "aws:ResourceTag/topology.kubernetes.io/region": "eu-west-1"
          },
          "StringLike": {
            "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*",
            "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"
          }
        }
      },
      {
        "Sid": "ChangeProfiles",
        "Effect": "Allow",
        "Action": [
          "iam:AddRoleToInstanceProfile",
          "iam:RemoveRoleFromInstanceProfile",
          "iam:DeleteInstanceProfile"
        ],
        "Resource": "arn:aws:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/production": "owned",
            "aws:ResourceTag/topology.kubernetes.io/region": "eu-west-1"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"
          }
        }
      },
      {
        "Sid": "DescribeCluster",
        "Effect": "Allow",
        "Action": "eks:DescribeCluster",
        "Resource": "arn:aws:eks:eu-west-1:${data.aws_caller_identity.current.account_id}:cluster/production"
      },
      {
        "Sid": "ReadInterruptions",
        "Effect": "Allow",
        "Action": [
          "sqs:DeleteMessage",
          "sqs:GetQueueUrl",
          "sqs:ReceiveMessage"
        ],
        "Resource": "arn:aws:sqs:eu-west-1:${data.aws_caller_identity.current.account_id}:production"
      },
      {
        "Sid": "ReadZonalShift",
        "Effect": "Allow",
        "Action": "arc-zonal-shift:GetManagedResource",
        "Resource": "*",
        "Condition": {
          "StringEquals": {
            "arc-zonal-shift:ResourceIdentifier": "arn:aws:eks:eu-west-1:${data.aws_caller_identity.current.account_id}:cluster/production"
          }
        }
      },
      {
        "Sid": "ReadEC2",
        "Effect": "Allow",
        "Action": [
          "ec2:DescribeCapacityReservations",
          "ec2:DescribeImages",
          "ec2:DescribeInstances",
          "ec2:DescribeInstanceStatus",
          "ec2:DescribeInstanceTypeOfferings",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeLaunchTemplates",
          "ec2:DescribePlacementGroups",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeSpotPriceHistory",
          "ec2:DescribeSubnets"
        ],
        "Resource": "*",
        "Condition": {
          "StringEquals": {
            "aws:RequestedRegion": "eu-west-1"
          }
        }
      },
      {
        "Sid": "ReadImageParameters",
        "Effect": "Allow",
        "Action": "ssm:GetParameter",
        "Resource": "arn:aws:ssm:eu-west-1::parameter/aws/service/*"
      },
      {
        "Sid": "ReadPrices",
        "Effect": "Allow",
        "Action": "pricing:GetProducts",
        "Resource": "*"
      },
      {
        "Sid": "ReadProfiles",
        "Effect": "Allow",
        "Action": "iam:GetInstanceProfile",
        "Resource": "arn:aws:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*"
      },
      {
        "Sid": "ListProfiles",
        "Effect": "Allow",
        "Action": "iam:ListInstanceProfiles",
        "Resource": "*"
      }
    ]
  })
}

resource "aws_iam_policy" "plumbline_policy" {
  name        = "PlumblinePolicy-production"
  description = "plumbline's role in the cluster production"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "KnowTheCluster",
        "Effect": "Allow",
        "Action": "eks:DescribeCluster",
        "Resource": "arn:aws:eks:eu-west-1:${data.aws_caller_identity.current.account_id}:cluster/production"
      }
    ]
  })
}

resource "aws_iam_role" "karpenter" {
  name               = "KarpenterControllerRole-production"
  assume_role_policy = jsonencode({
    "Statement": [
      {
        "Action": [
          "sts:AssumeRoleWithWebIdentity"
        ],
        "Condition": {
          "StringEquals": {
            "oidc.eks.eu-west-1.amazonaws.com/id/ABC:aud": "sts.amazonaws.com",
            "oidc.eks.eu-west-1.amazonaws.com/id/ABC:sub": "system:serviceaccount:kube-system:karpenter"
          }
        },
        "Effect": "Allow",
        "Principal": {
          "Federated": "arn:aws:iam::${data.aws_caller_identity.current.account_id}:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC"
        }
      }
    ],
    "Version": "2012-10-17"
  })
}

resource "aws_iam_role_policy_attachment" "karpenter_controller_policy" {
  role       = aws_iam_role.karpenter.name
  policy_arn = aws_iam_policy.karpenter_controller_policy.arn
}

resource "aws_iam_role" "plumbline" {
  name               = "plumbline-production"
  assume_role_policy = jsonencode({
    "Statement": [
      {
        "Action": [
          "sts:AssumeRoleWithWebIdentity"
        ],
        "Condition": {
          "StringEquals": {
            "oidc.eks.eu-west-1.amazonaws.com/id/ABC:aud": "sts.amazonaws.com",
            "oidc.eks.eu-west-1.amazonaws.com/id/ABC:sub": "system:serviceaccount:plumbline-system:plumbline"
          }
        },
        "Effect": "Allow",
        "Principal": {
          "Federated": "arn:aws:iam::${data.aws_caller_identity.current.account_id}:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC"
        }
      }
    ],
    "Version": "2012-10-17"
  })
}

resource "aws_iam_role_policy_attachment" "plumbline_policy" {
  role       = aws_iam_role.plumbline.name
  policy_arn = aws_iam_policy.plumbline_policy.arn
}
