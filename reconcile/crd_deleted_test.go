package reconcile

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/install/installtest"
)

// TestNodesThatGoWithACRDAreNamed, once.
func TestNodesThatGoWithACRDAreNamed(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
	claim.Status.NodeName = "ip-10-0-0-1"
	pending := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "batch-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "batch"}}}
	b := newBed(t, nodeSync(unchanged), append(installtest.Installed(), claim, pending)...)
	tells := func(what string, want ...string) {
		t.Helper()
		p := b.installing()
		if err := p.charted(t.Context(), (*install.Step).Serve); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range p.Notes {
			got = append(got, n.Reason+": "+n.Message)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: it tells %q, want %q", what, got, want)
		}
	}
	tells("all stands")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "nodepools.karpenter.sh"}, crd); err != nil {
		t.Fatal(err)
	}
	crd.Finalizers = []string{"customresourcecleanup.apiextensions.k8s.io"}
	if err := b.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	tells("it is being deleted", "NodesLost: crd nodepools.karpenter.sh was deleted, and with it go the nodes of "+
		"NodePool/batch: batch-1, NodePool/general: general-1 (ip-10-0-0-1): the CRD and Git's definitions are recreated once it is gone")
	tells("and was told")
}
