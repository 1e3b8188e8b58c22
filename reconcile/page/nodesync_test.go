package page

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestAPlanIsShownWhileThereIsOne: an applied commit has none, and a refused one is not about to be applied.
func TestAPlanIsShownWhileThereIsOne(t *testing.T) {
	for name, shown := range map[string]bool{"in-sync": false, "empty": false, "many": false, "planned": true} {
		if got := strings.Contains(rendered(t, worlds()[name], query{nodeSync: "prod"}), `id="plan"`); got != shown {
			t.Errorf("%s: a plan is shown: %v", name, got)
		}
	}
	status := v1alpha1.NodeSyncStatus{LastAttemptedRevision: pushed, LastAppliedRevision: applied}
	if p := plannedOf(status, summary.Failed, noon); p != nil {
		t.Errorf("of a commit that is refused: %+v", p)
	}
	if p := plannedOf(status, summary.Waiting, noon); p == nil || p.Commit != "main@sha1:89abcdef" {
		t.Errorf("of a commit that waits: %+v", p)
	}
}

// TestALongPlan shows its first entries, and the number of others.
func TestALongPlan(t *testing.T) {
	w := worlds()["planned"]
	held := w.NodeSyncs[0].Status.Held
	for len(held.Entries) < 99 {
		held.Entries = append(held.Entries, held.Entries[0])
	}
	if text := textOf(t, rendered(t, w, query{nodeSync: "prod"})); !strings.Contains(text, "and 50 more objects") {
		t.Error(text)
	}
	if text := textOf(t, rendered(t, w, query{nodeSync: "prod", all: true})); strings.Contains(text, "more objects") || strings.Count(text, "NodePool/general") < 97 {
		t.Error(text)
	}
}

// TestAnIdentityConflict: the page shows the conflict with its evidence, and that it has to be acted on.
func TestAnIdentityConflict(t *testing.T) {
	w := worlds()["in-sync"]
	const message = "identity conflict: another Karpenter uses the name prod-eu, with the API server https://other.eks.example"
	ready(metav1.ConditionFalse, v1alpha1.ReasonIdentityConflict, message)(&w.NodeSyncs[0])
	for at, q := range map[string]query{"the overview": {}, "the NodeSync": {nodeSync: "prod"}} {
		if text := textOf(t, rendered(t, w, q)); !strings.Contains(text, message) || strings.Contains(text, "in sync") {
			t.Errorf("%s shows:\n%s", at, text)
		}
	}
}
