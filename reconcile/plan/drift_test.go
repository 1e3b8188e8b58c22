package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatGitHasNotChangedIsDrift, whatever else changed in a new revision.
func TestWhatGitHasNotChangedIsDrift(t *testing.T) {
	limited := func(cpu string) string { return pool("general", "default", `limits: {cpu: "`+cpu+`"}`) }
	for name, test := range map[string]struct {
		// applied is the content of Git when it was last applied; empty if unknown.
		applied, git string
		newRevision  bool
		deleted      bool
		want         []string
	}{
		"edited, and Git has the same":                {limited("100"), limited("100"), true, false, []string{"Drifted NodePool/general Differs spec.limits.cpu:5→100 by kubectl-edit"}},
		"edited, and Git has changed it":              {limited("100"), limited("200"), true, false, []string{"Update NodePool/general Differs spec.limits.cpu:5→200 by kubectl-edit"}},
		"deleted, and Git has the same":               {limited("100"), limited("100"), true, true, []string{"Drifted NodePool/general Missing"}},
		"deleted, and Git has changed it":             {limited("100"), limited("200"), true, true, []string{"Create NodePool/general Missing"}},
		"deleted, and the path has changed":           {"", limited("100"), true, true, []string{"Create NodePool/general Missing"}},
		"after a restart, of the same inputs":         {"", limited("100"), false, false, []string{"Drifted NodePool/general Differs spec.limits.cpu:5→100 by kubectl-edit"}},
		"after a restart, of other inputs, it may be": {"", limited("100"), true, false, []string{"Update NodePool/general Differs spec.limits.cpu:5→100 by kubectl-edit"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), limited("100"))
			c.edit(t, poolRef("general"), "kubectl-edit", "5", "spec", "limits", "cpu")
			if test.deleted {
				c.Delete(poolRef("general"))
			}
			c.policy.Drift, c.policy.NewRevision = v1alpha1.DriftReport, test.newRevision
			if test.applied != "" {
				c.policy.Applied = map[render.Ref]*unstructured.Unstructured{poolRef("general"): c.Definition(t, test.applied).Defaulted}
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, class("default"), test.git))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnEditIsDriftWhileACommitWaits: the edit stays in the cluster as long as the Change of the object is not written.
// A field that another manager owns with the value that Git had before is no edit.
func TestAnEditIsDriftWhileACommitWaits(t *testing.T) {
	const edited = "spec.disruption.consolidateAfter"
	path := []string{"spec", "disruption", "consolidateAfter"}
	before := pool("a", "default", "weight: 7", "disruption: {consolidateAfter: 5m}")
	after := pool("a", "default", "weight: 7", "disruption: {consolidateAfter: 5m}") + "  limits: {cpu: 9}\n"
	after = strings.Replace(after, "    spec:", "    metadata: {labels: {a: b}}\n    spec:", 1)
	for name, test := range map[string]struct {
		edit func(*testing.T, *drawnCluster)
		git  string
		// restarted reports whether it is unknown how the object last matched Git.
		restarted bool
		want      []string
		gone      bool
	}{
		"not edited":            {git: after},
		"edited":                {git: after, edit: func(t *testing.T, c *drawnCluster) { c.edit(t, poolRef("a"), "tool", "0s", path...) }, want: []string{edited}},
		"edited, and a restart": {git: after, edit: func(t *testing.T, c *drawnCluster) { c.edit(t, poolRef("a"), "tool", "0s", path...) }, restarted: true, want: []string{edited}},
		"to what Git has now":   {git: strings.Replace(after, "5m", "0s", 1), edit: func(t *testing.T, c *drawnCluster) { c.edit(t, poolRef("a"), "tool", "0s", path...) }},
		"owned, and not edited": {git: strings.Replace(after, "5m", "9m", 1), edit: func(t *testing.T, c *drawnCluster) {
			if err := c.ApplyAs(t.Context(), c.Definition(t, before).Desired, "tool", true); err != nil {
				t.Fatal(err)
			}
		}},
		"removed": {git: after, want: []string{"spec.weight"}, edit: func(t *testing.T, c *drawnCluster) {
			c.Edit(t, poolRef("a"), "tool", func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "weight") })
		}},
		"deleted": {git: after, gone: true, edit: func(_ *testing.T, c *drawnCluster) { c.Delete(poolRef("a")) }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			inFreeze(c)
			c.have(t, owner, class("default"), before)
			if test.edit != nil {
				test.edit(t, c)
			}
			c.live.NodeClaims = claims("a", 2)
			if !test.restarted {
				c.policy.Applied = map[render.Ref]*unstructured.Unstructured{
					poolRef("a"): c.Definition(t, before).Defaulted, classRef("default"): c.Definition(t, class("default")).Defaulted,
				}
			}
			made := c.plan(t, class("default"), test.git)
			if len(made.Changes) != 1 || made.Changes[0].Drift || !test.gone && made.Changes[0].Reason != plan.ReasonFrozen {
				t.Fatalf("plan: %v", script(made))
			}
			change := &made.Changes[0]
			fields, drifts := made.Drifts(change)
			var got []string
			for _, f := range fields {
				got = append(got, f.Path)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || drifts != (test.want != nil || test.gone) {
				t.Errorf("drifts %t (-want +got):\n%s", drifts, diff)
			}
			if says := strings.Contains(change.Message, "are not reverted"); says != (test.want != nil) {
				t.Errorf("it says %q", change.Message)
			}
		})
	}
}
