package recorder

import (
	"cmp"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Cause is why a NodeClaim was terminated.
type Cause string

// The causes. Drifted, Empty and Underutilized are Karpenter's own terms.
const (
	// Drifted: it no longer matched its NodePool or EC2NodeClass.
	Drifted Cause = "Drifted"
	// Empty: it had no pods, and was consolidated.
	Empty Cause = "Empty"
	// Underutilized: its pods could run elsewhere, or on a cheaper node.
	Underutilized Cause = "Underutilized"
	// Expired: it was older than its expireAfter.
	Expired Cause = "Expired"
	// Interrupted: AWS announced an interruption of the instance, or reported it as unhealthy.
	Interrupted Cause = "Interrupted"
	// Unhealthy: Karpenter's node repair.
	Unhealthy Cause = "Unhealthy"
	// Removed: plumbline removed its NodePool.
	Removed Cause = "Removed"
	// PoolDeleted: another client deleted its NodePool.
	PoolDeleted Cause = "PoolDeleted"
	// LaunchFailed: no instance was launched.
	LaunchFailed Cause = "LaunchFailed"
	// NotRegistered: its instance did not join the cluster in time.
	NotRegistered Cause = "NotRegistered"
	// InstanceGone: the instance was terminated in EC2 before Karpenter had drained its node.
	InstanceGone Cause = "InstanceGone"
	// ByHand: another client deleted it; neither Karpenter nor plumbline gives a reason.
	ByHand Cause = "ByHand"
	// Unknown: the observed facts do not show the cause.
	Unknown Cause = "Unknown"
)

// Facts are what was observed about the termination of a NodeClaim.
type Facts struct {
	Record
	// DisruptionReason is the reason of Karpenter's condition DisruptionReason if it is True, and DriftReason that of
	// the condition Drifted.
	DisruptionReason, DriftReason string
	// DriftInputs is that reason with the inputs whose change caused the drift, if no commit did and plumbline knows
	// them; otherwise empty. Image is its AMI.
	DriftInputs, Image string
	// Launching is the reason of the condition Launched if it is not True.
	Launching string
	// ExpireAfter is its own expireAfter; 0 means never.
	ExpireAfter time.Duration
	// Terminate is its annotation karpenter.sh/nodeclaim-termination-timestamp. Condition is the condition of its Node
	// for which Karpenter repairs nodes.
	Terminate time.Time
	Condition string
	// PoolGone reports whether its NodePool was gone or terminating when its deletion started. Static reports whether
	// the pool had replicas.
	PoolGone, Static bool
	// Removing is the revision of the removal of its pool, if the removal was terminating NodeClaims.
	Removing string
	// NodeGone reports whether its Node no longer existed when its deletion started: Karpenter then drains nothing.
	NodeGone bool
	// Events are the reasons of Karpenter's warnings about it. NoEvents reports whether they could not be read.
	Events   []string
	NoEvents bool
	// EC2 is EC2's response about its instance, if nothing else shows the cause.
	EC2 Answer
	// Missed reports whether its last changes were not observed.
	Missed bool
}

// rule is a row of the table: a cause, and the condition under which it applies.
type rule struct {
	cause Cause
	// source is the code in Karpenter or plumbline that does this.
	source string
	// applies returns the detail of the Record.
	applies func(Facts) (detail string, ok bool)
}

// The reasons of events with which Karpenter reports why it terminates a NodeClaim (karpenter-provider-aws
// pkg/controllers/interruption/events/events.go, sigs.k8s.io/karpenter pkg/events/reason.go).
const (
	terminatingOnInterruption = "TerminatingOnInterruption"
	instanceTerminating       = "InstanceTerminating"
	instanceStopping          = "InstanceStopping"
	insufficientCapacity      = "InsufficientCapacityError"
	nodeClassNotReady         = "NodeClassNotReady"
)

// interruptions are the events that name the kind of interruption.
var interruptions = []string{"SpotInterrupted", "CapacityReservationInstanceInterrupted", "InstanceUnhealthy"}

// How long Karpenter waits for an instance, and for its node (sigs.k8s.io/karpenter
// pkg/controllers/nodeclaim/lifecycle/liveness.go).
const (
	launchTimeout       = 5 * time.Minute
	registrationTimeout = 15 * time.Minute
)

// rules are checked in this order; the first that applies is the cause. The versions are sigs.k8s.io/karpenter and
// karpenter-provider-aws 1.14.1.
var rules = []rule{
	{InstanceGone, "karpenter-provider-aws pkg/controllers/interruption/utils.go: handleNodeClaim, after a state change of the instance", stateChanged},
	{Interrupted, "karpenter-provider-aws pkg/controllers/interruption/utils.go: deleteNodeClaim publishes TerminatingOnInterruption", interrupted},
	{Removed, "reconcile/removal/replacing.go", replacedByRemoval},
	{Drifted, "karpenter pkg/controllers/disruption/queue.go: markDisrupted, drift.go and staticdrift.go", disrupted(Drifted)},
	{Empty, "karpenter pkg/controllers/disruption/queue.go: markDisrupted, emptiness.go", disrupted(Empty)},
	{Underutilized, "karpenter pkg/controllers/disruption/queue.go: markDisrupted, singlenodeconsolidation.go and multinodeconsolidation.go", disrupted(Underutilized)},
	{Unhealthy, "karpenter 1.15.0 pkg/controllers/disruption/queue.go: markDisrupted, repair.go", disrupted(Unhealthy)},
	{Unknown, "karpenter pkg/controllers/disruption/queue.go: a reason of another release", func(f Facts) (string, bool) { return f.DisruptionReason, f.DisruptionReason != "" }},
	{Removed, "reconcile/removal/act.go", func(f Facts) (string, bool) { return "", f.Removing != "" }},
	{PoolDeleted, "kube-controller-manager's garbage collector, by ownerReference", func(f Facts) (string, bool) { return "", f.PoolGone }},
	{LaunchFailed, "karpenter pkg/controllers/nodeclaim/lifecycle/launch.go and liveness.go", launchFailed},
	{NotRegistered, "karpenter pkg/controllers/nodeclaim/lifecycle/liveness.go", func(f Facts) (string, bool) {
		return "", f.Instance != "" && f.Node == "" && f.age() >= registrationTimeout
	}},
	{Unhealthy, "karpenter pkg/controllers/node/health/controller.go: annotates, then deletes", func(f Facts) (string, bool) {
		return f.Condition, f.Condition != "" && f.terminatedImmediately()
	}},
	{Expired, "karpenter pkg/controllers/nodeclaim/expiration/controller.go", func(f Facts) (string, bool) {
		return "expireAfter " + f.ExpireAfter.String(), f.ExpireAfter > 0 && f.age() >= f.ExpireAfter
	}},
	// Karpenter terminates an instance only after Drained is True, with or without a grace period.
	{InstanceGone, "karpenter pkg/controllers/node/termination/controller.go: a node that is not Ready is drained no further where EC2 has no such instance", func(f Facts) (string, bool) {
		return "its EC2 instance no longer existed before the node was drained" + inBrackets(f.EC2.Code), f.Node != "" && !f.InstanceTerminating.IsZero() && f.Drained.IsZero() && !f.Missed && !f.nodeGoneWhileRunning()
	}},
	{InstanceGone, "EC2: StateTransitionReason, https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-instances-termination.html", endedBefore},
	{Unknown, "several causes are possible", ambiguous},
	{ByHand, "karpenter pkg/controllers/nodeclaim/lifecycle/controller.go: finalize sets InstanceTerminating before it removes its finalizer", func(f Facts) (string, bool) {
		return "its finalizer was removed: the instance may still run", !f.Gone.IsZero() && f.Instance != "" && f.InstanceTerminating.IsZero()
	}},
	{Unknown, "karpenter pkg/controllers/nodeclaim/garbagecollection/controller.go deletes what EC2 has ended, without a trace", func(f Facts) (string, bool) {
		return "EC2 does not report whether it terminated the instance before" + inBrackets(f.EC2.Code), !f.EC2.Ran && f.EC2.Began.IsZero()
	}},
	{ByHand, "karpenter pkg/controllers/nodeclaim/lifecycle/controller.go: finalize terminates the instance at once if there is no Node", func(f Facts) (string, bool) {
		return "its Node was already deleted", f.nodeGoneWhileRunning() && f.Drained.IsZero()
	}},
	{ByHand, "none of the above", func(Facts) (string, bool) { return "", true }},
}

// Judge returns why a NodeClaim was terminated.
func Judge(f Facts) (cause Cause, detail string) {
	for _, r := range rules {
		if detail, ok := r.applies(f); ok {
			return r.cause, detail
		}
	}
	return Unknown, ""
}

// age returns how old it was when its deletion started.
func (f Facts) age() time.Duration { return f.Deleted.Sub(f.Created.Time) }

// terminatedImmediately reports whether it was annotated for immediate termination when its deletion started, or
// before.
func (f Facts) terminatedImmediately() bool {
	return !f.Terminate.IsZero() && !f.Terminate.After(f.Deleted.Time)
}

// nodeGoneWhileRunning reports whether its Node was gone while its instance ran: the missing drain then proves nothing
// about the instance.
func (f Facts) nodeGoneWhileRunning() bool {
	return f.NodeGone && (f.EC2.Ran || !f.EC2.Began.IsZero() && !f.EC2.Began.Before(f.Deleted.Time))
}

func (f Facts) has(event string) bool { return slices.Contains(f.Events, event) }

// stateChanged applies if a state change of the instance made Karpenter delete the NodeClaim. Each instance that
// Karpenter terminates is reported as terminating, too, so that event is not enough.
func stateChanged(f Facts) (string, bool) {
	if !f.has(terminatingOnInterruption) || slices.ContainsFunc(interruptions, f.has) {
		return "", false
	}
	for _, event := range []string{instanceTerminating, instanceStopping} {
		if f.has(event) {
			return event, true
		}
	}
	return "", false
}

func interrupted(f Facts) (string, bool) {
	for _, event := range interruptions {
		if f.has(event) && f.has(terminatingOnInterruption) {
			return event, true
		}
	}
	return "", f.has(terminatingOnInterruption)
}

// disrupted applies to a reason of Karpenter's disruption, and returns the reason of the drift.
func disrupted(cause Cause) func(Facts) (string, bool) {
	return func(f Facts) (string, bool) {
		if f.DisruptionReason != string(cause) {
			return "", false
		}
		if cause == Drifted && f.DriftReason != karpv1.ConditionTypeDrifted {
			return cmp.Or(f.DriftInputs, f.DriftReason), true
		}
		return "", true
	}
}

// replacedByRemoval applies to a node that Karpenter replaced for a removal: it drifted because of the label that the
// removal has added to its NodePool's template.
func replacedByRemoval(f Facts) (string, bool) {
	return "", f.Removing != "" && f.DisruptionReason == string(Drifted) && f.DriftReason == "NodePoolDrifted"
}

func launchFailed(f Facts) (string, bool) {
	if f.Instance != "" {
		return "", false
	}
	for _, event := range []string{insufficientCapacity, nodeClassNotReady} {
		if f.has(event) {
			return event, true
		}
	}
	return f.Launching, f.age() >= launchTimeout
}

// endedBefore applies if EC2 had terminated the instance before its NodeClaim was deleted; its code shows who or what
// did. Karpenter terminates an instance only after the deletion.
func endedBefore(f Facts) (string, bool) {
	return "EC2 had already terminated the instance" + inBrackets(f.EC2.Code), !f.EC2.Began.IsZero() && f.EC2.Began.Before(f.Deleted.Time)
}

func inBrackets(code string) string {
	if code == "" {
		return ""
	}
	return " (" + code + ")"
}

// ambiguous applies to terminations that look the same whether Karpenter or another client started them.
func ambiguous(f Facts) (string, bool) {
	switch {
	case f.Missed:
		return "its termination was not observed", true
	case f.NoEvents:
		return "Karpenter's events could not be read", true
	case f.Instance == "":
		return "it had no instance yet", true
	case f.terminatedImmediately():
		return "it was annotated for immediate termination", true
	case f.Static:
		return "its NodePool is static: replicas were reduced, or it was deleted by hand", true
	}
	return "", false
}
