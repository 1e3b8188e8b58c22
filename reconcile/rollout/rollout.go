package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Settles is how long after a change Karpenter may find nodes outdated that nothing else can predict: it checks each
// NodeClaim every five minutes (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/disruption/drift.go).
const Settles = 6 * time.Minute

// Outdating is the effect on nodes of the Changes that are written, or wait to be written.
type Outdating struct {
	// Claims are the NodeClaims that the Changes outdate, and Unnamed is the number of others.
	Claims  map[types.UID]bool
	Unnamed int
	// Expected are those of Claims that Karpenter finds when it next checks them, each with the possible
	// reasons.
	Expected map[types.UID][]string
	// Reselected are the EC2NodeClasses, by name, whose selectors are written, with Karpenter's reasons that depend
	// on these: what was expected from the previous selectors no longer applies.
	Reselected map[string][]string
	// UpTo reports whether AWS decides which nodes are outdated. Images reports whether Karpenter knows as soon as it
	// has looked up the AMIs.
	UpTo, Images bool
	// Unhashed are the definitions, as Kind/name, whose hash the Changes alter, while some of their NodeClaims
	// may have none.
	Unhashed []string
	// Committed reports whether a commit requests a Change; it is false if the Changes only revert those of another
	// client.
	Committed bool
	// Static are the static NodePools that are written, by name, and whether a commit writes them.
	Static map[string]bool
}

// OutdatedBy returns the effect of some Changes on nodes.
func OutdatedBy(changes []plan.Change) Outdating {
	o := Outdating{Claims: map[types.UID]bool{}}
	for i := range changes {
		c := &changes[i]
		o.writes(c)
		o.reselect(c)
		if !c.Action.Writes() || c.Nodes == 0 || c.Effect != plan.EffectReplace && c.Effect != plan.EffectDrain {
			continue
		}
		o.Committed = o.Committed || !c.Drift && !c.Rescue
		if c.Uncomparable() {
			o.Unhashed = append(o.Unhashed, c.Ref.String())
		}
		if c.UpTo {
			// If Karpenter has a reason, it is still unknown for which nodes. If it has none,
			// as with wider budgets, the nodes are outdated already.
			images := c.ByImages()
			o.Images, o.UpTo = o.Images || images, o.UpTo || len(c.DriftReasons) > 0 && !images
			continue
		}
		claims := c.NodeClaims()
		for _, uid := range claims {
			o.Claims[uid] = true
			o.expect(c, uid)
		}
		o.Unnamed += c.Nodes - len(claims)
	}
	return o
}

// expect records a NodeClaim that AWS reports as outdated; no definition shows it.
func (o *Outdating) expect(c *plan.Change, uid types.UID) {
	reasons := c.Resolves()
	if len(reasons) == 0 {
		return
	}
	if o.Expected == nil {
		o.Expected = map[types.UID][]string{}
	}
	o.Expected[uid] = reasons
}

// reselect records the selectors that a Change writes.
func (o *Outdating) reselect(c *plan.Change) {
	reasons := c.Reselects()
	if !c.Action.Writes() || len(reasons) == 0 {
		return
	}
	if o.Reselected == nil {
		o.Reselected = map[string][]string{}
	}
	o.Reselected[c.Ref.Name] = reasons
}

// Any reports whether there are such nodes, or may be.
func (o Outdating) Any() bool { return len(o.Claims)+o.Unnamed > 0 || o.UpTo || o.Images }

// Seen is the input from which a Rollout is updated.
type Seen struct {
	// Changes are the effect of what this reconcile writes.
	Changes Outdating
	// Matched contains the NodeClaims that do not match the live definitions, and Excess is how many a static
	// pool has above its replicas.
	plan.Matched
	Excess int
	// Pools are the NodePools that commits among the Changes write, directly or through their EC2NodeClass.
	Pools []string
	// Short are the static pools of Git that have fewer nodes than replicas, for any reason.
	Short []v1alpha1.StaticPool
	// Full are those that have exactly as many.
	Full []v1alpha1.StaticPool
	// Revision is the applied one, and Applied the one before it.
	Revision, Applied string
	Now               time.Time
	// Late is the revision that has outdated all of these nodes that the Changes do not, though none was known when it was
	// written, and LateFrom the one that was applied before it; both are empty if there is none.
	Late, LateFrom string
	// Unrecalled is, after a restart, of how many nodes it is unknown whether AWS had reported them as outdated.
	Unrecalled int
	// Expected reports whether AWS has reported nodes as outdated that Karpenter has not marked in time.
	Expected bool
	// Settled reports whether all nodes that AWS has reported as outdated are gone, and there are no others.
	Settled bool
	// Waves are the recorded states of the pools, and WatchFor is how long the workloads on new nodes are judged after the
	// last node is replaced; 0 without waves.
	Waves    []v1alpha1.PoolRollout
	WatchFor time.Duration
	// Unwatched is for how long nothing was judged, although it had to be.
	Unwatched time.Duration
}

// Roll updates a rollout from what is seen; it returns nil if each node matches.
func Roll(before *v1alpha1.Rollout, seen Seen) *v1alpha1.Rollout {
	outdated, draining, reasons := seen.count()
	outdated = seen.withUnknown(before, outdated)
	next := startOrContinue(before, seen, outdated)
	if next == nil {
		return nil
	}
	next.Unhashed = seen.unhashed(next)
	next.StaticPools = seen.awaited(before, next, outdated, draining)
	if outdated > 0 || !seen.onlyStatic(before, next) {
		next.SettlesAt = seen.settlesAt(before, next, outdated)
	}
	next.Pools = seen.pools(before, next)
	over := seen.over(next)
	done := over && outdated == 0
	watches := done && seen.watches(next)
	switch {
	case watches:
	case done:
		return nil
	case over && next.Revision != "" && !seen.commits(next):
		next = &v1alpha1.Rollout{Since: metav1.NewTime(seen.Now).Rfc3339Copy()} // its commit has none of the remaining nodes
	}
	if counted := next.Outdated == outdated && next.Draining == draining; !counted || filling(before, next) {
		next.LastProgress = metav1.NewTime(seen.Now).Rfc3339Copy()
	}
	next.Nodes, next.Outdated, next.Draining, next.Reasons = max(next.Nodes, outdated), outdated, draining, reasons
	if !watches {
		next.WatchUntil = nil
	}
	return next
}

// unhashed adds those of this commit to those of the rollout, if a commit has outdated its nodes.
func (s Seen) unhashed(of *v1alpha1.Rollout) []string {
	if of.Revision == "" {
		return of.Unhashed
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(of.Unhashed, s.Changes.Unhashed))))
}

// watches reports whether the workloads on the new nodes are still judged although no node is outdated any more: for a
// while, then until each wave is recorded as not bad, and as long as a condition of spec.rollout.holdWhile is true. Time in
// which nothing was judged is added.
func (s Seen) watches(of *v1alpha1.Rollout) bool {
	waved := slices.ContainsFunc(s.Waves, func(e v1alpha1.PoolRollout) bool { return e.Wave != nil })
	if !waved || s.WatchFor == 0 {
		return false
	}
	latest := metav1.NewTime(s.Now.Add(s.WatchFor)).Rfc3339Copy()
	switch until := of.WatchUntil; {
	case until == nil:
		of.WatchUntil = &latest
	case !slices.ContainsFunc(s.Waves, func(e v1alpha1.PoolRollout) bool { return !watched(e, *until) }):
		return false
	case s.Unwatched > 0 && until.Before(&latest):
		later := metav1.NewTime(until.Add(s.Unwatched)).Rfc3339Copy()
		if latest.Before(&later) {
			later = latest
		}
		of.WatchUntil = &later
	}
	return true
}

// watched reports whether a pool was watched until a time, and nothing is known to be bad; true if it is not in waves.
func watched(e v1alpha1.PoolRollout, until metav1.Time) bool {
	if e.Wave == nil {
		return true
	}
	bad := e.Reason == v1alpha1.BrakeFailedWave || e.Reason == v1alpha1.BrakeHeldByCondition
	return !bad && e.Wave.WatchedAt != nil && !e.Wave.WatchedAt.Before(&until)
}

// withUnknown adds to the nodes that are known to be outdated those of a rollout that are not known to match.
func (s Seen) withUnknown(before *v1alpha1.Rollout, outdated int32) int32 {
	if before == nil {
		return outdated
	}
	if before.Revision != "" && len(s.Changes.Unhashed) == 0 { // otherwise the Changes count these
		outdated += int32(len(s.Unknown))
	}
	if s.awaits() {
		return max(outdated, before.Outdated)
	}
	return max(outdated, min(before.Outdated, outdated+int32(s.Unrecalled)))
}

// pools returns the NodePools that the revision of a rollout changes. If the revision is new, pools of the previous one
// remain in which it has outdated nodes that are not replaced yet, or may have.
func (s Seen) pools(before, of *v1alpha1.Rollout) []string {
	if of.Revision == "" {
		return nil
	}
	all := slices.Clone(s.Pools)
	switch {
	case before == nil && s.Late != "":
		for _, o := range s.Outdated {
			all = append(all, o.Claim.Pool)
		}
	case before == nil || before.Revision == "":
	case len(before.Pools) == 0:
		return nil // a rollout of unknown pools continues
	case before.Revision == of.Revision:
		all = append(all, before.Pools...)
	case before.Settling(s.Now) || s.Unrecalled > 0 || len(s.Unresolved) > 0:
		all = append(all, before.Pools...) // it is unknown yet which of their nodes it has outdated
	default:
		for _, o := range s.Outdated {
			if slices.Contains(before.Pools, o.Claim.Pool) {
				all = append(all, o.Claim.Pool)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// commits reports whether the commit of a rollout has outdated any node that does not match, or may have.
func (s Seen) commits(of *v1alpha1.Rollout) bool {
	return s.Changes.Any() || s.Excess > 0 || s.Unrecalled > 0 || len(s.Unknown) > 0 ||
		slices.ContainsFunc(s.Outdated, func(o plan.Outdated) bool { return !uncommitted(of, o) })
}

// uncommitted reports whether no commit has outdated a node: AWS's answer has changed, for example for an alias, and
// the commit of the rollout changes neither its NodePool nor its EC2NodeClass.
func uncommitted(of *v1alpha1.Rollout, o plan.Outdated) bool {
	return of.Revision == "" || o.ByAWS() && !of.Changes(o.Claim.Pool)
}

// over reports whether a rollout without outdated nodes waits for nothing else.
func (s Seen) over(of *v1alpha1.Rollout) bool {
	settled := of.SettlesAt == nil || !s.Now.Before(of.SettlesAt.Time)
	return len(of.StaticPools) == 0 && !s.awaits() && settled
}

// settlesAt returns the time until which Karpenter may find nodes outdated that no object shows; nil if that time
// has passed, or there was none. This includes nodes that an earlier commit has outdated.
func (s Seen) settlesAt(before, of *v1alpha1.Rollout, outdated int32) *metav1.Time {
	asked := of.SettlesAt != nil && !of.SettlesAt.Time.Before(of.Since.Add(Settles))
	asks := s.Changes.UpTo || len(s.Changes.Expected) > 0 || s.Unsure && !asked
	switch {
	case s.Settled && outdated == 0:
		return nil
	case of.Revision != "" && asks:
		until := metav1.NewTime(s.Now.Add(Settles)).Rfc3339Copy()
		return &until
	case before.Settling(s.Now), before != nil && (s.Expected || s.Unrecalled > 0):
		return before.SettlesAt.DeepCopy()
	}
	return of.SettlesAt
}

// awaits reports whether Karpenter has yet to find out which nodes run an outdated AMI.
func (s Seen) awaits() bool { return s.Changes.Images || len(s.Unresolved) > 0 }

// startOrContinue returns the rollout that continues or starts: with a commit that outdates nodes, with nodes that no
// commit has outdated, or with a static pool that gets more nodes. It returns nil if there is none.
func startOrContinue(before *v1alpha1.Rollout, seen Seen, outdated int32) *v1alpha1.Rollout {
	now := metav1.NewTime(seen.Now).Rfc3339Copy()
	switch {
	case seen.Changes.Any() && seen.Changes.Committed && (before == nil || before.Revision != seen.Revision):
		next := &v1alpha1.Rollout{Revision: seen.Revision, From: seen.Applied, Since: now, LastProgress: now}
		if before != nil {
			next.Unhashed = before.Unhashed
		}
		if before != nil && before.Revision != "" && before.SettlesAt != nil {
			next.From = before.From // it may be unknown yet which nodes that rollout has outdated
		}
		return next
	case before != nil:
		return before.DeepCopy()
	case outdated > 0:
		return &v1alpha1.Rollout{Revision: seen.Late, From: seen.LateFrom, Since: now, LastProgress: now}
	}
	switch written, committed := seen.fillsStatic(); {
	case committed:
		return &v1alpha1.Rollout{Revision: seen.Revision, From: seen.Applied, Since: now, LastProgress: now}
	case written:
		return &v1alpha1.Rollout{Since: now, LastProgress: now}
	}
	return nil
}

// count returns the number of nodes that do not match, how many of them drain, and the reasons.
func (s Seen) count() (outdated, draining int32, reasons []string) {
	all := map[types.UID]bool{}
	for uid := range s.Changes.Claims {
		all[uid] = true
	}
	for _, o := range s.Outdated {
		all[o.Claim.UID] = true
		if o.Claim.Deleting {
			draining++
		}
		if !slices.Contains(reasons, o.Reason) {
			reasons = append(reasons, o.Reason)
		}
	}
	slices.Sort(reasons)
	return int32(len(all) + max(s.Changes.Unnamed, s.Excess)), draining, reasons
}

// excess returns how many nodes static pools have above their replicas, not counting outdated ones.
func excess(pools []Pool, claims []plan.NodeClaim, outdated []plan.Outdated) int {
	wanted := map[string]int{}
	for _, pool := range pools {
		if replicas, static := pool.replicas(); static {
			wanted[pool.Name] = int(replicas)
		}
	}
	if len(wanted) == 0 {
		return 0
	}
	is := map[types.UID]bool{}
	for _, o := range outdated {
		is[o.Claim.UID] = true
	}
	n := 0
	for i := range claims {
		c := &claims[i]
		if left, static := wanted[c.Pool]; static && !is[c.UID] {
			if left == 0 {
				n++
			}
			wanted[c.Pool] = max(0, left-1)
		}
	}
	return n
}

// slowDrain is the time after which a drain also reports the causes that each drain waits for briefly:
// a pod that terminates, an instance that is shutting down.
const slowDrain = 2 * time.Minute

// blockedDraining returns what blocks draining nodes, once the rollout makes no progress; empty if nothing is
// known to. While such a node exists it remains in the message, whatever other nodes do, and is diagnosed again. lasting
// are the NodePools of nodes whose cause does not pass by itself.
func (r *Rollouts) blockedDraining(ctx context.Context, of v1alpha1.Rollout, ending []*plan.NodeClaim) (words string, lasting []string) {
	m := r.Memory
	if m.blockedDrains != nil && !slices.ContainsFunc(ending, func(c *plan.NodeClaim) bool { return m.blockedDrains[c.UID] }) {
		m.blockedDrains, m.blocked, m.lasts = nil, "", false
	}
	if len(ending) == 0 {
		return "", nil
	}
	words = r.blocked(of, m.blockedDrains != nil, func() (words string, lasts bool) {
		words, m.blockedDrains, lasts = r.diagnose(ctx, ending)
		return words, lasts
	})
	for _, c := range ending {
		if m.lasts && m.blockedDrains[c.UID] {
			lasting = append(lasting, c.Pool)
		}
	}
	return words, lasting
}

// diagnose finds out what blocks the nodes that have been draining for longest, and which nodes these are. lasts reports
// whether any of that does not pass by itself.
func (r *Rollouts) diagnose(ctx context.Context, ending []*plan.NodeClaim) (words string, hanging map[types.UID]bool, lasts bool) {
	slices.SortFunc(ending, func(a, b *plan.NodeClaim) int {
		return cmp.Or(a.Deleted.Compare(b.Deleted), cmp.Compare(a.Name, b.Name))
	})
	oldest := map[string]*plan.NodeClaim{}
	var nodes []blocker.Node
	var failures []error
	for _, c := range ending[:min(blocker.Most, len(ending))] {
		n, err := r.nodeOf(ctx, c)
		if apierrors.IsNotFound(err) {
			continue // it was deleted meanwhile
		}
		oldest[c.Name], nodes, failures = c, append(nodes, n), append(failures, err)
	}
	if len(nodes) == 0 {
		return "", nil, false
	}
	found, err := r.blockerLook().At(ctx, nodes)
	var all []string
	for i := range found.Nodes {
		n := &found.Nodes[i]
		c := oldest[n.Claim]
		if what, passes := keeps(n, found, !r.Now.Before(c.Deleted.Add(slowDrain))); what != "" {
			lasts = lasts || !passes
			all = append(all, fmt.Sprintf("%s (node %s, NodeClaim/%s)", what, n.Title(), n.Claim))
			if hanging == nil {
				hanging = map[types.UID]bool{}
			}
			hanging[c.UID] = true
		}
	}
	if len(all) > 0 {
		return blocker.WaitsMessage(all), hanging, lasts
	}
	if err = errors.Join(append(failures, err)...); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Sprintf("read what keeps NodeClaim/%s: %s", nodes[0].Claim, first), nil, false
	}
	return "", nil, false
}

// keeps returns what blocks a node, and whether that passes by itself; it omits what each drain waits for, unless the
// drain is slow.
func keeps(n *blocker.Node, e blocker.Evidence, slow bool) (what string, passes bool) {
	var words, passing []string
	for _, c := range n.Causes(e) {
		if c.Passing {
			passing = append(passing, c.Short)
		} else {
			words = append(words, c.Short)
		}
	}
	if len(words) == 0 && slow {
		return finding.Few(passing, " and "), true
	}
	return finding.Few(words, " and "), false
}

// nodeOf returns the node of a NodeClaim, with its conditions if they can be read.
func (r *Rollouts) nodeOf(ctx context.Context, c *plan.NodeClaim) (blocker.Node, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Events.Get(ctx, client.ObjectKey{Name: c.Name}, claim); err != nil {
		return blocker.Node{Claim: c.Name, Name: c.Node, ProviderID: c.ProviderID}, err
	}
	return blocker.NodeOf(claim), nil
}

func (r *Rollouts) blockerLook() blocker.Look {
	look := blocker.Look{Reader: r.Events, Now: r.Now, DaemonSets: func(ctx context.Context) plan.DaemonSets {
		if r.DaemonSets == nil {
			return plan.DaemonSets{}
		}
		found, _ := r.DaemonSets(ctx, r.Live.NodeClaims)
		return found
	}}
	if r.EC2 != nil {
		look.Protected = func(ctx context.Context, providerID string) (bool, error) {
			ec2, err := r.EC2(ctx)
			if err != nil {
				return false, err
			}
			return ec2.TerminationProtected(ctx, providerID)
		}
	}
	return look
}

// Words returns how far a rollout has progressed, and what it waits for.
func Words(r v1alpha1.Rollout) string {
	words := Replaced(r)
	if r.Outdated > 0 {
		words += causes(r)
	}
	if r.Draining > 0 {
		words += fmt.Sprintf(", %d draining", r.Draining)
	}
	if short := StaticReady(r); short != "" && short != words {
		words += ", " + short
	}
	if r.Message != "" {
		words += ": " + r.Message
	}
	return words
}

// Replaced returns the number of replaced nodes: 1 of 2 nodes replaced.
func Replaced(r v1alpha1.Rollout) string {
	if short := StaticReady(r); short != "" && r.Nodes == 0 && r.SettlesAt == nil {
		return short
	}
	if r.Nodes == 0 {
		return "no outdated nodes found yet"
	}
	return fmt.Sprintf("%d of %d nodes replaced", r.Nodes-r.Outdated, r.Nodes)
}

// causes returns Karpenter's reasons, and notes if no commit of this NodeSync is the cause.
func causes(r v1alpha1.Rollout) string {
	why := strings.Join(r.Reasons, ", ")
	if r.Revision == "" {
		why = cmp.Or(why, "outdated") + ", not caused by a commit"
	}
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// Uncommitted returns what has outdated the nodes of a rollout that no commit has started: Karpenter's reasons, with
// the inputs that differ if they are known.
func Uncommitted(r v1alpha1.Rollout) string {
	var words []string
	for _, reason := range r.Reasons {
		before := len(words)
		for _, i := range r.Inputs {
			if one := i.Words(); i.Reason == reason && !slices.Contains(words, one) {
				words = append(words, one)
			}
		}
		if len(words) == before {
			words = append(words, reason)
		}
	}
	return finding.Few(words, "; ")
}

// announce sends an event when a rollout starts or is complete.
func (r *Rollouts) announce(next *v1alpha1.Rollout) {
	switch {
	case next == nil && r.Reported != nil:
		r.Event(v1alpha1.ReasonRolledOut, finished(r.withPoolsInGit(*r.Reported), r.Now))
	case next != nil && (r.Reported == nil || r.Reported.Revision != next.Revision):
		r.Event(v1alpha1.ReasonRollingOut, started(*next))
	}
}

// started returns the message of the event when a rollout starts.
func started(r v1alpha1.Rollout) string {
	switch short := StaticReady(r); {
	case r.Nodes == 0 && short != "" && r.Revision == "":
		return short
	case r.Nodes == 0 && short != "":
		return render.ShortRevision(r.Revision) + ": " + short
	case r.Nodes == 0:
		return render.ShortRevision(r.Revision) + " may make nodes out of date: Karpenter queries AWS"
	case r.Revision == "":
		return fmt.Sprintf("%s outdated, not caused by a commit of this NodeSync (%s); Karpenter replaces them at the pace of their disruption budgets", english.Plural(int(r.Nodes), "node", ""), Uncommitted(r))
	}
	return fmt.Sprintf("%s makes %s out of date: Karpenter replaces them at the pace of their disruption budgets",
		render.ShortRevision(r.Revision), english.Plural(int(r.Nodes), "node", ""))
}

// finished returns the message of the event when a rollout is complete.
func finished(r v1alpha1.Rollout, now time.Time) string {
	of := "no node was outdated"
	if r.Nodes > 0 {
		of = fmt.Sprintf("%s up to date or deleted", english.Plural(int(r.Nodes), "node", ""))
	}
	if full := filled(r); full != "" && r.Nodes == 0 {
		of = full
	} else if full != "" {
		of += ", " + full
	}
	return fmt.Sprintf("%s, after %s", of, now.Sub(r.Since.Time).Round(time.Second))
}
