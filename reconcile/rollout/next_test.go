package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

// at is a minute of the test.
func at(minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC))
}

func failed(name string, minute int) cluster.Join {
	return cluster.Join{NodeClaim: name, Created: at(minute), ProviderID: "aws:///a/i-" + name, Failed: "its instance was terminated before its node registered"}
}

func waiting(name string, minute int, registered bool) cluster.Join {
	return cluster.Join{NodeClaim: name, Created: at(minute), ProviderID: "aws:///a/i-" + name, Registered: registered}
}

// TestNext runs a series of looks at the one pool of a rollout; each returns the launches that count as failed, and
// "braked" with the minute since when.
func TestNext(t *testing.T) {
	type look struct {
		minute  int
		pool    rollout.BrakePool
		resumed string
		gone    bool
		want    string
		// drift, held, frozen and unasked are those of BrakeSeen.
		drift, held, frozen string
		unasked             bool
	}
	pool := func(definition string, launches ...cluster.Join) rollout.BrakePool {
		return rollout.BrakePool{Name: "general", Definition: definition, Launches: launches}
	}
	joined := func(p rollout.BrakePool, minute int) rollout.BrakePool {
		p.Joined = at(minute)
		return p
	}
	edited := func(p rollout.BrakePool) rollout.BrakePool {
		p.Edited = true
		return p
	}
	reverted := func(p rollout.BrakePool) rollout.BrakePool {
		p.Reverted = true
		return p
	}
	unhealthy := func(p rollout.BrakePool) rollout.BrakePool {
		p.Unhealthy = true
		return p
	}
	unexpected := v1alpha1.RolloutPolicy{UnexpectedDrift: v1alpha1.RolloutBrake}
	a, b, c, d := failed("a", 1), failed("b", 2), failed("c", 3), failed("d", 4)
	cases := map[string]struct {
		policy v1alpha1.RolloutPolicy
		looks  []look
	}{
		"three in a row": {looks: []look{
			{minute: 1, pool: pool("1", a), want: "a"},
			{minute: 2, pool: pool("1", a, b), want: "a b"},
			{minute: 3, pool: pool("1", a, b, c), want: "a b c braked 3"},
			{minute: 4, pool: pool("1", a, b, c, d), want: "a b c braked 3"},
		}},
		"a restart forgets none that was noted": {looks: []look{{minute: 2, pool: pool("1", a, b), want: "a b"}, {minute: 3, pool: pool("1"), want: "a b"}, {minute: 4, pool: pool("1", c), want: "a b c braked 4"}}},
		"one that joins in between":             {looks: []look{{minute: 2, pool: pool("1", a, b), want: "a b"}, {minute: 4, pool: joined(pool("1", d), 3), want: "d"}}},
		"one that joins later releases nothing": {looks: []look{{minute: 3, pool: pool("1", a, b, c), want: "a b c braked 3"}, {minute: 5, pool: joined(pool("1"), 4), want: "a b c braked 3"}}},
		"of before the rollout":                 {looks: []look{{minute: 3, pool: pool("1", failed("x", -9), a, b), want: "a b"}}},
		"one, where one is too many":            {policy: v1alpha1.RolloutPolicy{FailedLaunches: 1}, looks: []look{{minute: 1, pool: pool("1", a), want: "a braked 1"}}},
		"reported":                              {policy: v1alpha1.RolloutPolicy{OnFailure: v1alpha1.RolloutReport}, looks: []look{{minute: 3, pool: pool("1", a, b, c), want: "a b c failing"}, {minute: 5, pool: joined(pool("1"), 4)}}},
		"another definition":                    {looks: []look{{minute: 3, pool: pool("1", a, b, c), want: "a b c braked 3"}, {minute: 5, pool: pool("2", a, b, c)}, {minute: 6, pool: pool("2", a, b, c, failed("e", 6)), want: "e"}}},
		"edited by another client": {looks: []look{
			{minute: 3, pool: pool("1", a, b, c), want: "a b c braked 3"},
			{minute: 5, pool: edited(pool("2", a, b, c)), want: "a b c braked 3"},
			{minute: 6, pool: pool("1", a, b, c), want: "a b c braked 3"},
			{minute: 7, pool: pool("3", a, b, c)},
		}},
		"nothing is outdated any more": {looks: []look{{minute: 3, pool: pool("1", a, b, c), want: "a b c braked 3"}, {minute: 5, pool: pool("1"), gone: true}}},
		"resumed": {looks: []look{
			{minute: 3, pool: pool("1", a, b, c), want: "a b c braked 3"},
			{minute: 5, pool: pool("1", a, b, c), resumed: "2026-03-01T12:03:00Z", want: "resumed 5"},
			{minute: 8, pool: pool("1", failed("e", 6), failed("f", 7), failed("g", 8)), resumed: "2026-03-01T12:03:00Z", want: "e f g braked 8 resumed 5"},
		}},
		"resumed by the time of another stop": {looks: []look{{minute: 3, pool: pool("1", a, b, c), want: "a b c braked 3"}, {minute: 5, pool: pool("1", a, b, c), resumed: "2026-03-01T12:02:00Z", want: "a b c braked 3"}}},
		"pending ones are waited for":         {looks: []look{{minute: 14, pool: pool("1", waiting("a", 1, false), waiting("b", 2, false), waiting("c", 3, false))}}},
		"unless Karpenter says it of the pool": {looks: []look{
			{minute: 7, pool: unhealthy(pool("1", waiting("a", 1, false), waiting("b", 2, false), waiting("c", 3, false))), want: "a b wake 8"},
			{minute: 8, pool: unhealthy(pool("1", waiting("a", 1, false), waiting("b", 2, false), waiting("c", 3, false))), want: "a b c braked 8"},
		}},
		"drift by no commit is reported":                {looks: []look{{minute: 1, pool: pool("1"), drift: "AMIDrift"}}},
		"drift by no commit stops":                      {policy: unexpected, looks: []look{{minute: 1, pool: pool("1"), drift: "AMIDrift", want: "braked 1"}, {minute: 2, pool: pool("1"), drift: "AMIDrift", want: "braked 1"}, {minute: 3, pool: pool("2")}}},
		"drift by no commit is resumed":                 {policy: unexpected, looks: []look{{minute: 1, pool: pool("1"), drift: "AMIDrift", want: "braked 1"}, {minute: 2, pool: pool("1"), resumed: "2026-03-01T12:01:00Z", drift: "AMIDrift", want: "resumed 2"}, {minute: 3, pool: pool("1"), drift: "AMIDrift", want: "resumed 2"}}},
		"a condition, until it is over":                 {looks: []look{{minute: 1, pool: pool("1"), held: "errors", want: "braked 1"}, {minute: 2, pool: pool("1"), held: "errors", want: "braked 1"}, {minute: 3, pool: pool("1")}}},
		"a condition, and a restart":                    {looks: []look{{minute: 1, pool: pool("1"), held: "errors", want: "braked 1"}, {minute: 2, pool: pool("1"), unasked: true, want: "braked 1"}, {minute: 3, pool: pool("1")}}},
		"a condition nobody has asked":                  {looks: []look{{minute: 1, pool: pool("1"), unasked: true}}},
		"a condition is over, launches fail":            {looks: []look{{minute: 1, pool: pool("1"), held: "errors", want: "braked 1"}, {minute: 3, pool: pool("1", a, b, c), held: "errors", want: "a b c braked 1"}, {minute: 4, pool: pool("1", a, b, c), want: "a b c braked 1"}}},
		"a condition though failures are only reported": {policy: v1alpha1.RolloutPolicy{OnFailure: v1alpha1.RolloutReport}, looks: []look{{minute: 1, pool: pool("1"), held: "errors", want: "braked 1"}}},
		"a freeze, until it is over":                    {looks: []look{{minute: 1, pool: pool("1"), frozen: "audit", want: "braked 1"}, {minute: 2, pool: pool("1"), frozen: "audit", want: "braked 1"}, {minute: 3, pool: pool("1")}}},
		"a freeze, and a commit that touches it":        {looks: []look{{minute: 1, pool: pool("1"), frozen: "audit", want: "braked 1"}, {minute: 2, pool: pool("2"), frozen: "audit", want: "braked 2"}}},
		"a freeze, and a revert, until it is over": {looks: []look{
			{minute: 1, pool: pool("1"), frozen: "audit", want: "braked 1"},
			{minute: 2, pool: reverted(pool("2")), frozen: "audit", want: "despite"},
			{minute: 3, pool: pool("2"), frozen: "audit", want: "despite"},
			{minute: 4, pool: pool("2")},
			{minute: 5, pool: pool("2"), frozen: "audit", want: "braked 5"},
		}},
		"a freeze, a revert, and another change": {looks: []look{
			{minute: 1, pool: pool("1"), frozen: "audit", want: "braked 1"},
			{minute: 2, pool: reverted(pool("1")), frozen: "audit", want: "despite"}, // the cache does not have it yet
			{minute: 3, pool: reverted(pool("2")), frozen: "audit", want: "despite"},
			{minute: 4, pool: pool("2"), frozen: "audit", want: "despite"},
			{minute: 5, pool: pool("3"), frozen: "audit", want: "braked 5"},
			{minute: 6, pool: reverted(pool("2")), frozen: "audit", want: "despite"},
		}},
		"a freeze, a person resumes it, and it is changed": {looks: []look{
			{minute: 1, pool: pool("1"), frozen: "audit", want: "braked 1"},
			{minute: 2, pool: pool("1"), frozen: "audit", resumed: "2026-03-01T12:01:00Z", want: "resumed 2 despite"},
			{minute: 3, pool: pool("2"), frozen: "audit", resumed: "2026-03-01T12:01:00Z", want: "braked 3"},
		}},
		"a freeze, a person resumes it, and it is reverted and changed": {looks: []look{
			{minute: 1, pool: pool("1"), frozen: "audit", want: "braked 1"},
			{minute: 2, pool: pool("1"), frozen: "audit", resumed: "2026-03-01T12:01:00Z", want: "resumed 2 despite"},
			{minute: 3, pool: reverted(pool("1")), frozen: "audit", want: "resumed 2 despite"},
			{minute: 4, pool: reverted(pool("2")), frozen: "audit", want: "despite"},
			{minute: 5, pool: pool("3"), frozen: "audit", want: "braked 5"},
		}},
		"a freeze, and a person resumes it": {looks: []look{
			{minute: 1, pool: pool("1"), frozen: "audit", want: "braked 1"},
			{minute: 2, pool: pool("1"), frozen: "audit", resumed: "2026-03-01T12:01:00Z", want: "resumed 2 despite"},
			{minute: 3, pool: pool("1"), frozen: "audit", want: "resumed 2 despite"},
			{minute: 4, pool: pool("1"), want: "resumed 2"},
			{minute: 5, pool: pool("1"), frozen: "the next", want: "braked 5 resumed 2"},
		}},
		"a freeze, and launches fail": {looks: []look{{minute: 1, pool: pool("1"), frozen: "audit", want: "braked 1"}, {minute: 3, pool: pool("1", a, b, c), frozen: "audit", want: "a b c braked 1"}, {minute: 4, pool: pool("1", a, b, c), want: "a b c braked 1"}}},
		"a freeze though failures are only reported": {policy: v1alpha1.RolloutPolicy{OnFailure: v1alpha1.RolloutReport}, looks: []look{
			{minute: 3, pool: pool("1", a, b, c), frozen: "audit", want: "a b c braked 3"},
			{minute: 4, pool: pool("1", a, b, c), want: "a b c failing"},
		}},
		"registered and not initialized": {looks: []look{
			{minute: 17, pool: pool("1", waiting("a", 1, true), waiting("b", 2, true), waiting("c", 3, true)), want: "a b wake 18"},
			{minute: 18, pool: pool("1", waiting("a", 1, true), waiting("b", 2, true), waiting("c", 3, true)), want: "a b c braked 18"},
		}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			var entries []v1alpha1.PoolRollout
			for i, l := range test.looks {
				seen := rollout.BrakeSeen{Policy: test.policy, Since: at(0), Now: at(l.minute).Time, Resume: map[string]string{"general": l.resumed}}
				l.pool.Uncommitted = l.drift
				seen.Held, seen.Frozen, seen.Unasked = l.held, l.frozen, l.unasked
				if !l.gone {
					seen.Pools = []rollout.BrakePool{l.pool}
				}
				before := append([]v1alpha1.PoolRollout(nil), entries...)
				var wake time.Time
				entries, wake = rollout.Next(entries, seen)
				if diff := cmp.Diff(l.want, outcome(entries, wake)); diff != "" {
					t.Errorf("look %d (-want +got):\n%s\nfrom %+v", i+1, diff, before)
				}
			}
		})
	}
}

func outcome(entries []v1alpha1.PoolRollout, wake time.Time) string {
	var words []string
	minute := func(word string, at metav1.Time) { words = append(words, word, at.Format("4")) }
	for _, e := range entries {
		for _, f := range e.Failed {
			words = append(words, f.NodeClaim)
		}
		switch {
		case e.BrakedAt != nil:
			minute("braked", *e.BrakedAt)
		case e.Reason != "":
			words = append(words, "failing")
		}
		if e.ResumedAt != nil {
			minute("resumed", *e.ResumedAt)
		}
		if e.DespiteFreeze {
			words = append(words, "despite")
		}
	}
	if !wake.IsZero() {
		minute("wake", metav1.NewTime(wake))
	}
	return strings.Join(words, " ")
}

// TestNextKeepsWhatHasFailed shows that the revision that fails a pool, and the one applied before it, are those of the
// rollout in which its launches started to count. If a correction fails too, the revert restores the state before both.
func TestNextKeepsWhatHasFailed(t *testing.T) {
	fails := []cluster.Join{failed("a", 1), failed("b", 2), failed("c", 3)}
	look := func(before []v1alpha1.PoolRollout, minute int, from, revision, definition, resumed string, launches ...cluster.Join) []v1alpha1.PoolRollout {
		next, _ := rollout.Next(before, rollout.BrakeSeen{
			Pools: []rollout.BrakePool{{Name: "general", Definition: definition, Launches: launches, From: from, Revision: revision}}, Since: at(0),
			Resume: map[string]string{"general": resumed}, Now: at(minute).Time,
		})
		return next
	}
	stopped := look(nil, 3, "r0", "r1", "1", "", fails...)
	proposed := look(nil, 3, "r0", "r1", "1", "", fails...)
	proposed[0].Proposal = &v1alpha1.RevertProposal{URL: "https://git.example.com/1"}
	healthy := look(nil, 1, "r0", "r1", "1", "")
	for name, c := range map[string]struct {
		got  []v1alpha1.PoolRollout
		want string
	}{
		"stopped":                      {stopped, "r0..r1"},
		"an unrelated commit":          {look(proposed, 4, "r1", "r2", "1", "", fails...), "r0..r1 https://git.example.com/1"},
		"a correction of what fails":   {look(proposed, 4, "r1", "r2", "2", ""), "r0..r2"},
		"another one of what does not": {look(healthy, 4, "r1", "r2", "2", ""), "r1..r2"},
		"resumed":                      {look(proposed, 4, "r1", "r2", "1", "2026-03-01T12:03:00Z"), "r0..r1"},
	} {
		got := c.got[0].From + ".." + c.got[0].Revision
		if p := c.got[0].Proposal; p != nil {
			got += " " + p.URL
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestWordsNameThePullRequest shows that the text names the pull request that reverts what has failed, or why there is
// none.
func TestWordsNameThePullRequest(t *testing.T) {
	stopped := at(3)
	of := func(p *v1alpha1.RevertProposal) v1alpha1.PoolRollout {
		return v1alpha1.PoolRollout{Pool: "a", Reason: v1alpha1.BrakeFailedLaunches, Message: "fails", BrakedAt: &stopped, Proposal: p}
	}
	open := of(&v1alpha1.RevertProposal{URL: "https://git.example.com/1"})
	for name, c := range map[string]struct {
		pools []v1alpha1.PoolRollout
		want  string
	}{
		"open":     {[]v1alpha1.PoolRollout{open}, "merge https://git.example.com/1, or correct the definition, or run plumbline resume-rollout"},
		"of two":   {[]v1alpha1.PoolRollout{open, open}, "merge https://git.example.com/1, or correct the definition, or run plumbline resume-rollout"},
		"closed":   {[]v1alpha1.PoolRollout{of(&v1alpha1.RevertProposal{URL: "https://git.example.com/1", Closed: true})}, "revert or correct the definition, or run plumbline resume-rollout"},
		"none yet": {[]v1alpha1.PoolRollout{of(nil)}, "revert or correct the definition, or run plumbline resume-rollout"},
		"refused":  {[]v1alpha1.PoolRollout{of(&v1alpha1.RevertProposal{Message: "403"})}, "revert or correct the definition, or run plumbline resume-rollout; plumbline has opened no pull request: 403"},
	} {
		if got := rollout.BrakeWords(c.pools); !strings.HasSuffix(got, ": fails; "+c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWords shows that the text has the pool, the number, the cause and what resumes it.
func TestWords(t *testing.T) {
	entries, _ := rollout.Next(nil, rollout.BrakeSeen{Pools: []rollout.BrakePool{{Name: "general", Launches: []cluster.Join{failed("a", 1), failed("b", 2), failed("c", 3)}}}, Since: at(0), Now: at(3).Time})
	want := "stopped in NodePool/general: the nodes of 3 launches in a row have not joined the cluster, the last: NodeClaim/c: its instance was terminated before its node registered; " +
		"revert or correct the definition, or run plumbline resume-rollout"
	if diff := cmp.Diff(want, rollout.BrakeWords(entries)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	uninitialized := []cluster.Join{waiting("a", 1, true), waiting("b", 2, true), waiting("c", 3, true)}
	entries, _ = rollout.Next(nil, rollout.BrakeSeen{Pools: []rollout.BrakePool{{Name: "general", Launches: uninitialized}}, Since: at(0), Now: at(18).Time})
	if words := rollout.BrakeWords(entries); !strings.Contains(words, "the last: NodeClaim/c: its node registered, but is not initialized 15m after its launch began; ") {
		t.Errorf("not initialized: %q", words)
	}
	if words := rollout.BrakeWords([]v1alpha1.PoolRollout{{Pool: "general"}}); words != "" {
		t.Errorf("all is well, and it says %q", words)
	}
}
