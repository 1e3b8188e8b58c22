package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Pool counts the nodes of one NodePool.
type Pool struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Nodes int    `json:"nodes"`
	// Launching are nodes that are not ready yet: not launched, registered or initialized.
	Launching int `json:"launching,omitempty"`
	// Drifted are nodes that Karpenter will replace, because their pool or class has changed.
	Drifted  int `json:"drifted"`
	Draining int `json:"draining"`
	// LimitUsed is the usage of the limit that is used most; empty if there is no limit.
	LimitUsed string      `json:"limitUsed,omitempty"`
	Created   metav1.Time `json:"created"`
}

// UpToDate returns how many nodes run, and are neither outdated nor draining.
func (p Pool) UpToDate() int { return p.Nodes - p.Launching - p.Drifted - p.Draining }

// Pools counts the nodes of each pool, from NodeClaims by the names of their pools. The result is sorted by name.
func Pools(owned []*unstructured.Unstructured, claims map[string][]*karpv1.NodeClaim) []Pool {
	pools := make([]Pool, 0, len(owned))
	for _, pool := range owned {
		p := Pool{
			Name: pool.GetName(), Created: pool.GetCreationTimestamp(), Ready: cluster.Ready(plan.NewObject(pool)).Ready,
			LimitUsed: LimitUsed(pool), Nodes: len(claims[pool.GetName()]),
		}
		for _, claim := range claims[pool.GetName()] {
			p.count(claim)
		}
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return pools
}

// count counts a node in the first state that applies.
func (p *Pool) count(claim *karpv1.NodeClaim) {
	switch {
	case claim.DeletionTimestamp != nil:
		p.Draining++
	case conditionOf(claim, karpv1.ConditionTypeDrifted) == metav1.ConditionTrue:
		p.Drifted++
	case Launching(claim):
		p.Launching++
	}
}

// Launching reports whether a NodeClaim's node is not initialized yet. The watch cache keeps the condition Initialized
// while it is not True, and Karpenter sets it when it first checks a NodeClaim.
func Launching(claim *karpv1.NodeClaim) bool {
	initialized := conditionOf(claim, karpv1.ConditionTypeInitialized)
	return claim.Status.ProviderID == "" || claim.Status.NodeName == "" || initialized != "" && initialized != metav1.ConditionTrue
}

// conditionOf returns a condition's status; empty if there is none. The library's own function writes to its argument.
func conditionOf(claim *karpv1.NodeClaim, kind string) metav1.ConditionStatus {
	for _, c := range claim.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// LimitUsed describes the limit that is used most: 37% of 100 cpu, or cpu limited to 0.
func LimitUsed(pool *unstructured.Unstructured) string {
	limits, used := fieldsAt(pool, "spec", "limits"), fieldsAt(pool, "status", "resources")
	most, words := -1.0, ""
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		limit, err := resource.ParseQuantity(fmt.Sprint(limits[name]))
		if err != nil {
			continue // the API server rejects such a limit
		}
		is, err := resource.ParseQuantity(fmt.Sprint(cmp.Or(used[name], any("0"))))
		if err != nil {
			continue
		}
		share := 1.0
		if !limit.IsZero() {
			share = is.AsApproximateFloat64() / limit.AsApproximateFloat64()
		}
		if share > most {
			most, words = share, fmt.Sprintf("%.0f%% of %s %s", 100*share, limit.String(), name)
			if limit.IsZero() {
				words = fmt.Sprintf("%s limited to 0", name)
			}
		}
	}
	return words
}

// fieldsAt returns an object's fields at a path, read-only.
func fieldsAt(object *unstructured.Unstructured, place ...string) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, place...)
	fields, _ := value.(map[string]any)
	return fields
}

// Notable sorts pools by what a person looks for: pools that are not Ready, drain, or are large come first.
func Notable(pools []Pool) []Pool {
	sorted := slices.Clone(pools)
	rank := func(p Pool) int {
		switch {
		case !p.Ready:
			return 0
		case p.Draining > 0:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(sorted, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Nodes, a.Nodes))
	})
	return sorted
}

// OtherPools summarizes those that are not shown.
func OtherPools(pools []Pool) string {
	nodes, draining, unready := 0, 0, 0
	for _, p := range pools {
		nodes, draining = nodes+p.Nodes, draining+p.Draining
		if !p.Ready {
			unready++
		}
	}
	return fmt.Sprintf("%s: %d not Ready, %s, %d draining",
		shortlist.More("", len(pools)), unready, english.Plural(nodes, "node", ""), draining)
}
