package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

const any64 = `[{key: kubernetes.io/arch, operator: In, values: [amd64]}]`

// TestPodsOfAPoolThatLeavesMoveToAnother checks that remaining nodes take the pods that fit, and a new node the rest.
func TestPodsOfAPoolThatLeavesMoveToAnother(t *testing.T) {
	a, b, class := poolNamed(t, "a", "", any64), poolNamed(t, "b", "", any64), classNamed(t, "default")
	c := fleet(a, b, class)
	leaving := node(c, "a", "leaving", "800m", "800m")
	node(c, "b", "staying", "1")
	out := simulated(t, c, []map[string]any{b, class}, []types.UID{leaving}, "m5.large 2 8", "m5.xlarge 4 16")
	want := []simulate.Move{{From: "a", To: "b", Pods: 1}, {From: "a", To: "b", New: true, Pods: 1}}
	if diff := cmp.Diff(want, out.Moves); diff != "" || len(out.Nowhere) > 0 || out.Ending != 1 || out.Leaving != 2 {
		t.Errorf("%+v\n%s", out, diff)
	}
	if len(out.New) != 1 || out.New[0].Pool != "b" || out.New[0].Types[0] != "m5.large" || len(out.New[0].Types) != 2 || len(out.New[0].Zones) != 2 {
		t.Errorf("new nodes: %+v", out.New)
	}
	// In the library's table, m5.large is 0.096 and m5.xlarge 0.192 in us-east-1.
	if diff := cmp.Diff(simulate.Cost{Before: 0.192, Lowest: 0.192, Highest: 0.288}, out.Cost, close); diff != "" {
		t.Error(diff)
	}
}

// TestPodsWithNowhereToGoAreNamed checks that they are named with Karpenter's reason.
func TestPodsWithNowhereToGoAreNamed(t *testing.T) {
	a, class := poolNamed(t, "a", "", any64), classNamed(t, "default")
	arm := poolNamed(t, "arm", "", `[{key: kubernetes.io/arch, operator: In, values: [arm64]}]`)
	c := fleet(a, arm, class)
	leaving := node(c, "a", "leaving", "1")
	out := simulated(t, c, []map[string]any{arm, class}, []types.UID{leaving}, "m5.large 2 8")
	if len(out.Nowhere) != 1 || out.Nowhere[0].Pod != "web/leaving-0" || out.Nowhere[0].Pool != "a" || out.Nowhere[0].Already || len(out.Moves) > 0 {
		t.Errorf("%+v", out)
	}
	if !strings.Contains(out.Nowhere[0].Reason, "filtered out all available instance types") {
		t.Errorf("reason: %s", out.Nowhere[0].Reason)
	}
}

// TestPodsLandWithinLimits checks three pods that each need their own node, which may be small or large. The small ones
// count against the limits, pods that exceed the limits of one pool are scheduled to another, and a pod that fits in no
// pool is unschedulable.
func TestPodsLandWithinLimits(t *testing.T) {
	const any64 = "[{key: kubernetes.io/arch, operator: In, values: [amd64]}]"
	for name, c := range map[string]struct {
		b, c    string
		nowhere int
		// has is how many full nodes pool b has, and used the number in its status.
		has, used int
	}{
		"room beside two":                {`limits: {cpu: "10"}`, "-", 0, 2, 2},
		"too little beside two":          {`limits: {cpu: "9"}`, "-", 1, 2, 2},
		"too little beside one more":     {`limits: {cpu: "11"}`, "-", 1, 2, 3},
		"no limit":                       {"", "", 0, 0, 0},
		"room for three small ones":      {`limits: {cpu: "6"}`, "-", 0, 0, 0},
		"room for two":                   {`limits: {cpu: "5"}`, "-", 1, 0, 0},
		"room for two, and another pool": {`limits: {cpu: "5"}`, `limits: {cpu: "2"}`, 0, 0, 0},
		"room for one, and for one":      {`limits: {cpu: "3"}`, `limits: {cpu: "3"}`, 1, 0, 0},
		"none":                           {`limits: {cpu: "0"}`, "-", 3, 0, 0},
		"of memory":                      {`limits: {memory: 20Gi}`, "-", 1, 0, 0},
		"four nodes, and it has two":     {`limits: {nodes: "4"}`, "-", 0, 2, 2},
		"two nodes, and it has two":      {`limits: {nodes: "2"}`, "-", 3, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			left := []map[string]any{classNamed(t, "default"), poolNamed(t, "b", c.b, any64)}
			if c.c != "-" {
				left = append(left, poolNamed(t, "c", c.c, any64))
			}
			all := fleet(append(slices.Clone(left), poolNamed(t, "a", "", any64))...)
			for i := range c.has {
				node(all, "b", fmt.Sprintf("full%d", i), "2")
			}
			left[1]["status"].(map[string]any)["resources"] = map[string]any{"cpu": fmt.Sprint(2 * c.used), "nodes": fmt.Sprint(c.used)}
			var leaving []types.UID
			for i := range 3 {
				leaving = append(leaving, node(all, "a", fmt.Sprintf("n%d", i), "1.5"))
			}
			out, err := simulate.Lands(t.Context(), all, commitOf(left, leaving), offersOf(t, "m5.large 2 8", "m5.8xlarge 32 128"))
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Nowhere) != c.nowhere {
				t.Errorf("%d pods have no place: %+v", len(out.Nowhere), out.Nowhere)
			}
		})
	}
}

// TestPodsThatMayNotBeEvictedLand checks that they are rescheduled, too, if their node has a terminationGracePeriod.
func TestPodsThatMayNotBeEvictedLand(t *testing.T) {
	const any64 = "[{key: kubernetes.io/arch, operator: In, values: [amd64]}]"
	never := intstr.FromInt32(0)
	for name, c := range map[string]struct {
		period  *metav1.Duration
		nowhere int
	}{
		"with a period":  {&metav1.Duration{Duration: time.Minute}, 2},
		"without period": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			left := []map[string]any{classNamed(t, "default"), poolNamed(t, "b", `limits: {cpu: "0"}`, any64)}
			all := fleet(append(slices.Clone(left), poolNamed(t, "a", "", any64))...)
			leaving := node(all, "a", "leaving", "100m", "100m")
			all.NodeClaims[0].Spec.TerminationGracePeriod = c.period
			all.Pods[0].Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			all.Pods[1].Labels = map[string]string{"app": "guarded"}
			all.Budgets = []policyv1.PodDisruptionBudget{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "never"},
				Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &never, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
			}}
			out, err := simulate.Lands(t.Context(), all, commitOf(left, []types.UID{leaving}), offersOf(t, "m5.large 2 8"))
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Nowhere) != c.nowhere || all.Pods[0].Annotations == nil || len(all.Budgets) != 1 {
				t.Errorf("%+v, of %+v", out, all.Pods[0].Annotations)
			}
		})
	}
}

// TestPodsThatHaveLandedCount checks that a pod that is scheduled in a later round takes into account where the others
// were scheduled, for topology spread, for anti-affinity and for the resources of a node.
func TestPodsThatHaveLandedCount(t *testing.T) {
	const any64 = "[{key: kubernetes.io/arch, operator: In, values: [amd64]}]"
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	spread := func(domains int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, MinDomains: &domains, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: web,
			}}
		}
	}
	apart := func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone, LabelSelector: web}},
		}}
	}
	for name, c := range map[string]struct {
		limits  string
		make    func(*corev1.Pod)
		pods    int
		free    int
		nowhere int
	}{
		"over three zones of two":                {`limits: {cpu: "100"}`, spread(3), 3, 0, 1},
		"over two zones":                         {`limits: {cpu: "100"}`, spread(2), 3, 0, 0},
		"over three zones of two, no limit":      {"", spread(3), 3, 0, 1},
		"each in a zone of its own, of two":      {`limits: {cpu: "100"}`, apart, 3, 0, 1},
		"two in zones of their own":              {`limits: {cpu: "100"}`, apart, 2, 0, 0},
		"each in a zone of its own, no limit":    {"", apart, 3, 0, 1},
		"two in zones of their own, no limit":    {"", apart, 2, 0, 0},
		"a free node and one new one, for three": {`limits: {cpu: "2"}`, nil, 3, 1, 1},
		"a free node and one new one, for two":   {`limits: {cpu: "2"}`, nil, 2, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			left := []map[string]any{classNamed(t, "default"), poolNamed(t, "b", c.limits, any64)}
			all := fleet(append(slices.Clone(left), poolNamed(t, "a", "", any64), poolNamed(t, "c", `limits: {cpu: "0"}`, any64))...)
			for i := range c.free {
				node(all, "c", fmt.Sprintf("free%d", i))
			}
			var leaving []types.UID
			for i := range c.pods {
				leaving = append(leaving, node(all, "a", fmt.Sprintf("n%d", i), "1.5"))
			}
			for i := range all.Pods {
				if c.make != nil {
					c.make(&all.Pods[i])
				}
			}
			pod(all, "another", "", "1.5").Labels = nil
			if c.free > 0 {
				all.Pods = all.Pods[:len(all.Pods)-1]
			}
			out, err := simulate.Lands(t.Context(), all, commitOf(left, leaving), offersOf(t, "m5.large 2 8", "m5.8xlarge 32 128"))
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Nowhere) != c.nowhere {
				t.Errorf("%d pods have no place: %+v", len(out.Nowhere), out.Nowhere)
			}
		})
	}
}
