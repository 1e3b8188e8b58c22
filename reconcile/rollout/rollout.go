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

// Settles is how long after a change Karpenter may find a node outdated that nobody else can
// tell: it looks at each NodeClaim every five minutes (sigs.k8s.io/karpenter
// pkg/controllers/nodeclaim/disruption/drift.go).
const Settles = 6 * time.Minute

// Outdating is what the Changes that are written, or wait to be, do to nodes.
type Outdating struct {
	// Claims are the NodeClaims that are outdated by them, and Unnamed is how many more.
	Claims  map[types.UID]bool
	Unnamed int
	// Expected are those of Claims that Karpenter finds when it next looks at them, each with the reasons for which
	// it may.
	Expected map[types.UID][]string
	// Reselected are the EC2NodeClasses, by name, whose selectors are written, with Karpenter's reasons that depend
	// on these: what was expected by the former selectors no longer applies.
	Reselected map[string][]string
	// UpTo reports whether AWS decides which of them. Images reports that Karpenter knows as soon as it has
	// looked for the AMIs.
	UpTo, Images bool
	// Unhashed are the definitions, as Kind/name, that get another hash by them, while NodeClaims of
	// them may have none.
	Unhashed []string
	// Committed reports whether a commit wants it, and not only that another client's change is
	// reverted.
	Committed bool
	// Static are the static NodePools that are written, by name, and whether a commit does.
	Static map[string]bool
}

// OutdatedBy is what some Changes do to nodes.
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
		if c.Blind() {
			o.Unhashed = append(o.Unhashed, c.Ref.String())
		}
		if c.UpTo {
			// Where Karpenter has a reason, nobody can tell yet for which nodes; where it has none,
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

// expect notes a NodeClaim that is outdated by what AWS reports; no definition shows it.
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

// reselect notes the selectors that a Change writes.
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

// Seen is what a Rollout is followed by.
type Seen struct {
	// Changes are what this reconcile writes.
	Changes Outdating
	// Matched are the NodeClaims that do not match what lives, and Excess is how many a static
	// pool has above its replicas.
	plan.Matched
	Excess int
	// Short are the static pools of Git that have fewer nodes than replicas, by whatever.
	Short []v1alpha1.StaticPool
	// Full are those that have just as many.
	Full []v1alpha1.StaticPool
	// Revision is the one that is applied, and Applied the one that was before.
	Revision, Applied string
	Now               time.Time
	// Late is the revision that has outdated all of these, though no node was known when it was written,
	// and LateFrom the one that was applied before it; both empty if none has.
	Late, LateFrom string
	// Settled reports whether all nodes that AWS has said are outdated are gone, and that these were all.
	Settled bool
}

// Roll takes a rollout on by what is seen; nil if each node matches.
func Roll(before *v1alpha1.Rollout, seen Seen) *v1alpha1.Rollout {
	outdated, draining, reasons := seen.count()
	if before != nil && before.Revision != "" && len(seen.Changes.Unhashed) == 0 { // else these count them
		outdated += int32(len(seen.Unknown)) // nothing tells that they match
	}
	if before != nil && seen.awaits() {
		outdated = max(outdated, before.Outdated) // nothing is known of the others
	}
	next := begun(before, seen, outdated)
	if next == nil {
		return nil
	}
	if next.Revision != "" {
		next.Unhashed = slices.Compact(slices.Sorted(slices.Values(slices.Concat(next.Unhashed, seen.Changes.Unhashed))))
	}
	next.StaticPools = seen.awaited(before, next, outdated, draining)
	if outdated > 0 || !seen.onlyStatic(before, next) {
		next.SettlesAt = seen.settlesAt(before, next, outdated)
	}
	if outdated == 0 && seen.over(next) {
		return nil
	}
	if next.Outdated != outdated || next.Draining != draining || filling(before, next) {
		next.LastProgress = metav1.NewTime(seen.Now).Rfc3339Copy()
	}
	next.Nodes, next.Outdated, next.Draining, next.Reasons = max(next.Nodes, outdated), outdated, draining, reasons
	return next
}

// over reports whether a rollout without outdated nodes waits for nothing else.
func (s Seen) over(of *v1alpha1.Rollout) bool {
	settled := of.SettlesAt == nil || !s.Now.Before(of.SettlesAt.Time)
	return len(of.StaticPools) == 0 && !s.awaits() && settled
}

// settlesAt is until when Karpenter may find nodes outdated that no object tells of; nil if that
// is over, or never was. What another commit has outdated before is among them.
func (s Seen) settlesAt(before, of *v1alpha1.Rollout, outdated int32) *metav1.Time {
	asked := of.SettlesAt != nil && !of.SettlesAt.Time.Before(of.Since.Add(Settles))
	asks := s.Changes.UpTo || len(s.Changes.Expected) > 0 || s.Unsure && !asked
	switch {
	case s.Settled && outdated == 0:
		return nil
	case of.Revision != "" && asks:
		until := metav1.NewTime(s.Now.Add(Settles)).Rfc3339Copy()
		return &until
	case before.Settling(s.Now):
		return before.SettlesAt.DeepCopy()
	}
	return of.SettlesAt
}

// awaits reports whether Karpenter's answer is yet to come, which nodes run an AMI that is outdated.
func (s Seen) awaits() bool { return s.Changes.Images || len(s.Unresolved) > 0 }

// begun is the rollout that goes on, or that begins: with a commit that outdates nodes, with nodes that are
// outdated by none, or with a static pool that is to have more. It is nil if there is none.
func begun(before *v1alpha1.Rollout, seen Seen, outdated int32) *v1alpha1.Rollout {
	now := metav1.NewTime(seen.Now).Rfc3339Copy()
	switch {
	case seen.Changes.Any() && seen.Changes.Committed && (before == nil || before.Revision != seen.Revision):
		next := &v1alpha1.Rollout{Revision: seen.Revision, From: seen.Applied, Since: now, LastProgress: now}
		if before != nil {
			next.Unhashed = before.Unhashed
		}
		if before != nil && before.Revision != "" && before.SettlesAt != nil {
			next.From = before.From // which nodes that one has outdated may not be known yet
		}
		return next
	case before != nil:
		return before.DeepCopy()
	case outdated > 0:
		return &v1alpha1.Rollout{Revision: seen.Late, From: seen.LateFrom, Since: now, LastProgress: now}
	}
	switch written, committed := seen.fills(); {
	case committed:
		return &v1alpha1.Rollout{Revision: seen.Revision, From: seen.Applied, Since: now, LastProgress: now}
	case written:
		return &v1alpha1.Rollout{Since: now, LastProgress: now}
	}
	return nil
}

// count sums up the nodes that do not match, those of them that drain, and why.
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

// excess is how many nodes static pools have above their replicas, beside those that are outdated.
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

// slowDrain is after how long of draining that is named, too, which each drain waits for for a while:
// a pod that ends, an instance that is shutting down.
const slowDrain = 2 * time.Minute

// hangs says what keeps nodes that drain, once the rollout makes no progress; empty if nothing is
// known to. While such a node is there it stands in the message whatever other nodes do, and it is asked again.
func (r *Rollouts) hangs(ctx context.Context, of v1alpha1.Rollout, ending []*plan.NodeClaim) string {
	m := r.Memory
	if m.hanging != nil && !slices.ContainsFunc(ending, func(c *plan.NodeClaim) bool { return m.hanging[c.UID] }) {
		m.hanging, m.blocked = nil, ""
	}
	if len(ending) == 0 {
		return ""
	}
	return r.blocked(of, m.hanging != nil, func() (words string) {
		words, m.hanging = r.diagnose(ctx, ending)
		return words
	})
}

// diagnose finds out what keeps the nodes that have been draining for longest, and which those are.
func (r *Rollouts) diagnose(ctx context.Context, ending []*plan.NodeClaim) (words string, hanging map[types.UID]bool) {
	slices.SortFunc(ending, func(a, b *plan.NodeClaim) int {
		return cmp.Or(a.Deleted.Compare(b.Deleted), cmp.Compare(a.Name, b.Name))
	})
	oldest := map[string]*plan.NodeClaim{}
	var nodes []blocker.Node
	var failures []error
	for _, c := range ending[:min(blocker.Most, len(ending))] {
		n, err := r.nodeOf(ctx, c)
		if apierrors.IsNotFound(err) {
			continue // it has gone meanwhile
		}
		oldest[c.Name], nodes, failures = c, append(nodes, n), append(failures, err)
	}
	if len(nodes) == 0 {
		return "", nil
	}
	found, err := r.blockerLook().At(ctx, nodes)
	var all []string
	for i := range found.Nodes {
		n := &found.Nodes[i]
		c := oldest[n.Claim]
		if what := keeps(n, found, !r.Now.Before(c.Deleted.Add(slowDrain))); what != "" {
			all = append(all, fmt.Sprintf("%s (node %s, NodeClaim/%s)", what, n.Title(), n.Claim))
			if hanging == nil {
				hanging = map[types.UID]bool{}
			}
			hanging[c.UID] = true
		}
	}
	if len(all) > 0 {
		return blocker.Say(all), hanging
	}
	if err = errors.Join(append(failures, err)...); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Sprintf("read what keeps NodeClaim/%s: %s", nodes[0].Claim, first), nil
	}
	return "", nil
}

// keeps says what keeps a node, without what each drain waits for unless it is slow.
func keeps(n *blocker.Node, e blocker.Evidence, slow bool) string {
	var words, passing []string
	for _, c := range n.Causes(e) {
		if c.Passing {
			passing = append(passing, c.Short)
		} else {
			words = append(words, c.Short)
		}
	}
	if len(words) == 0 && slow {
		words = passing
	}
	return finding.Few(words, " and ")
}

// nodeOf is the node of a NodeClaim, with its conditions where they can be read.
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

// Words say how far a rollout has come, and what it waits for.
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

// Replaced counts the nodes that are replaced: 1 of 2 nodes replaced.
func Replaced(r v1alpha1.Rollout) string {
	if short := StaticReady(r); short != "" && r.Nodes == 0 && r.SettlesAt == nil {
		return short
	}
	if r.Nodes == 0 {
		return "no node is known to be outdated yet"
	}
	return fmt.Sprintf("%d of %d nodes replaced", r.Nodes-r.Outdated, r.Nodes)
}

// causes are Karpenter's reasons, and whether a commit is behind them.
func causes(r v1alpha1.Rollout) string {
	why := strings.Join(r.Reasons, ", ")
	if r.Revision == "" {
		why = cmp.Or(why, "outdated") + ", by no commit of this NodeSync"
	}
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// Uncommitted says what has outdated the nodes of a rollout that no commit has begun: Karpenter's
// reasons, with the inputs that differ where they are known.
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

// announce says by an event that a rollout begins, or is over.
func (r *Rollouts) announce(next *v1alpha1.Rollout) {
	switch {
	case next == nil && r.Said != nil:
		r.Event(v1alpha1.ReasonRolledOut, finished(r.ofGit(*r.Said), r.Now))
	case next != nil && (r.Said == nil || r.Said.Revision != next.Revision):
		r.Event(v1alpha1.ReasonRollingOut, started(*next))
	}
}

// started is the event on a rollout that begins.
func started(r v1alpha1.Rollout) string {
	switch short := StaticReady(r); {
	case r.Nodes == 0 && short != "" && r.Revision == "":
		return short
	case r.Nodes == 0 && short != "":
		return render.ShortRevision(r.Revision) + ": " + short
	case r.Nodes == 0:
		return render.ShortRevision(r.Revision) + " may outdate nodes: Karpenter asks AWS which"
	case r.Revision == "":
		return fmt.Sprintf("outdated by no commit of this NodeSync: %s (%s); Karpenter replaces them at the pace of their disruption budgets", english.Plural(int(r.Nodes), "node", ""), Uncommitted(r))
	}
	return fmt.Sprintf("%s outdates %s: Karpenter replaces them at the pace of their disruption budgets", render.ShortRevision(r.Revision), english.Plural(int(r.Nodes), "node", ""))
}

// finished is the event on a rollout that has ended.
func finished(r v1alpha1.Rollout, now time.Time) string {
	of := "no node was outdated"
	if r.Nodes > 0 {
		of = fmt.Sprintf("each of %s matches or is gone", english.Plural(int(r.Nodes), "node", ""))
	}
	if full := filled(r); full != "" && r.Nodes == 0 {
		of = full
	} else if full != "" {
		of += ", " + full
	}
	return fmt.Sprintf("%s, after %s", of, now.Sub(r.Since.Time).Round(time.Second))
}
