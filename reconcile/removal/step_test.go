package removal

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestWhatIsMadeWhileARemovalStandsIsNewToIt checks this with any clock: a removal with a recorded time a day ahead
// would otherwise not wait for a new object.
func TestWhatIsMadeWhileARemovalStandsIsNewToIt(t *testing.T) {
	made := metav1.NewTime(now)
	cases := map[string]struct {
		isNew    bool
		recorded time.Duration
		want     time.Duration
	}{
		"by a clock ahead":  {true, 24 * time.Hour, 0},
		"before":            {true, -time.Minute, -time.Minute},
		"an update is none": {false, 24 * time.Hour, 24 * time.Hour},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			s.Sync.Status.Removals = []v1alpha1.Removal{{RecordedAt: metav1.NewTime(made.Add(c.recorded))}}
			s.Written = []plan.Write{{New: c.isNew, CreatedAt: made}}
			s.limitRecordedAt()
			if got := s.Sync.Status.Removals[0].RecordedAt.Sub(made.Time); got != c.want {
				t.Errorf("recorded %s after it was made, want %s", got, c.want)
			}
		})
	}
}

// TestTheRecordHasWhatLived checks that the record identifies an entry in Git as the object that was removed, and not
// another object of the name.
func TestTheRecordHasWhatLived(t *testing.T) {
	b := newBed(t)
	lived := plan.Definition(b.livePool())
	for uid, want := range map[types.UID]string{"p1": lived, "another": ""} {
		s := b.step()
		s.Plan = &plan.Plan{Removals: []plan.Candidate{{Ref: general, UID: uid}}}
		s.recordCandidates()
		if got := s.Sync.Status.Removals[0].Definition; got != want || lived == "" {
			t.Errorf("%s: recorded %q, want %q", uid, got, want)
		}
	}
}

// TestWhatADrainTakesOver checks that a drain takes over a held removal, and that a commit takes it back and the guard
// checks it again; a removal in progress for a commit stays the commit's.
func TestWhatADrainTakesOver(t *testing.T) {
	for name, c := range map[string]struct{ recorded, lacks, want string }{
		"the drain of what was held": {"main@sha1:1", plan.RevisionDeleted, plan.RevisionDeleted},
		"a commit after the drain":   {plan.RevisionDeleted, "main@sha1:2", "main@sha1:2"},
		"another commit":             {"main@sha1:1", "main@sha1:2", "main@sha1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			s.Sync.Status.Removals = []v1alpha1.Removal{{Kind: general.Kind, Name: general.Name, UID: "p1", Revision: c.recorded}}
			s.Plan = &plan.Plan{Removals: []plan.Candidate{{Ref: general, UID: "p1", Recorded: true, Revision: c.lacks}}}
			s.recordCandidates()
			if got := s.Sync.Status.Removals; len(got) != 1 || got[0].Revision != c.want {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}
