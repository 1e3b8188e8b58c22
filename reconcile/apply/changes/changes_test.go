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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// server records what is written, and rejects the objects in refuses.
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

// object returns a NodePool.
func object(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: render.NodePool})
	u.SetName(name)
	return u
}

// newStep returns a Step for some Changes, when the charts match Git.
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
		CRDs: cluster.Readiness{Ready: true}, Controller: cluster.Readiness{Ready: true},
		Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Timeout: time.Minute, Retry: time.Minute,
	}
}

// TestWhatWaitsForTheCharts: nothing is written before the CRDs are served or while the charts are being changed, and
// existing objects do not wait for the controller.
func TestWhatWaitsForTheCharts(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Step)
		written []string
		waits   []finding.Wait
	}{
		"all is there":      {func(*Step) {}, []string{"new", "old"}, nil},
		"no CRDs":           {func(s *Step) { s.CRDs = cluster.Readiness{Message: "crd x is not there yet"} }, nil, []finding.Wait{{On: "CRDs", Message: "crd x is not there yet"}}},
		"a first install":   {func(s *Step) { s.CRDs = cluster.Readiness{} }, nil, nil},
		"the charts change": {func(s *Step) { s.Changing = true }, nil, nil},
		"no controller": {
			func(s *Step) { s.Controller = cluster.Readiness{Message: "0 of 2 replicas"} },
			[]string{"old"},
			[]finding.Wait{{On: "Controller", Message: "0 of 2 replicas"}, {On: "Controller", Message: "NodePool/new is created once the controller is ready"}},
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

// TestWhatIsNotRecordedDisruptsNoNode: while the API server denies the record of the Changes, those that disrupt nodes
// wait. What restores the applied definition does not.
func TestWhatIsNotRecordedDisruptsNoNode(t *testing.T) {
	api := &server{}
	s := newStep(api,
		plan.Change{Ref: pool("restored"), Action: plan.TakeBack, Restores: true, Effect: plan.EffectReplace, Nodes: 2},
		plan.Change{Ref: pool("replaced"), Action: plan.Update, Effect: plan.EffectReplace, Nodes: 2},
		plan.Change{Ref: pool("scaled"), Action: plan.Update, Effect: plan.EffectDrain, Nodes: 1},
		plan.Change{Ref: pool("limited"), Action: plan.Update, Effect: plan.EffectNone},
	)
	s.Unrecorded = true
	result := s.Run(t.Context())
	slices.Sort(api.written)
	if diff := cmp.Diff([]string{"limited", "restored"}, api.written); diff != "" || result.Whole {
		t.Errorf("whole: %t, written (-want +got):\n%s", result.Whole, diff)
	}
	const why = " is applied once the API server stores the status, which records first that nodes are disrupted"
	want := []finding.Wait{{On: "the status", Message: "NodePool/replaced" + why}, {On: "the status", Message: "NodePool/scaled" + why}}
	if diff := cmp.Diff(want, s.Waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

// TestWhatIsReported for each Change: whose edit was corrected, what is held or only reported, and what could not be
// written. A superseded write is retried soon.
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
		{Type: "Warning", Reason: "DriftCorrected", Message: "NodePool/edited: reverted spec.limits.cpu, edited by kubectl-edit, to Git", Written: true},
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

// TestReady uses what was just written, not the earlier live object.
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

// TestWhatWasWrittenIsNotTakenForAnEdit: the watch cache may lag behind the last write, and is used again once it has
// caught up, or has lagged for long.
func TestWhatWasWrittenIsNotTakenForAnEdit(t *testing.T) {
	at := func(uid types.UID, version string) *unstructured.Unstructured {
		u := object("general")
		u.SetUID(uid)
		u.SetResourceVersion(version)
		return u
	}
	for name, c := range map[string]struct {
		cached *unstructured.Unstructured
		after  time.Duration
		want   string
	}{
		"the cache lags":             {at("1", "99"), time.Second, "100"},
		"it has caught up":           {at("1", "100"), time.Second, "100"},
		"it has a newer one":         {at("1", "101"), time.Second, "101"},
		"it lags for long":           {at("1", "99"), time.Minute, "99"},
		"the clock was put back":     {at("1", "99"), -time.Minute, "99"},
		"it has another object":      {at("2", "98"), time.Second, "98"},
		"it has none: it is deleted": {nil, time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ref := pool("general")
			s := newStep(&server{})
			s.applied = apply.Result{Written: []apply.Written{{Ref: ref, Object: at("1", "100")}, {Ref: pool("unanswered")}}}
			s.noteAnswers()
			live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
			if c.cached != nil {
				live.Objects[ref] = plan.NewObject(c.cached)
			}
			found := s.Memory.Newest(live, s.Now.Add(c.after)).Objects[ref]
			got := ""
			if found != nil {
				got = found.GetResourceVersion()
			}
			if got != c.want {
				t.Errorf("resourceVersion %q, want %q", got, c.want)
			}
			if kept := len(s.Memory.answers) > 0; kept != (name == "the cache lags") {
				t.Errorf("kept: %t", kept)
			}
		})
	}
}

// TestAPoolStaysWithItsClassUntilTheNewOneIsReady: with a class that is not Ready, it could launch no node.
func TestAPoolStaysWithItsClassUntilTheNewOneIsReady(t *testing.T) {
	class := func(name, ready string) *plan.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": render.EC2NodeClass, "status": map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": ready}},
		}}}
		u.SetName(name)
		return plan.NewObject(u)
	}
	for name, c := range map[string]struct {
		action   plan.Action
		reason   string
		from, to string
		was, is  string
		// class is what the same Plan does with the new class of the pool.
		class       plan.Action
		wantWritten bool
	}{
		"not Ready yet":             {action: plan.Update, from: "old", to: "new", was: "True", is: "False"},
		"it is not there":           {action: plan.Update, from: "old", to: "new", was: "True"},
		"adopted":                   {action: plan.Adopt, from: "old", to: "new", was: "True", is: "Unknown"},
		"Ready":                     {action: plan.Update, from: "old", to: "new", was: "True", is: "True", wantWritten: true},
		"neither is":                {action: plan.Update, from: "old", to: "new", was: "False", is: "False", wantWritten: true},
		"the same class":            {action: plan.Update, from: "new", to: "new", is: "False", wantWritten: true},
		"the brake ends":            {action: plan.TakeBack, reason: plan.ReasonBrakeEnds, from: "old", to: "new", was: "True", is: "False"},
		"the brake ends, Ready":     {action: plan.TakeBack, reason: plan.ReasonBrakeEnds, from: "old", to: "new", was: "True", is: "True", wantWritten: true},
		"the brake ends, one class": {action: plan.TakeBack, reason: plan.ReasonBrakeEnds, from: "new", to: "new", is: "False", wantWritten: true},
		"it is changed, too":        {action: plan.Update, from: "old", to: "new", was: "True", is: "True", class: plan.Update},
		"its change is held":        {action: plan.Update, from: "old", to: "new", was: "True", is: "True", class: plan.Hold, wantWritten: true},
		"the same class, changed":   {action: plan.Update, from: "new", to: "new", is: "True", class: plan.Update, wantWritten: true},
		"a removal taken back":      {action: plan.TakeBack, from: "old", to: "new", was: "True", is: "False", wantWritten: true},
		"a new pool":                {action: plan.Create, to: "new", is: "False", wantWritten: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := &server{}
			s := newStep(server, plan.Change{Ref: pool("a"), Action: c.action, Reason: c.reason})
			if c.class != "" {
				ref := render.Ref{Kind: render.EC2NodeClass, Name: "new"}
				s.Plan.Changes = append(s.Plan.Changes, plan.Change{Ref: ref, Action: c.class, Object: render.Object{Ref: ref, Desired: object("new"), Defaulted: object("new")}, Live: object("new")})
			}
			change := &s.Plan.Changes[0]
			naming := func(u *unstructured.Unstructured, class string) {
				if err := unstructured.SetNestedField(u.Object, class, "spec", "template", "spec", "nodeClassRef", "name"); err != nil {
					t.Fatal(err)
				}
			}
			naming(change.Object.Desired, c.to)
			naming(change.Object.Defaulted, c.to)
			if change.Live != nil {
				naming(change.Live, c.from)
			}
			s.Live.Objects = map[render.Ref]*plan.Object{}
			for name, ready := range map[string]string{"old": c.was, "new": c.is} {
				if ready != "" {
					s.Live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: name}] = class(name, ready)
				}
			}
			result := s.Run(t.Context())
			var waits []string
			for _, w := range s.Waits {
				waits = append(waits, w.On+": "+w.Message)
			}
			var want []string
			if !c.wantWritten {
				want = []string{"EC2NodeClass/new: NodePool/a keeps referencing EC2NodeClass/old until EC2NodeClass/new is Ready"}
			}
			if written := slices.Contains(server.written, "a"); written != c.wantWritten || result.Whole != (c.wantWritten && c.class != plan.Hold) {
				t.Errorf("written %t, whole %t, want %t", written, result.Whole, c.wantWritten)
			}
			if diff := cmp.Diff(want, waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}
