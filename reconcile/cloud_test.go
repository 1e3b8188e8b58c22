package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestACloudThatHangsHoldsUpNoPass: its two questions together have no longer
// than the pass may take, and never longer than a quarter of a minute.
func TestACloudThatHangsHoldsUpNoPass(t *testing.T) {
	for name, c := range map[string]struct{ timeout, most time.Duration }{
		"a long timeout":  {time.Hour, maxCloudPatience},
		"a short timeout": {4 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Timeout = &metav1.Duration{Duration: c.timeout} }))
			p := b.pass()
			p.want.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu", Region: "eu-west-1"}}
			if err := p.verifyCloud(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, _ = impatient{b.cloud, p.cloudPatience()}.Instances(t.Context(), cloud.Query{})
			var sum time.Duration
			for _, patience := range b.cloud.patience {
				if patience == 0 {
					t.Error("a question is waited for without end")
				}
				sum += patience
			}
			if len(b.cloud.patience) != 2 || sum > c.most {
				t.Errorf("questions may take %s, in all at most %s", b.cloud.patience, c.most)
			}
		})
	}
}

// TestWhatCannotBeTakenBackNeedsAFreshAnswer: in the phases in which a removal
// deletes NodeClaims or believes EC2, the account is asked about each time.
func TestWhatCannotBeTakenBackNeedsAFreshAnswer(t *testing.T) {
	fresh := map[v1alpha1.RemovalPhase]bool{v1alpha1.RemovalPacing: true, v1alpha1.RemovalDraining: true, v1alpha1.RemovalVerifyingCloud: true}
	for _, phase := range []v1alpha1.RemovalPhase{
		v1alpha1.RemovalHeld, v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud, v1alpha1.RemovalFinalizing,
	} {
		p := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Status.Removals = []v1alpha1.Removal{{Phase: phase}} })).pass()
		if got := p.aboutToEnd(); got != fresh[phase] {
			t.Errorf("%s: fresh = %t, want %t", phase, got, fresh[phase])
		}
	}
}

// TestTheAccountIsAskedAboutTheSameInstances: a cache lists in no order, and a
// condition may not change with it.
func TestTheAccountIsAskedAboutTheSameInstances(t *testing.T) {
	var claims []plan.NodeClaim
	for i := range 3 * maxProviderIDs {
		claims = append(claims, plan.NodeClaim{ProviderID: fmt.Sprintf("aws:///eu-west-1a/i-%03d", i), Deleting: i == 1})
	}
	var want []string
	for range 3 {
		p := &pass{live: plan.Live{NodeClaims: claims}}
		got := p.providerIDs()
		if len(got) != maxProviderIDs || slices.Contains(got, "aws:///eu-west-1a/i-001") {
			t.Errorf("asked about %v", got)
		}
		if diff := cmp.Diff(want, got); want != nil && diff != "" {
			t.Errorf("the order of the NodeClaims changes the question (-before +after):\n%s", diff)
		}
		want = got
		claims = append(claims[len(claims)/2:], claims[:len(claims)/2]...)
		slices.Reverse(claims[:10])
	}
}

// TestAccountOfADisruptedZone: EC2 fails, and shows one of the live instances all the
// same. It is this account.
func TestAccountOfADisruptedZone(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.inAccount(prodEU("111122223333", "ours"))
	for shown, want := range map[string]string{"i-1": cloud.ReasonVerified, "": "Failed"} {
		p := b.pass()
		p.want.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu", Region: "eu-west-1"}}
		p.live.NodeClaims = []plan.NodeClaim{{Name: "a", ProviderID: "aws:///eu-west-1a/i-1"}, {Name: "b", ProviderID: "aws:///eu-west-1b/i-2"}}
		b.cloud.silence, b.cloud.running = errUnreachable, nil
		if shown != "" {
			b.cloud.running = []cloud.Instance{{ID: shown}}
		}
		p.askAboutAccount(t.Context())
		if got := conditions.GetReason(p.sync, v1alpha1.CloudVerifiedCondition); got != want {
			t.Errorf("with %q shown: %s, want %s", shown, got, want)
		}
	}
}

// TestForeignProviderIDs are left out of the question, and reported once.
func TestForeignProviderIDs(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	claims := []plan.NodeClaim{
		{Name: "a", Pool: "batch", ProviderID: "aws:///eu-west-1a/i-1"},
		{Name: "b", Pool: "batch", ProviderID: "kwok://node"},
		{Name: "c", Pool: "batch", ProviderID: "aws:////i-3"},
		{Name: "new", Pool: "batch"},
	}
	for round := range 2 {
		p := b.pass()
		p.live.NodeClaims = claims
		p.askAboutAccount(t.Context())
		if diff := cmp.Diff([]string{"aws:///eu-west-1a/i-1"}, p.providerIDs()); diff != "" {
			t.Errorf("asked about (-want +got):\n%s", diff)
		}
		want := []finding.Note{{Type: "Warning", Reason: "ProviderIDForeign", Message: "NodeClaim/b of NodePool/batch (kwok://node), NodeClaim/c of NodePool/batch (aws:////i-3): not an instance of EC2, which cannot say whether it has ended: a removal of its pool is not verified by itself"}}
		if round > 0 {
			want = nil
		}
		if diff := cmp.Diff(want, p.Notes); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	}
}
