package report

import (
	"testing"
)

// TestACommitThatIsReverted has not succeeded, whatever the result of the commit that reverts it.
func TestACommitThatIsReverted(t *testing.T) {
	const words = "NodePool/x was being removed, 2 of 5 nodes were terminated"
	reverts := func(s *script, state State, text string, commits ...string) {
		s.with(Update{Context: "plumbline/prod/x", Head: "b", State: state, Description: text, Commits: commits, Reverted: map[string]string{"a": words, "b": "itself"}})
	}
	s := newScript(t)
	s.says("a", Pending, "removing")
	s.posts("a pending removing")
	reverts(s, Pending, "waiting", "b", "a")
	s.posts("b pending waiting", "a pending reverted by b: "+words)
	s.says("c", Success, "applied", "c", "b", "a")
	s.posts("c success applied", "b success superseded by c: applied", "a failure reverted by b: "+words)
	s.says("c", Success, "applied")
	s.posts()

	s = newScript(t)
	s.says("a", Pending, "removing")
	s.posts("a pending removing")
	reverts(s, Success, "applied", "b")
	s.posts("b success applied", "a failure reverted by b: "+words)

	s = newScript(t)
	s.says("a", Failure, "stalled")
	s.posts("a failure stalled")
	reverts(s, Success, "applied", "b")
	s.posts("b success applied")
}

// TestACommitThatIsSuperseded reports once, immediately, what remained of it, and then ends like the newer one.
func TestACommitThatIsSuperseded(t *testing.T) {
	const words = "2 of its 3 nodes were left"
	supersedes := func(s *script, head string, state State, text string) {
		s.with(Update{Context: "plumbline/prod/x", Head: head, State: state, Description: text, Left: map[string]string{"a": words, "c": "itself"}})
	}
	s := newScript(t)
	s.says("a", Pending, "rolling out")
	s.posts("a pending rolling out")
	supersedes(s, "b", Pending, "rolling out")
	s.posts("b pending rolling out", "a pending superseded by b, "+words)
	s.says("b", Pending, "rolling out: 1 of 2")
	s.posts("b pending rolling out: 1 of 2")
	s.says("c", Pending, "waiting")
	s.posts("c pending waiting")
	s.says("c", Success, "applied")
	s.posts("c success applied", "b success superseded by c: applied", "a success superseded by c, "+words+": applied")

	s = newScript(t)
	s.says("a", Failure, "stopped")
	s.posts("a failure stopped")
	supersedes(s, "b", Success, "applied")
	s.posts("b success applied")
}
