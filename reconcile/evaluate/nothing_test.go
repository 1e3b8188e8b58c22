package evaluate

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestNothingRenderedIsNothingPlanned shows that, without a Set, everything is removed if the nodes are to be
// terminated, and nothing otherwise.
func TestNothingRenderedIsNothingPlanned(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*v1alpha1.NodeSync)
		refused bool
	}{
		"it was not rendered": {unchanged, true},
		"it is drained":       {func(n *v1alpha1.NodeSync) { n.Spec.Drain = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := planStep(nodeSync(c.change))
			s.Cached = fake.NewClientBuilder().WithScheme(scheme).Build()
			s.Live.Objects = map[render.Ref]*plan.Object{}
			planned, err := s.Make(t.Context())
			if c.refused != errors.Is(err, errNothing) || c.refused != (planned.Plan == nil) {
				t.Errorf("%+v, %v", planned.Plan, err)
			}
		})
	}
}
