package rollout_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAFreezeStopsARollout shows that a freeze is recorded, then written, and ends by itself; it is not reported as a
// stop, because no person has to act.
func TestAFreezeStopsARollout(t *testing.T) {
	w := newWorld(t)
	w.frozen = plan.Frozen{Begins: at(6).Time}
	if s := w.pass(true); !s.WakeAt.Equal(at(6).Time) || w.sync.Status.PoolRollouts[0].BrakedAt != nil {
		t.Fatalf("before the freeze: next pass at %s, status %+v", s.WakeAt, w.sync.Status.PoolRollouts)
	}
	w.now, w.frozen = at(6).Time, plan.Frozen{Message: "no node is replaced before 14:00", Until: at(90).Time}
	w.pass(false) // killed before the status is saved
	if w.pass(true); len(w.applied) > 0 {
		t.Fatalf("applied before it is recorded: %q", w.applied)
	}
	s := w.pass(true)
	if len(w.applied) != 1 || !strings.Contains(w.applied[0], `- nodes: "0"`) || !s.WakeAt.Equal(at(90).Time) {
		t.Fatalf("applied %q, next pass at %s", w.applied, s.WakeAt)
	}
	pools := w.sync.Status.PoolRollouts
	if words := rollout.BrakeWords(pools); words != "" || rollout.Stopped(pools) {
		t.Errorf("reported as stopped: %q", words)
	}
	if r := rollout.Awaits(*w.rollout, pools); r.Message != w.frozen.Message {
		t.Errorf("waits for %q", r.Message)
	}
	const hangs = "waits for PodDisruptionBudget web/web, which allows no disruption"
	for _, message := range []string{hangs, "NodePool/a allows none; " + hangs} {
		w.rollout.Message = message
		if r := rollout.Awaits(*w.rollout, pools); r.Message != w.frozen.Message+"; "+hangs {
			t.Errorf("beside %q it waits for %q", message, r.Message)
		}
	}
	w.now, w.frozen = at(90).Time, plan.Frozen{}
	w.pass(true)
	if pools = w.sync.Status.PoolRollouts; pools[0].BrakedAt != nil || pools[0].Reason != "" {
		t.Errorf("after the freeze: %+v", pools)
	}
	if got := strings.Join(w.events, " "); got != "RollingOut RollingOut Braking RolloutResumed" {
		t.Errorf("events %s", got)
	}
}

// TestARevertPassesAFreeze shows that the rollout of a definition continues that a commit has reverted during the freeze,
// whatever else was recorded about the pool, once the revert is written and while Git still has it.
func TestARevertPassesAFreeze(t *testing.T) {
	template := plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "general"}, Fields: []plan.Field{{Path: "spec.template.metadata.labels"}}}
	limits := plan.Change{Ref: template.Ref, Fields: []plan.Field{{Path: "spec.limits.cpu"}}}
	class := plan.Change{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, Fields: []plan.Field{{Path: "spec.role"}}}
	other := plan.Change{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "other"}, Fields: []plan.Field{{Path: "spec.role"}}}
	for name, c := range map[string]struct {
		// pool and definition are those of the record; empty if there is none, and if it is Git's.
		pool, definition string
		change           plan.Change
		written          bool
		// reason is why a node is outdated that no commit has outdated.
		reason string
		passes bool
	}{
		"it is written":                 {pool: "general", change: template, written: true, passes: true},
		"it was written":                {pool: "general", passes: true},
		"it is not written":             {pool: "general", change: template},
		"its class is not written":      {pool: "general", change: class},
		"its limits are not written":    {pool: "general", change: limits, passes: true},
		"another class is not written":  {pool: "general", change: other, passes: true},
		"another definition":            {pool: "general", definition: "0"},
		"another pool":                  {pool: "other"},
		"nodes that no commit outdated": {pool: "general", reason: "AMIDrift"},
		"no revert":                     {change: template, written: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.frozen = plan.Frozen{Message: "not now"}
			w.pass(true)
			if c.pool != "" {
				git := plan.MadeByGit(w.set.Objects, plan.NewObjects(w.live))("general")
				w.sync.Status.RevertedPools = []v1alpha1.RevertedPool{{Pool: c.pool, Definition: cmp.Or(c.definition, git)}}
			}
			w.changes, w.written = []plan.Change{c.change}, map[render.Ref]bool{c.change.Ref: c.written}
			if c.reason != "" {
				w.reasons = []string{c.reason}
			}
			w.sync.Status.PoolRollouts = nil // lost, as when the pool was removed from Git for a commit
			w.pass(true)
			if got := w.sync.Status.PoolRollouts[0]; got.BrakedAt == nil != c.passes || got.DespiteFreeze != c.passes {
				t.Errorf("status %+v", got)
			}
		})
	}
}

// TestAPoolThatIsRemovedIsBraked shows that a pool, whose removal from Git has not started, is braked with the budgets
// that it has, and that these are restored by the brake itself: no Change does.
func TestAPoolThatIsRemovedIsBraked(t *testing.T) {
	w := newWorld(t)
	ref := render.Ref{Kind: render.NodePool, Name: "general"}
	pool := w.live[ref]
	w.commit(classYAML)
	w.live[ref] = pool
	if w.pass(true); len(w.sync.Status.PoolRollouts) > 0 {
		t.Fatalf("its removal has started, and it is %+v", w.sync.Status.PoolRollouts)
	}
	w.frozen, w.leaving = plan.Frozen{Message: "not now"}, []*plan.Object{plan.NewObject(pool)}
	w.pass(true)
	w.pass(true)
	if len(w.applied) != 1 || !strings.Contains(w.applied[0], "- nodes: 10%\n") || !strings.Contains(w.applied[0], `- nodes: "0"`) {
		t.Fatalf("applied %q", w.applied)
	}
	braked := pool.DeepCopy()
	err := unstructured.SetNestedSlice(braked.Object, []any{map[string]any{"nodes": "10%"}, map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}}, "spec", "disruption", "budgets")
	if err != nil {
		t.Fatal(err)
	}
	braked.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.BrakeFieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:disruption":{"f:budgets":{}}}}`),
	}})
	w.live[ref], w.leaving = braked, []*plan.Object{plan.NewObject(braked)}
	if w.pass(true); len(w.applied) != 1 {
		t.Fatalf("it is braked, and again applied: %q", w.applied)
	}
	w.frozen = plan.Frozen{}
	if w.pass(true); len(w.applied) != 1 {
		t.Fatalf("restored before it is recorded: %q", w.applied)
	}
	w.inForce = true
	if w.pass(true); len(w.applied) != 1 {
		t.Fatalf("restored although it is unknown what Git wants: %q", w.applied)
	}
	w.inForce = false
	if w.pass(true); len(w.applied) != 2 || !strings.HasSuffix(w.applied[1], `"value":[{"nodes":"10%"}]},{"op":"remove","path":"/metadata/managedFields/0"}]`) {
		t.Fatalf("applied %q", w.applied)
	}
	w.live[ref], w.leaving = pool, []*plan.Object{plan.NewObject(pool)}
	if w.pass(true); len(w.applied) != 2 {
		t.Errorf("restored again: %q", w.applied)
	}
}

// TestAPoolIsBrakedBeforeItsClassIsReverted although none of its nodes is outdated yet.
func TestAPoolIsBrakedBeforeItsClassIsReverted(t *testing.T) {
	w := newWorld(t)
	w.commit(classYAML, poolYAML, strings.ReplaceAll(poolYAML, "general", "other"))
	w.frozen = plan.Frozen{Message: "not now"}
	for _, first := range []bool{false, true, true, false} {
		w.changes, w.applied = nil, nil
		if first {
			w.changes = []plan.Change{{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, Action: plan.Wait, BrakesFirst: []string{"other"}}}
		}
		w.pass(true)
		if is := w.sync.Status.BrakedPools()["other"]; is != first {
			t.Errorf("its class waits for it: %t, braked: %t", first, is)
		}
	}
	w.changes = []plan.Change{{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, Action: plan.Wait, BrakesFirst: []string{"other"}}}
	w.pass(true)
	if slices.ContainsFunc(w.applied, func(text string) bool { return strings.Contains(text, "name: other") }) {
		t.Errorf("applied before it is recorded: %q", w.applied)
	}
	w.pass(true)
	if !slices.ContainsFunc(w.applied, func(text string) bool { return strings.Contains(text, "name: other") }) {
		t.Errorf("applied %q", w.applied)
	}
}

// TestAStopAmidAFreeze shows that it is reported as a stop, with the failure: the end of a freeze does not resume what
// a person has to check.
func TestAStopAmidAFreeze(t *testing.T) {
	w := newWorld(t)
	w.frozen = plan.Frozen{Message: "not now"}
	w.pass(true)
	w.failThree()
	w.pass(true)
	if pools := w.sync.Status.PoolRollouts; pools[0].Reason != v1alpha1.BrakeFailedLaunches || !rollout.Stopped(pools) {
		t.Errorf("status %+v", pools)
	}
	if got := strings.Join(w.events, " "); got != "RollingOut RolloutBraked Braking" {
		t.Errorf("events %s", got)
	}
}

// TestALeftoverLeaseIsReplaced: after an edit of the budgets, those of an earlier wave are not in force, while a change of the
// NodePool is held.
func TestALeftoverLeaseIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.pass(true)
	w.sync.Status.PoolRollouts[0].Wave = &v1alpha1.RolloutWave{Number: 3, Of: 3, State: v1alpha1.WaveLast, Size: 8, Waiting: 8, Since: at(1), BeganAt: at(4)}
	ref := render.Ref{Kind: render.NodePool, Name: "general"}
	edited := w.live[ref].DeepCopy()
	budgets := append([]any{map[string]any{"nodes": "7"}}, plan.Lease{Nodes: 1, Until: at(3).Time}.Budgets()...)
	if err := unstructured.SetNestedSlice(edited.Object, budgets, "spec", "disruption", "budgets"); err != nil {
		t.Fatal(err)
	}
	w.live[ref], w.changes = edited, []plan.Change{{Ref: ref, Action: plan.Hold}}
	w.pass(true)
	if last := w.applied[len(w.applied)-1]; strings.Count(last, "schedule") != 1 || !strings.Contains(last, `nodes: "7"`) || !strings.Contains(last, "nodes: 100%") {
		t.Errorf("the budgets are %s", last)
	}
}
