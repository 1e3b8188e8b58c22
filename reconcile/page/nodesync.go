package page

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// maxRows is how many rows of a kind are shown at first; a link shows the others.
const maxRows = 50

// nodeSync is the page of a NodeSync.
type nodeSync struct {
	Name  string
	State badge
	Since when
	// Message contains the first lines of the daemon's message; MoreLines is the number of other lines.
	Message   string
	MoreLines int
	Facts     []fact
	Held      []removal
	Withheld  string
	Next      string
	Plan      *planned
	Rollout   *rolloutView
	Removals  []removal
	Stages    []stage
	Pools     []summary.Pool
	Others    string // the pools that are not shown
	AgeOf     map[string]when
	Drift     []drifted
	Outdated  []outdated
	Compared  compared
	Ended     terminations
	Reported  []reported
	// More is the page with everything; MoreOf counts what is not shown, by heading.
	More   string
	MoreOf map[string]int
}

type fact struct {
	About, Text string
	Since       when
}

type stage struct {
	v1alpha1.StageStatus
	Ago when
}

type removal struct {
	Object, Phase, Says, Commit string
	Stalled                     bool
	Left                        int32
	Since, Progress             when
}

type rolloutView struct {
	v1alpha1.Rollout
	Matching        int32
	Commit          string
	Why             string
	Since, Progress when
	Settles         string
	// Ready is how many ready nodes its static pools have.
	Ready string
}

type reported struct {
	v1alpha1.Reported
	Commit string
}

// nodeSyncOf returns the page of a NodeSync.
func nodeSyncOf(w *World, q query, sync *v1alpha1.NodeSync) nodeSync {
	status := summary.Of(sync)
	n := nodeSync{
		Name: sync.Name, State: badgeOf(summary.State(status.State)), Since: ago(status.Since, w.Now), Next: status.Next,
		More: q.changed(func(q *query) { q.all = true }), MoreOf: map[string]int{}, Withheld: withheld(sync.Status.Withheld),
		Compared: comparedOf(sync.Status.Instances, w.Now),
	}
	n.State.Words = status.Headline()
	lines := strings.Split(strings.TrimSpace(status.Message), "\n")
	shown := n.first("lines", len(lines), q, 10)
	n.Message, n.MoreLines = strings.Join(lines[:shown], "\n"), len(lines)-shown
	for _, line := range status.Lines() {
		n.Facts = append(n.Facts, fact{line.About, line.Text, ago(line.Since, w.Now)})
	}
	for _, s := range status.Stages {
		n.Stages = append(n.Stages, stage{s, ago(&s.Since, w.Now)})
	}
	if n.Plan = plannedOf(sync.Status, summary.State(status.State), w.Now); n.Plan != nil {
		n.Plan.Rows = n.Plan.Rows[:n.first("plan", len(n.Plan.Rows), q, maxRows)]
	}
	if status.Rollout != nil {
		n.Rollout = rolloutOf(*status.Rollout, w.Now)
	}
	n.addRemovals(status.Removals, status.RemovalGrace, q, w.Now)
	owned := w.poolsOf(sync)
	pools := summary.Notable(summary.Pools(owned, w.Claims))
	shown = n.first("pools", len(pools), q, maxRows)
	n.Pools, n.AgeOf = pools[:shown], map[string]when{}
	for _, p := range n.Pools {
		n.AgeOf[p.Name] = ago(&p.Created, w.Now)
	}
	if shown < len(pools) {
		n.Others = summary.OtherPools(pools[shown:])
	}
	n.addDrift(sync.Status.Drift, summary.OutdatedNodes(owned, w.Claims), q, w.Now)
	n.addTerminations(w, q, sync, pools)
	for _, r := range sync.Status.Reported {
		n.Reported = append(n.Reported, reported{r, r.Commit[:min(8, len(r.Commit))]})
	}
	return n
}

// first returns how many of a kind are shown, and records whether there are more.
func (n *nodeSync) first(kind string, all int, q query, some int) int {
	if q.all || all <= some {
		return all
	}
	n.MoreOf[kind] = all - some
	return some
}

// addRemovals shows the removals; those that are held are also listed separately.
func (n *nodeSync) addRemovals(all []v1alpha1.Removal, grace time.Duration, q query, now time.Time) {
	for _, r := range all[:n.first("removals", len(all), q, maxRows)] {
		row := removal{
			Object: plan.Moved(r.Kind+"/"+r.Name, r.MovesTo), Phase: summary.PhaseWord(r), Says: r.Message, Commit: render.ShortRevision(r.Revision),
			Stalled: r.Stalled != nil, Left: r.Remaining, Since: ago(&r.Since, now), Progress: ago(&r.LastProgress, now),
		}
		if r.Reason == v1alpha1.ReasonGrace {
			row.Says = summary.WaitsFor(r, grace, now)
		}
		n.Removals = append(n.Removals, row)
		if r.Held() {
			n.Held = append(n.Held, row)
		}
	}
}

// withheld says why it is doubtful that a person removed what is missing from a commit.
func withheld(w *v1alpha1.Withheld) string {
	if w == nil {
		return ""
	}
	return fmt.Sprintf("%s: unclear whether a person removed from Git what %s does not contain", w.Reason, render.ShortRevision(w.Revision))
}

func rolloutOf(r v1alpha1.Rollout, now time.Time) *rolloutView {
	shown := &rolloutView{
		Rollout: r, Matching: r.Nodes - r.Outdated, Why: rollout.Uncommitted(r), Commit: render.ShortRevision(r.Revision),
		Since: ago(&r.Since, now), Progress: ago(&r.LastProgress, now), Ready: rollout.StaticReady(r),
	}
	if r.SettlesAt != nil && r.SettlesAt.After(now) {
		shown.Settles = summary.Stamp(*r.SettlesAt)
	}
	return shown
}

// Of counts the nodes that are replaced.
func (r rolloutView) Of() string { return rollout.Replaced(r.Rollout) }

// planned is what the status reports as about to be done, except open removals and the rollout, which have their own
// sections.
type planned struct {
	// Commit is the one that is not applied yet; empty if there is none, or if it is refused.
	Commit string
	// Waits is why nothing continues, Summary what the held changes do to nodes, and Approvals who has approved them.
	Waits, Summary, Approvals string
	Since                     when
	Rows                      []plannedEntry
}

// plannedEntry is an object that is about to be changed or removed.
type plannedEntry struct {
	Object, Does, State string
	Held                bool
	Nodes               int32
}

// plannedOf shows what remains to be done; nil if that is nothing.
func plannedOf(s v1alpha1.NodeSyncStatus, state summary.State, now time.Time) *planned {
	p := &planned{}
	if s.LastAttemptedRevision != s.LastAppliedRevision && state != summary.Failed {
		p.Commit = render.ShortRevision(s.LastAttemptedRevision)
	}
	if w := s.Waiting; w != nil {
		p.Waits, p.Since = strings.TrimSuffix(w.For+": "+w.Message, ": "), ago(&w.Since, now)
	}
	if held := s.Held; held != nil {
		p.Summary, p.Approvals = held.Summary, approvals(held)
		for _, e := range held.Entries {
			state := "held"
			if len(e.Policies) > 0 {
				state += " by policy " + strings.Join(e.Policies, ", ")
			}
			p.Rows = append(p.Rows, entryOf(e, state, true))
		}
	}
	for _, approved := range s.Approved {
		for _, e := range approved.Entries {
			p.Rows = append(p.Rows, entryOf(e, "approved by "+strings.Join(approved.By, ", ")+", not done yet", false))
		}
	}
	if p.Commit == "" && p.Waits == "" && len(p.Rows) == 0 {
		return nil
	}
	return p
}

func entryOf(e v1alpha1.ApprovedEntry, state string, held bool) plannedEntry {
	does := "changed"
	switch {
	case e.Orphan:
		does = "orphaned, with its nodes"
	case e.Definition == "":
		does = "removed"
	}
	return plannedEntry{Object: plan.Moved(e.Kind+"/"+e.Name, e.MovesTo), Does: does, State: state, Held: held, Nodes: e.Nodes}
}

// approvals says who has approved what is held, and why that is not enough.
func approvals(held *v1alpha1.HeldPlan) string {
	words := fmt.Sprintf("%d of %d", len(held.Approvers), held.Needed)
	if len(held.Approvers) > 0 {
		words += " (" + strings.Join(held.Approvers, ", ") + ")"
	}
	if held.Message != "" {
		words += "; " + held.Message
	}
	return words
}

// drifted is an object that differs from Git without a commit.
type drifted struct {
	Object, State, By, Says string
	Since                   when
}

// outdated is a node that Karpenter considers drifted.
type outdated struct {
	summary.OutdatedNode
	Ago when
}

// instance is an EC2 instance that Karpenter considers in sync but that differs.
type instance struct {
	v1alpha1.DriftedInstance
	Ago when
}

// compared is how EC2 instances compare with their definitions and NodeClaims.
type compared struct {
	// Failure is what could not be compared, and why; empty if all was.
	Failure string
	Rows    []instance
	// Others is the number of other instances that differ.
	Others int
}

// comparedOf shows the comparison; it is empty if there is none.
func comparedOf(drift *v1alpha1.InstanceDrift, now time.Time) (c compared) {
	if drift == nil {
		return c
	}
	for _, one := range drift.Instances {
		c.Rows = append(c.Rows, instance{one, ago(&one.Since, now)})
	}
	c.Failure, c.Others = drift.FailureMessage(), max(0, int(drift.Count)-len(drift.Instances))
	return c
}

// addDrift shows what differs from Git without a commit, and the outdated nodes.
func (n *nodeSync) addDrift(objects []v1alpha1.DriftedObject, nodes []summary.OutdatedNode, q query, now time.Time) {
	for _, o := range objects {
		state := "differs"
		if o.CorrectedAt != nil {
			state = "corrected"
		}
		n.Drift = append(n.Drift,
			drifted{o.Kind + "/" + o.Name, state, cmp.Or(strings.Join(o.By, ", "), "unknown"), o.Message, ago(&o.Since, now)})
	}
	for _, node := range nodes[:n.first("outdated", len(nodes), q, maxRows)] {
		n.Outdated = append(n.Outdated, outdated{node, ago(&node.Since, now)})
	}
}

// terminations are the terminated nodes of a NodeSync, and why they were terminated.
type terminations struct {
	// Since is when recording started; empty if nothing is recorded.
	Since string
	Rows  []terminatedNode
	Gaps  []string
	// Pool is the only pool that is shown; empty for all. AllPools is the page with all pools.
	Pool, AllPools string
	Filters        []filter
}

type terminatedNode struct {
	recorder.Record
	Why, Words, Commit, Sort string
	Gone                     when
}

// filter is a pool, and the page with its terminated nodes.
type filter struct{ Pool, Link string }

// addTerminations shows why nodes were terminated, newest first.
func (n *nodeSync) addTerminations(w *World, q query, sync *v1alpha1.NodeSync, pools []summary.Pool) {
	n.Ended = terminations{Pool: q.pool, AllPools: q.changed(func(q *query) { q.pool = "" })}
	var log *recorder.Log
	if w.Ended != nil {
		log = w.Ended(types.NamespacedName{Namespace: sync.Namespace, Name: sync.Name}, sync.UID)
	}
	if log == nil {
		return
	}
	n.Ended.Since = summary.Stamp(log.Since)
	for _, gap := range log.Gaps {
		n.Ended.Gaps = append(n.Ended.Gaps, summary.Gap(gap))
	}
	has := map[string]bool{}
	var records []recorder.Record
	for _, r := range log.Records {
		has[r.Pool] = true
		if q.pool == "" || r.Pool == q.pool {
			records = append(records, r)
		}
	}
	for _, r := range records[:n.first("terminated", len(records), q, maxRows)] {
		kind := strings.Join(nonEmpty(r.InstanceType, r.Zone, r.CapacityType, summary.Pods(r)), ", ")
		row := terminatedNode{Record: r, Why: summary.Cause(r), Words: r.Cause.Words(), Commit: render.ShortRevision(r.Revision), Sort: kind}
		if row.Gone = ago(&r.Gone, w.Now); r.Gone.IsZero() {
			row.Gone = when{Words: summary.Gone(r, w.Now), Exact: summary.Stamp(r.Deleted)}
		}
		n.Ended.Rows = append(n.Ended.Rows, row)
	}
	for _, p := range pools {
		if has[p.Name] && p.Name != q.pool && len(n.Ended.Filters) < maxRows {
			n.Ended.Filters = append(n.Ended.Filters, filter{p.Name, q.changed(func(q *query) { q.pool = p.Name })})
		}
	}
}

// nonEmpty returns the words that are not empty.
func nonEmpty(words ...string) (some []string) {
	for _, word := range words {
		if word != "" {
			some = append(some, word)
		}
	}
	return some
}
