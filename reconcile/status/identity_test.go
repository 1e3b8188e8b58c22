package status

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestIdentityConflictIsReported: in Ready, its own condition, the commit status and an event, until it is over.
func TestIdentityConflictIsReported(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	open := &v1alpha1.IdentityConflict{
		Since: at, LastSign: at, Proven: true, Endpoints: []string{"https://theirs"}, Evidence: []string{"instance i-x was launched"},
	}
	before := &v1alpha1.NodeSync{}
	before.Name, before.Namespace = "prod", "plumbline-system"
	s := &Step{Sync: before.DeepCopy(), Before: before, Memory: &Memory{}, Began: at.Time}
	s.Cluster, s.IdentityConflict, s.SawIdentity = "demo", open, true
	s.noteIdentity()
	v := s.Verdict()
	s.setIdentityConflict()
	for _, want := range []string{"another Karpenter uses the name demo, for API server https://theirs", "instance i-x was launched", "nothing is removed or replaced", "plumbline identity prod"} {
		if !strings.Contains(v.Message, want) || !strings.Contains(conditions.GetMessage(s.Sync, v1alpha1.IdentityConflictCondition), want) {
			t.Errorf("%q is missing: %s", want, v.Message)
		}
	}
	if v.Class != Stuck || v.Reason != v1alpha1.ReasonIdentityConflict || v.CommitState() != report.Failure || !strings.HasPrefix(v.CommitText(), "identity conflict") {
		t.Errorf("%+v: %s", v, v.CommitText())
	}
	if len(s.Notes) != 1 || s.Notes[0].Reason != v1alpha1.ReasonIdentityConflict {
		t.Errorf("events %+v", s.Notes)
	}
	unseen := &Step{Sync: s.Sync.DeepCopy(), Before: s.Sync, Memory: &Memory{}, Began: at.Time}
	if unseen.noteIdentity(); !unseen.Sync.Status.IdentityConflict.Open() {
		t.Error("a reconcile that did not look has forgotten it")
	}
	over := &Step{Sync: s.Sync.DeepCopy(), Before: s.Sync, Memory: &Memory{}, Began: at.Time}
	over.SawIdentity = true
	over.noteIdentity()
	over.setIdentityConflict()
	if conditions.Has(over.Sync, v1alpha1.IdentityConflictCondition) || over.Sync.Status.IdentityConflict != nil || len(over.Notes) != 1 ||
		over.Notes[0].Reason != v1alpha1.ReasonIdentityResolved {
		t.Errorf("%+v %+v", over.Sync.Status, over.Notes)
	}
}

// TestASuspicionIsNotProof: without the other API server, the message does not claim that there is another Karpenter.
func TestASuspicionIsNotProof(t *testing.T) {
	got := conflictWords(&v1alpha1.IdentityConflict{Evidence: []string{"i-1 was terminated"}}, "demo")
	if !strings.HasPrefix(got, "another client terminates instances of this cluster in EC2; it may be a Karpenter") || !strings.HasSuffix(got, "i-1 was terminated") {
		t.Errorf("%q", got)
	}
}
