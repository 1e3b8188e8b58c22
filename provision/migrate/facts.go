package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// The records of a migration, by which it is continued and reversed.
const (
	// ReplicasAnnotation of the autoscaler's Deployment is the number of replicas that it had.
	ReplicasAnnotation = "plumbline.dev/replicas-before-migration"
	// CordonAnnotation marks Nodes that the migration has cordoned.
	CordonAnnotation = "plumbline.dev/cordoned-by-migration"
	// MovedAnnotation of a Node are the workloads that ran on it when its drain began, with their Ready pods, as JSON.
	MovedAnnotation = "plumbline.dev/moved-by-migration"
	// PinAnnotation of a workload, and the tag of an add-on, is Added or Merged.
	PinAnnotation = "plumbline.dev/pinned-by-migration"
	// SizesTag of a group are the sizes that it had, and how many nodes it keeps.
	SizesTag = "plumbline.dev/sizes-before-migration"
)

// The values of PinAnnotation: whether there was no affinity before, or one that the pin was merged into.
const (
	Added  = "added"
	Merged = "merged"
)

// The labels of Nodes by which a migration knows what they are.
const (
	nodePoolLabel    = "karpenter.sh/nodepool"
	computeTypeLabel = "eks.amazonaws.com/compute-type"
)

// Facts are what was read in a cluster and in AWS.
type Facts struct {
	Cluster string
	// Plumbline are the labels of plumbline's Deployment.
	Plumbline map[string]string

	Nodes        []corev1.Node
	Pods         []corev1.Pod
	Deployments  []appsv1.Deployment
	StatefulSets []appsv1.StatefulSet
	ReplicaSets  []appsv1.ReplicaSet
	// PoolKeys are the keys of the labels and requirements of all NodePools.
	PoolKeys []string

	NodeGroups []cloud.NodeGroup
	// Scaling are the Auto Scaling groups of the cluster, with those of its managed node groups.
	Scaling []cloud.AutoScalingGroup
	Fargate []cloud.FargateProfile
	Addons  []cloud.Addon
	// Affinity is where the configuration values of an add-on have its affinity, by the add-on's name; an add-on without it
	// has none.
	Affinity map[string][]string
}

// Kind of a group of nodes.
type Kind string

// The values of Kind.
const (
	// ManagedNodeGroup is a managed node group of EKS.
	ManagedNodeGroup Kind = "managed node group"
	// SelfManaged is an Auto Scaling group whose nodes join the cluster without EKS.
	SelfManaged Kind = "self-managed Auto Scaling group"
)

// Group is a group of nodes.
type Group struct {
	Kind Kind
	Name string
	// ARN is that of a managed node group.
	ARN   string
	Sizes cloud.Sizes
	// Status is that of a managed node group, in EKS's terms.
	Status string
	// Scaling are the names of its Auto Scaling groups.
	Scaling []string
	// Autoscaled reports whether a Cluster Autoscaler changes its size.
	Autoscaled bool
	// Record is what an earlier run has recorded; nil if none has.
	Record    *Record
	Instances []cloud.GroupInstance
	Nodes     []*corev1.Node
}

// ID returns the group as --keep names it: nodegroup/NAME or asg/NAME.
func (g *Group) ID() string {
	if g.Kind == ManagedNodeGroup {
		return "nodegroup/" + g.Name
	}
	return "asg/" + g.Name
}

// Record is what a group was, and how many nodes it keeps.
type Record struct {
	cloud.Sizes
	Keep int
}

// String returns the value of SizesTag.
func (r Record) String() string {
	return fmt.Sprintf("min=%d max=%d desired=%d keep=%d", r.Min, r.Max, r.Desired, r.Keep)
}

// ParseRecord parses the value of SizesTag; ok is false if it is not one.
func ParseRecord(value string) (r Record, ok bool) {
	fields := map[string]*int{"min": &r.Min, "max": &r.Max, "desired": &r.Desired, "keep": &r.Keep}
	for pair := range strings.SplitSeq(value, " ") {
		name, number, _ := strings.Cut(pair, "=")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || fields[name] == nil {
			return r, false
		}
		*fields[name] = n
		delete(fields, name)
	}
	return r, len(fields) == 0
}

// Groups returns the groups of nodes of the cluster, sorted by ID. autoscalers are those of the cluster.
func (f *Facts) Groups(autoscalers []Autoscaler) []*Group {
	byName := map[string]*cloud.AutoScalingGroup{}
	for i := range f.Scaling {
		byName[f.Scaling[i].Name] = &f.Scaling[i]
	}
	var groups []*Group
	managed := map[string]bool{}
	for _, n := range f.NodeGroups {
		g := &Group{
			Kind: ManagedNodeGroup, Name: n.Name, ARN: n.ARN, Status: n.Status, Scaling: n.AutoScalingGroups,
			Sizes: cloud.Sizes{Min: n.Min, Max: n.Max, Desired: n.Desired}, Record: recordIn(n.Tags),
		}
		desired, known := 0, false
		for _, name := range n.AutoScalingGroups {
			managed[name] = true
			if found := byName[name]; found != nil {
				desired, known = desired+found.Desired, true
				g.Instances = append(g.Instances, found.Instances...)
				g.Autoscaled = g.Autoscaled || anyScales(autoscalers, found)
			}
		}
		if known {
			g.Sizes.Desired = desired // EKS reports a change of the Auto Scaling group later
		}
		groups = append(groups, g)
	}
	for i := range f.Scaling {
		if s := &f.Scaling[i]; !managed[s.Name] && (f.owns(s) || !f.ofAnother(s) && anyScales(autoscalers, s)) {
			groups = append(groups, &Group{
				Kind: SelfManaged, Name: s.Name, Sizes: cloud.Sizes{Min: s.Min, Max: s.Max, Desired: s.Desired}, Scaling: []string{s.Name},
				Record: recordIn(s.Tags), Instances: s.Instances, Autoscaled: anyScales(autoscalers, s),
			})
		}
	}
	for _, g := range groups {
		f.addNodes(g)
	}
	slices.SortFunc(groups, func(a, b *Group) int { return strings.Compare(a.ID(), b.ID()) })
	return groups
}

// owns reports whether an Auto Scaling group has the tag of the cluster's nodes:
// https://docs.aws.amazon.com/eks/latest/userguide/worker.html
func (f *Facts) owns(s *cloud.AutoScalingGroup) bool {
	return s.Tags["kubernetes.io/cluster/"+f.Cluster] != "" || s.Tags["k8s.io/cluster/"+f.Cluster] != ""
}

// ofAnother reports whether an Auto Scaling group has the tag of another cluster's nodes. An autoscaler may discover groups
// by a tag that those of all clusters of an account have.
func (f *Facts) ofAnother(s *cloud.AutoScalingGroup) bool {
	for key, value := range s.Tags {
		for _, prefix := range []string{"kubernetes.io/cluster/", "k8s.io/cluster/"} {
			if name, is := strings.CutPrefix(key, prefix); is && value != "" && name != f.Cluster {
				return true
			}
		}
	}
	name := s.Tags["eks:cluster-name"]
	return name != "" && name != f.Cluster
}

func recordIn(tags map[string]string) *Record {
	if r, ok := ParseRecord(tags[SizesTag]); ok {
		return &r
	}
	return nil
}

func (f *Facts) addNodes(g *Group) {
	for i := range f.Nodes {
		id := cloud.InstanceID(f.Nodes[i].Spec.ProviderID)
		if id != "" && slices.ContainsFunc(g.Instances, func(one cloud.GroupInstance) bool { return one.ID == id }) {
			g.Nodes = append(g.Nodes, &f.Nodes[i])
		}
	}
	slices.SortFunc(g.Nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
}

// podsOn returns the pods on a node that count: those that have not ended.
func (f *Facts) podsOn(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range f.Pods {
		if p := &f.Pods[i]; p.Spec.NodeName == node && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			pods = append(pods, p)
		}
	}
	return pods
}

// controllerOf returns the workload of a pod: a Deployment instead of its ReplicaSet. Its kind is empty if the pod has none.
func (f *Facts) controllerOf(pod *corev1.Pod) Ref {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return Ref{}
	}
	if owner.Kind == "ReplicaSet" {
		for i := range f.ReplicaSets {
			set := &f.ReplicaSets[i]
			if set.Namespace != pod.Namespace || set.Name != owner.Name {
				continue
			}
			if of := metav1.GetControllerOf(set); of != nil && of.Kind == "Deployment" {
				return Ref{Kind: of.Kind, Namespace: pod.Namespace, Name: of.Name}
			}
		}
	}
	return Ref{Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name}
}

// Ref identifies a workload.
type Ref struct{ Kind, Namespace, Name string }

// String returns Kind/namespace/name.
func (r Ref) String() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// Words returns the workload for a sentence: Deployment kube-system/coredns.
func (r Ref) Words() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// ParseRef is the reverse of String.
func ParseRef(text string) (Ref, bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Ref{}, false
	}
	return Ref{parts[0], parts[1], parts[2]}, true
}

// Place returns where a pod on a Node runs, in words.
func Place(node *corev1.Node) string {
	switch {
	case node == nil:
		return "no node"
	case node.Labels[nodePoolLabel] != "":
		return "NodePool/" + node.Labels[nodePoolLabel]
	case node.Labels[computeTypeLabel] == "fargate":
		return "Fargate"
	case node.Labels["eks.amazonaws.com/nodegroup"] != "":
		return "nodegroup/" + node.Labels["eks.amazonaws.com/nodegroup"]
	}
	return "Node/" + node.Name
}

// PlacesOf returns how many pods of a workload run where, by Place.
func (f *Facts) PlacesOf(ref Ref) map[string]int {
	places := map[string]int{}
	for i := range f.Pods {
		p := &f.Pods[i]
		if node := f.node(p.Spec.NodeName); node != nil && p.DeletionTimestamp == nil && f.controllerOf(p) == ref {
			places[Place(node)]++
		}
	}
	return places
}
