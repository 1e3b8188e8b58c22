package removal

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// TestDriveWaitsForPodsOfTheRemovalBefore checks that a removal waits for the pods that a completed removal has left
// without a node.
func TestDriveWaitsForPodsOfTheRemovalBefore(t *testing.T) {
	s := pacedPool(t, pool("batch", "batch-uid", dynamic()), pool("spot", "spot-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.replica("web-a", "web", "node-a")
	s.replica("stuck", "web", "") // did not run before, so it is not waited for
	s.find(render.NodePool, "batch", "batch-uid")
	s.expect("recorded", "batch Pacing")
	s.expect("growth is stopped", "batch Pacing", "stop growth")
	s.expect("its node is ended", "batch Draining", "delete NodeClaim/a")
	s.evict("web-a")
	s.replica("web-b", "web", "")
	s.karpenter("terminated")
	s.expect("no longer referenced", "batch Finalizing", "delete the object")
	before := slices.Clone(s.sync.Status.Removals)
	s.expect("over", "batch Gone")
	s.sync.Status.Removals = before
	s.write()
	s.expect("over once more: the pass was killed before it wrote the status", "batch Gone")
	if record := s.record()["batch-uid"]; !strings.Contains(record, "web-b") || strings.Contains(record, "stuck") || strings.Contains(record, "workloads") {
		t.Errorf("recorded of it: %s", record)
	}

	s.sync.Status.Removals = nil
	s.launch("b", "spot", "spot-uid")
	s.replica("job-a", "job", "node-b")
	s.find(render.NodePool, "spot", "spot-uid")
	s.expect("recorded", "spot Pacing")
	s.expect("growth is stopped", "spot Pacing", "stop growth")
	s.expect("a pod is without a node", "spot Pacing")
	r := s.sync.Status.Removals[0]
	if want := "waiting for pod default/web-b to run before deleting the next NodeClaim: it has been pending since the removal of NodePool/batch"; r.Reason != ReasonPodsPending || r.Message != want {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
	s.evict("web-b")
	s.replica("web-c", "web", "") // another client created it: no removal has evicted it
	s.expect("it has gone", "spot Draining", "delete NodeClaim/b")
	if record, kept := s.record()["batch-uid"]; kept {
		t.Errorf("still recorded: %s", record)
	}
}

// TestDriveWaitsForNoPodOfTheRemovedPoolOnly checks that a removal does not wait for a pod that may only run in the
// removed pool and never runs again.
func TestDriveWaitsForNoPodOfTheRemovedPoolOnly(t *testing.T) {
	in := func(pools ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpIn, Values: pools}}}
	}
	affine := func(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}}
	}
	for name, c := range map[string]struct {
		spec  corev1.PodSpec
		waits bool
	}{
		"by its selector":           {corev1.PodSpec{NodeSelector: map[string]string{karpv1.NodePoolLabelKey: "batch"}}, false},
		"by its affinity":           {affine(in("batch")), false},
		"another pool's":            {corev1.PodSpec{NodeSelector: map[string]string{karpv1.NodePoolLabelKey: "spot"}}, true},
		"either pool":               {affine(in("batch", "spot")), true},
		"either term":               {affine(in("batch"), in("spot")), true},
		"a term for any other node": {affine(in("batch"), corev1.NodeSelectorTerm{}), true},
		"anywhere":                  {corev1.PodSpec{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
			s.launch("a", "batch", "batch-uid")
			s.replica("web-a", "web", "node-a")
			s.find(render.NodePool, "batch", "batch-uid")
			for range 3 {
				s.pass()
			}
			s.evict("web-a")
			s.replica("web-b", "web", "")
			pod := &corev1.Pod{}
			if err := s.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "web-b"}, pod); err != nil {
				t.Fatal(err)
			}
			pod.Spec.NodeSelector, pod.Spec.Affinity = c.spec.NodeSelector, c.spec.Affinity
			if err := s.client.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			s.karpenter("terminated")
			s.expect("no longer referenced", "batch Finalizing", "delete the object")
			s.expect("over", "batch Gone")
			if _, waits := s.record()["batch-uid"]; waits != c.waits {
				t.Errorf("recorded %v", s.record())
			}
		})
	}
}

// TestDriveCountsTheRoomOfASuccessor checks that the next node is terminated only if its pods fit within the remaining
// limits.
func TestDriveCountsTheRoomOfASuccessor(t *testing.T) {
	for name, c := range map[string]struct {
		cpu, memory string
		waits       string
	}{
		"no limit":                 {},
		"room for one node":        {cpu: "1500m"},
		"too few processors":       {cpu: "1", waits: "cpu insufficient for the pods of node node-a within the limits of NodePool/new: increase spec.limits"},
		"too little memory":        {cpu: "4", memory: "1Gi", waits: "memory insufficient for the pods of node node-a within the limits of NodePool/new: increase spec.limits"},
		"a limit that is too wide": {cpu: "100", memory: "100Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
			s.pace.MaxUnavailable.IntVal, s.pace.MaxUnavailable.Type = 2, 0
			left := corev1.ResourceList{}
			for resourceName, of := range map[corev1.ResourceName]string{corev1.ResourceCPU: c.cpu, corev1.ResourceMemory: c.memory} {
				if of != "" {
					left[resourceName] = resource.MustParse(of)
				}
			}
			s.successor.Room = &Room{Pools: "NodePool/new", Left: left}
			for _, name := range []string{"a", "b"} {
				s.launch(name, "batch", "batch-uid")
				s.requests("web-"+name, "web", "node-"+name, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("2Gi")})
			}
			s.find(render.NodePool, "batch", "batch-uid")
			s.expect("recorded", "batch Pacing")
			s.expect("growth is stopped", "batch Pacing", "stop growth")
			switch {
			case c.waits != "":
				s.expect("it waits", "batch Pacing")
				if r := s.sync.Status.Removals[0]; r.Reason != ReasonSuccessorMissing || r.Message != c.waits {
					t.Errorf("it says %s: %s", r.Reason, r.Message)
				}
			case c.cpu == "1500m":
				s.expect("one of two", "batch Draining", "delete NodeClaim/a")
			default:
				s.expect("both", "batch Draining", "delete NodeClaim/a", "delete NodeClaim/b")
			}
		})
	}
}
