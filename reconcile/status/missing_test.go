package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAMissingReplicaIsReportedOnce shows this for the install, and once more after a rollback to the controller of the
// version in force, with one replica that cannot be scheduled.
func TestAMissingReplicaIsReportedOnce(t *testing.T) {
	const short = "deployment/karpenter: 1 of 2 replicas updated and available; pod/karpenter-b is not scheduled"
	sync := &v1alpha1.NodeSync{Spec: v1alpha1.NodeSyncSpec{Source: v1alpha1.Source{Git: &v1alpha1.GitSource{}}}}
	for _, pass := range []struct {
		when       string
		controller Stage
		want       []string
	}{
		{"the install begins", Stage{Message: "0 of 2 replicas"}, nil},
		{"one replica leads", Stage{Ready: true, Message: short}, []string{"ReplicaMissing Controller: " + short}},
		{"a pass later", Stage{Ready: true, Message: short}, nil},
		{"an upgrade rolls out", Stage{Message: "0 of 2 replicas"}, nil},
		{"it is rolled back", Stage{Message: "rolling back to Karpenter 1.8.6: 0 of 2 replicas"}, nil},
		{"one replica leads again", Stage{Ready: true, Message: short}, []string{"ReplicaMissing Controller: " + short}},
		{"a pass later again", Stage{Ready: true, Message: short}, nil},
		{"nothing was looked at", Stage{}, nil},
		{"the other has a place", Stage{Ready: true}, nil},
		{"another has none", Stage{Ready: true, Message: "pod/karpenter-c is not scheduled"}, []string{"ReplicaMissing Controller: pod/karpenter-c is not scheduled"}},
	} {
		s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: time.Unix(1000, 0)}
		if pass.controller != (Stage{}) {
			pass.controller.Name = render.StageController
			s.Stages = []Stage{{Name: render.StageCRDs, Ready: true}, pass.controller}
		}
		s.Summarize()
		var got []string
		for _, n := range s.Notes {
			got = append(got, n.Reason+" "+n.Message)
		}
		if diff := cmp.Diff(pass.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pass.when, diff)
		}
		sync = s.Sync
	}
}
