package changes

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// server notes what is written, and refuses the objects of refuses.
type server struct {
	mu      sync.Mutex
	written []string
	refuses map[string]error
}

func (s *server) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	if err := s.refuses[object.GetName()]; err != nil {
		return err
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, object.GetName())
	return json.Unmarshal(data, object)
}

func pool(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }

// object is a NodePool.
func object(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: render.NodePool})
	u.SetName(name)
	return u
}

// newStep is one over some Changes, when the charts are as Git has them.
func newStep(s *server, changes ...plan.Change) *Step {
	for i := range changes {
		c := &changes[i]
		c.Object = render.Object{Ref: c.Ref, Desired: object(c.Ref.Name), Defaulted: object(c.Ref.Name)}
		if c.Action != plan.Create {
			c.Live = object(c.Ref.Name)
		}
	}
	return &Step{
		Tools: Tools{
			Client: s, Uncached: fake.NewClientBuilder().Build(), Arrivals: &apply.Arrivals{},
			StillLeader: func(context.Context) error { return nil },
		},
		Plan: &plan.Plan{Changes: changes}, Set: &render.Set{}, Memory: &Memory{},
		CRDs: observe.Readiness{Ready: true}, Controller: observe.Readiness{Ready: true},
		Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Timeout: time.Minute, Retry: time.Minute,
	}
}

// TestWhatWaitsForTheCharts: nothing is written before the CRDs are served or while the
// charts are being changed, and what exists does not wait for the controller.
func TestWhatWaitsForTheCharts(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Step)
		written []string
		waits   []finding.Wait
	}{
		"all is there":      {func(*Step) {}, []string{"new", "old"}, nil},
		"no CRDs":           {func(s *Step) { s.CRDs = observe.Readiness{Message: "crd x is not there yet"} }, nil, []finding.Wait{{On: "CRDs", Message: "crd x is not there yet"}}},
		"a first install":   {func(s *Step) { s.CRDs = observe.Readiness{} }, nil, nil},
		"the charts change": {func(s *Step) { s.Changing = true }, nil, nil},
		"no controller": {
			func(s *Step) { s.Controller = observe.Readiness{Message: "0 of 2 replicas"} },
			[]string{"old"},
			[]finding.Wait{{On: "Controller", Message: "0 of 2 replicas"}, {On: "Controller", Message: "NodePool/new arrives when the controller is there"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := &server{}
			s := newStep(api, plan.Change{Ref: pool("new"), Action: plan.Create}, plan.Change{Ref: pool("old"), Action: plan.Update})
			c.change(s)
			result := s.Run(t.Context())
			slices.Sort(api.written)
			if diff := cmp.Diff(c.written, api.written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.waits, s.Waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if result.Whole != (len(c.written) == 2) || result.Unwritten != nil {
				t.Errorf("whole: %t, unwritten: %v", result.Whole, result.Unwritten)
			}
		})
	}
}

// TestWhatIsReported of each Change: whose edit was corrected, what is held or only
// reported, and what could not be written. What was overtaken is tried again soon.
func TestWhatIsReported(t *testing.T) {
	overtaken := apierrors.NewConflict(schema.GroupResource{Resource: "nodepools"}, "overtaken", errors.New("the object has been modified"))
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodepools"}, "refused", errors.New("no"))
	s := newStep(&server{refuses: map[string]error{"overtaken": overtaken, "refused": refused}},
		plan.Change{Ref: pool("edited"), Action: plan.Update, Drift: true, Fields: []plan.Field{{Path: "spec.limits.cpu"}}, Editors: []string{"kubectl-edit"}},
		plan.Change{Ref: pool("updated"), Action: plan.Update, Warnings: []string{"NodePool/updated: 3 nodes are replaced"}},
		plan.Change{Ref: pool("differs"), Action: plan.Drifted},
		plan.Change{Ref: pool("held"), Action: plan.Hold},
		plan.Change{Ref: pool("overtaken"), Action: plan.Update},
		plan.Change{Ref: pool("refused"), Action: plan.Update},
	)
	result := s.Run(t.Context())
	want := []finding.Note{
		{Type: "Warning", Reason: "DriftCorrected", Message: "NodePool/edited: spec.limits.cpu, edited by kubectl-edit, is as Git says again", Written: true},
		{Type: "Normal", Reason: "Applied", Message: "NodePool/updated: Update", Written: true},
		{Type: "Warning", Reason: "NodesDisrupted", Message: "NodePool/updated: 3 nodes are replaced", Written: true},
	}
	if diff := cmp.Diff(want, s.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if len(result.Drifted) != 1 || len(result.Held) != 1 || result.Drifted[0] != pool("differs") || result.Held[0].Ref != pool("held") {
		t.Errorf("drifted %v, held %v", result.Drifted, result.Held)
	}
	if !errors.Is(result.Unwritten, refused) || errors.Is(result.Unwritten, overtaken) || result.Whole {
		t.Errorf("unwritten: %v, whole: %t", result.Unwritten, result.Whole)
	}
	if len(s.Waits) != 1 || s.Waits[0].On != "NodePool/overtaken" || !s.WakeAt.Equal(s.Now.Add(finding.Soon)) {
		t.Errorf("waits %v until %s", s.Waits, s.WakeAt)
	}
}

// TestReady goes by what was just written, not by what lived before.
func TestReady(t *testing.T) {
	ready := object("general")
	ready.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	written := object("general")
	set := &render.Set{Objects: []render.Object{{Ref: pool("general")}, {Ref: pool("missing")}}}
	live := plan.Live{Objects: map[render.Ref]*plan.Object{pool("general"): plan.NewObject(ready)}}
	readiness, found := Ready(set, live, nil)
	if len(readiness) != 1 || !readiness[pool("general")].Ready || len(found.Waits) > 0 {
		t.Errorf("it lives: %v, waits %v", readiness, found.Waits)
	}
	readiness, found = Ready(set, live, []apply.Written{{Ref: pool("general"), Object: written}})
	if readiness[pool("general")].Ready || len(found.Waits) != 1 || found.Waits[0].On != "NodePool/general" || live.Objects[pool("general")].Unstructured != written {
		t.Errorf("it was just written: %v, waits %v", readiness, found.Waits)
	}
}
