package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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
