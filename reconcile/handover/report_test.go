package handover_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/render"
)

// object returns an object as the API server does.
func object(kind, name, spec string, more func(*unstructured.Unstructured)) unstructured.Unstructured {
	o := unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"path": spec}}}
	o.SetKind(kind)
	o.SetName(name)
	o.SetNamespace("flux-system")
	if more != nil {
		more(&o)
	}
	return o
}

// TestLook decides from values: the Kustomization that lists a NodePool hands it over, an object that nothing applies
// is skipped unless it is named, and obstacles are errors.
func TestLook(t *testing.T) {
	lists := func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"inventory": map[string]any{"entries": []any{map[string]any{"id": "_team_karpenter.sh_NodePool", "v": "v1"}}}}
	}
	team, free := object("NodePool", "team", "", nil), object("NodePool", "free", "", nil)
	for name, c := range map[string]struct {
		folder string
		named  []render.Ref
		adopt  v1alpha1.AdoptPolicy
		back   bool
		step   handover.Step
		says   string
	}{
		"it begins":            {folder: "apps", step: handover.Mark},
		"named":                {folder: "apps", named: []render.Ref{ref("team")}, step: handover.Mark},
		"named, and not there": {folder: "apps", named: []render.Ref{ref("other")}, says: "NodePool/other is not in the cluster"},
		"named, and nobody's":  {folder: "apps", named: []render.Ref{ref("free")}, says: "no Kustomization of Flux applies NodePool/free"},
		"one is in the other":  {folder: "nodes/more", says: "one folder contains the other"},
		"the root":             {folder: "", says: "one folder contains the other"},
		"nothing is adopted":   {folder: "apps", adopt: v1alpha1.AdoptNever, says: "spec.adopt of nodesync/prod is Never"},
		"given back to nobody": {folder: "apps", named: []render.Ref{ref("free")}, back: true, says: "set the one that gets it back with --owner"},
		"given back already":   {folder: "apps", back: true, step: handover.Done},
	} {
		sync := &v1alpha1.NodeSync{}
		sync.Namespace, sync.Name, sync.Spec.Path, sync.Spec.Adopt = "fleet", "prod", "./nodes", c.adopt
		tool := handover.OwnerOf("flux")
		appliers := handover.Appliers(tool, []unstructured.Unstructured{object("Kustomization", "apps", c.folder, lists)})
		r, err := handover.Query{Sync: sync, Tool: tool, Back: c.back, Refs: c.named}.Look(appliers, []unstructured.Unstructured{team, free})
		if err == nil {
			err = r.Decide(nil)
		}
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", name, err, c.says)
			}
			continue
		}
		if err != nil || len(r.Objects) != 1 || r.Objects[0].AppliedBy != "Flux's Kustomization flux-system/apps" || r.Step() != c.step {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}
