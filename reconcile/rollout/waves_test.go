package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
)

// names returns the names of nodes from one number to another.
func names(from, to int) []string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, fmt.Sprintf("n%d", n))
	}
	return all
}

// TestNextWave runs a series of looks at the wave of one pool; each returns "WAVE/OF STATE BEGUN/SIZE" with the nodes that
// Karpenter may replace now, in brackets, and when the next wave may begin.
func TestNextWave(t *testing.T) {
	type look struct {
		minute                       int
		waiting, launching, draining []string
		verdict                      judge.State
		seen                         func(*rollout.WaveSeen)
		want                         string
	}
	good, bad, undecided, inconclusive := judge.Good, judge.Bad, judge.Undecided, judge.Inconclusive
	pending := func(s *rollout.WaveSeen) { s.Pending = true }
	changed := func(s *rollout.WaveSeen) { s.Changed = true }
	stopped := func(s *rollout.WaveSeen) { s.Stopped = true }
	unknown := func(s *rollout.WaveSeen) { s.Unknown = true }
	changedUnknown := func(s *rollout.WaveSeen) { s.Changed, s.Unknown = true, true }
	relaunched := func(s *rollout.WaveSeen) { s.Nodes.Relaunched = 1 }
	held := func(s *rollout.WaveSeen) { s.Stopped, s.Held = true, true }
	shut := func(s *rollout.WaveSeen) { s.Closed = "closed" }
	drifted := func(s *rollout.WaveSeen) { s.Committed, s.Drifted, s.Known = false, true, true }
	begun := look{minute: 0, waiting: names(1, 8), seen: changed, want: "1/4 Open 0/1 [1]"}
	first := []look{
		begun,
		{minute: 1, waiting: names(2, 8), launching: names(1, 1), want: "1/4 Judging 1/1 [0]"},
		{minute: 2, waiting: names(2, 8), draining: names(1, 1), verdict: undecided, want: "1/4 Judging 1/1 [0] next 12"},
	}
	after := func(looks ...look) []look { return append(slices.Clone(first), looks...) }
	cases := map[string]struct {
		policy v1alpha1.RolloutWaves
		looks  []look
	}{
		"it grows": {looks: after(
			look{minute: 12, waiting: names(2, 8), verdict: good, want: "2/4 Open 0/2 [2]"},
			look{minute: 13, waiting: names(3, 8), launching: names(2, 2), want: "2/4 Open 1/2 [1] (waits for 1 node that Karpenter is still replacing or deleting)"},
			look{minute: 14, waiting: names(4, 8), launching: names(3, 3), draining: names(2, 2), want: "2/4 Judging 2/2 [0]"},
			look{minute: 15, waiting: names(4, 8), draining: names(2, 3), verdict: good, want: "2/4 Judging 2/2 [0] next 25"},
			look{minute: 25, waiting: names(4, 8), verdict: good, want: "3/4 Open 0/4 [4]"},
			look{minute: 26, waiting: names(8, 8), draining: names(4, 7), verdict: good, want: "3/4 Judging 4/4 [0] next 36"},
			look{minute: 36, waiting: names(8, 8), verdict: good, want: "4/4 Last 0/1 [Git]"},
			look{minute: 37, verdict: good, want: "4/4 Last 1/1 [Git]"},
		)},
		"the pause begins when the last node drains": {looks: []look{
			begun,
			{minute: 1, waiting: names(2, 8), launching: names(1, 1), want: "1/4 Judging 1/1 [0]"},
			{minute: 30, waiting: names(2, 8), launching: names(1, 1), verdict: good, want: "1/4 Judging 1/1 [0]"},
			{minute: 31, waiting: names(2, 8), draining: names(1, 1), verdict: good, want: "1/4 Judging 1/1 [0] next 41"},
		}},
		"workloads fail":              {looks: after(look{minute: 5, waiting: names(2, 8), verdict: bad, want: "1/4 Failed 1/1 [0]"}, look{minute: 50, waiting: names(2, 8), verdict: good, want: "1/4 Failed 1/1 [0]"})},
		"they fail while it is open":  {looks: []look{begun, {minute: 1, waiting: names(1, 8), verdict: bad, want: "1/4 Failed 0/1 [0]"}}},
		"they fail in the last wave":  {looks: append(after(), look{minute: 12, waiting: names(2, 3), verdict: good, want: "2/2 Last 0/2 [Git]"}, look{minute: 13, verdict: bad, want: "2/2 Failed 2/2 [0]"})},
		"pods that start delay it":    {looks: after(look{minute: 12, waiting: names(2, 8), verdict: undecided, want: "1/4 Judging 1/1 [0] next 32"}, look{minute: 14, waiting: names(2, 8), verdict: good, want: "2/4 Open 0/2 [2]"})},
		"nothing proves it, continue": {looks: after(look{minute: 31, waiting: names(2, 8), verdict: inconclusive, want: "1/4 Judging 1/1 [0] next 32"}, look{minute: 32, waiting: names(2, 8), verdict: inconclusive, want: "2/4 Open 0/2 [2]"})},
		"nothing proves it, hold": {policy: v1alpha1.RolloutWaves{OnInconclusive: v1alpha1.InconclusiveHold}, looks: after(
			look{minute: 31, waiting: names(2, 8), verdict: inconclusive, want: "1/4 Judging 1/1 [0]"},
			look{minute: 32, waiting: names(2, 8), verdict: inconclusive, want: "1/4 Held 1/1 [0]"},
			look{minute: 90, waiting: names(2, 8), verdict: inconclusive, want: "1/4 Held 1/1 [0]"},
			look{minute: 91, waiting: names(2, 8), verdict: inconclusive, seen: func(s *rollout.WaveSeen) { s.Continued, s.Reason = true, "no pods at night" }, want: "2/4 Open 0/2 [2] continued 1: no pods at night"},
		)},
		"a held wave gets workloads": {policy: v1alpha1.RolloutWaves{OnInconclusive: v1alpha1.InconclusiveHold}, looks: after(
			look{minute: 32, waiting: names(2, 8), verdict: inconclusive, want: "1/4 Held 1/1 [0]"},
			look{minute: 40, waiting: names(2, 8), verdict: good, want: "2/4 Open 0/2 [2]"},
		)},
		"pods cannot be read":     {looks: after(look{minute: 90, waiting: names(2, 8), want: "1/4 Judging 1/1 [0]"})},
		"Karpenter gives one up":  {looks: []look{begun, {minute: 1, waiting: names(2, 8), launching: names(1, 1), want: "1/4 Judging 1/1 [0]"}, {minute: 12, waiting: names(1, 8), want: "1/4 Open 0/1 [1]"}}},
		"one is gone unseen":      {looks: []look{begun, {minute: 5, waiting: names(2, 8), verdict: good, want: "1/4 Judging 1/1 [0] next 15"}}},
		"two are gone unseen":     {looks: []look{begun, {minute: 5, waiting: names(3, 8), verdict: good, want: "1/4 Judging 2/1 [0] next 15"}}},
		"what left before":        {looks: []look{{minute: 0, waiting: names(2, 8), draining: names(1, 1), seen: changed, want: "1/3 Open 0/1 [1]"}, {minute: 1, waiting: names(2, 8), want: "1/3 Open 0/1 [1]"}}},
		"stopped meanwhile":       {looks: after(look{minute: 12, waiting: names(2, 8), verdict: good, seen: stopped, want: "1/4 Judging 1/1 [0]"}, look{minute: 20, waiting: names(2, 8), verdict: good, want: "2/4 Open 0/2 [2]"})},
		"stopped, workloads fail": {looks: after(look{minute: 12, waiting: names(2, 8), verdict: bad, seen: stopped, want: "1/4 Failed 1/1 [0]"})},
		"prepared, then written": {looks: []look{
			{minute: 0, seen: pending, want: "0/0 Preparing 0/0 [0]"},
			{minute: 1, want: "0/0 Preparing 0/0 [0]"},
			{minute: 2, waiting: names(1, 8), seen: changed, want: "1/4 Open 0/1 [1]"},
		}},
		"prepared, and the same definition": {looks: []look{{minute: 0, seen: pending, want: "0/0 Preparing 0/0 [0]"}, {minute: 1, waiting: names(1, 8), want: "1/4 Open 0/1 [1]"}}},
		"prepared, then withdrawn":          {looks: []look{{minute: 0, seen: pending, want: "0/0 Preparing 0/0 [0]"}, {minute: 6}}},
		"another commit":                    {looks: after(look{minute: 3, waiting: names(1, 8), seen: pending, want: "0/0 Preparing 0/0 [0]"}, look{minute: 4, waiting: names(1, 9), seen: changed, want: "1/4 Open 0/1 [1]"})},
		"a revert":                          {looks: after(look{minute: 3, waiting: names(9, 9), seen: func(s *rollout.WaveSeen) { s.Changed, s.Restored = true, true }})},
		"the nodes are unknown while it is judged": {looks: after(
			look{minute: 11, verdict: good, seen: unknown, want: "1/4 Judging 1/1 [0] next 12"},
			look{minute: 12, waiting: names(2, 8), verdict: good, want: "2/4 Open 0/2 [2]"},
		)},
		"the nodes are unknown while it is open": {looks: []look{
			begun,
			{minute: 1, seen: unknown, want: "1/4 Open 0/1 [1]"}, // BrakeStep closes it meanwhile
			{minute: 2, waiting: names(2, 8), launching: names(1, 1), want: "1/4 Judging 1/1 [0]"},
		}},
		"the nodes are unknown in the last wave": {looks: after(
			look{minute: 12, waiting: names(2, 3), verdict: good, want: "2/2 Last 0/2 [Git]"},
			look{minute: 13, seen: unknown, want: "2/2 Last 0/2 [Git]"},
		)},
		"the nodes are unknown once a commit is written": {looks: []look{
			{minute: 0, seen: pending, want: "0/0 Preparing 0/0 [0]"},
			{minute: 1, seen: changedUnknown, want: "0/0 Preparing 0/0 [0]"},
			{minute: 9, seen: unknown, want: "0/0 Preparing 0/0 [0]"},
			{minute: 14, want: "0/0 Preparing 0/0 [0]"},
			{minute: 14, waiting: names(1, 8), want: "1/4 Open 0/1 [1]"},
		}},
		"another commit, and the nodes are unknown": {looks: after(
			look{minute: 3, seen: changedUnknown, want: "0/0 Preparing 0/0 [0]"},
			look{minute: 4, waiting: names(1, 9), want: "1/4 Open 0/1 [1]"},
		)},
		"a revert, and the nodes are unknown": {looks: after(look{minute: 3, seen: func(s *rollout.WaveSeen) { s.Changed, s.Restored, s.Unknown = true, true, true }})},
		"switched off":                        {looks: after(look{minute: 3, waiting: names(2, 8), seen: func(s *rollout.WaveSeen) { s.Policy = nil }})},
		"three nodes":                         {looks: []look{{minute: 0, waiting: names(1, 3)}}},
		"four nodes, found late":              {looks: []look{{minute: 0, waiting: names(1, 4), want: "1/3 Open 0/1 [1]"}}},
		"no commit":                           {looks: []look{{minute: 0, waiting: names(1, 8), seen: func(s *rollout.WaveSeen) { s.Committed = false }}}},
		"no commit, and waves for that":       {looks: []look{{minute: 0, waiting: names(1, 3), seen: drifted}, {minute: 1, waiting: names(1, 8), seen: drifted, want: "1/4 Open 0/1 [1]"}}},
		"no commit, and one was replaced before": {looks: []look{
			{minute: 0, waiting: names(2, 8), launching: names(1, 1), seen: drifted, want: "1/3 Open 0/1 [1]"},
			{minute: 1, waiting: names(2, 8), launching: names(1, 1), seen: drifted, want: "1/4 Judging 1/1 [0]"},
		}},
		"the first nodes are outdated again": {looks: []look{begun, {minute: 1, waiting: append(names(2, 8), "n9"), seen: relaunched, want: "1/4 Open 0/1 [1]"}}},
		"new nodes are outdated again": {looks: after(
			look{minute: 5, waiting: append(names(2, 8), "n9"), verdict: inconclusive, seen: relaunched, want: "1/4 Judging 1/1 [0] next 12"},
			look{minute: 31, waiting: append(names(2, 8), "n9"), verdict: inconclusive, seen: relaunched, want: "1/4 Judging 1/1 [0] next 32"},
			look{minute: 32, waiting: append(names(2, 8), "n9"), verdict: inconclusive, seen: relaunched, want: "1/4 Open 0/1 [1]"},
		)},
		"new nodes are outdated again while a wave is open": {looks: after(
			look{minute: 12, waiting: names(2, 8), verdict: good, want: "2/4 Open 0/2 [2]"},
			look{minute: 13, waiting: append(names(3, 8), "n9"), launching: names(2, 2), seen: relaunched, want: "2/4 Judging 1/1 [0]"},
			look{minute: 14, waiting: append(names(2, 8), "n9"), seen: relaunched, want: "2/4 Judging 0/1 [0] next 24"},
		)},
		"new nodes are outdated again in the last wave": {looks: []look{
			begun,
			{minute: 1, waiting: names(2, 8), launching: names(1, 1), want: "1/4 Judging 1/1 [0]"},
			{minute: 2, waiting: names(2, 3), draining: names(1, 1), verdict: good, want: "1/4 Judging 6/1 [0] next 12"},
			{minute: 12, waiting: names(2, 3), verdict: good, want: "2/2 Last 0/2 [Git]"},
			{minute: 13, waiting: []string{"n2", "n3", "n9"}, seen: relaunched, want: "2/2 Judging 0/0 [0] next 23"},
		}},
		"new nodes are outdated again after workloads failed": {looks: after(
			look{minute: 5, waiting: names(2, 8), verdict: bad, want: "1/4 Failed 1/1 [0]"},
			look{minute: 6, waiting: append(names(2, 8), "n9"), seen: relaunched, want: "1/4 Failed 1/1 [0]"},
		)},
		"a condition was true": {looks: after(
			look{minute: 11, waiting: names(2, 8), verdict: good, seen: held, want: "1/4 Judging 1/1 [0]"},
			look{minute: 13, waiting: names(2, 8), verdict: good, want: "1/4 Judging 1/1 [0] next 23"},
			look{minute: 23, waiting: names(2, 8), verdict: good, want: "2/4 Open 0/2 [2]"},
		)},
		"in progress when switched on": {looks: []look{{minute: 0, waiting: names(1, 8), seen: func(s *rollout.WaveSeen) { s.Known = true }}}},
		"its turn comes": {looks: []look{
			{minute: 0, waiting: names(1, 8), seen: func(s *rollout.WaveSeen) { s.Changed, s.Turn, s.Before = true, false, "a" }, want: "1/4 Queued 0/1 [0] (waits until no wave of NodePool/a is in progress)"},
			{minute: 9, waiting: names(1, 8), want: "1/4 Open 0/1 [1]"},
		}},
		"the budgets in Git are closed": {looks: []look{
			{minute: 0, waiting: names(1, 8), seen: func(s *rollout.WaveSeen) { s.Changed, s.Closed = true, "closed" }, want: "1/4 Open 0/1 [1]"},
			{minute: 1, waiting: names(1, 8), seen: shut, want: "1/4 Open 0/1 [1] (closed)"},
			{minute: 9, waiting: names(1, 8), want: "1/4 Open 0/1 [1]"},
		}},
		"the budgets in Git are closed, and other pools wait": {policy: v1alpha1.RolloutWaves{MaxParallelPools: 1}, looks: []look{
			begun,
			{minute: 1, waiting: names(1, 8), seen: shut, want: "1/4 Queued 0/1 [0] (closed)"},
			{minute: 2, waiting: names(1, 8), seen: func(s *rollout.WaveSeen) { s.Turn, s.Before = false, "b" }, want: "1/4 Queued 0/1 [0] (waits until no wave of NodePool/b is in progress)"},
			{minute: 9, waiting: names(1, 8), want: "1/4 Open 0/1 [1]"},
			{minute: 10, waiting: names(2, 8), launching: names(1, 1), seen: shut, want: "1/4 Judging 1/1 [0]"},
		}},
		"others still drain": {looks: after(
			look{minute: 12, waiting: names(2, 8), draining: names(1, 1), verdict: good, want: "2/4 Open 0/2 [2]"},
			look{minute: 14, waiting: names(3, 8), draining: names(1, 2), verdict: good, want: "2/4 Open 1/2 [1] (waits for 2 nodes that Karpenter is still replacing or deleting)"},
		)},
		"a NotReady node": {looks: []look{begun, {minute: 2, waiting: names(1, 8), seen: func(s *rollout.WaveSeen) { s.Nodes.NotReady = []string{"ip-1"} }, want: "1/4 Open 0/1 [1] (Karpenter begins no replacement: it counts node ip-1, which is NotReady, against the disruption budgets)"}}},
		"a NotReady node, and half of the wave": {looks: after(
			look{minute: 12, waiting: names(2, 8), verdict: good, want: "2/4 Open 0/2 [2]"},
			look{minute: 14, waiting: names(3, 8), seen: func(s *rollout.WaveSeen) { s.Nodes.NotReady = []string{"ip-1"} }, want: "2/4 Open 1/2 [1] (Karpenter begins no replacement: it counts node ip-1, which is NotReady, against the disruption budgets)"},
		)},
		"more than a hundred": {policy: v1alpha1.RolloutWaves{Start: 60}, looks: []look{
			{minute: 0, waiting: names(1, 500), seen: changed, want: "1/2 Open 0/60 [60]"},
			{minute: 1, waiting: names(61, 500), draining: names(1, 60), verdict: good, want: "1/2 Judging 60/60 [0] next 11"},
			{minute: 11, waiting: names(61, 500), verdict: good, want: "2/2 Last 0/440 [Git]"},
		}},
		"no more than the start": {policy: v1alpha1.RolloutWaves{Factor: 1}, looks: []look{{minute: 0, waiting: names(1, 5), seen: changed, want: "1/5 Open 0/1 [1]"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var wave *v1alpha1.RolloutWave
			policy := c.policy
			policy.Start, policy.Factor = max(policy.Start, 1), max(policy.Factor, 1)
			if c.policy.Factor == 0 {
				policy.Factor = 2
			}
			for i, l := range c.looks {
				seen := rollout.WaveSeen{
					Policy: &policy, Committed: true, Turn: true, Known: wave != nil, Now: at(0).Add(time.Duration(l.minute) * time.Minute),
					Nodes:   rollout.WaveNodes{Waiting: l.waiting, Launching: l.launching, Draining: l.draining, Disrupting: len(l.launching) + len(l.draining)},
					Verdict: judge.Verdict{State: l.verdict},
				}
				if l.seen != nil {
					l.seen(&seen)
				}
				wave, _ = rollout.NextWave(wave, seen)
				if diff := cmp.Diff(l.want, waveText(wave)); diff != "" {
					t.Fatalf("look %d: %s", i, diff)
				}
			}
		})
	}
}

func waveText(w *v1alpha1.RolloutWave) string {
	if w == nil {
		return ""
	}
	may := fmt.Sprint(rollout.WaveBudget(w))
	if !w.Limits() {
		may = "Git"
	}
	text := fmt.Sprintf("%d/%d %s %d/%d [%s]", w.Number, w.Of, w.State, w.Begun, w.Size, may)
	if w.NextAt != nil {
		text += fmt.Sprintf(" next %d", int(w.NextAt.Sub(at(0).Time).Minutes()))
	}
	if w.Continued != nil {
		text += fmt.Sprintf(" continued %d: %s", w.Continued.Number, w.Continued.Reason)
	}
	if w.Message != "" {
		text += " (" + w.Message + ")"
	}
	return text
}

// TestPrecedence applies each pair of rules to a pool: the one that SPEC.md lists first decides.
func TestPrecedence(t *testing.T) {
	order := []struct {
		governor rollout.Governor
		set      func(*rollout.Rules)
	}{
		{rollout.ByRemoval, func(r *rollout.Rules) { r.Removal = true }},
		{rollout.ByBrake, func(r *rollout.Rules) { r.Brake = true }},
		{rollout.ByRevert, func(r *rollout.Rules) { r.Revert = true }},
		{rollout.ByFreeze, func(r *rollout.Rules) { r.Freeze = true }},
		{rollout.ByWave, func(r *rollout.Rules) { r.Wave = true }},
	}
	if got := (rollout.Rules{}).Governor(); got != rollout.ByGit {
		t.Errorf("without rules, %s decides", got)
	}
	for i, one := range order {
		for _, other := range order[i:] {
			var r rollout.Rules
			one.set(&r)
			other.set(&r)
			if got := r.Governor(); got != one.governor {
				t.Errorf("%s and %s: %s decides", one.governor, other.governor, got)
			}
		}
	}
}

// TestWaveAndOthers shows what decides about a pool in a wave when something else happens, and what is left of the wave.
func TestWaveAndOthers(t *testing.T) {
	now := at(5)
	open := func() *v1alpha1.RolloutWave {
		return &v1alpha1.RolloutWave{Number: 1, Of: 4, State: v1alpha1.WaveOpen, Size: 1, Waiting: 8, Since: at(4), BeganAt: at(4), From: "0"}
	}
	for name, c := range map[string]struct {
		before func(*v1alpha1.PoolRollout)
		pool   func(*rollout.BrakePool)
		seen   func(*rollout.BrakeSeen)
		want   rollout.Governor
		wave   string
	}{
		"nothing":   {want: rollout.ByWave, wave: "1/4 Open 0/1 [1]"},
		"a removal": {pool: func(p *rollout.BrakePool) { p.Removed = true }, want: rollout.ByRemoval, wave: "1/4 Open 0/1 [1]"},
		"failed launches": {pool: func(p *rollout.BrakePool) {
			p.Launches = append(p.Launches, failed("a", 4), failed("b", 4), failed("c", 4))
		}, want: rollout.ByBrake, wave: "1/4 Open 0/1 [1]"},
		"a condition":        {seen: func(s *rollout.BrakeSeen) { s.Held = "errors" }, want: rollout.ByBrake, wave: "1/4 Open 0/1 [1]"},
		"a freeze":           {seen: func(s *rollout.BrakeSeen) { s.Frozen = "audit" }, want: rollout.ByFreeze, wave: "1/4 Open 0/1 [1]"},
		"a revert":           {pool: func(p *rollout.BrakePool) { p.Definition = "0" }, want: rollout.ByGit},
		"a revert, a freeze": {pool: func(p *rollout.BrakePool) { p.Definition, p.Reverted = "0", true }, seen: func(s *rollout.BrakeSeen) { s.Frozen = "audit" }, want: rollout.ByRevert},
		"another commit":     {pool: func(p *rollout.BrakePool) { p.Definition = "2" }, want: rollout.ByWave, wave: "1/4 Open 0/1 [1]"},
		"bad workloads": {
			pool: func(p *rollout.BrakePool) { p.Verdict = judge.Verdict{State: judge.Bad, Message: "3 of 3 pods fail"} },
			want: rollout.ByBrake, wave: "1/4 Failed 0/1 [0] (3 of 3 pods fail)",
		},
		"bad workloads, a freeze": {
			pool: func(p *rollout.BrakePool) { p.Verdict = judge.Verdict{State: judge.Bad, Message: "3 of 3 pods fail"} },
			seen: func(s *rollout.BrakeSeen) { s.Frozen = "audit" }, want: rollout.ByBrake, wave: "1/4 Failed 0/1 [0] (3 of 3 pods fail)",
		},
		"bad workloads, resumed": {
			before: func(e *v1alpha1.PoolRollout) {
				stopped := at(4)
				e.BrakedAt, e.Reason, e.Wave.State = &stopped, v1alpha1.BrakeFailedWave, v1alpha1.WaveFailed
			},
			seen: func(s *rollout.BrakeSeen) { s.Resume = map[string]string{"general": "2026-03-01T12:04:00Z"} }, want: rollout.ByGit,
		},
		"bad workloads, reverted": {
			before: func(e *v1alpha1.PoolRollout) {
				stopped := at(4)
				e.BrakedAt, e.Reason, e.Wave.State = &stopped, v1alpha1.BrakeFailedWave, v1alpha1.WaveFailed
			},
			pool: func(p *rollout.BrakePool) { p.Definition = "0" }, want: rollout.ByGit,
		},
		"what Git wants is unknown": {seen: func(s *rollout.BrakeSeen) { s.InForce = true }, want: rollout.ByWave, wave: "1/4 Open 0/1 [1]"},
	} {
		t.Run(name, func(t *testing.T) {
			before := v1alpha1.PoolRollout{Pool: "general", Definition: "1", Since: at(4), Revision: "main@sha1:1", Wave: open()}
			pool := rollout.BrakePool{Name: "general", Definition: "1", Revision: "main@sha1:1", Nodes: rollout.WaveNodes{Waiting: names(1, 8)}}
			seen := rollout.BrakeSeen{Policy: v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Start: 1, Factor: 2}}, Since: at(0), Now: now.Time}
			if c.before != nil {
				c.before(&before)
			}
			if c.pool != nil {
				c.pool(&pool)
			}
			if c.seen != nil {
				c.seen(&seen)
			}
			seen.Pools = []rollout.BrakePool{pool}
			next, _ := rollout.Next([]v1alpha1.PoolRollout{before}, seen)
			if got := rollout.RulesOf(next[0], pool.Removed).Governor(); got != c.want {
				t.Errorf("%s decides, want %s", got, c.want)
			}
			if diff := cmp.Diff(c.wave, waveText(next[0].Wave)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestACommitDuringTheWatch: a commit that outdates no node, or too few for waves, does not end the judgement of the new
// nodes, and bad ones stop the rollout. One that outdates enough begins with the first wave, and the new nodes that still
// match are judged further.
func TestACommitDuringTheWatch(t *testing.T) {
	for name, c := range map[string]struct {
		nodes   rollout.WaveNodes
		verdict judge.State
		state   v1alpha1.WaveState
		want    string
		since   bool
	}{
		"it outdates none":                {nodes: rollout.WaveNodes{Earlier: 8}, verdict: judge.Good, want: "2/2 Last 7/7 [Git] (pods)", since: true},
		"it outdates none, and pods fail": {nodes: rollout.WaveNodes{Earlier: 8}, verdict: judge.Bad, want: "2/2 Failed 7/7 [0] (pods)", since: true},
		"it outdates two of the new ones": {nodes: rollout.WaveNodes{Waiting: names(1, 2), Earlier: 6}, verdict: judge.Good, want: "2/2 Last 5/7 [Git] (pods)", since: true},
		"it outdates five of the old":     {nodes: rollout.WaveNodes{Waiting: names(1, 5), Earlier: 3}, verdict: judge.Good, want: "1/3 Open 0/1 [1]", since: true},
		"it outdates all":                 {nodes: rollout.WaveNodes{Waiting: names(1, 8)}, verdict: judge.Good, want: "1/4 Open 0/1 [1]"},
		"the wave had failed":             {nodes: rollout.WaveNodes{Earlier: 8}, state: v1alpha1.WaveFailed, want: "2/2 Last 7/7 [Git] (pods)", since: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := v1alpha1.PoolRollout{Pool: "general", Definition: "1", Since: at(0), Revision: "main@sha1:1", Wave: &v1alpha1.RolloutWave{
				Number: 2, Of: 2, State: v1alpha1.WaveLast, Size: 7, Begun: 7, Since: at(1), BeganAt: at(3), From: "0",
			}}
			if c.state != "" {
				stopped := at(4)
				before.Wave.State, before.BrakedAt, before.Reason = c.state, &stopped, v1alpha1.BrakeFailedWave
			}
			next, _ := rollout.Next([]v1alpha1.PoolRollout{before}, rollout.BrakeSeen{
				Pools: []rollout.BrakePool{{
					Name: "general", Definition: "2", Revision: "main@sha1:2", Nodes: c.nodes, Verdict: judge.Verdict{State: c.verdict, Message: "pods"},
				}},
				Since: at(0), Now: at(9).Time,
			})
			wave := next[0].Wave
			if got := waveText(wave); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			first, now := at(1), at(9)
			if since := wave.JudgesSince(); c.since != since.Equal(&first) || !wave.Since.Equal(&now) {
				t.Errorf("nodes are judged since %s, the first wave began at %s", since, wave.Since)
			}
		})
	}
}

// TestARevertIsNotDelayed: a commit that was rolled out is what the next one's revert restores, even while its nodes are
// still watched; and a commit that the plan recognises as a revert is one.
func TestARevertIsNotDelayed(t *testing.T) {
	look := func(before []v1alpha1.PoolRollout, pool rollout.BrakePool) []v1alpha1.PoolRollout {
		pool.Name, pool.Revision = "general", "main@sha1:1"
		next, _ := rollout.Next(before, rollout.BrakeSeen{Pools: []rollout.BrakePool{pool}, Since: at(0), Now: at(9).Time})
		return next
	}
	watched := func(waiting int32) []v1alpha1.PoolRollout {
		return []v1alpha1.PoolRollout{{Pool: "general", Definition: "1", Since: at(0), Revision: "main@sha1:1", Wave: &v1alpha1.RolloutWave{
			Number: 2, Of: 2, State: v1alpha1.WaveLast, Size: 7, Begun: 7 - waiting, Waiting: waiting, Since: at(1), BeganAt: at(3), From: "0",
		}}}
	}
	waiting := rollout.WaveNodes{Waiting: names(1, 8)}
	second := look(look(watched(0), rollout.BrakePool{Definition: "1", Pending: true}), rollout.BrakePool{Definition: "2", Nodes: waiting})
	if wave := second[0].Wave; wave == nil || wave.State != v1alpha1.WaveOpen {
		t.Fatalf("the next commit: %+v", wave)
	}
	for name, c := range map[string]struct {
		before []v1alpha1.PoolRollout
		pool   rollout.BrakePool
		waves  bool
	}{
		"to the commit that was rolled out":          {before: second, pool: rollout.BrakePool{Definition: "1", Nodes: waiting}},
		"to the one before":                          {before: second, pool: rollout.BrakePool{Definition: "0", Nodes: waiting}, waves: true},
		"to the one before, as the plan reports":     {before: second, pool: rollout.BrakePool{Definition: "0", Nodes: waiting, Restores: true}},
		"of a commit whose nodes are all replaced":   {before: watched(0), pool: rollout.BrakePool{Definition: "0", Nodes: waiting}},
		"to a commit that was being rolled out only": {before: look(look(watched(5), rollout.BrakePool{Definition: "1", Pending: true, Nodes: waiting}), rollout.BrakePool{Definition: "2", Nodes: waiting}), pool: rollout.BrakePool{Definition: "1", Nodes: waiting}, waves: true},
	} {
		t.Run(name, func(t *testing.T) {
			if wave := look(c.before, c.pool)[0].Wave; (wave != nil) != c.waves {
				t.Errorf("the wave is %s", waveText(wave))
			}
		})
	}
}

// TestTheLastWaveCountsOnce: a node that drains for several looks counts once, and the numbers stay those of the pool.
func TestTheLastWaveCountsOnce(t *testing.T) {
	wave := &v1alpha1.RolloutWave{Number: 2, Of: 2, State: v1alpha1.WaveLast, Size: 5, Waiting: 5, Since: at(1), BeganAt: at(3)}
	for i, want := range []string{"2/2 Last 1/5 [Git]", "2/2 Last 1/5 [Git]", "2/2 Last 1/5 [Git]"} {
		wave, _ = rollout.NextWave(wave, rollout.WaveSeen{
			Policy: &v1alpha1.RolloutWaves{}, Known: true, Now: at(4 + i).Time, Nodes: rollout.WaveNodes{Waiting: names(2, 5), Draining: names(1, 1)},
		})
		if got := waveText(wave); got != want {
			t.Errorf("look %d: %s, want %s", i, got, want)
		}
	}
}

// TestTheLastWaveIsLeased: in the last wave, Karpenter replaces nodes at the pace of the budgets in Git only while plumbline
// renews that: not while it does not know what Git wants, nor once no node waits. At the end, Git's budgets are restored.
func TestTheLastWaveIsLeased(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.pass(true)
	w.sync.Status.PoolRollouts[0].Wave = &v1alpha1.RolloutWave{Number: 3, Of: 3, State: v1alpha1.WaveLast, Size: 8, Waiting: 8, Since: at(1), BeganAt: at(4)}
	written := func(want string, leased bool) {
		t.Helper()
		last := w.applied[len(w.applied)-1]
		if !strings.Contains(last, want) || strings.Contains(last, "schedule") != leased || !strings.Contains(last, "nodes: 10%") {
			t.Errorf("the budgets are %s", last)
		}
		w.keepWritten(t)
	}
	w.pass(true)
	written("nodes: 100%", true)
	applied := len(w.applied)
	if w.pass(true); len(w.applied) != applied {
		t.Errorf("they are written again: %s", w.applied[applied:])
	}
	w.inForce = true
	w.pass(true)
	written(`nodes: "0"`, false)
	w.inForce = false
	w.pass(true)
	written("nodes: 100%", true)
	w.claims = nil
	w.pass(true)
	written(`nodes: "0"`, false)
	w.rollout = nil
	if s := w.pass(true); !s.WakeAt.Equal(w.now) {
		t.Errorf("the plan that restores Git's budgets is made at %s", s.WakeAt)
	}
}

// TestBadWorkloadsStopWhileHEADCannotBeUsed: a commit that cannot be used does not prevent a stop.
func TestBadWorkloadsStopWhileHEADCannotBeUsed(t *testing.T) {
	for _, state := range []v1alpha1.WaveState{v1alpha1.WaveOpen, v1alpha1.WaveJudging, v1alpha1.WaveHeld, v1alpha1.WaveLast} {
		before := []v1alpha1.PoolRollout{{Pool: "general", Definition: "1", Since: at(0), Wave: &v1alpha1.RolloutWave{Number: 2, Of: 2, State: state, Size: 7, Waiting: 5, Since: at(1), BeganAt: at(3)}}}
		next, _ := rollout.Next(before, rollout.BrakeSeen{
			Pools:   []rollout.BrakePool{{Name: "general", Definition: "1", Edited: true, Nodes: rollout.WaveNodes{Waiting: names(1, 5)}, Verdict: judge.Verdict{State: judge.Bad, Message: "pods fail"}}},
			InForce: true, Now: at(9).Time,
		})
		if e := next[0]; e.BrakedAt == nil || e.Reason != v1alpha1.BrakeFailedWave || e.Message != "pods fail" || e.Wave.State != v1alpha1.WaveFailed {
			t.Errorf("%s: %+v", state, e)
		}
	}
}

// TestParallelPools shows that a limited number of pools are in a wave.
func TestParallelPools(t *testing.T) {
	seen := rollout.BrakeSeen{Policy: v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Start: 1, Factor: 2, MaxParallelPools: 1}}, Now: at(5).Time}
	for _, name := range []string{"a", "b"} {
		seen.Pools = append(seen.Pools, rollout.BrakePool{Name: name, Definition: "1", Revision: "main@sha1:1", Nodes: rollout.WaveNodes{Waiting: names(1, 8)}})
	}
	next, _ := rollout.Next(nil, seen)
	if a, b := next[0].Wave.State, next[1].Wave.State; a != v1alpha1.WaveOpen || b != v1alpha1.WaveQueued {
		t.Errorf("the waves are %s and %s", a, b)
	}
	next[0].Wave.State, next[0].Wave.Waiting, seen.Pools[0].Nodes = v1alpha1.WaveLast, 0, rollout.WaveNodes{Launching: names(1, 1)}
	for _, look := range []struct {
		minute int
		last   []string
		want   v1alpha1.WaveState
	}{
		{6, names(1, 1), v1alpha1.WaveQueued}, // the last node is being replaced
		{20, nil, v1alpha1.WaveQueued},        // it was
		{29, nil, v1alpha1.WaveQueued},        // the workloads on it are judged
		{30, nil, v1alpha1.WaveOpen},
	} {
		seen.Now, seen.Pools[0].Nodes.Launching = at(look.minute).Time, look.last
		next, _ = rollout.Next(next, seen)
		if b := next[1].Wave.State; b != look.want {
			t.Errorf("minute %d: the wave of the second pool is %s, want %s", look.minute, b, look.want)
		}
	}
}

// TestAClosedPoolHasNoTurn shows that a pool whose budgets in Git allow no replacement lets other pools begin, waits for them
// once its budgets are open, and reports until when they are not.
func TestAClosedPoolHasNoTurn(t *testing.T) {
	seen := rollout.BrakeSeen{Policy: v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Start: 1, Factor: 2, MaxParallelPools: 1}}, Now: at(5).Time}
	for _, name := range []string{"a", "b"} {
		seen.Pools = append(seen.Pools, rollout.BrakePool{Name: name, Definition: "1", Revision: "main@sha1:1", Nodes: rollout.WaveNodes{Waiting: names(1, 8)}})
	}
	seen.Pools[0].Closed, seen.Pools[0].Opens = "its budgets in Git allow no replacement until 17:00 UTC", at(90).Time
	next, _ := rollout.Next(nil, seen)
	if a, b := next[0].Wave, next[1].Wave; a.State != v1alpha1.WaveQueued || a.Message != seen.Pools[0].Closed || b.State != v1alpha1.WaveOpen {
		t.Errorf("the waves are %+v and %+v", a, b)
	}
	if _, wake := rollout.Next(next, seen); !wake.Equal(at(6).Time) && !wake.Equal(at(90).Time) {
		t.Errorf("it looks again at %s", wake)
	}
	seen.Pools[0].Closed = ""
	if next, _ = rollout.Next(next, seen); next[0].Wave.State != v1alpha1.WaveQueued || !strings.Contains(next[0].Wave.Message, "NodePool/b") {
		t.Errorf("with open budgets the wave is %+v", next[0].Wave)
	}
}

// TestAWaveReportsClosedBudgets shows that an open wave reports that the budgets in Git allow no replacement, by the live
// budgets without those of the wave, and until when.
func TestAWaveReportsClosedBudgets(t *testing.T) {
	for budgets, want := range map[string]string{
		`[{nodes: "0", schedule: "0 0 * * *", duration: 20h}]`: "its budgets in Git allow no replacement until",
		`[{nodes: "0"}]`: "its budgets in Git allow no replacement",
		`[{nodes: 10%}]`: "",
	} {
		w := newWorld(t)
		w.commit(classYAML, strings.Replace(poolYAML, "[{nodes: 10%}]", budgets, 1))
		w.waves(8)
		w.pass(true)
		for range 3 {
			w.pass(true)
			w.keepWritten(t)
		}
		wave := w.sync.Status.PoolRollouts[0].Wave
		if wave.State != v1alpha1.WaveOpen || !strings.HasPrefix(wave.Message, want) || want == "" && wave.Message != "" {
			t.Errorf("budgets %s: the wave is %+v", budgets, wave)
		}
	}
}

// TestNextAtIsNotPast shows that nothing reports a next wave in the past, also while it is unknown what Git wants.
func TestNextAtIsNotPast(t *testing.T) {
	past := at(4)
	before := []v1alpha1.PoolRollout{{Pool: "a", Definition: "1", Wave: &v1alpha1.RolloutWave{
		Number: 1, Of: 4, State: v1alpha1.WaveJudging, Size: 1, Begun: 1, Waiting: 7, BeganAt: at(0), Since: at(0), NextAt: &past,
	}}}
	seen := rollout.BrakeSeen{
		Pools: []rollout.BrakePool{{Name: "a", Definition: "1", Revision: "main@sha1:1", Nodes: rollout.WaveNodes{Waiting: names(2, 8)}}}, Now: at(5).Time, InForce: true,
		Policy: v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Start: 1, Factor: 2}},
	}
	if next, _ := rollout.Next(before, seen); next[0].Wave == nil || next[0].Wave.NextAt != nil {
		t.Errorf("the wave is %+v", next[0].Wave)
	}
}

// TestANodeThatHasNotJoinedIsNoMissingNode shows that a wave whose new NodeClaim has no Node yet is not reported as one that
// has launched no node.
func TestANodeThatHasNotJoinedIsNoMissingNode(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.pass(true)
	w.claims[0].Disrupted = true
	w.claims = append(w.claims, plan.NodeClaim{Name: "new", Pool: "general", Created: w.now.Add(time.Second)})
	w.now = w.now.Add(2 * time.Second)
	w.pass(true)
	w.pass(true)
	if wave := w.sync.Status.PoolRollouts[0].Wave; wave.New != 1 || wave.Message != "no new node has joined the cluster yet" {
		t.Errorf("the wave is %+v", wave)
	}
}

// waves has the world's pool replaced in waves, with this many nodes.
func (w *world) waves(nodes int) {
	w.sync.Spec.Rollout.Waves = &v1alpha1.RolloutWaves{Start: 1, Factor: 2}
	w.claims = nil
	for _, name := range names(1, nodes) {
		w.claims = append(w.claims, plan.NodeClaim{Name: name, Pool: "general", Node: "node-" + name})
	}
}

// TestWaveIsRecordedFirst shows that the reconcile that begins a wave writes no budget, that the next one opens a lease of
// one node, and that the lease is closed once a replacement has begun, and renewed before it expires.
func TestWaveIsRecordedFirst(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.now = at(5).Add(10 * time.Second)
	for range 2 {
		if w.pass(false); len(w.applied) > 0 {
			t.Fatalf("a wave that is not recorded was written: %s", w.applied)
		}
	}
	w.pass(true)
	w.pass(true)
	if len(w.applied) != 1 || !strings.Contains(w.applied[0], "nodes: 10%") || !strings.Contains(w.applied[0], `nodes: "1"`) || !strings.Contains(w.applied[0], "schedule: 7 12 1 3 *") {
		t.Fatalf("the recorded wave has the budgets %s", w.applied)
	}
	w.keepWritten(t)
	w.now = w.now.Add(time.Minute) // the lease has 50 s left
	if w.pass(true); len(w.applied) != 1 {
		t.Errorf("the lease was renewed early: %s", w.applied)
	}
	w.now = w.now.Add(25 * time.Second)
	if w.pass(true); len(w.applied) != 2 || !strings.Contains(w.applied[1], "schedule: 8 12 1 3 *") {
		t.Errorf("the lease was not renewed: %s", w.applied)
	}
	w.keepWritten(t)
	w.claims[0].Disrupted = true
	w.pass(true)
	if len(w.applied) != 3 || strings.Contains(w.applied[2], "schedule") || !strings.Contains(w.applied[2], `nodes: "0"`) {
		t.Errorf("the wave was not closed: %s", w.applied)
	}
	if diff := cmp.Diff([]string{"WaveBegan", "WaveBegan", "WaveBegan"}, w.events); diff != "" { // two were killed
		t.Error(diff)
	}
}

// TestFirstWaveBeginsAgain: if a new node is outdated again, the lease is closed until the first wave is recorded again.
func TestFirstWaveBeginsAgain(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.pass(true)
	w.pass(true)
	w.keepWritten(t)
	began := w.sync.Status.PoolRollouts[0].Wave.BeganAt
	w.now = w.now.Add(30 * time.Second)
	w.claims[0] = plan.NodeClaim{Name: "new", Pool: "general", Node: "node-new", Created: w.now, Drifted: true}
	for _, leased := range []bool{false, true} {
		applied := len(w.applied)
		w.pass(true)
		if wave := w.sync.Status.PoolRollouts[0].Wave; wave.Number != 1 || wave.State != v1alpha1.WaveOpen || wave.BeganAt.Equal(&began) {
			t.Fatalf("the wave is %+v", wave)
		}
		if len(w.applied) != applied+1 || strings.Contains(w.applied[applied], "schedule") != leased {
			t.Fatalf("leased %t: %s", leased, w.applied[applied:])
		}
		w.keepWritten(t)
	}
}

// TestWhatFailsBeforeIsRecorded: the workloads on a node are looked at once, while Karpenter launches its replacement, and
// what fails there is recorded in the wave and does not count when the new node is judged.
func TestWhatFailsBeforeIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.now = at(5).Add(10 * time.Second)
	var looked []string
	w.failing = func(_ context.Context, nodes, _, earlier []string) ([]string, error) {
		if looked = append(looked, nodes...); len(looked) == 1 {
			return nil, errors.New("the API server is busy")
		}
		return append(earlier, "Deployment default/ill 5d4f"), nil
	}
	w.pass(true)
	w.pass(true)
	w.keepWritten(t)
	w.claims[0].Disrupted = true
	for range 3 {
		w.pass(true)
	}
	node := w.claims[0].Node
	if diff := cmp.Diff([]string{node, node}, looked); diff != "" {
		t.Errorf("the nodes that were looked at: once without an answer, once with one (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Deployment default/ill 5d4f"}, w.sync.Status.PoolRollouts[0].Wave.Excused); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	var judged judge.Wave
	w.judge = func(_ context.Context, wave judge.Wave) (judge.Verdict, error) {
		judged = wave
		return judge.Verdict{State: judge.Good, Again: w.now}, nil
	}
	w.claims[0].Deleting = true
	w.claims = append(w.claims, plan.NodeClaim{Name: "new", Pool: "general", Node: "node-new", Created: w.now, Initialized: true})
	w.pass(true)
	if diff := cmp.Diff([]string{"Deployment default/ill 5d4f"}, judged.Excused); diff != "" {
		t.Errorf("not counted (-want +got):\n%s", diff)
	}
}

// TestEachWaveJudgesEarlierNodes: the second wave judges the nodes of both, since the first one began.
func TestEachWaveJudgesEarlierNodes(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	since, second := at(5), at(9)
	w.now = at(10).Time
	var judged judge.Wave
	w.judge = func(_ context.Context, wave judge.Wave) (judge.Verdict, error) {
		judged = wave
		return judge.Verdict{State: judge.Good, Again: w.now}, nil
	}
	w.pass(true)
	w.sync.Status.PoolRollouts[0].Wave = &v1alpha1.RolloutWave{
		Number: 2, Of: 4, State: v1alpha1.WaveOpen, Size: 2, Since: since, BeganAt: second, Waiting: 7,
	}
	w.claims = append(w.claims,
		plan.NodeClaim{Name: "earlier", Pool: "general", Node: "node-earlier", Created: at(6).Time, Initialized: true},
		plan.NodeClaim{Name: "latest", Pool: "general", Node: "node-latest", Created: w.now, Initialized: true})
	w.pass(true)
	if diff := cmp.Diff([]string{"node-earlier", "node-latest"}, judged.New); diff != "" {
		t.Errorf("judged (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"node-latest"}, judged.Latest); diff != "" || !judged.Began.Equal(since.Time) {
		t.Errorf("began %s; of the wave itself (-want +got):\n%s", judged.Began, diff)
	}
}

// keepWritten makes the last written budgets the live ones.
func (w *world) keepWritten(t *testing.T) {
	t.Helper()
	_, text, _ := strings.Cut(w.applied[len(w.applied)-1], " force=true ")
	budgets := plan.BudgetsOf(object(t, text))
	for ref, o := range w.live {
		if ref.Kind != "NodePool" {
			continue
		}
		o = o.DeepCopy()
		disruption, _ := o.Object["spec"].(map[string]any)["disruption"].(map[string]any)
		disruption["budgets"] = budgets
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: v1alpha1.BrakeFieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:disruption":{"f:budgets":{}}}}`),
		}})
		w.live[ref] = o
	}
}

// TestNoLeaseWhileGitIsUnknown shows that an open wave is closed while it is unknown what Git wants.
func TestNoLeaseWhileGitIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.pass(true)
	w.inForce = true
	w.pass(true)
	if len(w.applied) != 1 || strings.Contains(w.applied[0], "schedule") {
		t.Errorf("the budgets are %s", w.applied)
	}
}

// TestNoLeaseWhileNodesAreUnknown: while Karpenter's controller is not ready, an open wave is closed and stays what it is,
// and nothing is judged: no node is known to be old.
func TestNoLeaseWhileNodesAreUnknown(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.judge = func(context.Context, judge.Wave) (judge.Verdict, error) {
		t.Error("workloads are judged")
		return judge.Verdict{}, nil
	}
	w.pass(true)
	w.pass(true)
	w.keepWritten(t)
	before := w.sync.Status.PoolRollouts[0].Wave
	w.unknown, w.now = map[string]bool{"general": true}, w.now.Add(30*time.Second)
	w.pass(true)
	if last := w.applied[len(w.applied)-1]; len(w.applied) != 2 || strings.Contains(last, "schedule") || !strings.Contains(last, `nodes: "0"`) {
		t.Errorf("the budgets are %s", w.applied)
	}
	w.keepWritten(t)
	if diff := cmp.Diff(before, w.sync.Status.PoolRollouts[0].Wave); diff != "" {
		t.Error(diff)
	}
	w.unknown = nil
	w.pass(true)
	if last := w.applied[len(w.applied)-1]; len(w.applied) != 3 || !strings.Contains(last, "schedule") {
		t.Errorf("afterwards, the budgets are %s", w.applied)
	}
}

// TestWaveIsJudged shows what a wave's workloads are judged by, how often, and that bad ones stop the rollout.
func TestWaveIsJudged(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.sync.Spec.Rollout.OnFailure = v1alpha1.RolloutBrake
	w.pass(true)
	w.now = w.now.Add(time.Minute)
	w.claims[0].Deleting = true
	w.claims = append(w.claims,
		plan.NodeClaim{Name: "new", Pool: "general", Node: "node-new", Created: w.now, Initialized: true},
		plan.NodeClaim{Name: "older", Pool: "general", Node: "node-older", Created: w.now.Add(-time.Hour)})
	var asked []judge.Wave
	verdict := judge.Verdict{State: judge.Good, Message: "web is good", Good: []string{"node-new"}, Again: w.now.Add(15 * time.Second)}
	w.judge = func(_ context.Context, wave judge.Wave) (judge.Verdict, error) {
		asked = append(asked, wave)
		return verdict, nil
	}
	w.pass(true)
	w.now = w.now.Add(10 * time.Second)
	w.pass(true)
	var old []string
	for _, name := range names(2, 8) {
		old = append(old, "node-"+name)
	}
	if diff := cmp.Diff([]judge.Wave{{Pool: "general", Began: at(5).Time, New: []string{"node-new"}, Latest: []string{"node-new"}, Old: old}}, asked); diff != "" {
		t.Error(diff)
	}
	wave := w.sync.Status.PoolRollouts[0].Wave
	if got := rollout.WaveWords(wave); got != "wave 1 of 4: 1 of 1 new node good, next at 12:16 UTC (web is good)" {
		t.Errorf("it says %s", got)
	}
	w.now = w.now.Add(10 * time.Second)
	verdict = judge.Verdict{State: judge.Bad, Message: "3 of 3 pods of gpu/train fail on the new node"}
	s := w.pass(true)
	e := w.sync.Status.PoolRollouts[0]
	if e.BrakedAt == nil || e.Reason != v1alpha1.BrakeFailedWave || e.Message != verdict.Message || len(asked) != 2 {
		t.Errorf("bad workloads leave %+v", e)
	}
	if !slices.ContainsFunc(s.Notes, func(n finding.Note) bool { return n.Reason == v1alpha1.ReasonRolloutBraked }) {
		t.Errorf("the events are %+v", s.Notes)
	}
	if words := rollout.BrakeWords(w.sync.Status.PoolRollouts); !strings.HasPrefix(words, "stopped in NodePool/general: 3 of 3 pods of gpu/train fail on the new node; revert or correct the definition") {
		t.Errorf("it says %s", words)
	}
}

// TestUnreadableWorkloads shows that a wave whose workloads cannot be read is not good.
func TestUnreadableWorkloads(t *testing.T) {
	w := newWorld(t)
	w.waves(8)
	w.pass(true)
	w.claims[0].Deleting = true
	w.claims = append(w.claims, plan.NodeClaim{Name: "new", Pool: "general", Node: "node-new", Created: w.now, Initialized: true})
	w.judge = func(context.Context, judge.Wave) (judge.Verdict, error) {
		return judge.Verdict{}, errors.New("forbidden")
	}
	for range 3 {
		w.pass(true)
		w.now = w.now.Add(time.Hour)
	}
	if wave := w.sync.Status.PoolRollouts[0].Wave; wave.State != v1alpha1.WaveJudging || wave.Number != 1 || !strings.Contains(wave.Message, "cannot be judged: forbidden") {
		t.Errorf("the wave is %+v", wave)
	}
}

// TestWatch shows that a rollout with waves lasts until the workloads on the last nodes were judged, and none is bad after
// that time.
func TestWatch(t *testing.T) {
	before := &v1alpha1.Rollout{Revision: "main@sha1:1", Since: at(0), Nodes: 8, Outdated: 1, LastProgress: at(0)}
	last := func(watched int, reason v1alpha1.BrakeReason) []v1alpha1.PoolRollout {
		w := &v1alpha1.RolloutWave{Number: 4, State: v1alpha1.WaveLast}
		if watched > 0 {
			at := at(watched)
			w.WatchedAt = &at
		}
		return []v1alpha1.PoolRollout{{Pool: "general", Wave: w, Reason: reason}}
	}
	seen := func(minute int, waves []v1alpha1.PoolRollout) rollout.Seen {
		return rollout.Seen{Now: at(minute).Time, Waves: waves, WatchFor: 10 * time.Minute}
	}
	if got := rollout.Roll(before, seen(10, nil)); got != nil {
		t.Errorf("without waves: %+v", got)
	}
	watched := rollout.Roll(before, seen(10, last(0, "")))
	if watched == nil || watched.WatchUntil == nil || !watched.WatchUntil.Time.Equal(at(20).Time) {
		t.Fatalf("after the last node: %+v", watched)
	}
	for name, c := range map[string]struct {
		minute    int
		waves     []v1alpha1.PoolRollout
		unwatched time.Duration
		until     int
	}{
		"before the end":                     {minute: 19, waves: last(0, ""), until: 20},
		"at the end, and not judged":         {minute: 20, waves: last(0, ""), until: 20},
		"long after it, and not judged":      {minute: 90, waves: last(0, ""), until: 20},
		"judged before the end":              {minute: 21, waves: last(19, ""), until: 20},
		"judged at the end":                  {minute: 21, waves: last(20, "")},
		"judged at the end, and a restart":   {minute: 25, waves: last(20, ""), unwatched: 10 * time.Minute},
		"two pools, one of them judged":      {minute: 21, waves: append(last(20, ""), last(0, "")...), until: 20},
		"a commit waits for the next wave":   {minute: 21, waves: []v1alpha1.PoolRollout{{Wave: &v1alpha1.RolloutWave{State: v1alpha1.WavePreparing}}}, until: 20},
		"a condition is true":                {minute: 50, waves: last(20, v1alpha1.BrakeHeldByCondition), until: 20},
		"workloads fail":                     {minute: 50, waves: last(20, v1alpha1.BrakeFailedWave), until: 20},
		"away for three minutes":             {minute: 18, waves: last(0, ""), unwatched: 3 * time.Minute, until: 23},
		"a restart after the end":            {minute: 30, waves: last(0, ""), unwatched: 10 * time.Minute, until: 30},
		"a restart shortly before the end":   {minute: 19, waves: last(0, ""), unwatched: 10 * time.Minute, until: 29},
		"away for much longer than it lasts": {minute: 120, waves: last(0, ""), unwatched: 110 * time.Minute, until: 130},
	} {
		t.Run(name, func(t *testing.T) {
			s := seen(c.minute, c.waves)
			s.Unwatched = c.unwatched
			got := rollout.Roll(watched, s)
			if c.until == 0 {
				if got != nil {
					t.Errorf("it is not complete: %+v", got)
				}
				return
			}
			if got == nil || got.WatchUntil == nil || !got.WatchUntil.Time.Equal(at(c.until).Time) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestUnwatched: time in which no look was taken during the watch extends it. After a restart that time is unknown.
func TestUnwatched(t *testing.T) {
	watched := at(3)
	waves := []v1alpha1.PoolRollout{{Pool: "a", Wave: &v1alpha1.RolloutWave{Number: 2, State: v1alpha1.WaveLast}}}
	memory := &rollout.Memory{}
	of := &v1alpha1.Rollout{Revision: "main@sha1:1", Since: at(0), Nodes: 8, WatchUntil: &watched}
	for _, look := range []struct {
		minute, until  int
		away, restarts bool
	}{
		{minute: 1, until: 11}, // the first look after a restart
		{minute: 2, until: 11},
		{minute: 3, until: 11, away: true},
		{minute: 5, until: 14}, // nothing was judged for three minutes
		{minute: 6, until: 14},
		{minute: 7, until: 17, restarts: true},
		{minute: 90, until: 100},
	} {
		if look.restarts {
			memory = &rollout.Memory{}
		}
		r := rollout.Rollouts{Before: of, Reported: of, Pools: []rollout.Pool{pool("a")}, Now: at(look.minute).Time, Memory: memory, Events: &spoken{}, Waves: waves, WatchFor: 10 * time.Minute}
		of = r.See(t.Context(), !look.away).Rollout
		if of == nil || of.WatchUntil == nil || !of.WatchUntil.Time.Equal(at(look.until).Time) {
			t.Fatalf("minute %d: %+v", look.minute, of)
		}
	}
}

// TestWatchNeedsAVerdict shows by which verdict, at the end of the watch, a wave is recorded as not bad.
func TestWatchNeedsAVerdict(t *testing.T) {
	until := at(20)
	continued := func(s *rollout.BrakeSeen) { s.Continue = map[string]string{"general": rollout.Token(at(8))} }
	for name, c := range map[string]struct {
		minute  int
		waves   v1alpha1.RolloutWaves
		state   judge.State
		failing int
		seen    func(*rollout.BrakeSeen)
		want    bool
		words   string
	}{
		"before the end":           {minute: 19, state: judge.Good},
		"good":                     {minute: 20, state: judge.Good, want: true},
		"good, in a freeze":        {minute: 20, state: judge.Good, seen: func(s *rollout.BrakeSeen) { s.Frozen = "audit" }, want: true},
		"good, and HEAD is broken": {minute: 20, state: judge.Good, seen: func(s *rollout.BrakeSeen) { s.InForce = true }, want: true},
		"nodes are unknown":        {minute: 20, seen: func(s *rollout.BrakeSeen) { s.Pools[0].Unknown = true }},
		"nothing runs":             {minute: 20, state: judge.Inconclusive, want: true, words: "inconclusive: no pods"},
		"pods fail":                {minute: 49, state: judge.Inconclusive, failing: 1},
		"pods fail for long":       {minute: 50, state: judge.Inconclusive, failing: 1, want: true, words: "inconclusive: no pods"},
		"pods fail, hold":          {minute: 500, waves: v1alpha1.RolloutWaves{OnInconclusive: v1alpha1.InconclusiveHold}, state: judge.Inconclusive, failing: 1},
		"pods fail, continued":     {minute: 20, state: judge.Inconclusive, failing: 1, seen: continued, want: true, words: "inconclusive: no pods"},
		"nothing runs, hold": {
			minute: 20, waves: v1alpha1.RolloutWaves{OnInconclusive: v1alpha1.InconclusiveHold}, state: judge.Inconclusive, want: true, words: "inconclusive: no pods",
		},
		"unreadable":             {minute: 500},
		"undecided":              {minute: 49, state: judge.Undecided},
		"undecided for too long": {minute: 50, state: judge.Undecided, want: true, words: "inconclusive: no pods"},
		"undecided, hold":        {minute: 500, waves: v1alpha1.RolloutWaves{OnInconclusive: v1alpha1.InconclusiveHold}, state: judge.Undecided},
		"undecided, continued":   {minute: 20, state: judge.Undecided, seen: continued, want: true, words: "inconclusive: no pods"},
		"continued too early":    {minute: 19, state: judge.Undecided, seen: continued},
		"unreadable, continued":  {minute: 20, seen: continued, want: true, words: "inconclusive: no pods"},
		"another wave continued": {minute: 20, state: judge.Undecided, seen: func(s *rollout.BrakeSeen) { s.Continue = map[string]string{"general": rollout.Token(at(7))} }},
		"bad, continued":         {minute: 20, state: judge.Bad, seen: continued},
		"conditions not queried": {minute: 21, state: judge.Good, seen: func(s *rollout.BrakeSeen) { s.Unasked = true }},
		"bad":                    {minute: 20, state: judge.Bad},
	} {
		t.Run(name, func(t *testing.T) {
			before := []v1alpha1.PoolRollout{{Pool: "general", Definition: "1", Since: at(0), Revision: "main@sha1:1", Wave: &v1alpha1.RolloutWave{
				Number: 3, Of: 3, State: v1alpha1.WaveLast, Size: 5, Begun: 5, Since: at(1), BeganAt: at(8),
			}}}
			verdict := judge.Verdict{State: c.state, Workloads: []judge.Workload{{Kind: "StrimziPodSet", New: judge.Count{All: 1, Failing: c.failing}}}}
			if c.words != "" {
				verdict.Message = "no pods"
			}
			seen := rollout.BrakeSeen{
				Pools:  []rollout.BrakePool{{Name: "general", Definition: "1", Revision: "main@sha1:1", Verdict: verdict}},
				Policy: v1alpha1.RolloutPolicy{Waves: &c.waves}, WatchUntil: &until, Now: at(c.minute).Time,
			}
			if c.seen != nil {
				c.seen(&seen)
			}
			next, _ := rollout.Next(before, seen)
			wave := next[0].Wave
			if got := wave.WatchedAt != nil; got != c.want || got && wave.Message != c.words {
				t.Errorf("watched at %v, %q", wave.WatchedAt, wave.Message)
			}
			if failed := next[0].Reason == v1alpha1.BrakeFailedWave; failed != (c.state == judge.Bad) {
				t.Errorf("stopped: %t", failed)
			}
		})
	}
}

// TestTheEndIsJudgedAgain: a verdict from before the end of the watch does not count at its end.
func TestTheEndIsJudgedAgain(t *testing.T) {
	w := newWorld(t)
	w.waves(1)
	until := at(6)
	w.rollout.Outdated, w.rollout.WatchUntil = 0, &until
	w.pass(true)
	w.sync.Status.PoolRollouts[0].Wave = &v1alpha1.RolloutWave{Number: 2, State: v1alpha1.WaveLast, Since: at(1), BeganAt: at(4)}
	w.claims = []plan.NodeClaim{{Name: "new", Pool: "general", Node: "node-new", Created: at(2).Time, Initialized: true}}
	judged := 0
	w.judge = func(context.Context, judge.Wave) (judge.Verdict, error) {
		judged++
		return judge.Verdict{State: judge.Good, Again: w.now.Add(time.Hour)}, nil
	}
	for _, look := range []struct {
		minute, judged int
		watched        bool
	}{{5, 1, false}, {6, 2, true}, {7, 2, true}} {
		w.now = at(look.minute).Time
		w.pass(true)
		if got := w.sync.Status.PoolRollouts[0].Wave.WatchedAt != nil; judged != look.judged || got != look.watched {
			t.Errorf("minute %d: judged %d times, watched %t", look.minute, judged, got)
		}
	}
}

// TestConditionsAreJudged: a wave with good workloads is not good while a condition of spec.rollout.holdWhile has not
// answered or cannot be queried, and it is not bad either.
func TestConditionsAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		seen    func(*rollout.BrakeSeen)
		verdict judge.State
		want    string
	}{
		"they are false":                  {verdict: judge.Good, want: "2/4 Open 0/2 [2]"},
		"no answer yet":                   {seen: func(s *rollout.BrakeSeen) { s.Unasked = true }, verdict: judge.Good, want: "1/4 Judging 1/1 [0] next 35 (the conditions of spec.rollout.holdWhile are being queried)"},
		"unreachable":                     {seen: func(s *rollout.BrakeSeen) { s.Unreachable = "errors cannot be queried: EOF" }, verdict: judge.Good, want: "1/4 Judging 1/1 [0] next 35 (errors cannot be queried: EOF)"},
		"unreachable, and workloads fail": {seen: func(s *rollout.BrakeSeen) { s.Unreachable = "errors cannot be queried: EOF" }, verdict: judge.Bad, want: "1/4 Failed 1/1 [0]"},
		"true":                            {seen: func(s *rollout.BrakeSeen) { s.Held = "errors: the query has a result" }, verdict: judge.Good, want: "1/4 Judging 1/1 [0]"},
	} {
		t.Run(name, func(t *testing.T) {
			replaced := at(5)
			before := v1alpha1.PoolRollout{Pool: "general", Definition: "1", Since: at(4), Revision: "main@sha1:1", Wave: &v1alpha1.RolloutWave{
				Number: 1, Of: 4, State: v1alpha1.WaveJudging, Size: 1, Begun: 1, Waiting: 7, Since: at(4), BeganAt: at(4), ReplacedAt: &replaced,
			}}
			seen := rollout.BrakeSeen{
				Pools: []rollout.BrakePool{{
					Name: "general", Definition: "1", Revision: "main@sha1:1", Nodes: rollout.WaveNodes{Waiting: names(2, 8)}, Verdict: judge.Verdict{State: c.verdict},
				}},
				Since: at(0), Now: at(16).Time,
			}
			if c.seen != nil {
				c.seen(&seen)
			}
			next, _ := rollout.Next([]v1alpha1.PoolRollout{before}, seen)
			if diff := cmp.Diff(c.want, waveText(next[0].Wave)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNodesThatNoCommitHasOutdated: by default they are replaced in waves, if there are more than three.
func TestNodesThatNoCommitHasOutdated(t *testing.T) {
	for name, c := range map[string]struct {
		policy  v1alpha1.RolloutPolicy
		waiting int
		want    string
		stopped bool
	}{
		"by default":    {waiting: 8, want: "1/4 Open 0/1 [1]"},
		"three nodes":   {waiting: 3},
		"reported":      {policy: v1alpha1.RolloutPolicy{UnexpectedDrift: v1alpha1.RolloutReport}, waiting: 8},
		"stopped":       {policy: v1alpha1.RolloutPolicy{UnexpectedDrift: v1alpha1.RolloutBrake}, waiting: 8, stopped: true},
		"waves are off": {policy: v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Disabled: true}}, waiting: 8},
		"only reports":  {policy: v1alpha1.RolloutPolicy{OnFailure: v1alpha1.RolloutReport}, waiting: 8},
	} {
		t.Run(name, func(t *testing.T) {
			pool := rollout.BrakePool{Name: "general", Definition: "1", Uncommitted: "AMIDrift", Nodes: rollout.WaveNodes{Waiting: names(1, c.waiting)}}
			before := []v1alpha1.PoolRollout{{Pool: "general", Definition: "1", Since: at(0)}} // the first nodes were found earlier
			next, _ := rollout.Next(before, rollout.BrakeSeen{Pools: []rollout.BrakePool{pool}, Policy: c.policy, Since: at(0), Now: at(1).Time})
			if got := waveText(next[0].Wave); got != c.want || (next[0].BrakedAt != nil) != c.stopped {
				t.Errorf("wave %q, stopped since %v; want %q", got, next[0].BrakedAt, c.want)
			}
			resumed := at(0)
			before[0].ResumedAt = &resumed
			next, _ = rollout.Next(before, rollout.BrakeSeen{Pools: []rollout.BrakePool{pool}, Policy: c.policy, Since: at(0), Now: at(1).Time})
			if next[0].Wave != nil {
				t.Errorf("a person has resumed it, and the wave is %s", waveText(next[0].Wave))
			}
		})
	}
}

// TestWaveWords is the text of statuses.
func TestWaveWords(t *testing.T) {
	next := at(26)
	for want, w := range map[string]*v1alpha1.RolloutWave{
		"": nil,
		"wave 3 of 6: 4 of 7 new nodes good, next at 12:26 UTC":                                 {Number: 3, Of: 6, State: v1alpha1.WaveJudging, New: 7, Good: 4, NextAt: &next},
		"wave 1 of 4: 0 of 1 replacement begun":                                                 {Number: 1, Of: 4, State: v1alpha1.WaveOpen, Size: 1},
		"wave 4 of 4: the remaining nodes, 1 of 1 new node good":                                {Number: 4, Of: 4, State: v1alpha1.WaveLast, New: 1, Good: 1},
		"wave 1 of 4: inconclusive, continue it with plumbline resume-rollout --wave (no pods)": {Number: 1, Of: 4, State: v1alpha1.WaveHeld, Message: "no pods"},
	} {
		if got := rollout.WaveWords(w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
