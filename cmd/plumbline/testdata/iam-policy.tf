data "aws_caller_identity" "current" {}

resource "aws_iam_policy" "karpenter_controller_policy" {
  name        = "KarpenterControllerPolicy-prod-eu"
  description = "Karpenter's controller: all permissions in the cluster prod-eu"
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
          "arn:aws-us-gov:ec2:us-gov-west-1::image/*",
          "arn:aws-us-gov:ec2:us-gov-west-1::snapshot/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:security-group/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:subnet/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:capacity-reservation/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:placement-group/*"
        ]
      },
      {
        "Sid": "LaunchFromTemplates",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet"
        ],
        "Resource": "arn:aws-us-gov:ec2:us-gov-west-1:*:launch-template/*",
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
        "Sid": "LaunchWithTags",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet",
          "ec2:CreateLaunchTemplate"
        ],
        "Resource": [
          "arn:aws-us-gov:ec2:us-gov-west-1:*:fleet/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:instance/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:volume/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:network-interface/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:launch-template/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:spot-instances-request/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "prod-eu",
            "aws:RequestTag/kubernetes.io/cluster/prod-eu": "owned"
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
          "arn:aws-us-gov:ec2:us-gov-west-1:*:fleet/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:instance/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:volume/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:network-interface/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:launch-template/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:spot-instances-request/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "prod-eu",
            "aws:RequestTag/kubernetes.io/cluster/prod-eu": "owned",
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
        "Resource": "arn:aws-us-gov:ec2:us-gov-west-1:*:instance/*",
        "Condition": {
          "ForAllValues:StringEquals": {
            "aws:TagKeys": [
              "eks:eks-cluster-name",
              "karpenter.sh/nodeclaim",
              "Name"
            ]
          },
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/prod-eu": "owned"
          },
          "StringEqualsIfExists": {
            "aws:RequestTag/eks:eks-cluster-name": "prod-eu"
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
          "arn:aws-us-gov:ec2:us-gov-west-1:*:instance/*",
          "arn:aws-us-gov:ec2:us-gov-west-1:*:launch-template/*"
        ],
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
        "Sid": "PassNodeRole",
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": "arn:aws-us-gov:iam::${data.aws_caller_identity.current.account_id}:role/KarpenterNodeRole-prod-eu",
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
        "Resource": "arn:aws-us-gov:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "prod-eu",
            "aws:RequestTag/kubernetes.io/cluster/prod-eu": "owned",
            "aws:RequestTag/topology.kubernetes.io/region": "us-gov-west-1"
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
        "Resource": "arn:aws-us-gov:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/eks:eks-cluster-name": "prod-eu",
            "aws:RequestTag/kubernetes.io/cluster/prod-eu": "owned",
            "aws:RequestTag/topology.kubernetes.io/region": "us-gov-west-1",
            "aws:ResourceTag/kubernetes.io/cluster/prod-eu": "owned",
            "aws:ResourceTag/topology.kubernetes.io/region": "us-gov-west-1"
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
        "Resource": "arn:aws-us-gov:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/prod-eu": "owned",
            "aws:ResourceTag/topology.kubernetes.io/region": "us-gov-west-1"
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
        "Resource": "arn:aws-us-gov:eks:us-gov-west-1:${data.aws_caller_identity.current.account_id}:cluster/prod-eu"
      },
      {
        "Sid": "ReadInterruptions",
        "Effect": "Allow",
        "Action": [
          "sqs:DeleteMessage",
          "sqs:GetQueueUrl",
          "sqs:ReceiveMessage"
        ],
        "Resource": "arn:aws-us-gov:sqs:us-gov-west-1:${data.aws_caller_identity.current.account_id}:prod-eu"
      },
      {
        "Sid": "ReadZonalShift",
        "Effect": "Allow",
        "Action": "arc-zonal-shift:GetManagedResource",
        "Resource": "*",
        "Condition": {
          "StringEquals": {
            "arc-zonal-shift:ResourceIdentifier": "arn:aws-us-gov:eks:us-gov-west-1:${data.aws_caller_identity.current.account_id}:cluster/prod-eu"
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
            "aws:RequestedRegion": "us-gov-west-1"
          }
        }
      },
      {
        "Sid": "ReadImageParameters",
        "Effect": "Allow",
        "Action": "ssm:GetParameter",
        "Resource": "arn:aws-us-gov:ssm:us-gov-west-1::parameter/aws/service/*"
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
        "Resource": "arn:aws-us-gov:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*"
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
