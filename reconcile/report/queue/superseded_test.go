package queue

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestACommitThatIsSuperseded says at once what was left of it, once, and ends as the newer one does.
func TestACommitThatIsSuperseded(t *testing.T) {
	const words = "2 of its 3 nodes were left"
	supersedes := func(s *script, head string, state report.State, text string) {
		s.with(Update{Context: "plumbline/prod/x", Head: head, State: state, Description: text, Left: map[string]string{"a": words, "c": "itself"}})
	}
	s := newScript(t)
	s.says("a", report.Pending, "rolling out")
	s.posts("a pending rolling out")
	supersedes(s, "b", report.Pending, "rolling out")
	s.posts("b pending rolling out", "a pending superseded by b, "+words)
	s.says("b", report.Pending, "rolling out: 1 of 2")
	s.posts("b pending rolling out: 1 of 2")
	s.says("c", report.Pending, "waiting")
	s.posts("c pending waiting")
	s.says("c", report.Success, "applied")
	s.posts("c success applied", "b success superseded by c: applied", "a success superseded by c, "+words+": applied")

	s = newScript(t)
	s.says("a", report.Failure, "stopped")
	s.posts("a failure stopped")
	supersedes(s, "b", report.Success, "applied")
	s.posts("b success applied")
}
