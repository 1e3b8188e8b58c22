package audit

import (
	"regexp"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// Observed is what was read.
type Observed struct {
	// Clusters are sorted by account, region, name and context.
	Clusters []Cluster
	Networks []Network
	// Trails are the calls of EC2 that were read from CloudTrail.
	Trails []Trail
	// Unread is what could not be read.
	Unread []Unread
	// WithContexts reports whether contexts were given: without any, no controllers are expected.
	WithContexts bool
	// NamePattern is what the names of clusters have to match as a whole; nil if any name is allowed.
	NamePattern *regexp.Regexp
}

// Cluster is an EKS cluster, a cluster that a context reaches, or both.
type Cluster struct {
	// Account and Region are empty if no EKS cluster that was read is the one of the context.
	Account string `json:"account,omitempty"`
	Region  string `json:"region,omitempty"`
	// Name is that of the EKS cluster; empty if it is unknown.
	Name     string            `json:"name,omitempty"`
	ARN      string            `json:"arn,omitempty"`
	Endpoint string            `json:"endpoint,omitempty"`
	Version  string            `json:"version,omitempty"`
	VPC      string            `json:"vpc,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	// Context is the one that reaches it; empty if none does. Its controllers are then unknown.
	Context     string       `json:"context,omitempty"`
	Controllers []Controller `json:"controllers,omitempty"`
	// Classes are its EC2NodeClasses.
	Classes []awsv1.EC2NodeClass `json:"-"`

	// authority is the certificate authority of its API server as PEM.
	authority []byte
}

// Controller is a Deployment of Karpenter's controller.
type Controller struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version,omitempty"`
	// Running reports whether it shall have a pod.
	Running bool `json:"running"`
	// ClusterName and Queue are CLUSTER_NAME and INTERRUPTION_QUEUE in its environment; empty if they are not set, or not
	// as a plain value.
	ClusterName string `json:"clusterName,omitempty"`
	Queue       string `json:"queue,omitempty"`
	RoleARN     string `json:"roleARN,omitempty"`
	// Grant is that role with its policies. Read reports whether all of them were read.
	Grant cloud.Grant `json:"-"`
	Read  bool        `json:"-"`
}

// Network is what EC2NodeClasses can select in a region of an account.
type Network struct {
	Account, Region string
	Subnets         []cloud.Subnet
	Groups          []cloud.SecurityGroup
}

// Trail are the calls that launched and terminated instances in a region of an account.
type Trail struct {
	Account, Region      string
	Launched, Terminated []cloud.TrailCall
}

// Unread is something that could not be read.
type Unread struct {
	// What was read, such as "the EKS clusters of profile dev in eu-west-1".
	What string
	Err  error
}
