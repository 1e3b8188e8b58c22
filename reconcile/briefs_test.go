package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// poolsLeaving are removals of NodePools, all in one phase and with one message.
func poolsLeaving(n int, phase v1alpha1.RemovalPhase, remaining int32, message string) found {
	return func(p *pass) {
		for i := range n {
			p.sync.Status.Removals = append(p.sync.Status.Removals, v1alpha1.Removal{
				Kind: render.NodePool, Name: fmt.Sprintf("general-purpose-%d", i), Phase: phase, Remaining: remaining, Message: message,
			})
		}
	}
}

// TestCommitStatusSaysTheReason shows that the 140 characters that a Git host allows contain, without repetition, the
// object and the reason of what the guard holds, what stalls, what is removed and what is waited for.
func TestCommitStatusSaysTheReason(t *testing.T) {
	const guard = "2 NodePools would be removed, but guard.maxRemovedPools allows 1: set it to 2, or add NodePools back to Git: general-purpose-0, general-purpose-1"
	const blocked = "node ip-10-0-12-34.eu-west-1.compute.internal (NodeClaim/general-purpose-0-x7k2p) waits for pod web/web-7d9f, of which PodDisruptionBudget web/web allows no disruption (healthy: 2 of 3, 2 needed)"
	stall := func(p *pass) {
		poolsLeaving(1, v1alpha1.RemovalDraining, 2, blocked)(p)
		at := metav1.NewTime(p.now.Truncate(time.Second))
		p.sync.Status.Removals[0].Stalled = &at
	}
	moving := func(p *pass) {
		poolsLeaving(1, v1alpha1.RemovalDraining, 2, "")(p)
		p.sync.Status.Removals[0].MovesTo = []string{"general2"}
	}
	changeHeld := func(p *pass) {
		p.Held = []status.Held{{
			Ref:     render.Ref{Kind: render.NodePool, Name: strings.Repeat("a", 63)},
			Message: "1234 nodes would be disrupted, but guard.maxDisruptedNodes allows 1000: set it to 1234 (it is 1000), or change less in one commit: NodePool/a (1234)",
		}}
	}
	cases := map[string]struct {
		found found
		want  string
	}{
		"held":           {poolsLeaving(2, v1alpha1.RemovalHeld, 3, guard), "held: 2 NodePools would be removed, but guard.maxRemovedPools allows 1: set it to 2, or add NodePools… (…/general-purpose-0 and 1 more)"},
		"500 held":       {poolsLeaving(500, v1alpha1.RemovalHeld, 3, "guard.maxRemovedPools is 1"), "held: guard.maxRemovedPools is 1 (removal of NodePool/general-purpose-0 and 499 more)"},
		"a long name":    {changeHeld, "guard.maxDisruptedNodes allows 1000: set it to 1234"},
		"stalled":        {stall, "NodePool/general-purpose-0: removal stalled: node ip-10-0-12-34.eu-west-1.compute.internal"},
		"recorded":       {poolsLeaving(1, v1alpha1.RemovalPacing, 3, ""), "removing NodePool/general-purpose-0: recorded, waiting to start (3 nodes left)"},
		"draining":       {poolsLeaving(3, v1alpha1.RemovalDraining, 1, ""), "removing NodePool/general-purpose-0 and 2 more: draining (1 node left)"},
		"moving":         {moving, "moving NodePool/general-purpose-0 → general2: draining (2 nodes left)"},
		"asking":         {poolsLeaving(1, v1alpha1.RemovalVerifyingCloud, 2, ""), "removing NodePool/general-purpose-0: asking EC2 for its instances (2 instances left)"},
		"waits":          {func(p *pass) { p.Wait("NodePool/a", "NodePool/a is not Ready: NodeClassReady: no") }, "waiting: NodePool/a is not Ready: NodeClassReady: no"},
		"waits, no word": {func(p *pass) { p.Wait("Controller", "") }, "waiting for Controller"},
		"fought for": {func(p *pass) {
			p.stages.Paused = []survey.Drift{{Object: "ClusterRole karpenter", Fields: []string{"rules"}, Editor: "argocd", Operation: "Apply"}}
		}, "reverted 3 times within an hour; correction is paused"},
		"drifted": {func(p *pass) {
			p.Drifts = []status.Drift{{Ref: render.Ref{Kind: render.NodePool, Name: "a"}, Reported: true}}
		}, "differs from Git, and drift is Report: NodePool/a"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newBed(t, nodeSync(unchanged)).pass()
			c.found(p)
			p.summarize(t.Context())
			got := p.verdict().CommitText()
			if n := utf8.RuneCountInString(got); n > fault.MaxBrief || !strings.Contains(got, c.want) {
				t.Errorf("%d characters: %s\nwant %s", n, got, c.want)
			}
		})
	}
}

// TestABriefIsHiddenBeforeItIsCut shows that redaction comes before truncation: half of a secret is still one.
func TestABriefIsHiddenBeforeItIsCut(t *testing.T) {
	secret := strings.Repeat("s3cret-", 12) + "end"
	p := newBed(t, nodeSync(unchanged)).pass()
	p.memory.conclude.HideValues([]string{secret})
	stopped(t, &release.RejectedError{Rejections: []string{strings.Repeat("value ", 10) + secret}})(p)
	if got := p.summarize(t.Context()).Verdict().CommitText(); strings.Contains(got, "s3cret") || !strings.Contains(got, redact.Mask) {
		t.Error(got)
	}
}
