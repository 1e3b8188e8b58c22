package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var onGitea = Target{Host: Host{Provider: "gitea", URL: "https://git.example.com/acme/fleet", Secret: "token"}, Page: "https://git.example.com/page"}

// script is a ledger with a sequence of verdicts.
type script struct {
	t   *testing.T
	l   Ledger
	now time.Time
}

func newScript(t *testing.T) *script { return &script{t: t, now: noon} }

// says reports a verdict, as a reconcile would.
func (s *script) says(head string, state State, text string, commits ...string) {
	s.with(Update{Context: "plumbline/prod/x", Head: head, State: state, Description: text, Commits: commits})
}

func (s *script) with(said Update) {
	if said.Hosts == nil {
		said.Hosts = []Target{onGitea}
	}
	said.At = s.now
	s.l.record(said)
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

// posts verifies what is posted now.
func (s *script) posts(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.deliver()); diff != "" {
		s.t.Errorf("posted (-want +got):\n%s", diff)
	}
}

func TestSayNews(t *testing.T) {
	s := newScript(t)
	s.says("a", Pending, "waiting for CRDs")
	s.posts("a pending waiting for CRDs")
	s.says("a", Pending, "waiting for CRDs")
	s.posts()
	s.says("a", Pending, "waiting for Controller")
	s.says("a", Success, "applied")
	s.posts("a success applied")
	s.says("a", Success, "applied")
	s.posts()
	s.says("b", Success, "applied")
	s.posts("b success applied")
	s.says("b", Failure, "stalled")
	s.says("b", Success, "applied")
	s.posts("b success applied")
}

func TestEveryCommitThatChangedAnything(t *testing.T) {
	s := newScript(t)
	s.says("d", Pending, "waiting", "d", "c", "b")
	s.posts("d pending waiting", "c pending superseded by d: waiting", "b pending superseded by d: waiting")
	s.says("d", Pending, "removing")
	s.posts("d pending removing")
	s.says("d", Success, "applied")
	s.posts("d success applied", "c success superseded by d: applied", "b success superseded by d: applied")
	s.says("d", Pending, "removing again")
	s.says("d", Failure, "held")
	s.posts("d failure held", "c failure superseded by d: held", "b failure superseded by d: held")
}

// TestHeadChangedNothing: it gets the verdict anyway, because a client that waits for a push waits for its last commit,
// and so do the commits that changed something.
func TestHeadChangedNothing(t *testing.T) {
	s := newScript(t)
	s.says("d", Success, "applied", "c", "b")
	s.posts("d success applied", "c success superseded by d: applied", "b success superseded by d: applied")
	if got := s.l.reported(); len(got) != 1 || got[0].Commit != "d" {
		t.Errorf("reported %v", got)
	}
	s.says("d", Success, "applied")
	s.posts()
}

func TestAPendingThatIsOvertaken(t *testing.T) {
	s := newScript(t)
	s.says("a", Pending, "removing")
	s.posts("a pending removing")
	s.says("b", Pending, "waiting")
	s.posts("b pending waiting")
	s.says("c", Failure, "broken", "c", "b")
	s.posts("c failure broken", "b failure superseded by c: broken", "a failure superseded by c: broken")
	s.says("c", Success, "applied")
	s.posts("c success applied", "b success superseded by c: applied")
	if len(s.l.Commits) != 2 {
		t.Errorf("kept: %+v", s.l.Commits)
	}
}

// TestAFinalWordIsKept: a broken commit stays broken when another one fixes it.
func TestAFinalWordIsKept(t *testing.T) {
	s := newScript(t)
	s.says("a", Success, "applied")
	s.says("b", Failure, "broken", "b")
	s.posts("a success applied", "b failure broken")
	s.says("c", Failure, "broken", "c", "b")
	s.says("d", Success, "applied", "d", "c", "b")
	s.posts("c failure broken", "d success applied")
	s.says("e", Success, "applied", "e")
	s.posts("e success applied")
	if len(s.l.Commits) != 1 {
		t.Errorf("kept: %+v", s.l.Commits)
	}
}

// TestHeadGoesBack: after a force-push to an older commit, that one is reported again.
func TestHeadGoesBack(t *testing.T) {
	s := newScript(t)
	s.says("a", Failure, "broken")
	s.says("b", Pending, "waiting")
	s.posts("a failure broken", "b pending waiting")
	s.says("a", Success, "applied")
	s.posts("a success applied", "b success superseded by a: applied")
}

func TestAllThatChangedIsSettled(t *testing.T) {
	s := newScript(t)
	s.says("b", Failure, "broken", "b")
	s.posts("b failure broken")
	s.says("c", Failure, "broken", "b") // c does not change the inputs
	s.posts("c failure broken")
}

func TestAHostThatIsAdded(t *testing.T) {
	s := newScript(t)
	s.says("b", Success, "applied", "b", "a")
	s.posts("b success applied", "a success superseded by b: applied")
	mirror := onGitea
	mirror.URL = "https://mirror.example.com/acme/fleet"
	s.with(Update{Hosts: []Target{onGitea, mirror}, Context: "plumbline/prod/x", Head: "b", State: Success, Description: "applied"})
	s.posts("b success applied", "a success superseded by b: applied")
	s.with(Update{Hosts: []Target{mirror}, Context: "plumbline/prod/x", Head: "c", State: Success, Description: "applied"})
	s.posts("c success applied")
	if len(s.l.Lanes) != 1 || s.l.Lanes[0].URL != mirror.URL {
		t.Errorf("lanes %+v", s.l.Lanes)
	}
	s.with(Update{Hosts: []Target{}, Head: "d", State: Success, Description: "applied"})
	if len(s.l.Lanes) != 0 {
		t.Errorf("nobody is told, and there is %+v", s.l.Lanes)
	}
}

func TestAnotherSecretIsTriedAtOnce(t *testing.T) {
	for name, change := range map[string]func(*Update){
		"another secret": func(s *Update) {
			s.Hosts = []Target{{Host: Host{Provider: onGitea.Provider, URL: onGitea.URL, Secret: "other"}}}
		},
		"somebody asks for it": func(s *Update) { s.Retry = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.says("a", Success, "applied")
			lane := &s.l.Lanes[0]
			lane.failed(try(t, lane, noon), &UnauthorizedError{}, true)
			if _, ok := s.l.Lanes[0].next(noon); ok {
				t.Fatal("it is tried with the same secret")
			}
			said := Update{Context: "plumbline/prod/x", Head: "a", State: Success, Description: "applied"}
			change(&said)
			s.with(said)
			if _, ok := s.l.Lanes[0].next(noon); !ok || s.l.Lanes[0].rejectsSecret("1", noon) {
				t.Errorf("it is not tried: %+v", s.l.Lanes[0])
			}
		})
	}
}

// TestTheContextBecomesKnown: statuses in a former context are released.
func TestTheContextBecomesKnown(t *testing.T) {
	unknown := func(head string, state State, text string) Update {
		return Update{Fallback: "plumbline/ns/x", Head: head, State: state, Description: text}
	}
	t.Run("on the same commit", func(t *testing.T) {
		s := newScript(t)
		s.with(unknown("a", Failure, "no plumbline.yaml"))
		s.posts("a failure no plumbline.yaml")
		s.says("a", Pending, "waiting")
		s.posts("a pending waiting")
		s.says("a", Success, "applied")
		s.posts("plumbline/ns/x a success reported as plumbline/prod/x now: applied", "a success applied")
		s.says("a", Success, "applied")
		if len(s.l.Lanes) != 1 {
			t.Errorf("lanes %+v", s.l.Lanes)
		}
	})
	t.Run("on a later one", func(t *testing.T) {
		s := newScript(t)
		s.with(unknown("a", Failure, "no plumbline.yaml"))
		s.posts("a failure no plumbline.yaml")
		s.says("b", Success, "applied")
		s.posts("b success applied")
		if len(s.l.Lanes) != 1 {
			t.Errorf("lanes %+v", s.l.Lanes)
		}
	})
	t.Run("of a pending", func(t *testing.T) {
		s := newScript(t)
		s.with(unknown("a", Pending, "waiting"))
		s.posts("a pending waiting")
		s.says("b", Failure, "broken")
		s.posts("plumbline/ns/x a failure reported as plumbline/prod/x now: broken", "b failure broken")
		s.says("b", Success, "applied")
		s.posts("b success applied")
		if len(s.l.Lanes) != 1 {
			t.Errorf("lanes %+v", s.l.Lanes)
		}
	})
	t.Run("and is not known again", func(t *testing.T) {
		s := newScript(t)
		s.says("a", Success, "applied")
		s.with(unknown("b", Failure, "broken"))
		if s.l.Context != "plumbline/prod/x" {
			t.Errorf("context %s", s.l.Context)
		}
	})
}

func TestALongDescription(t *testing.T) {
	s := newScript(t)
	s.says("b", Failure, strings.Repeat("word ", 100), "b", "a")
	for _, e := range s.l.Lanes[0].Waiting {
		if n := len([]rune(e.Description)); n > MaxDescription {
			t.Errorf("%s: %d characters", e.Commit, n)
		}
		if e.TargetURL != onGitea.Page {
			t.Errorf("%s links to %q", e.Commit, e.TargetURL)
		}
	}
}

// TestTheQueueIsBounded, however long a host is unreachable.
func TestTheQueueIsBounded(t *testing.T) {
	s := newScript(t)
	said := Update{Context: "plumbline/prod/x", State: Success, Description: strings.Repeat("ü", MaxDescription)}
	for i := range 8 {
		host := onGitea
		host.URL = fmt.Sprintf("https://git%d.example.com/acme/fleet", i)
		said.Hosts = append(said.Hosts, host)
	}
	for i := range 300 {
		said.Head = fmt.Sprintf("%040d", i)
		said.Commits = nil
		s.with(said)
	}
	n, _ := s.l.length()
	if n != maxWaiting || !strings.Contains(s.l.Lanes[0].trouble(), "given up") {
		t.Errorf("%d wait: %s", n, s.l.Lanes[0].trouble())
	}
	if newest := s.l.Lanes[0].Waiting; newest[len(newest)-1].Commit != said.Head {
		t.Errorf("the newest was given up")
	}
	said.State = Pending
	for i := range 300 {
		said.Head = fmt.Sprintf("%040d", 1000+i)
		s.with(said)
	}
	if len(s.l.Commits) != maxSuperseded+1 {
		t.Errorf("%d commits are kept", len(s.l.Commits))
	}
	if size := len(encoded(t, s.l)); size > 1<<20 {
		t.Errorf("%d bytes", size)
	}
}

// told is a verdict on a commit that a reconcile has rendered.
func told(head string, state State, text, inputs, from string, commits ...string) Update {
	begun := state != Failure && !strings.HasPrefix(text, "waits")
	return Update{Context: "plumbline/prod/x", Head: head, State: state, Description: text, Started: begun, Inputs: inputs, From: from, Commits: commits}
}

// TestACommitWhoseRolloutIsTakenBack has not succeeded: the newer one restores the previous inputs.
func TestACommitWhoseRolloutIsTakenBack(t *testing.T) {
	begun := func(t *testing.T) *script {
		s := newScript(t)
		s.with(told("a", Success, "applied", "1", ""))
		s.posts("a success applied")
		s.with(told("b", Pending, "rolling out: 5 of 40", "2", "1", "b"))
		s.posts("b pending rolling out: 5 of 40")
		return s
	}
	came := map[string]string{"b": "5 of its 40 nodes were replaced"}

	s := begun(t)
	revert := told("c", Pending, "rolling out", "1", "2", "c")
	revert.Progress = came
	s.with(revert)
	s.posts("c pending rolling out")
	s.with(told("c", Success, "applied", "1", "1"))
	s.posts("c success applied", "b failure reverted by c: 5 of its 40 nodes were replaced")

	s = begun(t) // and the revert itself is superseded
	s.with(revert)
	s.with(told("d", Success, "applied", "3", "1", "d"))
	s.posts("c success superseded by d: applied", "d success applied", "b failure reverted by c: 5 of its 40 nodes were replaced")

	s = begun(t) // of two commits, the newer one is reverted with the older
	s.with(told("c", Pending, "waits: frozen", "3", "2", "c"))
	s.posts("c pending waits: frozen")
	s.with(told("d", Success, "applied", "1", "2", "d", "c"))
	s.posts("d success applied", "c failure reverted by d: it was not complete", "b failure reverted by d: it was not complete")

	s = begun(t) // the revert waits, and another commit comes: b was never reverted
	s.with(told("c", Pending, "waits: frozen", "1", "2", "c"))
	s.deliver()
	s.with(told("d", Success, "applied", "4", "2", "d", "c"))
	s.posts("d success applied", "c success superseded by d: applied", "b success superseded by d: applied")

	s = newScript(t) // the earlier commit that is restored waits too
	s.with(told("b", Pending, "waits: frozen", "2", "1", "b"))
	s.with(told("c", Pending, "rolling out", "3", "1", "c"))
	s.deliver()
	s.with(told("d", Success, "applied", "2", "3", "d"))
	s.posts("d success applied", "c failure reverted by d: it was not complete", "b success superseded by d: applied")

	s = begun(t) // the revert is reverted: the original change is in force again
	s.with(revert)
	s.with(told("d", Success, "applied", "2", "1", "d"))
	s.posts("c failure reverted by d: it was not complete", "d success applied", "b success superseded by d: applied")
}

// TestCommitsThatComeTogether are reverted together: only the newest of them was rendered.
func TestCommitsThatComeTogether(t *testing.T) {
	s := newScript(t)
	s.with(told("a", Success, "applied", "1", ""))
	s.with(told("c", Pending, "rolling out: 0 of 2", "2", "1", "c", "b"))
	s.deliver()
	revert := told("e", Success, "applied", "3", "2", "e", "d")
	revert.Before, revert.Now = nil, func(string) string { return "was" }
	back := told("c", Pending, "rolling out: 0 of 2", "2", "1")
	back.Before = []Definition{{Name: "NodePool/general", Digest: "was"}}
	s.with(back)
	s.with(revert)
	const why = " failure reverted by e: NodePool/general is again as it was before"
	s.posts("e success applied", "d success superseded by e: applied", "c"+why, "b"+why)

	s = newScript(t) // their nodes match again, with a third value
	s.with(told("a", Success, "applied", "1", ""))
	s.with(told("c", Pending, "rolling out: 0 of 2", "2", "1", "c", "b"))
	s.deliver()
	third := told("d", Success, "applied", "3", "2", "d")
	third.Reverted = map[string]string{"c": "0 of its 2 nodes were replaced"}
	s.with(third)
	s.posts("d success applied", "c failure reverted by d: 0 of its 2 nodes were replaced", "b failure reverted by d: 0 of its 2 nodes were replaced")

	s = newScript(t) // what is fetched with the newest one is part of it
	s.with(told("a", Success, "applied", "1", ""))
	s.with(told("b", Pending, "rolling out: 0 of 2", "2", "1", "b"))
	s.deliver()
	s.with(told("d", Success, "applied", "1", "2", "d", "c"))
	s.posts("d success applied", "c success superseded by d: applied", "b failure reverted by d: it was not complete")
}

// TestNothingIsTakenBack if the inputs are different, equal or unknown.
func TestNothingIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct{ second, third string }{
		"other files":         {"2", "3"},
		"only a comment":      {"1", "1"},
		"it was not rendered": {"", "1"},
		"nor is the newer":    {"2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.with(told("a", Success, "applied", "1", ""))
			s.with(told("b", Pending, "rolling out", c.second, "1", "b"))
			s.deliver()
			s.with(told("c", Success, "applied", c.third, c.second, "c"))
			s.posts("c success applied", "b success superseded by c: applied")
		})
	}
}

// TestACommitThatIsRefused supersedes nothing that continues: neither a rollout nor a change that waits.
func TestACommitThatIsRefused(t *testing.T) {
	for name, commits := range map[string][]string{"applied": {"c"}, "not applied yet": {"c", "b"}} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.with(told("b", Pending, "rolling out", "2", "1", "b"))
			s.posts("b pending rolling out")
			refused := told("c", Failure, "broken", "", "", commits...)
			refused.Refused = true
			s.with(refused)
			s.posts("c failure broken", "b pending continues under c: see plumbline status")
			s.with(refused)
			s.posts()
			mirror := onGitea
			mirror.URL = "https://mirror.example.com/acme/fleet"
			refused.Hosts = []Target{onGitea, mirror}
			s.with(refused)
			for _, e := range s.l.Lanes[1].Waiting {
				if e.State == "" {
					t.Errorf("nothing is reported to another host of %s", e.Commit)
				}
			}
			s.deliver()
			settled := refused
			settled.Settled = func(commit string) Word {
				if commit != "b" {
					t.Errorf("how %s has ended is asked for", commit)
				}
				return Word{State: Success, Description: "applied, complete"}
			}
			ended := refused
			ended.Ended = map[string]Word{"b": {State: Failure, Description: "stopped"}}
			for _, c := range []struct {
				said Update
				want string
			}{
				{told("d", Success, "applied", "3", "2", append([]string{"d"}, commits...)...), "b success superseded by d: applied"},
				{ended, "b failure stopped"},
				{settled, "b success applied, complete"},
			} {
				next := &script{t: t, now: s.now}
				next.l, _ = s.l.clone()
				next.with(c.said)
				if got := next.deliver(); !slices.Contains(got, c.want) {
					t.Errorf("posted %q, want %s", got, c.want)
				}
			}
		})
	}
}

// TestACommitWhoseDefinitionIsAsBefore has not succeeded, whatever commits came between.
func TestACommitWhoseDefinitionIsAsBefore(t *testing.T) {
	const success, failure = "b success superseded by d: applied", "b failure reverted by d: "
	for name, c := range map[string]struct {
		now  map[string]string
		want string
	}{
		"nothing is":       {map[string]string{"EC2NodeClass/new": "1", "NodePool/x": "3", "NodePool/new": "1"}, success},
		"it has left":      {map[string]string{"EC2NodeClass/new": "1", "NodePool/x": "2"}, failure + "NodePool/new, which it was to create, has left Git"},
		"as it was":        {map[string]string{"EC2NodeClass/new": "1", "NodePool/x": "1", "NodePool/new": "1"}, failure + "NodePool/x is again as it was before"},
		"that is not seen": {nil, success},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.with(told("a", Success, "applied", "1", ""))
			s.posts("a success applied")
			b := told("b", Pending, "not Ready", "2", "1", "b")
			b.Before = []Definition{{Name: "EC2NodeClass/new"}, {Name: "NodePool/x", Digest: "1"}, {Name: "NodePool/new"}}
			s.with(b)
			b.Before = []Definition{{Name: "NodePool/x", Digest: "2"}} // by now it is applied
			s.with(b)
			s.posts("b pending not Ready")
			s.with(told("c", Pending, "not Ready", "3", "2", "c"))
			s.posts("c pending not Ready")
			d := told("d", Success, "applied", "4", "3", "d")
			if d.Now = func(definition string) string { return c.now[definition] }; c.now == nil {
				d.Now = nil
			}
			s.with(d)
			s.posts("d success applied", "c success superseded by d: applied", c.want)
		})
	}
}

// TestACommitUponOneWhoseRolloutFails waits for that one, which fails on its own, together with what was fetched with
// it; after a third one reverts that, the second has not failed.
func TestACommitUponOneWhoseRolloutFails(t *testing.T) {
	stopped := Word{State: Failure, Description: "rollout stopped, in a"}
	s := newScript(t)
	s.with(told("a", Success, "applied", "1", ""))
	s.with(told("c", Pending, "rolling out: 0 of 2", "2", "1", "c", "b"))
	s.deliver()
	upon := told("d", Pending, "waits for c: rollout stopped, in a", "3", "2", "d")
	upon.Ended = map[string]Word{"c": stopped}
	s.with(upon)
	s.posts("d pending waits for c: rollout stopped, in a", "c failure rollout stopped, in a", "b failure rollout stopped, in a")
	s.with(upon)
	s.posts()
	s.with(told("e", Success, "applied", "4", "3", "e"))
	s.posts("e success applied", "d success superseded by e: applied")
}

// TestARefusedCommitUponSomeThatCameTogether: they continue together, and end together.
func TestARefusedCommitUponSomeThatCameTogether(t *testing.T) {
	s := newScript(t)
	s.with(told("a", Success, "applied", "1", ""))
	s.with(told("c", Pending, "rolling out: 0 of 2", "2", "1", "c", "b"))
	s.deliver()
	broken := told("e", Failure, "not YAML", "", "", "e", "d")
	broken.Refused = true
	s.with(broken)
	const goes = " pending continues under e: see plumbline status"
	s.posts("e failure not YAML", "d failure superseded by e: not YAML", "c"+goes, "b"+goes)
	broken.Ended = map[string]Word{"c": {State: Success, Description: "each node matches"}}
	s.with(broken)
	s.posts("c success each node matches", "b success each node matches")
}

// TestAWaitingCommitIsTakenBack: one that waited, for example for the end of a freeze, has not succeeded, although none
// of it was applied; a later one that changed nothing of what is reverted has.
func TestAWaitingCommitIsTakenBack(t *testing.T) {
	s := newScript(t)
	in := func(u Update, e, f string) Update {
		u.Now = func(name string) string { return map[string]string{"NodePool/e": e, "NodePool/f": f}[name] }
		for name, live := range map[string]string{"NodePool/e": "1", "NodePool/f": "1"} {
			if u.Now(name) != live {
				u.Before = append(u.Before, Definition{Name: name, Digest: live})
			}
		}
		slices.SortFunc(u.Before, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
		return u
	}
	s.with(in(told("a", Success, "applied", "1", ""), "1", "1"))
	s.with(in(told("b", Pending, "waits: frozen", "2", "1", "b"), "2", "1"))
	s.with(in(told("c", Pending, "waits: frozen", "3", "1", "c"), "2", "1"))
	s.with(in(told("d", Pending, "waits: frozen", "4", "1", "d"), "3", "2"))
	s.deliver()
	s.with(in(told("e", Success, "applied", "5", "1", "e"), "1", "1"))
	const why = " failure reverted by e: NodePool/e is again as it was before"
	s.posts("e success applied", "d"+why, "c success superseded by e: applied", "b"+why)
}

// TestWaitingCommits: a commit that the rings make wait is pending with what it waits for, posted once for each message.
// Once this cluster takes it, or a newer one, it gets that result.
func TestWaitingCommits(t *testing.T) {
	s := newScript(t)
	waits := func(head string, state State, text string, commits []string, waiting ...Waiting) {
		s.with(Update{Context: "plumbline/prod/x", Head: head, State: state, Description: text, Commits: commits, Waits: waiting})
	}
	waits("a", Success, "applied", nil)
	s.posts("a success applied")
	waits("a", Success, "applied", nil, Waiting{"b", "waits for ring canary"})
	s.posts("b pending waits for ring canary")
	waits("a", Success, "applied", nil, Waiting{"c", "waits for ring canary"}, Waiting{"b", "soaks in ring canary"})
	s.posts("c pending waits for ring canary", "b pending soaks in ring canary")
	waits("a", Success, "applied", nil, Waiting{"c", "waits for ring canary"}, Waiting{"b", "soaks in ring canary"})
	s.posts()
	waits("b", Pending, "rolling out", []string{"b"}, Waiting{"c", "waits for ring canary"})
	s.posts("b pending rolling out")
	waits("b", Success, "applied", []string{"b"}, Waiting{"c", "waits for ring canary"}, Waiting{"d", "waits for ring canary"})
	s.posts("d pending waits for ring canary", "b success applied")
	waits("d", Success, "applied", []string{"d"})
	s.posts("d success applied", "c success superseded by d: applied")
}
