package reconcile

import (
	"context"
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// readsCounted counts reads past the cache. It calls now before each.
type readsCounted struct {
	client.Reader
	reads int
	now   func()
}

func (r *readsCounted) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	r.reads++
	if r.now != nil {
		r.now()
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// TestLiveSchemasAreReadOnce shows that CRDs are read again only if the cache reports that one has changed.
func TestLiveSchemasAreReadOnce(t *testing.T) {
	var crds []client.Object
	for _, crd := range applytest.CRDs() {
		crds = append(crds, crd.DeepCopy())
	}
	b := newBed(t, nodeSync(unchanged), crds...)
	uncached := &readsCounted{Reader: b.client}
	b.Cluster.Uncached = uncached
	resolve := func() (*pass, error) {
		p := b.pass()
		p.want.Karpenter = &render.Karpenter{Management: render.External}
		return p, p.resolveCharts(t.Context())
	}
	upgrade := func() {
		t.Helper()
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := b.client.Get(t.Context(), client.ObjectKey{Name: "nodepools.karpenter.sh"}, crd); err != nil {
			t.Fatal(err)
		}
		crd.Generation++
		if err := b.client.Update(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name   string
		change func()
		reads  int
	}{
		{"the first pass", func() {}, len(render.Kinds())},
		{"another", func() {}, 0},
		{"a CRD has changed", upgrade, len(render.Kinds())},
		{"another still", func() {}, 0},
	} {
		step.change()
		uncached.reads = 0
		p, err := resolve()
		if err != nil || p.want.Schema == nil {
			t.Fatalf("%s: schema %v, %v", step.name, p.want.Schema, err)
		}
		if uncached.reads != step.reads {
			t.Errorf("%s: %d reads past the cache, want %d", step.name, uncached.reads, step.reads)
		}
	}

	upgrade()
	uncached.now = upgrade
	var overtaken *fault.Error
	if _, err := resolve(); !errors.As(err, &overtaken) || overtaken.Class != fault.Superseded {
		t.Errorf("a CRD that changes while it is read: %v", err)
	}
}
