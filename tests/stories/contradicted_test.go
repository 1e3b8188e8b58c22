package stories_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// ownerLabel is the label by which an object is a NodeSync's.
const ownerLabel = "plumbline.dev/nodesync"

// fleet is what can be seen at one time, by anybody, of what a commit status speaks of.
type fleet struct {
	pools, classes, claims []unstructured.Unstructured
	// billed are how many instances EC2 bills, by pool.
	billed map[string]int
}

// contradicts says what there is that a success on the commit of a NodeSync does not fit.
func (f fleet) contradicts(sync *unstructured.Unstructured) (words []string) {
	if open, _, _ := unstructured.NestedInt64(sync.Object, "status", "openRemovals"); open > 0 {
		words = append(words, fmt.Sprintf("status.openRemovals is %d", open))
	}
	if ready := conditionOf(sync, "Ready"); ready["status"] == "False" && !passing(ready["reason"]) {
		words = append(words, "Ready is False, "+ready["reason"])
	}
	owner := daemon.Namespace + "." + sync.GetName()
	known := map[string]bool{}
	for _, pool := range f.pools {
		known[pool.GetName()] = true
		if pool.GetLabels()[ownerLabel] == owner && conditionOf(&pool, "Ready")["status"] == "False" {
			words = append(words, "NodePool/"+pool.GetName()+" is not Ready")
		}
	}
	for _, class := range f.classes {
		if class.GetLabels()[ownerLabel] == owner && conditionOf(&class, "Ready")["status"] == "False" {
			words = append(words, "EC2NodeClass/"+class.GetName()+" is not Ready")
		}
	}
	for _, claim := range f.claims {
		pool := claim.GetLabels()["karpenter.sh/nodepool"]
		for _, of := range f.pools {
			if of.GetName() == pool && of.GetLabels()[ownerLabel] == owner && conditionOf(&claim, "Drifted")["status"] == "True" {
				words = append(words, "NodeClaim/"+claim.GetName()+" is Drifted")
			}
		}
	}
	for pool, n := range f.billed {
		if pool != "" && !known[pool] {
			words = append(words, fmt.Sprintf("EC2 bills %d instances of NodePool/%s, which is gone", n, pool))
		}
	}
	slices.Sort(words)
	return words
}

// passing says of a reason that it is of the way to the Git host or the API server, and of no
// commit: what was reported before stands.
func passing(reason string) bool {
	return slices.Contains([]string{"SourceFailed", "APIServerBusy", "APIServerUnavailable", "Stopped"}, reason)
}

// TestContradicted: each kind of contradiction is seen, and nothing is where all is well.
func TestContradicted(t *testing.T) {
	with := func(kind, name string, labels map[string]any, status map[string]any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"kind": kind, "metadata": map[string]any{"name": name, "labels": labels}, "status": status}}
	}
	is := func(condition, status string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": condition, "status": status, "reason": "Because"}}}
	}
	ours := map[string]any{ownerLabel: daemon.Namespace + ".prod"}
	of := map[string]any{"karpenter.sh/nodepool": "general"}
	well := with("NodeSync", "prod", nil, is("Ready", "True"))
	tests := map[string]struct {
		sync unstructured.Unstructured
		seen fleet
		want []string
	}{
		"all is well": {sync: well, seen: fleet{
			pools: []unstructured.Unstructured{with("NodePool", "general", ours, is("Ready", "True"))}, billed: map[string]int{"general": 2, "": 2},
			claims: []unstructured.Unstructured{with("NodeClaim", "general-1", of, is("Drifted", "False"))},
		}},
		"another NodeSync's": {sync: well, seen: fleet{
			pools:  []unstructured.Unstructured{with("NodePool", "general", map[string]any{ownerLabel: "x.y"}, is("Ready", "False"))},
			claims: []unstructured.Unstructured{with("NodeClaim", "general-1", of, is("Drifted", "True"))},
		}},
		"an open removal":   {sync: with("NodeSync", "prod", nil, map[string]any{"openRemovals": int64(1)}), want: []string{"status.openRemovals is 1"}},
		"not Ready":         {sync: with("NodeSync", "prod", nil, is("Ready", "False")), want: []string{"Ready is False, Because"}},
		"a pool not Ready":  {sync: well, seen: fleet{pools: []unstructured.Unstructured{with("NodePool", "general", ours, is("Ready", "False"))}}, want: []string{"NodePool/general is not Ready"}},
		"a class not Ready": {sync: well, seen: fleet{classes: []unstructured.Unstructured{with("EC2NodeClass", "default", ours, is("Ready", "False"))}}, want: []string{"EC2NodeClass/default is not Ready"}},
		"a drifted node": {sync: well, seen: fleet{
			pools:  []unstructured.Unstructured{with("NodePool", "general", ours, nil)},
			claims: []unstructured.Unstructured{with("NodeClaim", "general-1", of, is("Drifted", "True"))},
		}, want: []string{"NodeClaim/general-1 is Drifted"}},
		"an instance without a pool": {sync: well, seen: fleet{billed: map[string]int{"batch": 2}}, want: []string{"EC2 bills 2 instances of NodePool/batch, which is gone"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.seen.contradicts(&test.sync); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
