package page

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// drifted is an object that differs from Git by no commit.
type drifted struct {
	Object, State, By, Says string
	Since                   when
}

// outdated is a node that Karpenter has found so.
type outdated struct {
	summary.OutdatedNode
	Ago when
}

// instance is an EC2 instance that Karpenter takes to be right and that is not.
type instance struct {
	v1alpha1.DriftedInstance
	Ago when
}

// compared is how EC2 instances compare with their definitions and NodeClaims.
type compared struct {
	// Failure is why they could not be compared.
	Failure string
	Rows    []instance
	// Others is how many differ beside these.
	Others int
}

// comparedOf shows the comparison; none where none differs.
func comparedOf(drift *v1alpha1.InstanceDrift, now time.Time) (c compared) {
	if drift == nil {
		return c
	}
	for _, one := range drift.Instances {
		c.Rows = append(c.Rows, instance{one, ago(&one.Since, now)})
	}
	c.Failure, c.Others = drift.Failure, max(0, int(drift.Count)-len(drift.Instances))
	return c
}

// drifts shows what differs from Git by no commit, and the nodes that are outdated.
func (n *nodeSync) drifts(objects []v1alpha1.DriftedObject, nodes []summary.OutdatedNode, q query, now time.Time) {
	for _, o := range objects {
		state := "differs"
		if o.CorrectedAt != nil {
			state = "corrected"
		}
		n.Drift = append(n.Drift, drifted{o.Kind + "/" + o.Name, state, cmp.Or(strings.Join(o.By, ", "), "unknown"), o.Message, ago(&o.Since, now)})
	}
	for _, node := range nodes[:n.first("outdated", len(nodes), q, most)] {
		n.Outdated = append(n.Outdated, outdated{node, ago(&node.Since, now)})
	}
}

// ended are the nodes of a NodeSync that have ended, and why.
type ended struct {
	// Since is since when they are recorded; empty where nothing is.
	Since string
	Rows  []endedNode
	Gaps  []string
	// Pool is the only pool that is shown; empty for all, and AllPools is where those are.
	Pool, AllPools string
	Filters        []filter
}

type endedNode struct {
	recorder.Record
	Why, Words, Commit, Sort string
	Gone                     when
}

// filter is a pool, and where its ended nodes are.
type filter struct{ Pool, Link string }

// ends shows why nodes ended, the newest first.
func (n *nodeSync) ends(w *World, q query, sync *v1alpha1.NodeSync, pools []summary.Pool) {
	n.Ended = ended{Pool: q.pool, AllPools: q.changed(func(q *query) { q.pool = "" })}
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
	for _, r := range records[:n.first("ended", len(records), q, most)] {
		kind := strings.Join(filled(r.InstanceType, r.Zone, r.CapacityType, summary.Pods(r)), ", ")
		row := endedNode{Record: r, Why: summary.Cause(r), Words: r.Cause.Words(), Commit: render.ShortRevision(r.Revision), Sort: kind}
		if row.Gone = ago(&r.Gone, w.Now); r.Gone.IsZero() {
			row.Gone = when{Words: summary.Gone(r, w.Now), Exact: summary.Stamp(r.Deleted)}
		}
		n.Ended.Rows = append(n.Ended.Rows, row)
	}
	for _, p := range pools {
		if has[p.Name] && p.Name != q.pool && len(n.Ended.Filters) < most {
			n.Ended.Filters = append(n.Ended.Filters, filter{p.Name, q.changed(func(q *query) { q.pool = p.Name })})
		}
	}
}

// filled are the words that are not empty.
func filled(words ...string) (some []string) {
	for _, word := range words {
		if word != "" {
			some = append(some, word)
		}
	}
	return some
}
