package bootstrap

import (
	"strings"

	"github.com/plumbline-dev/plumbline/provision/iam"
)

// The logical IDs of the stack's resources. Those of the controller's policies are the names of iam.Controller before the
// cluster's.
const (
	NodeRole        = "KarpenterNodeRole"
	NodeProfile     = "KarpenterNodeInstanceProfile"
	ControllerRole  = "KarpenterControllerRole"
	PlumblineRole   = "PlumblineRole"
	Queue           = "KarpenterQueue"
	QueuePolicy     = "KarpenterQueuePolicy"
	NodeAccess      = "KarpenterNodeAccess"
	ControllerLink  = "KarpenterPodIdentity"
	PlumblineLink   = "PlumblinePodIdentity"
	plumblinePolicy = "PlumblinePolicy"
)

// The longest names: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html,
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html and
// https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html
const (
	maxRole, maxProfile, maxPolicy = 64, 128, 128
	maxRule, maxStack              = 64, 128
)

// Names are the names of resources in AWS by logical ID.
type Names map[string]string

// prefixes are the names of resources without the cluster's. That of the role of nodes is the one in Karpenter's
// getting-started guide.
var prefixes = map[string]struct {
	prefix string
	limit  int
}{
	NodeRole:       {iam.NodeRolePrefix, maxRole},
	NodeProfile:    {"KarpenterNodeInstanceProfile-", maxProfile},
	ControllerRole: {"KarpenterControllerRole-", maxRole},
	PlumblineRole:  {"plumbline-", maxRole},
}

// nameOf returns the name of a resource; empty if CloudFormation or EKS names it.
func nameOf(id, cluster string) string {
	known, found := prefixes[id]
	switch {
	case found:
		return iam.Name(known.prefix, cluster, known.limit)
	case id == Queue:
		return iam.QueueName(cluster)
	case isRule(id):
		return iam.Name(id+"-", cluster, maxRule)
	case strings.Contains(id, "Policy") && id != QueuePolicy:
		return iam.Name(id+"-", cluster, maxPolicy)
	}
	return ""
}

// StackName returns the name of a cluster's stack: plumbline-NAME. CloudFormation allows no underscores, so a name with
// one ends with a hash of the cluster's.
func StackName(cluster string) string {
	const prefix = "plumbline-"
	if !strings.Contains(cluster, "_") {
		return iam.Name(prefix, cluster, maxStack)
	}
	name, suffix := strings.ReplaceAll(prefix+cluster, "_", "-"), iam.Suffix(cluster)
	return name[:min(len(name), maxStack-len(suffix))] + suffix
}

// Shortened returns the names that do not contain the cluster's whole name, by logical ID.
func (n Names) Shortened(cluster string) Names {
	short := Names{}
	for id, name := range n {
		if !strings.Contains(name, cluster) {
			short[id] = name
		}
	}
	return short
}
