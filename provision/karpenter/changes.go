package karpenter

// changes are what a version does otherwise by itself and a person should know
// before: KPA website/content/en/docs/upgrading/upgrade-guide.md at 1.14.1, and the
// defaults in charts/karpenter/values.yaml of the tags.
var changes = []row[string]{
	{"0.33.0", "the feature gate drift is on by default: nodes that differ from their NodePool are replaced"},
	{"0.34.0", "disruption budgets hold, 10% of a NodePool's nodes at a time by default"},
	{"0.34.0", "dnsPolicy of the controller is ClusterFirst: where Karpenter's nodes run the cluster's DNS, set it to Default"},
	{"1.0.0", "two replicas need two zones, or nodes: topologySpreadConstraints are required by default"},
	{"1.0.0", "the metrics port is 8080 by default, and metrics have other names"},
	{"1.6.0", "the feature gate reservedCapacity is on by default: open capacity reservations are used only where an EC2NodeClass has capacityReservationSelectorTerms"},
	{"1.7.0", "new instance profiles have the path /karpenter/{region}/{cluster}/{uid}/: a policy that names them by path has to allow it"},
	{"1.10.0", "interruptible capacity reservations need one more EventBridge rule: EC2 Capacity Reservation Instance Interruption Warning"},
	{"1.14.0", "karpenter-crd adds a fifth CRD, capacitybuffers.autoscaling.x-k8s.io"},
}
