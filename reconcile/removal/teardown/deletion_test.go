package teardown_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

// TestStranding checks that an instance is due once, after it was stranded for a while without interruption, and that
// nothing progresses any more when all that is left was handled a while ago.
func TestStranding(t *testing.T) {
	var s teardown.Stranding
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	a, b := removal.Stranded{ID: "i-a", Claim: "a"}, removal.Stranded{ID: "i-b"}
	both := []removal.Stranded{a, b}
	for _, step := range []struct {
		now   int
		found []removal.Stranded
		due   int
	}{
		{0, both, 0},
		{30, []removal.Stranded{b}, 0}, // a is not stranded now, so its time starts again
		{40, both, 0},
		{60, both, 1},
	} {
		if due := s.Due(step.found, at(step.now), time.Minute); len(due) != step.due {
			t.Errorf("at %d: %v are due", step.now, due)
		}
	}
	due := s.Due(both, at(100), time.Minute)
	instances := leftover.Deletion{Delete: []cloud.Resource{{Kind: cloud.KindInstance, ID: "i-a"}}}
	terminate, spared := s.Terminable(due, instances, at(100))
	if len(due) != 2 || len(terminate) != 1 || terminate[0].ID != "i-a" || len(spared) > 0 {
		t.Errorf("due %v, terminates %v, spares %v", due, terminate, spared)
	}
	if again := s.Due(both, at(159), time.Minute); len(again) > 0 {
		t.Errorf("%v are due again", again) // i-b was no longer in EC2, so its time starts again
	}
	for busy, want := range map[int]bool{0: true, 1: false} {
		if got := s.Settled(both, busy, at(160), time.Minute); got != want {
			t.Errorf("settled with %d busy: %t", busy, got)
		}
	}
	if s.Settled([]removal.Stranded{{ID: "i-c", Claim: "c"}}, 0, at(160), time.Minute) || s.Settled(both, 0, at(159), time.Minute) {
		t.Error("settled while one is not handled, or too early")
	}
}

// TestEnding checks that only what was listed is deleted, that a refused deletion is tried twice, and that no attempt
// helps when AWS denies everything.
func TestEnding(t *testing.T) {
	volume := func(id string) cloud.Resource { return cloud.Resource{Kind: cloud.KindVolume, ID: id} }
	e := teardown.NewDeletion([]string{"vol-1", "vol-2"}, strings.Clone)
	answer := leftover.Deletion{Delete: []cloud.Resource{volume("vol-1"), volume("vol-2"), volume("vol-new")}}
	protected := map[string]error{"vol-2": &cloud.AnswerError{Action: "ec2:DeleteVolume", Code: "OperationNotPermitted"}}
	for attempt, want := range []int{2, 2, 1} {
		now, left := e.Now(answer, false)
		if len(now) != want || !left || slices.ContainsFunc(now, func(r cloud.Resource) bool { return r.ID == "vol-new" }) {
			t.Errorf("attempt %d: %v, left %t", attempt, now, left)
		}
		news, err := e.Attempted(now, protected)
		if err != nil || (len(news) > 0) != (attempt == 0) {
			t.Errorf("attempt %d: %q, %v", attempt, news, err)
		}
	}
	e.Keep(func(id string) bool { return id != "vol-1" })
	if now, left := e.Now(answer, false); len(now) > 0 || left {
		t.Errorf("deletes %v, left %t", now, left)
	}
	if _, left := e.Now(answer, true); !left {
		t.Error("nothing is left while AWS does not answer")
	}
	denied := map[string]error{"vol-1": &cloud.DeniedError{Action: "ec2:DeleteVolume"}}
	if _, err := teardown.NewDeletion([]string{"vol-1"}, strings.Clone).Attempted(answer.Delete[:1], denied); err == nil {
		t.Error("goes on where AWS denies everything")
	}
	if _, err := e.Attempted(answer.Delete[:1], denied); err != nil {
		t.Errorf("stops where AWS has deleted something: %v", err)
	}
}
