package removal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// pacedPool returns a stage with the default pace, without a grace period.
func pacedPool(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	s := newStage(t, objects...)
	s.pace = Pace{MaxUnavailable: intstr.FromString("10%"), AwaitPods: true}
	return s
}

// replica adds a pod of a ReplicaSet; without a node it is Pending.
func (s *stage) replica(name, of, node string) {
	s.t.Helper()
	s.requests(name, of, node, nil)
}

// requests adds a pod with resource requests.
func (s *stage) requests(name, of, node string, what corev1.ResourceList) {
	s.t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name),
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: of, UID: types.UID("uid-" + of), Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: what}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		pod.Status.Phase = corev1.PodPending
	}
	if err := s.client.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) evict(name string) {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !s.exists(pod) {
		s.t.Fatalf("there is no pod %s", name)
	}
	if err := s.client.Delete(s.t.Context(), pod, preconditions(pod.UID, pod.ResourceVersion)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) expect(what string, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.pass()); diff != "" {
		s.t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// TestDrivePaced checks that one node is terminated at a time, and the next only when its pods run.
func TestDrivePaced(t *testing.T) {
	s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
	for _, name := range []string{"a", "b"} {
		s.launch(name, "batch", "batch-uid")
		s.replica("web-"+name, "web", "node-"+name)
	}
	s.replica("stuck", "web", "") // did not run before, so it is not waited for
	s.find(render.NodePool, "batch", "batch-uid")
	s.expect("recorded", "batch Pacing")
	s.expect("growth is stopped", "batch Pacing", "stop growth")
	s.expect("one is ended", "batch Draining", "delete NodeClaim/a")
	if record := s.record()["batch-uid"]; !strings.Contains(record, `"name":"web"`) {
		t.Errorf("whose pods are evicted is not recorded: %s", record)
	}
	s.expect("the other one waits for it", "batch Draining")
	s.evict("web-a")
	s.replica("web-c", "web", "")
	s.karpenter("terminated")
	s.expect("the other one waits for the pod", "batch Draining")
	r := s.sync.Status.Removals[0]
	if want := "waiting for pod default/web-c of ReplicaSet web to run before deleting the next NodeClaim"; r.Reason != ReasonPodsPending || r.Message != want {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
	if s.last.Again.After(s.now.Add(30 * time.Second)) {
		t.Errorf("the pods are looked at again at %v, now %v", s.last.Again, s.now)
	}
	s.evict("web-c")
	s.replica("web-d", "web", "elsewhere")
	s.expect("the pod runs", "batch Draining", "delete NodeClaim/b")
}

// TestDriveOneStepForAll checks that two removals share the limit.
func TestDriveOneStepForAll(t *testing.T) {
	s := pacedPool(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}), pool("spot", "spot-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "spot", "spot-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.find(render.NodePool, "spot", "spot-uid")
	s.expect("recorded", "batch Pacing", "spot Pacing")
	s.expect("the older one goes first", "batch Draining", "spot Pacing", "delete NodeClaim/a")
	if r := s.sync.Status.Removals[1]; r.Reason != ReasonTurnPending || !strings.Contains(r.Message, "NodePool/batch") {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
	s.now = s.now.Add(11 * time.Minute)
	s.expect("it waits for long", "batch Draining", "spot Pacing")
	s.expect("and longer", "batch Draining", "spot Pacing")
	if r := s.sync.Status.Removals[1]; r.Stalled != nil {
		t.Errorf("waiting for its turn counts as a stall: %+v", r)
	}
	if !s.last.Again.After(s.now) {
		t.Errorf("passes follow each other without a pause: the next one is wanted at %v, now %v", s.last.Again, s.now)
	}
	s.karpenter("terminated")
	s.expect("its turn", "batch Finalizing", "spot Draining", "delete the object", "delete NodeClaim/b")
}

// TestDriveManyNodes checks that a reconcile reads the pods of a limited number of nodes.
func TestDriveManyNodes(t *testing.T) {
	s := pacedPool(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.pace.MaxUnavailable = intstr.FromString("100%")
	for i := range maxTerminatedAtOnce + 5 {
		s.launch(fmt.Sprintf("n%02d", i), "batch", "batch-uid")
	}
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	if ended := len(s.pass()) - 1; ended != maxTerminatedAtOnce {
		t.Errorf("%d are ended in one pass, want %d", ended, maxTerminatedAtOnce)
	}
	if ended := len(s.pass()) - 1; ended != 5 {
		t.Errorf("%d are ended in the next pass, want 5", ended)
	}
}

// TestDriveGivesGrowthBack checks that a pool is restored, with or without a limit, if no other pool can take the pods
// any more.
func TestDriveGivesGrowthBack(t *testing.T) {
	for name, spec := range map[string]map[string]any{"a limit": dynamic(), "no limit": {"weight": int64(1)}} {
		t.Run(name, func(t *testing.T) {
			batch := pool("batch", "batch-uid", spec)
			s := pacedPool(t, batch)
			s.launch("a", "batch", "batch-uid")
			s.find(render.NodePool, "batch", "batch-uid")
			s.expect("recorded", "batch Pacing")
			s.expect("growth is stopped", "batch Pacing", "stop growth")
			s.successor = Gate{Message: "NodePool/new cannot launch nodes (recent launches failed)"}
			s.expect("growth is restored", "batch Pacing", "restore growth")
			s.exists(batch)
			if got, want := limits(t, batch)["cpu"], limits(t, pool("", "", spec))["cpu"]; got != want {
				t.Errorf("the limit is %v, was %v", got, want)
			}
			s.expect("nothing is to be done", "batch Pacing")
			if r := s.sync.Status.Removals[0]; r.Reason != ReasonSuccessorMissing || r.Message != s.successor.Message {
				t.Errorf("it says %s: %s", r.Reason, r.Message)
			}
			s.successor = Gate{Open: true}
			s.expect("growth is stopped again", "batch Pacing", "stop growth")
			s.expect("it goes on", "batch Draining", "delete NodeClaim/a")
		})
	}
}

// TestDriveWithinTheGrace checks that nothing is written to the pool within the grace period, and that the reconcile
// afterwards is requested.
func TestDriveWithinTheGrace(t *testing.T) {
	s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
	s.pace.Grace = 30 * time.Second
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	recorded := s.now
	s.expect("recorded", "batch Pacing")
	s.expect("not yet", "batch Pacing")
	if r := s.sync.Status.Removals[0]; r.Reason != ReasonGrace || !s.last.Again.Equal(recorded.Add(30*time.Second)) {
		t.Errorf("it says %s, and the next pass is %s after the recording", r.Reason, s.last.Again.Sub(recorded))
	}
	s.expect("it is over", "batch Pacing", "stop growth")
}

// TestTurn checks how many NodeClaims may be terminated, by one removal and by all together.
func TestTurn(t *testing.T) {
	percent, number := intstr.FromString("10%"), intstr.FromInt32(3)
	for name, c := range map[string]struct {
		most intstr.IntOrString
		all  []share
		of   int
		want Turn
	}{
		"at least one":              {percent, []share{{recorded: 5}}, 0, Turn{Terminations: 1, Most: 1}},
		"rounded down":              {percent, []share{{recorded: 29}}, 0, Turn{Terminations: 2, Most: 2}},
		"of those at the recording": {percent, []share{{recorded: 30, left: 4}}, 0, Turn{Terminations: 3, Most: 3}},
		"some are leaving":          {percent, []share{{recorded: 30, leaving: 2}}, 0, Turn{Terminations: 1, Most: 3}},
		"all of them are":           {percent, []share{{recorded: 30, leaving: 3}}, 0, Turn{Most: 3}},
		"more than may":             {number, []share{{recorded: 30, leaving: 9}}, 0, Turn{Most: 3}},
		"a number, over all":        {number, []share{{removal: "a", recorded: 30, leaving: 2}, {recorded: 30}}, 1, Turn{Terminations: 1, Most: 3}},
		"another has used it up":    {number, []share{{removal: "a", recorded: 30, leaving: 3}, {recorded: 30}}, 1, Turn{Most: 3, Behind: "a"}},
		"small pools go in turn":    {percent, []share{{removal: "a", recorded: 5, leaving: 1}, {recorded: 5}}, 1, Turn{Most: 1, Behind: "a"}},
		"large ones side by side":   {percent, []share{{removal: "a", recorded: 10, leaving: 1}, {recorded: 10}}, 1, Turn{Terminations: 1, Most: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Pace{MaxUnavailable: c.most}.turn(c.all, c.of)); diff != "" {
				t.Errorf("turn (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDriveAStaticPoolStepByStep checks that the replicas of a static pool are lowered one by one, and that Karpenter
// chooses the node.
func TestDriveAStaticPoolStepByStep(t *testing.T) {
	fixed := pool("fixed", "fixed-uid", map[string]any{"replicas": int64(3)})
	s := pacedPool(t, fixed)
	for _, name := range []string{"a", "b", "c"} {
		s.launch(name, "fixed", "fixed-uid")
	}
	s.find(render.NodePool, "fixed", "fixed-uid")
	s.expect("recorded", "fixed Pacing")
	for _, name := range []string{"a", "b", "c"} {
		lines := s.pass()
		if len(lines) != 2 || !strings.HasPrefix(lines[1], "scale to ") {
			t.Fatalf("before %s goes: %v", name, lines)
		}
		if name == "c" {
			break
		}
		s.expect("Karpenter has not chosen yet", "fixed Draining")
		for _, claim := range s.claims() {
			if claim.Name == name {
				if err := s.client.Delete(t.Context(), &claim, preconditions(claim.UID, claim.ResourceVersion)); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.karpenter("terminated")
	}
	s.expect("none is to stay, so that there is no choice", "fixed Draining", "delete NodeClaim/c")
	s.karpenter("terminated")
	s.expect("EC2 has ended them", "fixed Finalizing", "delete the object")
	if r := s.last.Removals[0]; r.Phase != v1alpha1.RemovalFinalizing {
		t.Errorf("removal %+v", r)
	}
}
