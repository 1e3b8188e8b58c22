package plan_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestOrphan: what is left to itself is held until people have approved just that, whatever else is
// allowed, and counts for no limit, as no node ends.
func TestOrphan(t *testing.T) {
	git := []string{class("default"), pool("a", "default")}
	held := []string{"Hold NodePool/b Orphan", "Hold NodePool/c Orphan"}
	for name, test := range map[string]struct {
		before, then func(*cluster)
		git          []string
		want, after  []string
	}{
		"approved":               {git: git, want: held, after: []string{"Remove NodePool/b", "Remove NodePool/c"}},
		"of the last pool":       {git: git[:1], want: append([]string{"Hold NodePool/a Orphan"}, held...), after: []string{"Remove NodePool/a", "Remove NodePool/b", "Remove NodePool/c"}},
		"HEAD is older than it":  {git: git, want: held, then: func(c *cluster) { c.policy.SetBack = true }, after: []string{"Hold NodePool/b OlderRevision", "Hold NodePool/c OlderRevision"}},
		"another strategy since": {git: git, want: held, then: func(c *cluster) { c.policy.Orphans = false }, after: []string{"Hold NodePool/b MaxRemovedPools", "Hold NodePool/c MaxRemovedPools"}},
		"approved as a removal": {
			git: git, before: func(c *cluster) { c.policy.Orphans = false }, want: []string{"Hold NodePool/b MaxRemovedPools", "Hold NodePool/c MaxRemovedPools"},
			then: func(c *cluster) { c.policy.Orphans = true }, after: held,
		},
		"the NodeSync is deleted": {git: git, want: held, then: func(c *cluster) { c.policy.Deleting = true }, after: []string{"Remove NodePool/a", "Remove NodePool/b", "Remove NodePool/c", "Remove EC2NodeClass/default"}},
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

// TestKeptByAnother: what Flux or Argo CD applies as well, or what is annotated to stay, ends no node when it leaves
// Git: it is being handed over, or back. A label of Helm's is on what Helm has left long ago.
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

// TestAnOrphanEndsNoNode, and says how many nobody manages.
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

// TestOrphansAreCounted by their label, as long as nobody has adopted them.
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
	c.edit(t, poolRef("e"), "kustomize-controller", "apps", "metadata", "labels", "kustomize.toolkit.fluxcd.io/name") // Flux has it
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
