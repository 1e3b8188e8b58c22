package watch

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestOneRepositoryLeavesAWorker: it has at most as many reconciles as there are workers, minus one.
func TestOneRepositoryLeavesAWorker(t *testing.T) {
	who := types.NamespacedName{Namespace: "plumbline-system", Name: "prod"}
	for name, c := range map[string]struct{ workers, want int }{"four workers": {4, 3}, "two workers": {2, 1}, "one worker": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			var l Lanes
			l.Among(c.workers)
			for range c.want {
				if !l.Enter("heavy", who) {
					t.Fatalf("fewer than %d passes of one repository", c.want)
				}
			}
			if l.Enter("heavy", who) {
				t.Errorf("more than %d passes of one repository", c.want)
			}
			if !l.Enter("light", who) {
				t.Error("no pass of another repository")
			}
			if next, waits := l.Leave("heavy"); !waits || next != who {
				t.Errorf("%v is next, %t, want %v", next, waits, who)
			}
			if !l.Enter("heavy", who) {
				t.Error("no pass after one has ended")
			}
		})
	}
}

// TestHeavyRepositoriesLeaveAWorker: all of them together have at most all workers but one, and the NodeSync that waits
// longest is enqueued, whichever its repository.
func TestHeavyRepositoriesLeaveAWorker(t *testing.T) {
	who := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: "plumbline-system", Name: name}
	}
	heavy := map[string]bool{"a": true, "b": true}
	l := Lanes{Heavy: func(repository string) bool { return heavy[repository] }}
	l.Among(4)
	enter := func(repository, name string, want bool) {
		t.Helper()
		if got := l.Enter(repository, who(name)); got != want {
			t.Errorf("%s of %s has begun: %t, want %t", name, repository, got, want)
		}
	}
	enter("a", "a1", true)
	enter("a", "a2", true)
	enter("b", "b1", true)
	enter("b", "b2", false)
	enter("a", "a3", false)
	enter("b", "b2", false)
	enter("c", "c1", true)
	if next, waits := l.Leave("c"); waits {
		t.Errorf("%v is woken for a worker that is not for it", next)
	}
	for _, want := range []string{"b2", "a3"} {
		if next, waits := l.Leave("a"); !waits || next != who(want) {
			t.Errorf("%v is next, %t, want %s", next, waits, want)
		}
	}
	if next, waits := l.Leave("b"); waits {
		t.Errorf("%v is woken a second time", next)
	}
	delete(heavy, "b")
	enter("a", "a1", true)
	enter("a", "a2", true)
	enter("a", "a3", true)
	enter("b", "b1", true)
}
