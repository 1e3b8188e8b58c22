package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render/schema"
)

// TestReasonsAreKarpenters checks Karpenter's reasons with one pool left, or none, that cannot take the pod.
func TestReasonsAreKarpenters(t *testing.T) {
	thousand := "["
	for i := range 1000 {
		thousand += fmt.Sprintf("{key: example.com/k%d, operator: In, values: [v]},", i)
	}
	for name, c := range map[string]struct{ more, requirements, want string }{
		"limits":                       {`limits: {cpu: "1"}`, any64, "limits"},
		"limits of nodes":              {`limits: {nodes: "0"}`, any64, "limits"},
		"weights do not help":          {"weight: 10\n  limits: {cpu: \"0\"}", any64, "limits"},
		"minValues that cannot be met": {"", `[{key: node.kubernetes.io/instance-type, operator: Exists, minValues: 5}]`, "filtered out all"},
		"1,000 requirements":           {"", thousand + `{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ["64"]}]`, "filtered out all"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, class := poolNamed(t, "a", "", any64), poolNamed(t, "b", c.more, c.requirements), classNamed(t, "default")
			cluster := fleet(a, b, class)
			leaving := node(cluster, "a", "leaving", "1500m")
			out := simulated(t, cluster, []map[string]any{b, class}, []types.UID{leaving}, "m5.large 2 8")
			if len(out.Nowhere) != 1 || !strings.Contains(out.Nowhere[0].Reason, c.want) || out.Cost.Highest != 0 {
				t.Errorf("%+v", out)
			}
		})
	}
}

// TestPodsThatMayNotBeEvictedStay checks that the reason is named.
func TestPodsThatMayNotBeEvictedStay(t *testing.T) {
	a, class := poolNamed(t, "a", "", any64), classNamed(t, "default")
	c := fleet(a, class)
	leaving := node(c, "a", "leaving", "100m", "100m", "100m")
	c.Pods[0].Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	c.Pods[1].Labels = map[string]string{"app": "guarded"}
	never := intstr.FromInt32(0)
	c.Budgets = []policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "never"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &never, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	}}
	out := simulated(t, c, c.Definitions, []types.UID{leaving}, "m5.large 2 8")
	if len(out.Staying) != 2 || out.Staying[0].Why != karpv1.DoNotDisruptAnnotationKey || !strings.Contains(out.Staying[1].Why, "PodDisruptionBudget") || out.Leaving != 1 {
		t.Errorf("%+v", out)
	}
}

// TestPendingPodsGetAPlaceByTheCommit checks that pending pods that the commit does not help are distinguished from
// pods that become unschedulable.
func TestPendingPodsGetAPlaceByTheCommit(t *testing.T) {
	small := poolNamed(t, "a", `limits: {cpu: "0"}`, any64)
	class := classNamed(t, "default")
	c := fleet(small, class)
	pod(c, "fits", "", "1")
	pod(c, "huge", "", "64")
	larger := poolNamed(t, "a", `limits: {cpu: "10"}`, any64)
	out := simulated(t, c, []map[string]any{larger, class}, nil, "m5.large 2 8")
	if !slices.Equal(out.Placed, []string{"web/fits"}) || len(out.Nowhere) != 1 || out.Nowhere[0].Pod != "web/huge" || !out.Nowhere[0].Already {
		t.Errorf("%+v", out)
	}
	back := fleet(larger, class)
	pod(back, "fits", "", "1")
	out = simulated(t, back, []map[string]any{small, class}, nil, "m5.large 2 8")
	if len(out.Nowhere) != 1 || out.Nowhere[0].Already || len(out.Placed) > 0 {
		t.Errorf("%+v", out)
	}
}

// TestAnOlderKarpenterIsNamed: it may schedule in another way than the simulation, and so may one with defaults for
// topology spread.
func TestAnOlderKarpenterIsNamed(t *testing.T) {
	for installed, want := range map[string]bool{"": false, "1.14.3": true, schema.EmbeddedVersion: false} {
		c := fleet(poolNamed(t, "a", "", any64), classNamed(t, "default"))
		c.Settings.Karpenter, c.Settings.SchedulerConfig = installed, installed == "1.14.3"
		leaving := node(c, "a", "leaving", "1")
		out := simulated(t, c, c.Definitions, []types.UID{leaving}, "m5.large 2 8")
		note := "simulated with the scheduling of Karpenter " + schema.EmbeddedVersion + ", and " + installed + " is installed"
		const spread = "the default topology spread in Karpenter's SCHEDULER_CONFIG is not counted"
		if got := slices.Contains(out.Notes, note); got != want || slices.Contains(out.Notes, spread) != want {
			t.Errorf("%q: %q", installed, out.Notes)
		}
	}
}

// TestOverlaysChangePrices checks this if the feature gate is enabled.
func TestOverlaysChangePrices(t *testing.T) {
	a, class := poolNamed(t, "a", "", any64), classNamed(t, "default")
	half := defined(t, `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: half}
spec: {priceAdjustment: "-50%", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]}
`)
	for _, open := range []bool{false, true} {
		c := fleet(a, class, half)
		c.Settings.NodeOverlay = open
		leaving := node(c, "a", "leaving", "1")
		out := simulated(t, c, c.Definitions, []types.UID{leaving}, "m5.large 2 8")
		want := map[bool]float64{false: 0.096, true: 0.048}[open]
		if out.Cost.Before-want > 0.0001 || want-out.Cost.Before > 0.0001 || out.Cost.Highest != out.Cost.Before {
			t.Errorf("gate open %t: %+v", open, out.Cost)
		}
		if said := slices.ContainsFunc(out.Notes, func(n string) bool { return strings.Contains(n, "NodeOverlay") }); said == open {
			t.Errorf("gate open %t: %q", open, out.Notes)
		}
	}
}

// TestZonesOfAClassAreItsOwnOrUnavailable checks that zones can also come from a class that selects the same subnets.
func TestZonesOfAClassAreItsOwnOrUnavailable(t *testing.T) {
	class := classNamed(t, "default")
	renamed, other := classNamed(t, "renamed"), classNamed(t, "other")
	delete(renamed, "status")
	delete(other, "status")
	other["spec"].(map[string]any)["subnetSelectorTerms"] = []any{map[string]any{"id": "subnet-z"}}
	for name, known := range map[string]bool{"renamed": true, "other": false} {
		b := poolNamed(t, "b", "", any64)
		b["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["nodeClassRef"].(map[string]any)["name"] = name
		c := fleet(poolNamed(t, "a", "", any64), class)
		leaving := node(c, "a", "leaving", "1")
		out := simulated(t, c, []map[string]any{b, class, renamed, other}, []types.UID{leaving}, "m5.large 2 8")
		if placed := len(out.Moves) == 1 && len(out.Nowhere) == 0; placed != known || known == slices.ContainsFunc(out.Notes, unavailable) {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func unavailable(note string) bool { return strings.HasPrefix(note, "unavailable: ") }

// TestAMalformedClassIsSaid checks that Karpenter's library does not exit the process.
func TestAMalformedClassIsSaid(t *testing.T) {
	class := classNamed(t, "default")
	class["spec"].(map[string]any)["amiSelectorTerms"] = []any{map[string]any{"alias": "nonsense"}}
	c := fleet(poolNamed(t, "a", "", any64), class)
	leaving := node(c, "a", "leaving", "1")
	out := simulated(t, c, c.Definitions, []types.UID{leaving}, "m5.large 2 8")
	if len(out.Nowhere) != 1 || !slices.ContainsFunc(out.Notes, unavailable) || !strings.Contains(out.Notes[0], "EC2NodeClass/default") {
		t.Errorf("%+v", out)
	}
}
