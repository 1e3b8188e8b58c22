package propose

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

const page = "https://git.example.com/acme/fleet/pulls/7"

// world is a Git host and what is asked of it.
type world struct {
	mu sync.Mutex
	// there is the pull request that the host has.
	there *report.Proposed
	// calls are in order: find, push and open.
	calls []string
	// pushing, finding and opening fail with these, and reverted is what was pushed.
	pushing, finding, opening, lease error
	reverted                         source.Reverted
	pushed                           source.Revert
	opened                           report.Proposal
	// stuck holds each push up until it is closed.
	stuck chan struct{}
	asker Asker
	sync  *v1alpha1.NodeSync
	now   time.Time
}

func newWorld() *world {
	return &world{
		sync: syncOf(nil), now: at(10).Time,
		reverted: source.Reverted{Commit: "c0ffee", Head: "beef", Files: []string{"fleet/a.yaml"}, Undone: []source.Undone{{Commit: strings.Repeat("2", 40), Subject: "bad `AMI` @everyone"}}},
	}
}

func (w *world) note(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.calls, " ")
}

func (w *world) Proposer(provider, repository string, secret map[string][]byte) (report.Proposer, error) {
	if provider != "gitea" || repository != "https://git.example.com/acme/fleet.git" || string(secret["token"]) != "t" {
		return nil, fmt.Errorf("opened %s at %s with %v", provider, repository, secret)
	}
	return w, nil
}

func (w *world) Proposed(_ context.Context, branch, base string) (*report.Proposed, error) {
	w.note("find")
	if branch != "plumbline/revert-prod_prod.eu-22222222" || base != "main" {
		return nil, fmt.Errorf("looked for %s into %s", branch, base)
	}
	return w.there, w.finding
}

func (w *world) Propose(_ context.Context, p report.Proposal) (*report.Proposed, error) {
	w.note("open")
	if w.opening != nil {
		return nil, w.opening
	}
	w.opened, w.there = p, &report.Proposed{URL: page, State: report.ProposedOpen, Head: w.reverted.Commit}
	return w.there, nil
}

func (w *world) revert(_ context.Context, r source.Revert) (source.Reverted, error) {
	w.note("push")
	if w.stuck != nil {
		<-w.stuck
	}
	w.pushed = r
	return w.reverted, w.pushing
}

// look is one pass; recorded is what the one before has left in the status.
func (w *world) look(t *testing.T, recorded v1alpha1.PoolRollout) (v1alpha1.PoolRollout, finding.Findings) {
	t.Helper()
	var found finding.Findings
	pools := w.asker.See(t.Context(), Look{
		Tools: Tools{
			Revert: func() func(context.Context, source.Revert) (source.Reverted, error) { return w.revert }, Hosts: w,
			Secret: func(_ context.Context, name string) (*corev1.Secret, error) {
				return &corev1.Secret{Data: map[string][]byte{"token": []byte("t")}}, map[bool]error{true: nil, false: errors.New("no such secret")}[name == "host"]
			},
			Grants: grant.Policy{Unannotated: true}, StillLeader: func(context.Context) error { return w.lease },
		},
		Sync: w.sync, Recorded: []v1alpha1.PoolRollout{*recorded.DeepCopy()}, Pools: []v1alpha1.PoolRollout{*recorded.DeepCopy()}, Cluster: "prod", Now: w.now,
	}, &found)
	return pools[0], found
}

// settle looks until nothing is asked, and returns the last look.
func (w *world) settle(t *testing.T, recorded v1alpha1.PoolRollout) (v1alpha1.PoolRollout, finding.Findings) {
	t.Helper()
	w.look(t, recorded)
	deadline := time.After(time.Minute)
	for w.asks() {
		select {
		case <-deadline:
			t.Fatal("it is asked for ever")
		default:
			runtime.Gosched()
		}
	}
	return w.look(t, recorded)
}

// asks says that something is being asked.
func (w *world) asks() bool {
	w.asker.mu.Lock()
	defer w.asker.mu.Unlock()
	for _, s := range w.asker.known {
		if s.asking {
			return true
		}
	}
	return false
}

func events(f finding.Findings) string {
	var all []string
	for _, e := range f.Notes {
		all = append(all, e.Reason+": "+e.Message)
	}
	return strings.Join(all, "; ")
}

// TestAPullRequestIsOpened once, by another daemon neither: that finds it.
func TestAPullRequestIsOpened(t *testing.T) {
	w := newWorld()
	e, found := w.settle(t, braked("general", 3))
	if e.Proposal == nil || e.Proposal.URL != page || e.Proposal.Branch != "plumbline/revert-prod_prod.eu-22222222" || e.Proposal.Message != "" {
		t.Fatalf("proposal %+v after %s", e.Proposal, w.said())
	}
	if want := "RevertProposed: NodePool/general: " + page + " takes back what has failed: merge it, or correct the definition"; events(found) != want {
		t.Errorf("events %q, want %q", events(found), want)
	}
	if w.pushed.From != strings.Repeat("1", 40) || w.pushed.Bad != strings.Repeat("2", 40) || !w.pushed.At.Equal(at(3).Time) {
		t.Errorf("pushed %+v", w.pushed)
	}
	w.asker = Asker{} // a restart
	if e, found := w.settle(t, e); e.Proposal == nil || e.Proposal.URL != page || events(found) != "" || w.said() != "find push open find" {
		t.Errorf("after a restart: %+v, events %q, calls %s", e.Proposal, events(found), w.said())
	}
}

// TestTheStatusWasLost: the pull request is found by its branch, whatever became of it.
func TestTheStatusWasLost(t *testing.T) {
	for state, says := range map[report.ProposedState]string{
		report.ProposedOpen: "RevertProposed", report.ProposedMerged: "RevertProposed", report.ProposedClosed: "RevertNotProposed: NodePool/general: the pull request that takes back what has failed was closed, and is not opened again: " + page,
	} {
		w := newWorld()
		w.there = &report.Proposed{URL: page, State: state}
		calls := map[bool]string{true: "find push", false: "find"}[state == report.ProposedOpen]
		e, found := w.settle(t, braked("general", 3))
		if e.Proposal == nil || e.Proposal.URL != page || e.Proposal.Closed != (state == report.ProposedClosed) || e.Proposal.Merged != (state == report.ProposedMerged) || w.said() != calls || !strings.HasPrefix(events(found), says) {
			t.Errorf("%s: %+v, calls %s, events %q", state, e.Proposal, w.said(), events(found))
		}
	}
}

// TestAPullRequestOfSomebodyElse: an open one with another commit is not called plumbline's.
func TestAPullRequestOfSomebodyElse(t *testing.T) {
	w := newWorld()
	w.there, w.pushing = &report.Proposed{URL: page, State: report.ProposedOpen}, &source.BranchError{URL: "https://git.example.com/acme/fleet", Branch: "b"}
	e, found := w.settle(t, braked("general", 3))
	if e.Proposal == nil || e.Proposal.URL != "" || !strings.Contains(e.Proposal.Message, page+" is open and does not have the commit that plumbline would make") || !strings.HasPrefix(events(found), "RevertNotProposed") {
		t.Errorf("%+v, calls %s, events %q", e.Proposal, w.said(), events(found))
	}
}

// TestItIsTriedAgain: later after each failure, and at once when the NodeSync is another one. What
// fails is reported once.
func TestItIsTriedAgain(t *testing.T) {
	w := newWorld()
	w.pushing = &source.PushError{URL: "https://git.example.com/acme/fleet.git", Branch: "b", Denied: true, Err: errors.New("403")}
	e, found := w.settle(t, braked("general", 3))
	if e.Proposal == nil || e.Proposal.URL != "" || !strings.Contains(e.Proposal.Message, "let the secret that source.git.secretRef names push branches") || !strings.HasPrefix(events(found), "RevertNotProposed") {
		t.Fatalf("proposal %+v, events %q", e.Proposal, events(found))
	}
	pushes := func() int { return strings.Count(w.said(), "push") }
	for i, wait := range []time.Duration{first, 2 * first, 4 * first} {
		w.now = w.now.Add(wait - time.Second)
		if _, found := w.settle(t, e); pushes() != i+1 || events(found) != "" || !found.WakeAt.Equal(w.now.Add(time.Second)) {
			t.Errorf("a second before %s: %d pushes, events %q, next %s", wait, pushes(), events(found), found.WakeAt)
		}
		w.now = w.now.Add(time.Second)
		if w.settle(t, e); pushes() != i+2 {
			t.Errorf("after %s: %d pushes", wait, pushes())
		}
	}
	w.pushing = nil
	w.sync.Generation++
	if e, found := w.settle(t, e); e.Proposal.URL != page || !strings.HasPrefix(events(found), "RevertProposed") {
		t.Errorf("another generation: %+v", e.Proposal)
	}
}

// TestWhatFailsIsSaid, whichever step it is.
func TestWhatFailsIsSaid(t *testing.T) {
	cases := map[string]struct {
		change func(*world)
		says   string
		calls  string
	}{
		"the host cannot be asked": {func(w *world) { w.finding = &report.UnavailableError{Host: "git.example.com", Code: 500} }, "the host answers with code 500", "find"},
		"the lease is lost":        {func(w *world) { w.lease = errors.New("no longer the leader") }, "no longer the leader", "find"},
		"the token may not":        {func(w *world) { w.opening = &report.UnauthorizedError{Host: "git.example.com"} }, "the host refuses the token", "find push open"},
		"no such secret":           {func(w *world) { w.sync.Spec.Report[1].SecretRef.Name = "gone" }, "read secret gone, which spec.report names: no such secret", ""},
		"nothing is left":          {func(w *world) { w.reverted = source.Reverted{} }, "in main nothing is left to take back", "find push"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			e, _ := w.settle(t, braked("general", 3))
			if e.Proposal == nil || e.Proposal.URL != "" || !strings.Contains(e.Proposal.Message, c.says) || w.said() != c.calls {
				t.Errorf("proposal %+v, calls %q", e.Proposal, w.said())
			}
		})
	}
}

// TestALimitIsKept: a host that limits callers is not asked before it says so.
func TestALimitIsKept(t *testing.T) {
	w := newWorld()
	w.finding = &report.RateLimitedError{Host: "git.example.com", RetryAfter: time.Hour}
	_, found := w.settle(t, braked("general", 3))
	if !found.WakeAt.Equal(w.now.Add(time.Hour)) {
		t.Errorf("next %s", found.WakeAt)
	}
}

// TestNoPassWaits for a host that does not answer; a pass comes soon to look.
func TestNoPassWaits(t *testing.T) {
	w := newWorld()
	w.stuck = make(chan struct{})
	e, found := w.look(t, braked("general", 3))
	if e.Proposal != nil || !found.WakeAt.Equal(w.now.Add(soon)) {
		t.Errorf("proposal %+v, next %s", e.Proposal, found.WakeAt)
	}
	close(w.stuck)
	if e, _ := w.settle(t, braked("general", 3)); e.Proposal == nil || e.Proposal.URL != page || w.said() != "find push open" {
		t.Errorf("proposal %+v, calls %s", e.Proposal, w.said())
	}
}

// TestAMessageGoes with the stop that it is of; a pull request stays while the definition does.
func TestAMessageGoes(t *testing.T) {
	w := newWorld()
	resumed := braked("general", 3)
	resumed.BrakedAt, resumed.Proposal = nil, &v1alpha1.RevertProposal{Message: "403"}
	if e, _ := w.settle(t, resumed); e.Proposal != nil {
		t.Errorf("a message stays: %+v", e.Proposal)
	}
	resumed.Proposal = &v1alpha1.RevertProposal{URL: page}
	if e, _ := w.settle(t, resumed); e.Proposal == nil || w.said() != "" {
		t.Errorf("a pull request goes: %+v, calls %s", e.Proposal, w.said())
	}
}
