package removal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/render"
)

// message returns the message of the first removal.
func (s *stage) message() string {
	s.t.Helper()
	if len(s.last.Removals) == 0 {
		s.t.Fatal("no removal")
	}
	return s.last.Removals[0].Message
}

// TestDriveADisruptedZone checks that instances that EC2 returns together with an error are reported, but complete
// nothing, even if all of them are terminated.
func TestDriveADisruptedZone(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := newStage(t, batch)
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	for range 4 {
		s.pass()
	}
	s.karpenter("terminated")
	s.silence, s.shown = errors.New("AWS did not respond to ec2:DescribeInstances: InternalError"), []string{"i-b"}
	for range 3 {
		if got := s.pass(); len(got) != 1 || got[0] != "batch VerifyingCloud" {
			t.Fatalf("got %q", got)
		}
	}
	if got := s.message(); !strings.Contains(got, "InternalError") || !strings.Contains(got, "i-b (terminated)") || !strings.Contains(got, "not verified: i-a (last seen running)") || strings.Contains(got, "i-b (last") {
		t.Errorf("it says %q", got)
	}
	s.silence = nil
	if got := s.pass(); got[0] != "batch Finalizing" {
		t.Errorf("EC2 answers: %q", got)
	}
}

// TestDriveAForeignProvider checks that a NodeClaim of another provider prevents its own removal from completing, and
// no other.
func TestDriveAForeignProvider(t *testing.T) {
	batch, other := pool("batch", "batch-uid", dynamic()), pool("other", "other-uid", dynamic())
	s := newStage(t, batch, other)
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "other", "other-uid")
	claims := s.claims()
	claims[0].Status.ProviderID = "kwok://node"
	if err := s.client.Update(t.Context(), &claims[0]); err != nil {
		t.Fatal(err)
	}
	s.find(render.NodePool, "batch", "batch-uid")
	s.find(render.NodePool, "other", "other-uid")
	for range 4 {
		s.pass()
	}
	for _, claim := range s.claims() { // as Karpenter does when they are terminated
		if _, id, err := cloud.ParseProviderID(claim.Status.ProviderID); err == nil {
			s.become(id, "terminated")
		}
		claim.Finalizers = nil
		if err := s.client.Update(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
	}
	s.become("i-a", "terminated")
	for range 4 {
		s.pass()
	}
	if s.exists(other) {
		t.Error("the other pool waits for it")
	}
	if !s.exists(batch) || !strings.Contains(s.message(), "kwok://node: not an EC2 instance") {
		t.Errorf("it says %q", s.message())
	}
}

// TestDriveTheFirstQuestion checks that EC2 is queried about a removal as soon as its last NodeClaim is gone, although
// it was queried about another removal a second ago. It is queried again only after AskEvery.
func TestDriveTheFirstQuestion(t *testing.T) {
	early, late := pool("early", "early-uid", dynamic()), pool("late", "late-uid", dynamic())
	s := newStage(t, early, late)
	s.launch("a", "late", "late-uid")
	s.find(render.NodePool, "early", "early-uid")
	for range 3 {
		s.pass()
	}
	if s.questions != 1 {
		t.Fatalf("EC2 was asked %d times about the first removal, want 1", s.questions)
	}
	s.find(render.NodePool, "late", "late-uid")
	for range 4 {
		s.pass()
	}
	s.karpenter("shutting-down")
	asked := s.now
	s.asked = asked
	s.questions = 0
	if got := s.passAfter(time.Second); s.questions != 1 {
		t.Errorf("a second after another question: EC2 was asked %d times, want 1: %q", s.questions, got)
	}
	s.become("i-a", "terminated")
	if s.passAfter(time.Second); s.questions != 1 {
		t.Errorf("EC2 was asked again after a second")
	}
	if want := asked.Add(11 * time.Second); !s.last.Again.Equal(want) {
		t.Errorf("the next pass is at %s, want %s", s.last.Again, want)
	}
}
