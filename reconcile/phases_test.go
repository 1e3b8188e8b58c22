package reconcile

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestAFailedPhaseKeepsWhatWasFound: what plumbline.yaml says and what lives is known to the conclusion, also if the reconcile ends before
// anything is evaluated.
func TestAFailedPhaseKeepsWhatWasFound(t *testing.T) {
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", Version: "1.14.1", Identity: "i", Namespace: "kube-system", Cluster: "prod-us", Region: "eu-west-1"}
	}))
	b.source.files = files(karpenterYAML)
	p := b.pass()
	d, err := p.phases(t.Context())
	if err == nil || !strings.Contains(err.Error(), `cluster.name is fixed at "prod-us"`) {
		t.Fatalf("error %v, want the renamed cluster refused after AWS was asked", err)
	}
	if found := p.found(&outcome{done: d}); found.Cluster != "prod-eu" || found.CloudVerified == nil || found.Revision == "" {
		t.Errorf("concluded are cluster %q, account %v, revision %q", found.Cluster, found.CloudVerified, found.Revision)
	}
}
