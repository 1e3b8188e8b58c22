package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestNodesThatARemovalHasOutdated shows that nodes are not outdated by no commit if the removal of their NodePool makes
// them drift, and Git contains the NodePool again: they match again once that is restored.
func TestNodesThatARemovalHasOutdated(t *testing.T) {
	for removed, outdated := range map[bool]int{false: 1, true: 0} {
		general := pool("general")
		if removed {
			live := general.Live.DeepCopy()
			if err := unstructured.SetNestedField(live.Object, "20260301T000000Z", "spec", "template", "metadata", "labels", v1alpha1.LeavingLabel); err != nil {
				t.Fatal(err)
			}
			general.Live = plan.NewObject(live)
		}
		claim := plan.NodeClaim{Name: "g1", UID: "g1", Pool: "general", Class: "c", ProviderID: "aws:///a/i-1", Drifted: true, DriftReason: plan.DriftOfPool}
		r := rollout.Rollouts{
			Live:  plan.Live{Objects: map[render.Ref]*plan.Object{{Kind: render.NodePool, Name: "general"}: general.Live}, NodeClaims: []plan.NodeClaim{claim}},
			Pools: []rollout.Pool{general}, Revision: "main@sha1:1", Applied: "main@sha1:1", Now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC),
			Memory: &rollout.Memory{}, Events: &spoken{},
		}
		if looked := r.Look(t.Context()); len(looked.Outdated) != outdated || (looked.Rollout != nil) != (outdated > 0) {
			t.Errorf("removed %t: outdated %v, rollout %+v", removed, looked.Outdated, looked.Rollout)
		}
	}
}

// TestNodesThatNoCommitHasOutdatedBesideARollout shows that nodes that a new image of an AMI alias outdates before or
// during a commit's rollout of another pool do not belong to the commit, which is complete once its own are replaced.
func TestNodesThatNoCommitHasOutdatedBesideARollout(t *testing.T) {
	claim := func(name, of, reason string) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: of, Class: "c", ProviderID: "aws:///a/i-" + name, Drifted: reason != "", DriftReason: reason}
	}
	other := plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "other"}, Action: plan.Update, Effect: plan.EffectReplace, Nodes: 1}
	type look struct {
		changes        []plan.Change
		general, other string
		// revision is the rollout's, and uncommitted are the pools with nodes that no commit has outdated.
		revision    string
		uncommitted []string
		over        bool
	}
	for name, looks := range map[string][]look{
		"the alias moves first": {
			{general: "AMIDrift", uncommitted: []string{"general"}},
			{changes: []plan.Change{other}, general: "AMIDrift", revision: "main@sha1:2", uncommitted: []string{"general"}},
			{general: "AMIDrift", other: "NodePoolDrifted", revision: "main@sha1:2", uncommitted: []string{"general"}},
			{general: "AMIDrift", uncommitted: []string{"general"}},
		},
		"the alias has moved when the commit is first seen": {
			{changes: []plan.Change{other}, general: "AMIDrift", revision: "main@sha1:2", uncommitted: []string{"general"}},
			{general: "AMIDrift", other: "NodePoolDrifted", revision: "main@sha1:2", uncommitted: []string{"general"}},
			{general: "AMIDrift", uncommitted: []string{"general"}},
		},
		"the alias moves back and again": {
			{changes: []plan.Change{other}, general: "AMIDrift", revision: "main@sha1:2", uncommitted: []string{"general"}},
			{general: "AMIDrift", uncommitted: []string{"general"}},
			{over: true},
			{general: "AMIDrift", uncommitted: []string{"general"}},
		},
		"the alias moves while the commit rolls out": {
			{changes: []plan.Change{other}, revision: "main@sha1:2"},
			{general: "AMIDrift", other: "NodePoolDrifted", revision: "main@sha1:2", uncommitted: []string{"general"}},
			{general: "AMIDrift", uncommitted: []string{"general"}},
		},
		"the commit's own pool drifts by AWS, too": {
			{changes: []plan.Change{other}, revision: "main@sha1:2"},
			{other: "AMIDrift", revision: "main@sha1:2"},
		},
		"a node that was launched as its definition was written": {
			{changes: []plan.Change{other}, revision: "main@sha1:2"},
			{general: "NodePoolDrifted", other: "NodePoolDrifted", revision: "main@sha1:2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory, now := &rollout.Memory{}, time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
			var status v1alpha1.NodeSyncStatus
			for i, l := range looks {
				revision := "main@sha1:1"
				if i > 0 || len(l.changes) > 0 {
					revision = "main@sha1:2"
				}
				pools, objects := []rollout.Pool{pool("general"), pool("other")}, map[render.Ref]*plan.Object{}
				for _, p := range pools {
					objects[render.Ref{Kind: render.NodePool, Name: p.Name}] = p.Live
				}
				r := rollout.Rollouts{
					Live: plan.Live{Objects: objects, NodeClaims: []plan.NodeClaim{claim("g1", "general", l.general), claim("o1", "other", l.other)}}, Pools: pools,
					Before: status.Rollout, Reported: status.Rollout, Changes: l.changes, Revision: revision, Applied: "main@sha1:1", Now: now.Add(time.Duration(i) * 10 * time.Minute), Memory: memory, Events: &spoken{},
				}
				r.Begin(&status)
				r.Before = status.Rollout
				looked := r.Look(t.Context())
				status.Rollout = looked.Rollout
				if l.over && status.Rollout == nil {
					continue
				}
				if got := status.Rollout; got == nil || got.Revision != l.revision {
					t.Fatalf("look %d: %+v, want revision %q", i+1, got, l.revision)
				}
				var uncommitted []string
				for pool, reasons := range looked.Outdated {
					if len(reasons) > 0 {
						uncommitted = append(uncommitted, pool)
					}
				}
				slices.Sort(uncommitted)
				if diff := cmp.Diff(l.uncommitted, uncommitted); diff != "" {
					t.Errorf("look %d (-want +got):\n%s", i+1, diff)
				}
				if inputs := status.Rollout.Inputs; (len(inputs) > 0) != (len(uncommitted) > 0) {
					t.Errorf("look %d: %+v", i+1, inputs)
				}
			}
		})
	}
}
