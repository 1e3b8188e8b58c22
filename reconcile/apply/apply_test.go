package apply_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	class = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
`
	pool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  limits: {cpu: "100"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
`
	poolWithoutLimits = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
`
	staticPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  replicas: 3
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
`
)

var (
	general    = render.Ref{Kind: render.NodePool, Name: "general"}
	defaultRef = render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	owner      = plan.OwnerOf("plumbline-system", "prod")
)

// cluster is a Server with a NodeSync that has a revision applied to it.
type cluster struct {
	*applytest.Server
	policy   plan.Policy
	removals []v1alpha1.Removal
}

func newCluster(t *testing.T, definitions ...string) *cluster {
	t.Helper()
	c := &cluster{Server: applytest.New(t), policy: plan.Policy{Owner: owner, Adopt: v1alpha1.AdoptIfIdentical, NewRevision: true}}
	if len(definitions) > 0 {
		if err := c.sync(t, definitions...).Err(); err != nil {
			t.Fatal(err)
		}
		c.Writes()
	}
	return c
}

func (c *cluster) plan(t *testing.T, definitions ...string) *plan.Plan {
	t.Helper()
	set := &render.Set{Revision: "main@sha1:1"}
	for _, text := range definitions {
		set.Objects = append(set.Objects, c.Definition(t, text))
	}
	p, err := plan.Make(t.Context(), set, plan.Live{Objects: c.Objects(), Removals: c.removals}, c.policy, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *cluster) sync(t *testing.T, definitions ...string) apply.Result {
	t.Helper()
	return apply.Apply(t.Context(), c, c.plan(t, definitions...).Changes, apply.Options{Owner: c.policy.Owner, Concurrency: 8})
}

// settled fails where another look would still find something to do.
func (c *cluster) settled(t *testing.T, definitions ...string) {
	t.Helper()
	if p := c.plan(t, definitions...); len(p.Changes) > 0 {
		t.Errorf("not settled: %s %s: %s", p.Changes[0].Action, p.Changes[0].Ref, p.Changes[0].Message)
	}
}

// stopGrowth does to a pool what a removal does first.
func (c *cluster) stopGrowth(t *testing.T, spec map[string]any) {
	t.Helper()
	growth := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	growth.SetAPIVersion("karpenter.sh/v1")
	growth.SetKind(render.NodePool)
	growth.SetName(general.Name)
	if err := c.ApplyAs(t.Context(), growth, v1alpha1.RemovalFieldManager, true); err != nil {
		t.Fatal(err)
	}
	c.removals = []v1alpha1.Removal{{Kind: general.Kind, Name: general.Name, UID: c.Object(general).GetUID(), Phase: v1alpha1.RemovalPacing}}
	c.Writes()
}

func applied(ref render.Ref, force bool) applytest.Write {
	return applytest.Write{Ref: ref, Type: types.ApplyPatchType, Manager: v1alpha1.FieldManager, Force: force}
}

func spec(t *testing.T, object *unstructured.Unstructured, path ...string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldCopy(object.Object, append([]string{"spec"}, path...)...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func set(t *testing.T, value any, path ...string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArrivalsComeClassesFirstWithTheirOwner(t *testing.T) {
	c := newCluster(t)
	result := c.sync(t, pool, class)
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]applytest.Write{applied(defaultRef, false), applied(general, false)}, c.Writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	for _, written := range result.Written {
		live := c.Object(written.Ref)
		if !owner.Owns(live) || !plan.Applied(live) {
			t.Errorf("%s has no owner", written.Ref)
		}
		if written.Object.GetResourceVersion() != live.GetResourceVersion() || written.Object.GetUID() != live.GetUID() {
			t.Errorf("%s: the Result is not what the cluster has", written.Ref)
		}
	}
	c.settled(t, pool, class)
}

func TestOneChangeIsOneWrite(t *testing.T) {
	c := newCluster(t, class, pool)
	changed := poolWithoutLimits + "  limits: {cpu: \"200\"}\n"
	if err := c.sync(t, class, changed).Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]applytest.Write{applied(general, true)}, c.Writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := spec(t, c.Object(general), "limits", "cpu"); got != "200" {
		t.Errorf("limits.cpu is %v", got)
	}
	c.settled(t, class, changed)
}

func TestALongNameIsKeptInAnAnnotation(t *testing.T) {
	c := newCluster(t)
	c.policy.Owner = plan.OwnerOf("plumbline-system", "a-name-that-nobody-would-call-short-and-yet-somebody-will-use")
	if err := c.sync(t, class).Err(); err != nil {
		t.Fatal(err)
	}
	live := c.Object(defaultRef)
	want := "plumbline-system.a-name-that-nobody-would-call-short-and-yet-somebody-will-use"
	if got := live.GetAnnotations()[v1alpha1.OwnerLabel]; got != want {
		t.Errorf("annotation is %q", got)
	}
	if !c.policy.Owner.Owns(live) {
		t.Errorf("not owned: %v", live.GetLabels())
	}
	c.settled(t, class)
}

func TestTheWholeSpecIsGits(t *testing.T) {
	tests := map[string]struct {
		// before is what Git said first; git where it is empty.
		before, git string
		edit        func(*testing.T, *cluster)
		writes      int
		check       func(*testing.T, *unstructured.Unstructured)
	}{
		"a value edited by hand is put right by one write": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "kubectl-edit", set(t, "1", "spec", "limits", "cpu"))
			},
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if got := spec(t, live, "limits", "cpu"); got != "100" {
					t.Errorf("limits.cpu is %v", got)
				}
			},
		},
		"a field added by hand goes, a label stays": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "kubectl-edit", func(o *unstructured.Unstructured) {
					set(t, "10Gi", "spec", "limits", "memory")(o)
					labels := o.GetLabels()
					labels["team"] = "data"
					o.SetLabels(labels)
				})
			},
			writes: 2,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if got := spec(t, live, "limits", "memory"); got != nil {
					t.Errorf("limits.memory is still %v", got)
				}
				if live.GetLabels()["team"] != "data" {
					t.Error("someone's label is gone")
				}
			},
		},
		"a default that was changed by hand is the default again": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "k9s", set(t, "99h", "spec", "template", "spec", "expireAfter"))
			},
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if got := spec(t, live, "template", "spec", "expireAfter"); got != "720h" {
					t.Errorf("expireAfter is %v", got)
				}
			},
		},
		"a block that leaves Git leaves with all of its fields": {
			git:    pool,
			before: pool + "  disruption: {consolidateAfter: 5m, budgets: [{nodes: 5%}]}\n",
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				want := map[string]any{"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": []any{map[string]any{"nodes": "10%"}}}
				if diff := cmp.Diff(want, spec(t, live, "disruption")); diff != "" {
					t.Errorf("disruption (-want +got):\n%s", diff)
				}
			},
		},
		"a field removed by hand comes back": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "kubectl-edit", func(o *unstructured.Unstructured) {
					unstructured.RemoveNestedField(o.Object, "spec", "limits")
				})
			},
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if got := spec(t, live, "limits", "cpu"); got != "100" {
					t.Errorf("limits.cpu is %v", got)
				}
			},
		},
		"a label of ours taken off comes back": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "kubectl-label", func(o *unstructured.Unstructured) { o.SetLabels(nil) })
			},
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if !owner.Owns(live) {
					t.Error("no owner")
				}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.before == "" {
				test.before = test.git
			}
			c := newCluster(t, class, test.before)
			if test.edit != nil {
				test.edit(t, c)
			}
			if err := c.sync(t, class, test.git).Err(); err != nil {
				t.Fatal(err)
			}
			if writes := c.Writes(); len(writes) != test.writes {
				t.Errorf("%d writes, want %d: %v", len(writes), test.writes, writes)
			}
			test.check(t, c.Object(general))
			c.settled(t, class, test.git)
		})
	}
}

func TestARunningPoolIsAdoptedAndThenGitsAlone(t *testing.T) {
	c := newCluster(t)
	for ref, text := range map[render.Ref]string{defaultRef: class, general: pool} {
		c.Edit(t, ref, "kubectl-client-side-apply", func(o *unstructured.Unstructured) {
			o.Object["spec"] = c.Definition(t, text).Desired.Object["spec"]
		})
	}
	before := c.Object(general)
	if err := c.sync(t, class, pool).Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]applytest.Write{applied(defaultRef, false), applied(general, false)}, c.Writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Object["spec"], c.Object(general).Object["spec"]); diff != "" {
		t.Errorf("adoption changed the spec:\n%s", diff)
	}
	c.settled(t, class, pool)

	if err := c.sync(t, class, poolWithoutLimits).Err(); err != nil {
		t.Fatal(err)
	}
	if limits, ok := spec(t, c.Object(general), "limits").(map[string]any); ok && len(limits) > 0 {
		t.Errorf("limits are still %v: what Git no longer has is kept alive by kubectl's entry", limits)
	}
	c.settled(t, class, poolWithoutLimits)
}

func TestARevertTakesBackWhatTheRemovalDid(t *testing.T) {
	tests := map[string]struct {
		git    string
		growth map[string]any
		writes int
	}{
		"limits of its own":    {git: pool, growth: map[string]any{"limits": map[string]any{"cpu": "0"}}, writes: 1},
		"no limits of its own": {git: poolWithoutLimits, growth: map[string]any{"limits": map[string]any{"cpu": "0"}}, writes: 2},
		"replicas":             {git: staticPool, growth: map[string]any{"replicas": int64(0)}, writes: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class, test.git)
			before := c.Object(general)
			c.stopGrowth(t, test.growth)
			if cmp.Equal(before.Object["spec"], c.Object(general).Object["spec"]) {
				t.Fatal("growth was not stopped")
			}
			if err := c.sync(t, class, test.git).Err(); err != nil {
				t.Fatal(err)
			}
			if writes := c.Writes(); len(writes) != test.writes {
				t.Errorf("%d writes, want %d: %v", len(writes), test.writes, writes)
			}
			after := c.Object(general)
			if limits, ok := spec(t, after, "limits").(map[string]any); ok && len(limits) == 0 {
				unstructured.RemoveNestedField(after.Object, "spec", "limits")
			}
			if diff := cmp.Diff(before.Object["spec"], after.Object["spec"]); diff != "" {
				t.Errorf("not as it was (-before +after):\n%s", diff)
			}
			c.removals = nil
			c.settled(t, class, test.git)
		})
	}
}

func TestAKillBetweenTheTwoStepsOfARevertIsPutRight(t *testing.T) {
	c := newCluster(t, class, poolWithoutLimits)
	c.stopGrowth(t, map[string]any{"limits": map[string]any{"cpu": "0"}})
	c.Fault = func(w applytest.Write) error {
		if w.Manager == v1alpha1.RemovalFieldManager {
			return context.DeadlineExceeded
		}
		return nil
	}
	if err := c.sync(t, class, poolWithoutLimits).Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	// The record is gone, and with it all that is known but what the object says.
	c.Fault, c.removals = nil, nil
	if err := c.sync(t, class, poolWithoutLimits).Err(); err != nil {
		t.Fatal(err)
	}
	if got := spec(t, c.Object(general), "limits", "cpu"); got != nil {
		t.Errorf("limits.cpu is still %v", got)
	}
	c.settled(t, class, poolWithoutLimits)
}

func TestOneBrokenClassKeepsOnlyItsOwnPools(t *testing.T) {
	other := `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: other}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
`
	otherPool := `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: other}
      requirements: []
`
	c := newCluster(t)
	broken := apierrors.NewInvalid(schema.GroupKind{Group: "karpenter.k8s.aws", Kind: render.EC2NodeClass}, "other", nil)
	c.Fault = func(w applytest.Write) error {
		if w.Ref.Name == "other" {
			return broken
		}
		return nil
	}
	result := c.sync(t, class, other, pool, otherPool)
	var invalid *apply.InvalidError
	var waiting *apply.WaitingError
	if !errors.As(result.Err(), &invalid) || !errors.As(result.Err(), &waiting) {
		t.Fatalf("got %v", result.Err())
	}
	if waiting.Ref.Name != "batch" || waiting.For.Name != "other" {
		t.Errorf("waiting is %v", waiting)
	}
	if c.Object(general) == nil || c.Object(waiting.Ref) != nil {
		t.Error("the wrong pool was made")
	}
}

func TestAnswersBecomeTypedErrors(t *testing.T) {
	resource := schema.GroupResource{Group: "karpenter.sh", Resource: "nodepools"}
	timeout := apierrors.NewTimeoutError("slow", 1)
	tests := map[string]struct {
		answer error
		want   func(error) bool
	}{
		"forbidden": {apierrors.NewForbidden(resource, "general", errors.New("no")), func(err error) bool {
			var e *apply.ForbiddenError
			return errors.As(err, &e) && e.Verb == "patch" && e.Resource == "nodepools.karpenter.sh"
		}},
		"stale": {apierrors.NewConflict(resource, "general", errors.New("modified")), func(err error) bool {
			var e *apply.StaleError
			return errors.As(err, &e)
		}},
		"not served": {apierrors.NewNotFound(resource, "general"), func(err error) bool {
			var e *apply.NotServedError
			return errors.As(err, &e)
		}},
		"anything else": {timeout, func(err error) bool { return errors.Is(err, timeout) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class)
			c.Fault = func(applytest.Write) error { return test.answer }
			result := c.sync(t, class, pool)
			if !test.want(result.Err()) {
				t.Errorf("got %#v", result.Err())
			}
		})
	}
}

func TestSomeoneWhoWritesInBetweenIsNamed(t *testing.T) {
	c := newCluster(t, class)
	c.Edit(t, general, "kubectl-create", func(o *unstructured.Unstructured) {
		o.Object["spec"] = c.Definition(t, pool).Desired.Object["spec"]
	})
	p := c.plan(t, class, pool)
	c.Edit(t, general, "kubectl-edit", set(t, "7", "spec", "limits", "cpu"))
	result := apply.Apply(t.Context(), c, p.Changes, apply.Options{Owner: owner})
	var conflict *apply.ConflictError
	if !errors.As(result.Err(), &conflict) {
		t.Fatalf("got %v", result.Err())
	}
	if diff := cmp.Diff([]string{"kubectl-edit"}, conflict.Managers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"spec.limits.cpu"}, conflict.Fields); diff != "" {
		t.Error(diff)
	}
}

func TestAnObjectThatGoesInBetweenIsNoSuccess(t *testing.T) {
	changed := poolWithoutLimits + "  limits: {cpu: \"200\"}\n"
	t.Run("terminating", func(t *testing.T) {
		c := newCluster(t, class, pool)
		p := c.plan(t, class, changed)
		c.Terminate(general)
		var gone *apply.TerminatingError
		if err := apply.Apply(t.Context(), c, p.Changes, apply.Options{Owner: owner}).Err(); !errors.As(err, &gone) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("gone", func(t *testing.T) {
		c := newCluster(t, class, pool)
		p := c.plan(t, class, changed)
		c.Delete(general)
		var stale *apply.StaleError
		if err := apply.Apply(t.Context(), c, p.Changes, apply.Options{Owner: owner}).Err(); !errors.As(err, &stale) {
			t.Errorf("got %v", err)
		}
		if c.Object(general) != nil {
			t.Error("made anew by a write that was meant for the old one")
		}
	})
	t.Run("changed before the takeover", func(t *testing.T) {
		c := newCluster(t, class, pool)
		c.Edit(t, general, "kubectl-edit", set(t, "10Gi", "spec", "limits", "memory"))
		p := c.plan(t, class, pool)
		c.Edit(t, general, "kubectl-edit", set(t, "20Gi", "spec", "limits", "memory"))
		var stale *apply.StaleError
		if err := apply.Apply(t.Context(), c, p.Changes, apply.Options{Owner: owner}).Err(); !errors.As(err, &stale) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNothingIsWrittenWithoutTheLease(t *testing.T) {
	c := newCluster(t)
	lost := errors.New("the lease is another's")
	result := apply.Apply(t.Context(), c, c.plan(t, class, pool).Changes, apply.Options{
		Owner: owner, StillLeader: func(context.Context) error { return lost },
	})
	if !errors.Is(result.Err(), lost) || len(c.Writes()) > 0 || len(result.Written) > 0 {
		t.Errorf("got %v, written %v", result.Err(), result.Written)
	}
}
