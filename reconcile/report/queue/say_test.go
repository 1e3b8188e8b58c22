package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

var gitea = Target{Host: Host{Provider: "gitea", URL: "https://git.example.com/acme/fleet", Secret: "token"}, Page: "https://git.example.com/page"}

// ledgerOf is one to which a script of verdicts was said.
type script struct {
	t   *testing.T
	l   Ledger
	now time.Time
}

func newScript(t *testing.T) *script { return &script{t: t, now: noon} }

// says tells a verdict, as a pass would.
func (s *script) says(head string, state report.State, text string, commits ...string) {
	s.with(Update{Context: "plumbline/prod/x", Head: head, State: state, Description: text, Commits: commits})
}

func (s *script) with(said Update) {
	if said.Hosts == nil {
		said.Hosts = []Target{gitea}
	}
	said.At = s.now
	s.l.say(said)
}

// deliver empties all lanes and lists what was posted.
func (s *script) deliver() []string {
	var posted []string
	for i := range s.l.Lanes {
		lane := &s.l.Lanes[i]
		for len(lane.Waiting) > 0 {
			e := lane.Waiting[0]
			line := fmt.Sprintf("%s %s %s", e.Commit, e.State, e.Description)
			if lane.Context != s.l.Context {
				line = lane.Context + " " + line
			}
			posted = append(posted, line)
			lane.delivered(e, s.now)
		}
	}
	return posted
}

// posts holds what is posted now.
func (s *script) posts(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.deliver()); diff != "" {
		s.t.Errorf("posted (-want +got):\n%s", diff)
	}
}

func TestSayNews(t *testing.T) {
	s := newScript(t)
	s.says("a", report.Pending, "waiting for CRDs")
	s.posts("a pending waiting for CRDs")
	s.says("a", report.Pending, "waiting for CRDs")
	s.posts()
	s.says("a", report.Pending, "waiting for Controller")
	s.says("a", report.Success, "applied")
	s.posts("a success applied")
	s.says("a", report.Success, "applied")
	s.posts()
	s.says("b", report.Success, "applied")
	s.posts("b success applied")
	s.says("b", report.Failure, "stalled")
	s.says("b", report.Success, "applied")
	s.posts("b success applied")
}

func TestEveryCommitThatChangedAnything(t *testing.T) {
	s := newScript(t)
	s.says("d", report.Pending, "waiting", "d", "c", "b")
	s.posts("d pending waiting", "c pending superseded by d: waiting", "b pending superseded by d: waiting")
	s.says("d", report.Pending, "removing")
	s.posts("d pending removing")
	s.says("d", report.Success, "applied")
	s.posts("d success applied", "c success superseded by d: applied", "b success superseded by d: applied")
	s.says("d", report.Pending, "removing again")
	s.says("d", report.Failure, "held")
	s.posts("d failure held", "c failure superseded by d: held", "b failure superseded by d: held")
}

// TestHeadChangedNothing: the verdict goes to it all the same, as who waits for a push waits for its
// last commit, and to those that did.
func TestHeadChangedNothing(t *testing.T) {
	s := newScript(t)
	s.says("d", report.Success, "applied", "c", "b")
	s.posts("d success applied", "c success superseded by d: applied", "b success superseded by d: applied")
	if got := s.l.reported(); len(got) != 1 || got[0].Commit != "d" {
		t.Errorf("reported %v", got)
	}
	s.says("d", report.Success, "applied")
	s.posts()
}

func TestAPendingThatIsOvertaken(t *testing.T) {
	s := newScript(t)
	s.says("a", report.Pending, "removing")
	s.posts("a pending removing")
	s.says("b", report.Pending, "waiting")
	s.posts("b pending waiting")
	s.says("c", report.Failure, "broken", "c", "b")
	s.posts("c failure broken", "b failure superseded by c: broken", "a failure superseded by c: broken")
	s.says("c", report.Success, "applied")
	s.posts("c success applied", "b success superseded by c: applied")
	if len(s.l.Commits) != 2 {
		t.Errorf("kept: %+v", s.l.Commits)
	}
}

// TestAFinalWordIsKept: a commit that was broken stays so when another one heals.
func TestAFinalWordIsKept(t *testing.T) {
	s := newScript(t)
	s.says("a", report.Success, "applied")
	s.says("b", report.Failure, "broken", "b")
	s.posts("a success applied", "b failure broken")
	s.says("c", report.Failure, "broken", "c", "b")
	s.says("d", report.Success, "applied", "d", "c", "b")
	s.posts("c failure broken", "d success applied")
	s.says("e", report.Success, "applied", "e")
	s.posts("e success applied")
	if len(s.l.Commits) != 1 {
		t.Errorf("kept: %+v", s.l.Commits)
	}
}

// TestHeadGoesBack: after a force-push to an older commit it is reported again.
func TestHeadGoesBack(t *testing.T) {
	s := newScript(t)
	s.says("a", report.Failure, "broken")
	s.says("b", report.Pending, "waiting")
	s.posts("a failure broken", "b pending waiting")
	s.says("a", report.Success, "applied")
	s.posts("a success applied", "b success superseded by a: applied")
}

func TestAllThatChangedIsSettled(t *testing.T) {
	s := newScript(t)
	s.says("b", report.Failure, "broken", "b")
	s.posts("b failure broken")
	s.says("c", report.Failure, "broken", "b") // c is outside of the inputs
	s.posts("c failure broken")
}

func TestAHostThatIsAdded(t *testing.T) {
	s := newScript(t)
	s.says("b", report.Success, "applied", "b", "a")
	s.posts("b success applied", "a success superseded by b: applied")
	mirror := gitea
	mirror.URL = "https://mirror.example.com/acme/fleet"
	s.with(Update{Hosts: []Target{gitea, mirror}, Context: "plumbline/prod/x", Head: "b", State: report.Success, Description: "applied"})
	s.posts("b success applied", "a success superseded by b: applied")
	s.with(Update{Hosts: []Target{mirror}, Context: "plumbline/prod/x", Head: "c", State: report.Success, Description: "applied"})
	s.posts("c success applied")
	if len(s.l.Lanes) != 1 || s.l.Lanes[0].URL != mirror.URL {
		t.Errorf("lanes %+v", s.l.Lanes)
	}
	s.with(Update{Hosts: []Target{}, Head: "d", State: report.Success, Description: "applied"})
	if len(s.l.Lanes) != 0 {
		t.Errorf("nobody is told, and there is %+v", s.l.Lanes)
	}
}

func TestAnotherSecretIsTriedAtOnce(t *testing.T) {
	for name, change := range map[string]func(*Update){
		"another secret": func(s *Update) {
			s.Hosts = []Target{{Host: Host{Provider: gitea.Provider, URL: gitea.URL, Secret: "other"}}}
		},
		"somebody asks for it": func(s *Update) { s.Retry = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.says("a", report.Success, "applied")
			lane := &s.l.Lanes[0]
			lane.failed(try(t, lane, noon), &report.UnauthorizedError{}, true)
			if _, ok := s.l.Lanes[0].next(noon); ok {
				t.Fatal("it is tried with the same secret")
			}
			said := Update{Context: "plumbline/prod/x", Head: "a", State: report.Success, Description: "applied"}
			change(&said)
			s.with(said)
			if _, ok := s.l.Lanes[0].next(noon); !ok || s.l.Lanes[0].distrusts("1", noon) {
				t.Errorf("it is not tried: %+v", s.l.Lanes[0])
			}
		})
	}
}

// TestTheContextBecomesKnown: what was said in a former context is let go.
func TestTheContextBecomesKnown(t *testing.T) {
	unknown := func(head string, state report.State, text string) Update {
		return Update{Fallback: "plumbline/ns/x", Head: head, State: state, Description: text}
	}
	t.Run("on the same commit", func(t *testing.T) {
		s := newScript(t)
		s.with(unknown("a", report.Failure, "no plumbline.yaml"))
		s.posts("a failure no plumbline.yaml")
		s.says("a", report.Pending, "waiting")
		s.posts("a pending waiting")
		s.says("a", report.Success, "applied")
		s.posts("plumbline/ns/x a success reported as plumbline/prod/x now: applied", "a success applied")
		s.says("a", report.Success, "applied")
		if len(s.l.Lanes) != 1 {
			t.Errorf("lanes %+v", s.l.Lanes)
		}
	})
	t.Run("on a later one", func(t *testing.T) {
		s := newScript(t)
		s.with(unknown("a", report.Failure, "no plumbline.yaml"))
		s.posts("a failure no plumbline.yaml")
		s.says("b", report.Success, "applied")
		s.posts("b success applied")
		if len(s.l.Lanes) != 1 {
			t.Errorf("lanes %+v", s.l.Lanes)
		}
	})
	t.Run("of a pending", func(t *testing.T) {
		s := newScript(t)
		s.with(unknown("a", report.Pending, "waiting"))
		s.posts("a pending waiting")
		s.says("b", report.Failure, "broken")
		s.posts("plumbline/ns/x a failure reported as plumbline/prod/x now: broken", "b failure broken")
		s.says("b", report.Success, "applied")
		s.posts("b success applied")
		if len(s.l.Lanes) != 1 {
			t.Errorf("lanes %+v", s.l.Lanes)
		}
	})
	t.Run("and is not known again", func(t *testing.T) {
		s := newScript(t)
		s.says("a", report.Success, "applied")
		s.with(unknown("b", report.Failure, "broken"))
		if s.l.Context != "plumbline/prod/x" {
			t.Errorf("context %s", s.l.Context)
		}
	})
}

func TestALongDescription(t *testing.T) {
	s := newScript(t)
	s.says("b", report.Failure, strings.Repeat("word ", 100), "b", "a")
	for _, e := range s.l.Lanes[0].Waiting {
		if n := len([]rune(e.Description)); n > report.MaxDescription {
			t.Errorf("%s: %d characters", e.Commit, n)
		}
		if e.TargetURL != gitea.Page {
			t.Errorf("%s links to %q", e.Commit, e.TargetURL)
		}
	}
}

// TestTheQueueIsBounded, however long a host is away.
func TestTheQueueIsBounded(t *testing.T) {
	s := newScript(t)
	said := Update{Context: "plumbline/prod/x", State: report.Success, Description: strings.Repeat("ü", report.MaxDescription)}
	for i := range 8 {
		host := gitea
		host.URL = fmt.Sprintf("https://git%d.example.com/acme/fleet", i)
		said.Hosts = append(said.Hosts, host)
	}
	for i := range 300 {
		said.Head = fmt.Sprintf("%040d", i)
		said.Commits = nil
		s.with(said)
	}
	n, _ := s.l.length()
	if n != mostWaiting || !strings.Contains(s.l.Lanes[0].trouble(), "given up") {
		t.Errorf("%d wait: %s", n, s.l.Lanes[0].trouble())
	}
	if newest := s.l.Lanes[0].Waiting; newest[len(newest)-1].Commit != said.Head {
		t.Errorf("the newest was given up")
	}
	said.State = report.Pending
	for i := range 300 {
		said.Head = fmt.Sprintf("%040d", 1000+i)
		s.with(said)
	}
	if len(s.l.Commits) != mostOvertaken+1 {
		t.Errorf("%d commits are kept", len(s.l.Commits))
	}
	if size := len(encoded(t, s.l)); size > 1<<20 {
		t.Errorf("%d bytes", size)
	}
}
