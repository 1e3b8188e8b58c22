package plan_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestTheDigestHasHowAnObjectIsWritten: overwriting other managers' fields is another write than adding a label.
func TestTheDigestHasHowAnObjectIsWritten(t *testing.T) {
	c := newCluster(t)
	c.have(t, plan.Owner{}, class("default"))
	digests := map[string]bool{}
	for _, adopt := range []v1alpha1.AdoptPolicy{v1alpha1.AdoptIfIdentical, v1alpha1.AdoptAlways} {
		c.policy.Adopt = adopt
		p := c.plan(t, class("default"))
		if len(p.Changes) != 1 || p.Changes[0].Action != plan.Adopt || p.Changes[0].Force != (adopt == v1alpha1.AdoptAlways) {
			t.Fatalf("%s: %+v", adopt, p.Changes)
		}
		digests[p.Digest] = true
	}
	if len(digests) != 2 {
		t.Error("both have one digest")
	}
}
