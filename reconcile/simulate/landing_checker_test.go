package simulate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAnAnswerIsKept checks that an answer is kept until the question changes or the answer is old, and that it remains
// valid while the next one is simulated.
func TestAnAnswerIsKept(t *testing.T) {
	a, now, done := &LandingChecker{}, time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC), make(chan bool)
	n, pools := 0, ""
	var fails error
	about := func(text string) question {
		return question{about: text, pools: pools, done: func() { done <- true }, ask: func(context.Context) (map[string][]plan.Unschedulable, error) {
			n++
			return map[string][]plan.Unschedulable{"general": {{Pod: fmt.Sprint(n)}}}, fails
		}}
	}
	look := func(text string, waits bool) string {
		landing, wake := a.answerTo(t.Context(), about(text), now)
		if !wake.After(now) {
			t.Errorf("%s: looks again at %s, at once", text, wake)
		}
		if waits {
			<-done
		}
		switch {
		case landing.Asking:
			return "asking"
		case landing.Unknown != "":
			return landing.Unknown
		}
		return landing.Nowhere["general"][0].Pod
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, not %s", what, got, want)
		}
	}
	expect("at first", look("x", true), "asking")
	expect("then", look("x", false), "1")
	for i, wait := range []time.Duration{repeatAfter, 2 * repeatAfter, 4 * repeatAfter, 8 * repeatAfter, Every, Every} {
		now = now.Add(wait - time.Second)
		expect("before it is old", look("x", false), fmt.Sprint(i+1))
		now = now.Add(time.Second)
		expect("when it is old", look("x", true), fmt.Sprint(i+1))
		expect("then", look("x", false), fmt.Sprint(i+2))
	}
	pools = "another"
	expect("of other pools, at once", look("x", false), "7")
	now = now.Add(minInterval)
	expect("of other pools", look("x", true), "7")
	expect("then", look("x", false), "8")
	fails = errors.New("no")
	expect("of another", look("y", true), "asking")
	expect("that nobody knows", look("y", false), "no")
	fails, now = nil, now.Add(repeatAfter)
	expect("for a minute", look("y", true), "no")
	expect("then", look("y", false), "10")
}

// TestNobodyIsAsked checks this without a Simulator.
func TestNobodyIsAsked(t *testing.T) {
	if (&LandingChecker{}).For(nil, time.Now(), "", nil) != nil {
		t.Error("a Simulator that is not there is asked")
	}
}

// TestPoolsThatStay checks that their state matters: a pool that is now Ready may take pods that were unschedulable.
func TestPoolsThatStay(t *testing.T) {
	pool := func(name, ready string) (render.Ref, *plan.Object) {
		object := &unstructured.Unstructured{Object: map[string]any{
			"kind": render.NodePool, "metadata": map[string]any{"name": name, "generation": int64(2)},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready, "observedGeneration": int64(2)}}},
		}}
		return render.Ref{Kind: render.NodePool, Name: name}, plan.NewObject(object)
	}
	made, live := removing()
	live.Objects = map[render.Ref]*plan.Object{}
	for name, ready := range map[string]string{"general": "True", "batch": "True", "late": "False"} {
		ref, object := pool(name, ready)
		live.Objects[ref] = object
	}
	if got := poolsOf(made, live); got != "batch 2 true\nlate 2 false" {
		t.Errorf("%q", got)
	}
}

// away is an API server that does not respond.
type away struct{ client.Reader }

func (away) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("away")
}

// TestACommitThatChangesNothingIsNoOtherQuestion checks this because a removal would otherwise never start if commits
// are more frequent than answers.
func TestACommitThatChangesNothingIsNoOtherQuestion(t *testing.T) {
	made, live := removing()
	a, s, done := &LandingChecker{}, &Simulator{Reader: away{}, Now: time.Now}, make(chan struct{}, 1)
	look := func(inputs, revision string) plan.Landing {
		made.Revision = revision
		set := &render.Set{Inputs: render.Inputs{"nodes/a.yaml": inputs}}
		found, _ := a.For(s, time.Now(), "", func() { done <- struct{}{} })(t.Context(), set, made, live)
		return found
	}
	if found := look("1", "a"); !found.Asking {
		t.Fatalf("%+v", found)
	}
	<-done
	if found := look("1", "b"); found.Asking || found.Unknown == "" {
		t.Errorf("of a commit that changes nothing: %+v", found)
	}
	if found := look("2", "b"); !found.Asking {
		t.Errorf("of other definitions: %+v", found)
	}
	<-done
}
