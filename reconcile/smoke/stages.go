package smoke

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Stage is one thing that has happened in a test.
type Stage struct {
	Name StageName `json:"name"`
	// At is when it happened. Kubernetes records times in whole seconds.
	At metav1.Time `json:"at"`
	// Seconds is the time since the pod was created, or for stages of the termination, since the Deployment was scaled
	// to zero.
	Seconds int `json:"seconds"`
}

// StageName is what has happened.
type StageName string

// The stages, in their order.
const (
	Unschedulable StageName = "pod unschedulable"
	Created       StageName = "NodeClaim created"
	Launched      StageName = "launched"
	Registered    StageName = "registered"
	Initialized   StageName = "initialized"
	Running       StageName = "pod running"
	Deleted       StageName = "NodeClaim deleted"
	Removed       StageName = "Node gone"
	Terminated    StageName = "terminated in EC2"
)

// Seen is what has been observed of a test. Objects that do not exist, or do not exist any more, are nil.
type Seen struct {
	Pod   *corev1.Pod
	Claim *karpv1.NodeClaim
	// ScaledAt is when the Deployment was scaled to zero, Removed when the NodeClaim was gone, and Terminated when EC2
	// reported the instance as terminated; zero until then.
	ScaledAt, Removed, Terminated time.Time
}

// Stages returns what has happened, in the order of the stages.
func Stages(s Seen) []Stage {
	var all []Stage
	if s.Pod == nil {
		return nil
	}
	add := func(name StageName, at, since time.Time) {
		if !at.IsZero() {
			all = append(all, Stage{Name: name, At: metav1.NewTime(at), Seconds: max(0, int(at.Sub(since).Round(time.Second).Seconds()))})
		}
	}
	began := s.Pod.CreationTimestamp.Time
	add(Unschedulable, became(s.Pod, corev1.PodScheduled, corev1.ConditionFalse), began)
	if s.Claim != nil {
		conditions := s.Claim.StatusConditions()
		add(Created, s.Claim.CreationTimestamp.Time, began)
		add(Launched, becameTrue(conditions.Get(karpv1.ConditionTypeLaunched)), began)
		add(Registered, becameTrue(conditions.Get(karpv1.ConditionTypeRegistered)), began)
		add(Initialized, becameTrue(conditions.Get(karpv1.ConditionTypeInitialized)), began)
	}
	add(Running, running(s.Pod), began)
	if s.Claim != nil && s.Claim.DeletionTimestamp != nil && !s.ScaledAt.IsZero() {
		add(Deleted, s.Claim.DeletionTimestamp.Time, s.ScaledAt)
	}
	add(Removed, s.Removed, s.ScaledAt)
	add(Terminated, s.Terminated, s.ScaledAt)
	return all
}

// becameTrue returns when a condition became True; zero if it is not.
func becameTrue(condition *status.Condition) time.Time {
	if condition == nil || !condition.IsTrue() {
		return time.Time{}
	}
	return condition.LastTransitionTime.Time
}

// running returns when the pod became Ready; zero if it is not.
func running(pod *corev1.Pod) time.Time { return became(pod, corev1.PodReady, corev1.ConditionTrue) }

// became returns when a condition of a pod got its status; zero if it has another one.
func became(pod *corev1.Pod, condition corev1.PodConditionType, is corev1.ConditionStatus) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition && c.Status == is {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// ClaimOf returns the NodeClaim of a pool that the pod runs on, or while it has no node, the oldest one that was
// created for it; nil if there is none.
func ClaimOf(pod *corev1.Pod, claims []karpv1.NodeClaim) *karpv1.NodeClaim {
	var found *karpv1.NodeClaim
	for i := range claims {
		claim := &claims[i]
		switch {
		case pod.Spec.NodeName != "" && claim.Status.NodeName == pod.Spec.NodeName:
			return claim
		case pod.Spec.NodeName != "", claim.CreationTimestamp.Before(&pod.CreationTimestamp):
		case found == nil || claim.CreationTimestamp.Before(&found.CreationTimestamp):
			found = claim
		}
	}
	return found
}

// Causes is what may keep a pool from launching a node.
type Causes struct {
	// Pool is the NodePool, and Class its EC2NodeClass; nil if it does not exist.
	Pool, Class *plan.Object
	// Launch is why the newest launch failed, and Schedule Karpenter's message why the pod fits on no node it could
	// launch; empty if it did not.
	Launch, Schedule string
	// Join is why the launched instance does not become a node, and Wait why the pod does not run on the node; empty if
	// nothing is known, or if both take no longer than usual.
	Join, Wait string
}

// Blocked returns why no pod runs on a node of the pool; empty if no cause is known.
func Blocked(c Causes) string {
	if c.Class == nil {
		return "its EC2NodeClass does not exist"
	}
	for _, object := range []*plan.Object{c.Class, c.Pool} {
		if ready := cluster.Ready(object); !ready.Ready {
			return object.GetKind() + "/" + object.GetName() + " is not Ready: " + ready.Message
		}
	}
	return cmp.Or(c.Launch, c.Schedule, c.Join, c.Wait)
}

// OfPool returns the part of Karpenter's message about an unschedulable pod that is about one NodePool; the whole
// message if no part names it. Each NodePool's error ends with the name of the pool (PodFailedToScheduleEvent and
// addToNewNodeClaim in sigs.k8s.io/karpenter pkg/controllers/provisioning/scheduling, 1.15.0).
func OfPool(message, pool string) string {
	for part := range strings.SplitSeq(strings.TrimPrefix(message, "Failed to schedule pod, "), "; ") {
		if strings.Contains(part, "NodePool="+pool+",") || strings.Contains(part, "NodePool="+pool+")") {
			return part
		}
	}
	return message
}

// scheduling returns Karpenter's newest message why it can launch no node for a pod; empty if it has sent none.
func scheduling(events []corev1.Event) string {
	events = slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool {
		return e.Reason != "FailedScheduling" || e.Source.Component != "karpenter" && e.ReportingController != "karpenter"
	})
	if len(events) == 0 {
		return ""
	}
	return slices.MaxFunc(events, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) }).Message
}
