package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// shortAfter is how long a static pool may have too few nodes without a NodeClaim that is being launched: Karpenter
	// compares the number with spec.replicas once a minute (karpenter
	// pkg/controllers/static/provisioning/controller.go).
	shortAfter = 2 * time.Minute
	// startsWithin is how long a NodeClaim's node may take until it is initialized.
	startsWithin = 5 * time.Minute
	// nodesEvery is how often the Nodes of static pools are listed. No watch reports that one is deleted.
	nodesEvery = 2 * time.Minute
	// maxConfirmed is how many Nodes of one pool that are missing in the list are read by name in one look. If a pool
	// has lost that many, its other missing Nodes count as lost, too.
	maxConfirmed = 25
)

// StaticMemory is kept from one look at static pools to the next.
type StaticMemory struct {
	// lost are the NodeClaims whose Node was gone in the last list, and listed is when that was.
	lost   map[types.UID]bool
	listed time.Time
	// since is when a pool was first seen with too few nodes.
	since map[string]time.Time
}

// StaticLook finds the static pools of Git that have had too few nodes for a while although no launch failed. Karpenter
// counts NodeClaims from its own memory: it replaces no node whose Node or label was changed without its knowledge.
type StaticLook struct {
	Memory *StaticMemory
	Pools  []Pool
	Claims []plan.NodeClaim
	// Nodes reads Nodes past the cache.
	Nodes client.Reader
	Now   time.Time
}

// Lost returns the NodeClaims of static pools whose Node was deleted while they still exist. If Nodes cannot be listed,
// that is logged, and the last result is returned.
func (l StaticLook) Lost(ctx context.Context, into *finding.Findings) map[types.UID]bool {
	m, pools := l.Memory, map[string]bool{}
	for _, s := range l.applied() {
		pools[s.Pool] = true
	}
	if len(pools) == 0 {
		m.lost, m.listed = nil, time.Time{}
		return nil
	}
	if finding.Due(l.Now, m.listed, nodesEvery) {
		lost, err := l.list(ctx, pools)
		if err == nil {
			m.lost = lost
		} else {
			ctrl.LoggerFrom(ctx).Error(err, "see whether the Nodes of static pools are there")
		}
		m.listed = l.Now
	}
	into.WakeBy(m.listed.Add(nodesEvery))
	return m.lost
}

// list finds the NodeClaims of some pools whose Node is gone.
func (l StaticLook) list(ctx context.Context, pools map[string]bool) (map[types.UID]bool, error) {
	there, err := l.nodesOf(ctx, pools)
	if err != nil {
		return nil, fmt.Errorf("list the Nodes of static NodePools: %w", err)
	}
	lost, confirmed := map[types.UID]bool{}, map[string]int{}
	for i := range l.Claims {
		c := &l.Claims[i]
		if c.Deleting || !c.Initialized || c.Node == "" || there[c.Node] || !pools[c.Pool] {
			continue
		}
		if confirmed[c.Pool] == maxConfirmed {
			lost[c.UID] = true
			continue
		}
		switch gone, err := cluster.NodeGone(ctx, l.Nodes, c.Node); { // its label may have been removed
		case err != nil:
			return nil, err
		case gone:
			lost[c.UID] = true
			confirmed[c.Pool]++
		}
	}
	return lost, nil
}

// nodesOf lists the names of the Nodes that have the label of one of some pools.
func (l StaticLook) nodesOf(ctx context.Context, pools map[string]bool) (map[string]bool, error) {
	of, err := labels.NewRequirement(karpv1.NodePoolLabelKey, selection.In, slices.Collect(maps.Keys(pools)))
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	err = cluster.EachNode(ctx, l.Nodes, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*of)}, func(n *metav1.PartialObjectMetadata) error {
		there[n.Name] = true
		return nil
	})
	return there, err
}

// Present returns NodeClaims without the Nodes that are lost.
func Present(claims []plan.NodeClaim, lost map[types.UID]bool) []plan.NodeClaim {
	if len(lost) == 0 {
		return claims
	}
	present := slices.Clone(claims)
	for i := range present {
		if lost[present[i].UID] {
			present[i].Node, present[i].Initialized = "", false
		}
	}
	return present
}

// applied returns the static pools of Git whose number of replicas is applied.
func (l StaticLook) applied() []staticPool {
	var found []staticPool
	for _, pool := range l.Pools {
		wants, static := replicasOf(pool.Git)
		if has, _ := pool.replicas(); static && wants > 0 && has == wants {
			found = append(found, staticPool{Pool: pool.Name, replicas: wants, uid: pool.Live.GetUID()})
		}
	}
	return found
}

// staticPool is a static pool of Git whose number of replicas is applied.
type staticPool struct {
	Pool     string
	replicas int64
	uid      types.UID
}

// Add adds the static pools that have had too few nodes for too long, and for which no failure was found.
func (l StaticLook) Add(found []LaunchFailure, lost map[types.UID]bool, into *finding.Findings) []LaunchFailure {
	present := Present(l.Claims, lost)
	_, ready := counted(present)
	since := map[string]time.Time{}
	for _, s := range l.applied() {
		if int64(ready[s.Pool]) >= s.replicas {
			continue
		}
		since[s.Pool] = cmp.Or(l.Memory.since[s.Pool], l.Now)
		if slices.ContainsFunc(found, func(f LaunchFailure) bool { return f.Pool == s.Pool }) {
			continue
		}
		if l.full(s) {
			continue
		}
		at := since[s.Pool].Add(shortAfter)
		for i := range present {
			if c := &present[i]; isStarting(c, s.Pool, lost) && c.Created.Add(startsWithin).After(at) {
				at = c.Created.Add(startsWithin)
			}
		}
		if l.Now.Before(at) {
			into.WakeBy(at)
			continue
		}
		found = append(found, LaunchFailure{Pool: s.Pool, Why: l.why(s, lost), Lost: true})
	}
	l.Memory.since = since
	slices.SortFunc(found, func(a, b LaunchFailure) int { return strings.Compare(a.Pool, b.Pool) })
	return found
}

// full reports whether terminating nodes of a static pool hold the places within limits.nodes that it needs for others:
// Karpenter launches these once a node is gone (ReserveNodeCount in sigs.k8s.io/karpenter
// pkg/controllers/state/statenodepool.go, 1.15.0).
func (l StaticLook) full(s staticPool) bool {
	limit, all, terminating := limitOf(l.Pools, s.Pool), int64(0), false
	for i := range l.Claims {
		if c := &l.Claims[i]; c.Pool == s.Pool {
			all, terminating = all+1, terminating || c.Deleting
		}
	}
	return limit != nil && terminating && limit.CmpInt64(all) <= 0
}

// isStarting reports whether a NodeClaim belongs to a pool and its node is not initialized yet.
func isStarting(c *plan.NodeClaim, pool string, lost map[types.UID]bool) bool {
	return c.Pool == pool && !c.Deleting && !c.Initialized && !lost[c.UID]
}

// why describes why a static pool does not have its nodes, and what to do about it.
func (l StaticLook) why(s staticPool, lost map[types.UID]bool) string {
	var words []string
	for i := range l.Claims {
		switch c := &l.Claims[i]; {
		case lost[c.UID] && c.Pool == s.Pool:
			words = append(words, fmt.Sprintf("Node %s was deleted and its NodeClaim remains, so Karpenter launches no other: kubectl delete nodeclaim %s", c.Node, c.Name))
		case isStarting(c, s.Pool, lost):
			words = append(words, fmt.Sprintf("the node of NodeClaim/%s is not initialized: kubectl describe nodeclaim %[1]s", c.Name))
		case c.PoolUID == s.uid && c.Pool != s.Pool && !c.Deleting:
			words = append(words, fmt.Sprintf("NodeClaim/%s belongs to it, and its label %s was changed to %q: kubectl label nodeclaim %[1]s %[2]s=%[4]s --overwrite", c.Name, karpv1.NodePoolLabelKey, c.Pool, s.Pool))
		}
	}
	if limit := limitOf(l.Pools, s.Pool); limit != nil && limit.CmpInt64(s.replicas) < 0 {
		words = append(words, fmt.Sprintf("spec.limits.nodes of %s/%s is %s", render.NodePool, s.Pool, limit))
	}
	if len(words) == 0 {
		return "no launch failed, and Karpenter launches no other: read the log of its controller"
	}
	slices.Sort(words)
	return finding.Few(words, "; ")
}
