package evaluate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

const somePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
`

// TestWhereItsPodsGoIsAsked shows that only a Plan that terminates nodes is simulated, and that the result counts.
func TestWhereItsPodsGoIsAsked(t *testing.T) {
	lost := plan.Landing{Nowhere: map[string][]plan.Unschedulable{"b": {{Pod: "web/x", Reason: "no room"}}}}
	for name, c := range map[string]struct {
		guard   v1alpha1.UnschedulablePods
		keeps   bool
		landing plan.Landing
		asked   int
		held    bool
		warns   bool
	}{
		"nothing leaves":    {keeps: true, landing: lost},
		"a pool with nodes": {landing: lost, asked: 1, held: true},
		"they all fit":      {landing: plan.Landing{}, asked: 1},
		"nobody knows":      {landing: plan.Landing{Unknown: "no right"}, asked: 1, warns: true},
		"ignored":           {landing: lost, guard: v1alpha1.UnschedulablePodsIgnore},
	} {
		t.Run(name, func(t *testing.T) {
			s := planStep(nodeSync(func(n *v1alpha1.NodeSync) {
				n.Spec.Guard.UnschedulablePods, n.Status.LastAppliedRevision = c.guard, "main@sha1:1"
			}))
			s.Before = s.Sync.Status
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			s.Cached = fake.NewClientBuilder().WithScheme(scheme).Build()
			server := applytest.New(t)
			s.Set = &render.Set{Revision: "main@sha1:2"}
			for _, name := range []string{"a", "b"} {
				object := server.Definition(t, strings.Replace(somePool, "NAME", name, 1))
				if err := server.ApplyAs(t.Context(), plan.Desired(object, plan.OwnerOf(namespace, "prod")), v1alpha1.FieldManager, true); err != nil {
					t.Fatal(err)
				}
				if name == "a" || c.keeps {
					s.Set.Objects = append(s.Set.Objects, object)
				}
			}
			s.Snapshot = &render.Snapshot{Revision: "main@sha1:2"}
			s.Live = plan.Live{Objects: plan.NewObjects(server.Objects()), NodeClaims: []plan.NodeClaim{{Name: "1", UID: "1", Pool: "b", Class: "default"}}}
			var err error
			if s.Schema, err = schema.New(applytest.CRDs()); err != nil {
				t.Fatal(err)
			}
			asked, wake := 0, s.Now.Add(10*time.Minute)
			s.Landing = func(_ context.Context, _ *render.Set, made *plan.Plan, _ plan.Live) (plan.Landing, time.Time) {
				asked++
				if got := made.StartIfSchedulable(); !slices.Equal(got, []string{"NodePool/b"}) {
					t.Errorf("asked of %q", got)
				}
				return c.landing, wake
			}
			planned, err := s.Make(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held := slices.ContainsFunc(planned.Removals, func(r plan.Candidate) bool { return r.Reason == plan.ReasonUnschedulablePods })
			warns := strings.Contains(strings.Join(notes(s), "\n"), "so the removals are not held for it: no right")
			if asked != c.asked || held != c.held || warns != c.warns || (asked > 0) != s.WakeAt.Equal(wake) {
				t.Errorf("asked %d times, held: %v, warns: %v, looks again at %s", asked, held, warns, s.WakeAt)
			}
		})
	}
}

func notes(s *PlanStep) (said []string) {
	for _, n := range s.Notes {
		said = append(said, n.Message)
	}
	return said
}
