package removal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Replacing means that a pool's template has the label that makes all its nodes drift, so that Karpenter replaces them,
// and how many it may.
type Replacing struct {
	// Nodes is how many it may replace at a time. Until is when that expires.
	Nodes int
	Until time.Time
}

const (
	// leaseDuration is how long Karpenter may start to replace nodes without a renewal: if reconciles fail, the NodeSync
	// is suspended or the daemon is gone, it stops after at most that time. renewBefore is how long before the expiry the
	// budget is renewed.
	leaseDuration = 5 * time.Minute
	renewBefore   = 2 * time.Minute
)

// drifted is the reason in the budgets that set the pace.
const drifted = string(karpv1.DisruptionReasonDrifted)

// replacingOf reads it from a live NodePool.
func replacingOf(pool *unstructured.Unstructured, now time.Time) *Replacing {
	if !plan.Replaced(pool) {
		return nil
	}
	lease := plan.LeaseIn(plan.BudgetsOf(pool), now)
	return &Replacing{Nodes: lease.Nodes, Until: lease.Until}
}

// pacedBudgets returns disruption budgets with which Karpenter replaces a number of nodes at a time, until a time.
// Scheduled budgets from Git are unchanged: they are windows. The others are limited to the other reasons:
// removal.maxUnavailable sets how fast the nodes of a removed pool are replaced.
func pacedBudgets(git []any, nodes int, until time.Time) []any {
	return append(kept(git), plan.Lease{Nodes: nodes, Until: until}.Budgets()...)
}

// kept returns the disruption budgets from Git that remain. One without reasons is limited to those that all versions of
// the CRD accept: the reason Unhealthy, which Karpenter 1.15 has added, would be rejected by older CRDs, and by those of
// EKS Auto Mode. So Karpenter may repair unhealthy nodes of a removed pool without a limit.
func kept(git []any) []any {
	var budgets []any
	for _, b := range git {
		fields, _ := b.(map[string]any)
		if _, scheduled := fields["schedule"]; scheduled {
			budgets = append(budgets, b)
			continue
		}
		others := []any{string(karpv1.DisruptionReasonEmpty), string(karpv1.DisruptionReasonUnderutilized)}
		if reasons, some := fields["reasons"].([]any); some {
			others = slices.DeleteFunc(slices.Clone(reasons), func(r any) bool { return r == any(drifted) })
		}
		if len(others) > 0 {
			budgets = append(budgets, map[string]any{"nodes": fields["nodes"], "reasons": others})
		}
	}
	return budgets
}

// unpaced returns the live disruption budgets of a pool without those that pacedBudgets adds.
func unpaced(live []any) []any {
	return slices.DeleteFunc(slices.Clone(live), func(b any) bool { _, ours := plan.OfLease(b); return ours })
}

// closedBy names the scheduled budget that allows no replacement now; empty if there is none.
func closedBy(git []any, now time.Time) string {
	for _, b := range git {
		fields, _ := b.(map[string]any)
		schedule, scheduled := fields["schedule"].(string)
		nodes := strings.TrimSuffix(fmt.Sprint(fields["nodes"]), "%")
		if !scheduled || nodes != "0" {
			continue
		}
		reasons, some := fields["reasons"].([]any)
		if some && !slices.Contains(reasons, any(drifted)) {
			continue
		}
		if plan.BudgetActive(fields, now) {
			return fmt.Sprintf("its disruption budget of 0 nodes (schedule %q for %v) is active", schedule, fields["duration"])
		}
	}
	return ""
}

// drifting reports whether Karpenter may still consider nodes drifted only because of the removal.
func (o Observation) drifting(r v1alpha1.Removal) bool {
	return o.Replacing != nil || slices.ContainsFunc(o.untouched(), func(c Claim) bool { return c.Drifted.After(r.RecordedAt.Time) })
}

// replaces reports whether Karpenter replaces the nodes of the removed pool: their pods can run elsewhere, and the pool
// supports it.
func (o Observation) replaces() bool {
	return o.Turn.Replaces && o.alive() && !o.Static && !o.BudgetsFull
}

// leaving reports whether a NodeClaim is terminating, or Karpenter is replacing it.
func (c Claim) leaving() bool { return !c.Deleting.IsZero() || !c.Replacing.IsZero() }

// disrupting returns how many nodes Karpenter counts against the pool's budgets. It does not count NodeClaims without a
// node (BuildDisruptionBudgetMapping in sigs.k8s.io/karpenter pkg/controllers/disruption/helpers.go).
func (o Observation) disrupting() int {
	n := 0
	for _, c := range o.NodeClaims {
		if c.leaving() && !c.TerminationAccepted && c.Node != "" {
			n++
		}
	}
	return n
}

// granted returns how many more nodes Karpenter may start to replace.
func (o Observation) granted() int {
	if o.Replacing == nil {
		return 0
	}
	return max(0, min(o.Replacing.Nodes-o.disrupting(), len(o.untouched())))
}

// untouched returns the NodeClaims that are neither terminating nor being replaced.
func (o Observation) untouched() []Claim {
	return slices.DeleteFunc(slices.Clone(o.NodeClaims), Claim.leaving)
}

// idleTimeout is how long Karpenter may make no progress while it could replace nodes, before the nodes that it cannot
// replace are handled.
const idleTimeout = 30 * time.Second

// isIdle reports whether Karpenter could replace nodes and has not started for a while.
func (o Observation) isIdle(r v1alpha1.Removal, now time.Time) bool {
	return o.Replacing != nil && o.replaces() && o.disrupting() == 0 && now.Sub(r.LastProgress.Time) >= idleTimeout
}

// replaceNodes lets Karpenter replace nodes, as many as the removal's turn allows. Nodes that it cannot replace are
// terminated without replacement: first NodeClaims without a node, since they have no pods, and last those whose pods
// must not be disrupted or may run only in this pool.
func (s step) replaceNodes(r v1alpha1.Removal, o Observation, now time.Time) step {
	left := o.untouched()
	bare := slices.DeleteFunc(slices.Clone(left), func(c Claim) bool { return c.Node != "" })
	switch {
	case o.Turn.Terminations == 0:
		if s = s.revokeReplacements(o); o.Turn.Behind != "" {
			s.reason, s.message = ReasonTurnPending, "waiting for the NodeClaims of "+o.Turn.Behind+": removal.maxUnavailable is shared by all removals"
		} else if words := o.replacedBefore(bare); words != "" {
			s.message += ": " + words
		}
	case len(left) == 0:
	case len(bare) > 0 && o.isGranted():
		return s.revokeReplacements(o) // Karpenter does not count them
	case len(bare) > 0:
		return s.terminateNext(o, bare)
	case o.isLeased(now) && !o.isIdle(r, now):
	case !o.Fresh:
		s.actions = []Action{Reread{}}
	case o.Pods == nil:
		s.actions = []Action{ReadPods{Nodes: nodesOf(left[:min(len(left), maxTerminatedAtOnce)])}}
	case o.Pods.Waiting != "":
		s = s.revokeReplacements(o)
		s.reason, s.message = ReasonPodsPending, o.Pods.Waiting
	default:
		return s.grantReplacements(r, o, left, now)
	}
	return s
}

// replacedBefore names a node that Karpenter had started to replace before the pool was removed, while NodeClaims of
// the pool have no node: Karpenter gives up such a replacement after ten minutes at the earliest (sigs.k8s.io/karpenter
// pkg/controllers/disruption/queue.go, minRetryDuration).
func (o Observation) replacedBefore(bare []Claim) string {
	i := slices.IndexFunc(o.NodeClaims, func(c Claim) bool { return c.Deleting.IsZero() && !c.Replacing.IsZero() })
	if i < 0 || len(bare) == 0 {
		return ""
	}
	return fmt.Sprintf("Karpenter is replacing node %s and waits for NodeClaim/%s to be initialized; it gives up after ten minutes or more",
		cmp.Or(o.NodeClaims[i].Node, o.NodeClaims[i].Name), bare[0].Name)
}

// isGranted reports whether Karpenter may replace nodes. isLeased reports whether it may replace as many as it should,
// for long enough.
func (o Observation) isGranted() bool { return o.Replacing != nil && o.Replacing.Nodes > 0 }

func (o Observation) isLeased(now time.Time) bool {
	return o.isGranted() && o.Replacing.Nodes == o.disrupting()+o.Turn.Terminations && now.Before(o.Replacing.Until.Add(-renewBefore))
}

// revokeReplacements stops Karpenter from starting to replace more nodes.
func (s step) revokeReplacements(o Observation) step {
	if o.isGranted() {
		s.actions = []Action{Replace{}}
	}
	return s
}

// grantReplacements lets Karpenter replace nodes, and once it has replaced these, terminates those that it cannot
// replace.
func (s step) grantReplacements(r v1alpha1.Removal, o Observation, left []Claim, now time.Time) step {
	looked := left[:min(len(left), maxTerminatedAtOnce)]
	staying := slices.DeleteFunc(slices.Clone(looked), func(c Claim) bool { return !o.cannotReplace(c, r.Name) })
	waits := o.isIdle(r, now)
	if len(staying) > 0 && (len(staying) == len(left) || waits) {
		if o.isGranted() {
			return s.revokeReplacements(o) // it may start another replacement meanwhile
		}
		return s.terminateNext(o, staying)
	}
	if fits, lacks := o.fitting(looked[:1]); waits && fits == 0 {
		s.reason, s.message = ReasonSuccessorMissing, insufficientFor(looked[0], lacks, o)
		return s
	}
	if o.isLeased(now) {
		return s
	}
	if o.Full != "" {
		s.reason, s.message = ReasonRecordFull, "waiting for the removal of "+o.Full+" or another NodePool: the record of removals cannot hold more disruption budgets"
		return s
	}
	if len(o.Pods.Workloads) > 0 || o.Budgets != nil {
		s.actions = []Action{Note{Workloads: o.Pods.Workloads, Budgets: o.Budgets}}
	}
	s.phase = v1alpha1.RemovalDraining
	s.actions, s.moves = append(s.actions, Replace{Nodes: o.disrupting() + o.Turn.Terminations}), !o.isGranted()
	return s
}

// cannotReplace reports whether Karpenter can never replace a node: a pod on it must not be disrupted, or may run
// nowhere else, or its NodeClaim has no hash, which Karpenter needs to detect drift.
func (o Observation) cannotReplace(c Claim, pool string) bool {
	bound, stays := o.Pods.Stays[c.Node]
	return c.Unhashed || stays && (bound == "" || bound == pool)
}

// insufficientFor says which resource is insufficient for the pods of a node.
func insufficientFor(c Claim, resource corev1.ResourceName, o Observation) string {
	return fmt.Sprintf("%[2]s insufficient for the pods of node %[1]s within the limits of %[3]s: increase spec.limits",
		c.Node, resource, o.Successor.Room.Pools)
}
