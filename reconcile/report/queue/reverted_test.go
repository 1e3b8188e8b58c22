package queue

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestACommitThatIsReverted has not succeeded, whatever becomes of the one that reverts it.
func TestACommitThatIsReverted(t *testing.T) {
	const words = "NodePool/x was being removed, 2 of 5 nodes were ended"
	reverts := func(s *script, state report.State, text string, commits ...string) {
		s.with(Update{Context: "plumbline/prod/x", Head: "b", State: state, Description: text, Commits: commits, Reverted: map[string]string{"a": words, "b": "itself"}})
	}
	s := newScript(t)
	s.says("a", report.Pending, "removing")
	s.posts("a pending removing")
	reverts(s, report.Pending, "waiting", "b", "a")
	s.posts("b pending waiting", "a pending reverted by b: "+words)
	s.says("c", report.Success, "applied", "c", "b", "a")
	s.posts("c success applied", "b success superseded by c: applied", "a failure reverted by b: "+words)
	s.says("c", report.Success, "applied")
	s.posts()

	s = newScript(t)
	s.says("a", report.Pending, "removing")
	s.posts("a pending removing")
	reverts(s, report.Success, "applied", "b")
	s.posts("b success applied", "a failure reverted by b: "+words)

	s = newScript(t)
	s.says("a", report.Failure, "stalled")
	s.posts("a failure stalled")
	reverts(s, report.Success, "applied", "b")
	s.posts("b success applied")
}
