package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// MoverKind is what could replace nodes, as one word.
type MoverKind string

// The kinds of Movers.
const (
	MoverDrift         MoverKind = "Drift"
	MoverAMI           MoverKind = "UnpinnedAMI"
	MoverExpiry        MoverKind = "Expiry"
	MoverConsolidation MoverKind = "Consolidation"
	MoverHeld          MoverKind = "HeldChange"
	MoverPending       MoverKind = "PendingCommit"
	MoverUpgrade       MoverKind = "PendingUpgrade"
	MoverRemoval       MoverKind = "Removal"
	MoverTerminating   MoverKind = "Terminating"
)

// Mover is something known that could replace or terminate nodes within a period.
type Mover struct {
	Kind MoverKind `json:"kind"`
	// Object is the NodePool, EC2NodeClass or NodeSync that it is about, as Kind/name.
	Object string `json:"object"`
	// Nodes is how many nodes at most; 0 if that is unknown.
	Nodes int `json:"nodes,omitempty"`
	// From is when it can begin at the earliest.
	From    time.Time `json:"from"`
	Message string    `json:"message"`
	Fix     string    `json:"fix,omitempty"`
}

// Freeze is a period in which nodes are to stay, and what is known of the cluster.
type Freeze struct {
	Now, Until time.Time
	Live       Live
	// Expires is when NodeClaims expire; those without expireAfter are missing.
	Expires map[types.UID]time.Time
	Syncs   []v1alpha1.NodeSync
	// calendars are those of Syncs.
	calendars map[Owner]Calendar
}

// Movers returns everything known that could replace or terminate nodes in the period, sorted by kind and object. Disruption
// budgets and the calendars of NodeSyncs that exclude a cause for the whole period are taken into account. Unknown are new
// commits, and what AWS or people do: Spot interruptions, for example. The error is an *InvalidCalendarError.
func (f Freeze) Movers() ([]Mover, error) {
	f.calendars = map[Owner]Calendar{}
	var movers []Mover
	for i := range f.Syncs {
		sync := &f.Syncs[i]
		calendar, err := CalendarOf(sync.Spec.Guard, f.Now)
		if err != nil {
			return nil, fmt.Errorf("nodesync %s/%s: %w", sync.Namespace, sync.Name, err)
		}
		f.calendars[OwnerOf(sync.Namespace, sync.Name)] = calendar
		movers = append(movers, f.ofSync(sync, calendar)...)
	}
	outdated := f.outdated()
	for _, object := range f.Live.OfKind(render.NodePool) {
		pool, err := typed[karpv1.NodePool](object)
		if err != nil {
			return nil, err
		}
		movers = append(movers, f.ofPool(NewObject(object), pool, outdated[pool.Name])...)
	}
	slices.SortStableFunc(movers, func(a, b Mover) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	return movers, nil
}

// open returns the first time in the period at which a calendar is open; false if there is none.
func (f Freeze) open(c Calendar) (time.Time, bool) {
	closed := c.At(f.Now)
	if closed.By == "" {
		return f.Now, true
	}
	return closed.Until, !closed.Until.IsZero() && closed.Until.Before(f.Until)
}

// ofSync returns what a NodeSync has begun, or waits to begin.
func (f Freeze) ofSync(sync *v1alpha1.NodeSync, calendar Calendar) (movers []Mover) {
	name := "nodesync/" + sync.Name
	for _, r := range sync.Status.Removals {
		movers = append(movers, Mover{
			Kind: MoverRemoval, Object: name, Nodes: int(r.Remaining), From: f.Now,
			Message: fmt.Sprintf("%s removes %s/%s, which has %s left",
				name, r.Kind, r.Name, english.Plural(int(r.Remaining), "node", "")),
			Fix: "wait until the removal is complete, or add the entry to Git again",
		})
	}
	from, open := f.open(calendar)
	if !open || sync.Spec.Suspend {
		return movers // nothing begins in the period
	}
	if held := sync.Status.Held; held != nil {
		movers = append(movers, Mover{
			Kind: MoverHeld, Object: name, Nodes: int(held.Nodes), From: from,
			Message: fmt.Sprintf("%s holds a change that an approval releases: %s", name, held.Summary),
			Fix:     "revert the commit, or add the period to spec.guard.freeze",
		})
	}
	if s := &sync.Status; s.LastAttemptedRevision != "" && s.LastAttemptedRevision != s.LastAppliedRevision && s.Held == nil {
		movers = append(movers, Mover{
			Kind: MoverPending, Object: name, From: from,
			Message: fmt.Sprintf("%s has not applied %s completely yet", name, render.ShortRevision(s.LastAttemptedRevision)),
			Fix:     "wait until it is applied, revert the commit, or add the period to spec.guard.freeze",
		})
	}
	if k := sync.Status.Karpenter; k != nil && k.Target != nil && k.Target.Version != k.Version {
		movers = append(movers, Mover{
			Kind: MoverUpgrade, Object: name, From: from,
			Message: fmt.Sprintf("%s upgrades Karpenter %s to %s, or waits to (step %s): the new controller may find nodes drifted",
				name, k.Version, k.Target.Version, k.Target.Step),
			Fix: "wait until the upgrade is complete, revert its commit, or add the period to spec.guard.freeze",
		})
	}
	return movers
}

// outdated returns how many NodeClaims of each NodePool do not match their definitions, and the reason of the first.
func (f Freeze) outdated() map[string]Outdated {
	var definitions []*Object
	for _, object := range f.Live.Objects {
		if kind := object.GetKind(); kind == render.NodePool || kind == render.EC2NodeClass {
			definitions = append(definitions, object)
		}
	}
	found := map[string]Outdated{}
	match := Match{Exact: true, Since: f.Now, Memory: &MatchMemory{}, Live: f.Live}
	for _, one := range match.Outdated(definitions).Outdated {
		if _, known := found[one.Claim.Pool]; !known {
			found[one.Claim.Pool] = one
		}
	}
	return found
}

// ofPool returns what could replace or terminate the nodes of a NodePool. outdated is a node of it that does not match its
// definitions; empty if there is none.
func (f Freeze) ofPool(object *Object, pool *karpv1.NodePool, outdated Outdated) (movers []Mover) {
	n := f.count(pool.Name)
	if n.all == 0 {
		return nil
	}
	name := "NodePool/" + pool.Name
	add := func(kind MoverKind, count int, from time.Time, message, fix string) {
		if from.Before(f.Now) {
			from = f.Now
		}
		movers = append(movers, Mover{Kind: kind, Object: name, Nodes: count, From: from, Message: name + ": " + message, Fix: fix})
	}
	if n.deleting > 0 {
		add(MoverTerminating, n.deleting, f.Now, english.Plural(n.deleting, "node is", "nodes are")+" being terminated now", "")
	}
	if n.expiring > 0 {
		add(MoverExpiry, n.expiring, n.expires, fmt.Sprintf("%s until %s, whatever the disruption budgets allow; the first one at %s",
			english.Plural(n.expiring, "node expires", "nodes expire"), ClockTime(f.Until, f.Now), ClockTime(n.expires, f.Now)),
			"replace these nodes before, or raise expireAfter and then replace them")
	} else if after := pool.Spec.Template.Spec.ExpireAfter.Duration; after != nil && *after < f.Until.Sub(f.Now) {
		add(MoverExpiry, 0, f.Now.Add(*after),
			fmt.Sprintf("expireAfter is %s: each node that is launched now expires in the period", Short(*after)), "raise expireAfter")
	}
	f.byDrift(object, pool, n, outdated, add)
	f.byConsolidation(pool, n.all-n.deleting, add)
	return movers
}

// freezeCount is how many NodeClaims a NodePool has, how many of these are being deleted, and how many of the others are
// drifted, or expire in the period: the first one at expires.
type freezeCount struct {
	all, deleting, drifted, expiring int
	expires                          time.Time
}

// count counts the NodeClaims of a NodePool.
func (f Freeze) count(pool string) (n freezeCount) {
	for i := range f.Live.NodeClaims {
		c := &f.Live.NodeClaims[i]
		if c.Pool != pool {
			continue
		}
		n.all++
		if c.Deleting {
			n.deleting++
			continue
		}
		if c.Drifted {
			n.drifted++
		}
		if at, expires := f.Expires[c.UID]; expires && at.Before(f.Until) {
			if n.expiring++; n.expires.IsZero() || at.Before(n.expires) {
				n.expires = at
			}
		}
	}
	return n
}

type addMover func(kind MoverKind, nodes int, from time.Time, message, fix string)

// byDrift adds node drift, now and by an AMI that AWS or others publish, if disruption budgets and the calendar allow the
// replacement of a drifted node in the period.
func (f Freeze) byDrift(object *Object, pool *karpv1.NodePool, n freezeCount, outdated Outdated, add addMover) {
	from, allowed := f.allows(object, pool, karpv1.DisruptionReasonDrifted, n.all)
	if !allowed {
		return
	}
	const fix = "wait until they are replaced, or set a disruption budget of 0 for reason Drifted"
	switch {
	case n.drifted > 0:
		add(MoverDrift, n.drifted, from,
			english.Plural(n.drifted, "node is", "nodes are")+" Drifted, and disruption budgets allow a replacement", fix)
	case outdated.Claim != nil:
		add(MoverDrift, n.all, from, "nodes do not match their definitions ("+outdated.Reason+"), and Karpenter will find them Drifted", fix)
	}
	live := f.Live.object(classOf(object.Unstructured))
	if live == nil {
		return
	}
	class, err := typed[awsv1.EC2NodeClass](live.Unstructured)
	if err != nil {
		return // Karpenter cannot read it either
	}
	if terms := unpinned(class); len(terms) > 0 {
		add(MoverAMI, n.all, from,
			fmt.Sprintf("EC2NodeClass/%s selects AMIs by %s: a new AMI makes all nodes drift", class.Name, strings.Join(terms, ", ")),
			"pin the AMI: an alias with a version, or an id")
	}
}

// unpinned returns the AMI selector terms of a class that another AMI may match later.
func unpinned(class *awsv1.EC2NodeClass) (terms []string) {
	for _, term := range class.Spec.AMISelectorTerms {
		switch {
		case term.ID != "":
		case term.Alias != "":
			if strings.HasSuffix(term.Alias, "@latest") {
				terms = append(terms, "alias "+term.Alias)
			}
		case term.SSMParameter != "":
			terms = append(terms, "ssmParameter "+term.SSMParameter)
		case term.Name != "":
			terms = append(terms, "name "+term.Name)
		default:
			terms = append(terms, "tags")
		}
	}
	return terms
}

// byConsolidation adds Karpenter's consolidation of empty and underutilized nodes, if disruption budgets allow it in the
// period. No calendar of a NodeSync holds it.
func (f Freeze) byConsolidation(pool *karpv1.NodePool, nodes int, add addMover) {
	spec := pool.Spec.Disruption
	if pool.Spec.Replicas != nil || spec.ConsolidateAfter.Duration == nil || nodes == 0 {
		return
	}
	reasons := []karpv1.DisruptionReason{karpv1.DisruptionReasonEmpty}
	if spec.ConsolidationPolicy != karpv1.ConsolidationPolicyWhenEmpty {
		reasons = append(reasons, karpv1.DisruptionReasonUnderutilized)
	}
	var open []string
	var first time.Time
	for _, reason := range reasons {
		if from, allowed := f.allowedByBudgets(pool, reason, nodes, f.Now); allowed {
			if open = append(open, string(reason)); first.IsZero() || from.Before(first) {
				first = from
			}
		}
	}
	if len(open) > 0 {
		add(MoverConsolidation, nodes, first, "Karpenter may consolidate nodes for reason "+strings.Join(open, " or "),
			"set a disruption budget of 0 for these reasons, or consolidateAfter: Never")
	}
}

// allows returns the first time in the period at which Karpenter may disrupt a node of a NodePool for drift: the budgets
// allow it, and the calendar of the NodeSync that owns the pool is open. While the calendar is closed, plumbline sets a
// budget of 0, which it removes when the calendar opens.
func (f Freeze) allows(object *Object, pool *karpv1.NodePool, reason karpv1.DisruptionReason, nodes int) (time.Time, bool) {
	owner, owned := OwnerNamed(object)
	calendar, known := f.calendars[owner]
	if !owned || !known {
		return f.allowedByBudgets(pool, reason, nodes, f.Now)
	}
	open, opens := f.open(calendar)
	if !opens {
		return time.Time{}, false
	}
	if open.After(f.Now) {
		without, err := typed[karpv1.NodePool](unbraked(object.Unstructured))
		if err != nil {
			return open, true
		}
		pool = without
	}
	return f.allowedByBudgets(pool, reason, nodes, open)
}

// allowedByBudgets returns the first time from a time on at which the disruption budgets allow a node; false if there is
// none in the period. If not all of the period can be searched, they count as open.
func (f Freeze) allowedByBudgets(pool *karpv1.NodePool, reason karpv1.DisruptionReason, nodes int, from time.Time) (time.Time, bool) {
	b, err := readBudgets(pool, nodes, reason)
	if err != nil {
		return time.Time{}, false // Karpenter disrupts nothing
	}
	if b.allowedAt(from) > 0 {
		return from, true
	}
	turns, whole := b.changeTimes(from, f.Until.Sub(from))
	for _, turn := range turns {
		if turn.Before(f.Until) && b.allowedAt(turn) > 0 {
			return turn, true
		}
	}
	return from, !whole
}
