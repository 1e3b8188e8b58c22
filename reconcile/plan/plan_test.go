package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/render"
)

func TestMake(t *testing.T) {
	limited := pool("general", "default", `limits: {cpu: "100"}`)
	tests := map[string]struct {
		given func(*testing.T, *drawnCluster)
		git   []string
		want  []string
	}{
		"an empty cluster": {
			git:  []string{pool("general", "default"), class("default")},
			want: []string{"Create EC2NodeClass/default Missing", "Create NodePool/general Missing"},
		},
		"as Git says": {
			given: func(t *testing.T, c *drawnCluster) { c.have(t, owner, class("default"), limited) },
			git:   []string{class("default"), limited},
			want:  []string{},
		},
		"a limit changes": {
			given: func(t *testing.T, c *drawnCluster) { c.have(t, owner, class("default"), limited) },
			git:   []string{class("default"), pool("general", "default", `limits: {cpu: "200"}`)},
			want:  []string{"Update NodePool/general Differs spec.limits.cpu:100→200"},
		},
		"a field leaves Git": {
			given: func(t *testing.T, c *drawnCluster) { c.have(t, owner, class("default"), limited) },
			git:   []string{class("default"), pool("general", "default")},
			want:  []string{"Update NodePool/general Differs spec.limits.cpu:100→"},
		},
		"edited by hand": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "kubectl-edit", "5", "spec", "limits", "cpu")
			},
			git:  []string{class("default"), limited},
			want: []string{"Update NodePool/general Differs spec.limits.cpu:5→100 by kubectl-edit"},
		},
		"a field added by hand": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "kubectl-patch", "1Gi", "spec", "limits", "memory")
			},
			git:  []string{class("default"), limited},
			want: []string{"Update NodePool/general Differs spec.limits.memory:1Gi→ by kubectl-patch takeover"},
		},
		"a field that a controller adds is its own": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "some-webhook", "1Gi", "spec", "limits", "memory")
			},
			git:  []string{class("default"), limited},
			want: []string{"Extra NodePool/general: spec.limits.memory (some-webhook)"},
		},
		"a label added by hand": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "kubectl-label", "data", "metadata", "labels", "team")
			},
			git:  []string{class("default"), limited},
			want: []string{},
		},
		"empty maps in Git say nothing": {
			given: func(t *testing.T, c *drawnCluster) { c.have(t, owner, class("default"), limited) },
			git:   []string{class("default", "tags: {}", "kubelet: {}"), pool("general", "default", `limits: {cpu: "100"}`)},
			want:  []string{},
		},
		"the status is not ours": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.Edit(t, poolRef("general"), "kubectl-edit", func(o *unstructured.Unstructured) {
					entries := o.GetManagedFields()
					entries[0].Manager, entries[0].Operation, entries[0].Subresource = "argocd-controller", metav1.ManagedFieldsOperationUpdate, "status"
					o.SetManagedFields(append(o.GetManagedFields(), entries[0]))
				})
			},
			git:  []string{class("default"), pool("general", "default", "limits: {cpu: 1}")},
			want: []string{"Update NodePool/general Differs spec.limits.cpu:100→1"},
		},
		"edited, and drift is to be reported": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "kubectl-edit", "5", "spec", "limits", "cpu")
				c.policy.Drift, c.policy.NewRevision = v1alpha1.DriftReport, false
			},
			git:  []string{class("default"), limited, pool("deleted", "default")},
			want: []string{"Drifted NodePool/deleted Missing", "Drifted NodePool/general Differs spec.limits.cpu:5→100 by kubectl-edit"},
		},
		"another applier's field": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "kustomize-controller", "5", "spec", "limits", "cpu")
			},
			git:  []string{class("default"), limited},
			want: []string{"Conflict NodePool/general OtherApplier spec.limits.cpu:5→100"},
		},
		"another applier owns a field that Git lacks": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "argocd-controller", "1Gi", "spec", "limits", "memory")
			},
			git:  []string{class("default"), limited},
			want: []string{"Conflict NodePool/general OtherApplier spec.limits.memory:1Gi→"},
		},
		"unowned and identical": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"))
				c.byHand(t, "kubectl-create", limited)
			},
			git:  []string{class("default"), limited},
			want: []string{"Adopt NodePool/general Unowned metadata.labels[plumbline.dev/nodesync]:→plumbline-system.prod"},
		},
		"unowned and different": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"))
				c.byHand(t, "kubectl-create", pool("general", "default", "limits: {cpu: 7, memory: 1Gi}"))
			},
			git:  []string{class("default"), pool("general", "default", "limits: {cpu: 8}")},
			want: []string{"Conflict NodePool/general NotAdopted spec.limits.cpu:7→8 spec.limits.memory:1Gi→ metadata.labels[plumbline.dev/nodesync]:→plumbline-system.prod by kubectl-create"},
		},
		"unowned and different, adopt Always": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"))
				c.byHand(t, "kubectl-create", pool("general", "default", "limits: {cpu: 7}"))
				c.policy.Adopt = v1alpha1.AdoptAlways
			},
			git:  []string{class("default"), pool("general", "default", "limits: {cpu: 8}")},
			want: []string{"Adopt NodePool/general Unowned spec.limits.cpu:7→8 metadata.labels[plumbline.dev/nodesync]:→plumbline-system.prod by kubectl-create"},
		},
		"another applier's, adopt Always": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"))
				c.byHand(t, "Terraform", pool("general", "default", "limits: {cpu: 7}"))
				c.policy.Adopt = v1alpha1.AdoptAlways
			},
			git:  []string{class("default"), pool("general", "default", "limits: {cpu: 8}")},
			want: []string{"Conflict NodePool/general OtherApplier metadata.labels[plumbline.dev/nodesync]:→plumbline-system.prod spec.limits.cpu:7→8"},
		},
		"unowned, adopt Never": {
			given: func(t *testing.T, c *drawnCluster) {
				c.byHand(t, "kubectl-create", class("default"))
				c.policy.Adopt = v1alpha1.AdoptNever
			},
			git:  []string{class("default")},
			want: []string{"Conflict EC2NodeClass/default NotAdopted metadata.labels[plumbline.dev/nodesync]:→plumbline-system.prod"},
		},
		"another NodeSync's": {
			given: func(t *testing.T, c *drawnCluster) { c.have(t, other, class("default")) },
			git:   []string{class("default")},
			want:  []string{"Conflict EC2NodeClass/default OtherNodeSync metadata.labels[plumbline.dev/nodesync]:plumbline-system.other→plumbline-system.prod"},
		},
		"a NodeSync's that is no more": {
			given: func(t *testing.T, c *drawnCluster) { c.have(t, plan.OwnerOf("gone", "gone"), class("default")) },
			git:   []string{class("default")},
			want:  []string{"Adopt EC2NodeClass/default Unowned metadata.labels[plumbline.dev/nodesync]:gone.gone→plumbline-system.prod"},
		},
		"a class that is nowhere": {
			given: func(t *testing.T, c *drawnCluster) { c.have(t, owner, class("default")) },
			git:   []string{class("default"), pool("general", "default"), pool("lost", "nowhere")},
			want:  []string{"Create NodePool/general Missing", "Refuse NodePool/lost ClassMissing"},
		},
		"a class of someone else": {
			given: func(t *testing.T, c *drawnCluster) { c.byHand(t, "kubectl-create", class("theirs")) },
			git:   []string{pool("general", "theirs")},
			want:  []string{"Create NodePool/general Missing"},
		},
		"a class that is terminating": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.Terminate(classRef("default"))
			},
			git:  []string{class("default"), limited, pool("new", "default")},
			want: []string{"Wait EC2NodeClass/default Terminating on EC2NodeClass/default", "Wait NodePool/new Terminating on EC2NodeClass/default"},
		},
		"a class that cannot be made": {
			given: func(t *testing.T, c *drawnCluster) {
				c.policy.Drift, c.policy.NewRevision = v1alpha1.DriftReport, false
			},
			git:  []string{class("default"), pool("general", "default")},
			want: []string{"Drifted EC2NodeClass/default Missing", "Wait NodePool/general ClassNotMade on EC2NodeClass/default"},
		},
		"static becomes dynamic": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), pool("general", "default", "replicas: 3"))
			},
			git:  []string{class("default"), pool("general", "default"), pool("new", "default")},
			want: []string{"Refuse NodePool/general Immutable spec.replicas:3→", "Create NodePool/new Missing"},
		},
		"the kind of the class changes": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"))
				c.byHand(t, "kubectl-create", pool("general", "default"))
				c.edit(t, poolRef("general"), "kubectl-create", "OtherNodeClass", "spec", "template", "spec", "nodeClassRef", "kind")
				c.policy.Adopt = v1alpha1.AdoptAlways
			},
			git:  []string{class("default"), pool("general", "default")},
			want: []string{"Refuse NodePool/general Immutable spec.template.spec.nodeClassRef.kind:OtherNodeClass→EC2NodeClass metadata.labels[plumbline.dev/nodesync]:→plumbline-system.prod by kubectl-create"},
		},
		"leaving, and Git has it again": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.removal(poolRef("general"), v1alpha1.RemovalDraining, "r1")
			},
			git:  []string{class("default"), limited},
			want: []string{"TakeBack NodePool/general Returned", "Returned NodePool/general"},
		},
		"held, and Git has it again": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.removal(poolRef("general"), v1alpha1.RemovalHeld, "r1")
			},
			git:  []string{class("default"), limited},
			want: []string{"Returned NodePool/general"},
		},
		"deleted, and Git has it again": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.removal(poolRef("general"), v1alpha1.RemovalFinalizing, "r1")
				c.Terminate(poolRef("general"))
			},
			git:  []string{class("default"), limited},
			want: []string{"Wait NodePool/general Terminating on NodePool/general"},
		},
		"draining, and Git has it again as a static one": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.removal(poolRef("general"), v1alpha1.RemovalDraining, "r1")
			},
			git:  []string{class("default"), pool("general", "default", "replicas: 2")},
			want: []string{"Wait NodePool/general Recreated spec.limits.cpu:100→ spec.replicas:→2 on NodePool/general"},
		},
		"recorded, and Git has it again as a static one": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.removal(poolRef("general"), v1alpha1.RemovalPacing, "r1")
			},
			git:  []string{class("default"), pool("general", "default", "replicas: 2")},
			want: []string{"Refuse NodePool/general Immutable spec.limits.cpu:100→ spec.replicas:→2", "Returned NodePool/general"},
		},
		"the name of a pool of EKS Auto Mode": {
			given: func(_ *testing.T, c *drawnCluster) { c.live.AutoMode = []string{"default", "general"} },
			git:   []string{pool("general", "default"), pool("batch", "default"), class("default")},
			want:  []string{"Create EC2NodeClass/default Missing", "Create NodePool/batch Missing", "Refuse NodePool/general Immutable"},
		},
		"gone, and Git has it again": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.removal(poolRef("general"), v1alpha1.RemovalVerifyingCloud, "r1")
				c.Delete(poolRef("general"))
			},
			git:  []string{class("default"), limited},
			want: []string{"Create NodePool/general Missing"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			if test.given != nil {
				test.given(t, c)
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, test.git...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestADocumentNamesNodeClaims: the JSON of a plan lists the affected nodes, their data, and the total, each counted
// once.
func TestADocumentNamesNodeClaims(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("batch", "default"), pool("web", "default"))
	labels := plan.PackLabels(map[string]string{
		"node.kubernetes.io/instance-type": "m7i.large", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "eu-west-1a",
	})
	c.live.NodeClaims = []plan.NodeClaim{
		{Name: "batch-2", UID: "2", Pool: "batch", Class: "default"},
		{Name: "batch-1", UID: "1", Pool: "batch", Class: "default", Node: "ip-10-0-0-1", Labels: labels},
		{Name: "web-1", UID: "3", Pool: "web", Class: "default"},
		{Name: "other-1", UID: "4", Pool: "other", Class: "other"},
	}
	c.policy.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu"}}
	p := c.plan(t, class("default", "tags: {team: a}"), pool("web", "default"))
	d := p.Document(c.live)

	one := planjson.NodeClaim{Name: "batch-1", Pool: "batch", Class: "default", Node: "ip-10-0-0-1", InstanceType: "m7i.large", CapacityType: "spot", Zone: "eu-west-1a"}
	two := planjson.NodeClaim{Name: "batch-2", Pool: "batch", Class: "default"}
	web := planjson.NodeClaim{Name: "web-1", Pool: "web", Class: "default"}
	if diff := cmp.Diff([]planjson.NodeClaim{one, two}, d.Removals[0].NodeClaims); diff != "" {
		t.Errorf("of the pool that leaves (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]planjson.NodeClaim{one, two, web}, d.Changes[0].NodeClaims); diff != "" {
		t.Errorf("of the class that changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(planjson.Totals{Nodes: 3, ClusterNodes: 4, DisruptedNodes: 3, RemovedPools: 1}, d.Totals); diff != "" {
		t.Errorf("in all (-want +got):\n%s", diff)
	}
	if len(d.NodeClaims) != 4 || d.Cluster != "prod-eu" || d.NodeSync != "plumbline-system/prod" || d.Changes[0].Kind != "EC2NodeClass" {
		t.Errorf("%+v", d)
	}
	tags := map[string]any{"team": "a"}
	if diff := cmp.Diff(tags, d.Changes[0].Spec["tags"]); diff != "" || d.Changes[0].LiveSpec["tags"] != nil || d.Changes[0].LiveSpec["role"] == nil {
		t.Errorf("before %v, after (-want +got):\n%s", d.Changes[0].LiveSpec, diff)
	}
}

// TestADocumentHasWhatLives: the labels and the spec of a change are those in Git, and the live ones are separate.
func TestADocumentHasWhatLives(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("batch", "default"), pool("web", "default"))
	for _, name := range []string{"batch", "web"} {
		c.edit(t, render.Ref{Kind: render.NodePool, Name: name}, "kubectl", "critical", "metadata", "labels", "tier")
	}
	live := c.live
	live.Objects = plan.NewObjects(c.Objects())
	d := c.plan(t, class("default"), pool("web", "default", "weight: 3")).Document(live)
	if len(d.Changes) != 1 || d.Changes[0].LiveLabels["tier"] != "critical" || d.Changes[0].Labels["tier"] != "" {
		t.Errorf("changes %+v", d.Changes)
	}
	if len(d.Removals) != 1 || d.Removals[0].Labels["tier"] != "critical" || d.Removals[0].Spec["template"] == nil {
		t.Errorf("removals %+v", d.Removals)
	}
	if n := d.NodePools; len(n) != 2 || n[0].Name != "batch" || n[1].Name != "web" || n[0].Class != "default" || n[0].Labels["tier"] != "critical" {
		t.Errorf("node pools %+v", n)
	}
}
