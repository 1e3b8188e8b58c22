package reconcile

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestDrainWithoutCRDs shows that a drain waits while one of Karpenter's kinds is not served, as nodes may be left that
// cannot be read. If none is served, EC2 shows what is left.
func TestDrainWithoutCRDs(t *testing.T) {
	drops := func(b *bed, names ...string) {
		b.t.Helper()
		for _, name := range names {
			if err := b.client.Delete(b.t.Context(), installtest.Served(name)); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	hides := func(b *bed) {
		b.t.Helper()
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := b.client.Get(b.t.Context(), client.ObjectKey{Name: cluster.NodeClaimCRD}, crd); err != nil {
			b.t.Fatal(err)
		}
		crd.Spec.Versions[0].Served = false
		if err := b.client.Update(b.t.Context(), crd); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		lacks func(*bed)
		want  string
	}{
		"one is gone":       {func(b *bed) { drops(b, "nodepools.karpenter.sh") }, "nodepools.karpenter.sh does not exist, but NodeClaim/general-1 still exists"},
		"another is gone":   {func(b *bed) { drops(b, cluster.NodeClaimCRD) }, "nodeclaims.karpenter.sh does not exist, but NodePool/general still exists"},
		"one is not served": {hides, "nodeclaims.karpenter.sh does not serve v1 of NodeClaim"},
	} {
		t.Run(name, func(t *testing.T) {
			b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
			c.lacks(b)
			for range 4 {
				b.clock.forward(2 * time.Second)
				b.reconcile()
			}
			if !b.exists() {
				t.Fatal("the NodeSync is gone, and its node is not")
			}
			if waiting := b.read().Status.Waiting; waiting == nil || !strings.Contains(waiting.Message, c.want) || !strings.Contains(waiting.Message, "onDelete: Orphan") {
				t.Errorf("waiting: %+v\n%s", waiting, strings.Join(b.told(), "\n"))
			}
		})
	}
	recorded := func(b *bed) { b.recordPool("general", "p1") }
	for name, c := range map[string]struct {
		prepare func(*bed)
		gone    []string
	}{
		"all are gone":                       {func(*bed) {}, cluster.CRDNames()},
		"all are gone, and it was recorded":  {recorded, cluster.CRDNames()},
		"one is gone, and nothing is beside": {recorded, []string{cluster.NodeClaimCRD}},
	} {
		t.Run(name, func(t *testing.T) {
			b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
			c.prepare(b)
			drops(b, c.gone...)
			b.vanish()
			b.staysWhile("i-0123456789abcdef0 (running)")
			b.cloud.running[0].State = "terminated"
			b.passes("the NodeSync goes", func() bool { return !b.exists() })
		})
	}
}
