package nodes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// saying is a rollout in short.
func saying(r *v1alpha1.Rollout) string {
	if r == nil {
		return "none"
	}
	settles := ""
	if r.SettlesAt != nil {
		settles = fmt.Sprint(" settles ", r.SettlesAt.Unix())
	}
	return fmt.Sprintf("%s since %d: %s%s", r.Revision, r.Since.Unix(), nodes.RolloutWords(*r), settles)
}

func outdated(reason string, names ...string) []plan.Outdated {
	var found []plan.Outdated
	for _, name := range names {
		name, deleting := strings.CutSuffix(name, "-")
		found = append(found, plan.Outdated{Claim: &plan.NodeClaim{Name: name, UID: types.UID(name), Pool: "general", Deleting: deleting}, Reason: reason})
	}
	return found
}

func outdating(upTo bool, names ...string) nodes.Outdating {
	o := nodes.Outdating{Claims: map[types.UID]bool{}, UpTo: upTo, Committed: true}
	for _, name := range names {
		o.Claims[types.UID(name)] = true
	}
	return o
}

// TestRoll tells rollouts from their first pass to the last.
func TestRoll(t *testing.T) {
	const drift = "NodePoolDrifted"
	type seen struct {
		at       int64
		revision string
		changes  nodes.Outdating
		outdated []plan.Outdated
		excess   int
		unsure   bool
		// unresolved are classes whose AMIs Karpenter has yet to look for.
		unresolved []string
		// unknown are NodeClaims without a hash.
		unknown []string
		want    string
	}
	for name, passes := range map[string][]seen{
		"a commit outdates three nodes": {
			{at: 1, revision: "a", want: "none"},
			{at: 2, revision: "b", changes: outdating(false, "1", "2", "3"), want: "b since 2: 0 of 3 nodes replaced"},
			{at: 3, revision: "b", outdated: outdated(drift, "1-", "2", "3"), want: "b since 2: 0 of 3 nodes replaced (NodePoolDrifted), 1 draining"},
			{at: 4, revision: "b", outdated: outdated(drift, "2-", "3"), want: "b since 2: 1 of 3 nodes replaced (NodePoolDrifted), 1 draining"},
			{at: 5, revision: "b", want: "none"},
		},
		"another commit in the middle of it": {
			{at: 1, revision: "a", changes: outdating(false, "1", "2", "3"), want: "a since 1: 0 of 3 nodes replaced"},
			{at: 2, revision: "a", outdated: outdated(drift, "2", "3"), want: "a since 1: 1 of 3 nodes replaced (NodePoolDrifted)"},
			{at: 3, revision: "b", changes: outdating(false, "3", "4"), outdated: outdated(drift, "2", "3"), want: "b since 3: 0 of 3 nodes replaced (NodePoolDrifted)"},
		},
		"another commit that touches no node": {
			{at: 1, revision: "a", changes: outdating(false, "1", "2"), want: "a since 1: 0 of 2 nodes replaced"},
			{at: 2, revision: "b", outdated: outdated(drift, "2"), want: "a since 1: 1 of 2 nodes replaced (NodePoolDrifted)"},
		},
		"AWS decides which": {
			{at: 1, revision: "a", changes: outdating(true), want: "a since 1: no node is known to be outdated yet settles 361"},
			{at: 2, revision: "a", want: "a since 1: no node is known to be outdated yet settles 361"},
			{at: 9, revision: "a", outdated: outdated("AMIDrift", "1", "2"), want: "a since 1: 0 of 2 nodes replaced (AMIDrift) settles 361"},
			{at: 60, revision: "a", want: "a since 1: 2 of 2 nodes replaced settles 361"},
			{at: 361, revision: "a", want: "none"},
		},
		"another commit while AWS decides": {
			{at: 1, revision: "a", changes: outdating(true), want: "a since 1: no node is known to be outdated yet settles 361"},
			{at: 100, revision: "b", changes: outdating(false, "1"), want: "b since 100: 0 of 1 nodes replaced settles 361"},
			{at: 200, revision: "b", want: "b since 100: 1 of 1 nodes replaced settles 361"},
			{at: 300, revision: "b", outdated: outdated("SubnetDrift", "2"), want: "b since 100: 0 of 1 nodes replaced (SubnetDrift) settles 361"},
			{at: 361, revision: "b", want: "none"},
		},
		"another commit, on which AWS decides, too": {
			{at: 1, revision: "a", changes: outdating(true), want: "a since 1: no node is known to be outdated yet settles 361"},
			{at: 100, revision: "b", changes: outdating(true), want: "b since 100: no node is known to be outdated yet settles 460"},
		},
		"another commit, of which Karpenter has not noted all": {
			{at: 1, revision: "a", changes: outdating(true), want: "a since 1: no node is known to be outdated yet settles 361"},
			{at: 100, revision: "b", changes: outdating(false, "1"), want: "b since 100: 0 of 1 nodes replaced settles 361"},
			{at: 101, revision: "b", unsure: true, want: "b since 100: 1 of 1 nodes replaced settles 461"},
			{at: 300, revision: "b", unsure: true, want: "b since 100: 1 of 1 nodes replaced settles 461"},
			{at: 461, revision: "b", unsure: true, want: "none"},
		},
		"another commit when AWS has decided": {
			{at: 1, revision: "a", changes: outdating(true, "1"), want: "a since 1: 0 of 1 nodes replaced settles 361"},
			{at: 400, revision: "b", changes: outdating(false, "1"), want: "b since 400: 0 of 1 nodes replaced"},
			{at: 401, revision: "b", want: "none"},
		},
		"Karpenter looks for the AMIs": {
			{at: 1, revision: "a", changes: nodes.Outdating{Images: true, Committed: true}, want: "a since 1: no node is known to be outdated yet"},
			{at: 2, revision: "a", unresolved: []string{"default"}, want: "a since 1: no node is known to be outdated yet"},
			{at: 3, revision: "a", outdated: outdated("AMIDrift", "1", "2"), want: "a since 1: 0 of 2 nodes replaced (AMIDrift)"},
			{at: 4, revision: "a", outdated: outdated("AMIDrift", "2"), unresolved: []string{"default"}, want: "a since 1: 0 of 2 nodes replaced (AMIDrift)"},
			{at: 5, revision: "a", unresolved: []string{"default"}, want: "a since 1: 0 of 2 nodes replaced"},
			{at: 6, revision: "a", want: "none"},
		},
		"nothing is known while it looks": {
			{at: 1, revision: "a", changes: outdating(false, "1", "2"), want: "a since 1: 0 of 2 nodes replaced"},
			{at: 2, revision: "a", unresolved: []string{"default"}, want: "a since 1: 0 of 2 nodes replaced"},
			{at: 3, revision: "a", outdated: outdated("AMIDrift", "2"), want: "a since 1: 1 of 2 nodes replaced (AMIDrift)"},
			{at: 4, revision: "a", want: "none"},
		},
		"it finds those that it had": {
			{at: 1, revision: "a", changes: nodes.Outdating{Images: true, Committed: true}, want: "a since 1: no node is known to be outdated yet"},
			{at: 2, revision: "a", want: "none"},
		},
		"what Karpenter has not noted yet": {
			{at: 1, revision: "a", changes: outdating(false, "1"), unsure: true, want: "a since 1: 0 of 1 nodes replaced settles 361"},
			{at: 2, revision: "a", unsure: true, want: "a since 1: 1 of 1 nodes replaced settles 361"},
			{at: 400, revision: "a", unsure: true, want: "none"},
		},
		"of one nothing is known until it is gone": {
			{at: 1, revision: "a", changes: outdating(false, "1", "2"), want: "a since 1: 0 of 2 nodes replaced"},
			{at: 400, revision: "a", unknown: []string{"2"}, want: "a since 1: 1 of 2 nodes replaced"},
			{at: 4000, revision: "a", unknown: []string{"2"}, want: "a since 1: 1 of 2 nodes replaced"},
			{at: 4001, revision: "a", want: "none"},
		},
		"without a hash, and no commit": {{at: 1, revision: "a", unknown: []string{"2"}, want: "none"}},
		"nodes that drift by no commit": {
			{at: 1, revision: "a", outdated: outdated("AMIDrift", "1"), want: " since 1: 0 of 1 nodes replaced (AMIDrift, by no commit of this NodeSync)"},
			{at: 2, revision: "a", outdated: outdated("AMIDrift", "1-", "2"), want: " since 1: 0 of 2 nodes replaced (AMIDrift, by no commit of this NodeSync), 1 draining"},
			{at: 3, revision: "a", want: "none"},
		},
		"a commit after nodes drifted by themselves": {
			{at: 1, revision: "a", outdated: outdated("AMIDrift", "1"), want: " since 1: 0 of 1 nodes replaced (AMIDrift, by no commit of this NodeSync)"},
			{at: 2, revision: "b", changes: outdating(false, "1", "2"), outdated: outdated("AMIDrift", "1"), want: "b since 2: 0 of 2 nodes replaced (AMIDrift)"},
		},
		"fewer replicas": {
			{at: 1, revision: "a", changes: nodes.Outdating{Unnamed: 2, Committed: true}, want: "a since 1: 0 of 2 nodes replaced"},
			{at: 2, revision: "a", excess: 1, want: "a since 1: 1 of 2 nodes replaced"},
			{at: 3, revision: "a", want: "none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r *v1alpha1.Rollout
			for _, pass := range passes {
				r = nodes.Roll(r, nodes.Seen{
					Changes: pass.changes, Matched: plan.Matched{Outdated: pass.outdated, Unsure: pass.unsure, Unresolved: pass.unresolved, Unknown: pass.unknown}, Excess: pass.excess,
					Revision: pass.revision, Now: time.Unix(pass.at, 0),
				})
				if diff := cmp.Diff(pass.want, saying(r)); diff != "" {
					t.Fatalf("at %d (-want +got):\n%s", pass.at, diff)
				}
			}
		})
	}
}

// TestARolloutKnowsWhatWasAppliedBefore, so that it can be taken back: of a commit that comes while AWS
// decides which nodes the one before has outdated, that is what the earlier one began from.
func TestARolloutKnowsWhatWasAppliedBefore(t *testing.T) {
	seen := func(at int64, revision, applied string, changes nodes.Outdating, names ...string) nodes.Seen {
		return nodes.Seen{Changes: changes, Matched: plan.Matched{Outdated: outdated("x", names...)}, Revision: revision, Applied: applied, Now: time.Unix(at, 0)}
	}
	for name, c := range map[string]struct {
		first nodes.Outdating
		from  string
	}{"known at once": {outdating(false, "1"), "b"}, "AWS decides": {outdating(true), "a"}} {
		first := nodes.Roll(nil, seen(1, "b", "a", c.first))
		if later := nodes.Roll(first, seen(2, "b", "b", nodes.Outdating{}, "1")); first.From != "a" || later.From != "a" {
			t.Errorf("%s: from %q, later %q", name, first.From, later.From)
		}
		if second := nodes.Roll(first, seen(3, "c", "b", outdating(false, "2"), "1")); second.Revision != "c" || second.From != c.from {
			t.Errorf("%s: another commit: %s from %q, want from %q", name, second.Revision, second.From, c.from)
		}
	}
	if drifts := nodes.Roll(nil, seen(1, "b", "a", nodes.Outdating{}, "1")); drifts.From != "" || drifts.Revision != "" {
		t.Errorf("by no commit: %+v", drifts)
	}
}

// TestProgressIsWhenNumbersChange, so that an idle rollout is never written.
func TestProgressIsWhenNumbersChange(t *testing.T) {
	look := func(at int64, names ...string) nodes.Seen {
		return nodes.Seen{Matched: plan.Matched{Outdated: outdated("AMIDrift", names...)}, Revision: "a", Now: time.Unix(at, 0)}
	}
	first := nodes.Roll(nil, look(1, "1", "2"))
	second := nodes.Roll(first, look(50, "1", "2"))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("nothing has changed:\n%s", diff)
	}
	if third := nodes.Roll(second, look(60, "1")); third.LastProgress.Unix() != 60 || second.LastProgress.Unix() != 1 {
		t.Errorf("progress: %v, then %v", second.LastProgress, third.LastProgress)
	}
}

// TestOutdatedByChanges: only what is written, and only nodes that are known by name.
func TestOutdatedByChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change plan.Change
		want   nodes.Outdating
	}{
		"held":          {plan.Change{Action: plan.Hold, Effect: plan.EffectReplace, Nodes: 3}, nodes.Outdating{Claims: map[types.UID]bool{}}},
		"no effect":     {plan.Change{Action: plan.Update, Effect: plan.EffectNone}, nodes.Outdating{Claims: map[types.UID]bool{}}},
		"wider budgets": {plan.Change{Action: plan.Update, Effect: plan.EffectReplace, Nodes: 3, UpTo: true}, nodes.Outdating{Claims: map[types.UID]bool{}, Committed: true}},
		"up to":         {plan.Change{Action: plan.Update, Effect: plan.EffectReplace, Nodes: 3, UpTo: true, DriftReasons: []string{"AMIDrift", "SubnetDrift"}}, nodes.Outdating{Claims: map[types.UID]bool{}, Unnamed: 0, UpTo: true, Committed: true}},
		"of other AMIs": {plan.Change{Action: plan.Update, Effect: plan.EffectReplace, Nodes: 3, UpTo: true, DriftReasons: []string{"AMIDrift", "NodeClassDrift"}}, nodes.Outdating{Claims: map[types.UID]bool{}, Images: true, Committed: true}},
		"drains":        {plan.Change{Action: plan.Update, Effect: plan.EffectDrain, Nodes: 3}, nodes.Outdating{Claims: map[types.UID]bool{}, Unnamed: 3, Committed: true}},
		"reverted":      {plan.Change{Action: plan.Update, Effect: plan.EffectDrain, Nodes: 3, Drift: true}, nodes.Outdating{Claims: map[types.UID]bool{}, Unnamed: 3}},
		"taken back":    {plan.Change{Action: plan.TakeBack, Effect: plan.EffectDrain, Nodes: 1}, nodes.Outdating{Claims: map[types.UID]bool{}, Unnamed: 1, Committed: true}},
	} {
		if diff := cmp.Diff(c.want, nodes.OutdatedBy([]plan.Change{c.change})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestARolloutRecordsWhatIsUnhashed: for as long as it goes on, and into the one of the next commit.
func TestARolloutRecordsWhatIsUnhashed(t *testing.T) {
	var r *v1alpha1.Rollout
	for i, unhashed := range [][]string{{"NodePool/b"}, nil, {"NodePool/a", "NodePool/b"}, nil} {
		changes := outdating(false, "1")
		changes.Unhashed = unhashed
		r = nodes.Roll(r, nodes.Seen{Changes: changes, Revision: []string{"a", "a", "b", "b"}[i], Now: time.Unix(int64(i), 0)})
		want := [][]string{{"NodePool/b"}, {"NodePool/b"}, {"NodePool/a", "NodePool/b"}, {"NodePool/a", "NodePool/b"}}[i]
		if diff := cmp.Diff(want, r.Unhashed); diff != "" {
			t.Errorf("pass %d (-want +got):\n%s", i, diff)
		}
		if r.Outdated != 1 {
			t.Errorf("pass %d: %d outdated", i, r.Outdated)
		}
	}
}
