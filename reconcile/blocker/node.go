package blocker

import (
	"slices"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Evidence is what was found out about nodes that do not go.
type Evidence struct {
	// Nodes are a few of them, in the order in which they were given.
	Nodes []Node
	// Budgets are the PodDisruptionBudgets of the namespaces of their pods.
	Budgets []policyv1.PodDisruptionBudget
	// DaemonSets are those of CSI drivers and CNI plugins, where a volume keeps a node.
	DaemonSets plan.DaemonSets
	// Now is the time of the pass.
	Now time.Time
}

// Node is one node that does not go, and what hangs on it.
type Node struct {
	// Claim is the name of its NodeClaim, Name its own; empty until it has registered.
	Claim, Name string
	// ProviderID is that of its instance; empty where it has none.
	ProviderID string
	// Drained is since when it is drained and its volumes are detached, while EC2
	// has not taken its termination; zero where that is not so.
	Drained time.Time
	// Waits are the messages of the NodeClaim's conditions that tell what it waits for.
	Waits []string
	// Terminating reports whether EC2 has accepted the termination of its instance.
	Terminating bool
	// Finalizers are those of the NodeClaim while it is terminating.
	Finalizers []string
	// Stays says that Karpenter could replace it, and has not begun to.
	Stays bool
	// Since is when its removal began: what Karpenter has said before may not be so any more. Initialized says that
	// the node is, whatever Karpenter has said of it meanwhile.
	Since       time.Time
	Initialized bool

	// NodeFinalizers are those of its Node while that is terminating. Look finds them, and what follows.
	NodeFinalizers []string
	Pods           []corev1.Pod
	Volumes        []storagev1.VolumeAttachment
	// Events are those of the Node and the NodeClaim.
	Events []corev1.Event
	// Logged is the newest error in the log of Karpenter's controller about a node that is drained; empty
	// where there is none, or the log cannot be read.
	Logged string
	// Protection is whether EC2 protects the instance of a node that is drained from termination.
	Protection Protection
}

// Protection is what EC2 says of an instance's termination protection.
type Protection string

// What it says; empty where it was not asked, or has not answered.
const (
	Protected   Protection = "Protected"
	Unprotected Protection = "Unprotected"
)

// NodeOf is the node of a NodeClaim that ends, before anything was read of it.
func NodeOf(claim *karpv1.NodeClaim) Node {
	return Node{
		Claim: claim.Name, Name: claim.Status.NodeName, ProviderID: claim.Status.ProviderID,
		Drained: Drained(claim), Waits: Waits(claim), Terminating: Terminating(claim), Finalizers: FinalizersOf(claim),
	}
}

// FinalizersOf are those of an object that is terminating; none of another one.
func FinalizersOf(object metav1.Object) []string {
	if object.GetDeletionTimestamp() == nil {
		return nil
	}
	return object.GetFinalizers()
}

// Terminating reports whether EC2 has accepted the termination of a NodeClaim's instance.
func Terminating(claim *karpv1.NodeClaim) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c status.Condition) bool {
		return c.Type == karpv1.ConditionTypeInstanceTerminating && c.Status == metav1.ConditionTrue
	})
}

// Title is its name in a sentence.
func (n *Node) Title() string {
	if n.Name == "" {
		return "not registered yet"
	}
	return n.Name
}

// Waits are the messages of the conditions that tell what the end of a NodeClaim waits for.
func Waits(claim *karpv1.NodeClaim) []string {
	var waits []string
	for _, condition := range claim.Status.Conditions {
		switch condition.Type {
		case karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating:
			if condition.Status != metav1.ConditionTrue && condition.Message != "" {
				waits = append(waits, condition.Type+": "+condition.Message)
			}
		}
	}
	return waits
}

// Drained is since when nothing but EC2 is in the way of a NodeClaim's end. Of a
// termination that EC2 refuses Karpenter says nothing but this, in conditions as
// in events (sigs.k8s.io/karpenter pkg/controllers/node/termination/controller.go,
// awaitInstanceTermination): InstanceTerminating does not become True.
func Drained(claim *karpv1.NodeClaim) time.Time {
	var since time.Time
	passed := 0
	for _, condition := range claim.Status.Conditions {
		switch condition.Type {
		case karpv1.ConditionTypeInstanceTerminating:
			if condition.Status == metav1.ConditionTrue {
				return time.Time{}
			}
		case karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached:
			if condition.Status != metav1.ConditionTrue {
				return time.Time{}
			}
			passed++
			if condition.LastTransitionTime.After(since) {
				since = condition.LastTransitionTime.Time
			}
		}
	}
	if passed < 2 || claim.DeletionTimestamp == nil || claim.Status.ProviderID == "" {
		return time.Time{}
	}
	return since
}
