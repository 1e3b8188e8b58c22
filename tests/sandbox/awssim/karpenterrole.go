package awssim

import (
	"encoding/json"
	"fmt"
)

// karpenterPolicies returns what Karpenter's controller may do in a cluster, in six policies with the names of its
// getting-started guide. They are made from the calls of the controller (karpenter-provider-aws pkg/aws/sdk.go lists
// them) and restricted to the cluster's tags as narrowly as those calls allow; they are not the guide's own text.
func (a *account) karpenterPolicies(c *cluster) (map[string]string, error) {
	k := karpenterScope{account: a, cluster: c.Name}
	documents := map[string]string{}
	for name, statements := range map[string][]object{
		"NodeLifecycle":     k.nodeLifecycle(),
		"IAMIntegration":    k.iamIntegration(),
		"EKSIntegration":    {permit([]string{"eks:DescribeCluster"}, []string{c.arn})},
		"Interruption":      {permit([]string{"sqs:GetQueueUrl", "sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:DeleteMessage"}, []string{a.arn("sqs", a.options.Region, c.Name)})},
		"ZonalShift":        {permit([]string{"arc-zonal-shift:GetManagedResource"}, []string{"*"})},
		"ResourceDiscovery": k.discovery(),
	} {
		text, err := json.Marshal(object{"Version": "2012-10-17", "Statement": statements})
		if err != nil {
			return nil, fmt.Errorf("write Karpenter's policy %s: %w", name, err)
		}
		documents["Karpenter"+name+"Policy-"+c.Name] = string(text)
	}
	return documents, nil
}

type karpenterScope struct {
	*account
	cluster string
}

// permit returns a statement; conditions are operator, key and value in turn.
func permit(actions, resources []string, conditions ...string) object {
	s := object{"Effect": "Allow", "Action": actions, "Resource": resources}
	if len(conditions) == 0 {
		return s
	}
	all := map[string]map[string]string{}
	for i := 0; i+2 < len(conditions); i += 3 {
		operator := all[conditions[i]]
		if operator == nil {
			operator = map[string]string{}
			all[conditions[i]] = operator
		}
		operator[conditions[i+1]] = conditions[i+2]
	}
	s["Condition"] = all
	return s
}

// tagged returns the conditions for resources of this cluster and of a pool.
func (k karpenterScope) tagged(key string) []string {
	return []string{
		"StringEquals", key + "/kubernetes.io/cluster/" + k.cluster, "owned",
		"StringEquals", key + "/eks:eks-cluster-name", k.cluster,
		"StringLike", key + "/karpenter.sh/nodepool", "*",
	}
}

// ofKinds returns ARN patterns of kinds of EC2 resources.
func (k karpenterScope) ofKinds(kinds ...string) []string {
	var arns []string
	for _, kind := range kinds {
		arns = append(arns, k.ec2ARN(kind, "*"))
	}
	return arns
}

func (k karpenterScope) nodeLifecycle() []object {
	launching := []string{"ec2:RunInstances", "ec2:CreateFleet"}
	made := k.ofKinds("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
	retagged := permit([]string{"ec2:CreateTags"}, k.ofKinds("instance"), k.tagged("aws:ResourceTag")...)
	if conditions, ok := retagged["Condition"].(map[string]map[string]string); ok {
		conditions["StringEqualsIfExists"] = map[string]string{"aws:RequestTag/eks:eks-cluster-name": k.cluster}
	}
	created := append(k.tagged("aws:RequestTag"), "StringLike", "ec2:CreateAction", "*")
	return []object{
		permit(launching, k.ofKinds("image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group")),
		permit(launching, k.ofKinds("launch-template"), k.tagged("aws:ResourceTag")...),
		permit(append(launching, "ec2:CreateLaunchTemplate"), made, k.tagged("aws:RequestTag")...),
		permit([]string{"ec2:CreateTags"}, made, created...),
		retagged,
		permit([]string{"ec2:TerminateInstances", "ec2:RebootInstances", "ec2:DeleteLaunchTemplate"}, k.ofKinds("instance", "launch-template"), k.tagged("aws:ResourceTag")...),
	}
}

func (k karpenterScope) iamIntegration() []object {
	own := func(key string) []string {
		return []string{
			"StringEquals", key + "/kubernetes.io/cluster/" + k.cluster, "owned",
			"StringEquals", key + "/topology.kubernetes.io/region", k.options.Region,
			"StringLike", key + "/karpenter.k8s.aws/ec2nodeclass", "*",
		}
	}
	profiles := []string{k.iamARN("instance-profile/*")}
	return []object{
		permit([]string{"iam:PassRole"}, []string{k.iamARN("role/KarpenterNodeRole-" + k.cluster)}, "StringEquals", "iam:PassedToService", "ec2."+domain(k.options.Region)),
		permit([]string{"iam:CreateInstanceProfile"}, profiles, own("aws:RequestTag")...),
		permit([]string{"iam:TagInstanceProfile"}, profiles, append(own("aws:ResourceTag"), own("aws:RequestTag")...)...),
		permit([]string{"iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"}, profiles, own("aws:ResourceTag")...),
		permit([]string{"iam:GetInstanceProfile"}, profiles),
		permit([]string{"iam:ListInstanceProfiles"}, []string{"*"}),
	}
}

func (k karpenterScope) discovery() []object {
	return []object{
		permit([]string{
			"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus",
			"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
			"ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
		}, []string{"*"}, "StringEquals", "aws:RequestedRegion", k.options.Region),
		permit([]string{"ssm:GetParameter"}, []string{k.parameterARN("/aws/service/*")}),
		permit([]string{"pricing:GetProducts"}, []string{"*"}),
	}
}
