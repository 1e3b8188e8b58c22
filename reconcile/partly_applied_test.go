package reconcile

import (
	"fmt"
	"maps"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// partly is a repository in which some commits are never applied completely: they make the dynamic pool z static, which
// is refused.
type partly struct {
	*mirror
	// applied has the pools s, with 2 replicas, and z, and is applied; scaled has 12 replicas in s, and without has no s.
	// Both make z static.
	applied, scaled, without fstest.MapFS
}

// newPartly has the first commit applied.
func newPartly(t *testing.T) *partly {
	t.Helper()
	p := &partly{mirror: newMirror(t)}
	commit := func(s, z string) fstest.MapFS {
		files := maps.Clone(p.before)
		delete(files, "prod/nodes/pool.yaml")
		files["prod/nodes/z.yaml"] = &fstest.MapFile{Data: []byte(spotPool("z") + z)}
		if s != "" {
			files["prod/nodes/s.yaml"] = &fstest.MapFile{Data: []byte(spotPool("s") + s)}
		}
		return files
	}
	const two, twelve = "  replicas: 2\n", "  replicas: 12\n"
	p.applied, p.scaled, p.without = commit(two, ""), commit(twelve, two), commit("", two)
	for _, files := range []fstest.MapFS{p.applied, p.scaled, p.without} { // z may grow, but s may not
		files["prod/nodes/a.yaml"] = &fstest.MapFile{Data: []byte(spotPool("a"))}
	}
	if last := p.passes(p.applied); p.read().Status.LastAppliedRevision != last.snapshot.Revision {
		t.Fatalf("not applied: %+v", p.read().Status.Conditions)
	}
	return p
}

func spotPool(name string) string {
	return poolText(name, "default", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}")
}

// launches creates the nodes of s.
func (p *partly) launches(nodes int) {
	p.t.Helper()
	for i := range nodes {
		if err := p.client.Create(p.t.Context(), claimOf("s", p.pool().GetUID(), i)); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *partly) pool() *unstructured.Unstructured {
	return p.world.server.Object(render.Ref{Kind: render.NodePool, Name: "s"})
}

func (p *partly) replicas() string {
	replicas, _, _ := unstructured.NestedFieldNoCopy(p.pool().Object, "spec", "replicas")
	return fmt.Sprint(replicas)
}

// restarts loses the memory of the daemon.
func (p *partly) restarts() { p.memories.Forget(p.pass().name()) }

// TestARevertOfWhatWasPartlyAppliedIsNoDrift shows that a commit restores what was applied before a commit that was never
// applied completely only within the guard's limits, whatever the daemon remembers of the commits in between.
func TestARevertOfWhatWasPartlyAppliedIsNoDrift(t *testing.T) {
	for name, between := range map[string]func(*partly){
		"at once":                            func(*partly) {},
		"after a commit without the pool":    func(p *partly) { p.passes(p.without) },
		"after a restart":                    (*partly).restarts,
		"after a restart at the same commit": func(p *partly) { p.restarts(); p.passes(p.scaled) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPartly(t)
			if p.passes(p.scaled); p.replicas() != "12" {
				t.Fatalf("s has %s replicas", p.replicas())
			}
			p.launches(12)
			between(p)
			p.isHeld()
		})
	}
}

// isHeld applies the first commit again.
func (p *partly) isHeld() {
	p.t.Helper()
	last := p.passes(p.applied)
	if p.replicas() != "12" || len(last.plan.Changes) != 1 || last.plan.Changes[0].Action != plan.Hold || last.plan.Changes[0].Reason != plan.ReasonMaxDisruptedNodes {
		p.t.Errorf("s has %s replicas: %q", p.replicas(), script(last.plan.Plan))
	}
	if status := p.read().Status; status.LastAppliedRevision == last.snapshot.Revision {
		p.t.Error("the revision counts as applied")
	}
}

// TestAKilledDaemonHasRecordedWhatItWrote shows that a write is recorded before it is made: the daemon may be killed before
// it saves the status.
func TestAKilledDaemonHasRecordedWhatItWrote(t *testing.T) {
	p := newPartly(t)
	p.source.files = p.scaled
	p.clock.forward(p.read().Spec.Interval.Duration)
	for range 6 {
		p.clock.forward(time.Second)
		killed := p.pass()
		killed.take(t.Context(), nil)
		if len(killed.did.Written) > 0 {
			break
		}
	}
	if p.replicas() != "12" {
		t.Fatalf("s has %s replicas", p.replicas())
	}
	p.launches(12)
	p.restarts()
	p.isHeld()
}

// TestAnOlderHeadIsPartlyApplied shows that what was written for a HEAD that is older than the applied revision is no drift
// once the applied revision is HEAD again.
func TestAnOlderHeadIsPartlyApplied(t *testing.T) {
	p := newPartly(t)
	if p.passes(p.scaled, p.read().Status.LastAppliedRevision); p.replicas() != "12" {
		t.Fatalf("s has %s replicas", p.replicas())
	}
	p.launches(12)
	p.restarts()
	p.isHeld()
}

// TestAnEditUnderAnAppliedRevisionIsDrift shows that it is corrected without regard to the guard, also after a restart, and
// after commits that were partly applied once one was applied completely.
func TestAnEditUnderAnAppliedRevisionIsDrift(t *testing.T) {
	for name, before := range map[string]func(*partly){
		"at once":         func(*partly) {},
		"after a restart": (*partly).restarts,
		"after a commit that is refused": func(p *partly) {
			p.passes(p.without)
			p.passes(p.applied)
			p.restarts()
		},
		"after a commit that was reverted": func(p *partly) {
			p.passes(p.scaled)
			p.passes(p.applied)
			p.restarts()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPartly(t)
			before(p)
			p.world.server.Edit(t, render.Ref{Kind: render.NodePool, Name: "s"}, "kubectl-edit", func(o *unstructured.Unstructured) {
				o.Object["spec"].(map[string]any)["replicas"] = int64(12)
			})
			p.launches(12)
			last := p.passes(p.applied)
			if diff := cmp.Diff("2", p.replicas()); diff != "" {
				t.Errorf("replicas (-want +got):\n%s\n%q", diff, script(last.plan.Plan))
			}
		})
	}
}
