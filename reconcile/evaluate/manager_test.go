package evaluate

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestTwoFirstInstallsInOneInstant shows that the cache is bypassed: it may not have the other NodeSync's record yet.
func TestTwoFirstInstallsInOneInstant(t *testing.T) {
	younger := desiredNodeSync(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(200, 0) })
	older := desiredNodeSync(func(n *v1alpha1.NodeSync) {
		n.Name, n.UID, n.CreationTimestamp = "other", "22", metav1.Unix(100, 0)
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed"}
	})
	b := newBed(t, younger, older)
	b.cached = newBed(t, younger.DeepCopy()).client
	if err := b.step().soleManager(t.Context()); err == nil || !strings.Contains(err.Error(), "/other already installs") {
		t.Errorf("before the first install: %v", err)
	}
	s := b.step()
	s.Sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", CRDs: &v1alpha1.ReleaseStatus{Revision: 1}}
	if err := s.soleManager(t.Context()); err != nil {
		t.Errorf("the one that has installed them: %v", err)
	}
}

// TestOneNodeSyncManagesTheCharts shows that the later one is refused, and that the error names the earlier one.
func TestOneNodeSyncManagesTheCharts(t *testing.T) {
	other := func(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
		return desiredNodeSync(func(n *v1alpha1.NodeSync) {
			n.Name, n.UID, n.CreationTimestamp = "other", "22", metav1.Unix(100, 0)
			n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed"}
			change(n)
		})
	}
	for name, c := range map[string]struct {
		other *v1alpha1.NodeSync
		want  bool
	}{
		"an earlier one": {other: other(desiredUnchanged), want: true},
		"a later one":    {other: other(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(300, 0) })},
		"a later one that has installed them": {other: other(func(n *v1alpha1.NodeSync) {
			n.CreationTimestamp, n.Status.Karpenter.CRDs = metav1.Unix(300, 0), &v1alpha1.ReleaseStatus{Revision: 1}
		}), want: true},
		"of the same second, by name": {other: other(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(200, 0) }), want: true},
		"one that leaves them alone":  {other: other(func(n *v1alpha1.NodeSync) { n.Status.Karpenter.Management = "External" })},
		"one that has not begun":      {other: other(func(n *v1alpha1.NodeSync) { n.Status.Karpenter = nil })},
		"one of another namespace":    {other: other(func(n *v1alpha1.NodeSync) { n.Namespace = "elsewhere" })},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, desiredNodeSync(func(n *v1alpha1.NodeSync) { n.CreationTimestamp = metav1.Unix(200, 0) }), c.other)
			err := b.step().soleManager(t.Context())
			if c.want != (err != nil) || err != nil && !strings.Contains(err.Error(), "/other already installs") {
				t.Errorf("soleManager() = %v, want a refusal: %t", err, c.want)
			}
		})
	}
}
