package whatif_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/whatif"
)

// TestPodsLandWithinLimits: three pods each need a node of their own, which may come as a small or a large one. The
// small ones count against the limits, what a pool has no room for goes to another one, and a pod that none has room for finds no place.
func TestPodsLandWithinLimits(t *testing.T) {
	const any64 = "[{key: kubernetes.io/arch, operator: In, values: [amd64]}]"
	for name, c := range map[string]struct {
		b, c    string
		nowhere int
		// has is how many full nodes pool b has, and used how many its status says.
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
			out, err := whatif.Lands(t.Context(), all, commitOf(left, leaving), offersOf(t, "m5.large 2 8", "m5.8xlarge 32 128"))
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Nowhere) != c.nowhere {
				t.Errorf("%d pods have no place: %+v", len(out.Nowhere), out.Nowhere)
			}
		})
	}
}

// TestPodsThatMayNotBeEvictedLand, too, where their node ends after its terminationGracePeriod.
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
			out, err := whatif.Lands(t.Context(), all, commitOf(left, []types.UID{leaving}), offersOf(t, "m5.large 2 8"))
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Nowhere) != c.nowhere || all.Pods[0].Annotations == nil || len(all.Budgets) != 1 {
				t.Errorf("%+v, of %+v", out, all.Pods[0].Annotations)
			}
		})
	}
}
