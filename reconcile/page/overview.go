package page

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// overview is the page of all NodeSyncs.
type overview struct {
	// Counts says how many there are in each state.
	Counts string
	Rows   []overviewRow
}

// overviewRow is a NodeSync, with one count for the nodes of all its pools.
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

// overviewOf shows all NodeSyncs, those that need a person first.
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
		row.Rollout = summary.OneLine(rollout.Words(*status.Rollout))
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

// refreshSeconds is after how many seconds a page reloads.
const refreshSeconds = 10

// view is a page: the parts common to all pages, and the body.
type view struct {
	Title string
	Style template.CSS
	// Refresh is after how many seconds it reloads; 0 means never. Toggle is the page with the other setting; empty if
	// there is none.
	Refresh int
	Toggle  string
	Home    string
	// Here is the NodeSync of the page; empty for the overview.
	Here      string
	Namespace string
	Version   string
	At        when
	Body      any
}

// when is a time: its age, and the exact time.
type when struct{ Words, Exact string }

// ago returns a time for display; nil and zero mean unknown.
func ago(at *metav1.Time, now time.Time) when {
	if at.IsZero() {
		return when{}
	}
	return when{Words: summary.Age(*at, now), Exact: summary.Stamp(*at)}
}

// badge is a state for display: a sign and a word express the same as its color.
type badge struct{ Tone, Sign, Words string }

// The tones, from what needs a person to what is fine.
const (
	toneBad   = "bad"
	toneHeld  = "held"
	toneBusy  = "busy"
	toneQuiet = "quiet"
	toneGood  = "good"
)

var tones = []string{toneBad, toneHeld, toneBusy, toneQuiet, toneGood}

// badgeOf returns the badge of a NodeSync's state.
func badgeOf(state summary.State) badge {
	tone, sign := toneBusy, "…"
	switch state {
	case summary.InSync:
		tone, sign = toneGood, "✓"
	case summary.Held, summary.RolloutHeld:
		tone, sign = toneHeld, "‖"
	case summary.RolloutStopped, summary.RolloutFailing, summary.LaunchFailing, summary.Stalled, summary.Stuck, summary.Failed,
		summary.Retrying, summary.Drifted, summary.Unknown:
		tone, sign = toneBad, "!"
	case summary.Suspended, summary.Drained, summary.Unseen, summary.Deleted:
		tone, sign = toneQuiet, "–"
	case summary.RollingOut, summary.Removing, summary.Waiting:
	}
	return badge{tone, sign, string(state)}
}

// rank returns the sort order: what needs a person comes first.
func (b badge) rank() int { return slices.Index(tones, b.Tone) }

// World is the state that pages are rendered from.
type World struct {
	Now       time.Time
	NodeSyncs []v1alpha1.NodeSync
	// Pools are all NodePools, and Claims the NodeClaims by the names of their pools. They are read-only.
	Pools  []*unstructured.Unstructured
	Claims map[string][]*karpv1.NodeClaim
	// Ended returns what is recorded of a NodeSync; nil if nothing is.
	Ended func(name types.NamespacedName, uid types.UID) *recorder.Log
}

// poolsOf returns the NodePools of a NodeSync.
func (w *World) poolsOf(sync *v1alpha1.NodeSync) (owned []*unstructured.Unstructured) {
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for _, pool := range w.Pools {
		if owner.Owns(pool) {
			owned = append(owned, pool)
		}
	}
	return owned
}

// nodeSync finds a NodeSync by its name; nil if there is none.
func (w *World) nodeSync(name string) *v1alpha1.NodeSync {
	for i := range w.NodeSyncs {
		if w.NodeSyncs[i].Name == name {
			return &w.NodeSyncs[i]
		}
	}
	return nil
}

// Cluster reads a World.
type Cluster struct {
	// Cached is the watch cache.
	Cached    client.Reader
	Namespace string
	// Serves reports whether NodePools and NodeClaims are watched.
	Serves func() bool
	Ended  func(name types.NamespacedName, uid types.UID) *recorder.Log
	Now    func() time.Time
}

// Read reads a World.
func (c Cluster) Read(ctx context.Context) (*World, error) {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.Cached.List(ctx, syncs, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("read the NodeSyncs: %w", err)
	}
	w := &World{Now: c.Now(), NodeSyncs: syncs.Items, Claims: map[string][]*karpv1.NodeClaim{}, Ended: c.Ended}
	if !c.Serves() {
		return w, nil
	}
	kind, _ := render.KindOf(render.NodePool)
	pools := &unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(kind.GVK)
	if err := c.Cached.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the NodePools: %w", err)
	}
	for i := range pools.Items {
		w.Pools = append(w.Pools, &pools.Items[i])
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.Cached.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the NodeClaims: %w", err)
	}
	for i := range claims.Items {
		pool := claims.Items[i].Labels[karpv1.NodePoolLabelKey]
		w.Claims[pool] = append(w.Claims[pool], &claims.Items[i])
	}
	return w, nil
}
