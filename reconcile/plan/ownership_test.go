package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// relabel writes the ownership label by hand.
func (c *drawnCluster) relabel(t *testing.T, ref render.Ref, to string) {
	t.Helper()
	c.Edit(t, ref, "kubectl-label", func(o *unstructured.Unstructured) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1alpha1.OwnerLabel] = to
		if to == "" {
			delete(labels, v1alpha1.OwnerLabel)
		}
		o.SetLabels(labels)
	})
}

// has returns the other NodeSync, whose Git contains these objects.
func has(refs ...render.Ref) []plan.OtherSync {
	o := plan.OtherSync{Owner: other, Known: true, Awaited: true, Entries: map[render.Ref]bool{}}
	for _, ref := range refs {
		o.Entries[ref] = true
	}
	return []plan.OtherSync{o}
}

func unheard(failure string) []plan.OtherSync {
	return []plan.OtherSync{{Owner: other, Awaited: true, Failure: failure}}
}

// TestAPoolThatMovesBetweenNodeSyncs is never drained by the old NodeSync, and is adopted by the new one once the old
// one is known not to contain it.
func TestAPoolThatMovesBetweenNodeSyncs(t *testing.T) {
	stopped := func(t *testing.T, c *drawnCluster) {
		growth := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"limits": map[string]any{"cpu": "0"}}}}
		growth.SetAPIVersion("karpenter.sh/v1")
		growth.SetKind(render.NodePool)
		growth.SetName("moves")
		if err := c.ApplyAs(t.Context(), growth, v1alpha1.RemovalFieldManager, true); err != nil {
			t.Fatal(err)
		}
	}
	mine, keeps := func(t *testing.T, c *drawnCluster) { c.have(t, owner, pool("moves", "default")) }, []string{}
	theirs := func(t *testing.T, c *drawnCluster) { c.have(t, other, pool("moves", "default")) }
	takes := []string{pool("moves", "default")}
	const label = "metadata.labels[plumbline.dev/nodesync]:plumbline-system.other→plumbline-system.prod"
	tests := map[string]struct {
		given func(*testing.T, *drawnCluster)
		other []plan.OtherSync
		git   []string
		want  []string
	}{
		"the other has it":             {mine, has(poolRef("moves")), keeps, []string{"Handover NodePool/moves by plumbline-system/other"}},
		"the other lacks it":           {mine, has(), keeps, []string{"Remove NodePool/moves"}},
		"the other is not heard yet":   {mine, unheard(""), keeps, []string{"Await NodePool/moves by plumbline-system/other"}},
		"the other fails":              {mine, unheard("SourceFailed"), keeps, []string{"Await NodePool/moves by plumbline-system/other"}},
		"the other is suspended":       {mine, []plan.OtherSync{{Owner: other}}, keeps, []string{"Remove NodePool/moves"}},
		"the other has it too":         {mine, has(poolRef("moves")), takes, []string{}},
		"it comes, and the other left": {theirs, has(), takes, []string{"Adopt NodePool/moves HandedOver " + label}},
		"it comes, and the other fails": {
			theirs, unheard("SourceFailed"), takes,
			[]string{"Wait NodePool/moves OtherNodeSync " + label + " on NodeSync/other"},
		},
		"it comes, and the other has it still": {theirs, has(poolRef("moves")), takes, []string{"Conflict NodePool/moves OtherNodeSync " + label}},
		"it comes while it drains": {
			func(t *testing.T, c *drawnCluster) { theirs(t, c); stopped(t, c) }, has(), takes,
			[]string{"TakeBack NodePool/moves HandedOver spec.limits.cpu:0→ " + label},
		},
		"its removal had begun, and the other has it": {
			func(t *testing.T, c *drawnCluster) {
				mine(t, c)
				c.removal(poolRef("moves"), v1alpha1.RemovalDraining, "r1")
			},
			has(poolRef("moves")), keeps,
			[]string{"Handover NodePool/moves by plumbline-system/other", "Returned NodePool/moves"},
		},
		"its removal had begun, and the other has taken it": {
			func(t *testing.T, c *drawnCluster) {
				theirs(t, c)
				c.removal(poolRef("moves"), v1alpha1.RemovalDraining, "r1")
			},
			has(poolRef("moves")), keeps,
			[]string{"Returned NodePool/moves"},
		},
		"its NodeClaims end, and the other is not heard since": {
			func(t *testing.T, c *drawnCluster) {
				mine(t, c)
				c.removal(poolRef("moves"), v1alpha1.RemovalDraining, "r1")
			},
			[]plan.OtherSync{{Owner: other, Awaited: true, Entries: map[render.Ref]bool{}}},
			keeps,
			[]string{},
		},
		"its NodeClaims end, and the daemon was restarted: nobody knows what the other has": {
			func(t *testing.T, c *drawnCluster) {
				mine(t, c)
				c.removal(poolRef("moves"), v1alpha1.RemovalDraining, "r1")
			},
			unheard(""), keeps,
			[]string{"Await NodePool/moves by plumbline-system/other"},
		},
		"it is recorded, and the other is not heard since": {
			func(t *testing.T, c *drawnCluster) {
				mine(t, c)
				c.removal(poolRef("moves"), v1alpha1.RemovalPacing, "r1")
			},
			unheard(""), keeps,
			[]string{"Await NodePool/moves by plumbline-system/other"},
		},
		"somebody has deleted it": {
			func(t *testing.T, c *drawnCluster) { mine(t, c); c.Terminate(poolRef("moves")) },
			has(poolRef("moves")), keeps,
			[]string{"Remove NodePool/moves"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("stays", "default"))
			test.given(t, c)
			c.policy.OtherSyncs = test.other
			git := append([]string{class("default"), pool("stays", "default")}, test.git...)
			if diff := cmp.Diff(test.want, script(c.plan(t, git...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnEntryIsReleasedThoughAnotherIsNotHeard: a person has released it explicitly, by its UID. What the other
// NodeSync is known to contain still stays.
func TestAnEntryIsReleasedThoughAnotherIsNotHeard(t *testing.T) {
	for name, test := range map[string]struct {
		other []plan.OtherSync
		want  []string
	}{
		"the other fails":            {unheard("SourceFailed"), []string{"Remove NodePool/moves"}},
		"the other is not heard yet": {unheard(""), []string{"Remove NodePool/moves"}},
		"the other has it":           {has(poolRef("moves")), []string{"Handover NodePool/moves by plumbline-system/other"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("stays", "default"), pool("moves", "default"))
			c.policy.OtherSyncs = test.other
			c.policy.OtherSyncs[0].Since = time.Unix(1_800_000_000, 0)
			git := []string{class("default"), pool("stays", "default")}
			uid := c.Object(poolRef("moves")).GetUID()
			release := fmt.Sprintf("to remove NodePool/moves without waiting, annotate the NodeSync with plumbline.dev/remove=%s", uid)
			for _, k := range c.plan(t, git...).Kept {
				if !k.HandedOver && (!strings.Contains(k.Message, release) || !k.Since.Equal(c.policy.OtherSyncs[0].Since)) {
					t.Errorf("waits since %s: %s; want %q in it", k.Since, k.Message, release)
				}
			}
			c.policy.Released = map[types.UID]bool{uid: true}
			if diff := cmp.Diff(test.want, script(c.plan(t, git...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestALabelByHandIsNoOwnership: it neither makes an object ours, nor takes one away.
func TestALabelByHandIsNoOwnership(t *testing.T) {
	const mine, theirs = "plumbline-system.prod", "plumbline-system.other"
	tests := map[string]struct {
		by    plan.Owner
		label string
		other []plan.OtherSync
		inGit bool
		want  []string
	}{
		"another's, labelled as ours": {other, mine, has(), false, []string{}},
		"ours, labelled as another's, in Git": {
			owner, theirs, has(), true,
			[]string{"Update NodePool/general Differs metadata.labels[plumbline.dev/nodesync]:" + theirs + "→" + mine + " by kubectl-label"},
		},
		"ours, labelled as nobody's, in Git": {
			owner, "nobody", has(), true,
			[]string{"Update NodePool/general Differs metadata.labels[plumbline.dev/nodesync]:nobody→" + mine + " by kubectl-label"},
		},
		"ours, labelled as another's, and both have it": {
			owner, theirs, has(poolRef("general")), true,
			[]string{"Conflict NodePool/general OtherNodeSync metadata.labels[plumbline.dev/nodesync]:" + theirs + "→" + mine + " by kubectl-label"},
		},
		"ours, labelled as another's, which is not heard yet": {
			owner, theirs, unheard(""), true,
			[]string{"Wait NodePool/general OtherNodeSync metadata.labels[plumbline.dev/nodesync]:" + theirs + "→" + mine + " by kubectl-label on NodeSync/other"},
		},
		"ours, without a label": {
			owner, "", has(), true,
			[]string{"Adopt NodePool/general Unowned metadata.labels[plumbline.dev/nodesync]:→" + mine},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"))
			c.have(t, test.by, pool("general", "default"))
			c.relabel(t, poolRef("general"), test.label)
			c.policy.OtherSyncs = test.other
			git := []string{class("default")}
			if test.inGit {
				git = append(git, pool("general", "default"))
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, git...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAForeignObjectWithOurLabelIsAdopted: our label on a user's own object does not let Git overwrite it.
func TestAForeignObjectWithOurLabelIsAdopted(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"))
	c.byHand(t, "kubectl-create", pool("general", "default", "limits: {cpu: 7}"))
	c.relabel(t, poolRef("general"), "plumbline-system.prod")
	want := []string{"Conflict NodePool/general NotAdopted spec.limits.cpu:7→8 by kubectl-create"}
	if diff := cmp.Diff(want, script(c.plan(t, class("default"), pool("general", "default", "limits: {cpu: 8}")))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// TestWhereAnObjectGoes: to the NodeSync that has applied it, or whose Git contains it. A label that was written by
// hand changes nothing.
func TestWhereAnObjectGoes(t *testing.T) {
	moves := poolRef("moves")
	for name, c := range map[string]struct {
		by     plan.Owner
		label  string
		others []plan.OtherSync
		want   string
	}{
		"ours":                             {owner, "", has(), ""},
		"ours, and in the other's Git":     {owner, "", has(moves), other.String()},
		"applied by the other":             {other, "", has(), other.String()},
		"labelled by hand":                 {owner, "plumbline-system.other", has(), ""},
		"applied by one that is not there": {other, "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t)
			cl.have(t, c.by, pool("moves", "default"))
			if c.label != "" {
				cl.relabel(t, moves, c.label)
			}
			to, ok := plan.NewOwner(cl.Object(moves), c.others)
			if got := to.String(); ok != (c.want != "") || ok && got != c.want {
				t.Errorf("goes to %q, %t, want %q", got, ok, c.want)
			}
		})
	}
}

// TestADrainAwaitsOthers: a NodeSync that is deleted with its nodes waits for what others contain by now, and for one
// that fails: after a restart its Git host may be unavailable for a moment.
func TestADrainAwaitsOthers(t *testing.T) {
	for name, c := range map[string]struct {
		others []plan.OtherSync
		want   []string
	}{
		"healthy":          {unheard(""), []string{"Await NodePool/moves by plumbline-system/other"}},
		"it fails":         {unheard("SourceFailed"), []string{"Await NodePool/moves by plumbline-system/other"}},
		"one of two fails": {append(unheard("SourceFailed"), unheard("")...), []string{"Await NodePool/moves by plumbline-system/other"}},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t)
			cl.have(t, owner, pool("moves", "default"))
			cl.policy.OtherSyncs, cl.policy.Deleting = c.others, true
			if diff := cmp.Diff(c.want, script(cl.plan(t))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnerLabel(t *testing.T) {
	long := strings.Repeat("n", 40)
	tests := map[string]struct {
		owner             plan.Owner
		label, annotation string
	}{
		"short":          {plan.OwnerOf("ns", "prod"), "ns.prod", ""},
		"exactly 63":     {plan.OwnerOf(strings.Repeat("a", 31), strings.Repeat("b", 31)), strings.Repeat("a", 31) + "." + strings.Repeat("b", 31), ""},
		"one too many":   {plan.OwnerOf(strings.Repeat("a", 31), strings.Repeat("b", 32)), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbb-895d2334f5", strings.Repeat("a", 31) + "." + strings.Repeat("b", 32)},
		"a long one":     {plan.OwnerOf(long, long), "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn.nnnnnnnnnnn-13dfd1c8bf", long + "." + long},
		"a long sibling": {plan.OwnerOf(long, long+"x"), "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn.nnnnnnnnnnn-2f0f11f05e", long + "." + long + "x"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			label, annotation := test.owner.Label()
			if label != test.label || annotation != test.annotation {
				t.Errorf("got %q and %q, want %q and %q", label, annotation, test.label, test.annotation)
			}
			if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
				t.Errorf("%q is no label value: %v", label, problems)
			}
		})
	}
}

func TestOwns(t *testing.T) {
	long := plan.OwnerOf(strings.Repeat("n", 40), strings.Repeat("n", 40))
	label, annotation := long.Label()
	tests := map[string]struct {
		labels, annotations map[string]string
		want                bool
	}{
		"both":               {map[string]string{v1alpha1.OwnerLabel: label}, map[string]string{v1alpha1.OwnerLabel: annotation}, true},
		"the label alone":    {map[string]string{v1alpha1.OwnerLabel: label}, nil, true},
		"another annotation": {map[string]string{v1alpha1.OwnerLabel: label}, map[string]string{v1alpha1.OwnerLabel: "x.y"}, false},
		"nothing":            {nil, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetLabels(test.labels)
			object.SetAnnotations(test.annotations)
			if got := long.Owns(object); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestOrphan: an orphaned object is held until people have approved exactly that, whatever else is allowed, and counts
// for no limit, because no node terminates.
func TestOrphan(t *testing.T) {
	git := []string{class("default"), pool("a", "default")}
	held := []string{"Hold NodePool/b Orphan", "Hold NodePool/c Orphan"}
	for name, test := range map[string]struct {
		before, then func(*drawnCluster)
		git          []string
		want, after  []string
	}{
		"approved":               {git: git, want: held, after: []string{"Remove NodePool/b", "Remove NodePool/c"}},
		"of the last pool":       {git: git[:1], want: append([]string{"Hold NodePool/a Orphan"}, held...), after: []string{"Remove NodePool/a", "Remove NodePool/b", "Remove NodePool/c"}},
		"HEAD is older than it":  {git: git, want: held, then: func(c *drawnCluster) { c.policy.BranchReset = true }, after: []string{"Hold NodePool/b OlderRevision", "Hold NodePool/c OlderRevision"}},
		"another strategy since": {git: git, want: held, then: func(c *drawnCluster) { c.policy.Orphans = false }, after: []string{"Hold NodePool/b MaxRemovedPools", "Hold NodePool/c MaxRemovedPools"}},
		"approved as a removal": {
			git: git, before: func(c *drawnCluster) { c.policy.Orphans = false }, want: []string{"Hold NodePool/b MaxRemovedPools", "Hold NodePool/c MaxRemovedPools"},
			then: func(c *drawnCluster) { c.policy.Orphans = true }, after: held,
		},
		"the NodeSync is deleted": {git: git, want: held, then: func(c *drawnCluster) { c.policy.Deleting = true }, after: []string{"Remove NodePool/a", "Remove NodePool/b", "Remove NodePool/c", "Remove EC2NodeClass/default"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
			c.live.NodeClaims = claims("b", 4)
			c.policy.Orphans, c.policy.Guard.MaxDisruptedNodes = true, ptr.To(intstr.FromInt32(100))
			if test.before != nil {
				test.before(c)
			}
			p := c.plan(t, test.git...)
			if diff := cmp.Diff(test.want, script(p)); diff != "" {
				t.Fatalf("before the approval (-want +got):\n%s", diff)
			}
			approve(c, p)
			if test.then != nil {
				test.then(c)
			}
			if diff := cmp.Diff(test.after, script(c.plan(t, test.git...))); diff != "" {
				t.Errorf("after it (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeptByAnother: if Flux or Argo CD applies an object as well, or an annotation keeps it, removing it from Git
// terminates no node: it is being handed over. A label of Helm may be left over from an old release.
func TestKeptByAnother(t *testing.T) {
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		deleting            bool
		want                string
		says                string
	}{
		"nobody else":                  {want: "Remove NodePool/b"},
		"Flux applies it":              {labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, want: "Hold NodePool/b Orphan", says: "is applied by Flux's Kustomization flux-system/apps"},
		"Argo CD applies it":           {annotations: map[string]string{"argocd.argoproj.io/tracking-id": "prod:karpenter.sh/NodePool:/b"}, want: "Hold NodePool/b Orphan", says: "is applied by Argo CD's Application prod"},
		"Flux would leave it":          {annotations: map[string]string{"kustomize.toolkit.fluxcd.io/prune": "disabled"}, want: "Hold NodePool/b Orphan", says: `is annotated with "kustomize.toolkit.fluxcd.io/prune: disabled"`},
		"Argo CD would leave it":       {annotations: map[string]string{"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}, want: "Hold NodePool/b Orphan", says: "is annotated with"},
		"Argo CD would delete it":      {annotations: map[string]string{"argocd.argoproj.io/sync-options": "ServerSideApply=true"}, want: "Remove NodePool/b"},
		"Helm has made it":             {labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, annotations: map[string]string{"meta.helm.sh/release-name": "pools"}, want: "Remove NodePool/b"},
		"the NodeSync goes with nodes": {labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps"}, deleting: true, want: "Remove NodePool/b"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			c.live.NodeClaims, c.policy.Deleting = claims("b", 4), test.deleting
			c.policy.Guard.MaxDisruptedNodes = ptr.To(intstr.FromInt32(100))
			c.Edit(t, poolRef("b"), "kustomize-controller", func(o *unstructured.Unstructured) {
				labels, annotations := o.GetLabels(), o.GetAnnotations()
				maps.Copy(labels, test.labels)
				if annotations == nil {
					annotations = map[string]string{}
				}
				maps.Copy(annotations, test.annotations)
				o.SetLabels(labels)
				o.SetAnnotations(annotations)
			})
			p := c.plan(t, class("default"), pool("a", "default"))
			if got := script(p); !slices.Contains(got, test.want) {
				t.Fatalf("got %v, want %s", got, test.want)
			}
			if test.says == "" {
				return
			}
			if got := p.Removals[0].Message; !strings.Contains(got, test.says) {
				t.Errorf("it says %q, want %q", got, test.says)
			}
			approve(c, p)
			p = c.plan(t, class("default"), pool("a", "default"))
			if got := p.Removals[0]; got.Held || !got.Orphan || p.Disrupts() {
				t.Errorf("approved: %v, orphan %t", script(p), got.Orphan)
			}
		})
	}
}

// TestAnOrphanEndsNoNode, and the plan reports how many nodes are no longer managed.
func TestAnOrphanEndsNoNode(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
	c.live.NodeClaims = claims("b", 4)
	c.policy.Guard.MaxDisruptedNodes, c.policy.Guard.MaxRemovedPools = ptr.To(intstr.FromInt32(0)), ptr.To(int32(0))
	removed := c.plan(t, class("default"), pool("a", "default"))
	c.policy.Orphans = true
	p := c.plan(t, class("default"), pool("a", "default"))
	if got, want := p.Approvable.Summary(), "leaves 4 unmanaged of 4 nodes in 1 pool"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if p.Approvable.Digest == removed.Approvable.Digest {
		t.Error("to leave it to itself has the digest of its removal")
	}
	approve(c, p)
	p = c.plan(t, class("default"), pool("a", "default"))
	d := p.Document(c.live)
	if len(p.Removals) != 1 || p.Removals[0].Held || p.Disrupts() || d.Totals.DisruptedNodes != 0 || d.Totals.RemovedPools != 0 || !d.Removals[0].Orphan || d.Removals[0].Leaves != 4 {
		t.Errorf("%v: %+v", script(p), d.Totals)
	}
}

// TestOrphansAreCounted by their label, until they are adopted.
func TestOrphansAreCounted(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
	c.have(t, other, pool("d", "default"))
	c.live.NodeClaims = append(claims("a", 1), append(claims("b", 2), claims("d", 3)...)...)
	orphan := func(name, of string) {
		c.Edit(t, poolRef(name), v1alpha1.FieldManager, func(o *unstructured.Unstructured) {
			labels := o.GetLabels()
			delete(labels, v1alpha1.OwnerLabel)
			labels[v1alpha1.OrphanedLabel] = of
			o.SetLabels(labels)
		})
	}
	orphan("b", "plumbline-system.prod")
	orphan("c", "plumbline-system.prod") // without a node
	orphan("d", "plumbline-system.other")
	c.have(t, owner, pool("e", "default"))
	c.live.NodeClaims = append(c.live.NodeClaims, claims("e", 2)...)
	orphan("e", "plumbline-system.prod")
	c.edit(t, poolRef("e"), "kustomize-controller", "apps", "metadata", "labels", "kustomize.toolkit.fluxcd.io/name") // Flux applies it
	count := func() []plan.OrphanedPool {
		live := c.live
		live.Objects = plan.NewObjects(c.Objects())
		return live.Orphaned(owner)
	}
	if diff := cmp.Diff([]plan.OrphanedPool{{Name: "b", Nodes: 2}}, count()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p := c.plan(t, class("default"), pool("a", "default"), pool("b", "default"))
	if got := p.Changes[0]; len(p.Changes) != 1 || got.Action != plan.Adopt || !got.Takeover || len(got.Taken) != 1 {
		t.Errorf("adopted again: %v, taken %v", script(p), got.Taken)
	}
}
