package status

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

// TestWhatIsLeftOfAnOvertakenCommit shows that it is reported only if another commit continues with its nodes.
func TestWhatIsLeftOfAnOvertakenCommit(t *testing.T) {
	of := func(commit string, outdated int32) *v1alpha1.Rollout {
		return &v1alpha1.Rollout{Revision: "main@sha1:" + commit, Nodes: 3, Outdated: outdated}
	}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	settling := func(outdated int32, until time.Duration) *v1alpha1.Rollout {
		at, r := metav1.NewTime(began.Add(until)), of("a", outdated)
		r.SettlesAt = &at
		return r
	}
	for name, c := range map[string]struct {
		was, is *v1alpha1.Rollout
		want    map[string]string
	}{
		"Karpenter queries AWS":     {was: settling(0, time.Minute), is: of("b", 3), want: map[string]string{"a": "before Karpenter had compared its nodes"}},
		"some are outdated":         {was: settling(2, time.Minute), is: of("b", 3), want: map[string]string{"a": "2 of its 3 nodes were left"}},
		"Karpenter has queried AWS": {was: settling(0, -time.Minute), is: of("b", 3)},
		"another commit":            {was: of("a", 2), is: of("b", 3), want: map[string]string{"a": "2 of its 3 nodes were left"}},
		"the same":                  {was: of("a", 2), is: of("a", 1)},
		"it is over":                {was: of("a", 2)},
		"the first":                 {is: of("a", 2)},
		"none had been begun":       {was: of("a", 0), is: of("b", 3)},
		"the rest is none of its":   {was: of("a", 2), is: &v1alpha1.Rollout{Nodes: 2, Outdated: 2}},
		"drift by no commit":        {was: &v1alpha1.Rollout{Nodes: 3, Outdated: 2}, is: of("b", 3)},
	} {
		s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Began: began}
		s.Before.Status.Rollout, s.Sync.Status.Rollout = c.was, c.is
		if diff := cmp.Diff(c.want, s.notReplaced()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestHowFarAnOlderCommitHadCome shows the progress of its nodes, or else what of it was applied.
func TestHowFarAnOlderCommitHadCome(t *testing.T) {
	of := func(commit string) string { return "main@sha1:" + commit }
	for name, c := range map[string]struct {
		status v1alpha1.NodeSyncStatus
		want   map[string]string
	}{
		"nodes":   {v1alpha1.NodeSyncStatus{LastAttemptedRevision: of("a"), LastAppliedRevision: of("a"), Rollout: &v1alpha1.Rollout{Revision: of("a"), Nodes: 40, Outdated: 35}}, map[string]string{"a": "5 of its 40 nodes matched it"}},
		"one":     {v1alpha1.NodeSyncStatus{LastAttemptedRevision: of("a"), Rollout: &v1alpha1.Rollout{Revision: of("a"), Nodes: 1, Outdated: 1}}, map[string]string{"a": "0 of its 1 node matched it"}},
		"AWS":     {v1alpha1.NodeSyncStatus{LastAttemptedRevision: of("a"), Rollout: &v1alpha1.Rollout{Revision: of("a")}}, map[string]string{"a": "no node was known to be outdated by it"}},
		"applied": {v1alpha1.NodeSyncStatus{LastAttemptedRevision: of("a"), LastAppliedRevision: of("a")}, map[string]string{"a": "all of it was applied"}},
		"partly":  {v1alpha1.NodeSyncStatus{LastAttemptedRevision: of("b"), LastAppliedRevision: of("a"), PartlyAppliedRevision: of("b")}, map[string]string{"b": "a part of it was applied"}},
		"not":     {v1alpha1.NodeSyncStatus{LastAttemptedRevision: of("b"), LastAppliedRevision: of("a"), Rollout: &v1alpha1.Rollout{Revision: of("a"), Nodes: 2, Outdated: 1}}, map[string]string{"b": "nothing of it was applied", "a": "1 of its 2 nodes matched it"}},
		"drift":   {v1alpha1.NodeSyncStatus{LastAttemptedRevision: of("a"), LastAppliedRevision: of("a"), Rollout: &v1alpha1.Rollout{Nodes: 2, Outdated: 1}}, map[string]string{"a": "all of it was applied"}},
		"first":   {v1alpha1.NodeSyncStatus{}, nil},
	} {
		s := &Step{Before: &v1alpha1.NodeSync{Status: c.status}}
		if diff := cmp.Diff(c.want, s.lastProgress()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestACommitWhoseNodesMatchAgain shows that it was reverted by the commit that makes them match, and by no other.
func TestACommitWhoseNodesMatchAgain(t *testing.T) {
	of := func(commit, by string, all, matching, left int) rollout.Restored {
		return rollout.Restored{Revision: "main@sha1:" + commit, By: "main@sha1:" + by, All: all, Nodes: matching, Left: left}
	}
	for name, c := range map[string]struct {
		restored rollout.Restored
		applied  string
		want     map[string]string
	}{
		"no node was replaced":   {restored: of("a", "c", 2, 2, 0), applied: "c", want: map[string]string{"a": "0 of its 2 nodes were replaced"}},
		"some were":              {restored: of("a", "c", 40, 35, 0), applied: "c", want: map[string]string{"a": "5 of its 40 nodes were replaced"}},
		"one":                    {restored: of("a", "c", 1, 1, 0), applied: "c", want: map[string]string{"a": "0 of its 1 node was replaced"}},
		"others are left":        {restored: of("a", "c", 3, 2, 1), applied: "c", want: map[string]string{"a": "2 of its 3 nodes are not to be replaced any more"}},
		"none":                   {applied: "c"},
		"an older one did it":    {restored: of("a", "b", 2, 2, 0), applied: "c"},
		"nothing of it is there": {restored: of("a", "c", 2, 2, 0), applied: "b"},
		"it is its own":          {restored: of("c", "c", 2, 2, 0), applied: "c"},
	} {
		s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Found: Found{Restored: c.restored}}
		s.Commit, s.Sync.Status.LastAppliedRevision = "c", "main@sha1:"+c.applied
		if diff := cmp.Diff(c.want, s.reverted()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestHowOneEndsUnderOneThatIsRefused shows that the state of its nodes decides, if it was checked, and that it is a
// success only if no problem is known.
func TestHowOneEndsUnderOneThatIsRefused(t *testing.T) {
	broken := &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonInvalid, Err: errors.New("no apiVersion")}
	braked := []v1alpha1.PoolRollout{{Pool: "general", Reason: v1alpha1.BrakeFailedLaunches, Message: "no node joins"}}
	goesOn := &v1alpha1.Rollout{Revision: "main@sha1:a", Nodes: 2, Outdated: 1}
	for name, c := range map[string]struct {
		rollout *v1alpha1.Rollout
		pools   []v1alpha1.PoolRollout
		found   Found
		partly  string
		want    report.State
	}{
		"it goes on":              {rollout: goesOn, found: Found{SawRollout: true, Held: []Held{{}}}},
		"it has ended":            {found: Found{SawRollout: true, Held: []Held{{}}}, want: report.Success},
		"something is waited for": {found: Found{SawRollout: true, Held: []Held{{}}, LaunchFailures: nil, Applying: 1}},
		"it fails":                {rollout: goesOn, pools: braked, found: Found{SawRollout: true, Held: []Held{{}}}, want: report.Failure},
		"and cannot be rendered":  {rollout: goesOn, pools: braked, found: Found{SawRollout: true, Fault: broken}, want: report.Failure},
		"nothing was looked at":   {found: Found{Fault: broken}},
		"nor anything but nodes":  {found: Found{SawRollout: true, Fault: broken}},
		"a part of the newer is":  {rollout: goesOn, pools: braked, partly: "main@sha1:b", found: Found{SawRollout: true, Held: []Held{{}}}, want: report.Failure},
		"and is in doubt":         {partly: "main@sha1:b", found: Found{SawRollout: true, Held: []Held{{}}}},
		"the newer is not failed": {rollout: goesOn, found: Found{SawRollout: true}},
	} {
		sync := &v1alpha1.NodeSync{}
		sync.Status = v1alpha1.NodeSyncStatus{LastAppliedRevision: "main@sha1:a", PartlyAppliedRevision: c.partly, Rollout: c.rollout, PoolRollouts: c.pools}
		s := &Step{Sync: sync, Before: sync.DeepCopy(), Found: c.found}
		s.Commit = "b"
		var want map[string]report.Word
		if c.want != "" {
			want = map[string]report.Word{"a": {State: c.want, Description: map[report.State]string{
				report.Success: "applied, Ready, each node matches", report.Failure: "rollout fails in general: no node joins",
			}[c.want]}}
		}
		if diff := cmp.Diff(want, s.ended(s.Verdict())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestARemovalThatIsHeldEndsNoOtherRollout shows this for a newer commit that contains only the removal and counts as
// applied.
func TestARemovalThatIsHeldEndsNoOtherRollout(t *testing.T) {
	of := func(commit string) *v1alpha1.Rollout {
		return &v1alpha1.Rollout{Revision: "main@sha1:" + commit, Nodes: 2, Outdated: 1}
	}
	for name, c := range map[string]struct {
		before, now *v1alpha1.Rollout
		refused     bool
		ended       report.State
	}{
		"the older one goes on": {before: of("a"), now: of("a"), refused: true},
		"it ends":               {before: of("a"), refused: true, ended: report.Success},
		"the newer one's":       {before: of("b"), now: of("b")},
		"none":                  {refused: true},
	} {
		sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{
			LastAppliedRevision: "main@sha1:b", Rollout: c.now, Removals: []v1alpha1.Removal{{Kind: "NodePool", Name: "batch", Phase: v1alpha1.RemovalHeld}},
		}}
		s := &Step{Sync: sync, Before: sync.DeepCopy(), Found: Found{SawRollout: true}}
		s.Commit, s.Before.Status.Rollout = "b", c.before
		if got := s.refused(s.Verdict()); got != c.refused {
			t.Errorf("%s: refused %t", name, got)
		}
		if got := s.ended(s.Verdict())["a"].State; got != c.ended {
			t.Errorf("%s: a ends with %q, want %q", name, got, c.ended)
		}
	}
}

// TestAnOlderCommitEndsByWhatIsItsOwn shows that removals of another commit neither keep it pending nor fail it. It is
// no success while nodes are replaced for any commit, or one of its pools launches none.
func TestAnOlderCommitEndsByWhatIsItsOwn(t *testing.T) {
	removal := func(commit string, phase v1alpha1.RemovalPhase) v1alpha1.Removal {
		return v1alpha1.Removal{Kind: "NodePool", Name: "of-" + commit, Revision: "main@sha1:" + commit, Phase: phase}
	}
	isStalled := removal("a", v1alpha1.RemovalDraining)
	isStalled.Stalled = &metav1.Time{}
	braked := []v1alpha1.PoolRollout{{Pool: "general", Reason: v1alpha1.BrakeFailedLaunches, Message: "no node joins"}}
	held := removal("b", v1alpha1.RemovalHeld)
	for name, c := range map[string]struct {
		removals []v1alpha1.Removal
		rollout  string
		pools    []v1alpha1.PoolRollout
		launches []rollout.LaunchFailure
		partly   string
		want     report.State
	}{
		"a change of it is not written":        {partly: "a", removals: []v1alpha1.Removal{held}},
		"another commit is not wholly written": {partly: "c", removals: []v1alpha1.Removal{held}, want: report.Success},
		"its removal goes on":                  {removals: []v1alpha1.Removal{removal("a", v1alpha1.RemovalDraining), held}},
		"its removal is held by now":           {removals: []v1alpha1.Removal{removal("a", v1alpha1.RemovalHeld), held}},
		"its removal is complete":              {removals: []v1alpha1.Removal{held}, want: report.Success},
		"its removal is stalled":               {removals: []v1alpha1.Removal{isStalled, held}, want: report.Failure},
		"another removal goes on":              {removals: []v1alpha1.Removal{removal("c", v1alpha1.RemovalDraining), held}, want: report.Success},
		"its rollout goes on":                  {rollout: "a"},
		"its rollout fails":                    {rollout: "a", pools: braked, want: report.Failure},
		"another rollout fails":                {rollout: "c", pools: braked},
		"nodes of no commit are not launched":  {rollout: "none", pools: braked},
		"nodes of no commit are outdated":      {rollout: "none"},
		"the brake holds its nodes":            {pools: []v1alpha1.PoolRollout{{Pool: "general", Revision: "main@sha1:a", Reason: v1alpha1.BrakeFailedLaunches}}},
		"another removal goes on, and its pool launches no node": {
			removals: []v1alpha1.Removal{removal("c", v1alpha1.RemovalDraining), held}, launches: []rollout.LaunchFailure{{Pool: "web", Why: "UnauthorizedOperation"}},
		},
	} {
		sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{LastAppliedRevision: "main@sha1:b", Removals: c.removals, PoolRollouts: c.pools}}
		if c.partly != "" {
			sync.Status.PartlyAppliedRevision = "main@sha1:" + c.partly
		}
		for _, r := range c.removals {
			if r.Phase != v1alpha1.RemovalHeld {
				sync.Status.OpenRemovals++
			}
		}
		if c.rollout != "" {
			sync.Status.Rollout = &v1alpha1.Rollout{Revision: "main@sha1:" + c.rollout, Nodes: 2, Outdated: 1}
		}
		s := &Step{Sync: sync, Before: sync.DeepCopy(), Found: Found{SawRollout: true}}
		s.Commit, s.LaunchFailures, s.Missing = "b", c.launches, map[string]rollout.Shortage{"web": {}}
		if got := s.settled("a").State; got != c.want {
			t.Errorf("%s: it ends with %q, want %q", name, got, c.want)
		}
	}
}
