package removal

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Replacing is that a pool's template bears the label by which all its nodes have drifted, so that
// Karpenter replaces them, and how many it may.
type Replacing struct {
	// Nodes is how many it may be replacing at a time, and Until when that ends by itself.
	Nodes int
	Until time.Time
}

const (
	// lent is how long Karpenter may begin to replace nodes without a word from here: passes that
	// fail, a NodeSync that is suspended and a daemon that has gone end nothing for longer. renewed
	// is how long before its end it is lent again.
	lent    = 5 * time.Minute
	renewed = 2 * time.Minute
	// yearly is how long a budget is active that begins once a year. It ends before the next one
	// begins, so that it is not active until then.
	yearly = "8640h"
)

// drifted is the reason of the budgets that pace it.
const drifted = string(karpv1.DisruptionReasonDrifted)

// replacingOf reads it from a NodePool that lives.
func replacingOf(pool *unstructured.Unstructured, now time.Time) *Replacing {
	if !plan.Replaced(pool) {
		return nil
	}
	r := &Replacing{}
	for _, b := range plan.BudgetsOf(pool) {
		fields, ours := pacing(b)
		if !ours {
			continue
		}
		if schedule, has := fields["schedule"].(string); has {
			r.Until = begins(schedule, now)
		} else if n, err := strconv.Atoi(fmt.Sprint(fields["nodes"])); err == nil {
			r.Nodes = n
		}
	}
	return r
}

// pacing reports whether a disruption budget is one of those that pacedBudgets adds.
func pacing(budget any) (fields map[string]any, ours bool) {
	fields, _ = budget.(map[string]any)
	_, scheduled := fields["schedule"]
	return fields, reflect.DeepEqual(fields["reasons"], []any{drifted}) && (!scheduled || fields["duration"] == yearly || fields["duration"] == yearly+"0m0s")
}

// pacedBudgets are disruption budgets by which Karpenter replaces so many nodes at a time, until a time. Of
// Git's the scheduled ones stay as they are: they are windows. The others are for the other reasons
// only: removal.maxUnavailable sets how fast the nodes of a pool that leaves go.
func pacedBudgets(git []any, nodes int, until time.Time) []any {
	budgets := kept(git)
	if nodes > 0 {
		at := until.UTC()
		schedule := fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), int(at.Month()))
		budgets = append(budgets, map[string]any{"nodes": "0", "reasons": []any{drifted}, "schedule": schedule, "duration": yearly})
	}
	return append(budgets, map[string]any{"nodes": strconv.Itoa(nodes), "reasons": []any{drifted}})
}

// kept are Git's disruption budgets that stay.
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

// unpaced are the disruption budgets of a pool that lives without those that pacedBudgets adds.
func unpaced(live []any) []any {
	return slices.DeleteFunc(slices.Clone(live), func(b any) bool { _, ours := pacing(b); return ours })
}

// begins is the time of a schedule of pacedBudgets that is nearest to now.
func begins(schedule string, now time.Time) time.Time {
	var minute, hour, day, month int
	if _, err := fmt.Sscanf(schedule, "%d %d %d %d *", &minute, &hour, &day, &month); err != nil {
		return time.Time{}
	}
	var nearest time.Time
	for _, year := range []int{now.UTC().Year() - 1, now.UTC().Year(), now.UTC().Year() + 1} {
		at := time.Date(year, time.Month(month), day, hour, minute, 0, 0, time.UTC)
		if nearest.IsZero() || at.Sub(now).Abs() < nearest.Sub(now).Abs() {
			nearest = at
		}
	}
	return nearest
}

// closedBy names the scheduled budget that allows no replacement now; empty if none is in the way.
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

// drifting reports whether Karpenter may still take nodes for drifted that only the removal had made drift.
func (o Observation) drifting(r v1alpha1.Removal) bool {
	return o.Replacing != nil || slices.ContainsFunc(o.untouched(), func(c Claim) bool { return c.Drifted.After(r.RecordedAt.Time) })
}

// replaces reports whether Karpenter replaces the nodes of the pool, as it leaves: it has a place for their
// pods, and can.
func (o Observation) replaces() bool {
	return o.Turn.Replaces && o.alive() && !o.Static && !o.Crowded
}

// leaving reports whether a NodeClaim ends, or that Karpenter replaces it.
func (c Claim) leaving() bool { return !c.Deleting.IsZero() || !c.Replacing.IsZero() }

// disrupting is how many nodes Karpenter counts against the pool's budgets: NodeClaims without a node it
// does not count (BuildDisruptionBudgetMapping in sigs.k8s.io/karpenter
// pkg/controllers/disruption/helpers.go).
func (o Observation) disrupting() int {
	n := 0
	for _, c := range o.NodeClaims {
		if c.leaving() && !c.Ending && c.Node != "" {
			n++
		}
	}
	return n
}

// granted is how many more nodes Karpenter may begin to replace.
func (o Observation) granted() int {
	if o.Replacing == nil {
		return 0
	}
	return max(0, min(o.Replacing.Nodes-o.disrupting(), len(o.untouched())))
}

// untouched are the NodeClaims that neither end nor are replaced.
func (o Observation) untouched() []Claim {
	return slices.DeleteFunc(slices.Clone(o.NodeClaims), Claim.leaving)
}

// idle is how long nothing has moved where Karpenter could replace nodes until what it cannot
// replace is looked for.
const idle = 30 * time.Second

// idles reports whether Karpenter could replace nodes and has not begun for a while.
func (o Observation) idles(r v1alpha1.Removal, now time.Time) bool {
	return o.Replacing != nil && o.replaces() && o.disrupting() == 0 && now.Sub(r.LastProgress.Time) >= idle
}

// replace has Karpenter replace nodes, as many as it is the removal's turn to. What it cannot
// replace ends without: NodeClaims without a node first, since they have no pods, and last those
// that keep it: their pods may not be disrupted, or may run in this pool only.
func (s step) replace(r v1alpha1.Removal, o Observation, now time.Time) step {
	left := o.untouched()
	bare := slices.DeleteFunc(slices.Clone(left), func(c Claim) bool { return c.Node != "" })
	switch {
	case o.Turn.Ends == 0:
		if s = s.recall(o); o.Turn.Behind != "" {
			s.reason, s.message = ReasonTurnPending, "waiting for the NodeClaims of "+o.Turn.Behind+": removal.maxUnavailable is shared by all removals"
		} else if words := o.replacedBefore(bare); words != "" {
			s.message += ": " + words
		}
	case len(left) == 0:
	case len(bare) > 0 && o.lends():
		return s.recall(o) // Karpenter does not count them
	case len(bare) > 0:
		return s.ends(o, bare)
	case o.isLeased(now) && !o.idles(r, now):
	case !o.Fresh:
		s.actions = []Action{Reread{}}
	case o.Pods == nil:
		s.actions = []Action{ReadPods{Nodes: nodesOf(left[:min(len(left), endsAtOnce)])}}
	case o.Pods.Waiting != "":
		s = s.recall(o)
		s.reason, s.message = ReasonPodsPending, o.Pods.Waiting
	default:
		return s.grant(r, o, left, now)
	}
	return s
}

// replacedBefore names a node that Karpenter had begun to replace before the pool was to leave, while NodeClaims of that
// have no node: it gives such a replacement up after ten minutes at least (sigs.k8s.io/karpenter
// pkg/controllers/disruption/queue.go, minRetryDuration).
func (o Observation) replacedBefore(bare []Claim) string {
	i := slices.IndexFunc(o.NodeClaims, func(c Claim) bool { return c.Deleting.IsZero() && !c.Replacing.IsZero() })
	if i < 0 || len(bare) == 0 {
		return ""
	}
	return fmt.Sprintf("Karpenter is replacing node %s and waits for NodeClaim/%s to be initialized; it gives up after ten minutes or more", cmp.Or(o.NodeClaims[i].Node, o.NodeClaims[i].Name), bare[0].Name)
}

// lends reports whether Karpenter may replace nodes, and isLeased that it may as many as it is to, for a while.
func (o Observation) lends() bool { return o.Replacing != nil && o.Replacing.Nodes > 0 }

func (o Observation) isLeased(now time.Time) bool {
	return o.lends() && o.Replacing.Nodes == o.disrupting()+o.Turn.Ends && now.Before(o.Replacing.Until.Add(-renewed))
}

// recall has Karpenter begin to replace no more nodes.
func (s step) recall(o Observation) step {
	if o.lends() {
		s.actions = []Action{Replace{}}
	}
	return s
}

// grant lends Karpenter nodes to replace, and ends those that it cannot once it has replaced the
// others.
func (s step) grant(r v1alpha1.Removal, o Observation, left []Claim, now time.Time) step {
	looked := left[:min(len(left), endsAtOnce)]
	staying := slices.DeleteFunc(slices.Clone(looked), func(c Claim) bool { return !o.stays(c, r.Name) })
	waits := o.idles(r, now)
	if len(staying) > 0 && (len(staying) == len(left) || waits) {
		if o.lends() {
			return s.recall(o) // it may begin another one meanwhile
		}
		return s.ends(o, staying)
	}
	if fits, lacks := o.fitting(looked[:1]); waits && fits == 0 {
		s.reason, s.message = ReasonSuccessorMissing, lacking(looked[0], lacks, o)
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
	s.actions, s.moves = append(s.actions, Replace{Nodes: o.disrupting() + o.Turn.Ends}), !o.lends()
	return s
}

// stays reports whether Karpenter can replace a node by no means: a pod on it may not be disrupted, or
// may run nowhere else, or it lacks the hash by which Karpenter finds that it has drifted.
func (o Observation) stays(c Claim, pool string) bool {
	bound, stays := o.Pods.Stays[c.Node]
	return c.Unhashed || stays && (bound == "" || bound == pool)
}

// lacking says of which resource there is too little for the pods of a node.
func lacking(c Claim, resource corev1.ResourceName, o Observation) string {
	return fmt.Sprintf("%[2]s insufficient for the pods of node %[1]s within the limits of %[3]s: increase spec.limits", c.Node, resource, o.Successor.Room.Pools)
}
