package removal

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// runs adds a pod of ReplicaSet web that runs on a node, with its creation time, Ready or not.
func (s *stage) runs(name, node string, made time.Time, ready corev1.ConditionStatus) {
	s.t.Helper()
	s.runsOf("web", name, node, made, ready)
}

// runsOf is runs for any ReplicaSet; without a node the pod is Pending.
func (s *stage) runsOf(of, name, node string, made time.Time, ready corev1.ConditionStatus) {
	s.t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(made),
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: of, UID: types.UID("uid-" + of), Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
	if node == "" {
		pod.Status.Phase = corev1.PodPending
	}
	if err := s.client.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
}

// TestDriveWaitsForReadyPods checks that a pod that runs on its new node but is not Ready delays the next NodeClaim,
// unless as many pods of its workload were not Ready before.
func TestDriveWaitsForReadyPods(t *testing.T) {
	const ready, unready = corev1.ConditionTrue, corev1.ConditionFalse
	cases := map[string]struct {
		// broken reports whether another pod of the workload was never Ready.
		broken bool
		// made is how long after the others the new pod was created.
		made  time.Duration
		is    corev1.ConditionStatus
		waits bool
	}{
		"it is Ready":                          {made: time.Minute, is: ready},
		"it is not Ready":                      {made: time.Minute, is: unready, waits: true},
		"it is not Ready, as one was before":   {broken: true, made: time.Minute, is: unready},
		"an older one has ceased to be Ready":  {made: -time.Minute, is: unready},
		"it cannot be told, as of an old node": {made: time.Minute, is: corev1.ConditionUnknown, waits: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
			made := s.now.Add(-time.Hour)
			for _, name := range []string{"a", "b"} {
				s.launch(name, "batch", "batch-uid")
				s.runs("web-"+name, "node-"+name, made, ready)
			}
			if c.broken {
				s.runs("broken", "elsewhere", made, unready)
			}
			s.find(render.NodePool, "batch", "batch-uid")
			s.expect("recorded", "batch Pacing")
			s.expect("growth is stopped", "batch Pacing", "stop growth")
			s.expect("one is ended", "batch Draining", "delete NodeClaim/a")
			s.evict("web-a")
			s.runs("web-c", "elsewhere", made.Add(c.made), c.is)
			s.karpenter("terminated")
			if !c.waits {
				s.expect("its pods are Ready", "batch Draining", "delete NodeClaim/b")
				return
			}
			s.expect("the other one waits for the pod", "batch Draining")
			r := s.sync.Status.Removals[0]
			if want := "waiting for pod default/web-c of ReplicaSet web to be Ready before deleting the next NodeClaim"; r.Reason != ReasonPodsPending || r.Message != want {
				t.Errorf("it says %s: %s", r.Reason, r.Message)
			}
			s.now = s.now.Add(time.Hour)
			s.expect("it waits for long", "batch Draining")
			if r := s.sync.Status.Removals[0]; r.Stalled == nil || r.Phase != v1alpha1.RemovalDraining {
				t.Errorf("it is not stalled: %+v", r)
			}
			s.evict("web-c")
			s.runs("web-d", "elsewhere", made.Add(c.made), ready)
			s.expect("the pod is Ready", "batch Draining", "delete NodeClaim/b")
		})
	}
}
