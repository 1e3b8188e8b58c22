package rollout_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestANodeClaimWithoutAHash keeps a rollout in progress that has changed its pool's hash, because nothing shows
// whether it matches: it is counted and named, with what to do. Once it is gone, the rollout is complete; a newer one
// does not belong to it.
func TestANodeClaimWithoutAHash(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	claim := func(name string, created time.Time) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: "a", Class: "c", ProviderID: "aws:///z/i-" + name, Created: created}
	}
	noted := pool("a")
	noted.Live.SetAnnotations(map[string]string{"karpenter.sh/nodepool-hash": "2", "karpenter.sh/nodepool-hash-version": "v3"})
	before := &v1alpha1.Rollout{
		Revision: "main@sha1:1", Since: metav1.NewTime(now.Add(-time.Minute)), LastProgress: metav1.NewTime(now), Nodes: 2, Outdated: 1, Unhashed: []string{"NodePool/a"},
	}
	old, young := claim("old", now.Add(-time.Hour)), claim("young", now)
	young.ProviderID = "" // it is being launched
	for name, c := range map[string]struct {
		unhashed []string
		claims   []plan.NodeClaim
		want     string // of the status; empty: it is complete
	}{
		"it was there before":           {before.Unhashed, []plan.NodeClaim{old}, "1 of 2 nodes replaced: unknown whether NodeClaim old is up to date, because it has no hash for Karpenter to compare: delete it to have Karpenter replace it"},
		"and another one has come":      {before.Unhashed, []plan.NodeClaim{old, young}, "1 of 2 nodes replaced: unknown whether NodeClaim old is up to date, because it has no hash for Karpenter to compare: delete it to have Karpenter replace it"},
		"it is gone":                    {before.Unhashed, []plan.NodeClaim{young}, ""},
		"another pool's hash was given": {[]string{"NodePool/b"}, []plan.NodeClaim{old}, "2 of 2 nodes replaced: Karpenter queries AWS for other outdated nodes until 12:06 UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			from := before.DeepCopy()
			from.Unhashed = c.unhashed
			r := rollout.Rollouts{
				Live:  plan.Live{Objects: map[render.Ref]*plan.Object{{Kind: render.NodePool, Name: "a"}: noted.Live}, NodeClaims: c.claims},
				Pools: []rollout.Pool{noted}, Events: &spoken{}, Before: from, Reported: from, Now: now, Memory: &rollout.Memory{},
			}
			looked := r.Look(t.Context())
			switch got := looked.Rollout; {
			case got == nil && c.want == "":
			case got == nil || c.want == "" || rollout.Words(*got) != c.want:
				t.Fatalf("got %+v, want %q", got, c.want)
			case looked.Unknown != strings.Contains(c.want, "unknown"):
				t.Errorf("the brake takes nodes to be unknown: %t", looked.Unknown)
			}
		})
	}
}
