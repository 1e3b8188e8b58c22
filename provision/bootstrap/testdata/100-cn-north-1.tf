# What Karpenter 1.15.0 and plumbline need in AWS for the cluster platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-.

module "karpenter" {
  source  = "terraform-aws-modules/eks/aws//modules/karpenter"
  version = "~> 21.0"

  cluster_name                  = "platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  node_iam_role_name            = "KarpenterNodeRole-platform_-platform_-platform_-platf-1eadf5798b"
  node_iam_role_use_name_prefix = false
  node_iam_role_additional_policies = {
    ssm = "arn:aws-cn:iam::aws:policy/AmazonSSMManagedInstanceCore"
  }
  create_instance_profile = true
  create_access_entry     = true
  queue_name              = "platform_-platform_-platform_-platform_-platform_-platform_-platform_-1eadf5798b"

  # The policies of the controller are below: those of Karpenter 1.15.0.
  create_iam_role                 = false
  create_pod_identity_association = false
}

data "aws_caller_identity" "current" {}

resource "aws_iam_policy" "karpenter_controller_node_lifecycle_policy" {
  name        = "KarpenterControllerNodeLifecyclePolicy-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform-1eadf5798b"
  description = "Karpenter's controller: launch, tag and terminate instances in the cluster platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
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
          "arn:aws-cn:ec2:cn-north-1::image/*",
          "arn:aws-cn:ec2:cn-north-1::snapshot/*",
          "arn:aws-cn:ec2:cn-north-1:*:security-group/*",
          "arn:aws-cn:ec2:cn-north-1:*:subnet/*",
          "arn:aws-cn:ec2:cn-north-1:*:capacity-reservation/*",
          "arn:aws-cn:ec2:cn-north-1:*:placement-group/*"
        ]
      },
      {
        "Sid": "LaunchFromTemplates",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet"
        ],
        "Resource": "arn:aws-cn:ec2:cn-north-1:*:launch-template/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned"
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
          "arn:aws-cn:ec2:cn-north-1:*:fleet/*",
          "arn:aws-cn:ec2:cn-north-1:*:instance/*",
          "arn:aws-cn:ec2:cn-north-1:*:volume/*",
          "arn:aws-cn:ec2:cn-north-1:*:network-interface/*",
          "arn:aws-cn:ec2:cn-north-1:*:launch-template/*",
          "arn:aws-cn:ec2:cn-north-1:*:spot-instances-request/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-",
            "aws:RequestTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned"
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
          "arn:aws-cn:ec2:cn-north-1:*:fleet/*",
          "arn:aws-cn:ec2:cn-north-1:*:instance/*",
          "arn:aws-cn:ec2:cn-north-1:*:volume/*",
          "arn:aws-cn:ec2:cn-north-1:*:network-interface/*",
          "arn:aws-cn:ec2:cn-north-1:*:launch-template/*",
          "arn:aws-cn:ec2:cn-north-1:*:spot-instances-request/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-",
            "aws:RequestTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned",
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
        "Resource": "arn:aws-cn:ec2:cn-north-1:*:instance/*",
        "Condition": {
          "ForAllValues:StringEquals": {
            "aws:TagKeys": [
              "eks:eks-cluster-name",
              "karpenter.sh/nodeclaim",
              "Name"
            ]
          },
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned"
          },
          "StringEqualsIfExists": {
            "aws:RequestTag/eks:eks-cluster-name": "platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
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
          "arn:aws-cn:ec2:cn-north-1:*:instance/*",
          "arn:aws-cn:ec2:cn-north-1:*:launch-template/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          }
        }
      }
    ]
  })
}

resource "aws_iam_policy" "karpenter_controller_iam_integration_policy" {
  name        = "KarpenterControllerIAMIntegrationPolicy-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platfor-1eadf5798b"
  description = "Karpenter's controller: instance profiles, and the role of nodes in the cluster platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "PassNodeRole",
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": "arn:aws-cn:iam::${data.aws_caller_identity.current.account_id}:role/KarpenterNodeRole-platform_-platform_-platform_-platf-1eadf5798b",
        "Condition": {
          "StringEquals": {
            "iam:PassedToService": [
              "ec2.amazonaws.com",
              "ec2.amazonaws.com.cn"
            ]
          }
        }
      },
      {
        "Sid": "CreateProfiles",
        "Effect": "Allow",
        "Action": "iam:CreateInstanceProfile",
        "Resource": "arn:aws-cn:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-",
            "aws:RequestTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned",
            "aws:RequestTag/topology.kubernetes.io/region": "cn-north-1"
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
        "Resource": "arn:aws-cn:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-",
            "aws:RequestTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned",
            "aws:RequestTag/topology.kubernetes.io/region": "cn-north-1",
            "aws:ResourceTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned",
            "aws:ResourceTag/topology.kubernetes.io/region": "cn-north-1"
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
        "Resource": "arn:aws-cn:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-": "owned",
            "aws:ResourceTag/topology.kubernetes.io/region": "cn-north-1"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"
          }
        }
      }
    ]
  })
}

resource "aws_iam_policy" "karpenter_controller_eks_integration_policy" {
  name        = "KarpenterControllerEKSIntegrationPolicy-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platfor-1eadf5798b"
  description = "Karpenter's controller: describe the cluster in the cluster platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "DescribeCluster",
        "Effect": "Allow",
        "Action": "eks:DescribeCluster",
        "Resource": "arn:aws-cn:eks:cn-north-1:${data.aws_caller_identity.current.account_id}:cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
      }
    ]
  })
}

resource "aws_iam_policy" "karpenter_controller_interruption_policy" {
  name        = "KarpenterControllerInterruptionPolicy-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-1eadf5798b"
  description = "Karpenter's controller: the interruption queue in the cluster platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "ReadInterruptions",
        "Effect": "Allow",
        "Action": [
          "sqs:DeleteMessage",
          "sqs:GetQueueUrl",
          "sqs:ReceiveMessage"
        ],
        "Resource": "arn:aws-cn:sqs:cn-north-1:${data.aws_caller_identity.current.account_id}:platform_-platform_-platform_-platform_-platform_-platform_-platform_-1eadf5798b"
      }
    ]
  })
}

resource "aws_iam_policy" "karpenter_controller_zonal_shift_policy" {
  name        = "KarpenterControllerZonalShiftPolicy-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-p-1eadf5798b"
  description = "Karpenter's controller: zonal shifts of the cluster in the cluster platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "ReadZonalShift",
        "Effect": "Allow",
        "Action": "arc-zonal-shift:GetManagedResource",
        "Resource": "*",
        "Condition": {
          "StringEquals": {
            "arc-zonal-shift:ResourceIdentifier": "arn:aws-cn:eks:cn-north-1:${data.aws_caller_identity.current.account_id}:cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
          }
        }
      }
    ]
  })
}

resource "aws_iam_policy" "karpenter_controller_resource_discovery_policy" {
  name        = "KarpenterControllerResourceDiscoveryPolicy-platform_-platform_-platform_-platform_-platform_-platform_-platform_-plat-1eadf5798b"
  description = "Karpenter's controller: images, types, prices, networks in the cluster platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
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
            "aws:RequestedRegion": "cn-north-1"
          }
        }
      },
      {
        "Sid": "ReadImageParameters",
        "Effect": "Allow",
        "Action": "ssm:GetParameter",
        "Resource": "arn:aws-cn:ssm:cn-north-1::parameter/aws/service/*"
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
        "Resource": "arn:aws-cn:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*"
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
  name        = "PlumblinePolicy-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  description = "plumbline's role in the cluster platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  policy = jsonencode({
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "KnowTheCluster",
        "Effect": "Allow",
        "Action": "eks:DescribeCluster",
        "Resource": "arn:aws-cn:eks:cn-north-1:${data.aws_caller_identity.current.account_id}:cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
      }
    ]
  })
}

resource "aws_iam_role" "karpenter" {
  name               = "KarpenterControllerRole-platform_-platform_-platform_-1eadf5798b"
  assume_role_policy = jsonencode({
    "Statement": [
      {
        "Action": [
          "sts:AssumeRole",
          "sts:TagSession"
        ],
        "Condition": {
          "ArnEquals": {
            "aws:SourceArn": "arn:aws-cn:eks:cn-north-1:${data.aws_caller_identity.current.account_id}:cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
          },
          "StringEquals": {
            "aws:SourceAccount": "${data.aws_caller_identity.current.account_id}"
          }
        },
        "Effect": "Allow",
        "Principal": {
          "Service": "pods.eks.amazonaws.com"
        }
      }
    ],
    "Version": "2012-10-17"
  })
}

resource "aws_iam_role_policy_attachment" "karpenter_controller_node_lifecycle_policy" {
  role       = aws_iam_role.karpenter.name
  policy_arn = aws_iam_policy.karpenter_controller_node_lifecycle_policy.arn
}

resource "aws_iam_role_policy_attachment" "karpenter_controller_iam_integration_policy" {
  role       = aws_iam_role.karpenter.name
  policy_arn = aws_iam_policy.karpenter_controller_iam_integration_policy.arn
}

resource "aws_iam_role_policy_attachment" "karpenter_controller_eks_integration_policy" {
  role       = aws_iam_role.karpenter.name
  policy_arn = aws_iam_policy.karpenter_controller_eks_integration_policy.arn
}

resource "aws_iam_role_policy_attachment" "karpenter_controller_interruption_policy" {
  role       = aws_iam_role.karpenter.name
  policy_arn = aws_iam_policy.karpenter_controller_interruption_policy.arn
}

resource "aws_iam_role_policy_attachment" "karpenter_controller_zonal_shift_policy" {
  role       = aws_iam_role.karpenter.name
  policy_arn = aws_iam_policy.karpenter_controller_zonal_shift_policy.arn
}

resource "aws_iam_role_policy_attachment" "karpenter_controller_resource_discovery_policy" {
  role       = aws_iam_role.karpenter.name
  policy_arn = aws_iam_policy.karpenter_controller_resource_discovery_policy.arn
}

resource "aws_eks_pod_identity_association" "karpenter" {
  cluster_name    = "platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  namespace       = "kube-system"
  service_account = "karpenter"
  role_arn        = aws_iam_role.karpenter.arn
}

resource "aws_iam_role" "plumbline" {
  name               = "plumbline-platform_-platform_-platform_-platform_-pla-1eadf5798b"
  assume_role_policy = jsonencode({
    "Statement": [
      {
        "Action": [
          "sts:AssumeRole",
          "sts:TagSession"
        ],
        "Condition": {
          "ArnEquals": {
            "aws:SourceArn": "arn:aws-cn:eks:cn-north-1:${data.aws_caller_identity.current.account_id}:cluster/platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
          },
          "StringEquals": {
            "aws:SourceAccount": "${data.aws_caller_identity.current.account_id}"
          }
        },
        "Effect": "Allow",
        "Principal": {
          "Service": "pods.eks.amazonaws.com"
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

resource "aws_eks_pod_identity_association" "plumbline" {
  cluster_name    = "platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-platform_-"
  namespace       = "plumbline-system"
  service_account = "plumbline"
  role_arn        = aws_iam_role.plumbline.arn
}
