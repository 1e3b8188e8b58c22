package simulate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

// TestLimitsCountWhatIsLaunched checks a new node that may have 2 or 32 CPUs, and a pool with room for one large or for
// some small ones: all pods that fit on small ones are schedulable, the others are not.
func TestLimitsCountWhatIsLaunched(t *testing.T) {
	for name, c := range map[string]struct {
		limit          string
		moved, nowhere int
	}{
		"room for all":  {"34", 3, 0},
		"room for two":  {"5", 2, 1},
		"room for none": {"1", 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			b, class := poolNamed(t, "b", `limits: {cpu: "`+c.limit+`"}`, any64), classNamed(t, "default")
			all := fleet(poolNamed(t, "a", "", any64), b, class)
			var leaving []types.UID
			for _, name := range []string{"n0", "n1", "n2"} {
				leaving = append(leaving, node(all, "a", name, "1.5"))
			}
			for i := range all.Pods { // each on its own node
				all.Pods[i].Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
				}}}
			}
			out := simulated(t, all, []map[string]any{b, class}, leaving, "m5.large 2 8", "m5.8xlarge 32 128")
			want := []simulate.Move{{From: "a", To: "b", New: true, Pods: c.moved}}
			if c.moved == 0 {
				want = nil
			}
			if diff := cmp.Diff(want, out.Moves); diff != "" || len(out.Nowhere) != c.nowhere || out.Leaving != 3 || out.Ending != 3 {
				t.Errorf("%+v\n%s", out, diff)
			}
			nodes, pods := 0, 0
			for _, n := range out.New {
				nodes, pods = nodes+n.Count, pods+n.Pods
			}
			if nodes != c.moved || pods != c.moved {
				t.Errorf("%d new nodes with %d pods, want %d: %+v", nodes, pods, c.moved, out.New)
			}
		})
	}
}

// TestPoolsThatNoInstanceTypeMeets checks that they are named given what EC2 offers; if that is unknown, so is the
// result.
func TestPoolsThatNoInstanceTypeMeets(t *testing.T) {
	class := classNamed(t, "default")
	alias := classNamed(t, "alias")
	alias["spec"].(map[string]any)["amiSelectorTerms"] = []any{map[string]any{"alias": "none@latest"}}
	of := func(name, class, requirements string) map[string]any {
		pool := poolNamed(t, name, "", requirements)
		pool["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["nodeClassRef"].(map[string]any)["name"] = class
		return pool
	}
	after := []map[string]any{
		class, alias, of("fine", "default", any64),
		of("memory", "default", "[{key: karpenter.k8s.aws/instance-memory, operator: In, values: ['32']}]"),
		of("zone", "default", "[{key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1a]}]"),
		of("reserved", "default", "[{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}]"),
		of("unknown", "alias", any64),
	}
	out := simulated(t, fleet(class, alias), after, nil, "m5.large 2 8")
	if diff := cmp.Diff([]string{"memory", "zone"}, out.Unlaunchable); diff != "" || out.Region != "us-east-1" {
		t.Errorf("in %s (-want +got):\n%s", out.Region, diff)
	}
	var unknown []string
	for _, note := range out.Notes {
		if strings.HasPrefix(note, "unknown whether an instance type of us-east-1 meets ") {
			unknown = append(unknown, strings.Fields(note)[8])
		}
	}
	if diff := cmp.Diff([]string{"NodePool/reserved:", "NodePool/unknown:"}, unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s\n%q", diff, out.Notes)
	}
}
