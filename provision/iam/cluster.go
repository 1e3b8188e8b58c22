package iam

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Partitions are those of AWS that plumbline knows.
func Partitions() []string { return []string{"aws", "aws-cn", "aws-us-gov"} }

// PartitionOf returns the partition of a region.
func PartitionOf(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// globalRegions are the regions of IAM's endpoint, in which its calls count:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-requestedregion
var globalRegions = map[string]string{"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}

// ec2Services are the names by which EC2 receives a role. In China, both are in use.
var ec2Services = map[string]Values{
	"aws": {"ec2.amazonaws.com"}, "aws-cn": {"ec2.amazonaws.com", "ec2.amazonaws.com.cn"}, "aws-us-gov": {"ec2.amazonaws.com"},
}

// The limits of names and documents: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html and
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
const (
	maxRoleName   = 64
	maxPolicyName = 128
	maxQueueName  = 80
	// MaxCharacters is the size of a managed policy.
	MaxCharacters = 6144
)

// NodeRolePrefix is the beginning of the node role's name in Karpenter's getting-started guide.
const NodeRolePrefix = "KarpenterNodeRole-"

// Cluster is the cluster that policies are about.
type Cluster struct {
	// Name is that of the EKS cluster, which settings.clusterName repeats.
	Name, Region string
	// Account is the ID of the AWS account.
	Account string
	// Partition is that of the region if it is empty.
	Partition string
	// NodeRoles are names or ARNs of the roles that nodes may have; KarpenterNodeRole-NAME if it is empty.
	NodeRoles []string
	// Queue is the name of the interruption queue; no permission for it is required if it is empty.
	Queue string
}

var (
	// clusterName is EKS's rule: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
	clusterName = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)
	regionName  = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d+$`)
	accountID   = regexp.MustCompile(`^\d{12}$`)
	queueName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	// roleName has IAM's characters, and a path of the same: IAM allows others there, which a shell would interpret. roleARN
	// is one of a role.
	roleName = regexp.MustCompile(`^([A-Za-z0-9+=,.@_/-]+/)?[A-Za-z0-9+=,.@_-]{1,64}$`)
	roleARN  = regexp.MustCompile(`^arn:aws(-cn|-us-gov)?:iam::\d{12}:role/([A-Za-z0-9+=,.@_/-]+/)?[A-Za-z0-9+=,.@_-]{1,64}$`)
)

// Check returns the first value that AWS does not accept. Nothing in a valid cluster is a wildcard or a variable of IAM,
// or a template of Terraform.
// An account that is a reference of CloudFormation or Terraform is valid.
func (c Cluster) Check() error {
	switch {
	case !clusterName.MatchString(c.Name):
		return fmt.Errorf("cluster %q: EKS allows 1 to 100 letters, digits, hyphens and underscores", c.Name)
	case !regionName.MatchString(c.Region):
		return fmt.Errorf("region %q: want one such as eu-west-1", c.Region)
	case !accountID.MatchString(c.Account) && c.Account != accountOfStack && c.Account != accountOfProvider:
		return fmt.Errorf("account %q: want its 12 digits", c.Account)
	case c.Partition != "" && !slices.Contains(Partitions(), c.Partition):
		return fmt.Errorf("partition %q: want one of %s", c.Partition, strings.Join(Partitions(), ", "))
	case c.Queue != "" && !queueName.MatchString(c.Queue):
		return fmt.Errorf("queue %q: SQS allows 1 to 80 letters, digits, hyphens and underscores", c.Queue)
	}
	for _, role := range c.NodeRoles {
		if !roleARN.MatchString(role) && !roleName.MatchString(role) || strings.ContainsAny(role, "*?$%") {
			return fmt.Errorf("node role %q: want the name or the ARN of a role", role)
		}
	}
	return nil
}

func (c Cluster) partition() string {
	if c.Partition != "" {
		return c.Partition
	}
	return PartitionOf(c.Region)
}

// ec2 returns the ARNs of all EC2 resources of these types in the region. Subnets, security groups and reservations can be
// shared by other accounts.
func (c Cluster) ec2(types ...string) Values {
	arns := make(Values, 0, len(types))
	for _, one := range types {
		account := anything
		if one == "image" || one == "snapshot" {
			account = ""
		}
		arns = append(arns, fmt.Sprintf("arn:%s:ec2:%s:%s:%s/*", c.partition(), c.Region, account, one))
	}
	return arns
}

// arn returns the ARN of a resource of the account in the region.
func (c Cluster) arn(service, resource string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", c.partition(), service, c.Region, c.Account, resource)
}

// global returns the ARN of a resource of IAM.
func (c Cluster) global(resource string) string {
	return fmt.Sprintf("arn:%s:iam::%s:%s", c.partition(), c.Account, resource)
}

// publicParameter returns the ARN of a parameter that AWS publishes.
func (c Cluster) publicParameter(name string) string {
	return fmt.Sprintf("arn:%s:ssm:%s::parameter/aws/service/%s", c.partition(), c.Region, name)
}

// nodeRoles returns the ARNs of the roles of nodes.
func (c Cluster) nodeRoles() Values {
	if len(c.NodeRoles) == 0 {
		return Values{c.global("role/" + Name(NodeRolePrefix, c.Name, maxRoleName))}
	}
	arns := make(Values, 0, len(c.NodeRoles))
	for _, role := range c.NodeRoles {
		if !strings.HasPrefix(role, "arn:") {
			role = c.global("role/" + role)
		}
		arns = append(arns, role)
	}
	return arns
}

// QueueName returns the name of the interruption queue in Karpenter's getting-started guide: the cluster's, shortened if SQS
// does not allow it.
func QueueName(cluster string) string { return Name("", cluster, maxQueueName) }

// hashDigits is the number of hex digits that make a shortened name unique.
const hashDigits = 10

// Name returns the name of a resource of a cluster: prefix and cluster or, if that is longer than the limit, as much of
// it as fits with a hyphen and 10 hex digits of the cluster's SHA-256.
func Name(prefix, cluster string, limit int) string {
	whole := prefix + cluster
	if len(whole) <= limit {
		return whole
	}
	return whole[:limit-hashDigits-1] + Suffix(cluster)
}

// Suffix returns what makes a shortened name unique: a hyphen and 10 hex digits of the cluster's SHA-256.
func Suffix(cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return "-" + hex.EncodeToString(sum[:])[:hashDigits]
}
