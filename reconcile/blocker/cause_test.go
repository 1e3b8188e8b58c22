package blocker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestWhyNotDisrupted checks that the latest event counts while it can still apply, and that its time is added if
// Karpenter has not repeated it.
func TestWhyNotDisrupted(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	event := func(name, message string, ago time.Duration) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, InvolvedObject: corev1.ObjectReference{Name: "a"},
			Reason: "DisruptionBlocked", Message: message, LastTimestamp: metav1.NewTime(now.Add(-ago)),
		}
	}
	const byBudget = "Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])"
	budget := func(allowed int32) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		b.Status.DisruptionsAllowed = allowed
		return b
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"nothing":                        {nil, ""},
		"the newest":                     {[]client.Object{event("1", "No node would fit.", time.Minute), event("2", "Node is nominated", 2*time.Minute)}, "NodeClaim/a: No node would fit"},
		"not repeated":                   {[]client.Object{event("1", "No node would fit.", 10*time.Minute)}, "NodeClaim/a: No node would fit (last reported at 2026-01-01T11:50:00Z)"},
		"of before":                      {[]client.Object{event("1", "No node would fit.", 2*time.Hour)}, ""},
		"no node, which there is":        {[]client.Object{event("1", "Nodeclaim does not have an associated node", time.Minute)}, ""},
		"about node repair":              {[]client.Object{event("1", `repair is blocked through the "karpenter.sh/do-not-repair" annotation`, time.Minute)}, ""},
		"a budget that allows nothing":   {[]client.Object{event("1", byBudget, time.Minute), budget(0)}, "NodeClaim/a: " + byBudget},
		"a budget that allows one":       {[]client.Object{event("1", byBudget, time.Minute), budget(1)}, ""},
		"a budget that was deleted":      {[]client.Object{event("1", byBudget, time.Minute)}, ""},
		"what was said before of a pool": {[]client.Object{event("1", byBudget, time.Minute), event("2", "No node would fit.", 2*time.Minute)}, "NodeClaim/a: No node would fit"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithObjects(c.objects...).WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string {
				return []string{o.(*corev1.Event).InvolvedObject.Name}
			}).Build()
			got, err := WhyNotDisrupted(t.Context(), reader, "a", true, now.Add(-time.Hour), now)
			if err != nil || got != c.want {
				t.Errorf("got  %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

// TestTenThousandBudgets of the namespace of a full node: what blocks it is found within seconds, and named shortly.
func TestTenThousandBudgets(t *testing.T) {
	e, n := Evidence{Now: time.Now()}, Node{Claim: "a", Name: "node-a"}
	for i := range 10_000 {
		labels := map[string]string{"app": fmt.Sprintf("web-%05d", i)}
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: labels["app"]}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		e.Budgets = append(e.Budgets, b)
		if i%100 == 0 {
			n.Pods = append(n.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: labels["app"], Labels: labels}})
		}
	}
	began := time.Now()
	cause := n.WaitsFor(e)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if !strings.HasPrefix(cause.Words, "pod shop/web-00000, of which PodDisruptionBudget shop/web-00000 allows no disruption") || len(cause.Words) > 400 {
		t.Errorf("%d characters: %q", len(cause.Words), cause.Words)
	}
}
