package conclude

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

// TestLaunchesAreRecalledAfterARestart: what was said to get no nodes is not a success because nobody
// remembers it, until Karpenter has had the time to try again, or there is a node.
func TestLaunchesAreRecalledAfterARestart(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	said := []nodes.Launchless{{Pool: "a", Why: "no capacity; in no zone"}, {Pool: "b", Why: "no subnet"}}
	for name, c := range map[string]struct {
		found Found
		after time.Duration
		said  []nodes.Launchless
		left  []string
		want  []nodes.Launchless
	}{
		"at the start":           {found: Found{Looked: true}, said: said, want: said},
		"minutes later":          {found: Found{Looked: true}, after: observe.FailedLaunchLasts - time.Second, said: said, want: said},
		"when it would be known": {found: Found{Looked: true}, after: observe.FailedLaunchLasts, said: said},
		"it is not known":        {after: time.Hour, said: said, want: said},
		"one has a node":         {found: Found{Looked: true, Noded: map[string]bool{"a": true}}, said: said, want: said[1:]},
		"one has left Git":       {found: Found{Looked: true}, said: said, left: []string{"a"}, want: said[1:]},
		"one fails for another":  {found: Found{Looked: true, Launchless: []nodes.Launchless{{Pool: "b", Why: "else"}}}, said: said, want: []nodes.Launchless{said[0], {Pool: "b", Why: "else"}}},
		"the pass has failed":    {found: Found{Fault: &fault.Error{}}, said: said},
		"none was said":          {found: Found{Looked: true}},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.NodeSync{}
			for _, l := range c.said {
				before.Status.LaunchFailing = append(before.Status.LaunchFailing, v1alpha1.LaunchFailure{Pool: l.Pool, Message: l.Why})
			}
			s := &Step{Sync: before.DeepCopy(), Before: before, Memory: &Memory{began: at}, Began: at.Add(c.after), Found: c.found, Set: &render.Set{}}
			for _, pool := range []string{"a", "b"} {
				if len(c.left) == 0 || c.left[0] != pool {
					s.Set.Objects = append(s.Set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: pool}})
				}
			}
			s.recallLaunches()
			if diff := cmp.Diff(c.want, s.Launchless); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := s.foundVerdict().CommitState(); got != report.Success != (c.want != nil) {
				t.Errorf("the commit is %s", got)
			}
			s.setLaunchFailing()
			if said := conditions.GetMessage(s.Sync, v1alpha1.LaunchFailingCondition); c.want != nil && s.Looked && !strings.HasPrefix(said, "NodePool/"+c.want[0].Pool+" gets no nodes: "+c.want[0].Why) {
				t.Errorf("condition %q", said)
			}
		})
	}
}

// TestEveryPoolThatGetsNoNodesIsRecalled, whatever the condition has room for, and in the words that were reported.
func TestEveryPoolThatGetsNoNodesIsRecalled(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var many []nodes.Launchless
	set := &render.Set{}
	for _, name := range strings.Split("abcdefgh", "") {
		many = append(many, nodes.Launchless{Pool: name, Why: "LaunchFailed: no capacity; NodePool/x gets no nodes: retried, " + strings.Repeat("long ", 300)})
		set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}})
	}
	first := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: &Memory{}, Began: at, Set: set, Found: Found{Looked: true, Launchless: many}}
	first.recallLaunches()
	first.setLaunchFailing()
	restarted := &Step{Sync: first.Sync.DeepCopy(), Before: first.Sync, Memory: &Memory{}, Began: at, Set: set, Found: Found{Looked: true}}
	restarted.recallLaunches()
	restarted.setLaunchFailing()
	if len(restarted.Launchless) != len(many) {
		t.Errorf("recalled %v", restarted.Launchless)
	}
	if diff := cmp.Diff(first.Sync.Status, restarted.Sync.Status); diff != "" || len(restarted.Notes) != 0 {
		t.Errorf("events %v, status (-first +restarted):\n%s", restarted.Notes, diff)
	}
}
