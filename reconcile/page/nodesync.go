package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// most is how many rows of a kind are shown first; the others are a link away.
const most = 50

// nodeSync is the page of one.
type nodeSync struct {
	Name  string
	State badge
	Since when
	// Message is what the daemon says, its first lines; MoreLines is how many there are beside.
	Message   string
	MoreLines int
	Facts     []fact
	Held      []removal
	Withheld  string
	Next      string
	Plan      *planned
	Rollout   *rollout
	Removals  []removal
	Stages    []stage
	Pools     []summary.Pool
	Others    string // the pools that are left out
	AgeOf     map[string]when
	Drift     []drifted
	Outdated  []outdated
	Compared  compared
	Ended     ended
	Reported  []reported
	// More is the page without anything left out; MoreOf says of what, by its heading.
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

type rollout struct {
	v1alpha1.Rollout
	Matching        int32
	Commit          string
	Why             string
	Since, Progress when
	Settles         string
	// Ready is how many nodes its static pools have.
	Ready string
}

type reported struct {
	v1alpha1.Reported
	Commit string
}

// nodeSyncOf shows one.
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
		n.Plan.Rows = n.Plan.Rows[:n.first("plan", len(n.Plan.Rows), q, most)]
	}
	if status.Rollout != nil {
		n.Rollout = rolloutOf(*status.Rollout, w.Now)
	}
	n.leave(status.Removals, q, w.Now)
	owned := w.poolsOf(sync)
	pools := summary.Notable(summary.Pools(owned, w.Claims))
	shown = n.first("pools", len(pools), q, most)
	n.Pools, n.AgeOf = pools[:shown], map[string]when{}
	for _, p := range n.Pools {
		n.AgeOf[p.Name] = ago(&p.Created, w.Now)
	}
	if shown < len(pools) {
		n.Others = summary.OtherPools(pools[shown:])
	}
	n.drifts(sync.Status.Drift, summary.OutdatedNodes(owned, w.Claims), q, w.Now)
	n.ends(w, q, sync, pools)
	for _, r := range sync.Status.Reported {
		n.Reported = append(n.Reported, reported{r, r.Commit[:min(8, len(r.Commit))]})
	}
	return n
}

// first is how many of a kind are shown, and notes that there are more.
func (n *nodeSync) first(kind string, all int, q query, some int) int {
	if q.all || all <= some {
		return all
	}
	n.MoreOf[kind] = all - some
	return some
}

// leave shows the removals, and those that are held as well by themselves.
func (n *nodeSync) leave(all []v1alpha1.Removal, q query, now time.Time) {
	for _, r := range all[:n.first("removals", len(all), q, most)] {
		row := removal{
			Object: plan.Moved(r.Kind+"/"+r.Name, r.MovesTo), Phase: summary.PhaseWord(r), Says: r.Message, Commit: render.ShortRevision(r.Revision),
			Stalled: r.Stalled != nil, Left: r.Remaining, Since: ago(&r.Since, now), Progress: ago(&r.LastProgress, now),
		}
		n.Removals = append(n.Removals, row)
		if r.Phase == v1alpha1.RemovalHeld {
			n.Held = append(n.Held, row)
		}
	}
}

// withheld says why it is in doubt that a commit took out what it lacks.
func withheld(w *v1alpha1.Withheld) string {
	if w == nil {
		return ""
	}
	return fmt.Sprintf("%s: it is in doubt that a person took out of Git what %s lacks", w.Reason, render.ShortRevision(w.Revision))
}

func rolloutOf(r v1alpha1.Rollout, now time.Time) *rollout {
	shown := &rollout{
		Rollout: r, Matching: r.Nodes - r.Outdated, Why: nodes.Uncommitted(r), Commit: render.ShortRevision(r.Revision),
		Since: ago(&r.Since, now), Progress: ago(&r.LastProgress, now), Ready: nodes.StaticReady(r),
	}
	if r.SettlesAt != nil && r.SettlesAt.After(now) {
		shown.Settles = summary.Stamp(*r.SettlesAt)
	}
	return shown
}

// Of counts the nodes that are replaced.
func (r rollout) Of() string { return nodes.Replaced(r.Rollout) }
