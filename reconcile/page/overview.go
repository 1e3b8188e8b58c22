package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// overview is the page of all NodeSyncs.
type overview struct {
	// Counts says how many there are in which state.
	Counts string
	Rows   []overviewRow
}

// overviewRow is a NodeSync, with the nodes of all its pools in one count.
type overviewRow struct {
	Name, Link       string
	State            badge
	Since            when
	Commit           string
	Nodes            summary.Pool
	Pools, Removals  int
	Rollout, Waiting string
	Says             string
	Drift            int
}

// overviewOf shows all NodeSyncs, those first that need a person.
func overviewOf(w *World, q query) overview {
	o := overview{}
	byState := map[summary.State]int{}
	for i := range w.NodeSyncs {
		sync := &w.NodeSyncs[i]
		byState[summary.StateOf(sync)]++
		o.Rows = append(o.Rows, rowOf(w, q, sync))
	}
	slices.SortFunc(o.Rows, func(a, b overviewRow) int {
		return cmp.Or(cmp.Compare(a.State.rank(), b.State.rank()), cmp.Compare(a.Name, b.Name))
	})
	var counts []string
	for _, row := range o.Rows {
		state := summary.State(row.State.Words)
		if n := byState[state]; n > 0 {
			counts = append(counts, english.Plural(n, string(state), string(state)))
			delete(byState, state)
		}
	}
	o.Counts = english.Plural(len(o.Rows), "NodeSync", "")
	if len(counts) > 0 {
		o.Counts += ": " + strings.Join(counts, ", ")
	}
	return o
}

func rowOf(w *World, q query, sync *v1alpha1.NodeSync) overviewRow {
	status := summary.Of(sync)
	pools := summary.Pools(w.poolsOf(sync), w.Claims)
	row := overviewRow{
		Name: sync.Name, Link: q.one(sync.Name), State: badgeOf(summary.State(status.State)), Since: ago(status.Since, w.Now),
		Commit: status.Commit(), Pools: len(pools), Removals: len(status.Removals), Says: summary.Message(sync),
	}
	for _, p := range pools {
		row.Nodes.Nodes += p.Nodes
		row.Nodes.Launching += p.Launching
		row.Nodes.Drifted += p.Drifted
		row.Nodes.Draining += p.Draining
	}
	if status.Rollout != nil && !summary.State(status.State).OfNodes() {
		row.Rollout = summary.OneLine(nodes.RolloutWords(*status.Rollout))
	}
	if status.Waiting != nil {
		row.Waiting = "for " + status.Waiting.For
	}
	for _, d := range sync.Status.Drift {
		if d.CorrectedAt == nil {
			row.Drift++
		}
	}
	return row
}
