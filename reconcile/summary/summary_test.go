package summary_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestTheStateIsOfReadyAndRolledOut shows that applied definitions are not in sync while nodes do not match them.
func TestTheStateIsOfReadyAndRolledOut(t *testing.T) {
	stopped := metav1.Now()
	held := []v1alpha1.PoolRollout{{Pool: "a", Reason: v1alpha1.BrakeHeldByCondition, BrakedAt: &stopped}}
	failed := []v1alpha1.PoolRollout{{Pool: "a", Reason: v1alpha1.BrakeFailedLaunches, BrakedAt: &stopped}}
	for name, c := range map[string]struct {
		ready, rolledOut string // the reasons; empty is True
		pools            []v1alpha1.PoolRollout
		want             summary.State
		headline, says   string
	}{
		"each node matches":         {want: summary.InSync, headline: "in sync", says: "applied"},
		"it rolls out":              {rolledOut: v1alpha1.ReasonRollingOut, want: summary.RollingOut, headline: "rolling out: 0 of 2 nodes replaced", says: "rolling out: of nodes"},
		"it will take too long":     {rolledOut: v1alpha1.ReasonRolloutLate, want: summary.RollingOut, headline: "rolling out: 0 of 2 nodes replaced", says: "rolling out: of nodes"},
		"it is stopped":             {rolledOut: v1alpha1.ReasonRolloutBraked, pools: failed, want: summary.RolloutStopped, headline: "rollout stopped: 0 of 2 nodes replaced", says: "of nodes"},
		"it is held":                {rolledOut: v1alpha1.ReasonRolloutBraked, pools: held, want: summary.RolloutHeld, headline: "rollout held: 0 of 2 nodes replaced", says: "of nodes"},
		"it takes too long":         {rolledOut: v1alpha1.ReasonRolloutTimedOut, want: summary.RolloutFailing, headline: "rollout failing: 0 of 2 nodes replaced", says: "of nodes"},
		"it fails, and is reported": {rolledOut: v1alpha1.ReasonRolloutFailing, want: summary.RolloutFailing, headline: "rollout failing: 0 of 2 nodes replaced", says: "of nodes"},
		"something else is waited":  {ready: v1alpha1.ReasonWaiting, rolledOut: v1alpha1.ReasonRollingOut, want: summary.Waiting, headline: "waiting", says: "applied"},
		"and it is stopped":         {ready: v1alpha1.ReasonRemoving, rolledOut: v1alpha1.ReasonRolloutBraked, pools: failed, want: summary.RolloutStopped, headline: "rollout stopped: 0 of 2 nodes replaced", says: "of nodes"},
	} {
		sync := &v1alpha1.NodeSync{}
		sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision = "a", "a"
		conditions.MarkTrue(sync, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
		if c.ready != "" {
			conditions.MarkUnknown(sync, meta.ReadyCondition, c.ready, "applied")
		}
		conditions.MarkTrue(sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonSucceeded, "of nodes")
		if c.rolledOut != "" {
			conditions.MarkFalse(sync, v1alpha1.RolledOutCondition, c.rolledOut, "of nodes")
			sync.Status.Rollout, sync.Status.PoolRollouts = &v1alpha1.Rollout{Nodes: 2, Outdated: 2}, c.pools
		}
		got := summary.Of(sync)
		if got.State != string(c.want) || got.Headline() != c.headline || summary.Message(sync) != c.says {
			t.Errorf("%s: %q, %q, %q", name, got.State, got.Headline(), summary.Message(sync))
		}
	}
}

// TestSupportIsALine shows that the end of support is reported, before and after it, and changes no state.
func TestSupportIsALine(t *testing.T) {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		sync := &v1alpha1.NodeSync{}
		sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision = "a", "a"
		conditions.MarkTrue(sync, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
		conditions.Set(sync, &metav1.Condition{Type: v1alpha1.KarpenterUnsupportedCondition, Status: status, Reason: "any", Message: "out of support"})
		got := summary.Of(sync)
		if at := slices.IndexFunc(got.Lines(), func(l summary.Line) bool { return l.About == "support" && l.Text == "out of support" }); at < 0 || got.State != string(summary.InSync) {
			t.Errorf("%s: state %s, %+v", status, got.State, got.Lines())
		}
	}
}

// TestImagesAreALine shows that the pull request with newer AMIs, what it waits for, and what is too old are reported.
func TestImagesAreALine(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	if got := summary.Of(sync).Images; got != "" {
		t.Errorf("without a train: %q", got)
	}
	sync.Status.Images = &v1alpha1.ImageTrainStatus{URL: "https://git/pulls/7", Aliases: []string{"al2023@v1 → al2023@v2"}, Message: "AWS does not answer"}
	conditions.Set(sync, &metav1.Condition{Type: v1alpha1.ImagesOutdatedCondition, Status: metav1.ConditionTrue, Reason: "any", Message: "too old"})
	want := "al2023@v1 → al2023@v2: https://git/pulls/7; AWS does not answer; too old"
	if at := slices.IndexFunc(summary.Of(sync).Lines(), func(l summary.Line) bool { return l.About == "images" && l.Text == want }); at < 0 {
		t.Errorf("%+v", summary.Of(sync).Lines())
	}
}

// TestRingsAreALine shows what the newest commit waits for, and that the record of the cluster is not shared.
func TestRingsAreALine(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	if got := summary.Of(sync).Rings; got != "" {
		t.Errorf("without rings: %q", got)
	}
	sync.Spec.Promotion = &v1alpha1.Promotion{Cluster: "eu", Ring: "prod"}
	sync.Status.Promotion = &v1alpha1.PromotionStatus{RecordFailure: "the host refuses the push"}
	conditions.Set(sync, &metav1.Condition{Type: v1alpha1.PromotedCondition, Status: metav1.ConditionFalse, Reason: "Soaking", Message: "abc1234 is not taken: soaks"})
	want := "abc1234 is not taken: soaks; later rings do not see this cluster: the host refuses the push"
	if at := slices.IndexFunc(summary.Of(sync).Lines(), func(l summary.Line) bool { return l.About == "rings" && l.Text == want }); at < 0 {
		t.Errorf("%+v", summary.Of(sync).Lines())
	}
}

// TestForkIsALine shows that what is unknown under a fork is reported while it is in force.
func TestForkIsALine(t *testing.T) {
	for version, want := range map[string]bool{"1.14.0": false, "1.14.0+acme.3": true, "": false} {
		status := summary.Status{Karpenter: &v1alpha1.KarpenterStatus{Version: version}}
		if is := slices.ContainsFunc(status.Lines(), func(l summary.Line) bool { return l.About == "fork" }); is != want {
			t.Errorf("%q: %+v", version, status.Lines())
		}
	}
}

// TestMissingNodesAreNotInSync shows this if each node matches, and a NodePool does not have the nodes that Git or a
// pod requires.
func TestMissingNodesAreNotInSync(t *testing.T) {
	at := metav1.Unix(9, 0)
	short := []v1alpha1.LaunchFailure{{Pool: "a", Message: "no capacity", Missing: "1 of 2 nodes of NodePool/a", Since: &at}, {Pool: "b", Message: "no capacity"}}
	for name, c := range map[string]struct {
		failing        []v1alpha1.LaunchFailure
		reason         string
		ready          string
		want           summary.State
		headline, says string
	}{
		"nodes are missing":           {failing: short, want: summary.LaunchFailing, headline: "launch failing: 1 of 2 nodes of NodePool/a", says: "launch failing: of launches"},
		"only the newest one failed":  {failing: short[1:], want: summary.InSync, headline: "in sync", says: "applied"},
		"they are missing for long":   {failing: short, reason: v1alpha1.ReasonRolloutTimedOut, want: summary.RolloutFailing, headline: "rollout failing: 1 of 2 nodes of NodePool/a", says: "rollout failing: of launches"},
		"a removal is open as well":   {failing: short, reason: v1alpha1.ReasonRolloutTimedOut, ready: v1alpha1.ReasonRemoving, want: summary.Removing, headline: "removing", says: "applied"},
		"the definitions are waiting": {failing: short, ready: v1alpha1.ReasonWaiting, want: summary.Waiting, headline: "waiting", says: "applied"},
	} {
		sync := &v1alpha1.NodeSync{}
		sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision, sync.Status.LaunchFailing = "a", "a", c.failing
		conditions.MarkTrue(sync, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
		if c.ready != "" {
			conditions.MarkUnknown(sync, meta.ReadyCondition, c.ready, "applied")
		}
		conditions.MarkTrue(sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonSucceeded, "of nodes")
		conditions.MarkTrue(sync, v1alpha1.LaunchFailingCondition, cmp.Or(c.reason, v1alpha1.ReasonLaunchFailed), "of launches")
		got := summary.Of(sync)
		if got.State != string(c.want) || got.Headline() != c.headline || summary.Message(sync) != c.says {
			t.Errorf("%s: %q, %q, %q", name, got.State, got.Headline(), summary.Message(sync))
		}
		if ofLaunches := c.want == summary.LaunchFailing || c.want == summary.RolloutFailing; ofLaunches && (summary.Since(sync) == nil || !summary.Since(sync).Equal(&at)) {
			t.Errorf("%s: since %v", name, summary.Since(sync))
		}
	}
}

// TestTheRolloutHasAnEstimate shows when it is expected to be complete, and first of all that this is too late.
func TestTheRolloutHasAnEstimate(t *testing.T) {
	at := metav1.Unix(1_800_000_000, 0)
	sync := &v1alpha1.NodeSync{}
	sync.Status.Rollout = &v1alpha1.Rollout{
		Nodes: 3, Outdated: 2, Message: "waits for a budget",
		Estimate: &v1alpha1.RolloutEstimate{EndsAt: &at, Pool: "a", LimitedBy: v1alpha1.LimitBudgets, ExceedsSince: &at},
	}
	got := map[string]string{}
	for _, line := range summary.Of(sync).Lines() {
		got[line.About] = line.Text
	}
	for about, want := range map[string]string{
		"rollout":  "will exceed rollout.timeout: 2 of 3 nodes wait for a budget",
		"estimate": "complete about Fri 15 Jan 08:00 UTC; limited by disruption budgets of NodePool/a",
	} {
		if got[about] != want {
			t.Errorf("%s: %q, want %q", about, got[about], want)
		}
	}
}
