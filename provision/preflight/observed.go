package preflight

import (
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	policyv1 "k8s.io/api/policy/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// Value is something that was read, or the error of reading it: then Of may be incomplete.
type Value[T any] struct {
	Of  T
	Err error
}

// Observed is what checks look at. A Value that no selected check needs is empty.
type Observed struct {
	Now time.Time
	// Cluster is the name with which Karpenter identifies its instances, and Region that of the cluster.
	Cluster, Region string
	// Version of Karpenter that is checked.
	Version string

	// Protected are the IDs of instances that plumbline protects from termination in an identity conflict, and Conflict reports
	// whether that is open. Both come from the NodeSync; without one, they are unknown.
	Protected []string
	Conflict  bool

	// Identity is that of the credentials in use.
	Identity Value[cloud.Identity]
	// EKS is the cluster according to AWS.
	EKS Value[cloud.Cluster]
	// Controllers are the Deployments of Karpenter's controller, in every namespace, by namespace and name.
	Controllers Value[[]Controller]
	// Grant is the role of the first controller's ServiceAccount.
	Grant Value[cloud.Grant]
	// Simulation is what AWS's own evaluator answers about it; nil if it was not queried.
	Simulation Value[*iam.Simulation]
	// VolumeKeys are the KMS keys that EC2NodeClasses name for volumes, by name.
	VolumeKeys []VolumeKey
	// Agent reports whether the cluster has the EKS Pod Identity agent.
	Agent Value[bool]
	// Addons are those of the EKS cluster.
	Addons Value[[]cloud.Addon]
	// Classes are the EC2NodeClasses.
	Classes Value[[]awsv1.EC2NodeClass]
	// NodeRoles are the roles that they give to nodes, by role and profile.
	NodeRoles []NodeRole
	// AWSAuth is mapRoles of ConfigMap kube-system/aws-auth; empty if there is none.
	AWSAuth Value[string]
	// Queue is the interruption queue in the controller's settings, and Rules are those of EventBridge that have it as target.
	Queue Value[cloud.Queue]
	Rules Value[[]cloud.Rule]
	// QueueKey is the KMS key that encrypts it; nil if SQS does, or if the key was not read.
	QueueKey Value[*cloud.Key]
	// OtherQueues are the names that tools use by default and that exist, if the settings have no queue, or one that does not
	// exist.
	OtherQueues []string
	// Networks are what the EC2NodeClasses select, by class. Subnets and Groups have these, and the groups of the API server,
	// by ID.
	Networks []ClassNetwork
	Subnets  Value[map[string]cloud.Subnet]
	Groups   Value[map[string]cloud.SecurityGroup]
	// Endpoints are those of the VPCs that have one of these Subnets without a default route.
	Endpoints Value[[]cloud.Endpoint]
	// Workloads are those on which nodes depend, and SystemZones the zones of nodes that Karpenter does not own, sorted.
	Workloads   Value[[]Workload]
	SystemZones []string
	// Autoscalers are the Deployments of the Cluster Autoscaler.
	Autoscalers Value[[]Autoscaler]
	// Webhooks are those for Karpenter's kinds, and CRDs those of any version of Karpenter.
	Webhooks Value[[]Webhook]
	CRDs     Value[[]CRD]
	// Uncompared is why the CRDs were not compared with those of the Version; nil if they were.
	Uncompared error
	// Pods are those on nodes of NodePools without terminationGracePeriod, and Budgets the PodDisruptionBudgets.
	Pods    Value[[]Pod]
	Budgets Value[[]policyv1.PodDisruptionBudget]
	// Pools are the NodePools, and PoolBudgets what their disruption budgets allow.
	Pools       Value[[]karpv1.NodePool]
	PoolBudgets []PoolBudgets
	// PoolTypes are the instance types that they allow, and Quotas are EC2's for vCPUs, by code.
	PoolTypes Value[[]PoolTypes]
	Quotas    Value[map[string]QuotaInUse]
	// Claims are the NodeClaims.
	Claims Value[[]karpv1.NodeClaim]
	// Idle is why no pod of Karpenter's controller works; empty if one does. OutOfMemory are those that were killed.
	Idle        Value[string]
	OutOfMemory Value[[]OutOfMemory]
	// Insights are what EKS has found about the cluster.
	Insights Value[[]cloud.Insight]
	// Images are the AMIs of the EC2NodeClasses, and Conditions those of their conditions that are False.
	Images     []ClassImages
	Conditions []ClassCondition
	// DaemonSets are those of CSI drivers and CNI plugins.
	DaemonSets Value[[]NodeDaemonSet]
	// LostNodes are Nodes of Karpenter without an instance, LostInstances are the IDs of instances without a NodeClaim, and
	// Left what is left in AWS of deleted nodes, EC2NodeClasses and PersistentVolumes.
	LostNodes     Value[[]LostNode]
	LostInstances []string
	Left          Value[[]leftover.Found]
	// OldNodes are Nodes of versions before 0.32, which no version since manages.
	OldNodes Value[[]string]

	// vcpus are those of instance types, by name.
	vcpus map[string]int32
}

// Controller is a Deployment of Karpenter's controller.
type Controller struct {
	Namespace, Name string
	// ServiceAccount of its pods, and the role in its annotation; empty if it has none.
	ServiceAccount, RoleARN string
	// Replicas is how many pods it shall have.
	Replicas int32
	// Version is the tag of its image.
	Version string
	// Environment has the variables of its container that have a plain value.
	Environment map[string]string
}

// controller returns the Deployment that is checked: one with replicas and the cluster's name, else the first.
func (o Observed) controller() (Controller, bool) {
	all := o.Controllers.Of
	for _, c := range all {
		if c.Replicas > 0 && c.Environment["CLUSTER_NAME"] == o.Cluster {
			return c, true
		}
	}
	if len(all) == 0 {
		return Controller{}, false
	}
	return all[0], true
}

// queue returns the name of the interruption queue in the controller's settings; empty if it has none.
func (c Controller) queue() string { return c.Environment["INTERRUPTION_QUEUE"] }
